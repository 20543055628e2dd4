//! A second process that outlives this one: whoever ends the first, or its whole process tree, does
//! not reach it.
//!
//! An agent ends its hooks after a time, and itself whenever it likes. What must be finished all
//! the same is done by a worker: it is started by two forks, so that it has no parent, and leads a
//! session of its own. It holds no stream of the agent's, because the agent would wait for it.

use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pipe::{PipeFlags, pipe_with};

/// Which of the two processes this is, with its end of the pipe between them.
pub enum Side {
    /// The one that was there before.
    Caller(OwnedFd),
    /// The one that outlives it.
    Worker(OwnedFd),
}

/// Starts a worker: this call comes back twice, once in each process.
pub fn start() -> io::Result<Side> {
    // A fork takes along the calling thread alone; locks that others hold would stay locked for
    // ever.
    if std::fs::read_dir("/proc/self/task").is_ok_and(|threads| threads.count() != 1) {
        return Err(io::Error::other("a worker is started before any thread"));
    }
    let (from_worker, to_caller) = pipe_with(PipeFlags::CLOEXEC)?;
    let Some(child) = fork()? else {
        drop(from_worker);
        // Where it is the leader of a session already, it needs no other.
        let _ = rustix::process::setsid();
        match fork() {
            Ok(None) => {}
            other => std::process::exit(i32::from(other.is_err())),
        }
        silence()?;
        return Ok(Side::Worker(to_caller));
    };
    let _ = rustix::process::waitpid(Some(child), rustix::process::WaitOptions::empty());
    Ok(Side::Caller(from_worker))
}

/// The child's process in the parent, nothing in the child.
fn fork() -> io::Result<Option<rustix::process::Pid>> {
    // SAFETY: there is one thread, as `start` makes sure, so the child may do whatever this process
    // may.
    #[allow(unsafe_code, reason = "there is no other way to a process without a parent")]
    let child = unsafe { libc::fork() };
    match child {
        -1 => Err(io::Error::last_os_error()),
        child => Ok(rustix::process::Pid::from_raw(child)),
    }
}

/// Lets go of the streams.
fn silence() -> io::Result<()> {
    let null = std::fs::File::options().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    rustix::stdio::dup2_stderr(&null)?;
    Ok(())
}

/// Whether nobody waits for this worker any more.
pub fn is_alone(to_caller: &OwnedFd) -> bool {
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    let mut pipe = [PollFd::new(to_caller, PollFlags::empty())];
    poll(&mut pipe, Some(&now)).is_ok() && pipe[0].revents().contains(PollFlags::ERR)
}

/// Says something to whoever waits for this worker.
pub fn answer(to_caller: &OwnedFd, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match rustix::io::write(to_caller, bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// What came of waiting for a worker.
pub enum Waited {
    /// What it said.
    Answer(Vec<u8>),
    /// It goes on.
    StillAtWork,
}

/// Waits until the worker has said all that it has to say, at most until then.
pub fn wait(from_worker: &OwnedFd, until: Instant) -> io::Result<Waited> {
    let mut said = Vec::new();
    let mut buffer = [0; 8192];
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if !is_ready(from_worker, left)? {
            return Ok(Waited::StillAtWork);
        }
        match rustix::io::read(from_worker, &mut buffer) {
            Ok(0) => return Ok(Waited::Answer(said)),
            Ok(count) => said.extend_from_slice(&buffer[..count]),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Waits until a process has ended, at most so long.
pub fn wait_for_end(process: &OwnedFd, limit: Duration) -> io::Result<bool> {
    is_ready(process, limit)
}

fn is_ready(pipe: &OwnedFd, limit: Duration) -> io::Result<bool> {
    let limit = Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: limit.subsec_nanos().into() };
    match poll(&mut [PollFd::new(pipe, PollFlags::IN)], Some(&limit)) {
        Ok(ready) => Ok(ready > 0),
        Err(rustix::io::Errno::INTR) => is_ready(pipe, Duration::ZERO),
        Err(error) => Err(error.into()),
    }
}
