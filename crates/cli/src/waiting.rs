//! Waiting for a moment of the clock, for changes of a few files, and for processes to end, all at
//! once and without waking up for anything else.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::Child;

use rappel_types::Timestamp;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::inotify;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

/// What is waited for.
pub struct Waiting {
    timer: OwnedFd,
    files: OwnedFd,
}

/// A process that was started, and ends some time.
pub struct Running {
    child: Child,
    end: Option<OwnedFd>,
}

impl Running {
    /// Waits for a process from now on.
    pub fn new(child: Child) -> Self {
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let end = pid.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
        Self { child, end }
    }

    /// Whether it has ended.
    pub fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }
}

impl Waiting {
    /// Nothing is waited for yet.
    pub fn new() -> io::Result<Self> {
        let timer = timerfd_create(TimerfdClockId::Realtime, TimerfdFlags::CLOEXEC)?;
        let flags = inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK;
        Ok(Self { timer, files: inotify::init(flags)? })
    }

    /// Wakes when a folder gets another entry, or a file changes, is replaced or removed. One that is
    /// not there is not waited for.
    pub fn watch(&self, path: &Path) {
        use inotify::WatchFlags as On;
        let changes = On::CREATE
            | On::MOVED_TO
            | On::CLOSE_WRITE
            | On::ATTRIB
            | On::MOVE_SELF
            | On::DELETE_SELF;
        let _ = inotify::add_watch(&self.files, path, changes);
    }

    /// Waits until a moment of the wall clock, a change of a file, the end of a process, or a change
    /// of the clock itself. A machine that sleeps meanwhile wakes it late, not never.
    pub fn until<'r>(
        &self,
        moment: Timestamp,
        running: impl Iterator<Item = &'r Running>,
    ) -> io::Result<()> {
        let millis = moment.as_millis().max(1);
        let at = Itimerspec {
            it_interval: Timespec { tv_sec: 0, tv_nsec: 0 },
            it_value: Timespec { tv_sec: millis / 1000, tv_nsec: millis % 1000 * 1_000_000 },
        };
        let flags = TimerfdTimerFlags::ABSTIME | TimerfdTimerFlags::CANCEL_ON_SET;
        timerfd_settime(&self.timer, flags, &at)?;
        let ends = running.filter_map(|one| one.end.as_ref());
        let all = [&self.timer, &self.files].into_iter().chain(ends);
        let mut all: Vec<PollFd<'_>> =
            all.map(|fd| PollFd::from_borrowed_fd(fd.as_fd(), PollFlags::IN)).collect();
        match poll(&mut all, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        drop(all);
        self.forget();
        Ok(())
    }

    /// What was told of files is not told again.
    fn forget(&self) {
        let mut buffer = [const { MaybeUninit::<u8>::uninit() }; 4096];
        let mut told = inotify::Reader::new(&self.files, &mut buffer);
        while told.next().is_ok() {}
    }
}
