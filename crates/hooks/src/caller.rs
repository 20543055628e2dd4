//! How agents call Rappel: the program, and shell lines that run it without ever failing.
//!
//! Each shell line ends with a vendor's mark (`# rappel integrate claude`). By that, and by nothing
//! else, a handler in a settings file is known to be ours.

use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::words;

/// The program that the hooks call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Program {
    /// The one at this path.
    At(PathBuf),
    /// The one that the shell finds, if it finds one.
    OnPath,
}

impl Program {
    /// Whether it is there and may be run. `path` is where a shell looks for programs.
    pub fn is_there(&self, path: &[PathBuf]) -> bool {
        match self {
            Self::At(program) => is_executable(program),
            Self::OnPath => path.iter().any(|folder| is_executable(&folder.join(NAME))),
        }
    }

    /// As a program is named to another one that starts it without a shell.
    pub fn as_text(&self) -> String {
        match self {
            Self::At(path) => path.to_string_lossy().into_owned(),
            Self::OnPath => NAME.to_owned(),
        }
    }
}

const NAME: &str = "rappel";

fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    let found = std::fs::metadata(path);
    found.is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

/// How Rappel is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    program: Program,
    /// The home that the user chose, where it is not the usual one.
    home: Option<PathBuf>,
    /// The one that the environment names, for agents that clean it.
    named_home: Option<PathBuf>,
    /// The program, quoted for a shell.
    word: String,
    /// Flags for every call.
    flags: String,
}

/// A path that cannot stand in a settings file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not UTF-8, and a settings file cannot name it")]
pub struct NotText(pub PathBuf);

impl Caller {
    /// A program, and the home that the user chose for it.
    pub fn new(program: Program, home: Option<PathBuf>) -> Result<Self, NotText> {
        let text =
            |path: &PathBuf| path.to_str().map(words::quote).ok_or_else(|| NotText(path.clone()));
        let word = match &program {
            Program::At(path) => text(path)?,
            Program::OnPath => NAME.to_owned(),
        };
        let flags = home.as_ref().map(|home| Ok(format!(" --home {}", text(home)?))).transpose()?;
        Ok(Self { program, home, named_home: None, word, flags: flags.unwrap_or_default() })
    }

    /// The same with the home that the environment names.
    #[must_use]
    pub fn with_named_home(self, named_home: Option<PathBuf>) -> Self {
        Self { named_home, ..self }
    }

    /// The home that is not the usual one, whoever said so.
    pub fn other_home(&self) -> Option<&Path> {
        self.home.as_deref().or(self.named_home.as_deref())
    }

    /// The program that the shell finds, in its usual home.
    pub fn on_path() -> Self {
        let (word, flags) = (NAME.to_owned(), String::new());
        Self { program: Program::OnPath, home: None, named_home: None, word, flags }
    }

    /// What a shell line with that mark calls; nothing if the line is not ours.
    pub fn of_line(line: &str, mark: &str) -> Option<Self> {
        let words = words::split(line.strip_suffix(mark)?).ok()?;
        let after = |flag: &str| {
            let at = words.iter().position(|word| word == flag)?;
            words.get(at + 1).map(|path| PathBuf::from(path.trim_end_matches(';')))
        };
        let program = after("-x").map_or(Program::OnPath, Program::At);
        Self::new(program, after("--home")).ok()
    }

    /// The program.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// The home that the user chose, where it is not the usual one.
    pub fn home(&self) -> Option<&Path> {
        self.home.as_deref()
    }

    /// The program, quoted for a shell.
    pub fn word(&self) -> &str {
        &self.word
    }

    /// The flags that follow every command.
    pub fn flags(&self) -> &str {
        &self.flags
    }

    /// A command line of ours that may be run as it stands.
    pub fn line(&self, words: &str) -> String {
        format!("{} {words}{}", self.word, self.flags)
    }

    /// A shell line that runs a command of ours if the program is there. It never fails: exit code
    /// 2, which a usage error of ours has, would block the agent.
    pub fn safely(&self, words: &str, mark: &str) -> String {
        format!("{} && {}; exit 0 {mark}", self.test(), self.line(words))
    }

    /// The same for the beginning of a session: where the program is gone, the line prints `message`.
    pub fn announced(&self, words: &str, mark: &str, message: &str) -> String {
        if self.program == Program::OnPath {
            return self.safely(words, mark);
        }
        let tell = format!("printf '%s\\n' {}", words::quote(message));
        format!("if {}; then {}; else {tell}; fi; exit 0 {mark}", self.test(), self.line(words))
    }

    fn test(&self) -> String {
        match self.program {
            Program::OnPath => format!("command -v {} >/dev/null 2>&1", self.word),
            Program::At(_) => format!("[ -x {} ]", self.word),
        }
    }
}

/// A group of handlers for one event, as Claude Code, Codex and Gemini CLI have them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Group {
    /// Which tools, or which kinds of the event, it is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub matcher: Option<&'static str>,
    /// The one handler that is ours.
    pub hooks: [Handler; 1],
}

/// One handler.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Handler {
    /// What the agent calls it, where it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<&'static str>,
    #[serde(rename = "type")]
    kind: &'static str,
    /// The shell line.
    pub command: String,
    /// After this time the agent stops waiting, in the unit of the agent.
    pub timeout: u32,
}

impl Group {
    /// A group with one shell line.
    pub fn new(matcher: Option<&'static str>, command: String, timeout: u32) -> Self {
        Self { matcher, hooks: [Handler { name: None, kind: "command", command, timeout }] }
    }

    /// The same with a name for the handler.
    #[must_use]
    pub fn named(mut self, name: &'static str) -> Self {
        self.hooks[0].name = Some(name);
        self
    }

    /// The shell line.
    pub fn command(&self) -> &str {
        &self.hooks[0].command
    }
}
