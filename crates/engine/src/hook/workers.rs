//! The workers of hooks, and what became of them: a folder in the home.
//!
//! A worker that is at work has a file there and holds a lock on it. One whose lock can be had has
//! died, and the next event says so. Failures stand there too, so that `status` can tell, whatever
//! the reason: the store need not open.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use rappel_store::ambient::{self, Clock, SystemClock};
use rappel_store::held::{self, Handle};
use rappel_types::Timestamp;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use super::{Event, Moment};

/// So many failures are remembered.
const FAILURES: usize = 50;

/// That a hook failed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Failure {
    /// When.
    pub at: Timestamp,
    /// In which workspace, as far as that is known.
    pub root: Option<String>,
    /// In words.
    pub message: String,
    /// Whether it was a run that failed, and no hook.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub of_run: bool,
}

/// The folder of a home's workers.
#[derive(Debug, Clone)]
pub struct Workers {
    folder: PathBuf,
}

/// A worker at work, as long as this lives.
#[derive(Debug)]
pub struct AtWork {
    path: PathBuf,
    _locked: Handle,
}

impl Drop for AtWork {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// What a worker's file says.
#[derive(Serialize, Deserialize)]
struct Work {
    root: String,
    /// What has no checkpoint if the worker dies.
    what: String,
}

impl Workers {
    /// Those of a home. Nothing is made or opened yet.
    pub fn of(home: &Path) -> Self {
        Self { folder: home.join("hooks") }
    }

    fn working(&self) -> PathBuf {
        self.folder.join("working")
    }

    /// Says that this process is at work for an event, and notes those that died at theirs. Nothing
    /// where that cannot be written: the work itself will say why.
    pub fn begin(&self, root: &Path, event: &Event) -> Option<AtWork> {
        let what = match &event.moment {
            Moment::BeforeCall(call) => {
                let id = call.id.as_ref().map(|id| format!(" ({id})")).unwrap_or_default();
                format!("the call of {}{id} has no checkpoint before it", call.tool)
            }
            _ => "an event was not saved".into(),
        };
        self.begin_work(root, what)
    }

    /// The same for something else than an agent's event; `what` is true if the worker dies.
    pub fn begin_work(&self, root: &Path, what: String) -> Option<AtWork> {
        self.bury();
        make_folder(&self.folder)?;
        make_folder(&self.working())?;
        let work = Work { root: root.to_string_lossy().into_owned(), what };
        let name = format!("{}-{:08x}", std::process::id(), ambient::random() as u32);
        let (staged, path) = (self.working().join(format!(".{name}")), self.working().join(&name));
        let file = private(&staged)?;
        // Nobody sees it before it is locked.
        flock(&file, FlockOperation::LockExclusive).ok()?;
        (&*file).write_all(&serde_json::to_vec(&work).ok()?).ok()?;
        std::fs::rename(&staged, &path).ok()?;
        Some(AtWork { path, _locked: file })
    }

    /// Notes the workers that died, and forgets them.
    fn bury(&self) {
        for entry in std::fs::read_dir(self.working()).into_iter().flatten().flatten() {
            let path = entry.path();
            let Ok(file) = Handle::open(File::options().read(true), &path) else { continue };
            let is_staged = entry.file_name().as_encoded_bytes().starts_with(b".");
            if is_staged || flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
                continue;
            }
            let text = held::read_to_string(&path).unwrap_or_default();
            // One that has just ended has removed its file.
            if std::fs::remove_file(&path).is_ok()
                && let Ok(work) = serde_json::from_str::<Work>(&text)
            {
                let message = format!("a worker died: {}", work.what);
                self.add_failure(work.root, message, false);
            }
        }
    }

    /// Remembers that a hook failed.
    pub fn note_failure(&self, root: &Path, message: &str) {
        self.add_failure(root.to_string_lossy().into_owned(), message.to_owned(), false);
    }

    /// Remembers that something of a run failed.
    pub fn note_run_failure(&self, root: &Path, message: &str) {
        self.add_failure(root.to_string_lossy().into_owned(), message.to_owned(), true);
    }

    fn add_failure(&self, root: String, message: String, of_run: bool) {
        if make_folder(&self.folder).is_none() {
            return;
        }
        let mut all = self.failures();
        all.push(Failure { at: SystemClock.now(), root: Some(root), message, of_run });
        let from = all.len().saturating_sub(FAILURES);
        write(&self.folder.join("failures.json"), &all[from..]);
    }

    /// The failures that are remembered, oldest first.
    pub fn failures(&self) -> Vec<Failure> {
        let text = held::read_to_string(self.folder.join("failures.json")).unwrap_or_default();
        serde_json::from_str(&text).unwrap_or_default()
    }

    /// Whether the user should be shown a failure at this event: once in a session.
    pub fn shows_failure(&self, event: &Event) -> bool {
        let shown = self.folder.join("shown");
        let name = blake3::hash(event.session.as_bytes()).to_hex();
        let made = make_folder(&self.folder).and_then(|()| make_folder(&shown));
        match made.map(|()| shown.join(&name[..32])) {
            Some(path) if path.exists() => false,
            Some(path) if private(&path).is_some() => true,
            // It cannot be remembered; so it is said where a person is looking.
            _ => matches!(event.moment, Moment::SessionStart(_) | Moment::Prompt { .. }),
        }
    }

    /// Sets a mark to the present time.
    pub(super) fn touch(&self, name: &str) {
        let folder = self.folder.join("heard");
        let made = make_folder(&self.folder).and_then(|()| make_folder(&folder));
        let Some(()) = made else { return };
        let mut how = File::options();
        how.write(true).create(true).truncate(true);
        if let Ok(file) = Handle::open(&how, &folder.join(name)) {
            // What is written gives the file its time. Where it cannot be, the mark is older than
            // it could be.
            let _ = (&*file).write_all(b".");
        }
    }

    /// When a mark was set.
    pub(super) fn touched_at(&self, name: &str) -> Option<Timestamp> {
        let meta = std::fs::metadata(self.folder.join("heard").join(name)).ok()?;
        let since = meta.modified().ok()?.duration_since(std::time::UNIX_EPOCH).ok()?;
        Some(Timestamp::from_millis(since.as_millis() as i64))
    }

    /// Counts an event that this version does not know.
    pub fn pass_over(&self, name: &str) {
        if make_folder(&self.folder).is_none() {
            return;
        }
        let mut counts = self.passed_over();
        let name: String = name.chars().take(64).collect();
        *counts.entry(name).or_default() += 1;
        if counts.len() <= FAILURES {
            write(&self.folder.join("passed-over.json"), &counts);
        }
    }

    /// How often each unknown event came.
    pub fn passed_over(&self) -> std::collections::BTreeMap<String, u64> {
        let text = held::read_to_string(self.folder.join("passed-over.json")).unwrap_or_default();
        serde_json::from_str(&text).unwrap_or_default()
    }
}

/// A folder for its owner alone, if it can be made.
fn make_folder(path: &Path) -> Option<()> {
    use std::os::unix::fs::DirBuilderExt;
    match std::fs::DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => None,
        _ => Some(()),
    }
}

fn private(path: &Path) -> Option<Handle> {
    use std::os::unix::fs::OpenOptionsExt;
    Handle::open(File::options().write(true).create_new(true).mode(0o600), path).ok()
}

/// Writes a small file at once: readers see the old or the new one.
fn write(path: &Path, value: &(impl Serialize + ?Sized)) {
    let staged = path.with_extension(format!("{:08x}", ambient::random() as u32));
    let Some(file) = private(&staged) else { return };
    let written = serde_json::to_vec(value).is_ok_and(|bytes| (&*file).write_all(&bytes).is_ok());
    if !written || std::fs::rename(&staged, path).is_err() {
        let _ = std::fs::remove_file(&staged);
    }
}
