//! What cannot be saved before a restore: a SQLite file that is no database any more, and a command
//! that has nothing to dump.

use std::path::Path;

use rappel_testing::Project;
use rusqlite::Connection;

use crate::scene::Ran;
use crate::support::World;

const ROWS: i64 = 500;

/// Makes a database of several pages.
fn make(path: &Path, mode: &str) {
    let made = Connection::open(path).unwrap();
    made.execute_batch(&format!(
        "PRAGMA journal_mode = {mode}; CREATE TABLE notes (x, filling);
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {ROWS})
         INSERT INTO notes SELECT i, hex(randomblob(100)) FROM n"
    ))
    .unwrap();
}

fn rows(path: &Path) -> i64 {
    let connection = Connection::open(path).unwrap();
    let sound: String =
        connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(sound, "ok");
    connection.query_row("SELECT count(*) FROM notes", [], |row| row.get(0)).unwrap()
}

/// What happened to a file, and how.
type Damage = (&'static str, fn(&mut Vec<u8>));

/// Ways in which a file ends to be a database.
const DAMAGES: [Damage; 5] = [
    ("overwritten", |bytes| *bytes = b"this was a database\n".to_vec()),
    ("its header is zeros", |bytes| bytes[..100].fill(0)),
    ("its pages are garbage", |bytes| bytes[4096..].fill(0xAB)),
    ("its schema is garbage", |bytes| bytes[100..4096].fill(b'x')),
    ("its end is missing", |bytes| bytes.truncate(9000)),
];

/// Damages the database at `name`, restores it, takes that back, and does it again.
fn comes_back(world: &World, name: &str, beside: &[&str]) {
    let path = world.project.path(name);
    // Without a log, a file of no bytes is an empty database.
    let emptied: Damage = ("it is empty", Vec::clear);
    let emptied = Some(emptied).filter(|_| beside.contains(&"-wal"));
    for (how, damage) in DAMAGES.into_iter().chain(emptied) {
        let id = world.save(how);
        let mut bytes = std::fs::read(&path).unwrap();
        damage(&mut bytes);
        std::fs::write(&path, &bytes).unwrap();
        for suffix in beside {
            std::fs::write(format!("{}{suffix}", path.display()), format!("left{suffix}")).unwrap();
        }

        let plan = world.json(&["restore", &id, "--dry-run"]);
        let hash = plan["plan"].as_str().unwrap();
        assert!(plan.to_string().contains("it is damaged"), "{how}: {plan}");
        // It is made anew: no file is lost.
        assert_eq!(plan["summary"]["files"]["delete"], 0, "{how}: {plan}");
        let shown = world.face(&["restore", &id, "--dry-run"]);
        assert!(!shown.contains("Deleted:"), "{how}: {shown}");
        assert!(std::fs::read(&path).unwrap() == bytes, "{how}");
        let restored = world.json(&["restore", &id, "--confirm", "--plan", hash]);
        assert_eq!(rows(&path), ROWS, "{how}");

        // The bytes are in the safety checkpoint, and undo brings them back.
        let safety = restored["safety_checkpoint"].as_str().unwrap();
        let folder = world.project.outside().join(safety);
        world.json(&["restore", safety, "--to", folder.to_str().unwrap()]);
        assert!(std::fs::read(folder.join(name)).unwrap() == bytes, "{how}");
        world.json(&["undo", "--confirm"]);
        let is_damaged = |when: &str| {
            assert!(std::fs::read(&path).unwrap() == bytes, "{how}, {when}");
            // What is in a `-shm` follows from the rest.
            for suffix in beside.iter().filter(|suffix| **suffix != "-shm") {
                let left = std::fs::read(format!("{}{suffix}", path.display())).unwrap();
                assert_eq!(left, format!("left{suffix}").as_bytes(), "{how}, {when}");
            }
        };
        is_damaged("undone");
        // Again and again, and no log stays beside a file that it does not belong to.
        for _ in 0..2 {
            world.json(&["redo", "--confirm"]);
            assert!(!Path::new(&format!("{}-wal", path.display())).exists(), "{how}, redone");
            assert_eq!(rows(&path), ROWS, "{how}, redone");
            world.json(&["undo", "--confirm"]);
            is_damaged("undone again");
        }
        world.json(&["restore", &id, "--confirm"]);
        assert_eq!(rows(&path), ROWS, "{how}");
    }
}

#[test]
fn a_damaged_sqlite_file_is_kept_as_a_file_and_restored() {
    let world = World::of(Project::new().file("code", "1\n"));
    make(&world.project.path("app.db"), "DELETE");
    comes_back(&world, "app.db", &[]);
}

#[test]
fn one_that_rappel_toml_names_and_a_rule_leaves_out_is_restored_too() {
    let world = World::of(Project::new().file("code", "1\n").file(".rappelignore", "data\n"));
    std::fs::create_dir(world.project.path("data")).unwrap();
    world.write("rappel.toml", "[[database]]\nname = \"app\"\nurl = \"sqlite:data/app.db\"\n");
    make(&world.project.path("data/app.db"), "DELETE");
    comes_back(&world, "data/app.db", &[]);
}

#[test]
fn what_a_damaged_one_left_beside_it_is_kept_and_comes_back_too() {
    let world = World::of(Project::new().file("code", "1\n"));
    make(&world.project.path("app.db"), "WAL");
    comes_back(&world, "app.db", &["-wal", "-shm"]);
}

/// SQLite would delete it unread.
#[test]
fn the_journal_of_one_that_lost_its_pages_is_kept() {
    let world = World::of(Project::new().file("code", "1\n"));
    let (path, journal) = (world.project.path("app.db"), world.project.path("app.db-journal"));
    make(&path, "DELETE");
    let id = world.save("whole");
    std::fs::write(&path, "").unwrap();
    std::fs::write(&journal, "pages as they were").unwrap();
    world.json(&["restore", &id, "--confirm"]);
    for _ in 0..2 {
        assert_eq!((rows(&path), journal.exists()), (ROWS, false));
        world.json(&["undo", "--confirm"]);
        assert_eq!(std::fs::read(&path).unwrap(), b"");
        assert_eq!(std::fs::read(&journal).unwrap(), b"pages as they were");
        world.json(&["redo", "--confirm"]);
    }
}

#[test]
fn save_says_that_a_file_was_a_database() {
    let world = World::of(Project::new().file("code", "1\n"));
    let path = world.project.path("app.db");
    make(&path, "DELETE");
    world.save("whole");
    let said = |message: &str| world.face(&["save", message]);
    let word = "app.db was a database when it was last saved, and is none now";
    std::fs::write(&path, "no database").unwrap();
    let overwritten = said("overwritten");
    assert!(overwritten.contains(word), "{overwritten}");
    std::fs::write(&path, "still none").unwrap();
    assert!(!said("once is enough").contains(word));
    // One that is left out by a rule, or removed, is still or no more what it was.
    std::fs::remove_file(&path).unwrap();
    make(&path, "DELETE");
    world.save("whole again");
    world.write(".rappelignore", "app.db\n");
    assert!(!said("left out").contains(word));
    world.remove(".rappelignore");
    world.save("taken again");
    std::fs::remove_file(&path).unwrap();
    assert!(!said("removed").contains(word));
}

#[test]
fn a_damaged_one_outside_the_workspace_says_what_to_do() {
    let world = World::of(Project::new().file("code", "1\n"));
    let path = world.project.outside().join("app.db");
    make(&path, "DELETE");
    let url = format!("sqlite:{}", path.display());
    world.write("rappel.toml", &format!("[[database]]\nname = \"app\"\nurl = {url:?}\n"));
    world.trust();
    let id = world.save("whole");
    std::fs::write(&path, "no database").unwrap();
    let refused = Ran::of(&world.run(&["restore", &id, "--confirm", "--json"]));
    assert_eq!(refused.code, Some(7), "{refused:?}");
    let place = path.display();
    assert!(refused.words.contains(&format!("mv {place} {place}.damaged")), "{refused:?}");
    std::fs::rename(&path, path.with_extension("damaged")).unwrap();
    world.json(&["restore", &id, "--confirm"]);
    assert_eq!(rows(&path), ROWS);
}

#[test]
fn one_that_a_program_has_open_is_left_alone() {
    let world = World::of(Project::new().file("code", "1\n"));
    let path = world.project.path("app.db");
    make(&path, "DELETE");
    let id = world.save("whole");
    std::fs::write(&path, "no database").unwrap();
    let _open = std::fs::File::open(&path).unwrap();
    let ran = Ran::of(&world.run(&["restore", &id, "--confirm", "--json"]));
    assert_ne!(ran.code, Some(0), "{ran:?}");
    assert!(ran.words.contains("close the programs that have it open"), "{ran:?}");
    assert_eq!(std::fs::read(&path).unwrap(), b"no database");
}

#[test]
fn a_command_that_has_nothing_to_dump_is_restored_if_that_is_allowed() {
    let world = World::of(Project::new().file("code", "1\n"));
    let data = world.project.outside().join("shop");
    let load = format!("cat > {}", data.display());
    let text = format!(
        "[[command]]\nname = \"shop\"\ncapture = [\"cat\", \"{}\"]\nrestore = [\"sh\", \"-c\", \"{load}\"]\n",
        data.display()
    );
    world.write("rappel.toml", &text);
    world.trust();
    std::fs::write(&data, "a shop\n").unwrap();
    let id = world.save("with a shop");
    std::fs::remove_file(&data).unwrap();

    let run = |arguments: &[&str]| Ran::of(&world.run(&[arguments, &["--json"]].concat()));
    let refused = run(&["restore", &id, "--confirm"]);
    assert_eq!(refused.code, Some(7), "{refused:?}");
    assert!(refused.words.contains("--allow-unsaved shop"), "{refused:?}");
    assert!(refused.words.contains("\"hint\":\"--allow-unsaved shop"), "{refused:?}");
    assert!(!data.exists());

    let unknown = run(&["restore", &id, "--confirm", "--allow-unsaved", "other"]);
    assert_eq!(unknown.code, Some(2), "{unknown:?}");
    let plan = world.json(&["restore", &id, "--dry-run", "--allow-unsaved", "shop"]);
    assert!(plan.to_string().contains("is not saved, and will be lost"), "{plan}");
    let hash = plan["plan"].as_str().unwrap();
    let allowed = ["restore", &id, "--confirm", "--plan", hash, "--allow-unsaved", "shop"];
    let restored = world.json(&allowed);
    assert_eq!(std::fs::read(&data).unwrap(), b"a shop\n");
    assert!(restored.to_string().contains("undo cannot bring it back"), "{restored}");

    // What is there again is saved before it is overwritten.
    std::fs::write(&data, "another shop\n").unwrap();
    world.json(&["restore", &id, "--confirm"]);
    world.json(&["undo", "--confirm"]);
    assert_eq!(std::fs::read(&data).unwrap(), b"another shop\n");
}
