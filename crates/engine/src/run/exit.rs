//! How a command ended: its exit code, the signal, and whether the kernel ran out of memory.

use std::path::{Path, PathBuf};

use rappel_store::held;
use rappel_types::agents::payload::CommandExit;

/// Counts the processes that the kernel kills for lack of memory, from the moment it is made.
#[derive(Debug)]
pub struct OomCounter {
    root: PathBuf,
    /// The control group's own file, where there is one.
    group: Option<PathBuf>,
    before: u64,
    machine_before: u64,
}

impl OomCounter {
    /// Begins to count for the control group of this process.
    pub fn start() -> Self {
        Self::start_in(Path::new("/"))
    }

    /// The same below another root.
    fn start_in(root: &Path) -> Self {
        let group = group_file(root);
        let before = group.as_deref().and_then(oom_kills).unwrap_or_default();
        let machine_before = oom_kills(&root.join("proc/vmstat")).unwrap_or_default();
        Self { root: root.to_owned(), group, before, machine_before }
    }

    /// How many there were. Where the control group does not tell, those of the whole machine count
    /// if the command itself was killed (`killed`).
    pub fn kills(&self, killed: bool) -> u64 {
        if let Some(now) = self.group.as_deref().and_then(oom_kills) {
            return now.saturating_sub(self.before);
        }
        let machine = oom_kills(&self.root.join("proc/vmstat")).unwrap_or_default();
        if killed { machine.saturating_sub(self.machine_before) } else { 0 }
    }
}

/// The number behind `oom_kill` in one of the kernel's files.
fn oom_kills(path: &Path) -> Option<u64> {
    let text = held::read_to_string(path).ok()?;
    text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
}

/// The file in which the control group of this process counts, for both versions of groups.
fn group_file(root: &Path) -> Option<PathBuf> {
    let groups = held::read_to_string(root.join("proc/self/cgroup")).ok()?;
    let mounted = root.join("sys/fs/cgroup");
    let files = groups.lines().filter_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (kind, group) = (parts.next()?, parts.next()?.trim_start_matches('/'));
        match kind.split(',').any(|kind| kind == "memory") {
            true => Some(mounted.join("memory").join(group).join("memory.oom_control")),
            false if kind.is_empty() => Some(mounted.join(group).join("memory.events")),
            false => None,
        }
    });
    files.into_iter().find(|path| oom_kills(path).is_some())
}

/// How a command ended, in words.
pub fn describe_exit(exit: &CommandExit) -> String {
    let mut text = match (exit.signal, exit.code) {
        (Some(signal), _) => format!("killed by signal {signal}{}", signal_name(signal)),
        (None, Some(code)) => format!("exit code {code}"),
        (None, None) => "its end is not known".to_owned(),
    };
    match exit.oom_kills {
        0 => {}
        1 => text.push_str("; the kernel killed a process for lack of memory"),
        many => {
            text.push_str(&format!("; the kernel killed {many} processes for lack of memory"));
        }
    }
    text
}

fn signal_name(signal: i32) -> String {
    let name = match signal {
        1 => "HUP",
        2 => "INT",
        3 => "QUIT",
        4 => "ILL",
        6 => "ABRT",
        8 => "FPE",
        9 => "KILL",
        11 => "SEGV",
        13 => "PIPE",
        14 => "ALRM",
        15 => "TERM",
        _ => return String::new(),
    };
    format!(" ({name})")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        root
    }

    #[test]
    fn the_control_group_tells_what_it_killed() {
        for (groups, path) in [
            ("0::/user/agent\n", "sys/fs/cgroup/user/agent/memory.events"),
            ("5:cpu:/\n4:memory:/a\n", "sys/fs/cgroup/memory/a/memory.oom_control"),
        ] {
            let root = machine(&[("proc/self/cgroup", groups), (path, "oom 9\noom_kill 2\n")]);
            let counter = OomCounter::start_in(root.path());
            assert_eq!(counter.kills(true), 0);
            std::fs::write(root.path().join(path), "oom 12\noom_kill 5\n").unwrap();
            assert_eq!(counter.kills(false), 3, "{groups}");
        }
    }

    #[test]
    fn without_a_group_the_machine_counts_only_for_a_command_that_was_killed() {
        let root = machine(&[("proc/vmstat", "nr 1\noom_kill 7\n")]);
        let counter = OomCounter::start_in(root.path());
        std::fs::write(root.path().join("proc/vmstat"), "oom_kill 8\n").unwrap();
        assert_eq!((counter.kills(true), counter.kills(false)), (1, 0));
        assert_eq!(OomCounter::start_in(Path::new("/nowhere")).kills(true), 0);
    }

    #[test]
    fn an_end_in_words() {
        let words = |code, signal, oom_kills| {
            describe_exit(&CommandExit { code, signal, oom_kills, ..CommandExit::default() })
        };
        assert_eq!(words(Some(3), None, 0), "exit code 3");
        assert_eq!(
            words(None, Some(9), 1),
            "killed by signal 9 (KILL); the kernel killed a process for lack of memory"
        );
    }
}
