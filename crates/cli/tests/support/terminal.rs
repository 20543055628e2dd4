//! The binary on a terminal that a test types into.

use std::io::Write;

pub use rustix::process::Signal;
use rustix::process::{Pid, kill_process};

use super::World;
pub use super::pty::{OnTerminal, Shown};

impl World {
    /// Runs it on a terminal. Each pair is what to wait for, and what to type then.
    pub fn on_terminal(&self, arguments: &[&str], script: &[(&str, &str)]) -> Shown {
        let mut script = script.iter();
        let mut next = script.next();
        let mut seen = 0;
        let shown = self.start_on_terminal(arguments).watch(|text, master, _| {
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
        let mut sent = false;
        let shown = self.start_on_terminal(arguments).watch(|text, _, child| {
            if !sent && text.contains(said) {
                kill_process(Pid::from_child(child), signal).unwrap();
                sent = true;
            }
        });
        assert!(sent, "it never said {said:?}, but:\n{}", shown.text);
        shown
    }

    /// Starts it on a terminal.
    pub fn start_on_terminal(&self, arguments: &[&str]) -> OnTerminal {
        OnTerminal::start(self.command(arguments))
    }
}
