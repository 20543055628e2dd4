//! The hooks that `rappel integrate claude` writes: for which events, for which tools, and the
//! shell line of each.

use std::path::PathBuf;

use rappel::hook::Switch;
use serde_json::{Value, json};

use crate::caller::{Caller, Group};
use crate::files;
use crate::hook_settings::StatusLine;
use crate::scope::Scope;

/// The comment at the end of each shell line that we wrote.
pub const MARK: &str = "# rappel integrate claude";

/// Calls that may change something. Tools that only read are told by the transcript, and Rappel's
/// own need no hook.
const TOOLS: &str =
    "^(Bash|PowerShell|Edit|MultiEdit|Write|NotebookEdit|ExitWorktree|mcp__(?!rappel__).*)$";

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
    let words = format!("hook claude{}", scope.hook_flag());
    let message = format!(
        "Rappel is not at {} any more, so nothing is saved. Install it again and run `rappel integrate claude{}`, or \
         take the hooks that end with \"{MARK}\" out of {file}.",
        caller.word(),
        scope.flag()
    );
    let message = json!({"systemMessage": message}).to_string();
    let group = |&(event, matcher, timeout): &(&'static str, Option<&'static str>, u32)| {
        let command = match event {
            "SessionStart" => caller.announced(&words, MARK, &message),
            _ => caller.safely(&words, MARK),
        };
        (event, Group::new(matcher, command, timeout))
    };
    EVENTS.iter().map(group).collect()
}

/// The status line's command.
pub fn status_line(caller: &Caller) -> StatusLine {
    StatusLine::new(caller.safely("status --short", MARK))
}

/// What keeps Claude from running any hooks.
pub fn switched_off(files: impl IntoIterator<Item = PathBuf>) -> Option<Switch> {
    let is_off = |path: &PathBuf| {
        let text = files::read(path).ok().flatten().unwrap_or_default();
        let settings: Value = serde_json::from_str(&text).unwrap_or_default();
        settings["disableAllHooks"] == true
    };
    let file = files.into_iter().find(is_off)?;
    Some(Switch::new("disableAllHooks: true", &file))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::caller::Program;

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
                let (code, said) = run(group.command());
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
            let (code, said) = run(group.command());
            assert_eq!((code, said.as_str()), (Some(0), "hook claude --projects-only\n"));
        }
    }

    #[test]
    fn a_shared_line_does_nothing_where_rappel_is_not_installed() {
        let caller = Caller::new(Program::OnPath, None).unwrap();
        for (_, group) in groups(&caller, Scope::Shared, "") {
            let line = format!("PATH=/nowhere; {}", group.command());
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
                assert_eq!(Caller::of_line(group.command(), MARK), Some(caller.clone()));
            }
        }
        assert_eq!(Caller::of_line("rappel hook claude", MARK), None);
    }
}
