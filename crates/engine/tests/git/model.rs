//! Any repository, any damage, any deletions in between: what was saved comes back whole.

use std::collections::BTreeMap;
use std::path::PathBuf;

use proptest::prelude::*;
use rappel::{RestoreOptions, RestoreReport};

use crate::bench::{Bench, Portrait, arg, assert_same, attempt, portrait};
use crate::support::reference;

#[derive(Debug, Clone)]
enum Step {
    Write(u8, u8),
    Stage(u8),
    Commit,
    Amend,
    Branch(u8),
    Checkout(u8),
    Detach,
    Tag(u8),
    Stash,
    Merge(u8),
    CherryPick(u8),
    Rebase(u8),
    Abort,
    ResetHard,
    DeleteBranch(u8),
    DeleteTag(u8),
    DropStash,
    ClearStash,
    PackRefs,
    Gc,
    LoseGit,
    WorkThere(u8),
    RemoveWorktree,
    Save,
    Restore(u8, bool),
    Delete(u8),
    LoseCache,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (any::<u8>(), any::<u8>()).prop_map(|(n, text)| Step::Write(n, text)),
        3 => any::<u8>().prop_map(Step::Stage),
        3 => Just(Step::Commit),
        1 => Just(Step::Amend),
        2 => any::<u8>().prop_map(Step::Branch),
        2 => any::<u8>().prop_map(Step::Checkout),
        1 => Just(Step::Detach),
        1 => any::<u8>().prop_map(Step::Tag),
        2 => Just(Step::Stash),
        2 => any::<u8>().prop_map(Step::Merge),
        1 => any::<u8>().prop_map(Step::CherryPick),
        1 => any::<u8>().prop_map(Step::Rebase),
        1 => Just(Step::Abort),
        2 => Just(Step::ResetHard),
        1 => any::<u8>().prop_map(Step::DeleteBranch),
        1 => any::<u8>().prop_map(Step::DeleteTag),
        1 => Just(Step::DropStash),
        1 => Just(Step::ClearStash),
        1 => Just(Step::PackRefs),
        2 => Just(Step::Gc),
        1 => Just(Step::LoseGit),
        1 => any::<u8>().prop_map(Step::WorkThere),
        1 => Just(Step::RemoveWorktree),
        5 => Just(Step::Save),
        5 => (any::<u8>(), any::<bool>()).prop_map(|(n, undo)| Step::Restore(n, undo)),
        1 => any::<u8>().prop_map(Step::Delete),
        1 => Just(Step::LoseCache),
    ]
}

fn branch(number: u8) -> String {
    format!("b{}", number % 4)
}

fn file(number: u8) -> String {
    ["a", "d/b", "d/e/c", "new one"][usize::from(number) % 4].to_owned()
}

/// The repository and its other work tree.
#[derive(Clone)]
struct Both {
    here: Portrait,
    there: Option<Portrait>,
}

struct Model {
    bench: Bench,
    there: PathBuf,
    saved: BTreeMap<String, Both>,
}

impl Model {
    fn new() -> Self {
        let bench = Bench::empty();
        bench.commit("a", "first\n");
        let there = bench.outside("there");
        bench.git(&["worktree", "add", "-q", "-b", "there", arg(&there)]);
        Self { bench, there, saved: BTreeMap::new() }
    }

    fn look(&self) -> Both {
        let there = self.there.join(".git").exists().then(|| portrait(&self.there));
        let mut both = Both { here: self.bench.portrait(), there };
        // An index that stages the same is left alone, whatever else it remembers.
        for one in std::iter::once(&mut both.here).chain(&mut both.there) {
            one.inside.retain(|path, _| path != "index" && !path.ends_with("/index"));
        }
        both
    }

    fn pick(&self, number: u8) -> Option<String> {
        self.saved.keys().nth(usize::from(number) % self.saved.len().max(1)).cloned()
    }

    /// Compares, but for the work tree that a checkpoint without one leaves alone.
    fn compare(&self, expected: &Both, when: &str) {
        let mut now = self.look();
        let mut expected = expected.clone();
        if expected.there.is_none() {
            for one in [&mut now.here, &mut expected.here] {
                without_worktree(one);
            }
        } else {
            assert!(now.there.is_some(), "{when}");
        }
        assert_same(&now.here, &expected.here, when);
        if let (Some(now), Some(expected)) = (&now.there, &expected.there) {
            assert_same(now, expected, when);
        }
    }

    fn take(&mut self, step: &Step) {
        let bench = &self.bench;
        let ask = |arguments: &[&str]| drop(bench.attempt(arguments));
        match step {
            Step::Write(number, text) => {
                bench
                    .world
                    .write(&file(*number), format!("{text}\n").repeat(1 + *text as usize % 3));
            }
            Step::Stage(number) => ask(&["add", &file(*number)]),
            Step::Commit => ask(&["commit", "-q", "-m", "more"]),
            Step::Amend => ask(&["commit", "-q", "--amend", "-m", "amended"]),
            Step::Branch(number) => ask(&["branch", &branch(*number)]),
            Step::Checkout(number) => ask(&["checkout", "-q", &branch(*number)]),
            Step::Detach => ask(&["checkout", "-q", "--detach"]),
            Step::Tag(number) => ask(&["tag", "-a", "-m", "tag", &format!("t{}", number % 3)]),
            Step::Stash => ask(&["stash", "push", "-q", "-u"]),
            Step::Merge(number) => ask(&["merge", "--no-ff", "-m", "merged", &branch(*number)]),
            Step::CherryPick(number) => ask(&["cherry-pick", &branch(*number)]),
            Step::Rebase(number) => ask(&["rebase", &branch(*number)]),
            Step::Abort => {
                for operation in ["merge", "rebase", "cherry-pick"] {
                    ask(&[operation, "--abort"]);
                }
            }
            Step::ResetHard => ask(&["reset", "-q", "--hard", "HEAD~1"]),
            Step::DeleteBranch(number) => ask(&["branch", "-D", &branch(*number)]),
            Step::DeleteTag(number) => ask(&["tag", "-d", &format!("t{}", number % 3)]),
            Step::DropStash => ask(&["stash", "drop"]),
            Step::ClearStash => ask(&["stash", "clear"]),
            Step::PackRefs => ask(&["pack-refs", "--all"]),
            Step::Gc => {
                ask(&["reflog", "expire", "--expire=all", "--expire-unreachable=all", "--all"]);
                ask(&["gc", "-q", "--prune=now"]);
            }
            Step::LoseGit => {
                // What is lost without being saved stays lost, and then there is nothing to compare.
                if let Some(id) = self.pick(0) {
                    bench.lose_git();
                    // Files of work trees that nothing knew of are left alone until it is there.
                    let stands = self.there.join("a").exists();
                    let warnings = self.restore(&id).warnings;
                    if stands && self.saved[&id].there.is_some() {
                        assert!(warnings.iter().any(|it| it.contains("restore again")));
                        self.restore(&id);
                    }
                    self.compare(&self.saved[&id].clone(), "repository made again");
                }
            }
            Step::WorkThere(number) => {
                if self.there.join(".git").exists() {
                    std::fs::write(self.there.join("w"), format!("{number}\n")).unwrap();
                    attempt(&self.there, &["add", "w"]);
                    if number % 2 == 0 {
                        attempt(&self.there, &["commit", "-q", "-m", "there"]);
                    }
                    std::fs::write(self.there.join("u"), format!("{number}\n")).unwrap();
                }
            }
            Step::RemoveWorktree => {
                ask(&["worktree", "remove", "--force", "--force", arg(&self.there)]);
            }
            Step::Save => {
                let now = self.look();
                let id = self.bench.save();
                self.saved.insert(id, now);
            }
            Step::Restore(number, undo) => {
                let Some(id) = self.pick(*number) else { return };
                let before = self.look();
                let done = self.restore(&id).done.unwrap();
                self.compare(&self.saved[&id].clone(), "restored");
                // One that had nothing to do is no step; a work tree made again is not taken away
                // again.
                let is_step = done.safety_checkpoint.is_some();
                if *undo && is_step && before.there == self.look().there {
                    let undone = self.bench.undo().done.unwrap();
                    self.compare(&before, "undone");
                    // One that only put missing objects back leaves nothing to take back.
                    if undone.safety_checkpoint.is_some() {
                        self.bench.redo();
                        self.compare(&self.saved[&id].clone(), "redone");
                    }
                }
            }
            Step::Delete(number) => {
                if let Some(id) = self.pick(*number) {
                    let rappel = self.bench.world.open();
                    rappel.delete(&[reference(&id)], true).unwrap();
                    rappel.gc(true, false).unwrap();
                    self.saved.remove(&id);
                }
            }
            Step::LoseCache => {
                let _ = std::fs::remove_dir_all(self.bench.world.home.path().join("cache"));
            }
        }
    }

    fn restore(&self, id: &str) -> RestoreReport {
        let options = RestoreOptions {
            prune_refs: true,
            worktrees: vec!["all".into()],
            ..RestoreOptions::default()
        };
        let report = self.bench.restore_with(id, &options).unwrap();
        assert_eq!(report.conflicts, [], "{report:?}");
        report
    }
}

/// Takes out what belongs to the other work tree.
fn without_worktree(portrait: &mut Portrait) {
    portrait.inside.retain(|path, _| !path.starts_with("worktrees/") && !path.ends_with("/there"));
    let lines = portrait.refs.lines().filter(|line| !line.starts_with("refs/heads/there "));
    portrait.refs = lines.map(|line| format!("{line}\n")).collect();
}

fn run(steps: &[Step]) {
    let mut model = Model::new();
    for step in steps {
        model.take(step);
    }
    model.bench.world.verify();
    for (number, (id, expected)) in model.saved.iter().enumerate() {
        let out = model.bench.restore_to(id, &format!("out{number}"));
        let (mut now, mut expected) = (portrait(&out), expected.here.clone());
        now.inside.retain(|path, _| !path.starts_with("worktrees/") && path != "index");
        expected.inside.retain(|path, _| !path.starts_with("worktrees/"));
        assert_same(&now, &expected, "elsewhere");
    }
}

/// Few cases in an ordinary run; `PROPTEST_CASES` asks for more.
fn config() -> ProptestConfig {
    let mut config =
        ProptestConfig { failure_persistence: None, max_shrink_iters: 100, ..Default::default() };
    if std::env::var_os("PROPTEST_CASES").is_none() {
        config.cases = 8;
    }
    config
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn whatever_happened_it_comes_back(steps in prop::collection::vec(step(), 1..40)) {
        run(&steps);
    }
}

#[test]
fn a_lost_repository_is_made_again_with_the_files_of_its_other_work_trees() {
    use Step::{LoseGit, Save, WorkThere};
    run(&[Save, WorkThere(0), Save, LoseGit]);
    run(&[WorkThere(0), Save, WorkThere(2), Save, LoseGit]);
}

#[test]
fn a_restore_that_only_puts_objects_back_leaves_nothing_to_undo() {
    use Step::{Gc, Restore, Save, WorkThere, Write};
    run(&[
        Save,
        Save,
        WorkThere(0),
        Restore(0, false),
        Save,
        Gc,
        Save,
        Write(0, 7),
        Save,
        Restore(104, true),
    ]);
}

#[test]
fn a_head_that_was_detached_is_detached_again_though_its_branch_moved() {
    use Step::{Amend, Branch, Checkout, Detach, Restore, Save};
    run(&[Branch(0), Detach, Save, Checkout(0), Amend, Restore(0, true)]);
}
