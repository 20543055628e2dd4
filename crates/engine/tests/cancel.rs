//! Long work that is cancelled at any step leaves nothing visible, and the next one works.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail loudly")]

mod support;

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use rappel::types::Trigger;
use rappel::types::retention::Policy;
use rappel::{
    Cancel, CancelAnswer, Error, ErrorKind, ExportOptions, ImportOptions, ListFilter, OpenOptions,
    Rappel, RestoreOptions, SaveOptions,
};
use rappel_store::disk::{Disk, Op};
use rappel_testing::Project;
use rappel_testing::project::Snapshot;
use support::{World, reference};

/// A disk whose user cancels at one of its steps, counted from 1.
#[derive(Debug)]
struct CancelAt {
    step: u64,
    count: AtomicU64,
    cancel: Cancel,
    answer: Mutex<Option<CancelAnswer>>,
}

impl Disk for CancelAt {
    fn gate(&self, _: &Op<'_>) -> io::Result<usize> {
        if self.count.fetch_add(1, Ordering::SeqCst) + 1 == self.step {
            *self.answer.lock().unwrap() = Some(self.cancel.request());
        }
        Ok(usize::MAX)
    }
}

/// What anybody can see of a workspace: its files, its checkpoints, what is unfinished.
#[derive(Debug, PartialEq)]
struct Visible {
    files: Snapshot,
    checkpoints: BTreeSet<String>,
    lineages: usize,
    unfinished: usize,
}

/// What can be seen. The safety checkpoint that a restore made before it was cancelled stays.
fn visible(world: &World) -> Visible {
    let rappel = world.open();
    let listed = rappel.list(&ListFilter::default()).unwrap().checkpoints;
    let manifests = listed.iter().map(|one| &one.manifest);
    Visible {
        files: world.snapshot(),
        checkpoints: manifests
            .filter(|one| one.trigger != Trigger::PreRestore)
            .map(|one| one.id.to_string())
            .collect(),
        lineages: rappel.lineages().unwrap().len(),
        unfinished: rappel.unfinished().unwrap().restores.len(),
    }
}

/// Names of temporary files, wherever they are left below a folder.
fn left_over(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.file_type().unwrap().is_dir() {
            found.extend(left_over(&entry.path()));
        } else if name.contains(".tmp") || name.starts_with(".rappel-") {
            found.push(entry.path().display().to_string());
        }
    }
    found
}

/// Cancels `work` before it begins, then at every step of its disk, each time in a new world.
fn at_every_step(
    make: impl Fn() -> World,
    work: impl Fn(&World, &Rappel) -> Result<(), Error>,
    after: impl Fn(&World, &Visible),
) {
    let (mut stopped, mut late) = (0, 0);
    for step in 0.. {
        let world = make();
        let before = visible(&world);
        let mut options: OpenOptions = world.options();
        let disk = Arc::new(CancelAt {
            step,
            count: AtomicU64::new(0),
            cancel: options.operation.cancel.clone(),
            answer: Mutex::default(),
        });
        options.disk = disk.clone();
        if step == 0 {
            *disk.answer.lock().unwrap() = Some(disk.cancel.request());
        }
        let done = Rappel::open(options).and_then(|one| work(&world, &one));
        let answer = *disk.answer.lock().unwrap();
        match (answer, done) {
            (Some(CancelAnswer::Cancelling), Err(error)) => {
                assert_eq!(error.kind(), ErrorKind::Cancelled, "step {step}: {error}");
                assert_eq!(visible(&world), before, "step {step}");
                let left = left_over(world.project.root());
                assert!(left.is_empty(), "step {step}: {left:?}");
                let left = left_over(world.home.path());
                assert!(left.is_empty(), "step {step}: {left:?}");
                stopped += 1;
            }
            (Some(CancelAnswer::TooLate), Ok(())) => late += 1,
            // The work had nothing more to ask.
            (Some(CancelAnswer::Cancelling) | None, Ok(())) => {}
            (answer, done) => panic!("step {step}: {answer:?}, but {done:?}"),
        }
        let is_over = answer.is_none();
        work(&world, &world.open()).unwrap();
        after(&world, &before);
        world.verify();
        if is_over {
            break;
        }
    }
    println!("{stopped} stopped, {late} too late");
    assert!(stopped > 0);
}

fn world() -> World {
    World::new(Project::new().file("a", "1").file("d/b", "1").symlink("l", "a"))
}

fn changed() -> World {
    let world = world();
    world.save("first");
    world.write("a", "2");
    world.write("new", "2");
    world.remove("d");
    world
}

#[test]
fn a_save_that_is_cancelled_at_any_step_leaves_no_checkpoint() {
    let message = |text: &str| SaveOptions { message: Some(text.into()), ..SaveOptions::default() };
    at_every_step(
        changed,
        |_, rappel| rappel.save(&message("second")).map(drop),
        |world, before| {
            assert!(visible(world).checkpoints.len() > before.checkpoints.len());
        },
    );
}

#[test]
fn a_restore_that_is_cancelled_at_any_step_is_rolled_back() {
    at_every_step(
        changed,
        |_, rappel| rappel.restore(&reference("1"), &RestoreOptions::default()).map(drop),
        |world, _| {
            assert_eq!((world.read("a"), world.read("d/b")), ("1".into(), "1".into()));
            assert!(!world.exists("new"));
        },
    );
}

#[test]
fn gc_verify_and_export_that_are_cancelled_at_any_step_change_nothing() {
    let make = || {
        let world = changed();
        world.save("second");
        world.open().delete(&[reference("1")], true).unwrap();
        world
    };
    at_every_step(make, |_, rappel| rappel.gc_deleted(false).map(drop), |_, _| {});
    let place = |world: &World| world.project.outside().join("out.rappel");
    at_every_step(
        changed,
        |world, rappel| {
            let place = Some(place(world));
            let options = ExportOptions { place, ..ExportOptions::new(reference("1")) };
            rappel.export(&options).map(drop)
        },
        |world, _| assert!(place(world).exists()),
    );
}

#[test]
fn a_prune_or_an_import_that_is_cancelled_at_any_step_takes_and_brings_nothing() {
    let several = || {
        let world = changed();
        world.save("second");
        world.write("a", "3");
        world.save("third");
        world.clock.advance(400 * 24 * 3_600_000);
        world
    };
    let policy = Policy::Newest { last: Some(1), within: None, include_manual: true };
    at_every_step(
        several,
        |_, rappel| {
            let plan = rappel.plan_prune(&policy, false)?;
            rappel.prune(plan, false).map(drop)
        },
        |_, _| {},
    );
    let exported = changed();
    let bundle = exported.project.outside().join("one.rappel");
    let options =
        ExportOptions { place: Some(bundle.clone()), ..ExportOptions::new(reference("1")) };
    exported.open().export(&options).unwrap();
    at_every_step(
        changed,
        |_, rappel| {
            let options = ImportOptions { path: bundle.clone(), ..ImportOptions::default() };
            rappel.import(&options).map(drop)
        },
        |world, _| assert_eq!(visible(world).lineages, 1),
    );
}

#[test]
fn verify_and_repair_stop_when_they_are_cancelled() {
    let world = changed();
    for work in [
        (|rappel: &Rappel| rappel.verify(None).map(drop)) as fn(&Rappel) -> Result<(), Error>,
        |rappel| rappel.repair().map(drop),
    ] {
        let options = world.options();
        let cancel = options.operation.cancel.clone();
        let rappel = Rappel::open(options).unwrap();
        assert_eq!(cancel.request(), CancelAnswer::Cancelling);
        assert_eq!(work(&rappel).unwrap_err().kind(), ErrorKind::Cancelled);
    }
    world.verify();
}
