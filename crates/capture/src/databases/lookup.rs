//! Finding what `env:NAME` means: the process's own variables first, then the files that projects
//! keep them in. An agent's hook is not started from the project's shell, so the files matter.

use std::cell::Cell;
use std::path::Path;

use rappel_store::held;

/// The files that are looked into, the first that has the name counts.
pub const FILES: [&str; 3] = [".env.local", ".env.development", ".env"];

/// More of a file than this is not read.
const LONGEST: u64 = 1 << 20;

/// How many variables may name one another in a row.
const DEEPEST: usize = 8;
/// How many references are followed in all: a stranger's file must not keep us busy.
const MOST_FOLLOWED: usize = 1000;

/// A process's own variables.
pub type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

/// What `name` means for a workspace, and where that was found: `the environment` or a file of
/// [`FILES`]. An empty value is none.
pub fn variable(
    name: &str,
    environment: Environment<'_>,
    workspace: &Path,
) -> Option<(String, &'static str)> {
    Lookup::new(environment, workspace).variable(name, 0)
}

/// Every variable of a workspace's files whose value `wanted` likes, in order of the files, each name once: its
/// name, its value and its file.
pub fn all(
    environment: Environment<'_>,
    workspace: &Path,
    wanted: &dyn Fn(&str) -> bool,
) -> Vec<(String, String, &'static str)> {
    let lookup = Lookup::new(environment, workspace);
    let mut found: Vec<(String, String, &'static str)> = Vec::new();
    for (file, text) in &lookup.files {
        for (name, _) in text.lines().filter_map(assignment) {
            if found.iter().any(|(known, ..)| known == name) {
                continue;
            }
            if let Some(value) = lookup.value_in(text, name, 0).filter(|value| wanted(value)) {
                found.push((name.to_owned(), value, file));
            }
        }
    }
    found
}

/// Where variables are looked for.
struct Lookup<'a> {
    environment: Environment<'a>,
    /// The files that there are, in order, with their texts.
    files: Vec<(&'static str, String)>,
    /// How many more references are followed.
    left: Cell<usize>,
}

impl<'a> Lookup<'a> {
    fn new(environment: Environment<'a>, workspace: &Path) -> Self {
        let files = FILES.into_iter();
        let files = files.filter_map(|file| Some((file, read(&workspace.join(file))?)));
        Self { environment, files: files.collect(), left: Cell::new(MOST_FOLLOWED) }
    }

    fn variable(&self, name: &str, depth: usize) -> Option<(String, &'static str)> {
        if let Some(value) = (self.environment)(name).filter(|value| !value.is_empty()) {
            return Some((value, "the environment"));
        }
        let mut files = self.files.iter();
        files.find_map(|(file, text)| Some((self.value_in(text, name, depth)?, *file)))
    }

    /// The last line that gives `name` a value counts, as in a shell.
    fn value_in(&self, text: &str, name: &str, depth: usize) -> Option<String> {
        let mut lines = text.lines().filter_map(assignment);
        let raw = lines.rfind(|(known, _)| *known == name)?.1;
        Some(self.unquoted(raw, depth)).filter(|value| !value.is_empty())
    }

    /// A value without its quotes and without a comment behind it, with other variables in their
    /// places.
    fn unquoted(&self, raw: &str, depth: usize) -> String {
        for quote in ['"', '\'', '`'] {
            let Some(inside) = raw.strip_prefix(quote) else { continue };
            let mut value = String::new();
            let mut rest = inside;
            while let Some(character) = rest.chars().next() {
                if character == quote {
                    return value;
                }
                if quote == '"'
                    && let Some((meant, behind)) = self.reference(rest, depth)
                {
                    value.push_str(&meant);
                    rest = behind;
                    continue;
                }
                rest = &rest[character.len_utf8()..];
                if (quote, character) != ('"', '\\') {
                    value.push(character);
                    continue;
                }
                let next = rest.chars().next();
                rest = &rest[next.map_or(0, char::len_utf8)..];
                match next {
                    Some('n') => value.push('\n'),
                    Some(next @ ('"' | '\\' | '$')) => value.push(next),
                    Some(next) => value.extend(['\\', next]),
                    None => value.push('\\'),
                }
            }
            // No closing quote: it stands for itself.
        }
        let end = raw.find(" #").or_else(|| raw.find("\t#")).unwrap_or(raw.len());
        let mut rest = raw.get(..end).unwrap_or(raw).trim_end();
        let mut value = String::new();
        while let Some(character) = rest.chars().next() {
            if let Some((meant, behind)) = self.reference(rest, depth) {
                value.push_str(&meant);
                rest = behind;
            } else {
                value.push(character);
                rest = &rest[character.len_utf8()..];
            }
        }
        value
    }

    /// What `${NAME}` or `${NAME:-otherwise}` at the beginning of `text` means, and what stands
    /// behind it. A name that means nothing is left as it stands: half an address may be that of
    /// another database.
    fn reference<'t>(&self, text: &'t str, depth: usize) -> Option<(String, &'t str)> {
        let (inside, behind) = text.strip_prefix("${")?.split_once('}')?;
        let (name, otherwise) = match inside.split_once(":-").or_else(|| inside.split_once('-')) {
            Some((name, otherwise)) => (name, Some(otherwise.to_owned())),
            None => (inside, None),
        };
        let left = self.left.get().checked_sub(1).filter(|_| depth < DEEPEST)?;
        self.left.set(left);
        let found = self.variable(name, depth + 1);
        Some((found.map(|(value, _)| value).or(otherwise)?, behind))
    }
}

/// The text of an ordinary file that is not too long.
fn read(path: &Path) -> Option<String> {
    let meta = std::fs::metadata(path).ok()?;
    if !meta.is_file() || meta.len() > LONGEST {
        return None;
    }
    Some(String::from_utf8_lossy(&held::read(path).ok()?).into_owned())
}

/// A line's name and what stands behind its equals sign.
fn assignment(line: &str) -> Option<(&str, &str)> {
    let line = line.trim_start_matches('\u{feff}').trim();
    let line = line.strip_prefix("export ").map_or(line, str::trim_start);
    if line.starts_with('#') {
        return None;
    }
    let (name, value) = line.split_once('=')?;
    let name = name.trim_end();
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    (!name.is_empty() && name.chars().all(fits)).then_some((name, value.trim_start()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Option<String> {
        let environment = |name: &str| (name == "USER").then(|| "me".to_owned());
        let files = vec![(".env", text.to_owned())];
        let lookup = Lookup { environment: &environment, files, left: Cell::new(MOST_FOLLOWED) };
        lookup.variable("URL", 0).map(|(value, _)| value)
    }

    #[test]
    fn lines_as_projects_write_them() {
        let cases = [
            ("URL=postgres://a", "postgres://a"),
            ("export URL = postgres://a # the database", "postgres://a"),
            ("URL=\"postgres://a?x=1#y\" # the database", "postgres://a?x=1#y"),
            ("URL='postgres://a'\r\nOTHER=1", "postgres://a"),
            ("URL=postgres://a#b", "postgres://a#b"),
            ("URL=one\nURL=two", "two"),
            ("#URL=one\n  URL=two", "two"),
            ("URL=postgres://${HOST}/x", "postgres://${HOST}/x"),
            ("HOST=h\nURL=postgres://${USER}@${HOST}/x # it", "postgres://me@h/x"),
            ("URL=\"postgres://${HOST}/x\"\nHOST=\"${NAME}.d\"\nNAME=n", "postgres://n.d/x"),
            ("HOST=h\nURL='postgres://${HOST}/x'", "postgres://${HOST}/x"),
            (r#"URL="a\${USER}b""#, "a${USER}b"),
            ("URL=${HOST:-localhost}:${PORT-5432}", "localhost:5432"),
            ("URL=a$USER-${USER", "a$USER-${USER"),
            ("URL=x${OTHER}\nOTHER=${URL}", "xxxxx${OTHER}"),
            (r#"URL="a\"b\\c""#, r#"a"b\c"#),
            ("URL=\"open", "\"open"),
        ];
        for (text, expected) in cases {
            assert_eq!(value(text).as_deref(), Some(expected), "{text}");
        }
        for text in ["", "URL=", "URL", "MY_URL=x", "URL=\"\"", "# URL=x"] {
            assert_eq!(value(text), None, "{text}");
        }
    }

    #[test]
    fn the_environment_comes_first_then_the_files_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let nothing = |_: &str| None;
        let find = |environment: &dyn Fn(&str) -> Option<String>| {
            variable("URL", environment, folder.path())
        };
        assert_eq!(find(&nothing), None);
        std::fs::write(folder.path().join(".env"), "URL=c").unwrap();
        assert_eq!(find(&nothing), Some(("c".to_owned(), ".env")));
        std::fs::write(folder.path().join(".env.local"), "OTHER=1").unwrap();
        std::fs::write(folder.path().join(".env.development"), "URL=b").unwrap();
        assert_eq!(find(&nothing), Some(("b".to_owned(), ".env.development")));
        let own = |name: &str| (name == "URL").then(|| "a".to_owned());
        assert_eq!(find(&own), Some(("a".to_owned(), "the environment")));
        assert_eq!(find(&|_| Some(String::new())).unwrap().0, "b");
        let found = all(&nothing, folder.path(), &|value| value != "1");
        assert_eq!(found, [("URL".to_owned(), "b".to_owned(), ".env.development")]);
    }
}
