//! Signals as values: which one, and whether the terminal or another process sent it.
//!
//! For `rappel run` alone. Its command is in the same process group, so what the terminal sends has
//! reached the command already, and what another process sends has not. Only the kernel's note
//! beside a signal tells the two apart, and only a handler of one's own sees that note.
#![allow(unsafe_code, reason = "a handler that sees who sent a signal is set by sigaction alone")]

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pipe::{PipeFlags, pipe_with};

/// What the handler writes to.
static PIPE: AtomicI32 = AtomicI32::new(-1);

/// A signal that came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Came {
    /// Which; 0 if only [`Waker::wake`] was called.
    pub signal: i32,
    /// The terminal sent it, to the whole process group.
    pub from_terminal: bool,
}

/// The signals of this process, from [`Signals::listen`] on.
pub struct Signals {
    read: OwnedFd,
    write: OwnedFd,
}

/// Makes [`Signals::next`] return. For other threads.
pub struct Waker(OwnedFd);

impl Waker {
    /// Does it.
    pub fn wake(&self) {
        // A full pipe wakes as well.
        let _ = rustix::io::write(&self.0, &[0, 0]);
    }
}

impl Signals {
    /// Takes these signals from now on, but for those that this process was told to ignore: the
    /// command ignores them too, as if it ran alone.
    pub fn listen(signals: &[i32]) -> io::Result<Self> {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        PIPE.store(write.as_raw_fd(), Ordering::SeqCst);
        for signal in signals {
            // SAFETY: both structures are plain values, and the handler only calls what a handler
            // may call.
            unsafe {
                let mut old: libc::sigaction = std::mem::zeroed();
                if libc::sigaction(*signal, std::ptr::null(), &raw mut old) != 0 {
                    return Err(io::Error::last_os_error());
                }
                if old.sa_sigaction == libc::SIG_IGN && *signal != libc::SIGCHLD {
                    continue;
                }
                let mut new: libc::sigaction = std::mem::zeroed();
                new.sa_sigaction = note as *const () as usize;
                new.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
                if libc::sigaction(*signal, &raw const new, std::ptr::null_mut()) != 0 {
                    return Err(io::Error::last_os_error());
                }
            }
        }
        Ok(Self { read, write })
    }

    /// The next one; nothing if `until` comes first.
    pub fn next(&self, until: Option<Instant>) -> io::Result<Option<Came>> {
        loop {
            let mut two = [0_u8; 2];
            match rustix::io::read(&self.read, &mut two) {
                Ok(2) => {
                    let [signal, from_terminal] = two;
                    return Ok(Some(Came {
                        signal: i32::from(signal),
                        from_terminal: from_terminal != 0,
                    }));
                }
                Ok(_) | Err(rustix::io::Errno::INTR) => continue,
                Err(rustix::io::Errno::AGAIN) => {}
                Err(error) => return Err(error.into()),
            }
            let rest = until.map(|until| until.saturating_duration_since(Instant::now()));
            if rest == Some(Duration::ZERO) {
                return Ok(None);
            }
            let rest = rest.map(|rest| Timespec {
                tv_sec: i64::try_from(rest.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: rest.subsec_nanos().into(),
            });
            match poll(&mut [PollFd::new(&self.read, PollFlags::IN)], rest.as_ref()) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// For another thread.
    pub fn waker(&self) -> io::Result<Waker> {
        Ok(Waker(self.write.try_clone()?))
    }
}

/// The handler: writes down what came. Two bytes are written at once or not at all.
extern "C" fn note(signal: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: `write` may be called here, the note is the kernel's, and `errno` is put back.
    unsafe {
        let errno = errno_place();
        let kept = *errno;
        // What the kernel itself sends has a positive code; a terminal of another system names no
        // sender.
        let from_terminal = !info.is_null() && ((*info).si_code > 0 || (*info).si_pid() == 0);
        let two = [u8::try_from(signal).unwrap_or(0), u8::from(from_terminal)];
        libc::write(PIPE.load(Ordering::SeqCst), two.as_ptr().cast(), two.len());
        *errno = kept;
    }
}

#[cfg(target_os = "linux")]
unsafe fn errno_place() -> *mut libc::c_int {
    // SAFETY: it only tells an address.
    unsafe { libc::__errno_location() }
}

#[cfg(not(target_os = "linux"))]
unsafe fn errno_place() -> *mut libc::c_int {
    // SAFETY: it only tells an address.
    unsafe { libc::__error() }
}

/// Ends this process by a signal, as the command ended: whoever waits sees the same. Comes back
/// only if that signal does not end a process.
pub fn die_by(signal: i32) {
    // SAFETY: plain calls with plain values; nothing else of this process goes on.
    unsafe {
        // The command has left its core already.
        let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        libc::setrlimit(libc::RLIMIT_CORE, &raw const none);
        libc::signal(signal, libc::SIG_DFL);
        let mut only: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut only);
        libc::sigaddset(&raw mut only, signal);
        libc::sigprocmask(libc::SIG_UNBLOCK, &raw const only, std::ptr::null_mut());
        libc::raise(signal);
    }
}

/// Stops this process until somebody continues it.
pub fn stop() {
    // SAFETY: a plain call.
    unsafe {
        libc::raise(libc::SIGSTOP);
    }
}
