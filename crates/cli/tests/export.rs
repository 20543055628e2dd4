//! `rappel export`: one file that is whole or not there, and nothing in it that should stay here.

#![allow(clippy::unwrap_used, reason = "tests may")]

mod support;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rappel_store::bundle::Bundle;
use rappel_testing::killed::{some_of, was_killed};
use rappel_testing::records::{Record, records};
use rappel_testing::{Steps, cannot_run};
use support::{FILTERS, World};

fn out(world: &World, name: &str) -> PathBuf {
    world.project.outside().join(name)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<_> =
        entries.map(|one| one.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn it_says_what_it_wrote_and_where() {
    let world = World::new();
    let first = world.save("first");
    let file = out(&world, "x.rappel");
    insta::with_settings!({filters => FILTERS.to_vec()}, {
        insta::assert_snapshot!(world.face(&["export", "latest", "-o", file.to_str().unwrap()]));
    });
    let answer = world.json(&["export", "1", "-o", file.to_str().unwrap()]);
    assert_eq!(answer["paths"][0].as_str(), file.to_str());
    assert_eq!(answer["checkpoints"][0], first);
    assert_eq!((&answer["form"], &answer["redacted"]), (&"rappel".into(), &false.into()));
    assert_eq!(answer["left_out"].as_array().unwrap().len(), 0);
    // Without -o it lies where you are, and is called by the checkpoint.
    let answer = world.json(&["export", "1"]);
    let here = world.project.path(format!("{first}.rappel"));
    assert_eq!(answer["paths"][0].as_str(), here.to_str());
    assert_eq!(std::fs::read(&here).unwrap(), std::fs::read(&file).unwrap());
    assert_eq!(Bundle::open(&file).unwrap().manifests().count(), 1);
}

#[test]
fn a_pipe_gets_the_same_bytes_and_nothing_else() {
    let world = World::new();
    world.save("first");
    let file = out(&world, "x.rappel");
    world.json(&["export", "latest", "-o", file.to_str().unwrap()]);
    let piped = world.run(&["export", "latest", "-o", "-"]);
    assert!(piped.status.success());
    assert_eq!(piped.stdout, std::fs::read(&file).unwrap());
    assert_eq!(text(&piped.stderr), "");
}

#[test]
fn what_cannot_be_exported_is_named() {
    let world = World::new();
    let first = world.save("first");
    world.write("a.txt", "changed\n");
    let second = world.save("second");
    let file = out(&world, "x.rappel");
    let to = file.to_str().unwrap();
    let fails = |arguments: &[&str], code: i32, said: &str| {
        let output = world.run(&[&["export"], arguments, &["-o", to]].concat());
        let errors = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {errors}");
        assert!(errors.contains(said), "{arguments:?}: {errors}");
        assert!(!file.exists(), "{arguments:?}");
    };
    fails(&["9"], 3, "no checkpoint \"9\"");
    fails(&["1.."], 2, "is no checkpoint yet");
    fails(&["2..1"], 2, "2 is later than 1");
    fails(&["1", "--format", "lug"], 2, "did you mean lugh?");
    world.json(&["delete", &first, "--confirm"]);
    fails(&[&first], 3, &format!("{first} was deleted"));
    // A file whose bytes are lost is named, and nothing is written.
    let of_contents = |record: &&Record| !record.is_of_the_log() && !record.is_manifest();
    records(&world.home).iter().filter(of_contents).for_each(Record::damage);
    fails(&[&second], 6, &second);
    assert_eq!(
        names(world.project.outside()).iter().filter(|name| name.contains("tmp")).count(),
        0
    );
}

#[test]
fn a_secret_stays_here_with_redact() {
    let world = World::new();
    world.write("token.txt", "ghp_0123456789abcdefghijABCDEF\n");
    world.save("first");
    let file = out(&world, "x.rappel");
    let to = file.to_str().unwrap();
    let output = world.run(&["export", "latest", "--redact", "-o", to]);
    assert!(output.status.success());
    assert!(text(&output.stderr).contains("token.txt (left out by redaction: github token)"));
    let answer = world.json(&["export", "latest", "--redact", "-o", to]);
    assert!(answer["left_out"][0].as_str().unwrap().contains("token.txt"));
    let bundle = Bundle::open(&file).unwrap();
    let manifest = bundle.manifests().next().unwrap();
    assert_eq!(manifest.partial_reasons[0].path.as_ref().unwrap().to_string(), "token.txt");
}

#[test]
fn one_that_is_killed_at_any_step_leaves_the_old_file_or_the_new_one() {
    let world = World::new();
    world.save("first");
    world.write("a.txt", "changed\n");
    world.save("second");
    let folder = out(&world, "out");
    std::fs::create_dir(&folder).unwrap();
    let file = folder.join("x.rappel");
    let to = file.to_str().unwrap();
    world.json(&["export", "1", "-o", to]);
    let old = std::fs::read(&file).unwrap();
    let Some(steps) = Steps::of([]) else {
        return cannot_run("strace cannot trace processes here");
    };
    let under = |mut strace: Command| {
        let plain = world.command(&["export", "2", "-o", to]);
        strace.arg(plain.get_program()).args(plain.get_args());
        strace.current_dir(world.project.root()).env_clear();
        strace.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
        strace.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        strace.status().unwrap()
    };
    assert!(under(steps.counting()).success());
    let new = std::fs::read(&file).unwrap();
    assert_ne!(old, new);
    let made = steps.made();
    let mut killed = 0;
    for step in some_of(&made, 6, 12) {
        std::fs::write(&file, &old).unwrap();
        killed += usize::from(was_killed(under(steps.killing_at(step))));
        let found = std::fs::read(&file).unwrap();
        assert!(found == old || found == new, "{step:?}");
    }
    assert!(killed > 4, "{killed} of {made:?}");
    assert!(world.run(&["verify"]).status.success());
    // What they left beside it goes with the next one.
    world.json(&["export", "2", "-o", to]);
    let left: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|one| one.unwrap().path()).collect();
    assert_eq!(left, [file]);
}

#[test]
fn gc_takes_nothing_from_under_an_export() {
    let world = World::new();
    for number in 0..6 {
        world.write("a.txt", &support::noise(3000 + number));
        world.save(&format!("save {number}"));
    }
    let file = out(&world, "x.rappel");
    let to = file.to_str().unwrap();
    world.json(&["export", "6", "-o", to]);
    let expected = std::fs::read(&file).unwrap();
    for number in 1..=5 {
        let export = world.command(&["export", "6", "-o", to]).spawn().unwrap();
        world.json(&["delete", &number.to_string(), "--confirm", "--now"]);
        assert!(world.run(&["gc", "--now", "--confirm"]).status.success());
        let output = export.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert_eq!(std::fs::read(&file).unwrap(), expected);
    }
}

/// Given a workspace whose `rappel.toml` has an `[export]`.
fn exporting(section: &str) -> World {
    let world = World::new();
    world.write("rappel.toml", &format!("[export]\n{section}\n"));
    world
}

/// What the bundles of these checkpoints are called.
fn files_of(ids: [&str; 2]) -> Vec<String> {
    let mut names: Vec<String> = ids.iter().map(|id| format!("{id}.rappel")).collect();
    names.sort();
    names
}

fn reasons(world: &World) -> String {
    world.json_at_any_exit(&["status"])["reasons"].to_string()
}

#[test]
fn new_checkpoints_are_written_out_once_that_is_allowed() {
    let world = exporting("format = \"rappel\"\ndir = \"out\"\ntriggers = [\"manual\"]");
    let first = world.save("before it was allowed");
    assert!(!world.project.path("out").exists());
    assert!(reasons(&world).contains("checkpoints are not written out"), "{}", reasons(&world));
    let shown = text(&world.run(&["trust"]).stdout);
    assert!(shown.contains("checkpoints in the form of rappel to"), "{shown}");

    world.trust();
    world.write("a.txt", "changed\n");
    let second = world.save("now");
    // What could not be written before follows.
    let expected = files_of([&first, &second]);
    assert_eq!(names(&world.project.path("out")), expected);
    assert!(!reasons(&world).contains("written out"), "{}", reasons(&world));
    let bundle = Bundle::open(&world.project.path(format!("out/{second}.rappel"))).unwrap();
    assert_eq!(bundle.manifests().next().unwrap().id.as_str(), second);
    // Saves do not take what is written out, and another trigger is not asked for.
    world.write("a.txt", "changed again\n");
    world.json(&["save", "--trigger", "scheduled"]);
    assert_eq!(names(&world.project.path("out")), expected);
    let files = world.run(&["show", "latest", "--files"]);
    assert!(!text(&files.stdout).contains("out/"), "{}", text(&files.stdout));
}

#[test]
fn a_folder_that_cannot_be_written_to_fails_no_save() {
    let world = exporting("format = \"rappel\"\ndir = \"OUT\"");
    let outside = out(&world, "elsewhere");
    world
        .write("rappel.toml", &world.read("rappel.toml").replace("OUT", outside.to_str().unwrap()));
    std::fs::write(&outside, "a file in the way").unwrap();
    world.trust();
    let first = world.save("first");
    assert!(reasons(&world).contains("checkpoints are not written out"));
    assert_eq!(std::fs::read_to_string(&outside).unwrap(), "a file in the way");
    std::fs::remove_file(&outside).unwrap();
    world.trust();
    world.write("a.txt", "changed\n");
    let second = world.save("second");
    assert_eq!(names(&outside), files_of([&first, &second]));
    assert!(!reasons(&world).contains("written out"));
}

#[test]
fn a_folder_with_saved_files_is_not_taken_from_the_saves() {
    for dir in ["docs", ".", "..", "src/main.rs"] {
        let world = exporting(&format!("format = \"rappel\"\ndir = \"{dir}\""));
        world.save("first");
        world.trust();
        world.write("a.txt", "changed\n");
        world.save("second");
        assert!(reasons(&world).contains("[export] cannot write to"), "{dir}: {}", reasons(&world));
        let files = text(&world.run(&["show", "latest", "--files"]).stdout);
        for path in ["docs/notes.md", "src/main.rs", "a.txt"] {
            assert!(files.contains(path), "{dir}: {files}");
        }
        assert_eq!(names(&world.project.path("docs")), ["notes.md"]);
    }
}

#[test]
fn a_link_that_leads_elsewhere_since_is_not_followed() {
    let world = exporting("format = \"rappel\"\ndir = \"out\"");
    world.save("first");
    world.trust();
    let elsewhere = out(&world, "elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, world.project.path("out")).unwrap();
    world.write("a.txt", "changed\n");
    world.save("second");
    assert_eq!(names(&elsewhere), [""; 0]);
    assert!(reasons(&world).contains("not allowed that"), "{}", reasons(&world));
}
