//! What commands name: the files that a line would destroy, gathered over all of its commands.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};
use std::rc::Rc;

use rappel::{Commit, DestructiveCommand};

use super::glob::matches_glob;
use super::rules::{Arguments, Reach, Rule, Targets};
use super::steps::Folder;
use super::word::Word;
use super::{Environment, Verdict};

/// So many names of a folder are held against a pattern, and so many paths are named; beyond that
/// the folder itself is meant.
const MOST_NAMES: usize = 4096;

/// What was found in a line so far.
#[derive(Debug, Default)]
pub(super) struct Findings {
    /// The variables that the commands find.
    pub(super) environment: Rc<Environment>,
    says: Vec<String>,
    /// What it does if a commit tracks ignored files.
    perhaps: BTreeSet<String>,
    reaches: BTreeSet<Reach>,
    files: BTreeSet<PathBuf>,
    ignored: BTreeSet<PathBuf>,
    untracked: BTreeSet<PathBuf>,
    pub(super) commits: BTreeSet<Commit>,
    /// A command has fetched: commits of remotes are others by then.
    pub(super) fetched: bool,
    /// A command has moved HEAD.
    pub(super) moved: bool,
    pub(super) unknown: BTreeSet<String>,
    elsewhere: BTreeSet<String>,
}

impl Findings {
    /// None yet, of commands that find these variables.
    pub fn within(environment: Rc<Environment>) -> Self {
        Self { environment, ..Self::default() }
    }

    pub fn is_destructive(&self) -> bool {
        !self.reaches.is_empty()
    }

    /// Notes that something is reached which only the run will tell.
    pub fn say_unknown(&mut self, what: &str) {
        self.unknown.insert(what.into());
    }

    /// Notes that something is destroyed if a commit tracks it.
    pub fn say_perhaps(&mut self, says: &str) {
        self.perhaps.insert(says.into());
    }

    /// Notes that something is destroyed.
    pub fn say(&mut self, says: &str, reaches: &[Reach]) {
        if !self.says.iter().any(|said| said == says) {
            self.says.push(says.into());
        }
        self.reaches.extend(reaches);
        if reaches.contains(&Reach::Outside) {
            self.elsewhere.insert(says.into());
        }
    }

    /// Notes the files that these words name.
    pub fn add<'w>(&mut self, words: impl IntoIterator<Item = &'w Word>, folder: &Folder) {
        for word in words {
            match paths(word, folder) {
                Some(paths) => self.files.extend(paths),
                None => _ = self.unknown.insert(word.raw.clone()),
            }
        }
        if self.files.len() > MOST_NAMES
            && let Some(folder) = folder
        {
            self.files = [folder.to_path_buf()].into();
        }
    }

    /// The same, for those that exist and would be overwritten. Returns whether any does, or may.
    pub fn add_existing<'w>(
        &mut self,
        words: impl IntoIterator<Item = &'w Word>,
        folder: &Folder,
    ) -> bool {
        self.add_if(words, folder, has_content)
    }

    /// Notes those of the files that are as `holds` says. Returns whether any is, or may be.
    fn add_if<'w>(
        &mut self,
        words: impl IntoIterator<Item = &'w Word>,
        folder: &Folder,
        holds: impl Fn(&Path) -> bool,
    ) -> bool {
        let mut any = false;
        for word in words {
            match paths(word, folder) {
                Some(paths) => {
                    for path in paths.into_iter().filter(|path| holds(path)) {
                        any = true;
                        self.files.insert(path);
                    }
                }
                None => {
                    self.unknown.insert(word.raw.clone());
                    any = true;
                }
            }
        }
        any
    }

    /// Notes what a rule says about the files. Returns whether the rule applies at all.
    pub fn add_targets(
        &mut self,
        rule: &Rule,
        arguments: &Arguments<'_>,
        depth: usize,
        folder: &Folder,
    ) -> bool {
        let operands = || arguments.rest(depth);
        match rule.targets {
            Targets::None => {}
            Targets::Operands => self.add(operands(), folder),
            Targets::BehindScript => {
                let scripts = ["-e", "-f", "-E", "--expression", "--file"];
                let given = scripts.iter().any(|option| arguments.has(option));
                self.add(operands().skip(usize::from(!given)), folder);
            }
            Targets::Existing => return self.add_existing(operands(), folder),
            Targets::Present => {
                // `git checkout .` takes no ignored file, whatever lies here.
                let is_there = |path: &Path| {
                    path.symlink_metadata().is_ok() && Some(path) != folder.as_deref()
                };
                return self.add_if(operands(), folder, is_there);
            }
            Targets::Destination => return self.add_destination(rule, arguments, depth, folder),
            Targets::Last => self.add(operands().last(), folder),
            Targets::Of => {
                for word in operands() {
                    let Some(file) = word.start().strip_prefix("of=") else { continue };
                    let word = Word { values: vec![file.into()], ..word.clone() };
                    self.add([&word], folder);
                }
            }
            Targets::Clean => {
                let named: Vec<&Word> = operands().collect();
                let here = Word::known(".");
                let named = if named.is_empty() { vec![&here] } else { named };
                // Untracked files are in the checkpoint anyway, but for those that are too large.
                let with_ignored = arguments.has("-x") || arguments.has("-X");
                for word in named {
                    let found = match (paths(word, folder), folder) {
                        // Git's own patterns reach wherever they fit.
                        (_, Some(folder)) if is_pathspec(word) => vec![work_tree_of(folder)],
                        (Some(paths), _) => paths,
                        (None, _) if !with_ignored => continue,
                        (None, _) => {
                            self.unknown.insert(word.raw.clone());
                            continue;
                        }
                    };
                    match with_ignored {
                        true => self.ignored.extend(found),
                        false => self.untracked.extend(found),
                    }
                }
            }
            Targets::Value => {
                let options = rule.target_options.iter();
                let values: Vec<Word> = options.flat_map(|one| arguments.values_of(one)).collect();
                return self.add_existing(&values, folder);
            }
        }
        true
    }

    /// `mv a b`: `b`, or `b/a` where `b` is a folder.
    fn add_destination(
        &mut self,
        rule: &Rule,
        arguments: &Arguments<'_>,
        depth: usize,
        folder: &Folder,
    ) -> bool {
        let operands: Vec<&Word> = arguments.rest(depth).collect();
        let named = rule.target_options.iter().flat_map(|one| arguments.values_of(one)).last();
        let (to, sources) = match (&named, operands.split_last()) {
            (Some(named), _) => (named, &operands[..]),
            (None, Some((last, sources))) if !sources.is_empty() => (*last, sources),
            _ => return false,
        };
        let Some(places) = paths(to, folder) else {
            self.unknown.insert(to.raw.clone());
            return true;
        };
        let is_recursive = rule.recursive.iter().any(|option| arguments.has(option));
        let mut any = false;
        for place in places {
            let overwritten: Vec<PathBuf> = match place.is_dir() {
                false => vec![place],
                true => {
                    let mut overwritten = Vec::new();
                    for word in sources {
                        // `cp -r src/. place` copies what is in `src`.
                        let is_content = word.start().ends_with("/.");
                        for source in paths(word, folder).into_iter().flatten() {
                            let Some(name) = source.file_name() else { continue };
                            let to = if is_content { place.clone() } else { place.join(name) };
                            match is_recursive && source.is_dir() {
                                true => overwritten.extend(copied_over(source, to)),
                                false => overwritten.push(to),
                            }
                        }
                    }
                    overwritten
                }
            };
            let is_lost = |path: &PathBuf| has_content(path) || is_recursive && path.is_dir();
            for path in overwritten.into_iter().filter(is_lost) {
                any = true;
                self.files.insert(path);
            }
        }
        any
    }

    /// What an inner command found is what this one does.
    pub fn take(&mut self, other: Self) {
        for says in other.says {
            if !self.says.contains(&says) {
                self.says.push(says);
            }
        }
        self.perhaps.extend(other.perhaps);
        self.reaches.extend(other.reaches);
        self.files.extend(other.files);
        self.ignored.extend(other.ignored);
        self.untracked.extend(other.untracked);
        self.commits.extend(other.commits);
        self.fetched |= other.fetched;
        self.moved |= other.moved;
        self.unknown.extend(other.unknown);
        self.elsewhere.extend(other.elsewhere);
    }

    /// The same, of a line that was read without a grammar: its names of files mean nothing.
    pub fn take_roughly(&mut self, mut other: Self, line: &str) {
        if !other.is_destructive() {
            return;
        }
        other.forget_targets();
        let first = line.lines().next().unwrap_or_default();
        other.unknown.insert(first.chars().take(80).collect());
        self.take(other);
    }

    /// Forgets which files an inner command names; another one names them.
    pub fn forget_targets(&mut self) {
        self.files.clear();
        self.ignored.clear();
        self.untracked.clear();
        self.commits.clear();
        self.unknown.clear();
    }

    /// The commands run in another place: their files are not here.
    pub fn move_elsewhere(&mut self, runner: &str) {
        self.forget_targets();
        self.perhaps.clear();
        if !self.is_destructive() {
            return;
        }
        self.reaches.remove(&Reach::Files);
        self.reaches.remove(&Reach::Git);
        self.reaches.insert(Reach::Outside);
        self.elsewhere.insert(format!("what it does through {runner}"));
    }

    /// The verdict on the whole line.
    pub fn verdict(self, line: &str) -> Verdict {
        let perhaps = !self.is_destructive();
        let says = match perhaps {
            true if self.perhaps.is_empty() => return Verdict::Harmless,
            true => self.perhaps.into_iter().collect(),
            false => self.says,
        };
        let operation = DestructiveCommand {
            command: line.trim().to_owned(),
            does: says.join(", "),
            commits: self.commits.into_iter().collect(),
            perhaps,
            files: self.files.into_iter().collect(),
            ignored: self.ignored.into_iter().collect(),
            untracked: self.untracked.into_iter().collect(),
            unknown: self.unknown.into_iter().collect(),
            databases: self.reaches.contains(&Reach::Databases),
            elsewhere: self.elsewhere.into_iter().collect(),
        };
        match perhaps {
            true => Verdict::Perhaps(operation),
            false => {
                Verdict::Destructive { operation, reaches: self.reaches.into_iter().collect() }
            }
        }
    }
}

/// The paths that a word means; `None` where only the run will tell.
fn paths(word: &Word, folder: &Folder) -> Option<Vec<PathBuf>> {
    if word.unknown {
        return None;
    }
    let mut found = Vec::new();
    for value in &word.values {
        if value.is_empty() {
            continue;
        }
        // What PowerShell names has its own slashes.
        let value = match word.raw.contains(".\\") {
            true => word.raw.trim_matches(['"', '\'']).replace('\\', "/"),
            false => value.clone(),
        };
        // Nobody's workspace is a home folder: it is outside, wherever that is.
        if value.starts_with('~') {
            found.push(PathBuf::from(value));
            continue;
        }
        let path = match (&folder, value.starts_with('/')) {
            (_, true) => PathBuf::from(value),
            (Some(folder), false) => folder.join(value),
            (None, false) => return None,
        };
        let path = plain(&path);
        match word.pattern {
            true => found.extend(expand(&path)),
            false => found.push(path),
        }
    }
    Some(found)
}

/// A path without `.` and `..`, by its text alone.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => _ = plain.pop(),
            other => plain.push(other),
        }
    }
    plain
}

/// The files that a path with wildcards means. Where there are too many, or the wildcards go deeper
/// than names, it is the folder above them.
fn expand(path: &Path) -> Vec<PathBuf> {
    use std::os::unix::ffi::OsStrExt;

    let mut found = vec![PathBuf::new()];
    for part in path.components() {
        let name = part.as_os_str();
        let is_pattern = name.as_bytes().iter().any(|byte| b"*?[".contains(byte));
        if !is_pattern {
            for path in &mut found {
                path.push(name);
            }
            continue;
        }
        if name.as_bytes().windows(2).any(|two| two == b"**") {
            return found;
        }
        let mut next = Vec::new();
        for folder in &found {
            for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
                let known = entry.file_name();
                let hidden = known.as_bytes().starts_with(b".");
                let asked = name.as_bytes().starts_with(b".");
                if hidden == asked && matches_glob(known.as_bytes(), name.as_bytes()) {
                    next.push(folder.join(known));
                }
                if next.len() > MOST_NAMES {
                    return found;
                }
            }
        }
        found = next;
    }
    found
}

/// The files that a copy of a folder would overwrite. Where there are too many names to look at, it is
/// the folder that they are copied to.
fn copied_over(source: PathBuf, to: PathBuf) -> Vec<PathBuf> {
    let (whole, mut found, mut seen) = (to.clone(), Vec::new(), 0);
    let mut waiting = vec![(source, to)];
    while let Some((source, to)) = waiting.pop() {
        if to.symlink_metadata().is_err() {
            continue;
        }
        for entry in std::fs::read_dir(&source).into_iter().flatten().flatten() {
            seen += 1;
            if seen > MOST_NAMES {
                return vec![whole];
            }
            let to = to.join(entry.file_name());
            match entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                true => waiting.push((entry.path(), to)),
                false => found.push(to),
            }
        }
    }
    found
}

/// Whether git reads a word as more than a path.
fn is_pathspec(word: &Word) -> bool {
    word.values.iter().any(|value| value.starts_with(':') || value.contains(['*', '?', '[']))
}

/// The work tree that a folder lies in, or else the folder.
fn work_tree_of(folder: &Path) -> PathBuf {
    let mut above = folder.ancestors();
    above.find(|one| one.join(".git").symlink_metadata().is_ok()).unwrap_or(folder).to_owned()
}

/// Whether a file stands there that has something to lose.
fn has_content(path: &Path) -> bool {
    path.metadata().is_ok_and(|found| found.is_file() && found.len() > 0)
}
