//! What of a workspace git does not see as the files facet does: databases of SQLite are files to
//! git, and `include`, `[knowledge]` and `[[database]]` bring in what its rules ignore.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::OnceLock;

use rappel_types::RelPath;
use rappel_types::manifest::SelectionRules;

use crate::error::Result;
use crate::files::Selector;
use crate::files::choose::OWN;
use crate::files::globs::Globs;
use crate::files::handle::Root;
use crate::files::stamp::Stamp;

/// No rule file is longer.
const RULES_MAX: u64 = 16 << 20;

/// How databases look, by their path.
pub type Databases = BTreeMap<RelPath, Stamp>;

/// What is beyond git's rules.
pub struct Extra<'a> {
    root: &'a Path,
    rules: &'a SelectionRules,
    include: Globs,
    /// The databases of SQLite in the workspace.
    pub databases: Databases,
    /// Git's rules alone, once they were asked for.
    git: OnceLock<Option<Selector<'static>>>,
}

impl<'a> Extra<'a> {
    /// Beside the files that `rules` chose, there may be these databases.
    pub fn look(
        root: &'a Path,
        rules: &'a SelectionRules,
        databases: impl IntoIterator<Item = RelPath>,
    ) -> Result<Self> {
        let look = |path: RelPath| {
            let file = root.join(OsStr::from_bytes(path.as_bytes()));
            Some((path, Stamp::of(&rustix::fs::lstat(&file).ok()?)))
        };
        Ok(Self {
            root,
            rules,
            include: Globs::parse("include", &rules.include)?,
            databases: databases.into_iter().filter_map(look).collect(),
            git: OnceLock::new(),
        })
    }

    /// Whether there is nothing of that kind.
    pub fn is_empty(&self) -> bool {
        self.rules.include.is_empty() && self.databases.is_empty()
    }

    /// Whether git ignores something that the checkpoint holds.
    pub fn is_ignored(&self, path: &RelPath) -> bool {
        let included = || {
            path.ancestors().any(|folder| self.include.matches(folder.as_bytes(), true))
                || self.include.matches(path.as_bytes(), false)
        };
        (self.databases.contains_key(path) || included())
            && self.git().is_some_and(|git| !git.selects(path, false))
    }

    fn git(&self) -> Option<&Selector<'static>> {
        let read = || {
            let rules = SelectionRules {
                include: Vec::new(),
                exclude: Vec::new(),
                excluded_roots: Vec::new(),
                ..self.rules.clone()
            };
            let root = Root::open(self.root).ok()?;
            let rule_file = move |path: &RelPath| {
                let file = (path.name() != OWN).then(|| root.open_file(path.as_bytes()).ok())??;
                let mut text = Vec::new();
                file.take(RULES_MAX).read_to_end(&mut text).ok()?;
                Some(text)
            };
            Selector::recorded(&rules, rule_file).ok()
        };
        self.git.get_or_init(read).as_ref()
    }
}
