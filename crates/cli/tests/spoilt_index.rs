//! The index is a view: whatever becomes of it, commands say the same as without it.
//!
//! A few rounds here; `scripts/spoil-loop N` runs as many as one likes.

#![allow(clippy::unwrap_used, reason = "tests may")]

mod support;

use std::path::Path;
use std::process::{Command, Output};

use rappel_testing::cannot_run;
use support::World;

const PAGE: usize = 1024;
const INDEX: [&str; 3] = ["index.db", "index.db-wal", "index.db-shm"];

fn number(name: &str, usual: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

/// Numbers that are the same for the same seed.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as usize % limit
    }

    /// Spoils a page in one of several ways, and says what it did.
    fn spoil(&mut self, bytes: &mut [u8], page: usize) -> String {
        let pages = bytes.len() / PAGE;
        let start = page * PAGE;
        let what = match self.below(5) {
            0 => {
                let at = self.below(PAGE);
                bytes[start + at] ^= 1 << self.below(8);
                "a flipped bit"
            }
            1 => {
                bytes[start..start + PAGE].fill(0);
                "zeros"
            }
            2 => {
                bytes[start..start + PAGE].fill_with(|| self.below(256) as u8);
                "garbage"
            }
            3 => {
                let other = (page + 1 + self.below(pages - 1)) % pages;
                bytes.copy_within(other * PAGE..(other + 1) * PAGE, start);
                "the bytes of another page"
            }
            _ => {
                let cut = self.below(PAGE);
                bytes[start + cut..start + PAGE].fill(0);
                "a part of zeros"
            }
        };
        format!("page {page}: {what}")
    }
}

fn forget_index(home: &Path) {
    for name in INDEX {
        let _ = std::fs::remove_file(home.join(name));
    }
}

fn said(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

fn packs(world: &World) -> Vec<String> {
    let packs = std::fs::read_dir(world.home.join("packs")).unwrap();
    let mut names: Vec<String> =
        packs.map(|pack| pack.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// A home with some history: text that changes, a deleted checkpoint, a tag, a session.
fn lived_in() -> World {
    let world = World::new();
    for round in 0..16u32 {
        world.write("a.txt", &format!("{round}\n").repeat(round as usize * 40 + 1));
        world.write(&format!("notes/{round}.md"), &support::noise(2_000 + round * 10));
        world.save(&format!("round {round}"));
    }
    world.json(&["tag", "3", "kept"]);
    world.json(&["delete", "5", "-y"]);
    world.json(&["gc"]);
    world
}

#[test]
fn commands_say_the_same_with_a_spoilt_index_as_without_one() {
    let rounds = number("RAPPEL_SPOIL_ROUNDS", 16);
    let seed = number("RAPPEL_SPOIL_SEED", 7);
    let mut random = Random(seed * 2 + 1);
    let world = lived_in();
    let index = world.home.join("index.db");
    let commands: [&[&str]; 3] = [&["list", "--json"], &["verify", "--json"], &["gc", "--json"]];
    let expected = commands.map(|arguments| {
        forget_index(&world.home);
        said(&world.run(arguments))
    });
    let kept = packs(&world);
    assert!(expected.iter().all(|(code, ..)| *code == Some(0)), "{expected:?}");
    for round in 0..rounds {
        let page = random.below(usize::MAX >> 17);
        for (arguments, expected) in commands.iter().zip(&expected) {
            // Spoilt in place: a copy would not be believed anyway.
            let mut bytes = std::fs::read(&index).unwrap();
            assert!(bytes.len() > 20 * PAGE, "{}", bytes.len());
            let page = page % (bytes.len() / PAGE);
            let what = random.spoil(&mut bytes, page);
            std::fs::write(&index, bytes).unwrap();
            let found = said(&world.run(arguments));
            assert_eq!(found, *expected, "seed {seed}, round {round}, {what}: {arguments:?}");
            assert_eq!(packs(&world), kept, "seed {seed}, round {round}, {what}: {arguments:?}");
        }
    }
}

/// A small disk with blocks of 1 KiB; gone with the test.
struct SmallDisk(std::path::PathBuf);

impl SmallDisk {
    fn mount(image: &Path, at: &Path) -> Option<Self> {
        let run = |program: &str, arguments: &[&std::ffi::OsStr]| {
            let output = Command::new(program).args(arguments).output();
            output.is_ok_and(|output| output.status.success())
        };
        std::fs::File::create(image).unwrap().set_len(6 << 20).unwrap();
        std::fs::create_dir(at).unwrap();
        let made =
            run(
                "mkfs.ext4",
                &[
                    "-q".as_ref(),
                    "-m".as_ref(),
                    "0".as_ref(),
                    "-b".as_ref(),
                    "1024".as_ref(),
                    image.as_ref(),
                ],
            ) && run("mount", &["-o".as_ref(), "loop".as_ref(), image.as_ref(), at.as_ref()]);
        if !made {
            cannot_run("no file system can be made and mounted (root, mkfs.ext4, loop device)");
        }
        made.then(|| Self(at.to_owned()))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).output();
    }
}

#[test]
fn a_full_disk_is_an_error_while_the_index_is_rebuilt() {
    let mut world = World::new();
    let at = world.project.outside().join("disk");
    let image = world.project.outside().join("image");
    let Some(_disk) = SmallDisk::mount(&image, &at) else { return };
    world.home = at.join("home");
    for round in 0..6u32 {
        world.write("a.txt", &support::noise(500 + round));
        world.save(&format!("round {round}"));
    }
    let filler = at.join("filler");
    let mut refused = 0;
    for free in (0..120).step_by(8) {
        forget_index(&world.home);
        let _ = std::fs::remove_file(&filler);
        let stat = rustix::fs::statvfs(&at).unwrap();
        let room = (stat.f_bavail * stat.f_frsize).saturating_sub(free << 10);
        let file = std::fs::File::create(&filler).unwrap();
        // Where the file system needs some blocks for itself, there is less free.
        let _ = rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, room);
        for command in ["list", "status", "verify"] {
            let output = world.run(&[command]);
            assert!(output.status.code().is_some(), "{free} KiB free: {command}: {output:?}");
            refused += u32::from(!output.status.success());
        }
    }
    assert!(refused > 0, "the disk was never full");
    std::fs::remove_file(&filler).unwrap();
    assert_eq!(world.json(&["list"])["total"], 6);
    assert!(world.run(&["verify"]).status.success());
}

#[test]
fn a_delete_on_a_full_disk_tells_whether_it_deleted() {
    let mut world = World::new();
    let at = world.project.outside().join("disk");
    let image = world.project.outside().join("image");
    let Some(_disk) = SmallDisk::mount(&image, &at) else { return };
    world.home = at.join("home");
    let rounds: Vec<u64> = (0..60).step_by(4).chain((0..60).step_by(12)).collect();
    for round in 0..=rounds.len() {
        world.write("a.txt", &format!("round {round}\n"));
        world.save(&format!("round {round}"));
    }
    let filler = at.join("filler");
    let mut refused = 0;
    for (round, free) in rounds.into_iter().enumerate() {
        let now = round >= 15;
        let before = world.json(&["list"])["total"].as_u64().unwrap();
        let stat = rustix::fs::statvfs(&at).unwrap();
        let room = (stat.f_bavail * stat.f_frsize).saturating_sub(free << 10);
        let file = std::fs::File::create(&filler).unwrap();
        let _ = rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, room);
        drop(file);
        let output = world.run(&["delete", "latest", "-y", if now { "--now" } else { "-q" }]);
        std::fs::remove_file(&filler).unwrap();
        let (code, _, errors) = said(&output);
        let after = world.json(&["list"])["total"].as_u64().unwrap();
        let deleted = code == Some(0) || errors.contains("deleted, but");
        assert_eq!(after, before - u64::from(deleted), "{free} KiB: {code:?} {errors}");
        refused += u32::from(code != Some(0));
    }
    assert!(refused > 0, "the disk was never full");
}

#[test]
fn a_folder_in_the_place_of_the_index_is_named_and_not_removed() {
    let world = World::new();
    world.save("first");
    forget_index(&world.home);
    let index = world.home.join("index.db");
    std::fs::create_dir(&index).unwrap();
    std::fs::write(index.join("mine"), "").unwrap();
    let (code, _, errors) = said(&world.run(&["list"]));
    assert_eq!(code, Some(1), "{errors}");
    assert!(errors.contains("index.db is a folder"), "{errors}");
    assert!(errors.contains("hint: move the folder away"), "{errors}");
    assert!(index.join("mine").exists());
    std::fs::remove_dir_all(&index).unwrap();
    assert_eq!(world.json(&["list"])["total"], 1);
}

/// Whoever looks at the index with SQLite's own program may move its log into the database.
#[test]
fn an_index_that_another_program_looked_at_is_no_damage() {
    let world = World::new();
    world.save("first");
    world.write("a.txt", "second\n");
    world.save("second");
    let other = rusqlite::Connection::open(world.home.join("index.db")).unwrap();
    let rows: i64 =
        other.query_row("SELECT count(*) FROM checkpoint", [], |row| row.get(0)).unwrap();
    assert_eq!(rows, 2);
    other.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    drop(other);
    for command in ["list", "verify", "save", "status"] {
        let (code, _, errors) = said(&world.run(&[command]));
        assert_eq!((code, errors.as_str()), (Some(0), ""), "{command}");
    }
    assert_eq!(world.json(&["list"])["total"], 2);
}
