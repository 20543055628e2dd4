//! `rappel run` in a real terminal, with a shell that has job control: signals, ^Z, resize, a
//! command that crashes. Each holds as if the command ran alone.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may")]

mod support;

use std::process::{Command, Output};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use support::World;

/// Far longer than anything here takes; only a test that fails waits for it.
const LIMIT: Duration = Duration::from_secs(120);

/// Says which signals it gets; asked to terminate, it ends with 7.
const LISTENER: &str = "\
trap 'echo GOT-WINCH $(stty size)' WINCH
trap 'echo GOT-INT' INT
trap 'echo GOT-CONT' CONT
trap 'echo GOT-USR1' USR1
trap 'echo GOT-TERM; exit 7' TERM
echo READY $$ $(stty size) $(test -t 0 && echo a-terminal)
while :; do sleep 0.05; done
";

/// A terminal with bash in it.
struct Terminal<'w> {
    world: &'w World,
}

impl<'w> Terminal<'w> {
    fn open(world: &'w World) -> Self {
        std::fs::write(world.project.outside().join("listener"), LISTENER).unwrap();
        let terminal = Self { world };
        let size = ["-x", "80", "-y", "24"];
        let shell = ["bash", "--norc", "--noprofile"];
        let words = [&["-f", "/dev/null", "new-session", "-d"], &size[..], &shell[..]].concat();
        let started = terminal.tmux(&words);
        assert!(started.status.success(), "{started:?}");
        terminal.type_line("PS1='$ '; bind 'set enable-bracketed-paste off'; clear; echo OPEN");
        terminal.wait_for("\nOPEN");
        terminal
    }

    fn tmux(&self, words: &[&str]) -> Output {
        let mut command = Command::new("tmux");
        command.args(["-S"]).arg(self.world.project.outside().join("tmux"));
        command.args(words).current_dir(self.world.project.root()).env_remove("TMUX");
        for (name, value) in self.world.command(&["x"]).get_envs() {
            command.env(name, value.unwrap());
        }
        command.env("TERM", "xterm").env("SHELL", "/bin/sh").output().unwrap()
    }

    fn type_line(&self, line: &str) {
        self.tmux(&["send-keys", "-l", line]);
        self.tmux(&["send-keys", "Enter"]);
    }

    fn press(&self, key: &str) {
        self.tmux(&["send-keys", key]);
    }

    fn shown(&self) -> String {
        let output = self.tmux(&["capture-pane", "-p", "-J", "-S", "-500"]);
        format!("\n{}", String::from_utf8_lossy(&output.stdout))
    }

    /// What the terminal shows, once it shows that.
    fn wait_for(&self, words: &str) -> String {
        let start = Instant::now();
        loop {
            let shown = self.shown();
            if shown.contains(words) {
                return shown;
            }
            assert!(start.elapsed() < LIMIT, "{words:?} never came:\n{shown}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Runs the listener below `rappel run`; the supervisor's process.
    fn listen(&self, flags: &str) -> Pid {
        let rappel = env!("CARGO_BIN_EXE_rappel");
        let listener = self.world.project.outside().join("listener");
        self.type_line(&format!("{rappel} run {flags} -- bash {}", listener.display()));
        let shown = self.wait_for("\nREADY ");
        let ready = shown.lines().find_map(|line| line.strip_prefix("READY ")).unwrap();
        let pid: u32 = ready.split(' ').next().unwrap().parse().unwrap();
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        let parent = stat.rsplit_once(')').unwrap().1.split_whitespace().nth(1).unwrap();
        Pid::from_raw(parent.parse().unwrap()).unwrap()
    }
}

impl Drop for Terminal<'_> {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}

#[test]
fn the_terminal_is_the_commands_own() {
    let world = World::new();
    let terminal = Terminal::open(&world);
    let run = terminal.listen("--interval 1h");
    let shown = terminal.shown();
    assert!(shown.contains(" 24 80 a-terminal"), "{shown}");

    terminal.tmux(&["resize-window", "-x", "100", "-y", "30"]);
    terminal.wait_for("GOT-WINCH 30 100");
    terminal.press("C-c");
    terminal.wait_for("GOT-INT");

    terminal.press("C-z");
    terminal.wait_for("Stopped");
    terminal.type_line("jobs %1 && echo SHELL-$((40+2))");
    terminal.wait_for("SHELL-42");
    let state = |pid: Pid| {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap();
        stat.rsplit_once(')').unwrap().1.split_whitespace().next().unwrap().to_owned()
    };
    assert_eq!(state(run), "T", "we stop when the command stops");
    terminal.type_line("fg");
    terminal.wait_for("GOT-CONT");

    // What another process sends to us is meant for the command.
    kill_process(run, Signal::USR1).unwrap();
    terminal.wait_for("GOT-USR1");
    kill_process(run, Signal::TERM).unwrap();
    terminal.wait_for("GOT-TERM");
    terminal.wait_for("Exit code 7");
    terminal.type_line("echo CODE-$?");
    let shown = terminal.wait_for("\nCODE-7");
    // The terminal's own signals reached it once: we did not pass them on a second time.
    for signal in ["GOT-INT", "GOT-USR1", "GOT-TERM"] {
        assert_eq!(shown.matches(&format!("{signal}\n")).count(), 1, "{signal}: {shown}");
    }
}

#[test]
fn a_command_that_crashes_leaves_the_shell_as_alone() {
    let world = World::new();
    let terminal = Terminal::open(&world);
    let rappel = env!("CARGO_BIN_EXE_rappel");
    terminal.type_line(&format!("{rappel} run -- sh -c 'echo x > x.txt; kill -SEGV $$'"));
    terminal.wait_for("Killed by signal 11 (SEGV)");
    terminal.wait_for("Segmentation fault");
    terminal.type_line("echo CODE-$?");
    terminal.wait_for("\nCODE-139");
    let list = world.json(&["list", "1"]);
    assert_eq!(list["checkpoints"][0]["trigger"], "session-end");
    assert_eq!(list["checkpoints"][0]["files"]["added"], 1);
}

#[test]
fn a_terminal_that_is_closed_leaves_a_last_checkpoint() {
    let world = World::new();
    let terminal = Terminal::open(&world);
    let run = terminal.listen("--session closed");
    std::fs::write(world.project.path("late.txt"), "late").unwrap();
    terminal.tmux(&["kill-server"]);
    // Bash without a handler of its own dies by the hangup, and so do we.
    let start = Instant::now();
    while std::path::Path::new(&format!("/proc/{}", run.as_raw_nonzero())).exists() {
        assert!(start.elapsed() < LIMIT, "the run goes on without a terminal");
        std::thread::sleep(Duration::from_millis(20));
    }
    let held = world.run(&["cat", "latest:late.txt"]);
    assert_eq!(String::from_utf8_lossy(&held.stdout), "late");
    let session = world.json(&["session", "show", "closed"])["session"].take();
    assert_eq!(session["exit"]["signal"], json!(1), "{session}");
    assert_eq!(world.json(&["recover"])["sessions"], json!([]));
}
