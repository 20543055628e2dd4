//! Anything else that can dump and load itself: one command of the user's whose output is captured,
//! another that takes it back. No shell is between.
//!
//! Such a thing knows no transactions: what `restore` leaves behind when it fails is its own affair,
//! which is why it comes last in a restore.
//!
//! A program may leave others behind that keep its pipes open, so the end of a pipe is never waited for
//! without looking at the time, at the program and at the user: pipes are read by threads that nobody joins.

use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command as Process, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rappel_store::Cancel;
use rappel_store::sink::{Sink, Source};
use rappel_store::threads;
use rappel_types::Advice;
use rappel_types::config::CommandLines;
use rappel_types::database::{DatabaseKind, DatabasePart, DatabasePlan, Ticket};
use rappel_types::redact;

use super::{
    Captured, Database, Error, Fate, Fingerprint, Guard, How, Restoring, Result, Watch, dump,
};

/// How much of a program's complaints is kept.
const WORDS: usize = 4 << 10;
/// How often somebody who waits looks whether he still should.
pub(super) const LOOK: Duration = Duration::from_millis(100);
/// How long the pipes of a program that has ended may stay open without a word.
const GRACE: Duration = Duration::from_secs(1);
/// How much output is read at once, and how many such blocks may wait.
const BLOCK: usize = 64 << 10;
const WAITING: usize = 4;

/// A `[[command]]`.
#[derive(Debug, Clone)]
pub struct Command {
    name: String,
    lines: CommandLines,
    timeout: Duration,
    /// Where its programs are run.
    folder: PathBuf,
    /// Asked before each run.
    guard: Guard,
}

impl Command {
    /// The one that `rappel.toml` calls `name`. Its programs run in `folder`, if `guard` lets them.
    pub fn new(
        name: &str,
        lines: CommandLines,
        timeout: Duration,
        folder: PathBuf,
        guard: Guard,
    ) -> Self {
        Self { name: name.to_owned(), lines, timeout, folder, guard }
    }

    /// Runs one of its command lines.
    fn run(&self, argv: &[String], stdin: Stdio, stdout: Stdio) -> Result<Running> {
        self.guard.check()?;
        Running::start(argv, &self.folder, self.timeout, stdin, stdout)
    }

    /// An error if the program that captures is not there. Nothing is run.
    pub fn can_be_tried(&self) -> Result<()> {
        self.require("capture", &self.lines.capture, "install it, or correct")
    }

    fn require_restore(&self) -> Result<()> {
        self.require("restore", &self.lines.restore, "correct")
    }

    fn require(&self, which: &str, argv: &[String], advice: &str) -> Result<()> {
        let program = argv.first().map_or("", String::as_str);
        match self.is_there(program) {
            true => Ok(()),
            false => Err(Error::Refused {
                message: format!("its {which} command {program:?} is not there"),
                advice: vec![Advice::plain(format!("{advice} `{which}` in rappel.toml"))],
            }),
        }
    }

    /// Whether a program would be found, as it is when it is run.
    fn is_there(&self, program: &str) -> bool {
        let runs = |path: PathBuf| {
            let found = path.metadata();
            found.is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
        };
        match program.contains('/') {
            true => runs(self.folder.join(program)),
            false => std::env::var_os("PATH").is_some_and(|path| {
                std::env::split_paths(&path).any(|folder| runs(folder.join(program)))
            }),
        }
    }

    fn output(
        &self,
        sink: &dyn Sink,
        prior: Option<&DatabasePart>,
        watch: &Watch<'_>,
    ) -> Result<DatabasePart> {
        let mut running = self.run(&self.lines.capture, Stdio::null(), Stdio::piped())?;
        let Some(stdout) = running.stdout.take() else {
            return Err(Error::Unavailable("its output cannot be read".into()));
        };
        let mut output = Output {
            blocks: blocks_of(stdout).inspect_err(|_| running.kill())?,
            block: io::Cursor::default(),
            running: &running,
            watch,
            alone: None,
            given_up: OnceLock::new(),
        };
        let stored = dump::store(sink, &mut output, prior.map(dump::Stored::from).as_ref());
        let given_up = output.given_up.take();
        if given_up.is_some() || stored.is_err() {
            running.kill();
        }
        let stored = match given_up {
            Some(why) => return Err(why),
            None => stored?,
        };
        running.finish(Some(watch.cancel))?;
        Ok(DatabasePart {
            name: self.name.clone(),
            kind: DatabaseKind::Command,
            tables: Vec::new(),
            row_counts: std::collections::BTreeMap::new(),
            bytes: stored.bytes,
            as_of: None,
            stale: false,
            tree: stored.tree,
            digest: stored.digest,
            location: None,
            definition: None,
            obstacle: self.require_restore().err().map(|error| error.to_string()),
            flaw: None,
            left_out: Vec::new(),
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
        self.require_restore()
    }

    fn restoring(&self, _: &How<'_>) -> Result<Box<dyn Restoring>> {
        Ok(Box::new(Loading { command: self.clone(), input: None }))
    }

    fn create(&self, _: &DatabasePart) -> Result<Vec<String>> {
        Ok(Vec::new())
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
        // What it says is for nobody: whether it succeeded is what counts.
        let command = &self.command;
        let mut running = command.run(&command.lines.restore, input.into(), Stdio::null())?;
        // It began: whatever it did stands.
        running.finish(None).map_err(|error| Error::Unknown(error.to_string()))
    }
}

/// Set for the programs that are run here. A save that one of them makes runs none of them: there would be no end of it.
pub const INSIDE: &str = "RAPPEL_INSIDE";

/// A program of the user's that is running, and is not let run for ever.
struct Running {
    child: Mutex<Child>,
    group: rustix::process::Pid,
    stdout: Option<ChildStdout>,
    program: String,
    words: Option<Words>,
    deadline: Option<Instant>,
    timeout: Duration,
}

impl Running {
    fn start(
        argv: &[String],
        folder: &std::path::Path,
        timeout: Duration,
        stdin: Stdio,
        stdout: Stdio,
    ) -> Result<Self> {
        let [program, arguments @ ..] = argv else {
            return Err(Error::Unavailable("its command is empty".into()));
        };
        let mut child = Process::new(program)
            .args(arguments)
            .current_dir(folder)
            .env(INSIDE, "1")
            .stdin(stdin)
            .stdout(stdout)
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .map_err(|error| {
                let is_ours = !program.contains('/') && folder.join(program).is_file();
                let meant = match is_ours {
                    true => format!("; for the workspace's own write \"./{program}\""),
                    false => String::new(),
                };
                Error::Unavailable(format!("{program} cannot be run: {error}{meant}"))
            })?;
        Ok(Self {
            group: rustix::process::Pid::from_child(&child),
            stdout: child.stdout.take(),
            words: child.stderr.take().map(|stderr| Words::of(stderr, WORDS)),
            child: Mutex::new(child),
            program: program.clone(),
            deadline: Instant::now().checked_add(timeout),
            timeout,
        })
    }

    /// An error if it has used up its time, or if the user wants to stop.
    fn may_go_on(&self, cancel: Option<&Cancel>) -> Result<()> {
        if cancel.is_some_and(rappel_store::Cancel::is_cancelled) {
            return Err(rappel_store::Error::Cancelled.into());
        }
        if self.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            let timeout = rappel_types::duration::format_duration(self.timeout.as_millis() as u64);
            let program = &self.program;
            return Err(Error::Unavailable(format!("{program} took longer than {timeout}")));
        }
        Ok(())
    }

    /// How it ended, if it has.
    fn status(&self) -> Result<Option<ExitStatus>> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner).try_wait().map_err(|error| {
            Error::Unavailable(format!("{} cannot be waited for: {error}", self.program))
        })
    }

    /// Ends it, with whatever of its group is left.
    fn kill(&self) {
        let _ = rustix::process::kill_process_group(self.group, rustix::process::Signal::KILL);
        let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = child.kill();
        let _ = child.wait();
    }

    /// Waits for its end.
    fn finish(&mut self, cancel: Option<&Cancel>) -> Result<()> {
        let mut pause = Duration::from_millis(1);
        let status = loop {
            if let Some(status) = self.status()? {
                break status;
            }
            self.may_go_on(cancel)?;
            thread::sleep(pause);
            pause = (pause * 2).min(LOOK / 4);
        };
        if status.success() {
            return Ok(());
        }
        let words = self.words.take().map(Words::end).unwrap_or_default();
        // It goes into the manifest too.
        let words = redact::text(words.trim());
        let said = if words.is_empty() { String::new() } else { format!(": {words}") };
        Err(Error::Unavailable(format!("{} failed ({status}){said}", self.program)))
    }
}

impl Drop for Running {
    /// One that has not ended is of no use any more.
    fn drop(&mut self) {
        if !matches!(self.status(), Ok(Some(_))) {
            self.kill();
        }
    }
}

/// What a program complains about, as far as it is kept. The rest is read so that it is not stopped by a full pipe.
#[derive(Debug)]
pub(super) struct Words {
    kept: Arc<Mutex<Vec<u8>>>,
    /// Hears of the end.
    ended: Mutex<Receiver<()>>,
}

impl Words {
    /// Begins to listen.
    pub fn of(mut stderr: impl Read + Send + 'static, most: usize) -> Self {
        let kept = Arc::new(Mutex::new(Vec::new()));
        let (end, ended) = mpsc::channel::<()>();
        let shared = Arc::clone(&kept);
        // Without a thread nothing that it says is known; that is all.
        let _ = threads::start(move || {
            let _end = end;
            let mut block = [0; 4 << 10];
            while let Some(said) = next(&mut stderr, &mut block).filter(|said| !said.is_empty()) {
                let mut kept = shared.lock().unwrap_or_else(PoisonError::into_inner);
                let room = most.saturating_sub(kept.len()).min(said.len());
                kept.extend_from_slice(said.get(..room).unwrap_or_default());
            }
        });
        Self { kept, ended: Mutex::new(ended) }
    }

    /// What was said by a program that has ended. Others may still have its pipe: they are not waited for.
    pub fn end(self) -> String {
        let _ = self.ended.into_inner().unwrap_or_else(PoisonError::into_inner).recv_timeout(GRACE);
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&kept).into_owned()
    }
}

/// The next bytes of a pipe: none at its end, `None` where it fails.
fn next<'a>(pipe: &mut impl Read, block: &'a mut [u8]) -> Option<&'a [u8]> {
    loop {
        match pipe.read(block) {
            Ok(read) => return block.get(..read),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return None,
        }
    }
}

/// The output of a program, block by block.
fn blocks_of(mut stdout: ChildStdout) -> Result<Receiver<Vec<u8>>> {
    let (send, blocks) = mpsc::sync_channel(WAITING);
    let started = threads::start(move || {
        let mut block = vec![0; BLOCK];
        while let Some(said) = next(&mut stdout, &mut block).filter(|said| !said.is_empty()) {
            if send.send(said.to_vec()).is_err() {
                break;
            }
        }
    });
    started.map_err(|error| Error::Unavailable(format!("cannot start a thread: {error}")))?;
    Ok(blocks)
}

/// The output of a program, for as long as that is allowed to take.
struct Output<'a> {
    blocks: Receiver<Vec<u8>>,
    block: io::Cursor<Vec<u8>>,
    running: &'a Running,
    watch: &'a Watch<'a>,
    /// Since when it is silent although the program has ended.
    alone: Option<Instant>,
    /// Why it was not read to its end.
    given_up: OnceLock<Error>,
}

impl Output<'_> {
    /// The next block, empty at the end.
    fn next(&mut self) -> Result<Vec<u8>> {
        loop {
            self.running.may_go_on(Some(self.watch.cancel))?;
            match self.blocks.recv_timeout(LOOK) {
                Ok(block) => {
                    self.alone = None;
                    self.watch.read(block.len() as u64)?;
                    return Ok(block);
                }
                Err(RecvTimeoutError::Disconnected) => return Ok(Vec::new()),
                Err(RecvTimeoutError::Timeout) if self.running.status()?.is_none() => {}
                Err(RecvTimeoutError::Timeout) => {
                    if self.alone.get_or_insert_with(Instant::now).elapsed() >= GRACE {
                        return Err(Error::Unavailable(format!(
                            "{} ended, but something that it started keeps its output open",
                            self.running.program
                        )));
                    }
                }
            }
        }
    }
}

impl Read for Output<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let read = self.block.read(buffer)?;
            if read > 0 || buffer.is_empty() {
                return Ok(read);
            }
            match self.next() {
                Ok(block) if block.is_empty() => return Ok(0),
                Ok(block) => self.block = io::Cursor::new(block),
                Err(error) => {
                    let told = io::Error::other(error.to_string());
                    let _ = self.given_up.set(error);
                    return Err(told);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use rappel_testing::MemoryStore;

    use super::*;

    #[test]
    fn its_guard_is_asked_before_each_run() {
        let folder = tempfile::tempdir().unwrap();
        let lines = CommandLines {
            capture: vec!["echo".into(), "one".into()],
            restore: vec!["touch".into(), "ran".into()],
        };
        let asked = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&asked);
        let guard = Guard::new(move || match count.fetch_add(1, Ordering::Relaxed) {
            0 => Ok(()),
            _ => Err(Error::Untrusted("changed meanwhile".into())),
        });
        let minute = Duration::from_secs(60);
        let command = Command::new("state", lines, minute, folder.path().to_owned(), guard);
        let store = MemoryStore::default();
        let part = command.read(&store, None, &Watch::nobody()).unwrap();
        let cancel = Cancel::default();
        let names = crate::databases::Names::default();
        let how = How { patience: minute, terminate_connections: false, names, cancel: &cancel };
        let mut restoring = command.restoring(&how).unwrap();
        restoring.stage(&store, &part).unwrap();
        assert!(matches!(restoring.commit(), Err(Error::Untrusted(_))));
        assert!(!folder.path().join("ran").exists());
        assert_eq!(asked.load(Ordering::Relaxed), 2);
    }
}
