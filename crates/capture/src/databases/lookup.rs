//! Finding what `env:NAME` means: the process's own variables first, then the files that projects
//! keep them in. An agent's hook is not started from the project's shell, so the files matter.

use std::path::Path;

use rappel_store::held;

/// The files that are looked into, the first that has the name counts.
pub const FILES: [&str; 3] = [".env.local", ".env.development", ".env"];

/// More of a file than this is not read.
const LONGEST: u64 = 1 << 20;

/// What `name` means for a workspace, and where that was found: `the environment` or a file of
/// [`FILES`]. An empty value is none.
pub fn variable(
    name: &str,
    environment: &dyn Fn(&str) -> Option<String>,
    workspace: &Path,
) -> Option<(String, &'static str)> {
    if let Some(value) = environment(name).filter(|value| !value.is_empty()) {
        return Some((value, "the environment"));
    }
    FILES.into_iter().find_map(|file| {
        let text = read(&workspace.join(file))?;
        Some((value_in(&text, name)?, file))
    })
}

/// Every variable of a workspace's files whose value `wanted` likes, in order of the files, each name once: its
/// name, its value and its file.
pub fn all(workspace: &Path, wanted: &dyn Fn(&str) -> bool) -> Vec<(String, String, &'static str)> {
    let mut found: Vec<(String, String, &'static str)> = Vec::new();
    for file in FILES {
        let Some(text) = read(&workspace.join(file)) else { continue };
        for (name, _) in text.lines().filter_map(assignment) {
            if found.iter().any(|(known, ..)| known == name) {
                continue;
            }
            if let Some(value) = value_in(&text, name).filter(|value| wanted(value)) {
                found.push((name.to_owned(), value, file));
            }
        }
    }
    found
}

/// The text of an ordinary file that is not too long.
fn read(path: &Path) -> Option<String> {
    let meta = std::fs::metadata(path).ok()?;
    if !meta.is_file() || meta.len() > LONGEST {
        return None;
    }
    Some(String::from_utf8_lossy(&held::read(path).ok()?).into_owned())
}

/// The last line that gives `name` a value counts, as in a shell.
fn value_in(text: &str, name: &str) -> Option<String> {
    let mut lines = text.lines().filter_map(assignment);
    let raw = lines.rfind(|(known, _)| *known == name)?.1;
    Some(unquoted(raw)).filter(|value| !value.is_empty())
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

/// A value without its quotes and without a comment behind it. What looks like another variable is
/// left as it stands.
fn unquoted(raw: &str) -> String {
    for quote in ['"', '\'', '`'] {
        let Some(inside) = raw.strip_prefix(quote) else { continue };
        let mut value = String::new();
        let mut characters = inside.chars();
        while let Some(character) = characters.next() {
            if character == quote {
                return value;
            }
            match (quote, character) {
                ('"', '\\') => match characters.next() {
                    Some('n') => value.push('\n'),
                    Some(next @ ('"' | '\\' | '$')) => value.push(next),
                    Some(next) => value.extend(['\\', next]),
                    None => value.push('\\'),
                },
                _ => value.push(character),
            }
        }
        // No closing quote: it stands for itself.
    }
    let end = raw.find(" #").or_else(|| raw.find("\t#")).unwrap_or(raw.len());
    raw.get(..end).unwrap_or(raw).trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Option<String> {
        value_in(text, "URL")
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
        let found = all(folder.path(), &|value| value != "1");
        assert_eq!(found, [("URL".to_owned(), "b".to_owned(), ".env.development")]);
    }
}
