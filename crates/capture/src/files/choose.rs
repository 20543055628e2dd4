//! Whether a path is taken: one judgement for the live file system and for the rules of a manifest.
//!
//! A folder is judged before what lies in it; [`Inside`] carries what was decided about the folder
//! down to its content, and [`Scope`] the rule files on the way.

use std::sync::{Arc, OnceLock};

use rappel_types::RelPath;

use super::builtin;
use super::databases;
use super::git::tracked::Status;
use super::git::{IGNORE, Repo};
use super::globs::Globs;
use super::patterns::Patterns;
use rappel_types::git_name::is_git;

/// The name of Rappel's own rule files.
pub(crate) const OWN: &[u8] = b".rappelignore";

/// What was decided about a folder, as far as its content is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Inside {
    /// Its content is judged by the rules.
    Normal = 0,
    /// Everything below is taken, because `include` says so.
    Included = 1,
    /// Git's rules ignore it; it was entered for the sake of something tracked or included.
    Ignored = 2,
    /// It is left out whether tracked or not; it was entered for something included or asked for.
    Refused = 3,
}

impl Inside {
    /// The reverse of `as u8`.
    pub fn from_byte(byte: u8) -> Option<Self> {
        [Self::Normal, Self::Included, Self::Ignored, Self::Refused].get(usize::from(byte)).copied()
    }
}

/// Why something is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Because {
    /// The rules say so, or say nothing.
    Rules,
    /// Git's rules ignore it, but it is tracked.
    Tracked,
    /// It was asked for, or the reason may go away without any rule changing; judge again next time.
    Today,
}

/// The judgement of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Choice {
    /// It can be taken for a repository's inside.
    Never,
    /// It is left out. `git` tells that being tracked would save it, `builtin` that nothing but the
    /// built-in list and a proof that may not be captured speaks against it.
    Omit { git: bool, builtin: bool },
    /// It is taken; for a folder, `inside` says how its content is judged.
    Take { because: Because, inside: Inside },
}

/// Where rule files are read from.
pub(crate) trait RuleFiles: Send + Sync {
    /// The bytes of the rule file at `path`; `None` if it is not there or no regular file.
    fn read(&self, path: &[u8]) -> Option<Vec<u8>>;
    /// Whether anything stands at `path`. Asked only for the proofs of the built-in list.
    fn exists(&self, path: &[u8]) -> bool;
}

/// A folder with rule files of its own, or in which a repository starts, and those above it.
/// Folders without such have the scope of the folder above.
#[derive(Debug)]
pub(crate) struct Scope {
    parent: Option<Arc<Scope>>,
    /// The folder, without a slash at the end.
    path: Vec<u8>,
    /// The repository that governs here.
    pub repo: Option<Arc<Repo>>,
    /// Whether it starts here, so that the rule files above are not git's business.
    starts: bool,
    /// Which rule files the folder has.
    has: Has,
    rules: OnceLock<FolderRules>,
}

/// Which rule files a folder has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Has {
    /// `.gitignore`.
    pub git: bool,
    /// `.rappelignore`.
    pub own: bool,
}

#[derive(Debug, Default)]
struct FolderRules {
    git: Option<Patterns>,
    own: Option<Patterns>,
}

impl Scope {
    /// The scope of the workspace's root.
    pub fn root(repo: Option<Arc<Repo>>, has: Has) -> Arc<Self> {
        Arc::new(Self {
            parent: None,
            path: Vec::new(),
            repo,
            starts: true,
            has,
            rules: OnceLock::new(),
        })
    }

    /// The scope inside the folder at `path`: `repo` if a repository starts there.
    pub fn enter(self: &Arc<Self>, path: &[u8], repo: Option<Arc<Repo>>, has: Has) -> Arc<Self> {
        let has = Has { git: has.git && (repo.is_some() || self.repo.is_some()), own: has.own };
        if repo.is_none() && has == Has::default() {
            return self.clone();
        }
        Arc::new(Self {
            parent: Some(self.clone()),
            path: path.to_vec(),
            starts: repo.is_some(),
            repo: repo.or_else(|| self.repo.clone()),
            has,
            rules: OnceLock::new(),
        })
    }

    /// Gives what has been read already of the rule file called `name`, and of no other.
    pub fn set(&self, git: Option<&[u8]>, own: Option<&[u8]>) {
        let rules = FolderRules { git: git.map(Patterns::parse), own: own.map(Patterns::parse) };
        let _ = self.rules.set(rules);
    }

    fn rules(&self, files: &dyn RuleFiles) -> &FolderRules {
        self.rules.get_or_init(|| {
            let read = |name: &[u8], has: bool| {
                let slash: &[u8] = if self.path.is_empty() { b"" } else { b"/" };
                let path = [&self.path, slash, name].concat();
                has.then(|| files.read(&path)).flatten().map(|bytes| Patterns::parse(&bytes))
            };
            FolderRules { git: read(IGNORE, self.has.git), own: read(OWN, self.has.own) }
        })
    }

    fn below<'p>(&self, path: &'p [u8]) -> &'p [u8] {
        if self.path.is_empty() { path } else { &path[self.path.len() + 1..] }
    }

    fn chain(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |scope| scope.parent.as_deref())
    }

    /// What the `.rappelignore` files say of `path`.
    fn own_verdict(&self, files: &dyn RuleFiles, path: &[u8], is_dir: bool) -> Option<bool> {
        self.chain().filter(|scope| scope.has.own).find_map(|scope| {
            let own = scope.rules(files).own.as_ref()?;
            own.verdict(scope.below(path), is_dir, false)
        })
    }

    /// Whether git ignores `path`; `None` where no repository governs.
    fn git_verdict(&self, files: &dyn RuleFiles, path: &[u8], is_dir: bool) -> Option<bool> {
        let repo = self.repo.as_ref()?;
        for scope in self.chain() {
            if scope.has.git
                && let Some(rules) = &scope.rules(files).git
                && let Some(verdict) = rules.verdict(scope.below(path), is_dir, repo.rules().fold)
            {
                return Some(verdict);
            }
            if scope.starts {
                break;
            }
        }
        Some(repo.verdict(path, is_dir).unwrap_or(false))
    }
}

impl Drop for Scope {
    fn drop(&mut self) {
        // One after the other: a chain of many folders must not become a stack of many frames.
        let mut next = self.parent.take();
        while let Some(scope) = next.and_then(Arc::into_inner) {
            let mut scope = scope;
            next = scope.parent.take();
        }
    }
}

/// A sorted list of paths that can be asked about any path.
#[derive(Debug, Clone, Default)]
pub(crate) struct PathSet<'a>(Vec<&'a RelPath>);

impl<'a> PathSet<'a> {
    /// Sorts `paths` if need be.
    pub fn new(paths: &'a [RelPath]) -> Self {
        let mut paths: Vec<_> = paths.iter().collect();
        if !paths.is_sorted() {
            paths.sort_unstable();
        }
        Self(paths)
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether it holds `path` itself.
    pub fn holds(&self, path: &[u8]) -> bool {
        self.at(path).is_some_and(|found| found.as_bytes() == path)
    }

    /// Whether it holds `path` or something below it. The empty path is above everything.
    pub fn reaches(&self, path: &[u8]) -> bool {
        if path.is_empty() {
            return !self.is_empty();
        }
        self.at(path).is_some_and(|found| {
            let found = found.as_bytes();
            found.starts_with(path) && matches!(found.get(path.len()), None | Some(b'/'))
        })
    }

    /// Whether it holds a folder above `path`.
    pub fn covers(&self, path: &[u8]) -> bool {
        let ends = (0..path.len()).filter(|&at| path[at] == b'/');
        !self.is_empty() && ends.into_iter().any(|end| self.holds(&path[..end]))
    }

    fn at(&self, path: &[u8]) -> Option<&'a RelPath> {
        if self.0.is_empty() {
            return None;
        }
        let path = RelPath::new(path).ok()?;
        let at = self.0.partition_point(|known| **known < path);
        self.0.get(at).copied()
    }
}

/// All rules together.
pub(crate) struct Chooser<'a> {
    pub include: &'a Globs,
    pub exclude: &'a Globs,
    pub excluded_paths: PathSet<'a>,
    pub also: PathSet<'a>,
    pub files: &'a dyn RuleFiles,
}

impl Chooser<'_> {
    /// Judges `path`, given what was decided about its folder.
    pub fn choose(&self, scope: &Scope, path: &[u8], is_dir: bool, inside: Inside) -> Choice {
        let name = &path[path.iter().rposition(|&b| b == b'/').map_or(0, |slash| slash + 1)..];
        if is_git(name) {
            return Choice::Never;
        }
        let natural = self.by_rules(scope, path, name, is_dir, inside);
        match natural {
            Choice::Omit { git, .. } if self.wanted(path, is_dir) => Choice::Take {
                because: Because::Today,
                inside: if git { Inside::Ignored } else { Inside::Refused },
            },
            other => other,
        }
    }

    /// Whether `path` was asked for, or lies on the way to something that was.
    pub fn wanted(&self, path: &[u8], is_dir: bool) -> bool {
        if is_dir { self.also.reaches(path) } else { self.also.holds(path) }
    }

    fn by_rules(
        &self,
        scope: &Scope,
        path: &[u8],
        name: &[u8],
        is_dir: bool,
        inside: Inside,
    ) -> Choice {
        let take = |inside| Choice::Take { because: Because::Rules, inside };
        if self.exclude.matches(path, is_dir)
            || self.excluded_paths.holds(path)
            || !is_dir && databases::is_unfinished(name)
        {
            return Choice::Omit { git: false, builtin: false };
        }
        if inside == Inside::Included || self.include.matches(path, is_dir) {
            return take(Inside::Included);
        }
        match inside {
            Inside::Ignored => return self.ignored(scope, path, is_dir),
            Inside::Refused => return self.refused(path, is_dir),
            Inside::Normal | Inside::Included => {}
        }
        match scope.own_verdict(self.files, path, is_dir) {
            Some(true) => return self.refused(path, is_dir),
            Some(false) => return take(Inside::Normal),
            None => {}
        }
        match scope.git_verdict(self.files, path, is_dir) {
            Some(true) => self.ignored(scope, path, is_dir),
            None if is_dir && builtin::by_name(name) => self.refused(path, true),
            None if is_dir && builtin::needs_proof(name) => {
                if !builtin::proven(path, &|proof| self.files.exists(proof)) {
                    // A proof inside the folder can appear without this folder noticing.
                    Choice::Take { because: Because::Today, inside: Inside::Normal }
                } else if self.include.may_hold(path) {
                    take(Inside::Refused)
                } else {
                    Choice::Omit { git: false, builtin: true }
                }
            }
            Some(false) | None => take(Inside::Normal),
        }
    }

    /// The judgement of what git's rules ignore.
    fn ignored(&self, scope: &Scope, path: &[u8], is_dir: bool) -> Choice {
        let because = Because::Tracked;
        let status = scope.repo.as_ref().map_or(Status::Unknown, |repo| repo.status(path));
        match status {
            Status::Submodule if is_dir => Choice::Take { because, inside: Inside::Normal },
            Status::Folder if is_dir => Choice::Take { because, inside: Inside::Ignored },
            Status::File | Status::Submodule if !is_dir => {
                Choice::Take { because, inside: Inside::Normal }
            }
            _ if is_dir && self.include.may_hold(path) => {
                Choice::Take { because: Because::Rules, inside: Inside::Ignored }
            }
            _ => Choice::Omit { git: true, builtin: false },
        }
    }

    /// The judgement of what is left out for good.
    fn refused(&self, path: &[u8], is_dir: bool) -> Choice {
        if is_dir && self.include.may_hold(path) {
            return Choice::Take { because: Because::Rules, inside: Inside::Refused };
        }
        Choice::Omit { git: false, builtin: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(paths: &[&str]) -> Vec<RelPath> {
        paths.iter().map(|path| RelPath::new(*path).unwrap()).collect()
    }

    #[test]
    fn a_path_set_knows_what_lies_on_the_way() {
        let paths = set(&["b/c/d", "a", "b-x", "b.y"]);
        let set = PathSet::new(&paths);
        assert!(set.holds(b"a") && set.holds(b"b/c/d") && !set.holds(b"b"));
        assert!(set.reaches(b"b") && set.reaches(b"b/c") && set.reaches(b"b/c/d"));
        assert!(!set.reaches(b"b/c/d/e") && !set.reaches(b"b/x") && !set.reaches(b"c"));
        assert!(set.covers(b"b/c/d/e/f") && set.covers(b"a/x") && !set.covers(b"b/c/x"));
        assert!(set.reaches(b"") && !PathSet::default().reaches(b""));
    }

    #[test]
    fn a_long_chain_of_scopes_is_dropped_without_recursion() {
        let mut scope = Scope::root(None, Has::default());
        for _ in 0..100_000 {
            scope = scope.enter(b"x", None, Has { git: false, own: true });
        }
        drop(scope);
    }
}
