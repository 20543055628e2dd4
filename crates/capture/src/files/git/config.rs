//! The few settings of git's configuration that decide about files.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::super::Environment;
use super::consulted::Reader;

/// Includes are followed this deep, as git does.
const DEPTH: usize = 10;

/// What the configuration says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "each is a setting of its own")]
pub(crate) struct Settings {
    /// `core.excludesFile`, as it was written; an empty one means none.
    pub excludes_file: Option<Vec<u8>>,
    /// `core.ignoreCase`.
    pub ignore_case: bool,
    /// `extensions.objectFormat` is `sha256`.
    pub sha256: bool,
    /// `extensions.worktreeConfig`.
    pub worktree_config: bool,
    /// `extensions.refStorage` is `reftable`.
    pub reftable: bool,
    /// `extensions.partialClone`, or a remote that promises objects.
    pub partial_clone: bool,
    /// `core.autocrlf` is not `false`.
    pub converts_line_ends: bool,
    /// `core.fileMode` is `false`.
    pub ignores_file_mode: bool,
}

/// Where configuration is looked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Places<'a> {
    /// What of the environment counts.
    pub environment: &'a Environment,
    /// The repository's own folder, for conditional includes.
    pub git_dir: &'a Path,
}

impl Places<'_> {
    /// The files that apply to every repository, weakest first.
    pub fn shared(&self) -> Vec<PathBuf> {
        let environment = self.environment;
        let mut files: Vec<PathBuf> = environment.git_config_system.iter().cloned().collect();
        if let Some(global) = &environment.git_config_global {
            files.push(global.clone());
            return files;
        }
        files.extend(self.xdg().map(|folder| folder.join("git/config")));
        files.extend(environment.home.as_ref().map(|home| home.join(".gitconfig")));
        files
    }

    /// The user's configuration folder.
    pub fn xdg(&self) -> Option<PathBuf> {
        let environment = self.environment;
        let set = environment.xdg_config_home.clone().filter(|path| !path.as_os_str().is_empty());
        set.or_else(|| environment.home.as_ref().map(|home| home.join(".config")))
    }

    /// A path of the configuration with `~/` resolved; relative ones start at `base`.
    pub fn expand(&self, path: &[u8], base: &Path) -> Option<PathBuf> {
        let os = |bytes: &[u8]| PathBuf::from(std::ffi::OsStr::from_bytes(bytes));
        match path.strip_prefix(b"~/") {
            Some(rest) => Some(self.environment.home.as_ref()?.join(os(rest))),
            None if path.starts_with(b"~") => None,
            None => Some(base.join(os(path))),
        }
    }
}

impl Settings {
    /// Adds what the file at `path` says, which overrides what is set already.
    pub fn add(&mut self, path: &Path, places: Places<'_>, reader: &mut Reader) {
        self.add_at_depth(path, places, reader, 0);
    }

    fn add_at_depth(&mut self, path: &Path, places: Places<'_>, reader: &mut Reader, depth: usize) {
        let Some(bytes) = reader.read(path) else { return };
        for setting in settings(&bytes) {
            match (setting.section.as_slice(), setting.key.as_slice()) {
                (b"core", b"excludesfile") => self.excludes_file = setting.value,
                (b"core", b"ignorecase") => self.ignore_case = setting.is_true(),
                (b"core", b"filemode") => self.ignores_file_mode = !setting.is_true(),
                (b"core", b"autocrlf") => {
                    let input = |value: &Vec<u8>| value.eq_ignore_ascii_case(b"input");
                    self.converts_line_ends =
                        setting.is_true() || setting.value.as_ref().is_some_and(input);
                }
                (b"extensions", b"partialclone") => self.partial_clone = true,
                (b"remote", b"promisor") => self.partial_clone |= setting.is_true(),
                (b"extensions", b"refstorage") => {
                    self.reftable =
                        setting.value.is_some_and(|value| value.eq_ignore_ascii_case(b"reftable"));
                }
                (b"extensions", b"worktreeconfig") => self.worktree_config = setting.is_true(),
                (b"extensions", b"objectformat") => {
                    self.sha256 =
                        setting.value.is_some_and(|value| value.eq_ignore_ascii_case(b"sha256"));
                }
                (b"include" | b"includeif", b"path") if depth < DEPTH => {
                    let base = path.parent().unwrap_or(Path::new("/"));
                    let applies = setting.section == b"include"
                        || setting.part.as_deref().is_some_and(|when| applies(when, base, places));
                    let file = setting.value.and_then(|value| places.expand(&value, base));
                    if let (true, Some(file)) = (applies, file) {
                        self.add_at_depth(&file, places, reader, depth + 1);
                    }
                }
                _ => {}
            }
        }
    }
}

/// Whether the condition of an `includeIf` holds. Conditions on branches and remotes never do.
fn applies(condition: &[u8], base: &Path, places: Places<'_>) -> bool {
    use gix_glob::wildmatch::Mode;
    let (pattern, fold) =
        match (condition.strip_prefix(b"gitdir:"), condition.strip_prefix(b"gitdir/i:")) {
            (Some(pattern), _) => (pattern, Mode::empty()),
            (_, Some(pattern)) => (pattern, Mode::IGNORE_CASE),
            _ => return false,
        };
    let mut full = if pattern.starts_with(b"~/") || pattern.starts_with(b"./") {
        let pattern = pattern.strip_prefix(b"./").unwrap_or(pattern);
        match places.expand(pattern, base) {
            Some(path) => path.as_os_str().as_bytes().to_vec(),
            None => return false,
        }
    } else if pattern.starts_with(b"/") {
        pattern.to_vec()
    } else {
        [b"**/", pattern].concat()
    };
    if full.ends_with(b"/") {
        full.extend_from_slice(b"**");
    }
    let mode = Mode::NO_MATCH_SLASH_LITERAL | fold;
    let git_dir = places.git_dir.as_os_str().as_bytes();
    gix_glob::wildmatch(full.as_slice().into(), git_dir.into(), mode)
}

/// One line of a configuration file. Section and key are in lower case.
#[derive(Debug, PartialEq, Eq)]
struct Setting {
    section: Vec<u8>,
    part: Option<Vec<u8>>,
    key: Vec<u8>,
    /// `None` for a key without `=`, which means true.
    value: Option<Vec<u8>>,
}

impl Setting {
    fn is_true(&self) -> bool {
        match &self.value {
            None => true,
            Some(value) => {
                let value = value.to_ascii_lowercase();
                matches!(&*value, b"true" | b"yes" | b"on")
                    || value.first().is_some_and(|digit| matches!(digit, b'1'..=b'9'))
            }
        }
    }
}

/// The settings of a file, as far as it can be read; a line that makes no sense is passed over.
fn settings(bytes: &[u8]) -> Vec<Setting> {
    let mut rest = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let mut found = Vec::new();
    let mut section = (Vec::new(), None);
    loop {
        rest = rest.trim_ascii_start();
        match rest.first() {
            None => return found,
            Some(b'#' | b';') => rest = after_line(rest),
            Some(b'[') => match header(rest) {
                Some((header, after)) => (section, rest) = (header, after),
                None => rest = after_line(rest),
            },
            Some(_) => {
                let end = rest
                    .iter()
                    .position(|b| !b.is_ascii_alphanumeric() && *b != b'-')
                    .unwrap_or(rest.len());
                let key = rest[..end].to_ascii_lowercase();
                let after = &rest[end..];
                let blank = after.iter().take_while(|b| matches!(b, b' ' | b'\t')).count();
                let (value, after) = match after[blank..].strip_prefix(b"=") {
                    Some(after) => {
                        let (value, after) = value(after);
                        (Some(value), after)
                    }
                    None => (None, after_line(after)),
                };
                rest = after;
                if !key.is_empty() {
                    let (section, part) = section.clone();
                    found.push(Setting { section, part, key, value });
                }
            }
        }
    }
}

fn after_line(rest: &[u8]) -> &[u8] {
    rest.iter().position(|&b| b == b'\n').map_or(&[], |end| &rest[end + 1..])
}

type Header = (Vec<u8>, Option<Vec<u8>>);

fn header(rest: &[u8]) -> Option<(Header, &[u8])> {
    let rest = rest.strip_prefix(b"[")?;
    let end = rest.iter().position(|b| matches!(b, b']' | b' ' | b'\t' | b'\n' | b'"'))?;
    let name = rest[..end].to_ascii_lowercase();
    let rest = rest[end..].trim_ascii_start();
    if let Some(rest) = rest.strip_prefix(b"]") {
        return Some(((name, None), rest));
    }
    let mut bytes = rest.strip_prefix(b"\"")?.iter();
    let mut part = Vec::new();
    loop {
        match bytes.next()? {
            b'"' => break,
            b'\\' => part.push(*bytes.next()?),
            b'\n' => return None,
            byte => part.push(*byte),
        }
    }
    Some(((name, Some(part)), bytes.as_slice().trim_ascii_start().strip_prefix(b"]")?))
}

/// A value up to the end of its line, and what follows.
fn value(rest: &[u8]) -> (Vec<u8>, &[u8]) {
    let mut value = Vec::new();
    // How much of the value stays when blanks at its end are dropped.
    let mut kept = 0;
    let mut quoted = false;
    let mut bytes = rest.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'\n' => break,
            b'"' => {
                quoted = !quoted;
                kept = value.len();
            }
            b'\\' => {
                match bytes.next() {
                    None | Some(b'\n') => continue,
                    Some(b'n') => value.push(b'\n'),
                    Some(b't') => value.push(b'\t'),
                    Some(b'b') => value.push(8),
                    Some(other) => value.push(*other),
                }
                kept = value.len();
            }
            b'#' | b';' if !quoted => {
                return (truncated(value, kept), after_line(bytes.as_slice()));
            }
            b' ' | b'\t' | b'\r' if !quoted => {
                if !value.is_empty() {
                    value.push(*byte);
                }
            }
            other => {
                value.push(*other);
                kept = value.len();
            }
        }
    }
    (truncated(value, kept), bytes.as_slice())
}

fn truncated(mut value: Vec<u8>, length: usize) -> Vec<u8> {
    value.truncate(length);
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<(String, String, String)> {
        let text_of = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        settings(text.as_bytes())
            .into_iter()
            .map(|setting| {
                let part = setting.part.map(|part| format!(".{}", text_of(&part)));
                (
                    text_of(&setting.section) + &part.unwrap_or_default(),
                    text_of(&setting.key),
                    setting.value.map_or("(true)".into(), |value| text_of(&value)),
                )
            })
            .collect()
    }

    #[test]
    fn values_are_read_as_git_reads_them() {
        let text = "# c\n[Core]\n\tExcludesFile = ~/my ignore  # why\nbare\n[a \"b\\\"C\"] x = \"q # \" y\\\n z\n\
                    ; c\ny = \"a\\tb\" ; c\n[bad\n[last]k=v";
        let expected = [
            ("core", "excludesfile", "~/my ignore"),
            ("core", "bare", "(true)"),
            ("a.b\"C", "x", "q #  y z"),
            ("a.b\"C", "y", "a\tb"),
            ("last", "k", "v"),
        ];
        let expected: Vec<_> =
            expected.map(|(s, k, v)| (s.to_owned(), k.to_owned(), v.to_owned())).into();
        assert_eq!(read(text), expected);
    }

    #[test]
    fn any_bytes_end() {
        for text in ["[", "[\"", "=", "\\", "a=\\", "[a \"", "a = \"", "\0\0", "[a]]", "-", "é=1"]
        {
            let _ = read(text);
        }
    }
}
