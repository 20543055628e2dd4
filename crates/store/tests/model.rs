//! Any sequence of saves, deletes, collections and restarts equals a simple model beside it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may")]

mod common;

use std::collections::BTreeMap;
use std::time::Duration;

use common::{DAY, Files, World, delete, ids, load, noise, save};
use proptest::prelude::*;
use rappel_store::gc::GcOptions;
use rappel_store::verify::Scope;
use rappel_store::{Error, Store};
use rappel_types::CheckpointId;

#[derive(Debug, Clone)]
enum Step {
    /// Changes some files of the last state and saves.
    Save(Vec<(u8, Edit)>),
    /// Deletes one of the checkpoints.
    Delete { which: u8, now: bool },
    /// Brings one of the deleted back.
    Undelete { which: u8 },
    /// Collects.
    Gc { now: bool, grace_hours: u64 },
    /// Some hours pass.
    Wait { hours: u8 },
    /// The process ends, another begins.
    Reopen { without_index: bool },
}

#[derive(Debug, Clone)]
enum Edit {
    New { seed: u8, length: u16 },
    Touch { at: u16 },
    Append { seed: u8 },
    Remove,
}

fn edit() -> impl Strategy<Value = Edit> {
    prop_oneof![
        (any::<u8>(), 0u16..9_000).prop_map(|(seed, length)| Edit::New { seed, length }),
        any::<u16>().prop_map(|at| Edit::Touch { at }),
        any::<u8>().prop_map(|seed| Edit::Append { seed }),
        Just(Edit::Remove),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => prop::collection::vec((0u8..6, edit()), 0..4).prop_map(Step::Save),
        3 => (any::<u8>(), any::<bool>()).prop_map(|(which, now)| Step::Delete { which, now }),
        1 => any::<u8>().prop_map(|which| Step::Undelete { which }),
        2 => (any::<bool>(), prop_oneof![Just(0u64), Just(24)])
            .prop_map(|(now, grace_hours)| Step::Gc { now, grace_hours }),
        1 => (1u8..40).prop_map(|hours| Step::Wait { hours }),
        2 => any::<bool>().prop_map(|without_index| Step::Reopen { without_index }),
    ]
}

fn change(state: &mut Files, edits: &[(u8, Edit)]) {
    for (file, edit) in edits {
        let path = format!("folder{}/file{file}", file % 2);
        match edit {
            Edit::New { seed, length } => {
                state.insert(path, noise(u64::from(*seed), usize::from(*length)));
            }
            Edit::Touch { at } => {
                if let Some(bytes) = state.get_mut(&path).filter(|bytes| !bytes.is_empty()) {
                    let at = usize::from(*at) % bytes.len();
                    bytes[at] ^= 0xff;
                }
            }
            Edit::Append { seed } => {
                state.entry(path).or_default().extend(noise(u64::from(*seed), 90));
            }
            Edit::Remove => drop(state.remove(&path)),
        }
    }
}

/// A deleted checkpoint that gc must not have taken yet.
struct Deleted {
    files: Files,
    /// Until when it can surely be brought back, in hours.
    safe_until: u64,
}

fn run(steps: Vec<Step>) {
    let world = World::new().small();
    let mut store = world.open();
    let mut live: BTreeMap<CheckpointId, Files> = BTreeMap::new();
    let mut deleted: BTreeMap<CheckpointId, Deleted> = BTreeMap::new();
    let mut state = Files::new();
    let mut made = 0u64;
    let mut hours = 0u64;
    for step in steps {
        let told = format!("{step:?}");
        match step {
            Step::Save(edits) => {
                change(&mut state, &edits);
                let id = save(&store, &state);
                made += 1;
                assert_eq!(id.as_str(), format!("chk_{made}"), "numbers are never given again");
                live.insert(id, state.clone());
            }
            Step::Delete { which, now } => {
                let Some(id) = live.keys().nth(usize::from(which) % live.len().max(1)).cloned()
                else {
                    continue;
                };
                delete(&store, &id, now);
                let files = live.remove(&id).unwrap();
                let safe_until = if now { 0 } else { hours + 24 };
                deleted.insert(id, Deleted { files, safe_until });
            }
            Step::Undelete { which } => {
                let Some(id) =
                    deleted.keys().nth(usize::from(which) % deleted.len().max(1)).cloned()
                else {
                    continue;
                };
                let dead = deleted.remove(&id).unwrap();
                match store.undelete(&id) {
                    Ok(true) => drop(live.insert(id, dead.files)),
                    Ok(false) | Err(Error::Collected(_)) => {
                        assert!(dead.safe_until <= hours, "{id} could be brought back until then");
                    }
                    Err(error) => panic!("{error}"),
                }
            }
            Step::Gc { now, grace_hours } => {
                let grace = Duration::from_secs(grace_hours * 3600);
                store.gc(&GcOptions { now, grace, ..GcOptions::default() }).unwrap();
                if grace_hours == 0 {
                    for dead in deleted.values_mut() {
                        dead.safe_until = 0;
                    }
                }
            }
            Step::Wait { hours: passed } => {
                world.clock.advance(i64::from(passed) * DAY / 24);
                hours += u64::from(passed);
            }
            Step::Reopen { without_index } => {
                drop(store);
                if without_index {
                    world.forget_index();
                }
                store = world.open();
            }
        }
        compare(&store, &live, &told);
    }
    let report = store.verify(&Scope::All, None).unwrap();
    assert!(report.is_clean(), "{report:?}");
    drop(store);
    world.forget_index();
    compare(&world.open(), &live, "at the end");
}

fn compare(store: &Store, live: &BTreeMap<CheckpointId, Files>, told: &str) {
    let mut listed = ids(store);
    listed.sort();
    assert_eq!(listed, live.keys().cloned().collect::<Vec<_>>(), "{told}");
    for (id, files) in live {
        assert_eq!(load(store, id).unwrap(), *files, "{told}: {id}");
    }
    assert!(store.damage().is_empty(), "{told}: {:?}", store.damage());
}

/// Few cases in an ordinary run; `PROPTEST_CASES` asks for more.
fn config() -> ProptestConfig {
    let mut config = ProptestConfig { max_shrink_iters: 300, ..ProptestConfig::default() };
    if std::env::var_os("PROPTEST_CASES").is_none() {
        config.cases = 48;
    }
    config
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn the_store_equals_its_model(steps in prop::collection::vec(step(), 1..40)) {
        run(steps);
    }
}
