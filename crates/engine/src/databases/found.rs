//! Databases that the project's `.env` files name and `rappel.toml` does not.

use rappel_capture::databases::postgres::lookup;
use rappel_types::config::{DatabaseUrl, POSTGRES_SCHEMES};

use crate::rappel::Rappel;

/// Variables that name a database wherever they are used.
const USUAL: [&str; 6] =
    ["DATABASE_URL", "POSTGRES_URL", "PG_URL", "DB_URL", "DATABASE_URI", "POSTGRES_URI"];

/// A database that was found and is not protected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    /// The variable that names it. Its value is never kept.
    pub variable: String,
    /// Where that is said.
    pub place: String,
    /// Whether it can be captured directly.
    pub supported: bool,
}

impl Found {
    /// In a sentence.
    pub fn note(&self) -> String {
        let Self { variable, place, supported } = self;
        let how = match supported {
            true => format!("add [[database]] with url = \"env:{variable}\" to rappel.toml"),
            false => "a [[command]] in rappel.toml can dump and load it".to_owned(),
        };
        format!("database found, not protected: {variable} in {place}; {how}")
    }

    /// As it goes into a new `rappel.toml`.
    pub fn entry(&self) -> String {
        let Self { variable, place, supported } = self;
        match supported {
            true => format!(
                "\n# Named in {place}.\n[[database]]\nname = \"{}\"\nurl = \"env:{variable}\"\n",
                name_of(variable)
            ),
            false => {
                format!("\n# {variable} in {place} names a database; see [[command]] above.\n")
            }
        }
    }
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
        let protected = self.protected_addresses();
        let mut add = |variable: &str, value: &str, place: &str| {
            let Some(supported) = kind_of(value) else { return };
            if protected.iter().any(|known| known == value) {
                return;
            }
            if !found.iter().any(|known| known.variable == variable) {
                let (variable, place) = (variable.to_owned(), place.to_owned());
                found.push(Found { variable, place, supported });
            }
        };
        for (name, value, file) in lookup::all(&self.root, &|value| kind_of(value).is_some()) {
            add(&name, &value, file);
        }
        for name in USUAL {
            if let Some(value) = (self.options.variables)(name) {
                add(name, &value, "the environment");
            }
        }
        // A command could be about anything.
        found.retain(|one| one.supported || self.config.commands.is_empty());
        found
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

/// Whether a value is the address of a database, and if so, whether of one that is supported.
fn kind_of(value: &str) -> Option<bool> {
    let begins = |schemes: &[&str]| schemes.iter().any(|scheme| value.starts_with(scheme));
    if begins(&POSTGRES_SCHEMES) || begins(&["sqlite:", "file:"]) {
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
            ("SHADOW_DB_URI", "shadow"),
        ] {
            assert_eq!(name_of(variable), name, "{variable}");
        }
    }
}
