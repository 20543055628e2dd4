//! Patterns in a command line, and the files of the workspace that a shell may put in their place.
//!
//! A shell's rules are not repeated here: whatever it may choose counts. One file too many costs a
//! question, one too few is a hole.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// What stands for other bytes. `?` and `[a-z]` count as `*`.
const WILD: &[u8] = b"*?[";

fn is_wild(part: &OsStr) -> bool {
    part.as_bytes().iter().any(|byte| WILD.contains(byte))
}

/// The paths below `root` that may be meant by a pattern; none if it is no pattern.
pub fn may_match(pattern: &Path, root: &Path) -> Vec<PathBuf> {
    let Ok(below) = pattern.strip_prefix(root) else { return Vec::new() };
    let says_something = |byte: &u8| !b"*?[]./".contains(byte);
    // The `*` of `SELECT * FROM t` means no file.
    if !below.iter().any(is_wild) || !below.as_os_str().as_bytes().iter().any(says_something) {
        return Vec::new();
    }
    let mut found = vec![root.to_owned()];
    for part in below {
        found = match is_wild(part) {
            true => found.iter().flat_map(|folder| listed(folder, part.as_bytes())).collect(),
            false => found.iter().map(|folder| folder.join(part)).collect(),
        };
    }
    found
}

/// What a folder holds that fits. A shell passes over hidden names unless they are meant.
fn listed(folder: &Path, pattern: &[u8]) -> Vec<PathBuf> {
    let names = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let names = names.map(|entry| entry.file_name());
    let hidden = |name: &[u8]| name.starts_with(b".") && !pattern.starts_with(b".");
    let fits = |name: &&OsStr| !hidden(name.as_bytes()) && fits(name.as_bytes(), pattern);
    names.filter(|name| fits(&name.as_os_str())).map(|name| folder.join(name)).collect()
}

/// Whether a name has all plain pieces of a pattern in their order.
fn fits(name: &[u8], pattern: &[u8]) -> bool {
    let mut pieces = pattern.split(|byte| WILD.contains(byte)).map(|piece| {
        // Of `[a-z].sh`, what stands behind the bracket.
        let end = piece.iter().position(|byte| *byte == b']').map_or(0, |end| end + 1);
        piece.get(end..).unwrap_or_default()
    });
    let Some(mut rest) = name.strip_prefix(pieces.next().unwrap_or_default()) else { return false };
    let mut last: &[u8] = b"";
    for piece in pieces {
        last = piece;
        if piece.is_empty() {
            continue;
        }
        let at = rest.windows(piece.len()).position(|part| part == piece);
        let Some(behind) = at.and_then(|at| rest.get(at + piece.len()..)) else { return false };
        rest = behind;
    }
    name.ends_with(last)
}

/// A text in which each choice of a shell (`dump-{a,b}.sh`, `{1..3}`) is a pattern.
pub fn without_choices(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        let is_choice = |inner: &str| {
            (inner.contains(',') || inner.contains("..")) && !inner.contains(char::is_whitespace)
        };
        let choice = after.split_once('}').filter(|(inner, _)| is_choice(inner));
        plain.push_str(before);
        plain.push(if choice.is_some() { '*' } else { '{' });
        rest = choice.map_or(after, |(_, behind)| behind);
    }
    plain + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_a_shell_may_choose_fits() {
        for (pattern, name, expected) in [
            ("*", "a", true),
            ("*.sh", "dump.sh", true),
            ("*.sh", "dump.sh.old", false),
            ("d*p.sh", "dump.sh", true),
            ("d*p.sh", "dp.sh", true),
            ("ab*ba", "aba", false),
            ("[a-d]ump.s?", "dump.sh", true),
            ("x*", "dump.sh", false),
        ] {
            assert_eq!(fits(name.as_bytes(), pattern.as_bytes()), expected, "{pattern} {name}");
        }
        assert_eq!(without_choices("a {b,c}.sh {d} ${x} {1..3}"), "a *.sh {d} ${x} *");
    }
}
