use std::cell::Cell;

use rappel_types::FacetState::{Absent, Captured, Failed, NotAsked};
use rappel_types::ObjectId;

use super::*;

/// A folder that is just what the test says.
#[derive(Default)]
struct Imagined {
    there: BTreeMap<RelPath, Kind>,
    folds: bool,
    foreign: Option<RelPath>,
    hidden: Option<RelPath>,
    read_only: Option<RelPath>,
    asked_about_folding: Cell<bool>,
}

impl Imagined {
    /// What a closed folder answers.
    fn look(&self, path: &RelPath) -> Result<()> {
        match &self.hidden {
            Some(hidden) if path.is_within(hidden) && path != hidden => {
                let source = std::io::ErrorKind::PermissionDenied.into();
                let path = path.to_string().into();
                Err(rappel_store::Error::Io { action: "look at", path, source }.into())
            }
            _ => Ok(()),
        }
    }
}

impl Probe for Imagined {
    fn kind(&self, path: &RelPath) -> Result<Option<Kind>> {
        self.look(path)?;
        Ok(self.there.get(path).copied())
    }

    fn list(&self, folder: &RelPath) -> Result<Vec<RelPath>> {
        let inside = self.there.keys().filter(|path| path.parent().as_ref() == Some(folder));
        Ok(inside.cloned().collect())
    }

    fn mount(&self, path: &RelPath) -> Result<Mount> {
        self.look(path)?;
        let within = |place: &Option<RelPath>| place.as_ref().is_some_and(|p| path.is_within(p));
        Ok(match () {
            () if within(&self.foreign) => Mount::Foreign,
            () if within(&self.read_only) => Mount::ReadOnly,
            () => Mount::Ours,
        })
    }

    fn folds(&self, _: Option<&RelPath>) -> Result<bool> {
        self.asked_about_folding.set(true);
        Ok(self.folds)
    }
}

fn rel(text: &str) -> RelPath {
    text.parse().unwrap()
}

fn file(seed: u8) -> Node {
    Node::File { mode: 0o644, size: 1, content: Content::Whole(ObjectId([seed; 32])) }
}

fn folder() -> Node {
    Node::Directory { mode: 0o755 }
}

fn change(path: &str, old: Option<Node>, new: Option<Node>) -> Change {
    Change { path: rel(path), old, new }
}

/// A probe that sees the old side of `changes`, as the safety checkpoint did.
fn imagine(changes: &[Change]) -> Imagined {
    let mut imagined = Imagined::default();
    for change in changes {
        for above in change.path.ancestors() {
            imagined.there.entry(above).or_insert(Kind::Directory);
        }
        if let Some(old) = &change.old {
            let kind = match old {
                Node::Directory { .. } => Kind::Directory,
                Node::File { .. } => Kind::File,
                Node::Symlink { .. } => Kind::Symlink,
            };
            imagined.there.insert(change.path.clone(), kind);
        } else {
            imagined.there.remove(&change.path);
        }
    }
    imagined
}

const CAPTURED: Side<'static> = Side { state: FacetState::Captured, skipped: &[], partial: &[] };

fn plan_with(changes: &[Change], probe: &Imagined) -> Plan {
    plan_files(&CAPTURED, &CAPTURED, changes, &Scope::All, &|_, _| true, probe).unwrap()
}

fn kinds(plan: &Plan) -> Vec<(String, ActionKind)> {
    plan.actions.iter().map(|action| (action.path.to_string(), action.action)).collect()
}

fn kind_of(plan: &Plan, path: &str) -> ActionKind {
    plan.actions.iter().find(|action| action.path == rel(path)).unwrap().action
}

#[test]
fn each_difference_gets_its_action_and_a_reason() {
    let changes = [
        change("added", None, Some(file(1))),
        change("changed", Some(file(1)), Some(file(2))),
        change("gone", Some(file(1)), None),
    ];
    let plan = plan_with(&changes, &imagine(&changes));
    let expected = [
        ("added".to_owned(), ActionKind::Create),
        ("changed".to_owned(), ActionKind::Overwrite),
        ("gone".to_owned(), ActionKind::Delete),
    ];
    assert_eq!(kinds(&plan), expected);
    assert!(plan.actions.iter().all(|action| !action.reason.is_empty()));
    assert!(plan.conflicts.is_empty() && plan.warnings.is_empty());
}

#[test]
fn a_delete_needs_the_targets_own_rules() {
    let changes = [change("out.log", Some(file(1)), None), change("src", Some(file(1)), None)];
    let selects = |path: &RelPath, _: bool| !path.as_bytes().ends_with(b".log");
    let probe = imagine(&changes);
    let plan = plan_files(&CAPTURED, &CAPTURED, &changes, &Scope::All, &selects, &probe).unwrap();
    assert_eq!(kind_of(&plan, "out.log"), ActionKind::Skip);
    assert_eq!(kind_of(&plan, "src"), ActionKind::Delete);
}

#[test]
fn where_either_side_did_not_look_nothing_is_deleted() {
    let changes = [
        change("d", Some(folder()), None),
        change("d/a", Some(file(1)), None),
        change("e", Some(file(1)), None),
        change("f", Some(file(1)), None),
    ];
    let skipped = [Skipped { path: rel("d/big.bin"), reason: "oversize".into() }];
    let partial = |path: Option<&str>, facet| PartialReason {
        facet,
        path: path.map(rel),
        database: None,
        reason: "permission denied".into(),
    };
    let here = [partial(Some("e"), Facet::Files), partial(None, Facet::Git)];
    let everywhere = [partial(None, Facet::Files)];
    let probe = imagine(&changes);
    let plan = |present: &Side<'_>, target: &Side<'_>| {
        plan_files(present, target, &changes, &Scope::All, &|_, _| true, &probe).unwrap()
    };
    let blind = Side { skipped: &skipped, partial: &here, ..CAPTURED };
    for plan in [plan(&blind, &CAPTURED), plan(&CAPTURED, &blind)] {
        assert_eq!(kind_of(&plan, "d"), ActionKind::Skip, "something skipped lies below it");
        assert_eq!(kind_of(&plan, "d/a"), ActionKind::Delete);
        assert_eq!(kind_of(&plan, "e"), ActionKind::Skip);
        assert_eq!(kind_of(&plan, "f"), ActionKind::Delete);
    }
    let blind = Side { partial: &everywhere, ..CAPTURED };
    for plan in [plan(&blind, &CAPTURED), plan(&CAPTURED, &blind)] {
        assert!(plan.is_empty(), "{:?}", kinds(&plan));
    }
    let below = [Skipped { path: rel("d"), reason: "a mount".into() }];
    let blind = Side { skipped: &below, ..CAPTURED };
    assert_eq!(kind_of(&plan(&blind, &CAPTURED), "d/a"), ActionKind::Skip);
}

#[test]
fn facets_that_were_not_captured_do_not_act() {
    let changes = [change("a", None, Some(file(1))), change("b", Some(file(1)), None)];
    let probe = imagine(&changes);
    let plan = |present, target| {
        let present = Side { state: present, ..CAPTURED };
        let target = Side { state: target, ..CAPTURED };
        plan_files(&present, &target, &changes, &Scope::All, &|_, _| true, &probe).unwrap()
    };
    for (present, target) in [
        (Captured, NotAsked),
        (Captured, Failed),
        (Captured, Absent),
        (Failed, Captured),
        (NotAsked, Captured),
    ] {
        let plan = plan(present, target);
        assert!(plan.actions.is_empty(), "{present:?} {target:?}");
        assert_eq!(plan.warnings.len(), 1);
    }
    let plan = plan(Absent, Captured);
    assert_eq!(kind_of(&plan, "a"), ActionKind::Create);
    assert_eq!(kind_of(&plan, "b"), ActionKind::Skip);
}

#[test]
fn a_folder_goes_only_if_everything_in_it_goes() {
    let changes = [
        change("d", Some(folder()), None),
        change("d/e", Some(folder()), None),
        change("d/e/a", Some(file(1)), None),
    ];
    let mut probe = imagine(&changes);
    assert!(plan_with(&changes, &probe).actions.iter().all(|a| a.action == ActionKind::Delete));
    probe.there.insert(rel("d/e/ignored"), Kind::File);
    let plan = plan_with(&changes, &probe);
    assert_eq!(kind_of(&plan, "d"), ActionKind::Skip);
    assert_eq!(kind_of(&plan, "d/e"), ActionKind::Skip);
    assert_eq!(kind_of(&plan, "d/e/a"), ActionKind::Delete);
}

#[test]
fn a_file_over_a_folder_with_other_content_is_a_conflict() {
    let changes = [change("d", Some(folder()), Some(file(1))), change("d/a", Some(file(1)), None)];
    let mut probe = imagine(&changes);
    assert!(plan_with(&changes, &probe).conflicts.is_empty());
    probe.there.insert(rel("d/socket"), Kind::Special);
    let plan = plan_with(&changes, &probe);
    assert_eq!(plan.conflicts[0].path, rel("d"));
    assert!(plan.conflicts[0].reason.contains("d/socket"));
}

#[test]
fn something_that_no_checkpoint_holds_is_in_the_way() {
    let changes = [change("s", None, Some(file(1))), change("t", None, Some(folder()))];
    let mut probe = imagine(&changes);
    probe.there.insert(rel("s"), Kind::Special);
    probe.there.insert(rel("t"), Kind::Directory);
    let plan = plan_with(&changes, &probe);
    assert_eq!(plan.conflicts.len(), 1);
    assert_eq!(plan.conflicts[0].path, rel("s"));
    assert_eq!(kind_of(&plan, "t"), ActionKind::Skip);
}

#[test]
fn a_link_that_nobody_knows_of_among_the_parents_is_a_conflict() {
    let changes = [change("d/a", None, Some(file(1)))];
    let mut probe = imagine(&changes);
    probe.there.insert(rel("d"), Kind::Symlink);
    assert_eq!(plan_with(&changes, &probe).conflicts[0].path, rel("d/a"));
}

#[test]
fn folders_that_no_tree_mentions_are_made() {
    let changes = [change("x/y/a", None, Some(file(1)))];
    let plan = plan_with(&changes, &Imagined::default());
    let paths: Vec<_> = kinds(&plan).into_iter().map(|(path, _)| path).collect();
    assert_eq!(paths, ["x", "x/y", "x/y/a"]);
}

#[test]
fn git_is_never_written() {
    let changes = [
        change(".git/config", None, Some(file(1))),
        change("sub/.GIT", Some(file(1)), Some(file(2))),
        change("sub/.giT/x", Some(file(1)), None),
    ];
    let plan = plan_with(&changes, &imagine(&changes));
    assert!(plan.is_empty(), "{:?}", kinds(&plan));
}

#[test]
fn names_that_fold_together_are_a_conflict_where_they_do() {
    let changes = [
        change("README", None, Some(file(1))),
        change("d/readme", None, Some(file(1))),
        change("readme", None, Some(file(2))),
    ];
    let mut probe = imagine(&changes);
    assert!(plan_with(&changes, &probe).conflicts.is_empty());
    assert!(probe.asked_about_folding.get());
    probe.folds = true;
    let plan = plan_with(&changes, &probe);
    assert_eq!(plan.conflicts.len(), 1);
    assert_eq!(plan.conflicts[0].path, rel("readme"));
}

#[test]
fn other_mounts_are_a_conflict() {
    let changes = [
        change("data/a", Some(file(1)), Some(file(2))),
        change("ro/a", None, Some(file(2))),
        change("x", Some(file(1)), None),
    ];
    let mut probe = imagine(&changes);
    probe.foreign = Some(rel("data"));
    probe.read_only = Some(rel("ro"));
    let paths: Vec<_> = plan_with(&changes, &probe).conflicts.into_iter().map(|c| c.path).collect();
    assert_eq!(paths, [rel("data/a"), rel("ro/a")]);
}

#[test]
fn a_scope_brings_the_folders_it_needs_and_no_more() {
    let changes = [
        change("a", Some(file(1)), Some(folder())),
        change("a/b", None, Some(folder())),
        change("a/b/c", None, Some(file(1))),
        change("a/z", None, Some(file(1))),
        change("other", Some(file(1)), None),
    ];
    let probe = imagine(&changes);
    let scope = Scope::Paths(vec![rel("a/b/c")]);
    let plan = plan_files(&CAPTURED, &CAPTURED, &changes, &scope, &|_, _| true, &probe).unwrap();
    let paths: Vec<_> = kinds(&plan).into_iter().map(|(path, _)| path).collect();
    assert_eq!(paths, ["a", "a/b", "a/b/c"]);
}

#[test]
fn the_hash_names_the_target_and_what_would_happen() {
    let changes = [
        change("a", None, Some(file(1))),
        change("b", Some(file(1)), Some(file(2))),
        change("c", Some(file(1)), None),
    ];
    let plan = plan_with(&changes, &imagine(&changes));
    let one: CheckpointId = "chk_20261115_143022_k7f3".parse().unwrap();
    let other: CheckpointId = "chk_20261115_143022_k7f4".parse().unwrap();
    let hash = plan_hash(&one, &plan);
    assert_eq!(hash.len(), 64);
    assert_eq!(hash, plan_hash(&one, &plan_with(&changes, &imagine(&changes))));
    assert_ne!(hash, plan_hash(&other, &plan));
    let mut worded = plan.clone();
    worded.actions[0].reason = "for another reason".into();
    assert_eq!(hash, plan_hash(&one, &worded));
    for at in 0..plan.actions.len() {
        let mut changed = plan.clone();
        changed.actions[at].old = Some(file(9));
        assert_ne!(hash, plan_hash(&one, &changed), "{at}");
        changed.actions.remove(at);
        assert_ne!(hash, plan_hash(&one, &changed), "{at}");
    }
}

#[test]
fn what_cannot_be_looked_at_is_a_conflict() {
    let changes = [
        change("d/a", None, Some(file(1))),
        change("d/b/c", None, Some(file(2))),
        change("e", None, Some(file(3))),
    ];
    let mut probe = imagine(&changes);
    probe.hidden = Some(rel("d"));
    let plan = plan_with(&changes, &probe);
    let paths: Vec<_> = plan.conflicts.iter().map(|one| one.path.to_string()).collect();
    assert_eq!(paths, ["d/a", "d/b/c"]);
    assert!(plan.conflicts[0].reason.contains("cannot be seen"), "{:?}", plan.conflicts);
    assert_eq!(kind_of(&plan, "e"), ActionKind::Create);
}
