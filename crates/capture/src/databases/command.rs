//! Anything else that can dump and load itself: one command of the user's whose output is captured,
//! another that takes it back. No shell is between.
//!
//! Such a thing knows no transactions: what `restore` leaves behind when it fails is its own affair,
//! which is why it comes last in a restore.

use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command as Process, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rappel_store::sink::{Sink, Source};
use rappel_types::config::CommandConfig;
use rappel_types::database::{DatabaseKind, DatabasePart, DatabasePlan, Ticket};

use super::{Captured, Database, Error, Fate, Fingerprint, How, Restoring, Result, Watch, dump};

/// How much of a program's complaints is kept.
const WORDS: u64 = 4 << 10;

/// A `[[command]]`.
#[derive(Debug, Clone)]
pub struct Command {
    config: CommandConfig,
    /// Where its programs are run.
    folder: PathBuf,
}

impl Command {
    /// The one of the configuration, with its programs run in `folder`.
    pub fn new(config: CommandConfig, folder: PathBuf) -> Self {
        Self { config, folder }
    }

    fn output(
        &self,
        sink: &dyn Sink,
        prior: Option<&DatabasePart>,
        watch: &Watch<'_>,
    ) -> Result<DatabasePart> {
        let mut running =
            Running::start(&self.config.capture, &self.folder, self.config.timeout, Stdio::null())?;
        let Some(output) = running.child.stdout.take() else {
            return Err(Error::Unavailable("its output cannot be read".into()));
        };
        let mut output = Watched { inner: output, watch };
        let stored = dump::store(sink, &mut output, prior.map(dump::Stored::from).as_ref());
        // What it said tells more than that its output ended.
        running.finish(stored.is_err())?;
        watch.read(0)?;
        let stored = stored?;
        Ok(DatabasePart {
            name: self.config.name.clone(),
            kind: DatabaseKind::Command,
            tables: Vec::new(),
            row_counts: std::collections::BTreeMap::new(),
            bytes: stored.bytes,
            as_of: None,
            stale: false,
            tree: stored.tree,
            digest: stored.digest,
            location: None,
        })
    }
}

impl Database for Command {
    fn fingerprint(&self) -> Result<Option<Fingerprint>> {
        Ok(None)
    }

    fn read(
        &self,
        sink: &dyn Sink,
        prior: Option<&DatabasePart>,
        watch: &Watch<'_>,
    ) -> Result<DatabasePart> {
        self.output(sink, prior, watch)
    }

    fn check(&self, _: &dyn Source, _: &DatabasePart) -> Result<()> {
        let program = self.config.restore.first().map_or("", String::as_str);
        let found = match program.contains('/') {
            true => self.folder.join(program).is_file(),
            false => std::env::var_os("PATH").is_some_and(|path| {
                std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
            }),
        };
        match found {
            true => Ok(()),
            false => Err(Error::Refused {
                message: format!("its restore command {program:?} is not there"),
                hint: Some("correct `restore` in rappel.toml".into()),
            }),
        }
    }

    fn restoring(&self, _: &How<'_>) -> Result<Box<dyn Restoring>> {
        Ok(Box::new(Loading { command: self.clone(), input: None }))
    }

    fn create(&self) -> Result<()> {
        Ok(())
    }

    fn fate(&self, _: &DatabasePlan) -> Result<Fate> {
        Ok(Fate::Unknown)
    }
}

/// A command's data on the way back in.
struct Loading {
    command: Command,
    /// What its program will read.
    input: Option<std::fs::File>,
}

impl Restoring for Loading {
    fn capture(
        &mut self,
        sink: &dyn Sink,
        prior: Option<&DatabasePart>,
        watch: &Watch<'_>,
    ) -> Result<Captured> {
        let part = self.command.output(sink, prior, watch)?;
        Ok(Captured { part, fingerprint: None })
    }

    fn ticket(&self) -> Option<Ticket> {
        None
    }

    fn stage(&mut self, source: &dyn Source, target: &DatabasePart) -> Result<()> {
        // Read to its end now, so that damage is found before anything is changed.
        let unusable = |error: io::Error| {
            Error::Unavailable(format!("a temporary file for its data: {error}"))
        };
        let mut file = tempfile::tempfile().map_err(unusable)?;
        dump::write_to(source, &dump::Stored::from(target), &mut file)?;
        io::Seek::rewind(&mut file).map_err(unusable)?;
        self.input = Some(file);
        Ok(())
    }

    fn commit(&mut self) -> Result<()> {
        let Some(input) = self.input.take() else {
            return Err(Error::Unavailable("its data was not read".into()));
        };
        let config = &self.command.config;
        let mut running =
            Running::start(&config.restore, &self.command.folder, config.timeout, input.into())?;
        if let Some(mut output) = running.child.stdout.take() {
            let _ = io::copy(&mut output, &mut io::sink());
        }
        // It began: whatever it did stands.
        running.finish(false).map_err(|error| Error::Unknown(error.to_string()))
    }
}

/// A program of the user's that is running, and is not let run for ever.
struct Running {
    child: Child,
    program: String,
    words: Option<JoinHandle<Vec<u8>>>,
    /// Dropped to call the watchdog off.
    over: Option<mpsc::Sender<()>>,
    watchdog: Option<JoinHandle<bool>>,
    timeout: Duration,
}

impl Running {
    fn start(
        argv: &[String],
        folder: &std::path::Path,
        timeout: Duration,
        stdin: Stdio,
    ) -> Result<Self> {
        let [program, arguments @ ..] = argv else {
            return Err(Error::Unavailable("its command is empty".into()));
        };
        let mut child = Process::new(program)
            .args(arguments)
            .current_dir(folder)
            .stdin(stdin)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .map_err(|error| Error::Unavailable(format!("{program} cannot be run: {error}")))?;
        let words = child.stderr.take().map(|mut stderr| {
            thread::spawn(move || {
                let mut words = Vec::new();
                let _ = stderr.by_ref().take(WORDS).read_to_end(&mut words);
                // The rest is read so that it is not stopped by a full pipe.
                let _ = io::copy(&mut stderr, &mut io::sink());
                words
            })
        });
        let group = rustix::process::Pid::from_child(&child);
        let (over, called_off) = mpsc::channel();
        let watchdog = thread::spawn(move || {
            let late = called_off.recv_timeout(timeout) == Err(RecvTimeoutError::Timeout);
            if late {
                let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
            }
            late
        });
        Ok(Self {
            child,
            program: program.clone(),
            words,
            over: Some(over),
            watchdog: Some(watchdog),
            timeout,
        })
    }

    /// Waits for its end. `give_up` is set where nobody reads its output any more.
    fn finish(&mut self, give_up: bool) -> Result<()> {
        if give_up {
            let group = rustix::process::Pid::from_child(&self.child);
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
        let program = &self.program;
        let status = self.child.wait().map_err(|error| {
            Error::Unavailable(format!("{program} cannot be waited for: {error}"))
        })?;
        drop(self.over.take());
        let late = self.watchdog.take().and_then(|dog| dog.join().ok()).unwrap_or(false);
        let words = self.words.take().and_then(|words| words.join().ok()).unwrap_or_default();
        if late {
            let timeout = rappel_types::duration::format_duration(self.timeout.as_millis() as u64);
            return Err(Error::Unavailable(format!("{program} took longer than {timeout}")));
        }
        if give_up || status.success() {
            return Ok(());
        }
        let words = String::from_utf8_lossy(&words);
        let words = words.trim();
        let said = if words.is_empty() { String::new() } else { format!(": {words}") };
        Err(Error::Unavailable(format!("{program} failed ({status}){said}")))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.over.is_some() {
            let _ = self.finish(true);
        }
    }
}

/// A reader that tells how far it is, and stops when the user wants to.
pub(crate) struct Watched<'a, R> {
    pub inner: R,
    pub watch: &'a Watch<'a>,
}

impl<R: Read> Read for Watched<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.watch.read(read as u64).map_err(|error| io::Error::other(error.to_string()))?;
        Ok(read)
    }
}
