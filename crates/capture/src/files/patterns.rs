//! One file of ignore patterns, as git reads it.

use gix_glob::Pattern;
use gix_glob::pattern::Case;
use gix_glob::wildmatch::Mode;

/// The patterns of one `.gitignore`, `.rappelignore` or exclude file.
#[derive(Debug, Clone, Default)]
pub(crate) struct Patterns(Vec<Pattern>);

impl Patterns {
    /// Reads the file's bytes. Whatever they are, they are patterns.
    pub fn parse(bytes: &[u8]) -> Self {
        Self(lines(bytes).filter_map(Pattern::from_bytes).collect())
    }

    /// Whether the file says nothing.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What the file says of `path`, which is relative to the folder it applies to: `true` ignores
    /// it, `false` un-ignores it. The last matching line decides.
    pub fn verdict(&self, path: &[u8], is_dir: bool, fold: bool) -> Option<bool> {
        let name = path.iter().rposition(|&b| b == b'/').map(|slash| slash + 1);
        let case = if fold { Case::Fold } else { Case::Sensitive };
        let matching = self.0.iter().rev().find(|pattern| {
            pattern.matches_repo_relative_path(
                path.into(),
                name,
                Some(is_dir),
                case,
                Mode::NO_MATCH_SLASH_LITERAL,
            )
        })?;
        Some(!matching.is_negative())
    }
}

/// The lines that are patterns: without comments, line ends and trailing blanks that are not
/// escaped.
pub(crate) fn lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    bytes.split(|&b| b == b'\n').filter(|line| !line.starts_with(b"#")).filter_map(|line| {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let line = line.split(|&b| b == 0).next().unwrap_or_default();
        Some(without_trailing_spaces(line)).filter(|line| !line.is_empty())
    })
}

fn without_trailing_spaces(line: &[u8]) -> &[u8] {
    let mut end = None;
    let mut bytes = line.iter().enumerate();
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b' ' => {
                end.get_or_insert(at);
            }
            b'\\' if bytes.next().is_none() => return line,
            _ => end = None,
        }
    }
    &line[..end.unwrap_or(line.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ignores(rules: &str, path: &str) -> Option<bool> {
        let (path, is_dir) = match path.strip_suffix('/') {
            Some(path) => (path, true),
            None => (path, false),
        };
        Patterns::parse(rules.as_bytes()).verdict(path.as_bytes(), is_dir, false)
    }

    #[test]
    fn lines_are_read_as_git_reads_them() {
        let text = b"\xef\xbb\xbf# comment\n\na\r\nb  \nc\\ \n\\#d\n  e\nf\\";
        let found: Vec<&[u8]> = lines(text).collect();
        assert_eq!(found, [&b"a"[..], b"b", b"c\\ ", b"\\#d", b"  e", b"f\\"]);
    }

    #[test]
    fn the_last_match_decides() {
        assert_eq!(ignores("*.log\n!keep.log", "x/y.log"), Some(true));
        assert_eq!(ignores("*.log\n!keep.log", "x/keep.log"), Some(false));
        assert_eq!(ignores("!keep.log\n*.log", "keep.log"), Some(true));
        assert_eq!(ignores("*.log", "a.txt"), None);
    }

    #[test]
    fn slashes_anchor() {
        assert_eq!(ignores("/a", "a"), Some(true));
        assert_eq!(ignores("/a", "x/a"), None);
        assert_eq!(ignores("x/a", "x/a"), Some(true));
        assert_eq!(ignores("x/a", "y/x/a"), None);
        assert_eq!(ignores("a/", "x/a"), None);
        assert_eq!(ignores("a/", "x/a/"), Some(true));
        assert_eq!(ignores("**/b/*.c", "a/b/x.c"), Some(true));
        assert_eq!(ignores("a/**/c", "a/c"), Some(true));
        assert_eq!(ignores("a/**", "a/"), None);
    }

    #[test]
    fn bytes_need_not_be_text() {
        let rules = Patterns::parse(b"caf\xe9*\n");
        assert_eq!(rules.verdict(b"caf\xe9.txt", false, false), Some(true));
    }

    #[test]
    fn case_counts_unless_the_repository_says_otherwise() {
        let rules = Patterns::parse(b"Build\n");
        assert_eq!(rules.verdict(b"build", true, false), None);
        assert_eq!(rules.verdict(b"build", true, true), Some(true));
    }
}
