//! What of a repository git cannot read, before a restore or after an undo, and how that is said.

use std::collections::BTreeSet;

use rappel_capture::git::folder::{Role, role, split};
use rappel_capture::git::program::Git;
use rappel_capture::git::refs::Target;
use rappel_capture::git::spoilt::{Mend, Text, live_text, mend};
use rappel_capture::git::status::stages_the_same;
use rappel_capture::git::{Place, State, linked};
use rappel_store::content;
use rappel_store::sink::Source;
use rappel_types::plan::Conflict;
use rappel_types::{Node, RelPath};

use super::describe::named;
use super::plan::{GitPlanned, GitWish};

/// What git cannot read on either side of a restore.
#[derive(Default)]
pub(super) struct Unread {
    /// What it cannot read now.
    pub mend: Mend,
    /// What it could not read before the restore that is taken back.
    spoil: BTreeSet<RelPath>,
    /// Of that, what was changed since.
    edited: BTreeSet<RelPath>,
}

impl Unread {
    pub fn find(
        source: &dyn Source,
        (here, there): (&State, &State),
        place: &Place,
        worktrees: &BTreeSet<Vec<u8>>,
        (wish, left): (&GitWish, Option<&State>),
    ) -> Self {
        let own = there.part.linked.as_ref().map(|name| name.as_bytes().to_vec());
        let mut live = live_text(&place.common_dir);
        let mut stored = |path: &RelPath| match there.files.get(path)? {
            Node::File { size, content, .. } => content::read(source, content, *size, *size).ok(),
            _ => None,
        };
        let common = same_worktrees((here, there), &mut live, &mut stored);
        let concerns = |name: &[u8]| {
            own.as_deref() == Some(name) || worktrees.contains(name) || common.contains(name)
        };
        let mend_now = mend(here, there, &concerns, &mut live, source);
        let mut found = Self { mend: mend_now, ..Self::default() };
        if wish.touched.is_none() {
            return found;
        }
        let then = mend(there, here, &concerns, &mut stored, source).paths;
        let is_left = |path: &RelPath| {
            let left = left.map(|left| left.files.get(path));
            match (left, here.files.get(path)) {
                // Where git only looked at the files again, nobody changed anything.
                (Some(Some(left)), Some(here)) if path.name() == b"index" => {
                    left == here || stages_the_same(left, here, place.hash, source)
                }
                (left, here) => left.is_none_or(|left| left == here),
            }
        };
        (found.spoil, found.edited) = then.into_iter().partition(is_left);
        // An undo puts back what git could not read; that mends nothing.
        found.mend.paths.retain(|path| !found.spoil.contains(path));
        found
    }

    /// Refs that led to objects that git cannot read go back as files: git itself refuses that.
    pub fn spoil_refs(
        &mut self,
        (here, there): (&State, &State),
        left: Option<&State>,
        git: &Git<'_>,
    ) {
        let is_left =
            |name: &RelPath| left.is_none_or(|left| left.refs.get(name) == here.refs.get(name));
        let moving = there.refs.iter().filter_map(|(name, target)| match target {
            Target::Object(oid) if here.refs.get(name) != Some(target) && is_left(name) => {
                Some((name, oid))
            }
            _ => None,
        });
        let moving: Vec<_> = moving.filter(|(name, _)| there.files.contains_key(*name)).collect();
        let input: String = moving.iter().map(|(_, oid)| format!("{oid}\n")).collect();
        let asked = ["cat-file", "--batch-check=%(objecttype)"];
        let answer = git.ask(&asked, input.as_bytes()).unwrap_or_default();
        let mut lines = answer.split(|&b| b == b'\n');
        for (name, _) in moving {
            let line = lines.next().unwrap_or_default();
            if line.is_empty() || line.ends_with(b" missing") {
                self.spoil.insert(name.clone());
            }
        }
    }

    pub fn mends(&self) -> bool {
        !self.mend.paths.is_empty()
    }

    pub fn spoils(&self) -> bool {
        !self.spoil.is_empty()
    }

    /// What follows the refs while the rest comes before them, where both happen: git has to be
    /// able to read the repository in between.
    pub fn last(&self) -> Vec<RelPath> {
        match self.mends() && self.spoils() {
            true => self.spoil.iter().cloned().collect(),
            false => Vec::new(),
        }
    }

    /// Everything that changes as a file because of it.
    pub fn paths(&self) -> BTreeSet<RelPath> {
        self.mend.paths.union(&self.spoil).cloned().collect()
    }
}

/// The linked work trees that both sides have in the same place, as far as they say where: one that
/// was made anew elsewhere gets nothing of what it was.
fn same_worktrees(
    (here, there): (&State, &State),
    live: Text<'_>,
    stored: Text<'_>,
) -> BTreeSet<Vec<u8>> {
    let names = here.files.keys().filter_map(|path| match split(path.as_bytes()) {
        (Some(name), b"") => Some(name),
        _ => None,
    });
    let names = names.filter(|name| linked::is_there(here, name) && linked::is_there(there, name));
    let is_same = |name: &&[u8]| {
        let Ok(path) = RelPath::new([b"worktrees/", *name, b"/gitdir"].concat()) else {
            return false;
        };
        let says =
            |bytes: Option<Vec<u8>>| bytes.is_some_and(|bytes| linked::is_sound(b"gitdir", &bytes));
        here.files.get(&path) == there.files.get(&path)
            || !says(live(&path))
            || !says(stored(&path))
    };
    names.filter(is_same).map(<[u8]>::to_vec).collect()
}

impl GitPlanned {
    /// Set-up is brought back only with a repository that is gone; who expects more should know.
    pub(super) fn say_what_stays(
        &mut self,
        (here, there): (&State, &State),
        but: &BTreeSet<RelPath>,
    ) {
        let paths: BTreeSet<&RelPath> = here.files.keys().chain(there.files.keys()).collect();
        let is_file = |node: Option<&Node>| matches!(node, Some(Node::File { .. }));
        let stays = |path: &&&RelPath| {
            let (now, then) = (here.files.get(**path), there.files.get(**path));
            now != then
                && (is_file(now) || is_file(then))
                && split(path.as_bytes()).0.is_none()
                && role(path.as_bytes()) == Role::Setup
                && !but.contains(**path)
        };
        let names: Vec<String> = paths.iter().filter(stays).map(ToString::to_string).collect();
        let more = match names.len() {
            0 => return,
            1..=3 => String::new(),
            many => format!(" and {} more", many - 3),
        };
        let names = names[..names.len().min(3)].join(", ");
        let prefix = there.path.as_ref().map(|path| format!("{path}: ")).unwrap_or_default();
        self.details.push(format!("{prefix}{names}{more}: set-up, stays as it is now"));
    }

    pub(super) fn say_unread(&mut self, unread: Unread, repository: Option<&RelPath>) {
        let prefix = repository.map(|path| format!("{path}: ")).unwrap_or_default();
        let shown = |paths: &BTreeSet<RelPath>| -> Vec<String> {
            let is_outermost = |path: &&RelPath| !path.ancestors().any(|at| paths.contains(&at));
            paths.iter().filter(is_outermost).map(ToString::to_string).collect()
        };
        for path in shown(&unread.mend.paths) {
            self.details.push(format!("{prefix}{path}: git cannot read it; it is put back"));
            self.mended.push(format!("{prefix}{path}"));
        }
        for path in shown(&unread.spoil) {
            let why = "git could not read it before the restore";
            self.details.push(format!("{prefix}{path}: as it was; {why}"));
            self.spoilt.push(format!("{prefix}{path}"));
        }
        for path in &unread.mend.left {
            self.warnings.push(format!(
                "git cannot read {path} in {}, and the checkpoint does not hold it: it is left as it is",
                named(repository)
            ));
        }
        self.edited.extend(unread.edited.into_iter().map(|path| {
            let reason = "git could not read it before the restore; it was changed since, kept";
            Conflict::of_git(path, reason)
        }));
    }
}
