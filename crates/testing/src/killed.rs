//! Processes that are killed at a chosen step, so that no test has to guess the moment.

use std::collections::HashMap;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

/// What a step is: a system call that changes a file, or says something through a pipe.
const CHANGES: &str = "write,pwrite64,pwritev,ftruncate,fsync,fdatasync,?unlink,unlinkat,?rename,\
                       renameat,renameat2";

/// Runs a process under `strace`, where only changes to some files count, or all if none is named.
#[derive(Debug)]
pub struct Steps {
    files: Vec<PathBuf>,
    log: tempfile::NamedTempFile,
}

/// One change: the `nth` time that a thread makes this system call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    call: String,
    nth: u64,
}

impl Step {
    /// The `nth` time that a thread makes the system call, from 1 on.
    pub fn new(call: &str, nth: u64) -> Self {
        Self { call: call.to_owned(), nth }
    }
}

impl Steps {
    /// Counts the changes to these files; `None` where processes cannot be traced.
    pub fn of(files: impl IntoIterator<Item = PathBuf>) -> Option<Self> {
        let tried = Command::new("strace").args(["-qq", "-e", "trace=none", "true"]).output();
        tried.is_ok_and(|tried| tried.status.success()).then(|| Self {
            files: files.into_iter().collect(),
            log: tempfile::NamedTempFile::new().unwrap(),
        })
    }

    /// The beginning of a command whose steps are written down; the program and its arguments are
    /// to be added.
    pub fn counting(&self) -> Command {
        self.tracing(CHANGES, self.log.path())
    }

    /// The beginning of a command that is killed when it is about to take a step.
    pub fn killing_at(&self, step: &Step) -> Command {
        self.signalling_at(step, "KILL")
    }

    /// The same with another signal.
    pub fn signalling_at(&self, step: &Step, signal: &str) -> Command {
        let Step { call, nth } = step;
        let mut command = self.tracing(call, Path::new("/dev/null"));
        command.arg(format!("--inject={call}:signal={signal}:when={nth}"));
        command
    }

    fn tracing(&self, calls: &str, log: &Path) -> Command {
        let mut command = Command::new("strace");
        // Its threads are followed, other programs that it starts are not.
        command.args(["-f", "-qq", "--detach-on=execve", "-o"]).arg(log);
        command.arg(format!("--trace={calls}"));
        for file in &self.files {
            command.arg("-P").arg(file);
        }
        command
    }

    /// The steps of the busiest thread of the last command that was written down, in order.
    pub fn made(&self) -> Vec<Step> {
        let log = std::fs::read_to_string(self.log.path()).unwrap();
        let mut threads = HashMap::<&str, Vec<Step>>::new();
        for line in log.lines() {
            let (thread, said) = line.split_once(' ').unwrap();
            // A call that another thread comes between is told in two lines; the second has no
            // name.
            let Some((call, _)) = said.trim_start().split_once('(') else { continue };
            let steps = threads.entry(thread).or_default();
            let nth = 1 + steps.iter().filter(|step| step.call == call).count() as u64;
            steps.push(Step { call: call.to_owned(), nth });
        }
        threads.into_values().max_by_key(Vec::len).unwrap_or_default()
    }
}

/// Steps to try out of many: the first and the last ones, and some between.
pub fn some_of(steps: &[Step], ends: usize, between: usize) -> Vec<&Step> {
    let all = steps.iter().enumerate();
    let stride = steps.len() / (between + 1) + 1;
    let is_meant = |at: usize| at < ends || at + ends >= steps.len() || at.is_multiple_of(stride);
    all.filter(|(at, _)| is_meant(*at)).map(|(_, step)| step).collect()
}

/// Whether a process was killed; one that ended in another way has to have succeeded.
pub fn was_killed(status: ExitStatus) -> bool {
    let killed = status.signal() == Some(9) || status.code() == Some(128 + 9);
    assert!(killed || status.success(), "{status}");
    killed
}

/// The files that SQLite changes for one database.
pub fn sqlite_files(database: &Path) -> Vec<PathBuf> {
    ["", "-journal", "-wal"]
        .iter()
        .map(|end| {
            let mut path = database.as_os_str().to_owned();
            path.push(end);
            path.into()
        })
        .collect()
}
