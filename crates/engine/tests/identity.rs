//! Which folder a history belongs to: moved, renamed, cloned, replaced.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test may fail loudly"
)]

mod support;

use rappel::{ErrorKind, ListFilter, Rappel, RestoreOptions, SaveOptions};
use rappel_testing::Project;
use rappel_types::Advice;
use support::{World, reference};

fn total(rappel: &Rappel) -> usize {
    rappel.list(&ListFilter::default()).unwrap().total
}

#[test]
fn a_renamed_folder_is_adopted() {
    let world = World::new(Project::new().file("w/a", "1"));
    let (old, new) = (world.project.path("w"), world.project.path("renamed"));
    let rappel = Rappel::open(world.options_at(&old)).unwrap();
    let id = rappel.save(&SaveOptions::default()).unwrap().checkpoint.manifest.id.to_string();
    drop(rappel);
    std::fs::rename(&old, &new).unwrap();
    let moved = Rappel::open(world.options_at(&new)).unwrap();
    assert_eq!(total(&moved), 0);
    assert!(matches!(
        moved.status().unwrap().remarks.advice()[..],
        [Advice::Adopt { workspace: Some(_) }]
    ));
    let error = moved.restore(&reference(&id), &RestoreOptions::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    assert_eq!(error.advice(), [Advice::Adopt { workspace: None }]);
    let adopted = moved.adopt(old.to_str().unwrap()).unwrap();
    assert_eq!(adopted.checkpoints, 1);
    assert_eq!(total(&moved), 1);
    drop(moved);
    let again = Rappel::open(world.options_at(&new)).unwrap();
    std::fs::write(new.join("a"), "2").unwrap();
    again.restore(&reference(&id), &RestoreOptions::default()).unwrap();
    assert_eq!(std::fs::read_to_string(new.join("a")).unwrap(), "1");
}

#[test]
fn a_living_original_keeps_its_history() {
    let world = World::new(Project::new().file("w/a", "1"));
    let old = world.project.path("w");
    Rappel::open(world.options_at(&old)).unwrap().save(&SaveOptions::default()).unwrap();
    let copy = world.project.path("copy");
    std::fs::create_dir(&copy).unwrap();
    let other = Rappel::open(world.options_at(&copy)).unwrap();
    let error = other.adopt(old.to_str().unwrap()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Usage, "{error}");
}

#[test]
fn a_new_clone_at_the_same_path_goes_on() {
    let world = World::new(Project::new().file("a", "1"));
    world.git(&["init", "-q"]);
    world.git(&["add", "-A"]);
    world.git(&["commit", "-qm", "first"]);
    // No save waits for git to find the first commit. This one has a source that answers after git.
    let script = format!(
        "for one in /proc/[0-9]*; do\n\
         while grep -qs 'max-parent[s]' $one/cmdline && grep -qs '^PPid:.{}$' $one/status\n\
         do sleep 0.01; done; done; echo over\n",
        std::process::id()
    );
    world.write("slow.sh", script);
    world.write(
        "rappel.toml",
        "[[command]]\nname = \"slow\"\ncapture = [\"sh\", \"slow.sh\"]\nrestore = [\"true\"]\n",
    );
    world.trust();
    let id = world.save("first");
    let root = world.project.root().to_owned();
    let aside = world.project.outside().join("aside");
    std::fs::rename(&root, &aside).unwrap();
    let done = std::process::Command::new("git")
        .args(["clone", "-q", aside.to_str().unwrap(), root.to_str().unwrap()])
        .output()
        .unwrap();
    assert!(done.status.success());
    let rappel = world.open();
    let saved = rappel.save(&SaveOptions::default()).unwrap();
    assert!(saved.notes.iter().any(|note| note.contains("cloned anew")), "{:?}", saved.notes);
    assert!(rappel.show(&reference(&id)).is_ok());
}

#[test]
fn another_folder_at_the_same_path_begins_anew() {
    let world = World::new(Project::new().file("w/a", "1"));
    let root = world.project.path("w");
    let rappel = Rappel::open(world.options_at(&root)).unwrap();
    let id = rappel.save(&SaveOptions::default()).unwrap().checkpoint.manifest.id.to_string();
    drop(rappel);
    std::fs::rename(&root, world.project.path("aside")).unwrap();
    std::fs::create_dir(&root).unwrap();
    std::fs::write(root.join("b"), "precious").unwrap();
    let rappel = Rappel::open(world.options_at(&root)).unwrap();
    let error = rappel.restore(&reference(&id), &RestoreOptions::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    let saved = rappel.save(&SaveOptions::default()).unwrap();
    assert_eq!(saved.checkpoint.manifest.sequence, 1);
    assert!(saved.notes.iter().any(|note| note.contains("a new history begins")));
    assert_eq!(std::fs::read_to_string(root.join("b")).unwrap(), "precious");
}

#[test]
fn two_that_begin_the_same_history_at_once_have_one() {
    let world = World::new(Project::new().file("a", "1"));
    // Both look before either has saved.
    let (mut one, mut two) = (world.open(), world.open());
    let save = |rappel: &rappel::Rappel, message: &str| {
        let options = SaveOptions { message: Some(message.into()), ..SaveOptions::default() };
        rappel.save(&options).unwrap().checkpoint.manifest
    };
    let first = save(&mut one, "one");
    let second = save(&mut two, "two");
    assert_eq!(first.workspace.id, second.workspace.id);
    assert_eq!((first.sequence, second.sequence), (1, 2));
    assert_eq!(second.parent, Some(first.id));
    assert_eq!(world.open().workspace_id(), Some(second.workspace.id));
}

#[test]
fn what_was_saved_in_a_moved_folder_before_it_was_adopted_can_still_be_restored() {
    let world = World::new(Project::new().file("w/a", "1"));
    let (old, new) = (world.project.path("w"), world.project.path("renamed"));
    Rappel::open(world.options_at(&old)).unwrap().save(&SaveOptions::default()).unwrap();
    std::fs::rename(&old, &new).unwrap();
    let moved = Rappel::open(world.options_at(&new)).unwrap();
    std::fs::write(new.join("a"), "2").unwrap();
    let apart = moved.save(&SaveOptions::default()).unwrap().checkpoint.manifest.id;
    let adopted = moved.adopt(old.to_str().unwrap()).unwrap();
    assert_eq!(adopted.left_behind, std::slice::from_ref(&apart));
    drop(moved);
    let again = Rappel::open(world.options_at(&new)).unwrap();
    assert_eq!(total(&again), 1);
    std::fs::write(new.join("a"), "3").unwrap();
    again.restore(&reference(apart.as_str()), &RestoreOptions::default()).unwrap();
    assert_eq!(std::fs::read_to_string(new.join("a")).unwrap(), "2");
    let step = again.next_undo().unwrap();
    again.step(&step, false, &RestoreOptions::default()).unwrap();
    assert_eq!(std::fs::read_to_string(new.join("a")).unwrap(), "3");
    // A checkpoint of another folder is not put over this one's files: nobody here knows it.
    let other = world.project.path("other");
    std::fs::create_dir(&other).unwrap();
    let stranger = Rappel::open(world.options_at(&other)).unwrap();
    stranger.save(&SaveOptions::default()).unwrap();
    let error = stranger.restore(&reference(apart.as_str()), &RestoreOptions::default());
    assert_eq!(error.unwrap_err().kind(), ErrorKind::NotFound);
}
