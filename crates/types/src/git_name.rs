//! Names that must never be captured because some file system takes them for `.git`.

/// Whether `name` is `.git`, or would be on a file system that folds case (most of macOS and
/// Windows), drops code points (HFS+), or drops what follows the name (NTFS). Git refuses the same
/// names in its trees, for the same reason: written elsewhere they would be a repository's inside.
pub fn is_git(name: &[u8]) -> bool {
    // Nearly every name is turned away by its first letters.
    match name {
        [b'.' | b'g' | b'G' | 0xe2 | 0xef, ..] => is_ntfs_git(name) || is_hfs_git(name),
        _ => false,
    }
}

fn is_ntfs_git(name: &[u8]) -> bool {
    let end = name.iter().position(|b| matches!(b, b':' | b'\\')).unwrap_or(name.len());
    let kept = name[..end].iter().rposition(|b| !matches!(b, b' ' | b'.')).map_or(0, |at| at + 1);
    let name = &name[..kept];
    name.eq_ignore_ascii_case(b".git") || name.eq_ignore_ascii_case(b"git~1")
}

fn is_hfs_git(name: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(name) else { return false };
    let seen = text.chars().filter(|c| !is_dropped(*c)).map(|c| c.to_ascii_lowercase());
    seen.eq(".git".chars())
}

/// What HFS+ leaves out when it compares names.
fn is_dropped(c: char) -> bool {
    matches!(c, '\u{200c}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{206a}'..='\u{206f}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_of_git_is_known() {
        for name in [
            ".git",
            ".GIT",
            ".Git",
            ".git ",
            ".git.",
            ".git. .",
            "git~1",
            "GIT~1",
            ".git::$INDEX",
            ".g\u{200c}it",
            "\u{feff}.git",
            ".gi\u{206f}T",
            ".git\\config",
        ] {
            assert!(is_git(name.as_bytes()), "{name:?}");
        }
    }

    #[test]
    fn names_that_only_resemble_it_are_content() {
        for name in [
            ".gitignore",
            ".gitmodules",
            "git",
            ".gi",
            ".gitx",
            "git~2",
            "a.git",
            ".g\u{200b}it",
            ".github",
            " .git",
            ".",
            "..git",
            "gitgit~1",
        ] {
            assert!(!is_git(name.as_bytes()), "{name:?}");
        }
        assert!(!is_git(b".g\xffit"));
    }
}
