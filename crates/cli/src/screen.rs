//! The whole terminal, for as long as a full-screen view is there. However it ends (a key, an error, a panic, a
//! signal), the terminal is given back as it was.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use ratatui::crossterm::event::{self, Event, KeyEvent, KeyEventKind};
use ratatui::{DefaultTerminal, Frame};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};

use crate::errors::{Failure, Result};

/// How soon a signal is noticed while no key is pressed.
const LOOK: Duration = Duration::from_millis(100);

/// The terminal, taken over until this is dropped.
pub struct Screen {
    terminal: DefaultTerminal,
    signal: Arc<AtomicUsize>,
}

/// Why no key came.
pub enum Pressed {
    /// One did.
    Key(KeyEvent),
    /// The terminal has another size, or something else that asks for drawing again.
    Changed,
    /// The process is asked to end.
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
        let terminal = ratatui::try_init().inspect_err(|_| ratatui::restore()).map_err(unusable)?;
        Ok(Self { terminal, signal })
    }

    /// Draws.
    pub fn draw(&mut self, draw: impl FnOnce(&mut Frame)) -> Result<()> {
        self.terminal.draw(draw).map(|_| ()).map_err(unusable)
    }

    /// Waits for a key.
    pub fn pressed(&self) -> Result<Pressed> {
        loop {
            if self.signal.load(Ordering::Relaxed) != 0 {
                return Ok(Pressed::Ended);
            }
            match event::poll(LOOK) {
                Ok(false) => continue,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(unusable(error)),
                Ok(true) => {}
            }
            return match event::read().map_err(unusable)? {
                Event::Key(key) if key.kind != KeyEventKind::Release => Ok(Pressed::Key(key)),
                _ => Ok(Pressed::Changed),
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
        ratatui::restore();
    }
}

#[allow(clippy::needless_pass_by_value, reason = "for `map_err`")]
fn unusable(error: io::Error) -> Failure {
    Failure::failed(format!("cannot use the terminal: {error}"))
}
