//! One handle of a program that lives, while others write to the same home.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test may fail loudly"
)]

mod support;

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rappel::ambient::ManualClock;
use rappel::types::agents::{NewEvent, SessionStatus};
use rappel::types::retention::Policy;
use rappel::{
    DiffOptions, Error, ErrorKind, Home, ListFilter, OpenOptions, Rappel, RestoreOptions,
    SaveOptions, SessionStart, TimelineOptions, Workspace,
};
use rappel_store::disk::{Disk, Op};
use rappel_testing::{Project, memory_dir, noise, size_of};
use support::{World, path, reference};

const HOUR_MS: i64 = 3_600_000;

/// What another process is told: where to work, when it is, and what to do.
const ROOT: &str = "RAPPEL_TEST_ROOT";
const HOME: &str = "RAPPEL_TEST_HOME";
const NOW: &str = "RAPPEL_TEST_NOW";
const ACT: &str = "RAPPEL_TEST_ACT";

fn is_shared_between_threads<T: Clone + Send + Sync>() {}

/// A project and its home in memory, so that hundreds of syncs take no time.
fn world() -> World {
    let project = Project::in_memory().file("a", "0").file("d/b", "0");
    World { home: memory_dir(), ..World::new(project) }
}

fn in_git() -> World {
    let world = world();
    world.git(&["init", "-q", "-b", "main"]);
    world.git(&["add", "."]);
    world.git(&["commit", "-qm", "one"]);
    world
}

/// Waits for no lock longer than this: a claim that a handle kept would fail the test.
fn options(world: &World) -> OpenOptions {
    OpenOptions { lock_limit: Duration::from_secs(10), ..world.options() }
}

fn message(text: String) -> SaveOptions {
    SaveOptions { message: Some(text), ..SaveOptions::default() }
}

fn ids(rappel: &Rappel) -> Vec<String> {
    let listing = rappel.list(&ListFilter { all: true, ..ListFilter::default() }).unwrap();
    listing.checkpoints.iter().map(|one| one.manifest.id.to_string()).collect()
}

/// One change to the home or the workspace, chosen by its number. `open` looks anew, as each
/// operation of a handle does.
fn act(open: &dyn Fn() -> Rappel, root: &Path, number: usize) {
    let saved = |text: String| {
        std::fs::write(root.join("a"), &text).unwrap();
        open().save(&message(text)).unwrap();
    };
    match number % 12 {
        0..=3 => saved(format!("save {number}")),
        4 => {
            std::fs::write(root.join("d/b"), noise(60_000, number as u64)).unwrap();
            saved(format!("large {number}"));
        }
        5 => {
            let (session, _) = open().start_session(SessionStart::default()).unwrap();
            let line = format!(r#"{{"kind": "note", "text": "note {number}"}}"#);
            open().record(&session, NewEvent::parse(&line).unwrap()).unwrap();
            open().end_session(&session, SessionStatus::Completed, None).unwrap();
        }
        6 => {
            let rappel = open();
            let known = ids(&rappel);
            let target = reference(&known[known.len() / 2]);
            rappel.restore(&target, &RestoreOptions::default()).unwrap();
        }
        7 => drop(open().delete(&[reference(&ids(&open())[2])], number.is_multiple_of(2)).unwrap()),
        8 => {
            let rappel = open();
            if let Ok(step) = rappel.next_undo() {
                rappel.step(&step, false, &RestoreOptions::default()).unwrap();
            }
        }
        9 => drop(open().tag(&reference("latest"), &[format!("t{number}")]).unwrap()),
        10 => {
            let rappel = open();
            let policy = Policy::Newest { last: Some(12), within: None, include_manual: true };
            rappel.prune(rappel.plan_prune(&policy, true).unwrap(), true).unwrap();
        }
        _ => drop(open().gc_deleted(false).unwrap()),
    }
}

/// Not a test of its own: what [`in_another_process`] starts.
#[test]
fn another_process() {
    let Ok(root) = std::env::var(ROOT) else { return };
    let clock = ManualClock::new(std::env::var(NOW).unwrap().parse().unwrap());
    let open = || {
        let mut options = OpenOptions::new(&root, std::env::var(HOME).unwrap());
        options.clock = Arc::new(clock.clone());
        options.lock_limit = Duration::from_secs(10);
        Rappel::open(options).unwrap()
    };
    act(&open, Path::new(&root), std::env::var(ACT).unwrap().parse().unwrap());
}

/// Another process does what `act` does under this number, and ends.
fn in_another_process(world: &World, number: usize) {
    // Asked before: an open workspace has a claim on the home.
    let now = world.open().now().to_string();
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "another_process", "--test-threads=1"])
        .env(ROOT, world.project.root())
        .env(HOME, world.home.path())
        .env(NOW, now)
        .env(ACT, number.to_string())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{number}: {said}");
}

/// An answer in full, or the error in words.
fn told(answer: Result<impl Debug, Error>) -> String {
    match answer {
        Ok(answer) => format!("{answer:?}"),
        Err(error) => format!("error: {error}"),
    }
}

/// What a workspace answers to everything that a reader may ask. `known` are ids that were there
/// at some time.
fn answers(open: &dyn Fn() -> Rappel, known: &[String], positions: &[String]) -> Vec<String> {
    let mut all = vec![
        told(open().list(&ListFilter::default())),
        told(open().list(&ListFilter { limit: Some(3), all: true, ..ListFilter::default() })),
        told(open().list(&ListFilter { deleted: true, ..ListFilter::default() })),
        told(open().timeline(&TimelineOptions::default())),
        told(open().sessions()),
        told(open().diff(&reference("latest"), None, &DiffOptions::default())),
        told(open().status().map(|status| {
            // Other programs change what is free.
            rappel::Status { free_bytes: 0, ..status }
        })),
        told(open().unfinished()),
        told(open().events_end()),
        told(open().next_undo().map(|step| (step.description, step.to, step.asks))),
    ];
    for id in known {
        let (rappel, id) = (open(), reference(id));
        let mut bytes = Vec::new();
        all.push(told(rappel.show(&id)));
        all.push(told(rappel.cat(&id, &path("a"), &mut bytes).map(|()| bytes)));
        all.push(told(rappel.compare(&id, &reference("latest"))));
    }
    for position in positions {
        all.push(told(open().events(Some(position), 1000)));
    }
    all
}

/// Children of this process that ended and that nobody waited for.
fn zombies() -> BTreeSet<String> {
    let own = std::process::id().to_string();
    let mut found = BTreeSet::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Ok(stat) = std::fs::read_to_string(entry.path().join("stat")) else { continue };
        // The name in brackets may hold anything.
        let Some((_, rest)) = stat.rsplit_once(") ") else { continue };
        let mut fields = rest.split(' ');
        if fields.next() == Some("Z") && fields.next() == Some(&own) {
            found.insert(stat);
        }
    }
    found
}

/// Files of a folder that this process has open, by their names.
fn open_files(below: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc/self/fd").unwrap().flatten() {
        let Ok(target) = std::fs::read_link(entry.path()) else { continue };
        if target.starts_with(below) {
            found.push(target.display().to_string());
        }
    }
    found
}

/// Given one handle that stays open, when it, fresh handles and other processes save, record,
/// restore, undo, delete, prune and collect, then each of its answers is a fresh handle's.
#[test]
fn a_handle_answers_as_a_fresh_one_through_hundreds_of_operations() {
    is_shared_between_threads::<Home>();
    is_shared_between_threads::<Workspace>();
    let world = in_git();
    let home = Home::new(options(&world));
    let workspace = home.here();
    let through_handle = || workspace.now().unwrap();
    let afresh = || Rappel::open(options(&world)).unwrap();
    let (mut known, mut positions) = (Vec::<String>::new(), Vec::<String>::new());
    let before = zombies();
    for number in 0..180_usize {
        world.clock.advance(HOUR_MS);
        // Each kind of change comes from each kind of writer.
        match (number / 12 + number) % 3 {
            0 if number.is_multiple_of(2) => in_another_process(&world, number),
            1 => act(&through_handle, world.project.root(), number),
            _ => act(&afresh, world.project.root(), number),
        }
        if number.is_multiple_of(9) {
            known.push(ids(&through_handle()).first().unwrap().clone());
            positions.push(home.events_end().unwrap());
        }
        let some = |all: &[String]| -> Vec<String> {
            let (oldest, newest) = (all.first(), all.iter().rev().take(2));
            oldest.into_iter().chain(newest).cloned().collect()
        };
        let (ids, positions) = (some(&known), some(&positions));
        let of_handle = answers(&through_handle, &ids, &positions);
        let of_fresh = answers(&afresh, &ids, &positions);
        for (handle, fresh) in of_handle.iter().zip(&of_fresh) {
            assert_eq!(handle, fresh, "after operation {number}");
        }
        let fresh = Home::new(options(&world));
        assert_eq!(home.workspaces().unwrap(), fresh.workspaces().unwrap());
    }
    let left: BTreeSet<_> = zombies().difference(&before).cloned().collect();
    assert_eq!(left, BTreeSet::new(), "children that nobody waited for");
    world.verify();
}

/// Given a handle that has read a large file, when another process deletes it and collects, then
/// its space is free, although the handle is still there.
#[test]
fn gc_beside_an_idle_handle_frees_space() {
    let world = world();
    world.write("d/b", noise(3_000_000, 1));
    world.save("large");
    world.write("d/b", "small");
    world.save("small");
    let home = Home::new(options(&world));
    let workspace = home.here();
    let mut bytes = Vec::new();
    workspace.now().unwrap().cat(&reference("1"), &path("d/b"), &mut bytes).unwrap();
    assert_eq!(bytes.len(), 3_000_000);
    let watcher = home.watcher();
    let before = size_of(world.home.path());

    world.open().delete(&[reference("1")], true).unwrap();
    in_another_process(&world, 11);
    let after = size_of(world.home.path());
    assert!(after + 2_500_000 < before, "{before} to {after}");
    let open = open_files(world.home.path());
    let held: Vec<_> = open.iter().filter(|name| name.ends_with("(deleted)")).collect();
    assert!(held.is_empty(), "files that only the handle holds: {held:?}");
    drop(watcher);

    // The handle knows at once, and goes on.
    let rappel = workspace.now().unwrap();
    let error = rappel.cat(&reference("1"), &path("d/b"), &mut bytes).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    assert_eq!(ids(&rappel).len(), 1);
}

/// Two threads save and restore through one handle while a third reads. Each checkpoint holds the
/// files as they were at one moment, and none is lost.
#[test]
fn threads_save_read_and_restore_through_one_handle() {
    let world = in_git();
    let pair = |text: &str| {
        world.write("a", text);
        world.write("d/b", text);
        world.save(text)
    };
    let (one, two) = (pair("1"), pair("2"));
    let workspace = Home::new(options(&world)).here();
    let saved = Mutex::new(Vec::new());
    let working = AtomicU64::new(2);
    let before = zombies();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0..25 {
                let made = workspace.now().unwrap().save(&message(format!("save {number}")));
                saved.lock().unwrap().push(made.unwrap().checkpoint.manifest.id.to_string());
            }
            working.fetch_sub(1, Ordering::SeqCst);
        });
        scope.spawn(|| {
            for number in 0..12 {
                let target = if number % 2 == 0 { &one } else { &two };
                let rappel = workspace.now().unwrap();
                rappel.restore(&reference(target), &RestoreOptions::default()).unwrap();
            }
            working.fetch_sub(1, Ordering::SeqCst);
        });
        scope.spawn(|| {
            while working.load(Ordering::SeqCst) > 0 {
                let rappel = workspace.now().unwrap();
                rappel.status().unwrap();
                for id in ids(&rappel).iter().take(3) {
                    rappel.show(&reference(id)).unwrap();
                }
            }
        });
    });
    let rappel = workspace.now().unwrap();
    let known = ids(&rappel);
    for id in saved.lock().unwrap().iter() {
        assert!(known.contains(id), "{id} is lost");
    }
    for id in &known {
        let read = |name: &str| {
            let mut bytes = Vec::new();
            rappel.cat(&reference(id), &path(name), &mut bytes).unwrap();
            bytes
        };
        assert_eq!(read("a"), read("d/b"), "{id} holds half of a restore");
    }
    assert_eq!(world.read("a"), "2");
    drop(rappel);
    let left: BTreeSet<_> = zombies().difference(&before).cloned().collect();
    assert_eq!(left, BTreeSet::new(), "children that nobody waited for");
    world.verify();
}

/// A disk that stops before one of the steps in a folder, until it is told to go on.
#[derive(Debug)]
struct Stopping {
    folder: PathBuf,
    armed: AtomicBool,
    left: AtomicU64,
    stopped: Sender<()>,
    goes_on: Mutex<Receiver<()>>,
}

impl Disk for Stopping {
    fn gate(&self, op: &Op<'_>) -> io::Result<usize> {
        let is_meant = match op {
            Op::Rename { from: path, to: other }
            | Op::Link { from: path, to: other }
            | Op::Exchange { a: path, b: other } => {
                path.starts_with(&self.folder) || other.starts_with(&self.folder)
            }
            Op::Write { path, .. }
            | Op::Truncate { path, .. }
            | Op::Create(path)
            | Op::Sync(path)
            | Op::SyncDir(path)
            | Op::SyncAll(path)
            | Op::Symlink(path)
            | Op::CreateDir(path)
            | Op::RemoveDir(path)
            | Op::Unlink(path)
            | Op::SetMode(path) => path.starts_with(&self.folder),
        };
        if !is_meant {
            return Ok(usize::MAX);
        }
        if self.armed.load(Ordering::SeqCst) && self.left.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.armed.store(false, Ordering::SeqCst);
            self.stopped.send(()).unwrap();
            // A reader that failed says nothing any more.
            let _ = self.goes_on.lock().unwrap().recv();
        }
        Ok(usize::MAX)
    }
}

/// Given a restore that stands still before any one of its changes to the workspace, all that only
/// reads is answered.
#[test]
fn reads_go_on_during_a_restore() {
    let world = world();
    let first = world.save("first");
    world.write("a", "2");
    world.write("new", "2");
    world.save("second");
    let mut stops = 0;
    for step in 1.. {
        let (stopped, is_stopped) = channel();
        let (go_on, goes_on) = channel();
        let disk = Arc::new(Stopping {
            folder: world.project.root().canonicalize().unwrap(),
            armed: AtomicBool::new(false),
            left: AtomicU64::new(step),
            stopped,
            goes_on: Mutex::new(goes_on),
        });
        let home = Home::new(OpenOptions { disk: disk.clone(), ..options(&world) });
        let workspace = home.here();
        let start = home.events_end().unwrap();
        let target = reference(if step % 2 == 1 { &first } else { "2" });
        world.clock.advance(61_000);
        let is_over = std::thread::scope(|scope| {
            // If a read fails, the restore goes on when this is dropped.
            let go_on = go_on;
            let restoring = scope.spawn(|| {
                disk.armed.store(true, Ordering::SeqCst);
                let done = workspace.now().unwrap().restore(&target, &RestoreOptions::default());
                // Nobody waits for a step that never comes.
                let was_stopped = !disk.armed.swap(false, Ordering::SeqCst);
                if !was_stopped {
                    disk.stopped.send(()).unwrap();
                }
                (was_stopped, done.map(drop))
            });
            is_stopped.recv().unwrap();
            for rappel in [workspace.now().unwrap(), Rappel::open(options(&world)).unwrap()] {
                assert!(rappel.list(&ListFilter::default()).unwrap().total >= 2);
                let mut bytes = Vec::new();
                rappel.cat(&reference(&first), &path("a"), &mut bytes).unwrap();
                assert_eq!(bytes, b"0", "step {step}");
                rappel.show(&reference("2")).unwrap();
                rappel.status().unwrap();
                rappel.unfinished().unwrap();
                rappel.compare(&reference(&first), &reference("2")).unwrap();
                rappel.diff(&reference("2"), None, &DiffOptions::default()).unwrap();
            }
            home.events(Some(&start), 100).unwrap();
            let _ = go_on.send(());
            let (was_stopped, done) = restoring.join().unwrap();
            done.unwrap();
            !was_stopped
        });
        if is_over {
            break;
        }
        stops += 1;
    }
    assert!(stops > 5, "the restore was stopped only {stops} times");
    world.verify();
}

#[test]
fn servers_that_start_at_once_have_one_token() {
    let world = World::new(Project::new().file("a", "1"));
    for _ in 0..20 {
        let tokens: BTreeSet<String> = std::thread::scope(|scope| {
            let ask = || scope.spawn(|| Home::new(world.options()).token().unwrap());
            let asked: Vec<_> = (0..6).map(|_| ask()).collect();
            asked.into_iter().map(|one| one.join().unwrap()).collect()
        });
        assert_eq!(tokens.len(), 1, "{tokens:?}");
        std::fs::remove_file(world.home.path().join("token")).unwrap();
    }
    let names = std::fs::read_dir(world.home.path()).unwrap().map(|name| name.unwrap().file_name());
    let left: Vec<_> = names.filter(|name| name.to_string_lossy().starts_with("token")).collect();
    assert!(left.is_empty(), "{left:?}");
}
