//! Databases that the project's `.env` files name, or that lie in its folders, and that no checkpoint
//! would hold.

use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rappel_capture::databases::{lookup, postgres};
use rappel_store::held;
use rappel_types::RelPath;
use rappel_types::config::{DatabaseUrl, after_postgres_scheme, after_sqlite_scheme};
use rappel_types::{Advice, Remark};

use crate::rappel::Rappel;

/// Variables that name a database wherever they are used.
const USUAL: [&str; 6] =
    ["DATABASE_URL", "POSTGRES_URL", "PG_URL", "DB_URL", "DATABASE_URI", "POSTGRES_URI"];

/// Folders in which databases of SQLite usually lie.
const FOLDERS: [&str; 8] = ["", "data", "db", "prisma", "database", "instance", "storage", "var"];
/// How their names usually end.
const ENDINGS: [&str; 3] = ["db", "sqlite", "sqlite3"];
/// How many names of each folder are looked at.
const MOST_LOOKED_AT: usize = 500;

/// A database that was found and is not protected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    /// How people know it: a variable's name, or a path.
    pub name: String,
    by: By,
}

/// How a database was found.
#[derive(Debug, Clone, PartialEq, Eq)]
enum By {
    /// A variable names it. Its value is never kept.
    Variable {
        /// Where that is said.
        place: String,
        /// Whether it can be captured directly.
        supported: bool,
        /// Whether it is on another machine.
        remote: bool,
    },
    /// It is a SQLite file that a rule leaves out.
    Path,
}

impl Found {
    /// In a sentence.
    pub fn note(&self) -> Remark {
        let how = match self.is_supported() {
            true => Advice::AddDatabase { url: self.address() },
            false => Advice::plain("a [[command]] in rappel.toml can dump and load it"),
        };
        let name = &self.name;
        let text = match &self.by {
            By::Variable { place, .. } => {
                format!("database found, not protected: {name} in {place}")
            }
            By::Path => format!("database found, not protected: {name}"),
        };
        Remark::new(text, how)
    }

    fn is_supported(&self) -> bool {
        !matches!(self.by, By::Variable { supported: false, .. })
    }

    /// What `url` says.
    fn address(&self) -> String {
        let scheme = if self.by == By::Path { "sqlite" } else { "env" };
        format!("{scheme}:{}", self.name)
    }

    /// Whether [`Found::entry`] protects it.
    pub fn is_protected_by_entry(&self) -> bool {
        matches!(self.by, By::Path | By::Variable { supported: true, remote: false, .. })
    }

    /// As it goes into a new `rappel.toml`, under a name that is not among `taken`, where it is added.
    pub fn entry(&self, taken: &mut Vec<String>) -> String {
        let found = &self.name;
        let mut entry = |name: String| {
            let number = |number: u32| format!("{name}-{number}");
            let others = std::iter::once(long_name(found)).chain((2..).map(number));
            let mut names = std::iter::once(name.clone()).chain(others);
            let name = names.find(|name| !taken.contains(name)).unwrap_or_default();
            taken.push(name.clone());
            format!("[[database]]\nname = {name:?}\nurl = {:?}\n", self.address())
        };
        match &self.by {
            By::Path => format!("\n# Git ignores it.\n{}", entry(file_name(found))),
            By::Variable { place, supported: false, .. } => {
                format!("\n# {found} in {place} names a database; see [[command]] above.\n")
            }
            By::Variable { place, remote: false, .. } => {
                format!("\n# Named in {place}.\n{}", entry(name_of(found)))
            }
            By::Variable { place, .. } => {
                let entry = entry(name_of(found));
                let entry: String = entry.lines().map(|line| format!("# {line}\n")).collect();
                format!(
                    "\n# Named in {place}, on another machine: without the # every save reads all of it.\n{entry}"
                )
            }
        }
    }
}

/// What it is called where its usual name is taken: `POSTGRES_URL` is `postgres-url`, `data/app.db` is `data-app-db`.
fn long_name(found: &str) -> String {
    let name = found.to_ascii_lowercase().replace(|c: char| !c.is_ascii_alphanumeric(), "-");
    name.trim_matches('-').to_owned()
}

/// `DATABASE_URL` is `app`, `BILLING_DATABASE_URL` is `billing`.
fn name_of(variable: &str) -> String {
    let mut name = variable.to_ascii_lowercase();
    for end in ["_url", "_uri", "_database", "_db", "_postgres", "_pg"] {
        name = name.strip_suffix(end).map(str::to_owned).unwrap_or(name);
    }
    match name.as_str() {
        "" | "database" | "db" | "postgres" | "pg" => "app".into(),
        _ => name,
    }
}

impl Rappel {
    /// The databases that are found here and not in `rappel.toml`.
    pub(crate) fn unprotected_databases(&self) -> Vec<Found> {
        let mut found: Vec<Found> = Vec::new();
        // Several variables often name one database.
        let mut known: Vec<String> =
            self.protected_addresses().iter().map(|address| self.meant(address)).collect();
        let mut add = |variable: &str, value: &str, place: &str| {
            let Some(supported) = kind_of(value) else { return };
            // Prisma makes and drops it as it likes.
            if variable.starts_with("SHADOW_") {
                return;
            }
            let database = self.meant(value);
            if known.contains(&database) || found.iter().any(|known| known.name == variable) {
                return;
            }
            known.push(database);
            let address = postgres::Address::parse(value);
            let remote = address.is_ok_and(|address| !address.is_local());
            let by = By::Variable { place: place.to_owned(), supported, remote };
            found.push(Found { name: variable.to_owned(), by });
        };
        let wanted = |value: &str| kind_of(value).is_some();
        for (name, value, file) in lookup::all(&*self.options.variables, &self.root, &wanted) {
            add(&name, &value, file);
        }
        for name in USUAL {
            if let Some(value) = (self.options.variables)(name) {
                add(name, &value, "the environment");
            }
        }
        // A command could be about anything.
        found.retain(|one| one.is_supported() || self.config.commands.is_empty());
        found
    }

    /// SQLite files in the folders where they usually lie that are not among `held`, by path.
    pub(crate) fn unprotected_files(&self, held: &[RelPath]) -> Vec<Found> {
        let variables =
            self.unprotected_databases().into_iter().map(|one| self.variable(&one.name));
        let known: Vec<_> = self
            .protected_addresses()
            .into_iter()
            .chain(variables.flatten())
            .map(|address| self.meant(&address))
            .collect();
        let mut found = Vec::new();
        for folder in FOLDERS {
            let Ok(entries) = std::fs::read_dir(self.root.join(folder)) else { continue };
            for entry in entries.flatten().take(MOST_LOOKED_AT) {
                let name = entry.file_name();
                let ending = Path::new(&name).extension().and_then(|ending| ending.to_str());
                if !ending.is_some_and(|ending| ENDINGS.contains(&ending)) {
                    continue;
                }
                let below = Path::new(folder).join(&name);
                let Ok(path) = RelPath::new(below.as_os_str().as_bytes()) else { continue };
                let is_known =
                    || known.iter().any(|place| Path::new(place) == self.root.join(&below));
                if !held.contains(&path) && is_sqlite(&entry.path()) && !is_known() {
                    found.push(Found { name: path.to_string(), by: By::Path });
                }
            }
        }
        found.sort_by(|a, b| a.name.cmp(&b.name));
        found
    }

    /// Which database an address means, whoever connects to it and how.
    fn meant(&self, address: &str) -> String {
        if let Ok(DatabaseUrl::Sqlite(path)) = DatabaseUrl::parse(address) {
            return self.lies_at(Path::new(&path)).to_string_lossy().into_owned();
        }
        let Ok(address) = postgres::Address::parse(address) else { return address.to_owned() };
        let place = address.to_string().to_ascii_lowercase();
        let place = place.strip_suffix(", port 5432").unwrap_or(&place);
        place.replace(" on 127.0.0.1", " on localhost").replace(" on ::1", " on localhost")
    }

    /// The addresses of what `rappel.toml` names.
    fn protected_addresses(&self) -> Vec<String> {
        let addresses = self.config.databases.iter().filter_map(|database| match &database.url {
            DatabaseUrl::Variable(name) => self.variable(name),
            DatabaseUrl::Postgres(address) => Some(address.clone()),
            DatabaseUrl::Sqlite(path) => Some(format!("sqlite:{path}")),
        });
        addresses.collect()
    }
}

/// Whether a file begins as a database of SQLite does. A pipe is not waited for.
fn is_sqlite(path: &Path) -> bool {
    let mut head = [0; 16];
    let ordinary = std::fs::symlink_metadata(path).is_ok_and(|meta| meta.is_file());
    let mut read = || held::open(path)?.read_exact(&mut head);
    ordinary && read().is_ok() && head == *b"SQLite format 3\0"
}

/// What a file is called in `rappel.toml`: `data/app.db` is `app`.
fn file_name(path: &str) -> String {
    let name = Path::new(path).file_stem().and_then(|name| name.to_str()).unwrap_or_default();
    let name = name.trim_start_matches(['.', '-']);
    if name.is_empty() { "sqlite".into() } else { name.to_owned() }
}

/// Whether a value is the address of a database, and if so, whether of one that is supported.
fn kind_of(value: &str) -> Option<bool> {
    let begins = |schemes: &[&str]| schemes.iter().any(|scheme| value.starts_with(scheme));
    if after_postgres_scheme(value).is_some() || after_sqlite_scheme(value).is_some() {
        return Some(true);
    }
    begins(&["mysql://", "mariadb://", "redis://", "rediss://", "mongodb://", "mongodb+srv://"])
        .then_some(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_named_after_their_variables() {
        for (variable, name) in [
            ("DATABASE_URL", "app"),
            ("POSTGRES_URL", "app"),
            ("BILLING_DATABASE_URL", "billing"),
            ("DB", "app"),
            ("AUDIT_DB_URI", "audit"),
        ] {
            assert_eq!(name_of(variable), name, "{variable}");
        }
    }
}
