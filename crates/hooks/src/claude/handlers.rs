//! The hooks that `rappel integrate claude` writes: for which events, for which tools, and the
//! shell line of each.
//!
//! Each shell line ends with [`MARK`]. By that, and by nothing else, a handler is known to be ours.

use std::path::PathBuf;

use serde::Serialize;

use crate::words;

/// The comment at the end of each shell line that we wrote.
pub const MARK: &str = "# rappel integrate claude";

/// Calls that may change something. Tools that only read are told by the transcript, and Rappel's
/// own need no hook.
const TOOLS: &str =
    "^(Bash|PowerShell|Edit|MultiEdit|Write|NotebookEdit|ExitWorktree|mcp__(?!rappel__).*)$";

/// Where a settings file counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// In this workspace, for this user.
    Local,
    /// In this workspace, for everyone who has the repository.
    Shared,
    /// In all workspaces of this user.
    User,
}

impl Scope {
    /// Its name in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Shared => "shared",
            Self::User => "user",
        }
    }
}

/// The program that the hooks call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Program {
    /// The one at this path.
    At(PathBuf),
    /// The one that the shell finds, if it finds one.
    OnPath,
}

/// How Rappel is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    program: Program,
    /// The home that the user chose, where it is not the usual one.
    home: Option<PathBuf>,
    /// The program, quoted for a shell.
    word: String,
    /// Flags for every call.
    flags: String,
}

/// A path that cannot stand in a JSON text.
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
            Program::OnPath => "rappel".to_owned(),
        };
        let flags = home.as_ref().map(|home| Ok(format!(" --home {}", text(home)?))).transpose()?;
        Ok(Self { program, home, word, flags: flags.unwrap_or_default() })
    }

    /// What a shell line of ours calls; nothing if the line is not ours.
    pub fn of_line(line: &str) -> Option<Self> {
        let words = words::split(line.strip_suffix(MARK)?).ok()?;
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
    pub fn home(&self) -> Option<&std::path::Path> {
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
    fn safely(&self, words: &str) -> String {
        format!("{} && {}; exit 0 {MARK}", self.test(), self.line(words))
    }

    /// The same for the beginning of a session, which says if the program is gone.
    fn announced(&self, words: &str, file: &str) -> String {
        if self.program == Program::OnPath {
            return self.safely(words);
        }
        let message = format!(
            "Rappel is not at {} any more, so nothing is saved. Install it again and run `rappel integrate claude`, or \
             take the hooks that end with \"{MARK}\" out of {file}.",
            self.word
        );
        let message = serde_json::json!({"systemMessage": message}).to_string();
        let tell = format!("printf '%s\\n' {}", words::quote(&message));
        format!("if {}; then {}; else {tell}; fi; exit 0 {MARK}", self.test(), self.line(words))
    }

    fn test(&self) -> String {
        match self.program {
            Program::OnPath => format!("command -v {} >/dev/null 2>&1", self.word),
            Program::At(_) => format!("[ -x {} ]", self.word),
        }
    }

    /// The status line's command.
    pub fn status_line(&self) -> StatusLine {
        StatusLine { kind: "command", command: self.safely("status --short") }
    }
}

/// A group of handlers in a settings file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Group {
    #[serde(skip_serializing_if = "Option::is_none")]
    matcher: Option<&'static str>,
    hooks: [Handler; 1],
}

/// One handler.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Handler {
    #[serde(rename = "type")]
    kind: &'static str,
    command: String,
    /// Seconds.
    timeout: u32,
}

/// Claude's status line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StatusLine {
    #[serde(rename = "type")]
    kind: &'static str,
    command: String,
}

/// Each event, the tools that it is about, and after how many seconds Claude may stop waiting: five
/// more than Rappel itself ever takes.
const EVENTS: &[(&str, Option<&str>, u32)] = &[
    ("SessionStart", None, 7),
    ("UserPromptSubmit", None, 30),
    ("PreToolUse", Some(TOOLS), 125),
    ("PostToolUse", Some(TOOLS), 7),
    ("PostToolUseFailure", Some(TOOLS), 7),
    ("PreCompact", None, 7),
    ("Stop", None, 7),
    ("SubagentStart", None, 7),
    ("SubagentStop", None, 7),
    // Claude raises its own limit of 1.5 s to the longest one that it finds here.
    ("SessionEnd", None, 6),
];

/// What a settings file shall have, event by event. `file` is how the user knows that file.
pub fn groups(caller: &Caller, scope: Scope, file: &str) -> Vec<(&'static str, Group)> {
    let words = match scope {
        Scope::User => "hook claude --projects-only",
        Scope::Shared => "hook claude --shared",
        Scope::Local => "hook claude",
    };
    let group = |&(event, matcher, timeout): &(&'static str, Option<&'static str>, u32)| {
        let command = match event {
            "SessionStart" => caller.announced(words, file),
            _ => caller.safely(words),
        };
        (event, Group { matcher, hooks: [Handler { kind: "command", command, timeout }] })
    };
    EVENTS.iter().map(group).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller(path: &str) -> Caller {
        Caller::new(Program::At(path.into()), None).unwrap()
    }

    fn run(line: &str) -> (Option<i32>, String) {
        let output = std::process::Command::new("sh").args(["-c", line]).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{line}");
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    }

    #[test]
    fn a_program_that_is_gone_is_told_once_and_never_fails() {
        let file = ".claude/settings.local.json";
        for path in ["/no/such/rappel", "/no/it's \"here\"/$(x)/rappel"] {
            for (event, group) in groups(&caller(path), Scope::Local, file) {
                let (code, said) = run(&group.hooks[0].command);
                assert_eq!(code, Some(0));
                if event != "SessionStart" {
                    assert_eq!(said, "");
                    continue;
                }
                let said: serde_json::Value = serde_json::from_str(&said).unwrap();
                let message = said["systemMessage"].as_str().unwrap();
                assert!(
                    message.contains("integrate claude") && message.contains(file),
                    "{message}"
                );
            }
        }
    }

    #[test]
    fn a_failure_of_the_program_is_not_passed_on() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("ra'p pel");
        std::fs::write(&program, "#!/bin/sh\necho \"$@\"\nexit 2\n").unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&program, mode).unwrap();
        for (_, group) in groups(&caller(program.to_str().unwrap()), Scope::User, "") {
            let (code, said) = run(&group.hooks[0].command);
            assert_eq!((code, said.as_str()), (Some(0), "hook claude --projects-only\n"));
        }
    }

    #[test]
    fn a_shared_line_does_nothing_where_rappel_is_not_installed() {
        let caller = Caller::new(Program::OnPath, None).unwrap();
        for (_, group) in groups(&caller, Scope::Shared, "") {
            let line = format!("PATH=/nowhere; {}", group.hooks[0].command);
            assert_eq!(run(&line), (Some(0), String::new()));
        }
    }

    #[test]
    fn the_caller_is_read_from_the_line_again() {
        let callers = [
            caller("/usr/bin/rappel"),
            caller("/it's/a b/rappel"),
            Caller::new(Program::OnPath, None).unwrap(),
            Caller::new(Program::At("/r".into()), Some("/a home".into())).unwrap(),
            Caller::new(Program::At("/r".into()), Some("/home/x".into())).unwrap(),
        ];
        for caller in callers {
            for (_, group) in groups(&caller, Scope::Local, "x") {
                assert_eq!(Caller::of_line(&group.hooks[0].command), Some(caller.clone()));
            }
        }
        assert_eq!(Caller::of_line("rappel hook claude"), None);
    }
}
