//! A log that lost its end together with everything that knew of it but the note in `lock`, and
//! bulk packs that no log names.

#![allow(clippy::unwrap_used, reason = "tests may")]

mod support;

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::process::Output;

use support::World;

fn forget_index(home: &Path) {
    for name in ["index.db", "index.db-wal", "index.db-shm"] {
        let _ = std::fs::remove_file(home.join(name));
    }
}

fn packs(home: &Path, kind: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(home.join("packs")).unwrap();
    let mut found: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    found.retain(|path| path.file_name().unwrap().to_str().unwrap().starts_with(kind));
    found.sort();
    found
}

fn cut_log(home: &Path, length: u64) {
    let log = packs(home, "log-").pop().unwrap();
    OpenOptions::new().write(true).open(log).unwrap().set_len(length).unwrap();
}

fn remove_log(home: &Path) {
    for log in packs(home, "log-") {
        std::fs::remove_file(log).unwrap();
    }
}

fn log_length(home: &Path) -> u64 {
    packs(home, "log-").pop().unwrap().metadata().unwrap().len()
}

fn said(output: &Output) -> String {
    String::from_utf8([&output.stdout[..], &output.stderr].concat()).unwrap()
}

/// Bytes that do not compress: enough for a bulk pack.
fn large(world: &World, seed: u64) {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let bytes: Vec<u8> = std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    })
    .take(9 << 17)
    .flatten()
    .collect();
    std::fs::write(world.project.path("large.bin"), bytes).unwrap();
}

/// Two saves, of which the log has lost the second.
fn without_the_second(world: &World) {
    world.save("first");
    let kept = log_length(&world.home);
    world.write("a.txt", "second\n");
    world.save("second");
    cut_log(&world.home, kept);
}

/// Asserts that `verify` tells of the loss, however often it is asked and whatever is done.
fn assert_loss_is_told(world: &World) {
    let output = world.run(&["verify"]);
    assert_eq!(output.status.code(), Some(6), "{}", said(&output));
    assert!(said(&output).contains("were written"), "{}", said(&output));
    assert!(said(&world.run(&["list"])).contains("damaged"));
    world.write("a.txt", "after\n");
    assert!(world.run(&["save", "after"]).status.success());
    forget_index(&world.home);
    assert_eq!(world.run(&["verify"]).status.code(), Some(6));
    world.run(&["verify", "--repair"]);
    let output = world.run(&["verify"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert!(said(&output).contains("seen by a repair"), "{}", said(&output));
    assert!(world.run(&["restore", "latest", "-y"]).status.success());
}

#[test]
fn a_log_that_is_cut_beside_a_lost_index_is_damage() {
    let world = World::new();
    without_the_second(&world);
    forget_index(&world.home);
    assert_loss_is_told(&world);
}

#[test]
fn a_log_that_is_cut_in_a_copy_of_the_home_is_damage() {
    let mut world = World::new();
    without_the_second(&world);
    let copy = world.project.outside().join("copy");
    let mut command = std::process::Command::new("cp");
    assert!(command.arg("-r").arg(&world.home).arg(&copy).status().unwrap().success());
    world.home = copy;
    assert_loss_is_told(&world);
}

#[test]
fn a_log_that_is_gone_beside_a_lost_index_is_damage() {
    let world = World::new();
    world.save("first");
    remove_log(&world.home);
    forget_index(&world.home);
    let output = world.run(&["verify"]);
    assert_eq!(output.status.code(), Some(6), "{}", said(&output));
    assert!(said(&output).contains("log-0000000001.pack: it is missing"), "{}", said(&output));
    assert!(world.run(&["save", "after"]).status.success());
    assert_eq!(world.run(&["verify"]).status.code(), Some(6));
}

#[test]
fn a_note_that_is_behind_the_log_is_no_damage() {
    let world = World::new();
    world.save("first");
    let note = std::fs::read(world.home.join("lock")).unwrap();
    world.write("a.txt", "second\n");
    world.save("second");
    // As if the writer was killed between the append and the note.
    std::fs::write(world.home.join("lock"), note).unwrap();
    for _ in 0..2 {
        assert_eq!(world.json(&["list"])["total"], 2);
        assert!(world.run(&["verify"]).status.success());
        forget_index(&world.home);
    }
    world.write("a.txt", "third\n");
    world.save("third");
    assert!(world.run(&["verify"]).status.success());
}

#[test]
fn a_home_without_a_note_or_with_half_of_one_is_opened() {
    for note in [&b""[..], br#"{"pid":1,"program":"rappel","since":null}"#, b"{\"pid\":1,\"reac"] {
        let world = World::new();
        world.save("first");
        std::fs::write(world.home.join("lock"), note).unwrap();
        forget_index(&world.home);
        assert_eq!(world.json(&["list"])["total"], 1);
        assert!(world.run(&["verify"]).status.success());
        // From the next save on there is one.
        world.write("a.txt", "second\n");
        let kept = log_length(&world.home);
        world.save("second");
        cut_log(&world.home, kept);
        forget_index(&world.home);
        assert_eq!(world.run(&["verify"]).status.code(), Some(6));
    }
}

#[test]
fn the_end_of_an_older_note_behind_a_shorter_one_does_no_harm() {
    let world = World::new();
    world.save("first");
    let mut note = std::fs::read(world.home.join("lock")).unwrap();
    note.extend_from_slice(b"0,\"generation\":0}}}");
    std::fs::write(world.home.join("lock"), note).unwrap();
    remove_log(&world.home);
    forget_index(&world.home);
    assert_eq!(world.run(&["verify"]).status.code(), Some(6));
}

#[test]
fn packs_that_no_log_names_are_a_loss_and_gc_says_that_it_frees_them() {
    for with_note in [true, false] {
        let world = World::new();
        world.save("first");
        let kept = log_length(&world.home);
        large(&world, 1);
        world.save("large");
        let bulk = packs(&world.home, "bulk-");
        assert_eq!(bulk.len(), 1);
        cut_log(&world.home, kept);
        forget_index(&world.home);
        if !with_note {
            std::fs::remove_file(world.home.join("lock")).unwrap();
        }
        world.remove("large.bin");
        let output = world.run(&["verify"]);
        let name = bulk[0].file_name().unwrap().to_str().unwrap();
        assert_eq!(output.status.code(), Some(6), "{}", said(&output));
        assert!(
            said(&output).contains(&format!("{name}: no commit names it")),
            "{}",
            said(&output)
        );

        world.run(&["verify", "--repair"]);
        assert_eq!(packs(&world.home, "bulk-"), bulk);
        assert!(world.run(&["verify"]).status.success());
        // Nobody who did not ask for it frees what a lost checkpoint has left.
        assert!(world.run(&["gc"]).status.success());
        assert!(bulk[0].exists());
        let foretold = world.json(&["gc", "--now", "--dry-run"]);
        assert_eq!(foretold["packs_of_lost_checkpoints"], 1, "{foretold}");
        let output = world.run(&["gc", "--now", "-y"]);
        assert!(said(&output).contains("1 pack (9.0 MiB) without a log"), "{}", said(&output));
        assert!(!bulk[0].exists());
        assert!(world.run(&["verify"]).status.success());
    }
}

#[test]
fn what_an_unfinished_save_left_is_no_damage() {
    let mut world = World::new();
    world.save("first");
    let before = world.project.outside().join("before");
    let mut command = std::process::Command::new("cp");
    assert!(command.arg("-r").arg(&world.home).arg(&before).status().unwrap().success());
    large(&world, 1);
    world.save("large");
    let bulk = packs(&world.home, "bulk-").pop().unwrap();
    // The home as it would be had the save been killed between the pack's seal and its commit.
    let left = before.join("packs").join(bulk.file_name().unwrap());
    std::fs::copy(&bulk, &left).unwrap();
    world.home = before;
    let output = world.run(&["verify"]);
    assert!(output.status.success(), "{}", said(&output));
    // Without the note nobody can tell.
    std::fs::remove_file(world.home.join("lock")).unwrap();
    assert_eq!(world.run(&["verify"]).status.code(), Some(6));
}

#[test]
fn gc_does_not_forget_a_log_of_which_nothing_is_left() {
    for length in [0, 1, 40] {
        let world = World::new();
        large(&world, 7);
        world.save("first");
        world.write("a.txt", "second\n");
        world.save("second");
        cut_log(&world.home, length);
        forget_index(&world.home);
        world.write("a.txt", "after\n");
        assert!(world.run(&["save", "after"]).status.success());
        for arguments in [&["gc"][..], &["gc", "--now", "-y"]] {
            world.run(arguments);
            let output = world.run(&["verify"]);
            let told = said(&output);
            assert_eq!(output.status.code(), Some(6), "{length}, {arguments:?}: {told}");
            assert!(told.contains("were written"), "{length}, {arguments:?}: {told}");
        }
    }
}
