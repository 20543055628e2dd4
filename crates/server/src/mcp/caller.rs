//! Who calls: the workspace that is meant, and the session of the agent.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rappel::types::agents::{SessionId, SessionStatus};
use rappel::types::{PathError, RelPath};
use rappel::{Cancel, Home, Operation, Rappel, SessionStart, Workspace};
use rmcp::model::{ErrorData, RequestMetaObject};
use rmcp::service::{Peer, RoleServer, ServiceError};
use serde_json::Value;

use super::McpOptions;
use super::answer::Refused;

/// What is the same for all calls of a client.
pub struct Calls {
    options: McpOptions,
    home: Home,
    /// The sessions that this server started, by the folder of their workspace.
    started: Mutex<BTreeMap<PathBuf, (SessionId, Workspace)>>,
    /// The workspace of the folders that the client named last.
    last_root: Mutex<Option<PathBuf>>,
    /// Calls that are under way, by their number.
    under_way: Mutex<BTreeMap<u64, Cancel>>,
}

/// One call.
pub struct Call {
    calls: Arc<Calls>,
    workspace: Workspace,
    root: PathBuf,
    /// What the client is called.
    pub client: Option<String>,
    /// What agents call their session: those of the environment, and the one that this call names.
    agents: Vec<(String, String)>,
    operation: Operation,
}

impl Calls {
    pub fn new(options: McpOptions) -> Self {
        let home = Home::new(options.open.clone());
        let (started, last_root) = (Mutex::default(), Mutex::default());
        Self { options, home, started, last_root, under_way: Mutex::default() }
    }

    /// Notes a call that begins; it ends with the value.
    pub fn begin(self: &Arc<Self>, operation: &Operation) -> UnderWay {
        let mut under_way = self.under_way();
        let number = under_way.keys().next_back().map_or(1, |last| last + 1);
        under_way.insert(number, operation.cancel.clone());
        UnderWay { calls: self.clone(), number }
    }

    /// Whether no call is under way.
    pub fn are_done(&self) -> bool {
        self.under_way().is_empty()
    }

    /// Asks every call to stop: the process ends.
    pub fn cancel_all(&self) {
        for cancel in self.under_way().values() {
            cancel.cancel();
        }
    }

    fn under_way(&self) -> MutexGuard<'_, BTreeMap<u64, Cancel>> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The workspace of a client: its first root that is a folder here, else the server's own. A
    /// client that has named its folders and is late with its answer means the same ones.
    pub async fn root(self: &Arc<Self>, peer: &Peer<RoleServer>) -> Result<PathBuf, ErrorData> {
        let names_roots =
            peer.peer_info().is_some_and(|client| client.capabilities.roots.is_some());
        if self.options.is_fixed || !names_roots {
            return Ok(self.options.open.root.clone());
        }
        // The question stays open after the wait: a late answer counts for the next call.
        let (calls, peer) = (self.clone(), peer.clone());
        let asked = tokio::spawn(async move { calls.ask_for_root(&peer).await });
        match tokio::time::timeout(ROOTS_WAIT, asked).await {
            Ok(Ok(Some(root))) => Ok(root),
            _ => self.last_root().clone().ok_or_else(|| {
                let late = "the client did not say yet which folder it works in; call again";
                ErrorData::internal_error(late, None)
            }),
        }
    }

    /// Asks the client for its folders. Nothing if it does not answer any more.
    #[allow(deprecated, reason = "every client of today names its folders this way")]
    async fn ask_for_root(&self, peer: &Peer<RoleServer>) -> Option<PathBuf> {
        let first = match peer.list_roots().await {
            Ok(named) => named.roots.iter().find_map(|root| folder_of(&root.uri)),
            // The client claims to name folders, and refuses to.
            Err(ServiceError::McpError(_)) => None,
            Err(_) => return None,
        };
        let own = self.options.open.root.clone();
        let root = first.map_or(own, |folder| rappel::find_root(folder.as_path()));
        *self.last_root() = Some(root.clone());
        Some(root)
    }

    fn last_root(&self) -> MutexGuard<'_, Option<PathBuf>> {
        self.last_root.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the sessions that this server started.
    pub fn end_sessions(&self) {
        for (session, workspace) in std::mem::take(&mut *self.started()).into_values() {
            let ended = workspace
                .now()
                .and_then(|rappel| rappel.end_session(&session, SessionStatus::Completed, None));
            if let Err(error) = ended {
                tracing::warn!(%session, %error, "the session could not be ended");
            }
        }
    }

    fn started(&self) -> MutexGuard<'_, BTreeMap<PathBuf, (SessionId, Workspace)>> {
        self.started.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call that is under way.
pub struct UnderWay {
    calls: Arc<Calls>,
    number: u64,
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.calls.under_way().remove(&self.number);
    }
}

/// How long a client may take to name its folders.
const ROOTS_WAIT: std::time::Duration = std::time::Duration::from_secs(2);

/// The folder that a `file:` URI names, if it is there.
fn folder_of(uri: &str) -> Option<PathBuf> {
    let path = uri.strip_prefix("file://")?;
    // A host may stand before the path; only this machine's is ours.
    let path = path.strip_prefix("localhost").unwrap_or(path);
    let folder = PathBuf::from(unescaped(path)?);
    (folder.is_absolute() && folder.is_dir()).then_some(folder)
}

/// The bytes that `%NN` stand for.
fn unescaped(text: &str) -> Option<std::ffi::OsString> {
    use std::os::unix::ffi::OsStringExt;
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digits = [rest.next()?, rest.next()?];
        let digits = std::str::from_utf8(&digits).ok()?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
    }
    Some(std::ffi::OsString::from_vec(bytes))
}

impl Call {
    pub fn new(
        calls: Arc<Calls>,
        root: PathBuf,
        client: Option<String>,
        meta: &RequestMetaObject,
        operation: Operation,
    ) -> Self {
        let mut agents = calls.options.agents.clone();
        agents.extend(of_codex(meta));
        // A workspace that the user named may be one whose folder is gone.
        let workspace = match calls.options.is_fixed {
            true => calls.home.here(),
            false => calls.home.at(&root),
        };
        Self { calls, workspace, root, client, agents, operation }
    }

    /// The workspace as it is now.
    pub fn open(&self) -> rappel::Result<Rappel> {
        self.workspace.now_for(self.operation.clone())
    }

    /// The present, and the zone in which times without an offset are meant.
    pub fn clock(&self) -> (rappel::types::Timestamp, jiff::tz::TimeZone) {
        let options = &self.calls.options.open;
        (options.clock.now(), options.zone.clone())
    }

    /// The session that calls, if it is known.
    pub fn session(&self, rappel: &Rappel) -> rappel::Result<Option<SessionId>> {
        match self.session_of_agent(rappel)? {
            None => Ok(self.calls.started().get(&self.root).map(|(id, _)| id.clone())),
            known => Ok(known),
        }
    }

    /// The session that the agent names, or whose process started this one.
    fn session_of_agent(&self, rappel: &Rappel) -> rappel::Result<Option<SessionId>> {
        let named = self.calls.options.session.as_ref();
        for (agent, name) in &self.agents {
            let Some(session) = rappel.session_called(agent, name)? else { continue };
            // Below `rappel run` the environment names the run, and its agent has its own session.
            if named.is_none() || rappel.session(&session)?.parent.as_ref() == named {
                return Ok(Some(session));
            }
        }
        if named.is_some() {
            return Ok(named.cloned());
        }
        // Most agents name no session, but their hooks noted their process, which started this one.
        rappel.session_above(std::process::id())
    }

    /// The session that calls; one begins if none is known. It ends with the server.
    pub fn session_or_new(&self, rappel: &Rappel) -> rappel::Result<SessionId> {
        if let Some(session) = self.session_of_agent(rappel)? {
            return Ok(session);
        }
        // Held meanwhile: two calls at once begin one session.
        let mut started = self.calls.started();
        if let Some((session, _)) = started.get(&self.root) {
            return Ok(session.clone());
        }
        let agent = self.agents.first();
        let (session, _) = rappel.start_session(SessionStart {
            provider: agent.map(|(agent, _)| agent.clone()).or_else(|| self.client.clone()),
            assistant_session_id: agent.map(|(_, name)| name.clone()),
            process: rappel::process_id(std::process::id()),
            ..SessionStart::default()
        })?;
        started.insert(self.root.clone(), (session.clone(), self.workspace.clone()));
        Ok(session)
    }
}

/// A path below the workspace's root: as it stands there, or absolute.
pub fn below_root(given: &str, rappel: &Rappel) -> Result<RelPath, Refused> {
    let (path, root) = (Path::new(given), rappel.root());
    let text = path.strip_prefix(root).unwrap_or(path).to_string_lossy();
    let text = text.trim_start_matches("./").trim_end_matches('/');
    text.parse().map_err(|error: PathError| {
        let root = root.display();
        Refused::usage(format!("{error}; a path is relative to the workspace's root, {root}"))
    })
}

/// Codex names its session with each call.
fn of_codex(meta: &RequestMetaObject) -> Option<(String, String)> {
    let turn = meta.0.0.get("x-codex-turn-metadata")?;
    let name = turn.get("session_id").and_then(Value::as_str)?;
    Some(("codex".to_owned(), name.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roots_are_folders_of_this_machine() {
        let there = tempfile::tempdir().unwrap();
        let folder = there.path().join("a b");
        std::fs::create_dir(&folder).unwrap();
        let uri = format!("file://{}", folder.display()).replace(' ', "%20");
        assert_eq!(folder_of(&uri), Some(folder));
        for bad in ["file:///no/such/folder", "https://example.org/", "file://other/tmp", "/tmp"] {
            assert_eq!(folder_of(bad), None, "{bad}");
        }
        assert_eq!(unescaped("%2"), None);
        assert_eq!(unescaped("%zz"), None);
    }
}
