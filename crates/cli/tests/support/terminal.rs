//! The binary on a terminal that a test types into.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::process::{Child, Stdio};

use rustix::fs::OFlags;
pub use rustix::process::Signal;
use rustix::process::{Pid, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use super::World;

/// What came of it: the exit code (-1 if a signal ended it), and everything that the terminal showed.
pub struct Shown {
    pub code: i32,
    pub text: String,
}

impl World {
    /// Runs it on a terminal. Each pair is what to wait for, and what to type then.
    pub fn on_terminal(&self, arguments: &[&str], script: &[(&str, &str)]) -> Shown {
        let (child, mut master) = self.spawn_on_terminal(arguments);
        let mut script = script.iter();
        let mut next = script.next();
        let mut seen = 0;
        let shown = watch(child, &mut master, |text, master, _| {
            while let Some((prompt, answer)) = next
                && let Some(at) = text[seen..].find(prompt)
            {
                seen += at + prompt.len();
                (&*master).write_all(answer.as_bytes()).unwrap();
                next = script.next();
            }
        });
        assert!(next.is_none(), "never asked {next:?}; it said:\n{}", shown.text);
        shown
    }

    /// Runs it on a terminal and sends it a signal once it has said something.
    pub fn signalled_on_terminal(&self, arguments: &[&str], said: &str, signal: Signal) -> Shown {
        let (child, mut master) = self.spawn_on_terminal(arguments);
        let mut sent = false;
        let shown = watch(child, &mut master, |text, _, child| {
            if !sent && text.contains(said) {
                kill_process(Pid::from_child(child), signal).unwrap();
                sent = true;
            }
        });
        assert!(sent, "it never said {said:?}, but:\n{}", shown.text);
        shown
    }

    fn spawn_on_terminal(&self, arguments: &[&str]) -> (Child, File) {
        let master: OwnedFd = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let size = Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&master, size).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let slave = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(OFlags::NOCTTY.bits().cast_signed())
            .open(name.to_str().unwrap())
            .unwrap();
        let stdio = || Stdio::from(slave.try_clone().unwrap());
        let mut command = self.command(arguments);
        command.env("NO_COLOR", "1").env("TERM", "xterm");
        let child = command.stdin(stdio()).stdout(stdio()).stderr(stdio()).spawn().unwrap();
        // Only the child may hold the other end, or the end of its output is never seen.
        drop((command, slave));
        (child, File::from(master))
    }
}

/// Reads what the terminal shows until nobody holds its other end; `react` sees all of it each time something comes.
fn watch(mut child: Child, master: &mut File, mut react: impl FnMut(&str, &File, &Child)) -> Shown {
    let mut text = String::new();
    let mut buffer = [0; 4096];
    // Linux answers with EIO once nobody holds the other end.
    while let Ok(count) = master.read(&mut buffer)
        && count > 0
    {
        text.push_str(&String::from_utf8_lossy(&buffer[..count]));
        react(&text, master, &child);
    }
    let code = child.wait().unwrap().code().unwrap_or(-1);
    Shown { code, text: text.replace("\r\n", "\n") }
}
