//! What hooks do for their cost: an editor's files are read before anything else, and nothing is asked
//! that has no news.

#![allow(clippy::unwrap_used, clippy::panic, clippy::disallowed_methods, reason = "tests may")]

mod support;

use std::sync::Arc;

use rappel::OpenOptions;
use rappel::hook::{Call, CallKind, Event, Moment, Outcome};
use rappel_store::disk::Op;
use rappel_testing::{FaultDisk, Project};
use serde_json::json;
use support::{World, path, reference};

fn call(id: &str, tool: &str, kind: CallKind) -> Call {
    let (id, tool, input) = (Some(id.into()), tool.into(), json!({}));
    Call { id, tool, input, kind, background: false, operation: None }
}

fn event(moment: Moment) -> Event {
    Event {
        at: None,
        provider: "claude".into(),
        session: "session-1".into(),
        subagent: None,
        process: None,
        folder: None,
        carries_context: true,
        silent_compaction: false,
        moment,
    }
}

fn before_edit(world: &World, names: &[&str]) -> Event {
    let paths = names.iter().map(|name| world.project.path(name).to_str().unwrap().to_owned());
    event(Moment::BeforeCall(call("call-1", "Edit", CallKind::Edit(paths.collect()))))
}

fn after_shell(id: &str) -> Event {
    let call = call(id, "Bash", CallKind::Shell("true".into()));
    event(Moment::AfterCall(call, Outcome::default()))
}

fn cat(world: &World, checkpoint: &str, name: &str) -> Option<String> {
    let mut bytes = Vec::new();
    world.open().cat(&reference(checkpoint), &path(name), &mut bytes).ok()?;
    Some(String::from_utf8(bytes).unwrap())
}

/// Before anything else, the home included: the agent begins to write at the first thing that the hook
/// does there, and the checkpoint holds the edited files as they were all the same.
#[test]
fn an_editors_files_are_in_the_checkpoint_as_they_were_before_its_call() {
    let project = Project::new().file("a", "saved").file("b", "saved").file("c", "saved");
    let world = World::new(project);
    world.save("first");
    world.write("a", "before");
    world.write("b", "before");
    let files = ["a", "b", "new"].map(|name| world.project.path(name));
    let disk = FaultDisk::new();
    disk.before(
        |op| matches!(op, Op::Write { .. } | Op::Create(_)),
        move || files.iter().for_each(|file| std::fs::write(file, "after").unwrap()),
    );
    world.clock.advance(61_000);
    let options = OpenOptions { disk, ..world.options() };
    let rappel = rappel::Rappel::open(options).unwrap();
    let heard = rappel.hear_event(&before_edit(&world, &["a", "new"]), Arc::new(|| true)).unwrap();
    let checkpoint = heard.checkpoint.unwrap().to_string();
    assert_eq!(cat(&world, &checkpoint, "a").as_deref(), Some("before"));
    assert_eq!(cat(&world, &checkpoint, "new"), None, "it was not there before the call");
    // What the call does not name is as it is when its turn comes.
    assert_eq!(cat(&world, &checkpoint, "b").as_deref(), Some("after"));
    let manifest = rappel.show(&reference(&checkpoint)).unwrap().manifest;
    assert_eq!(manifest.mid_operation, ["Edit (call-1 in session claude:session-1)"]);
    let next = world.save("next");
    assert_eq!(cat(&world, &next, "a").as_deref(), Some("after"));
    assert_eq!(cat(&world, &next, "new").as_deref(), Some("after"));
    world.verify();
}

/// A capture command notes that it ran.
#[test]
fn a_hook_that_finds_nothing_changed_asks_no_database() {
    let world = World::new(Project::new().file("code", "1"));
    let outside = tempfile::tempdir().unwrap();
    let ran = outside.path().join("ran");
    let capture = format!("echo ran >> {}; echo state", ran.display());
    let command = format!(
        "[[command]]\nname = \"state\"\ncapture = [\"sh\", \"-c\", {capture:?}]\n\
         restore = [\"true\"]\n"
    );
    world.write("rappel.toml", command);
    world.trust();
    world.save("first");
    let times = || std::fs::read_to_string(&ran).unwrap().lines().count();
    let asked = times();
    let hear = |id: &str| {
        world.clock.advance(61_000);
        let heard = world.open().hear_event(&after_shell(id), Arc::new(|| false));
        heard.unwrap().checkpoint
    };
    assert_eq!(hear("call-1"), None);
    assert_eq!(times(), asked, "nothing else changed");
    world.write("code", "2");
    let made = hear("call-2").unwrap().to_string();
    assert!(times() > asked, "a checkpoint that is made has what is quick to read");
    let manifest = world.open().show(&reference(&made)).unwrap().manifest;
    assert_eq!(manifest.databases.len(), 1);
    assert_eq!(hear("call-3"), None, "and the next one has nothing to save again");
}

/// What a transcript's own sessions are asked does not grow with the sessions of the home.
#[test]
fn a_session_is_found_among_others_of_its_agent() {
    let world = World::new(Project::new().file("code", "1"));
    world.save("first");
    let rappel = world.open();
    for number in 0..3 {
        let other = Event { session: format!("other-{number}"), ..after_shell("call-x") };
        rappel.hear_event(&other, Arc::new(|| false)).unwrap();
    }
    let one = rappel.hear_event(&after_shell("call-1"), Arc::new(|| false)).unwrap();
    let again = world.open().hear_event(&after_shell("call-2"), Arc::new(|| false)).unwrap();
    assert_eq!(one.session, again.session);
    assert_eq!(world.open().sessions().unwrap().len(), 4);
}
