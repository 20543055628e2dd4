//! Two at once: a restore beside another of the same workspace, and a save that a restore goes by.

use std::path::PathBuf;
use std::time::Duration;

use rappel::types::database::DatabasePart;
use rappel::types::{Manifest, Trigger};
use rappel::{
    ErrorKind, ListFilter, OpenOptions, Phase, Rappel, RecoverOptions, RestoreOptions, SaveOptions,
};
use rappel_testing::Project;

use crate::support::{World, reference};

/// Whoever finds the gate takes it and stands there until it is removed; everybody else passes.
const GATED: &str = "if mv gate-NAME taken.$$ 2>/dev/null; then
    while [ -e taken.$$ ]; do sleep 0.01; done
fi
";

/// A project with a state outside of it, read and written by commands that can be met in the middle.
struct Scene {
    world: World,
    outside: tempfile::TempDir,
    /// Checkpoints of two states, in both of which code and state are the same.
    one: Manifest,
    two: Manifest,
}

impl Scene {
    /// As it is in the state `two`.
    fn new() -> Self {
        let outside = tempfile::tempdir().unwrap();
        let world = World::new(Project::new().file("code", "one"));
        let script = |name: &str, rest: &str| {
            let gated = GATED.replace("NAME", name);
            format!("cd {}\n{gated}{rest}", outside.path().display())
        };
        let text = format!(
            "[[command]]\nname = \"state\"\ncapture = {:?}\nrestore = {:?}\n",
            ["sh", "-c", &script("capture", "cat state")],
            ["sh", "-c", &script("load", "cat >state")],
        );
        world.write("rappel.toml", text);
        world.trust();
        let save = |state: &str| {
            world.write("code", state);
            std::fs::write(outside.path().join("state"), state).unwrap();
            world.clock.advance(61_000);
            world.open().save(&SaveOptions::default()).unwrap().checkpoint.manifest
        };
        let (one, two) = (save("one"), save("two"));
        Self { world, outside, one, two }
    }

    fn close(&self, name: &str) {
        std::fs::write(self.outside.path().join(format!("gate-{name}")), "").unwrap();
    }

    /// Waits until somebody stands at a gate, and gives where.
    fn taken(&self) -> PathBuf {
        wait_until("somebody stands at the gate", || {
            let mut names = std::fs::read_dir(self.outside.path()).unwrap().map(Result::unwrap);
            names.find(|entry| entry.file_name().to_string_lossy().starts_with("taken."))
        })
        .path()
    }

    fn now(&self) -> (String, String) {
        let state = std::fs::read_to_string(self.outside.path().join("state")).unwrap();
        (self.world.read("code"), state)
    }

    /// Code and state of a checkpoint.
    fn held(&self, manifest: &Manifest) -> (String, &'static str) {
        let mut code = Vec::new();
        let reference = reference(manifest.id.as_str());
        self.world.open().cat(&reference, &"code".parse().unwrap(), &mut code).unwrap();
        let digest = |parts: &[DatabasePart]| parts[0].digest.clone();
        let state = match digest(&manifest.databases) {
            found if found == digest(&self.one.databases) => "one",
            found if found == digest(&self.two.databases) => "two",
            other => panic!("{other:?}"),
        };
        (String::from_utf8(code).unwrap(), state)
    }

    /// The same workspace, by somebody who is soon tired of waiting.
    fn hasty(&self) -> OpenOptions {
        OpenOptions { lock_limit: Duration::from_millis(30), ..self.world.options() }
    }

    fn restore(&self, to: &Manifest) {
        self.world.restore(to.id.as_str());
    }
}

fn wait_until<T>(what: &str, mut so: impl FnMut() -> Option<T>) -> T {
    for _ in 0..6000 {
        if let Some(found) = so() {
            return found;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("it never came to this: {what}");
}

#[test]
fn a_second_restore_of_a_workspace_is_busy_and_changes_nothing() {
    // While the first saves the present, and while it loads.
    for gate in ["capture", "load"] {
        let scene = Scene::new();
        // Something that undo could take back.
        scene.restore(&scene.one);
        scene.restore(&scene.two);
        let step = scene.world.open().next_undo().unwrap();
        let link = scene.outside.path().join("link");
        std::os::unix::fs::symlink(scene.world.project.root(), &link).unwrap();
        let by_link = OpenOptions { root: link, ..scene.hasty() };
        let checkpoints = || scene.world.open().list(&ListFilter::default()).unwrap().total;
        let options = RestoreOptions::default();
        let one = reference(scene.one.id.as_str());
        let two = reference(scene.two.id.as_str());

        scene.close(gate);
        std::thread::scope(|scope| {
            let first = scope.spawn(|| scene.world.open().restore(&one, &options).unwrap());
            let gate = scene.taken();
            let (before, files, total) = (scene.now(), scene.world.snapshot(), checkpoints());
            let refused = [
                Rappel::open(scene.hasty()).unwrap().restore(&two, &options).unwrap_err(),
                Rappel::open(by_link).unwrap().restore(&two, &options).unwrap_err(),
                Rappel::open(scene.hasty()).unwrap().step(&step, true, &options).unwrap_err(),
                Rappel::open(scene.hasty())
                    .unwrap()
                    .recover(&RecoverOptions::finish())
                    .unwrap_err(),
            ];
            for error in refused {
                assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
                assert!(error.to_string().contains("another restore of"), "{error}");
            }
            assert_eq!((scene.now(), checkpoints()), (before, total));
            assert_eq!(scene.world.snapshot(), files);
            std::fs::remove_file(gate).unwrap();
            assert_eq!(first.join().unwrap().conflicts, []);
        });
        assert_eq!(scene.now(), ("one".into(), "one".into()));
        Rappel::open(scene.hasty()).unwrap().restore(&two, &options).unwrap();
        assert_eq!(scene.now(), ("two".into(), "two".into()));
        scene.world.undo();
        assert_eq!(scene.now(), ("one".into(), "one".into()));
    }
}

#[test]
fn other_workspaces_of_the_home_are_restored_meanwhile() {
    let scene = Scene::new();
    let other = Project::new().file("x", "1");
    let options = OpenOptions { root: other.root().to_owned(), ..scene.hasty() };
    let rappel = Rappel::open(options).unwrap();
    let saved = rappel.save(&SaveOptions::default()).unwrap().checkpoint.manifest.id;
    std::fs::write(other.path("x"), "2").unwrap();
    scene.close("load");
    std::thread::scope(|scope| {
        let first = scope.spawn(|| scene.restore(&scene.one));
        let gate = scene.taken();
        rappel.restore(&reference(saved.as_str()), &RestoreOptions::default()).unwrap();
        assert_eq!(std::fs::read_to_string(other.path("x")).unwrap(), "1");
        std::fs::remove_file(gate).unwrap();
        first.join().unwrap();
    });
    assert_eq!(scene.now(), ("one".into(), "one".into()));
}

/// Saves, with a restore to each of these while the command is run: the first in the first look, and so on.
fn save_beside(scene: &Scene, restores: &[&Manifest]) -> Manifest {
    // There is something to read, which tells when the files have been read.
    scene.world.write("new", "new");
    scene.world.clock.advance(61_000);
    scene.close("capture");
    let watched = scene.world.options();
    let progress = watched.operation.progress.clone();
    std::thread::scope(|scope| {
        let save = scope.spawn(|| {
            let options = SaveOptions { message: Some("beside".into()), ..SaveOptions::default() };
            Rappel::open(watched).unwrap().save(&options).unwrap()
        });
        for (at, to) in restores.iter().enumerate() {
            let gate = scene.taken();
            if at == 0 {
                wait_until("the files have been read", || {
                    let read = progress.snapshot_of(Phase::ReadingFiles);
                    (read.done > 0 && Some(read.done) == read.total).then_some(())
                });
            }
            scene.restore(to);
            if at + 1 < restores.len() {
                scene.close("capture");
            }
            std::fs::remove_file(gate).unwrap();
        }
        save.join().unwrap().checkpoint.manifest
    })
}

#[test]
fn a_save_that_a_restore_goes_by_holds_one_state() {
    let scene = Scene::new();
    let saved = save_beside(&scene, &[&scene.one]);
    assert_eq!(scene.held(&saved), ("one".into(), "one"));
    assert!(!saved.interrupted_restore && !saved.partial, "{saved:?}");
}

#[test]
fn a_save_that_restores_keep_going_by_says_so() {
    let scene = Scene::new();
    let saved = save_beside(&scene, &[&scene.one, &scene.two, &scene.one]);
    assert!(saved.interrupted_restore);
    // Those restores were alone, and so were what they saved first.
    let list = scene.world.open().list(&ListFilter::default()).unwrap();
    let safe: Vec<_> =
        list.checkpoints.iter().filter(|one| one.manifest.trigger == Trigger::PreRestore).collect();
    assert_eq!(safe.len(), 3);
    assert!(safe.iter().all(|one| !one.manifest.interrupted_restore));
}
