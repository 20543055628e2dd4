//! One open workspace, used by many threads at once.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail loudly")]
#![allow(clippy::disallowed_methods, reason = "tests hold no database")]

mod support;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier, Weak};

use rappel::types::Facet;
use rappel::types::agents::NewEvent;
use rappel::{Connected, ConnectedError, ListFilter, Rappel, SaveOptions, SessionStart};
use rappel_testing::Project;
use support::World;

fn is_shared_between_threads<T: Send + Sync>() {}

fn named(message: String) -> SaveOptions {
    SaveOptions { message: Some(message), ..SaveOptions::default() }
}

/// Given a folder that was never saved, when eight threads save through one handle, all their
/// checkpoints are in one history.
#[test]
fn threads_that_save_first_begin_one_history() {
    is_shared_between_threads::<Rappel>();
    let world = World::new(Project::new());
    world.write("plan.md", "1. measure");
    let rappel = Arc::new(world.open());
    let start = Arc::new(Barrier::new(8));
    let threads: Vec<_> = (0..8)
        .map(|number| {
            let (rappel, start) = (rappel.clone(), start.clone());
            std::thread::spawn(move || {
                start.wait();
                rappel.save(&named(format!("thread {number}"))).unwrap().checkpoint.manifest
            })
        })
        .collect();
    let made: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    let workspaces: BTreeSet<_> = made.iter().map(|one| one.workspace.id.to_string()).collect();
    assert_eq!(workspaces.len(), 1, "{workspaces:?}");
    let listed = rappel.list(&ListFilter { all: true, ..ListFilter::default() }).unwrap();
    for one in &made {
        assert!(listed.checkpoints.iter().any(|listed| listed.manifest.id == one.id));
    }
}

/// Events that threads record into one session through one handle all arrive, each once.
#[test]
fn threads_that_record_lose_no_event() {
    let world = World::new(Project::new());
    let rappel = world.open();
    let (session, _) = rappel.start_session(SessionStart::default()).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (rappel, session) = (&rappel, &session);
            scope.spawn(move || {
                for number in 0..10 {
                    let line = format!(r#"{{"kind": "note", "text": "note {thread}-{number}"}}"#);
                    rappel.record(session, NewEvent::parse(&line).unwrap()).unwrap();
                }
            });
        }
    });
    let state = rappel.query_at(&rappel::TemporalQuery {
        session: Some(session),
        now: true,
        ..Default::default()
    });
    let notes = state.unwrap().state.notes.len();
    assert_eq!(notes, 40);
}

/// A system of the embedding program that uses the workspace while the workspace captures it.
struct Curious {
    rappel: Weak<Rappel>,
    is_inside: AtomicBool,
}

impl Connected for Curious {
    fn name(&self) -> &'static str {
        "curious"
    }

    fn snapshot(&self) -> Result<Vec<u8>, ConnectedError> {
        if self.is_inside.swap(true, Ordering::SeqCst) {
            return Ok(b"from inside".to_vec());
        }
        let rappel = self.rappel.upgrade().ok_or("the workspace is closed")?;
        rappel.save(&SaveOptions {
            only: Some([Facet::Agents].into()),
            ..named("from inside".into())
        })?;
        self.is_inside.store(false, Ordering::SeqCst);
        Ok(b"from outside".to_vec())
    }

    fn restore(&self, _: &[u8]) -> Result<(), ConnectedError> {
        Ok(())
    }
}

/// A capture holds no lock of the handle while it calls the program's own systems.
#[test]
fn a_connected_system_may_save_while_it_is_captured() {
    let world = World::new(Project::new());
    world.write("plan.md", "1. measure");
    let rappel = Arc::new(world.open());
    rappel.save(&named("first".into())).unwrap();
    let is_inside = AtomicBool::new(false);
    rappel.connect(Curious { rappel: Arc::downgrade(&rappel), is_inside });
    rappel.save(&named("outside".into())).unwrap();
    let listed = rappel.list(&ListFilter { all: true, ..ListFilter::default() }).unwrap();
    let said = listed.checkpoints.iter().filter_map(|one| one.manifest.description.clone());
    assert_eq!(said.collect::<Vec<_>>(), ["outside", "from inside", "first"]);
}
