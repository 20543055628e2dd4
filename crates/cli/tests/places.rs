//! Which workspace a folder is, and what `rappel.toml` says that cannot be understood.

#![allow(clippy::unwrap_used, reason = "tests may")]

mod support;

use std::process::Output;

use serde_json::Value;
use support::World;

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr[..]].concat()).into_owned()
}

impl World {
    fn code(&self, arguments: &[&str]) -> i32 {
        self.run(arguments).status.code().unwrap()
    }

    /// Runs it in another folder.
    fn said_in(&self, folder: &std::path::Path, arguments: &[&str]) -> String {
        said(&self.command(arguments).current_dir(folder).output().unwrap())
    }
}

#[test]
fn a_folder_that_was_made_again_is_led_to_its_old_history() {
    let world = World::new();
    let first = world.save("first");
    let root = world.project.root().to_owned();
    // The old one is kept aside until the new one is there, so that it cannot get its inode.
    let aside = world.project.outside().join("aside");
    std::fs::rename(&root, &aside).unwrap();
    std::fs::create_dir(&root).unwrap();
    std::fs::remove_dir_all(&aside).unwrap();
    std::fs::write(root.join("new.txt"), "new").unwrap();

    let leads = |text: &str| text.contains("rappel adopt ") && text.contains(&first);
    for arguments in [&["list"][..], &["status"], &["save", "again"], &["status"]] {
        let text = said(&world.run(arguments));
        assert!(leads(&text), "{arguments:?}: {text}");
    }
    // By its path, although that folder has a history of its own by now.
    let adopted = world.json(&["adopt", root.to_str().unwrap()]);
    assert_eq!(adopted["checkpoints"], 1, "{adopted}");
    assert!(said(&world.run(&["list"])).contains(&first));
    assert!(!leads(&said(&world.run(&["status"]))));
}

#[test]
fn a_folder_that_was_moved_is_told_so_by_list_too() {
    let world = World::new();
    world.save("first");
    let moved = world.project.outside().join("moved");
    std::fs::rename(world.project.root(), &moved).unwrap();
    let text = world.said_in(&moved, &["list"]);
    assert!(text.contains("This folder was ") && text.contains("rappel adopt "), "{text}");
    std::fs::rename(&moved, world.project.root()).unwrap();
}

#[test]
fn a_subfolder_says_in_which_workspace_it_lies() {
    let world = World::new();
    world.save("first");
    let root = world.project.root().display().to_string();
    for command in ["list", "status"] {
        let text = world.said_in(&world.project.path("src"), &[command]);
        assert!(text.contains(&format!("lies in the workspace {root}")), "{command}: {text}");
    }
}

#[test]
fn a_session_that_nobody_knows_is_not_found_wherever_it_is_named() {
    let world = World::new();
    assert_eq!(world.code(&["save", "--session", "nosuch"]), 3);
    let output = world.command(&["save"]).env("RAPPEL_SESSION", "nosuch").output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
    assert!(said(&output).contains("nosuch"));
    assert_eq!(world.json(&["list"])["total"], 0);
}

#[test]
fn a_key_that_nobody_knows_is_a_warning() {
    let world = World::new();
    world.write("rappel.toml", "[files]\nexclude = [\"a.txt\"]\ncolour = \"red\"\n");
    let output = world.run(&["save", "first"]);
    let text = said(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(text.contains("rappel.toml:3: files.colour: unknown key"), "{text}");
    let files = world.json_quietly(&["show", "latest", "--files"]);
    assert!(!files["entries"].to_string().contains("a.txt"), "the rest of it counts: {files}");
    let text = said(&world.run(&["list"]));
    assert!(text.contains("warning: rappel.toml:3: files.colour"), "{text}");
}

#[test]
fn a_broken_rappel_toml_stops_a_save_by_hand_and_marks_the_others() {
    let world = World::new();
    world.write("rappel.toml", "[files]\nexclude = [\"a.txt\"]\n");
    let first = world.save("first");
    world.write("rappel.toml", "[files\n");
    world.write("docs/notes.md", "changed");
    for _ in 0..2 {
        assert_eq!(world.code(&["save", "by hand"]), 2);
    }
    let output = world.run(&["save", "--trigger", "prompt", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let made: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(made["partial"], true);
    let reason = made["partial_reasons"][0]["reason"].as_str().unwrap();
    assert!(reason.contains("rappel.toml") && reason.contains("last checkpoint"), "{reason}");
    assert_eq!(made["files"]["count"], 3, "by the rules of the last checkpoint");
    // Going back works, and says in its safety checkpoint what it did not know.
    assert_eq!(world.code(&["restore", &first, "-y"]), 0);
    assert_eq!(world.read("rappel.toml"), "[files]\nexclude = [\"a.txt\"]\n");
    assert_eq!(world.read("docs/notes.md"), "# Notes\n");
    let safety = world.json(&["list", "--trigger", "pre-restore"]);
    assert_eq!(safety["checkpoints"][0]["partial"], true, "{safety}");
}

#[test]
fn several_deleted_checkpoints_come_back_at_once_or_not_at_all() {
    let world = World::new();
    let ids: Vec<String> = ["one", "two", "three"]
        .into_iter()
        .map(|text| {
            world.write("a.txt", text);
            world.save(text)
        })
        .collect();
    assert_eq!(world.code(&["delete", &ids[0], &ids[1], "-y"]), 0);
    assert_eq!(world.code(&["undelete", &ids[0], "chk_19990101"]), 3);
    assert_eq!(world.json(&["list"])["total"], 1);
    let text = said(&world.run(&["undelete", &ids[0], "2"]));
    assert!(text.contains(&ids[0]) && text.contains(&ids[1]), "{text}");
    assert_eq!(world.json(&["list"])["total"], 3);
}

impl World {
    /// As [`World::json`], whatever it warns of.
    fn json_quietly(&self, arguments: &[&str]) -> Value {
        let output = self.run(&[arguments, &["--json"]].concat());
        assert!(output.status.success(), "{}", said(&output));
        serde_json::from_slice(&output.stdout).unwrap()
    }
}
