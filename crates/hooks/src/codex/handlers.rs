//! The hooks that `rappel integrate codex` writes: for which events, and the shell line of each.

use serde_json::json;

use crate::caller::{Caller, Group};
use crate::scope::Scope;

/// The comment at the end of each shell line that we wrote.
pub const MARK: &str = "# rappel integrate codex";

/// Each event, and after how many seconds Codex may stop waiting. Codex warns of more than three
/// for the end of a session. No group has a matcher: few tools have hooks, and all of them may
/// change something.
const EVENTS: &[(&str, u32)] = &[
    ("SessionStart", 7),
    ("UserPromptSubmit", 30),
    ("PreToolUse", 125),
    ("PostToolUse", 7),
    ("PreCompact", 7),
    ("Stop", 7),
    ("SubagentStart", 7),
    ("SubagentStop", 7),
    ("Interrupt", 3),
    ("SessionEnd", 3),
];

/// What a hooks file shall have, event by event. `file` is how the user knows that file.
///
/// Whatever changes here makes every user confirm the hooks again.
pub fn groups(caller: &Caller, scope: Scope, file: &str) -> Vec<(&'static str, Group)> {
    let words = format!("hook codex{}", scope.hook_flag());
    let message = format!(
        "Rappel is not at {} any more, so nothing is saved. Install it again and run `rappel \
         integrate codex{}`, or take the hooks that end with \"{MARK}\" out of {file}.",
        caller.word(),
        scope.flag()
    );
    let message = json!({"systemMessage": message}).to_string();
    let group = |&(event, timeout): &(&'static str, u32)| {
        let command = match event {
            "SessionStart" => caller.announced(&words, MARK, &message),
            _ => caller.safely(&words, MARK),
        };
        (event, Group::new(None, command, timeout))
    };
    EVENTS.iter().map(group).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::caller::Program;

    /// Codex asks its user again whenever one of these changes. A new version of Rappel must not.
    #[test]
    fn the_lines_are_those_that_users_have_confirmed() {
        let caller = Caller::new(Program::At("/usr/bin/rappel".into()), None).unwrap();
        let groups = groups(&caller, Scope::User, "/home/dev/.codex/hooks.json");
        let safely = "[ -x /usr/bin/rappel ] && /usr/bin/rappel hook codex --projects-only; exit 0 \
             # rappel integrate codex";
        let announced = "if [ -x /usr/bin/rappel ]; then /usr/bin/rappel hook codex --projects-only; else \
             printf '%s\\n' '{\"systemMessage\":\"Rappel is not at /usr/bin/rappel any more, so \
             nothing is saved. Install it again and run `rappel integrate codex --user`, or take the \
             hooks that end with \\\"# rappel integrate codex\\\" out of \
             /home/dev/.codex/hooks.json.\"}'; fi; exit 0 # rappel integrate codex";
        let found: Vec<(&str, u32, &str)> = groups
            .iter()
            .map(|(event, group)| (*event, group.hooks[0].timeout, group.command()))
            .collect();
        assert_eq!(
            found,
            [
                ("SessionStart", 7, announced),
                ("UserPromptSubmit", 30, safely),
                ("PreToolUse", 125, safely),
                ("PostToolUse", 7, safely),
                ("PreCompact", 7, safely),
                ("Stop", 7, safely),
                ("SubagentStart", 7, safely),
                ("SubagentStop", 7, safely),
                ("Interrupt", 3, safely),
                ("SessionEnd", 3, safely),
            ]
        );
    }
}
