//! A restore in a store that is damaged: whatever it displaces, `undo` gives every byte back.
//!
//! Each round builds a home whose files are all settled, so that a save reads none of them, and
//! damages one record of its packs. `RAPPEL_DAMAGE_ROUNDS` limits how many records are tried.

#![allow(clippy::unwrap_used, reason = "tests may")]

mod support;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rappel_testing::git::git;
use rappel_testing::records::{Record, records};
use rappel_testing::{noise, snapshot};
use support::World;

/// A home with a first checkpoint, and some more of a workspace that changed since.
struct Scene {
    world: World,
    start: String,
    /// The records that the first checkpoint brought.
    before: HashSet<(PathBuf, usize)>,
}

impl Scene {
    /// `change` makes the workspace of each round; round 0 is the first checkpoint's.
    fn new(change: impl Fn(&World, u8)) -> Self {
        let world = World::new();
        let round = |round: u8| {
            change(&world, round);
            // A cache believes only in stamps that are older than the clock's tick.
            std::thread::sleep(Duration::from_millis(30));
            world.save(&format!("round {round}"))
        };
        let start = round(0);
        let before = records(&world.home).iter().map(place).collect();
        round(1);
        round(2);
        Self { world, start, before }
    }

    /// Records that the first checkpoint does not need, but for the log's own.
    fn own(&self) -> Vec<Record> {
        let all = records(&self.world.home).into_iter();
        let own =
            |record: &Record| !record.is_of_the_log() && !self.before.contains(&place(record));
        all.filter(own).collect()
    }
}

fn place(record: &Record) -> (PathBuf, usize) {
    (record.pack.clone(), record.at)
}

/// Damages record after record. A restore of the first checkpoint then has to succeed, and `undo` to
/// bring back the very state that `portrait` shows.
fn damage_each<T: PartialEq + std::fmt::Debug>(
    change: impl Fn(&World, u8),
    options: &[&str],
    portrait: impl Fn(&World) -> T,
) {
    let most = std::env::var("RAPPEL_DAMAGE_ROUNDS").ok().and_then(|most| most.parse().ok());
    let count = Scene::new(&change).own().len();
    for number in 0..count.min(most.unwrap_or(usize::MAX)) {
        let scene = Scene::new(&change);
        let (world, own) = (&scene.world, scene.own());
        // How many blocks there are depends on the threads.
        let Some(record) = own.get(number) else { continue };
        let before = portrait(world);
        record.damage();
        let restore = [&["restore", scene.start.as_str(), "-y"], options].concat();
        for arguments in [&restore[..], &["undo", "-y"]] {
            let output = world.run(arguments);
            let said = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(0), "{arguments:?}: {record:?}: {said}");
            assert_eq!(portrait(world) == before, arguments[0] == "undo", "{record:?}: {said}");
        }
    }
}

/// Small files stored against their former versions, large ones in chunks, links, a tree of many.
fn files(world: &World, round: u8) {
    let words: String = noise(9_000, 1).iter().map(|byte| format!("{byte} ")).collect();
    world.write("src/small.txt", &format!("{words}round {round}\n"));
    world.write("a.txt", &format!("round {round}\n"));
    for number in 0..30 {
        world.write(&format!("many/{number}"), &format!("{number} in round {round}\n"));
    }
    let link = world.project.path("link");
    let _ = std::fs::remove_file(&link);
    std::os::unix::fs::symlink(format!("round {round}"), &link).unwrap();
    if round > 0 {
        let mut big = noise(1_300_000, 2);
        big[700_000] = round;
        std::fs::write(world.project.path("big.bin"), &big).unwrap();
    }
}

#[test]
fn files_come_back_whatever_record_is_damaged() {
    damage_each(files, &[], |world| world.project.snapshot());
}

/// Commits, a moved branch, something staged, an unstaged change, and another work tree.
fn repository(world: &World, round: u8) {
    let root = world.project.root();
    let other = world.project.outside().join("other");
    if round == 0 {
        git(root, &["init", "-q"]);
    }
    for name in ["committed", "staged", "loose"] {
        world.write(name, &format!("{name} in round {round}\n"));
        match name {
            "committed" => {
                git(root, &["add", "."]);
                git(root, &["commit", "-q", "-m", &format!("round {round}")]);
            }
            "staged" => drop(git(root, &["add", "staged"])),
            _ => {}
        }
    }
    if round == 0 {
        git(root, &["worktree", "add", "-q", "-b", "other", other.to_str().unwrap()]);
    }
    std::fs::write(other.join("there"), noise(5_000, round.into())).unwrap();
}

#[test]
fn repositories_come_back_whatever_record_is_damaged() {
    damage_each(repository, &["--worktree", "all"], |world| {
        let root = world.project.root();
        let other = snapshot(&world.project.outside().join("other"));
        let files = snapshot(root).into_iter().filter(|(path, _)| !path.starts_with(".git/"));
        let said = [
            &["for-each-ref"][..],
            &["status", "--porcelain"],
            &["diff", "--cached"],
            &["reflog"],
            &["fsck", "--strict"],
        ]
        .map(|arguments| git(root, arguments));
        (files.collect::<Vec<_>>(), other, said)
    });
}

/// A restore makes a repository again, and `undo` takes it away: by then the store's copy is damaged.
#[test]
fn a_repository_that_undo_takes_away_comes_back_with_redo() {
    let build = || {
        let world = World::new();
        let nested = world.project.path("nested");
        std::fs::create_dir(&nested).unwrap();
        git(&nested, &["init", "-q"]);
        std::fs::write(nested.join("file"), noise(5_000, 1)).unwrap();
        git(&nested, &["add", "."]);
        git(&nested, &["commit", "-q", "-m", "first"]);
        let with = world.save("with it");
        let of_it = records(&world.home);
        std::fs::remove_dir_all(&nested).unwrap();
        world.save("without it");
        world.json(&["restore", &with, "-y"]);
        std::thread::sleep(Duration::from_millis(30));
        (world, nested, of_it)
    };
    let head = |nested: &Path| (git(nested, &["log", "--oneline"]), git(nested, &["fsck"]));
    let mut taken_away = 0;
    for number in 0..build().2.len() {
        let (world, nested, of_it) = build();
        let Some(record) = of_it.get(number).filter(|record| !record.is_of_the_log()) else {
            continue;
        };
        let before = (snapshot(&nested.join("..")).contains_key("nested/file"), head(&nested));
        record.damage();
        let undo = world.run(&["undo"]).status.code();
        taken_away += u32::from(undo == Some(0));
        assert_eq!(undo == Some(0), !nested.exists(), "{record:?}");
        // With exit 7 the repository was kept and named; with exit 6 nothing has moved.
        if matches!(undo, Some(0 | 7)) {
            let redo = world.run(&["redo"]);
            let said = String::from_utf8_lossy(&redo.stderr);
            assert_eq!(redo.status.code(), Some(0), "{record:?}: {said}");
        }
        let after = (snapshot(&nested.join("..")).contains_key("nested/file"), head(&nested));
        assert_eq!(after, before, "{record:?}");
    }
    assert!(taken_away > 0);
}

/// A database of SQLite, which nobody changes between the last save and the restore.
fn database(world: &World, round: u8) {
    let database = rusqlite::Connection::open(world.project.path("app.db")).unwrap();
    database.execute_batch("CREATE TABLE IF NOT EXISTS t (round INTEGER, bytes BLOB)").unwrap();
    for number in 0..12 {
        let bytes = noise(4_000, u64::from(round) * 100 + number);
        database.execute("INSERT INTO t VALUES (?1, ?2)", (round, bytes)).unwrap();
    }
}

#[test]
fn databases_come_back_whatever_record_is_damaged() {
    damage_each(database, &[], |world| {
        let database = rusqlite::Connection::open(world.project.path("app.db")).unwrap();
        let sound: String =
            database.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        let mut rows = database.prepare("SELECT round, bytes FROM t ORDER BY rowid").unwrap();
        let rows = rows.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        (sound, rows.map(|row| row.unwrap()).collect::<Vec<(u8, Vec<u8>)>>())
    });
}

#[test]
fn a_save_after_known_damage_stores_the_workspace_again() {
    let scene = Scene::new(files);
    let world = &scene.world;
    scene.own().iter().for_each(Record::damage);
    assert_eq!(world.run(&["verify", "latest"]).status.code(), Some(6));
    assert_eq!(world.run(&["verify"]).status.code(), Some(6));
    let saved = world.run(&["save", "after the damage"]);
    let said = String::from_utf8_lossy(&saved.stderr);
    assert!(saved.status.success() && said.contains("stored anew"), "{said}");
    let output = world.run(&["verify", "latest"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    let again = world.run(&["save", "once more"]);
    let said = String::from_utf8_lossy(&again.stderr);
    assert!(again.status.success() && !said.contains("stored anew"), "{said}");
    let there = world.project.outside().join("there");
    world.json(&["restore", "latest", "--to", there.to_str().unwrap()]);
    assert_eq!(snapshot(&there), world.project.snapshot());
}

#[test]
fn a_checkpoint_whose_manifest_is_damaged_can_be_deleted() {
    let world = World::new();
    world.save("one");
    world.write("a.txt", "two\n");
    let second = world.save("two");
    let mut manifests = records(&world.home).into_iter().filter(Record::is_manifest);
    manifests.next_back().unwrap().damage();
    let lost = world.run(&["verify"]);
    assert_eq!(lost.status.code(), Some(6), "{}", world.shown(&lost));
    let deleted = world.run(&["delete", &second, "--confirm"]);
    assert!(deleted.status.success(), "{}", world.shown(&deleted));
    let list = world.json(&["list"]);
    assert_eq!(list["total"], 1, "{list}");
}

#[test]
fn where_the_rules_of_a_checkpoint_are_damaged_nothing_is_deleted() {
    let build = || {
        let world = World::new();
        let salt: String = noise(20_000, 7).iter().map(|byte| format!("{byte:02x}")).collect();
        world.write(".rappelignore", &format!("generated\n# {salt}\n"));
        let first = world.save("with rules");
        let of_it = records(&world.home);
        world.remove(".rappelignore");
        world.write("generated/mine.txt", "mine\n");
        world.save("without rules");
        (world, first, of_it)
    };
    let mut warned = 0;
    for number in 0..build().2.len() {
        let (world, first, of_it) = build();
        let Some(record) = of_it.get(number).filter(|record| !record.is_of_the_log()) else {
            continue;
        };
        record.damage();
        let output = world.run(&["restore", &first, "--path", "generated", "-y"]);
        let said =
            String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert_eq!(world.read("generated/mine.txt"), "mine\n", "{record:?}: {said}");
        warned += u32::from(said.contains("none is deleted"));
    }
    assert!(warned > 0, "the rules were never damaged");
}
