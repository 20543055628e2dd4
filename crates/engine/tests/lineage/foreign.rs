//! What a hostile checkpoint holds besides files, and what a restore of it leaves out. Each is a
//! copy of one of our own, given the record of a lineage: whoever makes such a file may put in
//! anything that our own could hold.

use rappel::types::manifest::OriginPart;
use rappel::types::{Manifest, WorkspaceId};
use rappel::{ExportOptions, ImportOptions, Imported, ListFilter, RestoreOptions, RestoreReport};
use rappel_store::document::{DOCUMENT_VERSION, Origin, Workspace};
use rappel_store::record::Kind;
use rappel_store::{NewRecord, Options, Store};
use rappel_testing::Project;
use rappel_testing::git::text;
use rusqlite::Connection;

use crate::scene::show;
use crate::support::{World, reference};
use rappel_types::Advice;

/// A copy of a checkpoint, as one that came from elsewhere. `change` may make it worse.
fn foreign(world: &World, id: &str, change: impl FnOnce(&mut Manifest)) -> &'static str {
    let rappel = world.open();
    let mut manifest = show(&rappel, id).manifest;
    let of = rappel.workspace_id().unwrap();
    let lineage = WorkspaceId(0x00f0_00f0_00f0_00f0);
    manifest.workspace.id = lineage;
    manifest.id = "foreign".parse().unwrap();
    (manifest.sequence, manifest.parent) = (1, None);
    let (format, place) = ("rappel".to_owned(), "/x.rappel".to_owned());
    let origin = OriginPart { format: format.clone(), id: id.into(), ..OriginPart::default() };
    manifest.origin = Some(origin);
    change(&mut manifest);
    let record = Workspace {
        version: DOCUMENT_VERSION,
        id: lineage,
        root: "rappel:/x.rappel".into(),
        inode: 0,
        file_system: String::new(),
        machine: String::new(),
        first_commit: None,
        at: manifest.created_at,
        lineage_of: Some(of),
        origin: Some(Origin { format, place }),
    };
    let json = serde_json::to_string(&record).unwrap();
    let store = Store::open(world.home.path(), Options::default()).unwrap();
    let record = NewRecord::Document { kind: Kind::Workspace, key: lineage.to_string(), json };
    let manifest = NewRecord::Manifest { manifest: Box::new(manifest), base: None };
    store.begin().unwrap().commit(|_| Ok(vec![record, manifest])).unwrap();
    "foreign"
}

/// A repository with a configuration and a hook of its own.
fn repository() -> World {
    let world = World::new(Project::new().file("a.txt", "1"));
    world.git(&["init", "-q"]);
    world.git(&["add", "."]);
    world.git(&["commit", "-qm", "first"]);
    world.git(&["config", "core.sshCommand", "evil"]);
    world.write(".git/hooks/post-checkout", "evil");
    world
}

#[test]
fn a_repository_that_is_there_keeps_its_configuration_and_hooks() {
    let world = repository();
    let id = world.save("evil");
    let evil = foreign(&world, &id, |_| {});
    world.git(&["config", "core.sshCommand", "mine"]);
    world.write(".git/hooks/post-checkout", "mine");
    world.write("a.txt", "2");
    world.git(&["commit", "-qam", "second"]);
    world.restore(evil);
    assert_eq!(text(world.project.root(), &["log", "--format=%s"]), "first");
    assert_eq!(text(world.project.root(), &["config", "core.sshCommand"]), "mine");
    assert_eq!(
        (world.read(".git/hooks/post-checkout"), world.read("a.txt")),
        ("mine".into(), "1".into())
    );
    world.undo();
    assert_eq!(text(world.project.root(), &["log", "--format=%s"]), "second\nfirst");
    assert_eq!(world.read("a.txt"), "2");
}

#[test]
fn a_repository_that_is_made_again_has_no_configuration_and_no_hooks_of_others() {
    let world = repository();
    let id = world.save("evil");
    let evil = foreign(&world, &id, |manifest| {
        manifest.git.as_mut().unwrap().root.git_dir = Some("../outside".into());
    });
    world.remove(".git");
    world.restore(evil);
    let root = world.project.root();
    assert_eq!(text(root, &["log", "--format=%s"]), "first");
    assert_eq!(text(root, &["status", "--porcelain"]), "");
    assert!(!world.exists(".git/hooks/post-checkout"));
    let config = std::fs::read_to_string(world.project.path(".git/config")).unwrap_or_default();
    assert!(!config.contains("evil"), "{config}");
    assert!(!root.parent().unwrap().join("outside").exists());
    let there = world.project.outside().join("there");
    let options = RestoreOptions::default();
    world.open().restore_to(&reference(evil), &there, &options).unwrap();
    assert!(!there.join(".git/hooks/post-checkout").exists());
    assert_eq!(text(&there, &["log", "--format=%s"]), "first");
}

#[test]
fn a_work_tree_outside_comes_back_only_if_it_is_named_and_the_plan_says_where() {
    let world = repository();
    let linked = world.project.outside().join("linked");
    let place = linked.to_str().unwrap();
    world.git(&["worktree", "add", "-q", "-b", "side", place]);
    let id = world.save("with a work tree");
    let evil = foreign(&world, &id, |_| {});
    world.git(&["worktree", "remove", "--force", place]);
    world.write("a.txt", "2");
    let plan = |worktrees: &[&str]| RestoreOptions {
        worktrees: worktrees.iter().map(|name| (*name).to_owned()).collect(),
        ..RestoreOptions::default()
    };
    let rappel = world.open();
    let planned = rappel.plan_restore(&reference(evil), &plan(&[])).unwrap();
    assert!(planned.warnings.iter().any(|said| said.contains(place)), "{planned:?}");
    rappel.restore(&reference(evil), &plan(&[])).unwrap();
    assert!(!linked.exists());
    let named = plan(&["linked"]);
    let planned = rappel.plan_restore(&reference(evil), &named).unwrap();
    assert!(planned.actions.iter().any(|one| one.reason.contains(place)), "{planned:?}");
    let report = rappel.apply(&planned, &named).unwrap();
    assert_eq!(report.conflicts, []);
    assert_eq!(std::fs::read_to_string(linked.join("a.txt")).unwrap(), "1");
    world.undo();
    assert!(!linked.exists());
}

#[test]
fn a_dump_is_loaded_only_if_it_is_trusted() {
    let world = World::new(Project::new().file("code", "1"));
    let run = |sql: &str| {
        Connection::open(world.project.path("app.db")).unwrap().execute_batch(sql).unwrap();
    };
    let rows = || -> i64 {
        let connection = Connection::open(world.project.path("app.db")).unwrap();
        connection.query_row("SELECT count(*) FROM talks", [], |row| row.get(0)).unwrap()
    };
    run("CREATE TABLE talks (id INTEGER); INSERT INTO talks VALUES (1), (2), (3);");
    let id = world.save("three");
    let evil = foreign(&world, &id, |_| {});
    run("DELETE FROM talks WHERE id > 1");
    world.write("code", "2");
    let report = world.restore(evil);
    assert_eq!((rows(), world.read("code")), (1, "1".into()));
    let planned = world.open().plan_restore(&reference(evil), &RestoreOptions::default()).unwrap();
    let planned = planned.advice.contains(&Advice::TrustDump);
    assert!(planned || report.warnings.advice().contains(&Advice::TrustDump), "{report:?}");
    let options = RestoreOptions { trust_dump: true, ..RestoreOptions::default() };
    world.open().restore(&reference(evil), &options).unwrap();
    assert_eq!(rows(), 3);
    world.undo();
    assert_eq!(rows(), 1);
}

/// A repository beside `world`, with `spoil` done to it before it is saved and exported; imported
/// into `world`. Gives the answer of the import and the checkpoint's id.
fn brought(world: &World, spoil: impl FnOnce(&World)) -> (Imported, String) {
    let there = repository();
    there.write("b.txt", "staged");
    there.git(&["add", "b.txt"]);
    spoil(&there);
    let id = there.save("theirs");
    let file = there.project.outside().join("x.rappel");
    let options = ExportOptions { place: Some(file.clone()), ..ExportOptions::new(reference(&id)) };
    there.open().export(&options).unwrap();
    let options = ImportOptions { path: file, ..ImportOptions::default() };
    let rappel = world.open();
    let imported = rappel.import(&options).unwrap();
    world.verify();
    let all = world.open().list(&ListFilter::default()).unwrap().checkpoints;
    let one = all.iter().find(|one| one.manifest.is_foreign()).unwrap();
    (imported, one.manifest.id.to_string())
}

/// A workspace with a repository and something staged.
fn importing() -> World {
    let world = World::new(Project::new().file("mine.txt", "1"));
    world.git(&["init", "-q"]);
    world.git(&["add", "."]);
    world.git(&["commit", "-qm", "mine"]);
    world.write("mine.txt", "2");
    world.git(&["add", "."]);
    world.save("mine");
    world
}

#[test]
fn an_index_that_holds_comes_along() {
    let world = importing();
    let (imported, id) = brought(&world, |_| {});
    assert_eq!(imported.skipped, []);
    world.restore(&id);
    assert_eq!(text(world.project.root(), &["diff", "--cached", "--name-only"]), "b.txt");
}

#[test]
fn an_index_that_git_would_stumble_over_is_left_out_and_said() {
    let missing = "1111111111111111111111111111111111111111";
    let lacking = |there: &World| {
        there.git(&["update-index", "--add", "--cacheinfo", &format!("100644,{missing},c.txt")]);
    };
    let garbage = |there: &World| there.write(".git/index", "DIRC garbage");
    // Git itself writes no such path, but checks it out.
    let into_git = |there: &World| {
        there.git(&["rm", "-q", "--cached", "a.txt", "b.txt"]);
        there.write("agit/hooks/x", "evil");
        there.git(&["add", "agit"]);
        let path = there.project.path(".git/index");
        let mut bytes = std::fs::read(&path).unwrap();
        let at = bytes.windows(4).position(|four| four == b"agit").unwrap();
        bytes[at] = b'.';
        // Without the folders that it remembers, and without a checksum.
        let tree = bytes.windows(4).position(|four| four == b"TREE").unwrap_or(bytes.len() - 20);
        bytes.truncate(tree);
        bytes.extend_from_slice(&[0; 20]);
        std::fs::write(&path, bytes).unwrap();
    };
    #[allow(clippy::type_complexity, reason = "it is read once, here")]
    let cases: [(&str, &dyn Fn(&World)); 3] =
        [(missing, &lacking), ("no index of git", &garbage), ("it names .git/hooks/x", &into_git)];
    for (said, spoil) in cases {
        let world = importing();
        let index = std::fs::read(world.project.path(".git/index")).unwrap();
        let (imported, id) = brought(&world, spoil);
        assert_eq!(imported.imported, 1);
        let [skipped] = &imported.skipped[..] else { panic!("{said}: {imported:?}") };
        assert!(skipped.path.ends_with(".git/index"), "{skipped:?}");
        assert!(skipped.reason.contains(said), "{said}: {skipped:?}");
        let rappel = world.open();
        let planned = rappel.plan_restore(&reference(&id), &RestoreOptions::default()).unwrap();
        assert!(planned.warnings.iter().any(|one| one.contains(".git/index")), "{planned:?}");
        world.restore(&id);
        let root = world.project.root();
        assert_eq!(text(root, &["log", "--format=%s"]), "first", "{said}");
        // The workspace's own stays, and git reads it.
        let staged = text(root, &["ls-files", "--cached"]);
        assert_eq!(staged, "mine.txt", "{said}");
        world.undo();
        assert_eq!(std::fs::read(world.project.path(".git/index")).unwrap(), index, "{said}");
    }
}

#[test]
fn objects_of_git_lfs_come_if_their_name_fits_and_stay_when_the_restore_is_undone() {
    let hash = "d35c416a85b807e9b5384915d6ebb4a9f7352713efd89857b45a242f473728a9";
    let good = format!(".git/lfs/objects/{}/{}/{hash}", &hash[..2], &hash[2..4]);
    let evil = format!(".git/lfs/objects/11/11/{}", "1".repeat(64));
    let world = importing();
    let (imported, id) = brought(&world, |there| {
        there.write(&good, "large");
        there.write(&evil, "large");
        there.write(".git/lfs/objects/run.sh", "evil");
    });
    let paths: Vec<&str> = imported.skipped.iter().map(|one| one.path.as_str()).collect();
    assert_eq!(paths.len(), 2, "{imported:?}");
    assert!(paths.iter().all(|path| path.contains("lfs/objects") && !path.contains(hash)));
    let said = |report: &RestoreReport, words: &str| {
        report.details.iter().any(|line| line.contains(words))
    };
    let report = world.restore(&id);
    assert!(said(&report, "1 object of Git LFS comes back"), "{report:?}");
    assert_eq!(world.read(&good), "large");
    assert!(!world.exists(&evil) && !world.exists(".git/lfs/objects/run.sh"));
    // It is like an object of git: whatever was made since may need it.
    let rappel = world.open();
    let step = rappel.next_undo().unwrap();
    let planned = rappel.plan_step(&step, false, &RestoreOptions::default()).unwrap();
    assert!(said(&planned, "1 object of Git LFS that came with the restore stays"), "{planned:?}");
    world.undo();
    assert_eq!(world.read(&good), "large");
}
