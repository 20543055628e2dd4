//! What happens in the home, told to all who listen.
//!
//! One thread waits for the log to grow and reads what is new, once for all listeners. A listener
//! that comes back after a while reads what it missed from the home itself: nothing is lost by a
//! restart. Progress and health are live only: they carry no position.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rappel::events::{Events, HomeEvent};
use rappel::types::Timestamp;
use rappel::{Home, Status};
use serde::Serialize;
use serde_json::Value;
use tokio::sync::{broadcast, watch};

use crate::app::{FindInstalled, blocking};
use crate::jobs::{JobAnswer, Jobs};
use crate::problem::Problem;

/// So many events are kept for listeners that are almost up to date.
const KEPT: usize = 4_096;
/// So many are read at once.
const PAGE: usize = 500;
/// How often a job's progress is told.
const TICK: Duration = Duration::from_millis(250);
/// The longest wait before the thread looks whether the server has ended.
const LOOK: Duration = Duration::from_secs(1);
/// How often health is looked at, as long as somebody listens: it may change without a commit.
const HEALTH: Duration = Duration::from_secs(5);

/// The event `health`: how safe the workspace is in which the user started the server. Listeners
/// get it once at the beginning, and then when it changes.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Health {
    state: rappel::Health,
    since: Option<Timestamp>,
    reasons: Vec<String>,
}

/// What is told live and has no position.
#[derive(Debug, Clone)]
pub struct Live {
    pub name: &'static str,
    pub data: Value,
}

/// Where listeners meet what happens.
#[derive(Clone)]
pub struct Hub(Arc<Shared>);

struct Shared {
    home: Home,
    installed: FindInstalled,
    recent: Mutex<Recent>,
    /// Counts up when something is new, and when the server ends.
    news: watch::Sender<u64>,
    live: broadcast::Sender<Live>,
}

/// The newest events.
#[derive(Default)]
struct Recent {
    /// The position before the first of them; none before the thread has begun.
    since: Option<String>,
    events: VecDeque<HomeEvent>,
    begun: bool,
    closed: bool,
}

impl Hub {
    pub fn new(home: Home, installed: FindInstalled) -> Self {
        let (news, _) = watch::channel(0);
        let (live, _) = broadcast::channel(256);
        Self(Arc::new(Shared { home, installed, recent: Mutex::default(), news, live }))
    }

    /// Begins to listen: with the first listener, the thread.
    pub fn listen(&self) -> (watch::Receiver<u64>, broadcast::Receiver<Live>) {
        let begin = {
            let mut recent = self.recent();
            !std::mem::replace(&mut recent.begun, true)
        };
        if begin {
            let hub = self.clone();
            let name = "rappel-events".to_owned();
            if std::thread::Builder::new().name(name).spawn(move || hub.follow()).is_err() {
                self.recent().begun = false;
            }
        }
        (self.0.news.subscribe(), self.0.live.subscribe())
    }

    /// Whether the server ends.
    pub fn is_closed(&self) -> bool {
        self.recent().closed
    }

    /// Ends all streams: the server ends.
    pub fn close(&self) {
        self.recent().closed = true;
        self.0.news.send_modify(|count| *count += 1);
    }

    /// Where the newest event is.
    pub async fn newest(&self) -> Result<String, Problem> {
        let home = self.0.home.clone();
        blocking(move || Ok(home.events_end()?)).await
    }

    /// What happened after a position: from memory if that reaches back so far, else from the home.
    pub async fn after(&self, position: &str) -> Result<Events, Problem> {
        if let Some(page) = self.recent().after(position) {
            return Ok(page);
        }
        let (home, position) = (self.0.home.clone(), position.to_owned());
        blocking(move || Ok(home.events(beginning(&position), PAGE)?)).await
    }

    /// Follows the log until the server ends.
    fn follow(&self) {
        let mut watcher = self.0.home.watcher();
        let (mut health, mut looked) = (None, None::<Instant>);
        while !self.is_closed() {
            if let Err(error) = self.take_in() {
                tracing::warn!(%error, "events cannot be read");
            }
            let is_due = looked.is_none_or(|at| at.elapsed() >= HEALTH);
            if is_due && self.0.live.receiver_count() > 0 && self.0.home.is_there() {
                self.look_at_health(&mut health);
                looked = Some(Instant::now());
            }
            if let Err(error) = watcher.wait(LOOK) {
                tracing::warn!(%error, "the home cannot be watched");
                std::thread::sleep(LOOK);
            }
        }
    }

    /// Tells listeners the workspace's health if it changed since the last look.
    fn look_at_health(&self, before: &mut Option<Health>) {
        let look = || -> rappel::Result<Health> {
            let rappel = self.0.home.here().now()?;
            let mut status = rappel.status()?;
            rappel.judge_integrations(&mut status, &(self.0.installed)(&rappel))?;
            let Status { state, since, reasons, .. } = status;
            Ok(Health { state, since, reasons })
        };
        match look() {
            Ok(now) if before.as_ref() != Some(&now) => {
                self.tell("health", &now);
                *before = Some(now);
            }
            Ok(_) => {}
            Err(error) => tracing::debug!(%error, "the workspace's health cannot be told"),
        }
    }

    /// Reads what is new.
    fn take_in(&self) -> rappel::Result<()> {
        // A server that only watches must not make a deleted home anew.
        if !self.0.home.is_there() {
            return Ok(());
        }
        let since = self.recent().newest();
        let Some(mut since) = since else {
            let newest = self.0.home.events_end()?;
            self.recent().since = Some(newest);
            return Ok(());
        };
        loop {
            let page = self.0.home.events(Some(&since), PAGE)?;
            let more = page.events.len() == PAGE;
            if page.reset {
                // Listeners find out for themselves.
                let mut recent = self.recent();
                recent.since = Some(page.next.clone());
                recent.events.clear();
            } else if page.events.is_empty() {
                return Ok(());
            } else {
                self.recent().add(page.events);
            }
            self.0.news.send_modify(|count| *count += 1);
            since = page.next;
            if !more {
                return Ok(());
            }
        }
    }

    /// Tells how far a job is as long as the value lives.
    pub fn watch_job(&self, number: u64, jobs: Jobs) -> Watched {
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        let hub = self.clone();
        let thread = std::thread::Builder::new().name("rappel-progress".into()).spawn(move || {
            while stopped.recv_timeout(TICK) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
                if let Some(job) = jobs.numbered(number) {
                    hub.tell_job(&job);
                }
            }
        });
        Watched { stop: Some(stop), thread: thread.ok() }
    }

    /// Tells how a job stands: a restore under the name that its listeners know.
    pub fn tell_job(&self, job: &JobAnswer) {
        let moves = matches!(job.kind.as_str(), "restore" | "undo" | "redo" | "recover");
        self.tell(if moves { "restore.progress" } else { "job" }, job);
    }

    /// Tells something live.
    pub fn tell(&self, name: &'static str, data: &impl Serialize) {
        // Nobody may be listening.
        let _ =
            self.0.live.send(Live { name, data: serde_json::to_value(data).unwrap_or_default() });
    }

    fn recent(&self) -> MutexGuard<'_, Recent> {
        self.0.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A position as listeners write it: `0` is before everything.
fn beginning(position: &str) -> Option<&str> {
    (position != "0").then_some(position)
}

impl Recent {
    fn newest(&self) -> Option<String> {
        let last = self.events.back().map(|event| event.position.clone());
        last.or_else(|| self.since.clone())
    }

    fn add(&mut self, events: Vec<HomeEvent>) {
        self.events.extend(events);
        while self.events.len() > KEPT {
            self.since = self.events.pop_front().map(|event| event.position);
        }
    }

    /// What follows a position, if that is among those that are kept.
    fn after(&self, position: &str) -> Option<Events> {
        let from = match self.since.as_deref() == Some(position) {
            true => 0,
            false => self.events.iter().rposition(|event| event.position == position)? + 1,
        };
        let events: Vec<_> = self.events.range(from..).take(PAGE).cloned().collect();
        let next = events.last().map_or(position.to_owned(), |event| event.position.clone());
        Some(Events { events, next, reset: false })
    }
}

/// A job that is being told of.
pub struct Watched {
    stop: Option<std::sync::mpsc::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Drop for Watched {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
