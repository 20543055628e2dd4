//! A user who stops a restore while its databases are loaded: nothing is committed, and everything is put back.

#![allow(clippy::unwrap_used, clippy::panic, clippy::disallowed_methods, reason = "tests may")]

mod restore_support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rappel_capture::databases::{
    Captured, DatabaseDrive, Held, Restoring, Result as DatabaseResult, Watch,
};
use rappel_capture::restore::{Job, Result, apply};
use rappel_store::Cancel;
use rappel_store::operation::CancelAnswer;
use rappel_store::sink::{Sink, Source};
use rappel_testing::Project;
use rappel_types::Plan;
use rappel_types::database::{DatabaseKind, DatabasePart, DatabasePlan, Digest, Ticket};
use restore_support::*;

/// When the user has had enough.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stop {
    WhileLoading,
    Loaded,
    Committing,
}

/// A database whose user stops the restore.
struct Impatient {
    stop: Stop,
    cancel: Cancel,
    committed: Arc<AtomicBool>,
}

impl Restoring for Impatient {
    fn capture(
        &mut self,
        _: &dyn Sink,
        _: Option<&DatabasePart>,
        _: &Watch<'_>,
    ) -> DatabaseResult<Captured> {
        unreachable!("the safety checkpoint is made before")
    }

    fn ticket(&self) -> Option<Ticket> {
        None
    }

    fn stage(&mut self, source: &dyn Source, target: &DatabasePart) -> DatabaseResult<()> {
        if self.stop == Stop::WhileLoading {
            assert_eq!(self.cancel.request(), CancelAnswer::Cancelling);
        }
        source.get(&target.tree)?;
        if self.stop == Stop::Loaded {
            assert_eq!(self.cancel.request(), CancelAnswer::Cancelling);
        }
        Ok(())
    }

    fn commit(&mut self) -> DatabaseResult<()> {
        if self.stop == Stop::Committing {
            assert_eq!(self.cancel.request(), CancelAnswer::TooLate);
        }
        self.committed.store(true, Ordering::Relaxed);
        Ok(())
    }
}

/// Restores a file and such a database. Also says whether that was committed.
fn restored(stop: Stop) -> (Scene, Result<()>, bool) {
    let mut scene = Scene::new(Project::new().file("a", "1"), &Project::new().file("a", "2"));
    let (cancel, committed) = (Cancel::default(), Arc::<AtomicBool>::default());
    let digest = Digest::new([7; 32]);
    let target = DatabasePart {
        name: "app".into(),
        kind: DatabaseKind::Command,
        tables: Vec::new(),
        row_counts: std::collections::BTreeMap::new(),
        bytes: 0,
        as_of: None,
        stale: false,
        tree: scene.store.tree(&scene.target),
        digest: digest.clone(),
        location: None,
        definition: None,
        obstacle: None,
        flaw: None,
        left_out: Vec::new(),
    };
    let plan = DatabasePlan {
        name: "app".into(),
        place: String::new(),
        kind: DatabaseKind::Command,
        from: None,
        to: digest,
        ticket: None,
    };
    let restoring = Impatient { stop, cancel: cancel.clone(), committed: Arc::clone(&committed) };
    let held = Held { plan: plan.clone(), target, restoring: Box::new(restoring) };
    scene.databases = DatabaseDrive::new(vec![(0, held)], false);
    let files = Plan { databases: vec![plan], ..scene.plan(&|_| true) };
    let disk = real();
    let result = {
        let root = scene.root(&disk);
        let job = Job { cancel: &cancel, ..scene.job(&root) };
        apply(&job, &scene.intents(&disk), &request(&files), &mut |_| Ok(())).map(drop)
    };
    (scene, result, committed.load(Ordering::Relaxed))
}

#[test]
fn before_the_first_commit_everything_is_put_back() {
    for stop in [Stop::WhileLoading, Stop::Loaded] {
        let (scene, result, committed) = restored(stop);
        let error = result.unwrap_err();
        assert!(is_rolled_back(&error), "{error}");
        assert!(error.to_string().contains("cancelled"), "{error}");
        assert!(!committed);
        assert_eq!(scene.now(), scene.before);
        scene.assert_tidy();
    }
}

#[test]
fn after_it_the_restore_is_completed() {
    let (scene, result, committed) = restored(Stop::Committing);
    result.unwrap();
    assert!(committed);
    assert_eq!(scene.now(), scene.after);
    scene.assert_tidy();
}
