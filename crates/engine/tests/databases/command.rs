//! Anything that can dump and load itself.

use std::path::PathBuf;

use rappel::types::database::DatabaseKind;
use rappel::types::{Facet, FacetState};
use rappel::{ErrorKind, RecoverOptions, RestoreOptions, SaveOptions, Saved};
use rappel_testing::Project;
use rappel_testing::records::records;

use crate::support::{World, reference};
use rappel_types::Advice;

/// A project whose state lies outside it, with commands to read and write that.
struct Scene {
    world: World,
    outside: tempfile::TempDir,
}

impl Scene {
    fn new(state: &str) -> Self {
        let outside = tempfile::tempdir().unwrap();
        let scene = Self { world: World::new(Project::new().file("code", "1")), outside };
        scene.set(state);
        scene.configure(&["cat", scene.state().to_str().unwrap()], &scene.loader());
        scene
    }

    fn state(&self) -> PathBuf {
        self.outside.path().join("state")
    }

    fn loader(&self) -> [String; 3] {
        ["cp".into(), "/dev/stdin".into(), self.state().to_str().unwrap().into()]
    }

    fn configure(&self, capture: &[&str], restore: &[String]) {
        let text = format!(
            "[[command]]\nname = \"state\"\ncapture = {capture:?}\nrestore = {restore:?}\ntimeout = \"20s\"\n"
        );
        self.world.write("rappel.toml", text);
        self.world.trust();
    }

    fn set(&self, state: &str) {
        std::fs::write(self.state(), state).unwrap();
    }

    fn get(&self) -> String {
        std::fs::read_to_string(self.state()).unwrap()
    }

    fn save(&self) -> Saved {
        self.world.clock.advance(61_000);
        self.world.open().save(&SaveOptions::default()).unwrap()
    }
}

#[test]
fn a_loader_that_loads_nothing_is_not_believed() {
    let scene = Scene::new("one");
    scene.configure(&["cat", scene.state().to_str().unwrap()], &["true".into()]);
    let first = scene.save().checkpoint.manifest.id.to_string();
    scene.set("two");
    scene.world.write("code", "2");
    let report = scene.world.open().restore(&reference(&first), &RestoreOptions::default());
    let report = report.unwrap();
    let done = report.done.unwrap();
    assert!(!done.recovery_complete);
    assert!(!done.text.contains("databases"), "{}", done.text);
    let reasons: Vec<_> = report.conflicts.iter().map(|one| one.reason.as_str()).collect();
    assert!(reasons[0].contains("ended without an error"), "{reasons:?}");
    assert_eq!((scene.get(), scene.world.read("code")), ("two".into(), "1".into()));
}

#[test]
fn its_state_comes_back_with_the_files_and_undo_takes_that_back() {
    let scene = Scene::new("one");
    let first = scene.save().checkpoint.manifest;
    let part = &first.databases[0];
    assert_eq!((part.name.as_str(), part.kind, part.bytes), ("state", DatabaseKind::Command, 3));
    assert_eq!((part.as_of.as_ref(), part.stale), (Some(&first.id), false));
    assert_eq!(first.state_of(Facet::Databases), FacetState::Captured);

    scene.set("two");
    scene.world.write("code", "2");
    let first = first.id.to_string();
    let plan = scene.world.open().plan_restore(&reference(&first), &RestoreOptions::default());
    let plan = plan.unwrap();
    assert_eq!(plan.summary.databases.as_deref(), Some("state"));
    assert_eq!(scene.get(), "two", "a dry run changes nothing");

    scene.world.restore(&first);
    assert_eq!((scene.get(), scene.world.read("code")), ("one".into(), "1".into()));
    scene.world.undo();
    assert_eq!((scene.get(), scene.world.read("code")), ("two".into(), "2".into()));
    scene.world.redo();
    assert_eq!((scene.get(), scene.world.read("code")), ("one".into(), "1".into()));
    scene.world.verify();
}

#[test]
fn what_did_not_change_is_as_of_the_checkpoint_that_first_held_it() {
    let scene = Scene::new("one");
    let first = scene.save().checkpoint.manifest;
    scene.world.write("code", "2");
    let second = scene.save().checkpoint.manifest;
    assert_ne!(first.id, second.id);
    assert_eq!(second.databases, first.databases);
    scene.set("two");
    let third = scene.save().checkpoint.manifest;
    assert_eq!(third.databases[0].as_of, Some(third.id));
}

#[test]
fn only_and_skip_choose() {
    let scene = Scene::new("one");
    let first = scene.save().checkpoint.manifest.id.to_string();
    let change = || {
        scene.set("two");
        scene.world.write("code", "2");
    };
    change();
    let only = |facet| RestoreOptions { only: Some([facet].into()), ..RestoreOptions::default() };
    scene.world.open().restore(&reference(&first), &only(Facet::Databases)).unwrap();
    assert_eq!((scene.get(), scene.world.read("code")), ("one".into(), "2".into()));
    change();
    scene.world.open().restore(&reference(&first), &only(Facet::Files)).unwrap();
    assert_eq!((scene.get(), scene.world.read("code")), ("two".into(), "1".into()));
}

#[test]
fn one_that_fails_makes_the_checkpoint_partial() {
    let scene = Scene::new("one");
    scene.configure(&["ls", "/nonexistent/place"], &scene.loader());
    let saved = scene.save().checkpoint.manifest;
    assert!(saved.partial && saved.files.is_some());
    assert_eq!(saved.state_of(Facet::Databases), FacetState::Failed);
    let reason = &saved.partial_reasons[0];
    assert!(reason.reason.contains("state: ls failed"), "{reason:?}");
    assert!(reason.reason.contains("/nonexistent/place"), "{reason:?}");

    scene.configure(&["rappel-no-such-program"], &scene.loader());
    let saved = scene.save().checkpoint.manifest;
    assert!(saved.partial_reasons[0].reason.contains("cannot be run"), "{saved:?}");
}

#[test]
fn one_that_takes_too_long_is_stopped() {
    let scene = Scene::new("one");
    let text = "[[command]]\nname = \"slow\"\ncapture = [\"sleep\", \"600\"]\nrestore = [\"cat\"]\ntimeout = \"100ms\"\n";
    scene.world.write("rappel.toml", text);
    scene.world.trust();
    let saved = scene.save().checkpoint.manifest;
    let reason = &saved.partial_reasons[0].reason;
    assert!(reason.contains("took longer than"), "{reason}");
}

/// A process that a command leaves behind, which outlives every patience.
struct Left(String);

impl Left {
    /// The one whose id the command wrote down.
    fn behind(scene: &Scene) -> Self {
        Self(std::fs::read_to_string(scene.outside.path().join("left")).unwrap().trim().to_owned())
    }

    fn is_alive(&self) -> bool {
        std::process::Command::new("kill").args(["-0", &self.0]).output().unwrap().status.success()
    }
}

impl Drop for Left {
    fn drop(&mut self) {
        let _ = std::process::Command::new("kill").args(["-9", &self.0]).output();
    }
}

impl Scene {
    /// A shell's words that leave `process` behind and write down its id.
    fn leaving(&self, process: &str) -> String {
        format!("{process} & echo $! > '{}/left'", self.outside.path().display())
    }
}

#[test]
fn what_a_command_leaves_behind_is_not_waited_for() {
    let scene = Scene::new("one");
    let words = format!("{}; echo hi", scene.leaving("sleep 600 >/dev/null"));
    scene.configure(&["sh", "-c", &words], &scene.loader());
    let saved = scene.save().checkpoint.manifest;
    let left = Left::behind(&scene);
    assert!(left.is_alive());
    assert_eq!((saved.partial, saved.databases[0].bytes), (false, 3), "{saved:?}");
}

#[test]
#[cfg(target_os = "linux")]
fn an_output_that_others_keep_open_is_no_whole_output() {
    let scene = Scene::new("one");
    let words = format!("{}; echo hi", scene.leaving("setsid sleep 600"));
    scene.configure(&["sh", "-c", &words], &scene.loader());
    let saved = scene.save().checkpoint.manifest;
    let left = Left::behind(&scene);
    assert!(left.is_alive());
    let reason = &saved.partial_reasons[0].reason;
    assert!(reason.contains("keeps its output open"), "{reason}");
}

#[test]
fn what_a_loader_leaves_behind_is_not_waited_for() {
    let mut processes = vec!["sleep 600", "sleep 600 >/dev/null"];
    if cfg!(target_os = "linux") {
        processes.push("setsid sleep 600");
    }
    for process in processes {
        let scene = Scene::new("one");
        let state = scene.state();
        let state = state.to_str().unwrap();
        let words = format!("cat > '{state}'; {}", scene.leaving(process));
        scene.configure(&["cat", state], &["sh".into(), "-c".into(), words]);
        let first = scene.save().checkpoint.manifest.id.to_string();
        scene.set("two");
        scene.world.restore(&first);
        let left = Left::behind(&scene);
        assert!(left.is_alive(), "{process}");
        assert_eq!(scene.get(), "one");
    }
}

#[test]
fn a_silent_command_is_stopped_when_the_user_wants_to() {
    let scene = Scene::new("one");
    let words = format!("echo $$ > '{}/left'; exec sleep 600", scene.outside.path().display());
    let text = format!(
        "[[command]]\nname = \"state\"\ncapture = {:?}\nrestore = [\"cat\"]\ntimeout = \"600s\"\n",
        ["sh", "-c", &words]
    );
    scene.world.write("rappel.toml", text);
    scene.world.trust();
    let options = scene.world.options();
    let cancel = options.operation.cancel.clone();
    let started = scene.outside.path().join("left");
    let user = std::thread::spawn(move || {
        while std::fs::read(&started).map_or(true, |id| id.is_empty()) {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        cancel.cancel();
    });
    let saved = rappel::Rappel::open(options).unwrap().save(&SaveOptions::default());
    user.join().unwrap();
    let left = Left::behind(&scene);
    assert!(!left.is_alive());
    let error = saved.unwrap_err().to_string();
    assert!(error.contains("cancelled"), "{error}");
}

#[test]
fn without_its_loader_nothing_is_restored() {
    let scene = Scene::new("one");
    let first = scene.save().checkpoint.manifest.id.to_string();
    scene.set("two");
    scene.world.write("code", "2");
    let state = scene.state();
    scene.configure(&["cat", state.to_str().unwrap()], &["rappel-no-such-program".into()]);
    let before = scene.world.snapshot();
    let restored = scene.world.open().restore(&reference(&first), &RestoreOptions::default());
    let error = restored.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    assert!(error.to_string().contains("rappel-no-such-program"), "{error}");
    assert_eq!((scene.get(), scene.world.snapshot()), ("two".into(), before));
}

#[test]
fn a_loader_that_fails_leaves_a_restore_to_be_finished() {
    let scene = Scene::new("one");
    let first = scene.save().checkpoint.manifest.id.to_string();
    scene.set("two");
    scene.world.write("code", "2");
    // The configuration is outside what is restored here, so that it can be mended afterwards.
    let state = scene.state();
    let state = state.to_str().unwrap();
    scene.configure(&["cat", state], &["cat".into(), "/nonexistent/place".into()]);
    let paths = ["rappel.toml"];
    let second = scene.save().checkpoint.manifest.id.to_string();
    scene.set("three");
    let restored = scene.world.open().restore(&reference(&second), &RestoreOptions::default());
    let error = restored.unwrap_err();
    assert!(error.to_string().contains("cat failed"), "{error}");
    assert!(error.to_string().contains("or may have been"), "{error}");
    assert_eq!(error.advice(), [Advice::FinishRestore], "{error}");
    assert_eq!(scene.get(), "three");

    let error = scene.world.open().recover(&RecoverOptions::rollback()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    scene.configure(&["cat", state], &scene.loader());
    let recovered = scene.world.open().recover(&RecoverOptions::finish()).unwrap();
    assert_eq!((recovered.outcome, &recovered.conflicts[..]), ("finished", &[][..]));
    assert_eq!(recovered.databases, ["state"]);
    assert!(recovered.message.ends_with("databases: state"), "{recovered:?}");
    assert_eq!(scene.get(), "two");
    let _ = (first, paths);
}

#[test]
fn a_loader_that_fails_can_be_left_out() {
    let scene = Scene::new("one");
    let state = scene.state();
    let state = state.to_str().unwrap();
    // Begins, and fails in the middle.
    let half = format!("head -c 2 > '{state}'; echo broken >&2; exit 3");
    scene.configure(&["cat", state], &["sh".into(), "-c".into(), half]);
    let first = scene.save().checkpoint.manifest.id.to_string();
    scene.set("two");
    scene.world.write("code", "2");
    let restored = scene.world.open().restore(&reference(&first), &RestoreOptions::default());
    assert_eq!(restored.unwrap_err().advice(), [Advice::FinishRestore]);
    assert_eq!((scene.get(), scene.world.read("code")), ("on".into(), "1".into()));

    let skip = RecoverOptions { skip_databases: true, ..RecoverOptions::rollback() };
    assert_eq!(scene.world.open().recover(&skip).unwrap_err().kind(), ErrorKind::Usage);
    let skip = RecoverOptions { skip_databases: true, ..RecoverOptions::finish() };
    let recovered = scene.world.open().recover(&skip).unwrap();
    assert_eq!((recovered.outcome, &recovered.conflicts[..]), ("finished", &[][..]));
    assert_eq!(recovered.warnings.advice(), [Advice::Undo], "{recovered:?}");
    assert_eq!(recovered.databases, [""; 0], "{recovered:?}");
    assert_eq!((scene.get(), scene.world.read("code")), ("on".into(), "1".into()));

    // What it held before is in the safety checkpoint, and comes back once it can be loaded.
    scene.configure(&["cat", state], &scene.loader());
    scene.world.undo();
    assert_eq!((scene.get(), scene.world.read("code")), ("two".into(), "2".into()));
}

#[test]
fn what_a_loader_did_in_part_is_done_again() {
    let scene = Scene::new("one");
    let state = scene.state();
    let state = state.to_str().unwrap();
    let mended = scene.outside.path().join("mended");
    let words = format!(
        "[ -e '{}' ] || exec head -c 2 > '{state}' /nonexistent - ; cat > '{state}'",
        mended.display()
    );
    scene.configure(&["cat", state], &["sh".into(), "-c".into(), words]);
    let first = scene.save().checkpoint.manifest.id.to_string();
    scene.set("two");
    scene.world.open().restore(&reference(&first), &RestoreOptions::default()).unwrap_err();
    assert_ne!(scene.get(), "two", "something was loaded");
    std::fs::write(&mended, "").unwrap();
    let recovered = scene.world.open().recover(&RecoverOptions::finish()).unwrap();
    assert_eq!((recovered.outcome, &recovered.conflicts[..]), ("finished", &[][..]));
    assert_eq!(scene.get(), "one");
    scene.world.undo();
    assert_eq!(scene.get(), "two");
}

#[test]
fn one_whose_output_is_never_the_same_can_be_undone() {
    let scene = Scene::new("one");
    let (state, count) = (scene.state(), scene.outside.path().join("count"));
    // Counts its runs, as others would tell the time.
    let dump =
        format!("echo x >> '{0}'; wc -l < '{0}'; cat '{1}'", count.display(), state.display());
    let load = format!("tail -n +2 > '{}'", state.display());
    scene.configure(&["sh", "-c", &dump], &["sh".into(), "-c".into(), load]);
    let first = scene.save().checkpoint.manifest.id.to_string();
    scene.set("two");
    scene.world.restore(&first);
    assert_eq!(scene.get(), "one");
    let told = |report: &rappel::RestoreReport| {
        report.warnings.iter().any(|line| line.contains("never gives the same twice"))
    };
    let rappel = scene.world.open();
    let step = rappel.next_undo().unwrap();
    let plan = rappel.plan_step(&step, false, &RestoreOptions::default()).unwrap();
    assert!(told(&plan) && plan.conflicts.is_empty(), "{plan:?}");
    drop(rappel);
    // Whatever somebody did since is in the checkpoint that the undo makes.
    scene.set("three");
    let report = scene.world.undo();
    assert_eq!((scene.get(), &report.conflicts[..]), ("two".into(), &[][..]));
    let safety = report.done.unwrap().safety_checkpoint.unwrap().to_string();
    scene.world.restore(&safety);
    assert_eq!(scene.get(), "three");
}

#[test]
fn a_database_that_was_changed_since_is_kept_by_undo() {
    let scene = Scene::new("one");
    let first = scene.save().checkpoint.manifest.id.to_string();
    scene.set("two");
    scene.world.restore(&first);
    scene.set("three");
    let rappel = scene.world.open();
    let step = rappel.next_undo().unwrap();
    let report = rappel.step(&step, false, &RestoreOptions::default()).unwrap();
    assert!(report.conflicts[0].reason.contains("changed since"), "{report:?}");
    assert_eq!(scene.get(), "three");
}

#[test]
fn a_save_that_a_command_makes_runs_no_commands() {
    let scene = Scene::new("one");
    scene.configure(&["sh", "-c", "echo $RAPPEL_INSIDE"], &scene.loader());
    assert_eq!(scene.save().checkpoint.manifest.databases[0].bytes, 2, "it is told");
    let mut options = scene.world.options();
    options.variables = std::sync::Arc::new(|name| (name == "RAPPEL_INSIDE").then(|| "1".into()));
    scene.world.clock.advance(61_000);
    let saved = rappel::Rappel::open(options).unwrap().save(&SaveOptions::default()).unwrap();
    let manifest = saved.checkpoint.manifest;
    assert!(manifest.databases.is_empty() && manifest.partial, "{manifest:?}");
}

#[test]
fn variables_are_kept_by_name_and_secrets_are_not() {
    let world = World::new(Project::new().file("a", "1"));
    world.write("rappel.toml", "[variables]\ncapture = [\"NODE_ENV\", \"API_TOKEN\", \"UNSET\"]\n");
    let mut options = world.options();
    options.variables = std::sync::Arc::new(|name| match name {
        "NODE_ENV" => Some("development".into()),
        "API_TOKEN" => Some("hunter2".into()),
        "OTHER" => Some("never asked for".into()),
        _ => None,
    });
    let saved = rappel::Rappel::open(options).unwrap().save(&SaveOptions::default()).unwrap();
    let variables = &saved.checkpoint.manifest.variables;
    assert_eq!(variables.len(), 1);
    assert_eq!(variables["NODE_ENV"], "development");
    assert!(saved.notes.iter().any(|note| note.contains("API_TOKEN")), "{:?}", saved.notes);
    assert!(saved.notes.iter().all(|note| !note.contains("hunter2")));
}

#[test]
fn a_secret_that_a_command_complains_of_is_not_kept() {
    let scene = Scene::new("one");
    let words = "echo cannot connect to mongodb://root:hunter22pw@host/x >&2; exit 3";
    scene.configure(&["sh", "-c", words], &["true".into()]);
    let manifest = scene.save().checkpoint.manifest;
    let reason = &manifest.partial_reasons[0].reason;
    assert!(reason.contains("cannot connect to") && !reason.contains("hunter22pw"), "{reason}");
}

#[test]
fn a_text_that_nobody_allowed_is_not_run_by_a_recovery_either() {
    let scene = Scene::new("one");
    let state = scene.state();
    let state = state.to_str().unwrap();
    scene.configure(&["cat", state], &["cat".into(), "/nonexistent/place".into()]);
    let first = scene.save().checkpoint.manifest.id.to_string();
    scene.set("two");
    scene.world.open().restore(&reference(&first), &RestoreOptions::default()).unwrap_err();

    let canary = scene.outside.path().join("canary");
    let hostile = format!("touch '{}'; cat '{state}'", canary.display());
    let text = format!(
        "[[command]]\nname = \"state\"\ncapture = {0:?}\nrestore = {0:?}\n",
        ["sh", "-c", &hostile]
    );
    scene.world.write("rappel.toml", text);
    for options in [RecoverOptions::finish(), RecoverOptions::rollback()] {
        let error = scene.world.open().recover(&options).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    }
    assert!(!canary.exists());
    scene.configure(&["cat", state], &scene.loader());
    let recovered = scene.world.open().recover(&RecoverOptions::finish()).unwrap();
    assert_eq!((recovered.outcome, scene.get().as_str()), ("finished", "one"));
}

#[test]
fn a_script_that_a_restore_brings_back_runs_only_if_it_was_allowed() {
    let scene = Scene::new("one");
    let canary = scene.outside.path().join("canary");
    let load = format!("cat > '{}'\n", scene.state().display());
    let state = scene.state();
    let state = state.to_str().unwrap();
    let restore = ["sh".to_owned(), "load.sh".to_owned()];
    scene.world.write("load.sh", format!("touch '{}'\n{load}", canary.display()));
    scene.configure(&["cat", state], &restore);
    let first = scene.save().checkpoint.manifest.id.to_string();
    // The user thinks better of it.
    scene.world.open().revoke_trust().unwrap();
    scene.world.write("load.sh", &load);
    scene.configure(&["cat", state], &restore);
    scene.set("two");
    let before = scene.world.snapshot();
    let plan = scene.world.open().plan_restore(&reference(&first), &RestoreOptions::default());
    assert!(plan.unwrap().conflicts[0].reason.contains("brings back load.sh"));
    let restored = scene.world.open().restore(&reference(&first), &RestoreOptions::default());
    let error = restored.unwrap_err();
    assert!(error.advice().contains(&Advice::SkipDatabasesThenTrust), "{error}");
    assert!(!canary.exists());
    assert_eq!((scene.get().as_str(), scene.world.snapshot()), ("two", before));
    assert_eq!(scene.world.open().unfinished().unwrap().restores.len(), 0);

    // As the message says.
    let skip = RestoreOptions { skip: [Facet::Databases].into(), ..RestoreOptions::default() };
    scene.world.open().restore(&reference(&first), &skip).unwrap();
    scene.world.trust();
    scene.world.restore(&first);
    assert_eq!((scene.get().as_str(), canary.exists()), ("one", true));
}

/// A later dump is stored against an earlier one: any record of either may be damaged.
#[test]
fn a_dump_that_the_store_lost_is_taken_again_before_it_is_displaced() {
    let lines = |round: u64| -> String {
        let line = |n: u64| format!("{n} {:x}\n", n.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        (0..6000).map(|n| line(if n % 500 == 0 { n + round } else { n })).collect()
    };
    let build = || {
        let scene = Scene::new("tiny");
        let first = scene.save().checkpoint.manifest.id.to_string();
        let before = records(scene.world.home.path()).len();
        for round in 1..3 {
            scene.set(&lines(round));
            scene.save();
        }
        let own = records(scene.world.home.path()).split_off(before);
        let own: Vec<_> = own.into_iter().filter(|record| !record.is_of_the_log()).collect();
        (scene, first, own)
    };
    for number in 0..build().2.len() {
        let (scene, first, own) = build();
        let Some(record) = own.get(number) else { continue };
        record.damage();
        scene.world.restore(&first);
        assert_eq!(scene.get(), "tiny");
        let undone = scene.world.undo();
        assert_eq!(undone.conflicts, [], "{record:?}");
        assert!(scene.get() == lines(2), "{record:?}");
    }
}
