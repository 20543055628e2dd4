//! `include` and `exclude` of the configuration: git's patterns, checked, relative to the root.

use gix_glob::Pattern;
use gix_glob::pattern::{Case, Mode as PatternMode};
use gix_glob::wildmatch::Mode;

use crate::error::{Error, Result};
use rappel_types::config::glob_fault;

/// A list of globs. One without a slash means the name wherever it is, one with a slash a path
/// from the root; one that names a folder means everything below it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Globs(Vec<Glob>);

#[derive(Debug, Clone)]
struct Glob {
    pattern: Pattern,
    /// The components of a glob that starts at the root; empty where it may match anywhere.
    steps: Vec<Vec<u8>>,
}

impl Globs {
    /// Reads the globs of `key`, refusing what can match nothing.
    pub fn parse(key: &'static str, globs: &[String]) -> Result<Self> {
        let read = |glob: &String| {
            read(glob).map_err(|reason| Error::BadGlob { key, glob: glob.clone(), reason })
        };
        Ok(Self(globs.iter().map(read).collect::<Result<_>>()?))
    }

    /// Whether one of them means `path`.
    pub fn matches(&self, path: &[u8], is_dir: bool) -> bool {
        if self.0.is_empty() {
            return false;
        }
        let name = path.iter().rposition(|&b| b == b'/').map(|slash| slash + 1);
        self.0.iter().any(|glob| {
            glob.pattern.matches_repo_relative_path(
                path.into(),
                name,
                Some(is_dir),
                Case::Sensitive,
                Mode::NO_MATCH_SLASH_LITERAL,
            )
        })
    }

    /// Whether one of them may mean something below `folder`, as far as its leading components say.
    /// Globs that may match anywhere do not count: for them no ignored folder is searched.
    pub fn may_hold(&self, folder: &[u8]) -> bool {
        self.0.iter().any(|glob| {
            let mut steps = glob.steps.iter();
            for component in folder.split(|&b| b == b'/') {
                match steps.next() {
                    None => return false,
                    Some(step) if step == b"**" => return true,
                    Some(step) => {
                        let mode = Mode::NO_MATCH_SLASH_LITERAL;
                        if !gix_glob::wildmatch(step.as_slice().into(), component.into(), mode) {
                            return false;
                        }
                    }
                }
            }
            steps.next().is_some()
        })
    }
}

fn read(text: &str) -> Result<Glob, &'static str> {
    let fault = glob_fault(text);
    let pattern = Pattern::from_bytes_without_negation(text.as_bytes());
    let (None, Some(pattern)) = (fault, pattern) else {
        return Err(fault.unwrap_or("it is blank"));
    };
    let anywhere = !pattern.mode.contains(PatternMode::ABSOLUTE)
        && pattern.mode.contains(PatternMode::NO_SUB_DIR);
    let mut steps: Vec<Vec<u8>> = Vec::new();
    if !anywhere && !pattern.text.starts_with(b"**/") {
        steps = pattern.text.split(|&b| b == b'/').map(<[u8]>::to_vec).collect();
    }
    Ok(Glob { pattern, steps })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn globs(list: &[&str]) -> Globs {
        let list: Vec<String> = list.iter().map(|&glob| glob.to_owned()).collect();
        Globs::parse("include", &list).unwrap()
    }

    #[test]
    fn a_bad_glob_is_named() {
        for bad in ["", "/", "a//b", "../a", "./a", "[a", "a[!]", "x\\", "!a", " "] {
            let error = Globs::parse("exclude", &[bad.to_owned()]).unwrap_err().to_string();
            assert!(error.starts_with(&format!("files.exclude: {bad:?} ")), "{error}");
        }
        globs(&["[]]", "[!]]x", "a[b-d]", "\\[", "/a/"]);
    }

    #[test]
    fn a_name_means_every_folder_and_a_path_only_one() {
        let globs = globs(&[".env", "data/blob.bin", "/top"]);
        assert!(globs.matches(b".env", false));
        assert!(globs.matches(b"a/b/.env", false));
        assert!(globs.matches(b"data/blob.bin", false));
        assert!(!globs.matches(b"x/data/blob.bin", false));
        assert!(globs.matches(b"top", true));
        assert!(!globs.matches(b"x/top", true));
    }

    #[test]
    fn only_globs_from_the_root_lead_into_ignored_folders() {
        let globs = globs(&[".env", "**/deep/x", "data/*/keep", "log/**/z", "/one/"]);
        assert!(globs.may_hold(b"data"));
        assert!(globs.may_hold(b"data/any"));
        assert!(!globs.may_hold(b"data/any/keep"));
        assert!(!globs.may_hold(b"node_modules"));
        assert!(globs.may_hold(b"log"));
        assert!(globs.may_hold(b"log/a/b/c"));
        assert!(!globs.may_hold(b"one"));
    }
}
