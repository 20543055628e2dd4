//! What was not synced may be gone, and what could not be synced is: nobody builds on either.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may")]

mod common;

use std::io;
use std::os::unix::fs::FileExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use common::{Files, World, check_clean, check_saved, files, ids, load, noise, save, try_save};
use rappel_store::disk::{Disk, Op};
use rappel_testing::{FaultDisk, Loss};
use rappel_types::CheckpointId;

#[test]
fn what_another_process_has_seen_a_power_loss_does_not_take() {
    for loss in Loss::all() {
        let disk = FaultDisk::new();
        let world = World::on(disk.clone());
        let first = files(&[("a", &noise(1, 500))]);
        save(&world.open(), &first);
        let second = files(&[("a", &noise(2, 500))]);
        // Killed between writing the run and syncing it.
        disk.before(|op| matches!(op, Op::Sync(_)), || panic!("killed"));
        let killed = catch_unwind(AssertUnwindSafe(|| try_save(&world.open(), &second)));
        assert!(killed.is_err());
        // Another process finds the run whole, and its index knows it from now on.
        let seen = ids(&world.open());
        assert_eq!(seen.len(), 2);
        disk.lose(loss);
        let store = world.open();
        assert_eq!(ids(&store), seen, "{loss:?}");
        assert_eq!(load(&store, &seen[1]).unwrap(), second, "{loss:?}");
        check_clean(&store);
    }
}

/// A disk on which one sync fails as Linux has it: what was to be synced is never written, although
/// everybody goes on reading it from memory, and the next sync says that all is well.
#[derive(Debug, Default)]
struct Forgetful {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    armed: bool,
    /// No new files either.
    refuses: bool,
    unsynced: Vec<(PathBuf, u64, u64)>,
    forgotten: Vec<(PathBuf, u64, u64)>,
}

impl Disk for Forgetful {
    fn gate(&self, op: &Op<'_>) -> io::Result<usize> {
        let mut state = self.state.lock().unwrap();
        match *op {
            Op::Write { path, offset, bytes } => {
                state.unsynced.push((path.to_owned(), offset, bytes.len() as u64));
            }
            Op::Sync(path) => {
                let writes = std::mem::take(&mut state.unsynced);
                let (own, others) = writes.into_iter().partition(|write| write.0 == path);
                state.unsynced = others;
                if std::mem::take(&mut state.armed) {
                    state.forgotten.extend::<Vec<_>>(own);
                    return Err(io::Error::from_raw_os_error(5));
                }
            }
            Op::Create(_) if state.refuses => return Err(io::Error::from_raw_os_error(5)),
            _ => {}
        }
        Ok(usize::MAX)
    }
}

impl Forgetful {
    /// The machine restarts, and what was only in memory is zeroes.
    fn restart(&self) {
        for (path, offset, length) in &self.state.lock().unwrap().forgotten {
            let file = std::fs::File::options().write(true).open(path).unwrap();
            file.write_all_at(&vec![0; *length as usize], *offset).unwrap();
        }
    }
}

/// These checkpoints are there and no others, whole.
fn check_both(world: &World, saved: &[(CheckpointId, Files)]) {
    world.twice(|store| {
        assert_eq!(ids(store), saved.iter().map(|(id, _)| id.clone()).collect::<Vec<_>>());
        check_saved(store, saved);
        check_clean(store);
    });
}

#[test]
fn nobody_appends_behind_what_could_not_be_synced() {
    let disk = Arc::new(Forgetful::default());
    let world = World::on(disk.clone());
    let first = files(&[("a", &noise(1, 500))]);
    let one = save(&world.open(), &first);
    disk.state.lock().unwrap().armed = true;
    let failed = try_save(&world.open(), &files(&[("a", &noise(2, 500))]));
    assert!(failed.is_err(), "{failed:?}");
    let third = files(&[("a", &noise(3, 500))]);
    let store = world.open();
    assert_eq!(ids(&store), std::slice::from_ref(&one), "what was not acknowledged does not count");
    let three = save(&store, &third);
    drop(store);
    disk.restart();
    check_both(&world, &[(one, first), (three, third)]);
}

#[test]
fn a_pack_that_could_not_be_replaced_at_once_is_not_appended_to_either() {
    let disk = Arc::new(Forgetful::default());
    let world = World::on(disk.clone());
    let first = files(&[("a", &noise(1, 500))]);
    let one = save(&world.open(), &first);
    {
        let mut state = disk.state.lock().unwrap();
        (state.armed, state.refuses) = (true, true);
    }
    let third = files(&[("a", &noise(3, 500))]);
    for _ in 0..2 {
        let failed = try_save(&world.open(), &third);
        assert!(failed.is_err(), "the home is read-only until a new pack can be begun");
        assert_eq!(ids(&world.open()), std::slice::from_ref(&one));
        world.forget_index();
    }
    disk.state.lock().unwrap().refuses = false;
    let three = save(&world.open(), &third);
    disk.restart();
    check_both(&world, &[(one, first), (three, third)]);
}
