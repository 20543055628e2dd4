//! A command that runs as if it ran alone: it shares our terminal and our process group, gets every
//! signal that is meant for it, and is never killed. See ARCHITECTURE.md, "One supervised run".

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use libc::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP};
use libc::{SIGUSR1, SIGUSR2, SIGWINCH};
use rappel::{Stream, Tail};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Signal, WaitOptions, getpgid, getppid, getsid, kill_process, waitpid};

use crate::signals::{self, Came, Signals};
use crate::streams::Copier;

/// How long a save on SIGTERM may take before the user is told what it lacks. Container runtimes
/// kill after ten seconds.
const SAVE_WITHIN: Duration = Duration::from_secs(8);

/// Signals that ask a process to end.
const ENDING: [i32; 4] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM];

/// Where the command's output goes.
#[derive(Debug, Clone, Copy, Default)]
pub struct Streams {
    /// What it writes to stdout goes to our stderr.
    pub stdout_to_stderr: bool,
    /// Its last lines are kept: it writes to pipes, and we write on.
    pub keep: bool,
}

/// A command that has begun.
pub struct Supervised {
    child: Child,
    pid: Pid,
    signals: Signals,
    copiers: Vec<Copier>,
    tail: Arc<Mutex<Tail>>,
}

/// How it ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ended {
    /// Its exit code, if it ended by itself.
    pub code: Option<i32>,
    /// The signal that killed it, if one did.
    pub signal: Option<i32>,
}

/// What is done on a request to terminate, while the command still runs.
pub trait OnTerminate {
    /// Saves. Called on another thread.
    fn save(&self);
    /// The save has ended in time.
    fn saved(&self);
    /// It has not.
    fn late(&self);
}

/// Takes signals from now on; those that come before the command has begun are kept for it.
pub fn listen() -> io::Result<Signals> {
    Signals::listen(&[
        SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGUSR1, SIGUSR2, SIGWINCH,
    ])
}

/// Does `work`, the first checkpoint, before the command has begun. Also says which signal asked us
/// to end meanwhile. `late` is called if the work goes on for long after that.
pub fn listening<T: Send>(
    signals: &Signals,
    work: impl FnOnce() -> T + Send,
    late: impl Fn(),
) -> io::Result<(T, Option<i32>)> {
    let waker = signals.waker()?;
    std::thread::scope(|scope| {
        let worker = scope.spawn(move || {
            let done = work();
            waker.wake();
            done
        });
        let (mut asked, mut until) = (None, None);
        while !worker.is_finished() {
            match signals.next(until)? {
                Some(Came { signal, .. }) if ENDING.contains(&signal) => {
                    asked = asked.or(Some(signal));
                    until = until.or_else(|| Some(Instant::now() + SAVE_WITHIN));
                }
                Some(Came { signal: SIGTSTP, .. }) if is_under_job_control() => signals::stop(),
                // The worker woke us just before its end.
                Some(Came { signal: 0, .. }) => break,
                Some(_) => {}
                None => {
                    late();
                    until = Some(Instant::now() + SAVE_WITHIN);
                }
            }
        }
        let done = worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        // One may have come in the last moment.
        while let Some(came) = signals.next(Some(Instant::now()))? {
            asked = asked.or(Some(came.signal).filter(|signal| ENDING.contains(signal)));
        }
        Ok((done, asked))
    })
}

impl Supervised {
    /// Begins the command.
    pub fn start(
        command: &[String],
        folder: &Path,
        variables: &[(&str, &OsStr)],
        streams: Streams,
        signals: Signals,
    ) -> io::Result<Self> {
        let [program, arguments @ ..] = command else {
            return Err(io::Error::other("no command"));
        };
        let mut how = Command::new(program);
        how.args(arguments).current_dir(folder).envs(variables.iter().copied());
        let our_stderr = || io::stderr().as_fd().try_clone_to_owned();
        let mut both = None;
        if streams.keep && (streams.stdout_to_stderr || lead_to_one_place()) {
            // One pipe keeps the order of what is written to either stream.
            let (from, to) = pipe_with(PipeFlags::CLOEXEC)?;
            how.stdout(Stdio::from(to.try_clone()?)).stderr(Stdio::from(to));
            both = Some(from);
        } else if streams.keep {
            how.stdout(Stdio::piped()).stderr(Stdio::piped());
        } else if streams.stdout_to_stderr {
            how.stdout(Stdio::from(our_stderr()?));
        }
        let mut child = how.spawn()?;
        // Only the command may hold the pipe, or its end is never seen.
        drop(how);
        let pid = Pid::from_child(&child);
        let tail = Arc::new(Mutex::new(Tail::default()));
        let mut copiers = Vec::new();
        let mut copy = |stream: Stream, from: OwnedFd, to: OwnedFd| -> io::Result<()> {
            copiers.push(Copier::start(stream, from, to, tail.clone())?);
            Ok(())
        };
        if let (Some(stdout), Some(stderr)) = (child.stdout.take(), child.stderr.take()) {
            let our_stdout = io::stdout().as_fd().try_clone_to_owned()?;
            copy(Stream::Stdout, stdout.into(), our_stdout)?;
            copy(Stream::Stderr, stderr.into(), our_stderr()?)?;
        }
        if let Some(from) = both {
            copy(Stream::Stderr, from, our_stderr()?)?;
        }
        Ok(Self { child, pid, signals, copiers, tail })
    }

    /// Its process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits until it ends, however long that takes. Signals that are meant for it are passed on.
    pub fn wait(
        self,
        on_terminate: &Arc<impl OnTerminate + Send + Sync + 'static>,
    ) -> io::Result<(Ended, Vec<String>)> {
        let mut saving: Option<Saving> = None;
        let ended = loop {
            let until = saving.as_ref().and_then(|saving| saving.until);
            let came = self.signals.next(until)?;
            if let Some(saving) = &mut saving {
                saving.look(&**on_terminate);
            }
            match came {
                None => {}
                Some(Came { signal: SIGCHLD, .. }) => {
                    if let Some(ended) = self.look()? {
                        break ended;
                    }
                }
                Some(came) => {
                    self.pass_on(came);
                    if matches!(came.signal, SIGTERM | SIGHUP) && saving.is_none() {
                        saving = Some(Saving::start(on_terminate.clone(), &self.signals)?);
                    }
                }
            }
        };
        for copier in self.copiers {
            copier.finish();
        }
        let lines = self.tail.lock().unwrap_or_else(PoisonError::into_inner).redacted();
        Ok((ended, lines))
    }

    /// Passes a signal on, unless the terminal has sent it to the command already.
    fn pass_on(&self, came: Came) {
        // Where it has just ended, nobody is left to be told; no other process has its number
        // before we have waited for it.
        if let Some(signal) = Signal::from_named_raw(came.signal).filter(|_| !came.from_terminal) {
            let _ = kill_process(self.pid, signal);
        }
    }

    /// What became of it. Where it has stopped, we stop too.
    fn look(&self) -> io::Result<Option<Ended>> {
        loop {
            let how = WaitOptions::NOHANG | WaitOptions::UNTRACED;
            let status = match waitpid(Some(self.pid), how) {
                Ok(Some((_, status))) => status,
                Ok(None) => return Ok(None),
                Err(rustix::io::Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            };
            if status.stopped() {
                if is_under_job_control() && self.is_stopped() {
                    signals::stop();
                    // The shell continues the whole group. Somebody else may have continued only
                    // us.
                    if self.is_stopped() {
                        let _ = kill_process(self.pid, Signal::CONT);
                    }
                }
                continue;
            }
            return Ok(Some(Ended {
                code: status.exit_status(),
                signal: status.terminating_signal(),
            }));
        }
    }

    /// Whether it is stopped at this moment: it may have gone on since.
    fn is_stopped(&self) -> bool {
        let path = format!("/proc/{}/stat", self.child.id());
        let Ok(stat) = std::fs::read_to_string(path) else { return !cfg!(target_os = "linux") };
        stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('T'))
    }
}

/// Whether our stdout and stderr are the same file, as on a terminal.
fn lead_to_one_place() -> bool {
    let place = |stream: BorrowedFd<'_>| {
        rustix::fs::fstat(stream).map(|stat| (stat.st_dev, stat.st_ino, stat.st_rdev))
    };
    let (stdout, stderr) = (place(io::stdout().as_fd()), place(io::stderr().as_fd()));
    stdout.is_ok() && stdout == stderr
}

/// Whether a shell is there that would continue us. Otherwise we would stop for ever.
fn is_under_job_control() -> bool {
    let Some(parent) = getppid() else { return false };
    let ours = (getsid(None), getpgid(None));
    let (Ok(session), Ok(group)) = ours else { return false };
    getsid(Some(parent)) == Ok(session) && getpgid(Some(parent)).is_ok_and(|of| of != group)
}

/// A save that is under way since a request to terminate.
struct Saving {
    done: std::sync::mpsc::Receiver<()>,
    /// The moment at which it is late; nothing once the user was told how it went.
    until: Option<Instant>,
}

impl Saving {
    fn start(
        on_terminate: Arc<impl OnTerminate + Send + Sync + 'static>,
        signals: &Signals,
    ) -> io::Result<Self> {
        let (tell, done) = std::sync::mpsc::channel();
        let waker = signals.waker()?;
        std::thread::spawn(move || {
            on_terminate.save();
            // Where nobody waits any more, the save was made all the same.
            let _ = tell.send(());
            waker.wake();
        });
        Ok(Self { done, until: Some(Instant::now() + SAVE_WITHIN) })
    }

    fn look(&mut self, on_terminate: &impl OnTerminate) {
        let Some(until) = self.until else { return };
        if self.done.try_recv().is_ok() {
            on_terminate.saved();
            self.until = None;
        } else if Instant::now() >= until {
            on_terminate.late();
            self.until = None;
        }
    }
}
