//! Who calls: the workspace that is meant, and the session of the agent.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rappel::types::agents::{SessionId, SessionStatus};
use rappel::types::{PathError, RelPath};
use rappel::{Cancel, Home, Operation, Rappel, Result, SessionStart, Workspace};
use rmcp::model::RequestMetaObject;
use rmcp::service::{Peer, RoleServer};
use serde_json::Value;

use super::McpOptions;
use super::answer::Refused;

/// What is the same for all calls of a client.
pub struct Calls {
    options: McpOptions,
    home: Home,
    /// The session that this server started, and where.
    started: Mutex<Option<(SessionId, Workspace, PathBuf)>>,
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
        Self { options, home, started: Mutex::default(), under_way: Mutex::default() }
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

    /// The workspace of a client: its first root that is a folder here, else the server's own.
    pub async fn root(&self, peer: &Peer<RoleServer>) -> PathBuf {
        let own = self.options.open.root.clone();
        if self.options.is_fixed {
            return own;
        }
        let names_roots =
            peer.peer_info().is_some_and(|client| client.capabilities.roots.is_some());
        if !names_roots {
            return own;
        }
        let first = first_root(peer).await;
        first.map_or(own, |folder| rappel::find_root(folder.as_path()))
    }

    /// Ends the session that this server started, if it did.
    pub fn end_session(&self) {
        let started = self.started.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some((session, workspace, _)) = started else { return };
        let ended = workspace
            .now()
            .and_then(|rappel| rappel.end_session(&session, SessionStatus::Completed, None));
        if let Err(error) = ended {
            tracing::warn!(%session, %error, "the session could not be ended");
        }
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

/// The first folder of this machine that a client names.
#[allow(deprecated, reason = "every client of today names its folders this way")]
async fn first_root(peer: &Peer<RoleServer>) -> Option<PathBuf> {
    let roots = tokio::time::timeout(ROOTS_WAIT, peer.list_roots()).await.ok()?.ok()?.roots;
    roots.iter().find_map(|root| folder_of(&root.uri))
}

/// How long a client may take to name its folders.
const ROOTS_WAIT: std::time::Duration = std::time::Duration::from_secs(5);

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
    pub fn open(&self) -> Result<Rappel> {
        self.workspace.now_for(self.operation.clone())
    }

    /// The present, and the zone in which times without an offset are meant.
    pub fn clock(&self) -> (rappel::types::Timestamp, jiff::tz::TimeZone) {
        let options = &self.calls.options.open;
        (options.clock.now(), options.zone.clone())
    }

    /// The session that calls, if it is known.
    pub fn session(&self, rappel: &Rappel) -> Result<Option<SessionId>> {
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
        if let Some(session) = rappel.session_above(std::process::id())? {
            return Ok(Some(session));
        }
        let started = self.calls.started.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(started.as_ref().filter(|(_, _, root)| *root == self.root).map(|(id, ..)| id.clone()))
    }

    /// The session that calls; one begins if none is known. It ends with the server.
    pub fn session_or_new(&self, rappel: &Rappel) -> Result<SessionId> {
        if let Some(session) = self.session(rappel)? {
            return Ok(session);
        }
        let agent = self.agents.first();
        let (session, _) = rappel.start_session(SessionStart {
            provider: agent.map(|(agent, _)| agent.clone()).or_else(|| self.client.clone()),
            assistant_session_id: agent.map(|(_, name)| name.clone()),
            process: rappel::process_id(std::process::id()),
            ..SessionStart::default()
        })?;
        let mut started = self.calls.started.lock().unwrap_or_else(PoisonError::into_inner);
        *started = Some((session.clone(), self.workspace.clone(), self.root.clone()));
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
