//! Any program on a terminal that a test types into.

#![allow(dead_code, reason = "each test file uses its part")]
#![allow(clippy::unwrap_used, reason = "tests may")]

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::process::{Child, Command, Stdio};

use rustix::fs::OFlags;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcgetattr, tcsetwinsize};

/// What came of it.
#[derive(Debug)]
pub struct Shown {
    /// The exit code; -1 if a signal ended it.
    pub code: i32,
    /// Everything that the terminal showed.
    pub text: String,
    /// Whether the terminal's settings were others while it ran.
    pub changed: bool,
    /// Whether they are as they were before it ran.
    pub as_before: bool,
}

/// A program on a terminal of its own.
pub struct OnTerminal {
    child: Child,
    master: File,
    before: String,
}

impl OnTerminal {
    /// Starts it. The terminal has 24 lines of 80 columns.
    pub fn start(mut command: Command) -> Self {
        let master: OwnedFd =
            openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        resize(&master, 80, 24);
        let name = ptsname(&master, Vec::new()).unwrap();
        let slave = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(OFlags::NOCTTY.bits().cast_signed())
            .open(name.to_str().unwrap())
            .unwrap();
        let master = File::from(master);
        let before = settings(&master);
        let stdio = || Stdio::from(slave.try_clone().unwrap());
        command.env("NO_COLOR", "1");
        if !command.get_envs().any(|(name, _)| name == "TERM") {
            command.env("TERM", "xterm");
        }
        let child = command.stdin(stdio()).stdout(stdio()).stderr(stdio()).spawn().unwrap();
        // Only the child may hold the other end, or the end of its output is never seen.
        drop((command, slave));
        Self { child, master, before }
    }

    /// Reads what the terminal shows until nobody holds its other end; `react` sees all of it each time something comes.
    pub fn watch(mut self, mut react: impl FnMut(&str, &File, &Child)) -> Shown {
        let mut text = String::new();
        let mut changed = false;
        while self.read(&mut text) {
            changed |= settings(&self.master) != self.before;
            react(&text, &self.master, &self.child);
        }
        let code = self.child.wait().unwrap().code().unwrap_or(-1);
        let as_before = settings(&self.master) == self.before;
        Shown { code, text: text.replace("\r\n", "\n"), changed, as_before }
    }

    /// Closes the terminal once it shows something, and waits for the program to end.
    pub fn hang_up(mut self, said: &str) -> i32 {
        let mut text = String::new();
        while !text.contains(said) {
            assert!(self.read(&mut text), "it never said {said:?}, but:\n{text}");
        }
        drop(self.master);
        self.child.wait().unwrap().code().unwrap_or(-1)
    }

    /// Linux answers with EIO once nobody holds the other end.
    fn read(&mut self, text: &mut String) -> bool {
        let mut buffer = [0; 4096];
        let count = self.master.read(&mut buffer).unwrap_or(0);
        text.push_str(&String::from_utf8_lossy(&buffer[..count]));
        count > 0
    }
}

/// Gives a terminal another size. Who is to know has to be told with a signal: nobody is in charge of this terminal.
pub fn resize(master: impl std::os::fd::AsFd, columns: u16, rows: u16) {
    let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(master, size).unwrap();
}

fn settings(master: &File) -> String {
    format!("{:?}", tcgetattr(master).unwrap())
}
