//! What happened in a home: the same for every reader, in the order of the commits.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may")]

mod common;

use std::time::Duration;

use common::{World, delete, document, files, gc_now, noise, save};
use proptest::prelude::*;
use rappel_store::Store;
use rappel_store::events::{Event, Page, Position};
use rappel_store::index::Happened;
use rappel_store::record::Kind;
use rappel_store::watcher::Watcher;
use rappel_types::Timestamp;
use rappel_types::agents::Body;

/// All events, read in pages of so many.
fn read(store: &Store, limit: usize) -> Vec<Event> {
    let (mut since, mut found) = (None, Vec::new());
    loop {
        let Page { events, next, reset } = store.events(since, limit).unwrap();
        assert!(!reset && events.len() <= limit);
        if events.is_empty() {
            assert_eq!(next, store.events_end().unwrap());
            return found;
        }
        // A position survives being kept as text.
        since = Some(next.to_string().parse().unwrap());
        found.extend(events);
    }
}

/// What is the same in every index.
fn told(events: &[Event]) -> Vec<(u64, Happened)> {
    events.iter().map(|event| (event.commit, event.happened.clone())).collect()
}

fn think(store: &Store, session: &str, number: u64) {
    let body = Body::Unknown { version: 1, kind: "guess".into(), data: "{}".into() };
    let at = Timestamp::from_millis(1_900_000_000_000);
    let event = rappel_types::agents::Event { number, fork: 0, at, id: None, body };
    document(store, Kind::Event, session, &event.to_json());
}

#[derive(Debug, Clone)]
enum Step {
    Save(u64),
    Label(usize),
    Think(u8),
    Delete(usize),
    Undelete,
    Gc,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0..50_u64).prop_map(Step::Save),
        2 => (0..9_usize).prop_map(Step::Label),
        2 => (0..3_u8).prop_map(Step::Think),
        2 => (0..9_usize).prop_map(Step::Delete),
        1 => Just(Step::Undelete),
        1 => Just(Step::Gc),
    ];
    proptest::collection::vec(step, 1..25)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn pages_of_any_size_and_an_index_built_anew_tell_the_same(steps in steps()) {
        let world = World::new().small();
        let store = world.open();
        let mut numbers = [0; 3];
        let (mut at, mut seen, mut was_reset) = (None, Vec::new(), false);
        for step in steps {
            let ids = common::ids(&store);
            let pick = |at: usize| ids.get(at % ids.len().max(1)).cloned();
            match step {
                Step::Save(seed) => drop(save(&store, &files(&[("a", &noise(seed, 2000))]))),
                Step::Label(at) => {
                    if let Some(id) = pick(at) {
                        document(&store, Kind::Label, id.as_str(), r#"{"version":1,"add":["x"]}"#);
                    }
                }
                Step::Think(session) => {
                    let number = &mut numbers[usize::from(session)];
                    *number += 1;
                    think(&store, &format!("s{session}"), *number);
                }
                Step::Delete(at) => {
                    if let Some(id) = pick(at) {
                        delete(&store, &id, false);
                    }
                }
                Step::Undelete => {
                    if let Some(row) = store.look_up(|index| index.deleted()).unwrap().pop() {
                        let _ = store.undelete(&row.id).unwrap();
                    }
                }
                Step::Gc => drop(gc_now(&store)),
            }
            // A reader that reads after every step misses nothing, whatever gc does.
            let page = store.events(at, 1000).unwrap();
            was_reset |= page.reset;
            at = Some(page.next);
            seen.extend(told(&page.events));
        }
        prop_assert!(!was_reset);
        let whole = read(&store, 1000);
        for limit in [1, 2, 3] {
            prop_assert_eq!(told(&read(&store, limit)), told(&whole));
        }
        // What is still told was told then, in the same order.
        let mut rest = seen.iter();
        for (commit, happened) in told(&whole) {
            let id = |happened: &Happened| match happened {
                Happened::Made(row) => Happened::Made(rappel_store::index::MadeRow { again: false, ..row.clone() }),
                other => other.clone(),
            };
            prop_assert!(rest.any(|it| it.0 == commit && id(&it.1) == id(&happened)), "{commit} {happened:?}");
        }
        drop(store);
        world.forget_index();
        prop_assert_eq!(told(&read(&world.open(), 7)), told(&whole));
    }
}

#[test]
fn a_reader_that_gc_overtook_is_told_to_look_at_everything_again() {
    let world = World::new().small();
    let store = world.open();
    save(&store, &files(&[("a", &noise(1, 3000))]));
    let behind = store.events_end().unwrap();
    save(&store, &files(&[("a", &noise(2, 3000))]));
    let second = common::ids(&store).pop().unwrap();
    save(&store, &files(&[("a", &noise(3, 3000))]));
    delete(&store, &second, true);
    let abreast = store.events_end().unwrap();
    assert!(gc_now(&store).packs_removed > 0);
    assert!(store.events(Some(behind), 9).unwrap().reset, "the second save is told nowhere");
    let page = store.events(Some(abreast), 9).unwrap();
    assert!(!page.reset && page.events.is_empty());
    // The same by another process, and without the index.
    world.twice(|fresh| {
        assert!(fresh.events(Some(behind), 9).unwrap().reset);
        assert!(!fresh.events(Some(fresh.events_end().unwrap()), 9).unwrap().reset);
    });
}

#[test]
fn each_commit_tells_what_it_brought() {
    let world = World::new();
    let store = world.open();
    let id = save(&store, &files(&[("a", b"1")]));
    think(&store, "s", 1);
    document(&store, Kind::Label, id.as_str(), r#"{"version":1,"pinned":true}"#);
    delete(&store, &id, false);
    assert!(store.undelete(&id).unwrap());
    let kinds: Vec<_> = read(&store, 2)
        .into_iter()
        .map(|event| match event.happened {
            Happened::Made(row) => format!("made {} again: {}", row.id, row.again),
            Happened::Journal(row) => format!("{} {} {}", row.session, row.number, row.kind),
            Happened::Document(kind, row) => format!("{kind:?} {}", row.key),
        })
        .collect();
    assert_eq!(
        kinds,
        [
            "made chk_1 again: false",
            "s 1 guess",
            "Label chk_1",
            "Tombstone chk_1",
            "made chk_1 again: true"
        ]
    );
}

#[test]
fn a_position_of_another_home_is_noticed_and_nonsense_is_refused() {
    let world = World::new();
    let store = world.open();
    save(&store, &files(&[("a", b"1")]));
    let elsewhere = World::new();
    save(&elsewhere.open(), &files(&[("a", b"1")]));
    let foreign = elsewhere.open().events_end().unwrap().to_string();
    let own = store.events_end().unwrap().to_string();
    let (home, _) = own.split_once('.').unwrap();
    // The other home is as long as this one; the last one is the home itself, and longer.
    for text in [foreign.clone(), foreign.replace(".1.", ".0."), format!("{home}.99.0")] {
        let page = store.events(Some(text.parse().unwrap()), 9).unwrap();
        assert!(page.reset && page.events.is_empty(), "{text}");
        // A reader that goes on from there is up to date, and is not told so again and again.
        assert!(!store.events(Some(page.next), 9).unwrap().reset);
    }
    assert!(!store.events(Some(own.parse().unwrap()), 9).unwrap().reset);
    for text in [
        "",
        "1",
        "1.0",
        "h1",
        "h1.",
        "h1.1.x",
        "h1.-1.0",
        "h1.1.0.0.0",
        "h1.+1.0",
        "h+1.1.0",
        "h1.99999999999999999999.0",
    ] {
        assert!(text.parse::<Position>().is_err(), "{text:?}");
    }
}

#[test]
fn a_watcher_wakes_when_another_writes_and_only_then() {
    let world = World::new();
    let store = world.open();
    save(&store, &files(&[("a", b"1")]));
    let mut watcher = Watcher::new(world.home.path());
    let at = store.events_end().unwrap();
    assert!(!watcher.wait(Duration::from_millis(1)).unwrap());
    // What is written between the look and the wait is heard of.
    save(&world.open(), &files(&[("a", b"2")]));
    assert!(watcher.wait(Duration::from_secs(60)).unwrap());
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let mut found = store.events(Some(at), 9).unwrap();
            while found.events.len() < 2 {
                assert!(watcher.wait(Duration::from_secs(60)).unwrap());
                store.refresh().unwrap();
                found = store.events(Some(at), 9).unwrap();
            }
            found.events.len()
        });
        save(&world.open(), &files(&[("a", b"3")]));
        assert_eq!(waiting.join().unwrap(), 2);
    });
}

#[test]
fn a_watcher_hears_of_a_home_that_is_made_later_or_anew() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home");
    let mut watcher = Watcher::new(&home);
    let world = World::new();
    for _ in 0..2 {
        let store = Store::open(&home, world.options()).unwrap();
        save(&store, &files(&[("a", b"1")]));
        assert!(watcher.wait(Duration::from_secs(60)).unwrap());
        drop(store);
        std::fs::remove_dir_all(&home).unwrap();
        assert!(watcher.wait(Duration::from_secs(60)).unwrap());
    }
}
