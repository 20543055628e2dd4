//! Which SQL destroys rows, tables or databases.

/// Whether a statement of `text` drops, empties or deletes something. Comments and texts in quotes
/// do not count.
pub(super) fn destroys(text: &str) -> bool {
    let words = words(text);
    words.split(|word| word == ";").any(|statement| {
        let has = |wanted: &str| statement.iter().any(|word| word == wanted);
        match statement.first().map(String::as_str) {
            Some("DROP" | "TRUNCATE" | "DELETE") => true,
            Some("ALTER") => has("DROP"),
            Some("UPDATE") => !has("WHERE"),
            Some("WITH") => has("DELETE") || has("TRUNCATE"),
            // `BEGIN` and `\c name` may stand in front, without a semicolon.
            Some(first) if first == "BEGIN" || first.starts_with('\\') => {
                has("DROP") || has("TRUNCATE") || has("DELETE")
            }
            _ => false,
        }
    })
}

/// The words in capitals, and each `;`.
fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut rest = text.chars().peekable();
    while let Some(character) = rest.next() {
        match character {
            '\'' | '"' => skip_past(&mut rest, character),
            '-' if rest.peek() == Some(&'-') => skip_past(&mut rest, '\n'),
            '/' if rest.peek() == Some(&'*') => skip_comment(&mut rest),
            one if one.is_alphanumeric() || one == '_' || one == '\\' => {
                word.extend(one.to_uppercase());
                continue;
            }
            _ => {}
        }
        if !word.is_empty() {
            words.push(std::mem::take(&mut word));
        }
        if character == ';' {
            words.push(";".into());
        }
    }
    words.push(word);
    words.retain(|word| !word.is_empty());
    words
}

fn skip_past(rest: &mut impl Iterator<Item = char>, end: char) {
    while rest.next().is_some_and(|one| one != end) {}
}

fn skip_comment(rest: &mut impl Iterator<Item = char>) {
    let mut before = ' ';
    for one in rest {
        if before == '*' && one == '/' {
            return;
        }
        before = one;
    }
}

#[cfg(test)]
mod tests {
    use super::destroys;

    #[test]
    fn statements_that_destroy() {
        for text in [
            "DROP TABLE users",
            "select 1; truncate users",
            "delete from users where id = 1",
            "ALTER TABLE users DROP COLUMN name",
            "UPDATE users SET admin = true",
            "BEGIN; DELETE FROM users; COMMIT",
            "-- all of it\nDROP DATABASE app",
            "/* really */ DROP SCHEMA public CASCADE",
            "WITH old AS (DELETE FROM logs RETURNING *) SELECT count(*) FROM old",
        ] {
            assert!(destroys(text), "{text}");
        }
    }

    #[test]
    fn statements_that_do_not() {
        for text in [
            "SELECT * FROM users",
            "SELECT 'DROP TABLE users'",
            "UPDATE users SET name = 'x' WHERE id = 1",
            "EXPLAIN DELETE FROM users",
            "-- DROP TABLE users",
            "INSERT INTO log VALUES ('a; DELETE FROM x')",
            "CREATE TABLE t (deleted bool)",
            "",
        ] {
            assert!(!destroys(text), "{text}");
        }
    }
}
