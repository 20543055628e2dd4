//! The processes above this one, as far as the system tells: an agent that does not name its process
//! is found there.

use rustix::process::{Pid, getppid};

/// An agent is no further away: a shell, perhaps a wrapper, the agent.
const LEVELS: usize = 8;

/// The nearest process above this one whose command line is as asked for.
pub fn nearest(is_meant: impl Fn(&[&str]) -> bool) -> Option<u32> {
    let mut pid = getppid()?;
    for _ in 0..LEVELS {
        let line = command_line(pid).unwrap_or_default();
        let words: Vec<&str> = line.split('\0').filter(|word| !word.is_empty()).collect();
        if is_meant(&words) {
            return u32::try_from(pid.as_raw_nonzero().get()).ok();
        }
        pid = parent_of(pid)?;
    }
    None
}

/// The words of a process's command line, each ended by a zero byte.
fn command_line(pid: Pid) -> Option<String> {
    let line = std::fs::read(format!("/proc/{}/cmdline", pid.as_raw_nonzero())).ok()?;
    Some(String::from_utf8_lossy(&line).into_owned())
}

/// The process that started another one.
pub fn parent_of(pid: Pid) -> Option<Pid> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero())).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("PPid:"))?;
    Pid::from_raw(line.trim().parse().ok()?)
}
