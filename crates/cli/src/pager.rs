//! A pager for answers that are longer than the screen: the user's, or `less`.
//!
//! Whatever becomes of the pager, the command ends as it would have without one. A pager that
//! cannot be run is as good as none.

use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::Arc;

use rustix::termios::tcgetwinsize;
use signal_hook::consts::{SIGINT, SIGQUIT};

/// What a shell exits with if it cannot run a command.
const CANNOT_RUN: [i32; 2] = [126, 127];
/// More than a pipe holds: a program that took more has read something, so it was run.
const PIPE_MAX: usize = 1 << 20;

/// What to run.
pub struct Pager {
    program: OsString,
    arguments: Vec<OsString>,
    /// `less` is told by a variable what it is not told by arguments.
    tell_less: bool,
}

impl Default for Pager {
    fn default() -> Self {
        Self { program: "less".into(), arguments: vec!["-FRX".into()], tell_less: false }
    }
}

impl Pager {
    /// A command line as `PAGER` has it. Plain words are run as they are, so that it is known if
    /// that fails; the shell gets everything else.
    pub fn new(command: &OsStr, tell_less: bool) -> Self {
        let plain = |text: &&str| {
            text.chars().all(|c| c.is_ascii_alphanumeric() || " -_./+:=,@%".contains(c))
                && !text.trim_start().split(' ').next().unwrap_or_default().contains('=')
        };
        let mut words = command.to_str().filter(plain).into_iter().flat_map(str::split_whitespace);
        match words.next() {
            Some(program) => {
                let arguments = words.map(OsString::from).collect();
                Self { program: program.into(), arguments, tell_less }
            }
            None => {
                let arguments = vec!["-c".into(), command.to_owned()];
                Self { program: "sh".into(), arguments, tell_less }
            }
        }
    }

    /// A writer that starts the pager once there is more than the screen holds, and writes to `out`
    /// what fits on it.
    pub fn page<W: Write>(&self, out: W) -> Paged<'_, W> {
        let size = tcgetwinsize(io::stdout()).ok().filter(|size| size.ws_row > 0);
        let (rows, columns) = size.map_or((usize::MAX, usize::MAX), |size| {
            (usize::from(size.ws_row), usize::from(size.ws_col).max(1))
        });
        Paged {
            pager: self,
            out,
            screen: Screen { rows, columns, row: 0, column: 0, escape: false },
            state: State::Fits,
            kept: Vec::new(),
            keeps: true,
            closed: false,
        }
    }

    fn start(&self) -> io::Result<Child> {
        // Ctrl-C is for the pager. A handler, unlike a signal that is ignored, is not inherited.
        for signal in [SIGINT, SIGQUIT] {
            let _ = signal_hook::flag::register(signal, Arc::default());
        }
        let mut command = Command::new(&self.program);
        if self.tell_less {
            command.env("LESS", "FRX");
        }
        command.args(&self.arguments).stdin(Stdio::piped()).spawn()
    }
}

/// An answer on its way to a screen or a pager.
pub struct Paged<'p, W> {
    pager: &'p Pager,
    out: W,
    screen: Screen,
    state: State,
    /// Everything so far, as long as the pager may turn out not to run.
    kept: Vec<u8>,
    keeps: bool,
    closed: bool,
}

enum State {
    /// It fits on the screen so far.
    Fits,
    /// The pager has it.
    Paging(Child, Option<ChildStdin>),
    /// It goes where it would go without a pager.
    Direct,
}

impl<W: Write> Paged<'_, W> {
    /// Whether the pager was left before it had everything.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// Writes what is left, and waits for the pager.
    pub fn finish(&mut self) -> io::Result<()> {
        match std::mem::replace(&mut self.state, State::Direct) {
            State::Fits => self.out.write_all(&std::mem::take(&mut self.kept))?,
            State::Paging(child, stdin) => {
                drop(stdin);
                self.end(child)?;
            }
            State::Direct => {}
        }
        self.out.flush()
    }

    /// Waits for a pager that takes nothing more. Gives what it was given to stdout if it never
    /// ran.
    fn end(&mut self, mut child: Child) -> io::Result<bool> {
        let ran = !child.wait().is_ok_and(could_not_run);
        if !ran && self.keeps {
            self.out.write_all(&std::mem::take(&mut self.kept))?;
        }
        Ok(ran)
    }

    fn hand_over(&mut self, bytes: &[u8]) -> io::Result<()> {
        let State::Paging(_, Some(stdin)) = &mut self.state else { return Ok(()) };
        match stdin.write_all(bytes) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                let State::Paging(child, stdin) = std::mem::replace(&mut self.state, State::Direct)
                else {
                    return Err(error);
                };
                drop(stdin);
                if self.end(child)? {
                    self.closed = true;
                    return Err(error);
                }
                Ok(())
            }
            other => other,
        }
    }
}

impl<W: Write> Write for Paged<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let State::Direct = self.state {
            return self.out.write(bytes);
        }
        if self.keeps {
            self.kept.extend_from_slice(bytes);
        }
        match &self.state {
            State::Fits if self.screen.holds(bytes) => {}
            State::Fits => match self.pager.start() {
                Ok(mut child) => {
                    let stdin = child.stdin.take();
                    self.state = State::Paging(child, stdin);
                    let all = std::mem::take(&mut self.kept);
                    self.kept.clone_from(&all);
                    self.hand_over(&all)?;
                }
                Err(_) => {
                    self.state = State::Direct;
                    self.out.write_all(&std::mem::take(&mut self.kept))?;
                }
            },
            _ => self.hand_over(bytes)?,
        }
        if self.kept.len() > PIPE_MAX && matches!(self.state, State::Paging(..)) {
            self.kept = Vec::new();
            self.keeps = false;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        match self.state {
            State::Direct => self.out.flush(),
            _ => Ok(()),
        }
    }
}

fn could_not_run(status: ExitStatus) -> bool {
    status.code().is_some_and(|code| CANNOT_RUN.contains(&code))
}

/// Where a terminal's cursor would be.
struct Screen {
    rows: usize,
    columns: usize,
    row: usize,
    column: usize,
    escape: bool,
}

impl Screen {
    /// Whether there is room for the prompt below, once this is written too. Wide characters count
    /// as one column.
    fn holds(&mut self, bytes: &[u8]) -> bool {
        for &byte in bytes {
            match byte {
                b'\n' => {
                    self.row += 1;
                    self.column = 0;
                }
                0x1b => self.escape = true,
                _ if self.escape => self.escape = !byte.is_ascii_alphabetic(),
                // The further bytes of a character.
                0x80..=0xbf => {}
                _ => {
                    if self.column == self.columns {
                        self.row += 1;
                        self.column = 0;
                    }
                    self.column += 1;
                }
            }
        }
        self.row < self.rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_screen_holds_what_leaves_a_line_for_the_prompt() {
        let holds = |text: &str| {
            Screen { rows: 3, columns: 4, row: 0, column: 0, escape: false }.holds(text.as_bytes())
        };
        assert!(holds("a\nb\n"));
        assert!(!holds("a\nb\nc\n"));
        assert!(holds("abcd\nb\n"), "a line that just fits is one line");
        assert!(!holds("abcde\nb\n"), "a longer one is two");
        assert!(holds("\u{1b}[31mabcd\u{1b}[0m\nhäus\n"), "neither colours nor bytes are columns");
    }

    #[test]
    fn a_command_line_is_run_as_it_is_or_by_the_shell() {
        let run = |text: &str| {
            let pager = Pager::new(OsStr::new(text), false);
            let mut words = vec![pager.program];
            words.extend(pager.arguments);
            words.iter().map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>()
        };
        assert_eq!(run("less -R"), ["less", "-R"]);
        assert_eq!(run("less | head"), ["sh", "-c", "less | head"]);
        assert_eq!(run("LESS=x less"), ["sh", "-c", "LESS=x less"]);
        assert_eq!(run(" "), ["sh", "-c", " "]);
    }
}
