//! What the documents of past restores, undos and redos say can be undone and redone. They are read
//! from the newest back, and only as far as the answer needs: a workspace may have been restored
//! many thousand times.

use rappel_store::document::{Undo, UndoGit, UndoKind, UndoWorktree};
use rappel_types::CheckpointId;

use crate::error::Result;

/// So many documents are read at first; each further look reads four times as many.
const AT_FIRST: usize = 4;

/// A restore, undo or redo of the past.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Past {
    /// The commit it was born with.
    pub birth: u64,
    /// What it did; of a restore that was undone in part, what is left of that.
    pub undo: Undo,
    /// The checkpoint that the user restored, if that is what stands by it or was taken back by it.
    pub restored: Option<CheckpointId>,
    /// Whether it was undone in part.
    pub is_rest: bool,
    /// Whether `restored` is all that can be known of it.
    is_known: bool,
}

/// Some documents, newest first, each with the commit it was born with; and whether there are no
/// older ones.
pub(super) struct Page {
    pub steps: Vec<(u64, Undo)>,
    pub is_last: bool,
}

/// Reads so many documents that were born with this commit or before.
pub(super) type Read<'a> = &'a dyn Fn(u64, usize) -> Result<Page>;

/// The past of a workspace.
pub(super) struct Steps<'a>(pub Read<'a>);

impl Steps<'_> {
    /// The commit of the newest document that was born with this commit or before, and what it says.
    pub fn newest(&self, until: u64) -> Result<Option<(u64, Undo)>> {
        let mut limit = 1;
        loop {
            let page = (self.0)(until, limit)?;
            // One that cannot be read is passed over.
            if let Some(newest) = page.steps.into_iter().next() {
                return Ok(Some(newest));
            }
            if page.is_last {
                return Ok(None);
            }
            limit *= 4;
        }
    }

    /// What was done last before this commit.
    pub fn before(&self, commit: u64) -> Result<Option<Undo>> {
        let mut until = commit;
        while let Some((birth, undo)) = self.newest(until.saturating_sub(1))? {
            if undo.kind != UndoKind::Restore || !undo.did_nothing() {
                return Ok(Some(undo));
            }
            until = birth;
        }
        Ok(None)
    }

    /// The commit after which the same could be undone as after this one; 0 is nothing.
    pub fn stand(&self, until: u64) -> Result<u64> {
        let mut at = until;
        while let Some((birth, undo)) = self.newest(at)? {
            match undo.stands {
                Some(stands) if stands < birth => at = stands,
                _ => return Ok(birth),
            }
            if at == 0 {
                break;
            }
        }
        Ok(0)
    }

    /// What undo would take back after this commit.
    pub fn top(&self, until: u64) -> Result<Option<Past>> {
        let at = self.stand(until)?;
        if at == 0 {
            return Ok(None);
        }
        let mut limit = AT_FIRST;
        loop {
            let page = (self.0)(at, limit)?;
            let mut fold = Fold { is_whole: page.is_last, ..Fold::default() };
            for (birth, undo) in page.steps.into_iter().rev() {
                fold.add(birth, undo);
            }
            let top = fold.restores.pop();
            if page.is_last || top.as_ref().is_some_and(|top| top.is_known) {
                return Ok(top);
            }
            limit *= 4;
        }
    }

    /// What redo would take back after this commit.
    pub fn undone(&self, until: u64) -> Result<Option<Past>> {
        let (mut until, mut redone) = (until, 0_u32);
        while let Some((birth, undo)) = self.newest(until)? {
            match undo.kind {
                UndoKind::Restore | UndoKind::Undo if undo.did_nothing() => {}
                UndoKind::Restore => return Ok(None),
                UndoKind::Undo if redone > 0 => redone -= 1,
                UndoKind::Undo => {
                    let before = self.top(birth - 1)?;
                    let took_back = before.filter(|past| past.undo.from == undo.to);
                    let restored = took_back.and_then(|past| past.restored);
                    return Ok(Some(Past {
                        birth,
                        undo,
                        restored,
                        is_rest: false,
                        is_known: true,
                    }));
                }
                UndoKind::Redo => redone += 1,
            }
            until = birth - 1;
        }
        Ok(None)
    }

    /// What a new step is to say of [`Undo::stands`].
    pub fn stands_after(&self, undo: &Undo) -> Result<Option<u64>> {
        if undo.kind != UndoKind::Undo {
            return Ok(None);
        }
        let Some(mut past) = self.top(u64::MAX)?.filter(|past| past.undo.from == undo.to) else {
            return Ok(Some(self.stand(u64::MAX)?));
        };
        // The rest of it stands by itself.
        let has_rest = !undo.did_nothing() && take_out(&mut past.undo, undo);
        Ok(match has_rest {
            true => None,
            false => Some(self.stand(past.birth - 1)?),
        })
    }
}

/// What a run of documents says can be undone and redone.
#[derive(Default)]
struct Fold {
    /// Restores that were not undone, oldest first.
    restores: Vec<Past>,
    /// Undos that were not redone, oldest first.
    undone: Vec<Past>,
    /// Whether nothing came before the first document.
    is_whole: bool,
    /// Whether a restore came since, which ends what could be redone before.
    has_restored: bool,
}

impl Fold {
    fn add(&mut self, birth: u64, undo: Undo) {
        // A restore that had nothing to do is nothing to take back. It was remembered once.
        if undo.kind == UndoKind::Restore && undo.did_nothing() {
            return;
        }
        match undo.kind {
            UndoKind::Restore => {
                let restored = Some(undo.to.clone());
                let past = Past { birth, undo, restored, is_rest: false, is_known: true };
                self.restores.push(past);
                self.undone.clear();
                self.has_restored = true;
            }
            UndoKind::Undo => {
                let (mut restored, mut is_known) =
                    (None, self.is_whole || !self.restores.is_empty());
                if let Some(mut past) = self.restores.pop_if(|last| last.undo.from == undo.to) {
                    restored.clone_from(&past.restored);
                    is_known = past.is_known;
                    past.is_rest = true;
                    // One that found nothing to do has ended the step: there is no rest of it.
                    if !undo.did_nothing() && take_out(&mut past.undo, &undo) {
                        self.restores.push(past);
                    }
                }
                if !undo.did_nothing() {
                    self.undone.push(Past { birth, undo, restored, is_rest: false, is_known });
                }
            }
            UndoKind::Redo => {
                let redone = self.undone.pop();
                if redone.is_none() && !self.is_whole && !self.has_restored {
                    // It was undone before the first document, and lies on top of these now.
                    self.restores.clear();
                }
                if let Some(redone) = redone.filter(|_| !undo.did_nothing()) {
                    // What was undone stands again, and can be undone again.
                    self.restores.push(Past {
                        birth: redone.birth.max(birth),
                        undo: Undo { from: redone.undo.to, ..undo },
                        restored: redone.restored,
                        is_rest: false,
                        is_known: redone.is_known,
                    });
                }
            }
        }
    }
}

/// Takes out of a restore what an undo took back; false if nothing is left.
fn take_out(restore: &mut Undo, undo: &Undo) -> bool {
    restore.paths.retain(|path| undo.paths.binary_search(path).is_err());
    restore.git.retain_mut(|one| match undo.git.iter().find(|undone| undone.path == one.path) {
        Some(undone) => take_out_git(one, undone),
        None => true,
    });
    let undone = |name: &str| undo.databases.iter().any(|one| one.name == name);
    restore.databases.retain(|one| !undone(&one.name));
    restore.sessions.retain(|one| undo.sessions.iter().all(|undone| undone.id != one.id));
    restore.transcripts &= !undo.transcripts;
    !restore.did_nothing()
}

fn take_out_git(one: &mut UndoGit, undone: &UndoGit) -> bool {
    one.refs.retain(|name| !undone.refs.contains(name));
    one.whole &= !undone.whole;
    one.link &= !undone.link;
    one.worktrees.retain_mut(|worktree| {
        let undone = undone.worktrees.iter().find(|undone| undone.name == worktree.name);
        undone.is_none_or(|undone| take_out_worktree(worktree, undone))
    });
    !one.refs.is_empty() || one.whole || one.link || !one.worktrees.is_empty()
}

fn take_out_worktree(one: &mut UndoWorktree, undone: &UndoWorktree) -> bool {
    one.paths.retain(|path| !undone.paths.contains(path));
    one.whole &= !undone.whole;
    one.link &= !undone.link;
    one.admin &= !undone.admin;
    one.whole || one.link || one.admin || !one.paths.is_empty()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use rappel_types::{RelPath, Timestamp, WorkspaceId};

    use super::*;

    /// Steps in memory, and how many of them are read.
    #[derive(Default)]
    struct Memory {
        steps: Vec<(u64, Undo)>,
        read: Cell<usize>,
    }

    fn id(number: u64) -> CheckpointId {
        format!("chk_20260101_000000_{number:04}").parse().unwrap()
    }

    impl Memory {
        fn ask<T>(&self, question: impl FnOnce(&Steps<'_>) -> Result<T>) -> T {
            self.read.set(0);
            let read = |until: u64, limit: usize| {
                let older = self.steps.iter().rev().filter(|(birth, _)| *birth <= until);
                let steps: Vec<(u64, Undo)> = older.take(limit).cloned().collect();
                self.read.set(self.read.get() + steps.len());
                let is_last = steps.len() < limit;
                Ok(Page { steps, is_last })
            };
            question(&Steps(&read)).unwrap()
        }

        fn add(&mut self, kind: UndoKind, to: CheckpointId, paths: &[&str]) {
            let birth = 10 * (self.steps.len() as u64 + 1);
            let mut undo = Undo {
                version: 1,
                workspace: WorkspaceId(1),
                kind,
                from: id(birth),
                to,
                facets: Vec::new(),
                paths: paths.iter().map(|path| RelPath::new(*path).unwrap()).collect(),
                git: Vec::new(),
                databases: Vec::new(),
                sessions: Vec::new(),
                transcripts: false,
                partial: false,
                mixed: Vec::new(),
                stands: None,
                at: Timestamp::from_millis(0),
            };
            undo.stands = self.ask(|steps| steps.stands_after(&undo));
            self.steps.push((birth, undo));
        }

        fn restore(&mut self) {
            let number = self.steps.len() as u64;
            self.add(UndoKind::Restore, id(5_000 + number), &["a", "b"]);
        }

        /// Takes back what undo would, all of it or just this path.
        fn undo(&mut self, only: Option<&str>) {
            let top = self.ask(|steps| steps.top(u64::MAX));
            let to = top.as_ref().map_or(id(9_999), |top| top.undo.from.clone());
            let all = top.map_or(Vec::new(), |top| top.undo.paths);
            let all: Vec<String> = all.iter().map(ToString::to_string).collect();
            let all: Vec<&str> = all.iter().map(String::as_str).collect();
            match only {
                Some(only) => self.add(UndoKind::Undo, to, &[only]),
                None if all.is_empty() => self.add(UndoKind::Undo, to, &["a"]),
                None => self.add(UndoKind::Undo, to, &all),
            }
        }

        fn redo(&mut self) {
            if let Some(undone) = self.ask(|steps| steps.undone(u64::MAX)) {
                self.add(UndoKind::Redo, undone.undo.from, &["a", "b"]);
            }
        }

        /// What all documents say, from the first to the last.
        fn all(&self) -> (Option<Past>, Option<Past>) {
            let mut fold = Fold { is_whole: true, ..Fold::default() };
            for (birth, undo) in self.steps.clone() {
                fold.add(birth, undo);
            }
            (fold.restores.pop(), fold.undone.pop())
        }

        fn assert_same(&self, when: &str) {
            let found =
                (self.ask(|steps| steps.top(u64::MAX)), self.ask(|steps| steps.undone(u64::MAX)));
            assert_eq!(found, self.all(), "{when}");
        }
    }

    /// Whatever was done, as many documents are read after ten times as after a thousand.
    #[test]
    fn what_is_read_does_not_grow_with_the_history() {
        type Deed = fn(&mut Memory);
        let deeds: [(&str, Deed); 6] = [
            ("restored", Memory::restore),
            ("restored and undone", |memory| {
                memory.restore();
                memory.undo(None);
            }),
            ("restored, undone and redone", |memory| {
                memory.restore();
                memory.undo(None);
                memory.redo();
            }),
            ("restored, and undone in part", |memory| {
                memory.restore();
                memory.undo(Some("a"));
            }),
            ("gone back by parents", |memory| {
                memory.add(UndoKind::Undo, id(9_999), &["a"]);
            }),
            ("restored twice and undone once", |memory| {
                memory.restore();
                memory.restore();
                memory.undo(None);
            }),
        ];
        for (what, deed) in deeds {
            let mut memory = Memory::default();
            // One that is never undone lies below.
            memory.restore();
            let mut counts = Vec::new();
            for times in 1..=1_000 {
                deed(&mut memory);
                if [10, 1_000].contains(&times) {
                    memory.assert_same(what);
                    memory.ask(|steps| steps.top(u64::MAX));
                    let top = memory.read.get();
                    memory.ask(|steps| steps.undone(u64::MAX));
                    let undone = memory.read.get();
                    let undo = Undo { kind: UndoKind::Undo, ..memory.steps[0].1.clone() };
                    memory.ask(|steps| steps.stands_after(&undo));
                    counts.push((top, undone, memory.read.get()));
                }
            }
            assert_eq!(counts[0], counts[1], "{what}");
            assert!(counts[1].0 < 40 && counts[1].1 < 40, "{what}: {counts:?}");
        }
    }

    #[test]
    fn it_says_the_same_as_all_documents_from_the_first_on() {
        let mut number = 20_260_101_u64;
        let mut next = |below: u64| {
            number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (number >> 33) % below
        };
        for round in 0..200 {
            let mut memory = Memory::default();
            for step in 0..30 {
                match next(7) {
                    0..=2 => memory.restore(),
                    3 | 4 => memory.undo(None),
                    5 => memory.undo(Some("a")),
                    _ => memory.redo(),
                }
                if next(3) == 0 {
                    // Written by a version that knew nothing of it.
                    memory.steps.iter_mut().last().into_iter().for_each(|one| one.1.stands = None);
                }
                memory.assert_same(&format!("round {round}, step {step}"));
            }
        }
    }
}
