//! Copies what a command writes to where it was meant to go, and keeps its last lines.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use rappel::{Stream, Tail};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};

/// A stream that is being copied.
pub struct Copier {
    thread: JoinHandle<()>,
    /// Closed when the command has ended.
    goes_on: OwnedFd,
}

impl Copier {
    /// Copies from now on.
    pub fn start(
        stream: Stream,
        from: OwnedFd,
        to: OwnedFd,
        tail: Arc<Mutex<Tail>>,
    ) -> io::Result<Self> {
        fcntl_setfl(&from, fcntl_getfl(&from)? | OFlags::NONBLOCK)?;
        let (ended, goes_on) = pipe_with(PipeFlags::CLOEXEC)?;
        let thread = std::thread::spawn(move || copy((stream, &from), &to, &ended, &tail));
        Ok(Self { thread, goes_on })
    }

    /// Copies what the command wrote before it ended. What it left behind may hold the stream open
    /// for as long as it likes; nobody waits for that.
    pub fn finish(self) {
        drop(self.goes_on);
        // A thread that panicked has copied what it could.
        let _ = self.thread.join();
    }
}

fn copy((stream, from): (Stream, &OwnedFd), to: &OwnedFd, ended: &OwnedFd, tail: &Mutex<Tail>) {
    let mut buffer = vec![0; 1 << 16];
    let mut may_write = true;
    loop {
        match rustix::io::read(from, &mut buffer) {
            Ok(0) => return,
            Ok(length) => {
                let bytes = &buffer[..length];
                tail.lock().unwrap_or_else(PoisonError::into_inner).push(stream, bytes);
                may_write = may_write && write_all(to, bytes).is_ok();
                // A reader that is gone ends a command that writes to it, and so it does here.
                if !may_write {
                    return;
                }
                continue;
            }
            Err(Errno::INTR) => continue,
            Err(Errno::AGAIN) => {}
            Err(_) => return,
        }
        let mut both = [PollFd::new(from, PollFlags::IN), PollFd::new(ended, PollFlags::IN)];
        if poll(&mut both, None).is_err_and(|error| error != Errno::INTR) {
            return;
        }
        let (has_more, has_ended) = (both[0].revents(), both[1].revents());
        if has_more.is_empty() && !has_ended.is_empty() {
            return;
        }
    }
}

fn write_all(to: &OwnedFd, mut bytes: &[u8]) -> rustix::io::Result<()> {
    while !bytes.is_empty() {
        match rustix::io::write(to, bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(Errno::INTR) => {}
            // Somebody made our own stream one that does not wait.
            Err(Errno::AGAIN) => {
                let mut ready = [PollFd::new(to, PollFlags::OUT)];
                if poll(&mut ready, None).is_err_and(|error| error != Errno::INTR) {
                    return Err(Errno::IO);
                }
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
