//! The hooks that `rappel integrate gemini` writes: for which events, for which tools, and the shell
//! line of each.
//!
//! Gemini CLI takes every exit code but 0 and 1 for a refusal, a crash and a missing program
//! included, and shows what a hook writes to its standard error. So each line ends with `exit 0`,
//! and what goes wrong is told by `rappel status`.

use serde_json::json;

use crate::caller::{Caller, Group};
use crate::scope::Scope;

/// The comment at the end of each shell line that we wrote.
pub const MARK: &str = "# rappel integrate gemini";

/// What Gemini CLI prints where it tells of hooks.
pub const HANDLER: &str = "rappel";

/// Calls that may change something, and those that let a subagent do so. Rappel's own tools need no
/// hook.
const TOOLS: &str = "^(run_shell_command|write_file|replace|invoke_agent|mcp_(?!rappel_).*)$";

/// Each event, the tools or the kind that it is about, and after how many milliseconds Gemini CLI
/// may stop waiting. It asks before every request whether to sum up the context; only what the user
/// asks for is told.
const EVENTS: &[(&str, Option<&str>, u32)] = &[
    ("SessionStart", None, 7_000),
    ("BeforeAgent", None, 30_000),
    ("BeforeTool", Some(TOOLS), 125_000),
    ("AfterTool", Some(TOOLS), 7_000),
    ("AfterAgent", None, 7_000),
    ("PreCompress", Some("manual"), 7_000),
    ("SessionEnd", None, 6_000),
];

/// What a settings file shall have, event by event. `file` is how the user knows that file.
pub fn groups(caller: &Caller, scope: Scope, file: &str) -> Vec<(&'static str, Group)> {
    let words = format!("hook gemini{}", scope.hook_flag());
    let message = format!(
        "Rappel is not at {} any more, so nothing is saved. Install it again and run `rappel \
         integrate gemini{}`, or take the hooks that end with \"{MARK}\" out of {file}.",
        caller.word(),
        scope.flag()
    );
    let message = json!({"systemMessage": message}).to_string();
    let group = |&(event, matcher, timeout): &(&'static str, Option<&'static str>, u32)| {
        let command = match event {
            "SessionStart" => caller.announced(&words, MARK, &message),
            _ => caller.safely(&words, MARK),
        };
        // Nothing but the answer is for the agent.
        let call = caller.line(&words);
        let command = command.replacen(&call, &format!("{call} 2>/dev/null"), 1);
        (event, Group::new(matcher, command, timeout).named(HANDLER))
    };
    EVENTS.iter().map(group).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::caller::Program;

    fn run(line: &str) -> (Option<i32>, String, String) {
        let output = std::process::Command::new("bash").args(["-c", line]).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.code(), text(output.stdout), text(output.stderr))
    }

    /// A panic (101), a usage error (2), a program that is gone: none of them may block the agent.
    #[test]
    fn no_line_fails_or_says_anything_but_the_answer() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("ra'p pel");
        for code in [0, 1, 2, 101, 127] {
            let script = format!("#!/bin/sh\necho \"$@\"\necho trouble >&2\nexit {code}\n");
            std::fs::write(&program, script).unwrap();
            std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
            let home = Some("/a home".into());
            let caller = Caller::new(Program::At(program.clone()), home).unwrap();
            for (_, group) in groups(&caller, Scope::Shared, "") {
                let said = "hook gemini --shared --home /a home\n".to_owned();
                assert_eq!(run(group.command()), (Some(0), said, String::new()));
                assert_eq!(Caller::of_line(group.command(), MARK), Some(caller.clone()));
                assert_eq!(Scope::of_line(group.command()), Scope::Shared);
            }
        }
        std::fs::write(&program, "#!/no/such/shell\n").unwrap();
        let caller = Caller::new(Program::At(program.clone()), None).unwrap();
        for (_, group) in groups(&caller, Scope::Local, "") {
            let (code, said, _) = run(group.command());
            assert_eq!((code, said.as_str()), (Some(0), ""));
        }
        std::fs::remove_file(&program).unwrap();
        for (event, group) in groups(&caller, Scope::Local, "settings.json") {
            let (code, said, errors) = run(group.command());
            assert_eq!((code, errors.as_str()), (Some(0), ""));
            assert_eq!(said.contains("integrate gemini"), event == "SessionStart", "{said}");
        }
    }
}
