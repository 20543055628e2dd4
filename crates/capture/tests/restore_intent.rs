//! Intents on disk: damage is found, hostile plans are refused, nothing is guessed.

#![allow(clippy::unwrap_used, clippy::panic, clippy::disallowed_methods, reason = "tests may")]

mod restore_support;

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;

use rappel_capture::restore::intent::Draft;
use rappel_capture::restore::intent::staging_name;
use rappel_capture::restore::{Error, Phase};
use rappel_store::beneath::Root;
use rappel_store::disk::{Disk, Op};
use rappel_testing::{Fault, FaultDisk, Loss, Project};
use rappel_types::{Action, ActionKind, Content, Facet, Node, ObjectId, Plan, WorkspaceId};
use restore_support::*;

/// A restore that stopped in the middle of its swaps, and the file of its intent.
fn interrupted() -> (Scene, PathBuf) {
    let scene = Scene::new(
        Project::in_memory().file("a", "old a").file("b", "old b"),
        &Project::in_memory().file("a", "new a").file("b", "new b"),
    );
    let disk = FaultDisk::in_memory(Fault::None);
    let inner = disk.clone();
    disk.before(
        |op| matches!(op, Op::Exchange { b, .. } if b.ends_with("b")),
        move || inner.set(Fault::Crash { at: 1 }),
    );
    scene.apply(&scene.plan(&|_| true), &(disk.clone() as Arc<dyn Disk>)).unwrap_err();
    disk.lose(Loss::all()[0]);
    let open = scene.intents(&real()).list().unwrap().open;
    assert_eq!(open[0].phase, Phase::Swapping);
    let header = &open[0].header;
    let name = format!("intents/{}-{}.intent", header.id, header.workspace);
    let file = scene.home.path().join(name);
    (scene, file)
}

#[test]
fn every_flipped_byte_is_found_and_nothing_is_touched() {
    let (scene, file) = interrupted();
    let whole = read(&file);
    let half_done = scene.now();
    let intents = scene.intents(&real());
    let id = intents.list().unwrap().open[0].header.id;
    for at in 0..whole.len() {
        for bit in [0x01, 0x80] {
            let mut hurt = whole.clone();
            hurt[at] ^= bit;
            std::fs::write(&file, &hurt).unwrap();
            let listing = intents.list().unwrap();
            assert!(listing.open.is_empty(), "byte {at}");
            assert_eq!(listing.damaged[0].path, file, "byte {at}");
            let taken = intents.take(id).unwrap_err();
            assert!(matches!(&taken, Error::Store(error) if error.is_damage()), "{at}: {taken}");
        }
    }
    let error = scene.restore().unwrap_err();
    assert!(matches!(&error, Error::Store(error) if error.is_damage()), "{error}");
    assert_eq!(scene.now(), half_done);
    std::fs::write(&file, &whole).unwrap();
    scene.recover(&real(), false).unwrap().unwrap();
    assert_eq!(scene.now(), scene.before);
}

#[test]
fn a_mark_cut_short_by_a_crash_is_no_damage() {
    let (scene, file) = interrupted();
    let whole = read(&file);
    for cut in 1..22 {
        std::fs::write(&file, &whole[..whole.len() - cut]).unwrap();
        let listing = scene.intents(&real()).list().unwrap();
        assert_eq!(listing.open.len(), 1, "{cut}");
        assert_eq!(listing.open[0].phase, Phase::Planned, "{cut}");
    }
    let mut zeroed = whole.clone();
    let end = zeroed.len();
    zeroed[end - 22..].fill(0);
    std::fs::write(&file, &zeroed).unwrap();
    assert_eq!(scene.intents(&real()).list().unwrap().open.len(), 1);
    scene.recover(&real(), true).unwrap().unwrap();
    assert_eq!(scene.now(), scene.after);
    scene.assert_tidy();
}

#[test]
fn a_plan_cut_short_is_damage() {
    let (scene, file) = interrupted();
    let whole = read(&file);
    for length in [0, 1, 7, 8, 20, 28, whole.len() / 2] {
        std::fs::write(&file, &whole[..length]).unwrap();
        assert_eq!(scene.intents(&real()).list().unwrap().damaged.len(), 1, "{length}");
    }
}

#[test]
fn an_intent_under_another_name_or_no_name_is_damage() {
    let (scene, file) = interrupted();
    std::fs::copy(&file, file.with_file_name("0000000000000001.intent")).unwrap();
    std::fs::copy(&file, file.with_file_name("..x.intent")).unwrap();
    let listing = scene.intents(&real()).list().unwrap();
    assert_eq!((listing.open.len(), listing.damaged.len()), (1, 2));
}

#[test]
fn intents_are_private() {
    let (_scene, file) = interrupted();
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode();
    assert_eq!(mode(&file) & 0o777, 0o600);
    assert_eq!(mode(file.parent().unwrap()) & 0o777, 0o700);
}

#[test]
fn the_intent_is_durable_before_the_first_change() {
    let scene =
        Scene::new(Project::in_memory().file("a", "old"), &Project::in_memory().file("a", "new"));
    let disk = FaultDisk::in_memory(Fault::None);
    scene.apply(&scene.plan(&|_| true), &(disk.clone() as Arc<dyn Disk>)).unwrap();
    let trace = disk.trace();
    let at = |what: &str| {
        let found = trace.iter().position(|op| op.contains(what));
        found.unwrap_or_else(|| panic!("{what} in {trace:#?}"))
    };
    let change = trace.iter().position(|op| op.contains("/project/")).unwrap();
    let synced = trace.iter().position(|op| op.starts_with("Sync(") && op.contains("intents"));
    let named = at("SyncDir(\"");
    assert!(synced.unwrap() < named && named < change, "{trace:#?}");
    assert!(trace[named].contains("intents"), "{trace:#?}");
}

#[test]
fn a_workspace_replaced_by_another_is_not_recovered_into() {
    let (scene, _) = interrupted();
    let moved = scene.project.outside().join("moved");
    std::fs::rename(scene.project.root(), &moved).unwrap();
    std::fs::create_dir(scene.project.root()).unwrap();
    std::fs::write(scene.project.path("a"), "another project").unwrap();
    for forward in [true, false] {
        let error = scene.recover(&real(), forward).unwrap().unwrap_err();
        assert!(matches!(error, Error::Replaced { .. }), "{error}");
    }
    assert_eq!(scene.now().len(), 1);
    assert_eq!(read(&scene.project.path("a")), b"another project");
}

#[test]
fn names_of_staged_files_are_recognised() {
    let id = "0123456789abcdef".parse().unwrap();
    for name in ["-0", "-17", "-17.old", "-3.tmp"] {
        let name = format!(".rappel-0123456789abcdef{name}");
        assert_eq!(staging_name(name.as_bytes()), Some(id), "{name}");
    }
    for name in [".rappelignore", ".rappel-0123456789abcdef", ".rappel-0123456789abcdeX-1", "x"] {
        assert_eq!(staging_name(name.as_bytes()), None, "{name}");
    }
}

fn action(path: &str, old: Option<Node>, new: Option<Node>) -> Action {
    let kind = match (&old, &new) {
        (None, _) => ActionKind::Create,
        (Some(_), None) => ActionKind::Delete,
        _ => ActionKind::Overwrite,
    };
    Action {
        facet: Facet::Files,
        action: kind,
        path: rel(path),
        reason: "hostile".into(),
        old,
        new,
    }
}

fn some_file() -> Node {
    let content = Content::Whole(ObjectId([7; 32]));
    Node::File { mode: 0o644, size: 1, content }
}

#[test]
fn hostile_plans_are_refused_before_anything_is_written() {
    let file = || Some(some_file());
    let folder = || Some(Node::Directory { mode: 0o755 });
    let link = || Some(Node::Symlink { target: b"/".to_vec() });
    let plans = [
        vec![action(".git/hooks/pre-commit", None, file())],
        vec![action("sub/.GIT/config", None, file())],
        vec![action(".git", file(), None)],
        vec![action("l", None, link()), action("l/etc", None, folder())],
        vec![action("f", None, file()), action("f/x", None, file())],
        vec![action("b", None, file()), action("a", None, file())],
        vec![action("a", None, file()), action("a", None, file())],
        vec![action("gone", folder(), None), action("gone/x", None, file())],
        vec![Action { action: ActionKind::Delete, ..action("a", None, file()) }],
    ];
    for actions in plans {
        let scene = Scene::new(Project::new().file("keep", "k"), &Project::new());
        let plan = Plan { actions, ..Plan::default() };
        let error = scene.apply(&plan, &real()).unwrap_err();
        assert!(error.is_conflict(), "{plan:?}: {error}");
        assert_eq!(scene.now(), scene.before, "{plan:?}");
        assert!(!scene.home.path().join("intents").exists());
    }
}

#[test]
fn content_that_the_store_lacks_or_that_lies_is_rolled_back() {
    let scene = Scene::new(Project::new().file("a", "old"), &Project::new().file("a", "new"));
    let mut plan = scene.plan(&|_| true);
    plan.actions.push(action("b", None, Some(some_file())));
    let error = scene.apply(&plan, &real()).unwrap_err();
    assert!(is_rolled_back(&error), "{error}");
    assert_eq!(scene.now(), scene.before);
    scene.assert_tidy();
}

#[test]
fn a_link_in_the_workspace_is_never_written_through() {
    let outside = tempfile::tempdir().unwrap();
    let target = outside.path().as_os_str().as_encoded_bytes().to_vec();
    let scene =
        Scene::new(Project::new().symlink("d", &target), &Project::new().file("d/passwd", "owned"));
    let outcome = scene.restore().unwrap();
    assert!(outcome.is_clean(), "{outcome:?}");
    assert_eq!(scene.now(), scene.after);
    assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 0);
    // A plan that does not know of the link.
    let scene =
        Scene::new(Project::new().symlink("d", &target), &Project::new().file("d/passwd", "owned"));
    let plan = scene.plan_from(&[]);
    assert!(!plan.conflicts.is_empty());
    let plan = Plan {
        actions: plan.actions.into_iter().filter(|a| a.path == rel("d/passwd")).collect(),
        ..Plan::default()
    };
    let error = scene.apply(&plan, &real()).unwrap_err();
    assert!(error.is_conflict() || is_rolled_back(&error), "{error}");
    assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 0);
    assert_eq!(scene.now(), scene.before);
}

/// A restore of another folder, in the same home.
fn elsewhere(scene: &Scene, workspace: WorkspaceId) -> Result<(), Error> {
    let other = Project::in_memory().file("a", "1");
    let root = Root::open(other.root(), real()).unwrap();
    let plan = Plan::default();
    let draft = Draft { workspace, ..draft(&plan) };
    scene.intents(&real()).begin(&root, draft).map(drop)
}

fn draft(plan: &Plan) -> Draft {
    let request = request(plan);
    Draft {
        created_at: request.now,
        workspace: request.workspace,
        target: request.target.clone(),
        safety: request.safety.clone(),
        plan: String::new(),
        actions: Vec::new(),
        closed: Vec::new(),
        git: rappel_types::git::GitPlan::default(),
        databases: Vec::new(),
        agents: rappel_types::agents::AgentsPlan::default(),
    }
}

#[test]
fn a_damaged_intent_blocks_its_own_workspace_and_no_other() {
    let (scene, file) = interrupted();
    std::fs::write(&file, "nothing of it is left").unwrap();
    let damaged = scene.intents(&real()).list().unwrap().damaged;
    assert_eq!(damaged[0].workspace, Some(WorkspaceId(7)));
    let error = elsewhere(&scene, WorkspaceId(7)).unwrap_err();
    assert!(matches!(&error, Error::Store(error) if error.is_damage()), "{error}");
    elsewhere(&scene, WorkspaceId(8)).unwrap();
    // One whose name says nothing is told, and stands in nobody's way.
    std::fs::rename(&file, file.with_file_name("x.intent")).unwrap();
    elsewhere(&scene, WorkspaceId(7)).unwrap();
    assert_eq!(scene.intents(&real()).list().unwrap().damaged.len(), 1);
}

#[test]
fn nobody_waits_for_ever_for_another_restore_that_is_written_down() {
    let scene =
        Scene::new(Project::in_memory().file("a", "1"), &Project::in_memory().file("a", "2"));
    let folder = scene.home.path().join("intents");
    std::fs::create_dir(&folder).unwrap();
    let guard = std::fs::File::open(&folder).unwrap();
    guard.lock().unwrap();
    let limit = std::time::Duration::from_millis(60);
    let intents = scene.intents(&real()).with_patience(limit.into());
    let root = Root::open(scene.project.root(), real()).unwrap();
    let error = intents.begin(&root, draft(&Plan::default())).unwrap_err();
    let busy = matches!(
        &error,
        Error::Store(rappel_store::Error::Busy { waited_ms, .. }) if *waited_ms >= 60
    );
    assert!(busy, "{error}");
    drop(guard);
    intents.begin(&root, draft(&Plan::default())).unwrap();
}
