//! The whole terminal, for as long as a full-screen view is there. However it ends (a key, an error, a panic, a
//! signal, a terminal that is closed), the terminal is given back as it was.

use std::io;
use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use ratatui::crossterm::event::{self, Event, KeyEvent, KeyEventKind};
use ratatui::{DefaultTerminal, Frame};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};

use crate::errors::{Failure, Result};

/// How soon a signal is noticed while no key is pressed.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
/// How long ending by itself may take.
const GRACE: Duration = Duration::from_secs(1);
const NOW: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

/// The terminal, taken over until this is dropped.
pub struct Screen {
    /// Never dropped: it would complain on a terminal that is gone, and panic because nobody can hear that.
    terminal: ManuallyDrop<DefaultTerminal>,
    signal: Arc<AtomicUsize>,
}

/// Why no key came.
pub enum Pressed {
    /// One did.
    Key(KeyEvent),
    /// The terminal has another size, or something else that asks for drawing again.
    Changed,
    /// The process is asked to end, or the terminal is gone.
    Ended,
}

impl Screen {
    /// Takes the terminal over. A panic gives it back before it is told.
    pub fn open() -> Result<Self> {
        let signal = Arc::new(AtomicUsize::new(0));
        for number in [SIGHUP, SIGINT, SIGQUIT, SIGTERM] {
            // Where a handler cannot be set, the signal ends the process as it always does.
            let _ = signal_hook::flag::register_usize(number, signal.clone(), number as usize);
        }
        // Without it, the process waits for a key.
        let _ = std::thread::Builder::new().spawn(end_without_terminal);
        let terminal = ratatui::try_init().inspect_err(|_| ratatui::restore()).map_err(unusable)?;
        // From now on it is heard that the terminal has another size.
        let _ = event::poll(Duration::ZERO);
        Ok(Self { terminal: ManuallyDrop::new(terminal), signal })
    }

    /// Draws, as long as there is a terminal.
    pub fn draw(&mut self, draw: impl FnOnce(&mut Frame)) -> Result<()> {
        match self.terminal.draw(draw) {
            Err(error) if !is_gone(&NOW) => Err(unusable(error)),
            _ => Ok(()),
        }
    }

    /// Waits for a key.
    pub fn pressed(&self) -> Result<Pressed> {
        loop {
            // Reading from a terminal that is gone would never end.
            if self.signal.load(Ordering::Relaxed) != 0 || is_gone(&NOW) {
                return Ok(Pressed::Ended);
            }
            match event::poll(Duration::ZERO) {
                Ok(false) => {
                    is_gone(&LOOK);
                    continue;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) if is_gone(&NOW) => return Ok(Pressed::Ended),
                Err(error) => return Err(unusable(error)),
                Ok(true) => {}
            }
            return match event::read() {
                Ok(Event::Key(key)) if key.kind != KeyEventKind::Release => Ok(Pressed::Key(key)),
                Ok(_) => Ok(Pressed::Changed),
                Err(_) if is_gone(&NOW) => Ok(Pressed::Ended),
                Err(error) => Err(unusable(error)),
            };
        }
    }

    /// Gives the terminal back, and ends as the signal asked, if one did.
    pub fn close(self) {
        let signal = self.signal.load(Ordering::Relaxed);
        drop(self);
        if signal != 0 {
            let _ = signal_hook::low_level::emulate_default_handler(signal as i32);
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // One that is gone cannot be given back.
        let _ = ratatui::try_restore();
        let _ = self.terminal.show_cursor();
    }
}

/// Waits so long for something to happen on the terminal; whether it was closed.
fn is_gone(wait: &Timespec) -> bool {
    let stdin = io::stdin();
    let mut keys = [PollFd::new(&stdin, PollFlags::IN)];
    // A signal ends the waiting; what it means is looked at by the caller.
    let _ = poll(&mut keys, Some(wait));
    keys[0].revents().intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL)
}

/// Ends the process once the terminal is closed. It ends by itself too, unless the terminal goes while a key is read:
/// crossterm would read its end for ever.
fn end_without_terminal() {
    let stdin = io::stdin();
    loop {
        let mut closed = [PollFd::new(&stdin, PollFlags::empty())];
        let _ = poll(&mut closed, None);
        if !closed[0].revents().is_empty() {
            std::thread::sleep(GRACE);
            std::process::exit(0);
        }
    }
}

#[allow(clippy::needless_pass_by_value, reason = "for `map_err`")]
fn unusable(error: io::Error) -> Failure {
    Failure::failed(format!("cannot use the terminal: {error}"))
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::process::Command;

    use super::*;
    use crate::pty::OnTerminal;

    /// Set in the process that has the terminal.
    const ON_TERMINAL: &str = "RAPPEL_TEST_ON_TERMINAL";

    #[test]
    fn a_panic_gives_the_terminal_back_before_it_is_told() {
        if std::env::var_os(ON_TERMINAL).is_some() {
            let screen = Screen::open().unwrap();
            screen.pressed().unwrap();
            panic!("as if something were wrong");
        }
        let mut command = Command::new(std::env::current_exe().unwrap());
        let name = "screen::tests::a_panic_gives_the_terminal_back_before_it_is_told";
        command.args(["--exact", name, "--nocapture"]).env(ON_TERMINAL, "1");
        let mut typed = false;
        let shown = OnTerminal::start(command).watch(|text, mut master, _| {
            if !typed && text.contains("\u{1b}[?1049h") {
                master.write_all(b"x").unwrap();
                typed = true;
            }
        });
        let (left, told) = (shown.text.find("\u{1b}[?1049l"), shown.text.find("as if something"));
        assert!(left.is_some() && left < told, "{shown:?}");
        assert!(shown.changed && shown.as_before && shown.code != 0, "{shown:?}");
    }
}
