//! What all routes share: the home, the jobs, and how the engine's blocking work is called.

use std::sync::Arc;

use axum::Json;
use rappel::hook::Installed;
use rappel::{Home, Rappel, Workspace};
use tokio::sync::Semaphore;

use crate::events::Hub;
use crate::jobs::Jobs;
use crate::problem::Problem;

/// What a route answers.
pub type Answer<T> = Result<Json<T>, Problem>;

/// The state of a server. It holds no checkpoint and no file: only where to look.
#[derive(Clone)]
pub struct App(Arc<Parts>);

/// Finds the integrations of agents that are installed for a workspace. Another crate knows them.
pub type FindInstalled = Arc<dyn Fn(&Rappel) -> Vec<Installed> + Send + Sync>;

pub struct Parts {
    pub home: Home,
    pub installed: FindInstalled,
    pub jobs: Jobs,
    pub hub: Hub,
    /// Files that are sent at once. Each takes a thread, and other requests need some too.
    pub streams: Arc<Semaphore>,
}

/// So many files are sent at once.
const STREAMS_MAX: usize = 32;

impl std::ops::Deref for App {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.0
    }
}

impl App {
    pub fn new(home: Home, installed: FindInstalled) -> Self {
        let hub = Hub::new(home.clone(), installed.clone());
        let streams = Arc::new(Semaphore::new(STREAMS_MAX));
        Self(Arc::new(Parts { jobs: Jobs::new(hub.clone()), hub, home, installed, streams }))
    }

    /// Does an operation of the engine on a workspace as it is now, on a thread that may block.
    pub async fn ask<T: Send + 'static>(
        &self,
        workspace: Workspace,
        work: impl FnOnce(&Rappel) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        blocking(move || work(&workspace.now()?)).await
    }

    /// The same, answered as JSON.
    pub async fn answer<T: Send + 'static>(
        &self,
        workspace: Workspace,
        work: impl FnOnce(&Rappel) -> Result<T, Problem> + Send + 'static,
    ) -> Answer<T> {
        self.ask(workspace, work).await.map(Json)
    }

    /// Does what is due in a workspace after a save, while nobody waits: retention and gc.
    pub fn tend(workspace: Workspace) {
        tokio::task::spawn_blocking(move || {
            let Ok(rappel) = workspace.now() else { return };
            let due = rappel.upkeep_due();
            if (due.retention || due.gc)
                && let Err(error) = rappel.tend(due.gc)
            {
                tracing::warn!(%error, "upkeep failed");
            }
        });
    }
}

/// Does work that blocks where it does not hold up other requests.
pub async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => Err(Problem::broken(format!("the operation broke off: {error}"))),
    }
}

/// An answer as JSON, while what it borrows from is still there.
pub fn json(answer: &impl serde::Serialize) -> Result<serde_json::Value, Problem> {
    serde_json::to_value(answer).map_err(|error| Problem::broken(error.to_string()))
}
