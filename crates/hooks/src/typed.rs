//! Commands that the user types into an agent's prompt: `/rappel:undo …` and `rappel undo …`.
//!
//! They become a command line of our own. Who runs it, and shows what came of it, is not decided
//! here.

use crate::words::{self, Unfinished};

/// What can be asked for in a prompt. None of these runs a program of the workspace's choice,
/// allows anything, or changes an agent's settings.
pub const VERBS: &[&str] = &[
    "save", "list", "ls", "show", "diff", "restore", "undo", "redo", "status", "cat", "at", "log",
    "find", "timeline", "recall", "report", "replay", "tag", "describe", "pin", "unpin", "delete",
    "undelete", "prune",
];

/// A command with a name of its own in the agent's prompt: `/rappel:NAME`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slash {
    /// What follows `/rappel:`.
    pub name: &'static str,
    /// What it does, in one line.
    pub about: &'static str,
    /// What may follow it.
    pub arguments: &'static str,
    /// Our own command, with what always follows it.
    pub command: &'static [&'static str],
    /// What follows where the user gave nothing.
    default: &'static [&'static str],
}

impl Slash {
    /// Our own command's name.
    pub fn verb(&self) -> &'static str {
        self.command[0]
    }

    /// The command line that the user's words mean.
    pub fn command_line(&self, words: &str) -> Result<Vec<String>, Unfinished> {
        let mut line: Vec<String> = self.command.iter().map(|&word| word.to_owned()).collect();
        let given = match words::split(words) {
            Ok(given) if self.name == "checkpoint" => sentence(&given),
            // A description is a sentence, and a sentence may have an apostrophe.
            Err(_) if self.name == "checkpoint" && !words.contains(" -") => {
                vec![words.trim().to_owned()]
            }
            other => other?,
        };
        match given.is_empty() {
            true => line.extend(self.default.iter().map(|&word| word.to_owned())),
            false => line.extend(given),
        }
        Ok(line)
    }
}

/// The words up to the first flag as one.
fn sentence(words: &[String]) -> Vec<String> {
    let end = words.iter().position(|word| word.starts_with('-')).unwrap_or(words.len());
    let (said, flags) = words.split_at(end);
    let said = (!said.is_empty()).then(|| said.join(" "));
    said.into_iter().chain(flags.iter().cloned()).collect()
}

const fn slash(
    name: &'static str,
    arguments: &'static str,
    command: &'static [&'static str],
    about: &'static str,
) -> Slash {
    Slash { name, about, arguments, command, default: &[] }
}

/// Every such command.
pub const SLASHES: &[Slash] = &[
    slash(
        "undo",
        "[--prompt] [--dry-run] [--confirm]",
        &["undo"],
        "Take back the last restore, or go back one checkpoint",
    ),
    slash("checkpoint", "[DESCRIPTION]", &["save"], "Make a checkpoint of everything"),
    slash("checkpoints", "[LIMIT]", &["list"], "List checkpoints, newest first"),
    slash("list", "[LIMIT]", &["list"], "List checkpoints, newest first"),
    slash(
        "restore",
        "REF [--dry-run] [--confirm]",
        &["restore"],
        "Show what a restore would do; with --confirm, do it",
    ),
    Slash {
        default: &["latest"],
        ..slash(
            "diff",
            "[REF] [REF] [--stat]",
            &["diff"],
            "Show what changed since a checkpoint, or between two",
        )
    },
    slash("status", "", &["status"], "Show how well the workspace is protected"),
    slash("checkpoint-delete", "REF [--confirm]", &["delete"], "Delete a checkpoint"),
    slash(
        "checkpoint-cleanup",
        "[--dry-run] [--confirm]",
        &["prune"],
        "Delete old checkpoints by the retention policy",
    ),
    slash("replay", "REF", &["replay"], "Step through what led to a checkpoint, changing nothing"),
    Slash {
        default: &["+1"],
        ..slash(
            "replay-step",
            "[N]",
            &["replay", "--step"],
            "Go on to the replay's next step, or to step N",
        )
    },
    slash("replay-agents", "", &["replay", "--agents"], "Show the agents at the replay's step"),
    slash("replay-memory", "", &["replay", "--memory"], "Show what was known at the replay's step"),
    slash("replay-exit", "", &["replay", "--exit"], "Leave the replay"),
];

/// A prompt that is meant for Rappel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Typed {
    /// `/rappel:undo …`. It is always answered, if need be with the message why it cannot be.
    Slash(Result<Vec<String>, String>),
    /// `rappel undo …`. It is answered if it is a command line that makes sense and whose references resolve; otherwise
    /// the prompt is for the model.
    Plain(Vec<String>),
}

/// What a prompt means to Rappel; nothing, if it is for the model.
pub fn typed(prompt: &str) -> Option<Typed> {
    if let Some(rest) = prompt.strip_prefix("/rappel") {
        return slash_typed(rest).map(Typed::Slash);
    }
    let line = prompt.strip_prefix("rappel ")?.trim();
    // A text of several paragraphs is for the model, however it begins.
    if line.contains('\n') {
        return None;
    }
    let words = words::split(line).ok()?;
    let verb = words.first()?;
    VERBS.contains(&verb.as_str()).then_some(Typed::Plain(words))
}

/// `:undo …`, or ` undo …`, which Claude takes for the same.
fn slash_typed(rest: &str) -> Option<Result<Vec<String>, String>> {
    let after = match rest.chars().next() {
        None => rest,
        Some(first) if first == ':' || first.is_whitespace() => &rest[first.len_utf8()..],
        Some(_) => return None,
    };
    let after = after.trim_start();
    let end = after.find(char::is_whitespace).unwrap_or(after.len());
    let (name, words) = after.split_at(end);
    Some(command_line(name, words))
}

/// The command line behind `/rappel:NAME WORDS`.
pub fn command_line(name: &str, words: &str) -> Result<Vec<String>, String> {
    let unreadable = |error: Unfinished| format!("/rappel:{name} cannot be read: {error}");
    if let Some(slash) = SLASHES.iter().find(|slash| slash.name == name) {
        return slash.command_line(words).map_err(unreadable);
    }
    if VERBS.contains(&name) {
        let given = words::split(words).map_err(unreadable)?;
        return Ok(std::iter::once(name.to_owned()).chain(given).collect());
    }
    let all: Vec<String> = SLASHES.iter().map(|slash| format!("/rappel:{}", slash.name)).collect();
    let problem = match name {
        "" => "/rappel needs a command".to_owned(),
        _ => format!("there is no command /rappel:{name}"),
    };
    Err(format!("{problem}; there are {}", all.join(", ")))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn line(prompt: &str) -> Vec<String> {
        match typed(prompt).unwrap() {
            Typed::Slash(line) => line.unwrap(),
            Typed::Plain(line) => line,
        }
    }

    #[test]
    fn the_seeds_commands_mean_what_the_seed_says() {
        assert_eq!(line("/rappel:checkpoint"), ["save"]);
        assert_eq!(
            line("/rappel:checkpoint \"Before adding Stripe\""),
            ["save", "Before adding Stripe"]
        );
        assert_eq!(
            line("/rappel:checkpoint Working state -t auth"),
            ["save", "Working state", "-t", "auth"]
        );
        assert_eq!(line("/rappel:checkpoint before Bob's change"), ["save", "before Bob's change"]);
        assert_eq!(line("/rappel:checkpoints 10"), ["list", "10"]);
        assert_eq!(line("/rappel:restore chk_1 --dry-run"), ["restore", "chk_1", "--dry-run"]);
        assert_eq!(line("/rappel:checkpoint-delete chk_1"), ["delete", "chk_1"]);
        assert_eq!(line("/rappel:replay chk_1"), ["replay", "chk_1"]);
        assert_eq!(line("/rappel:replay-step"), ["replay", "--step", "+1"]);
        assert_eq!(line("/rappel:replay-step 12"), ["replay", "--step", "12"]);
        assert_eq!(line("/rappel:replay-agents"), ["replay", "--agents"]);
        assert_eq!(line("/rappel:replay-memory"), ["replay", "--memory"]);
        assert_eq!(line("/rappel:replay-exit"), ["replay", "--exit"]);
        assert_eq!(line("/rappel:diff"), ["diff", "latest"]);
        assert_eq!(line("/rappel:diff 1 2"), ["diff", "1", "2"]);
        assert_eq!(line("/rappel undo --confirm"), ["undo", "--confirm"]);
        assert_eq!(line("/rappel:show latest"), ["show", "latest"]);
    }

    #[test]
    fn a_slash_is_always_answered() {
        let told = |prompt: &str| match typed(prompt) {
            Some(Typed::Slash(Err(told))) => told,
            other => panic!("{other:?}"),
        };
        assert!(told("/rappel:nothing").contains("no command /rappel:nothing"));
        assert!(told("/rappel").contains("/rappel:undo"));
        assert!(told("/rappel:restore 'x").contains("not closed"));
        // Nothing that runs programs or changes settings is among them.
        for verb in
            ["run", "guard", "bisect", "trust", "hook", "integrate", "session", "record", "gc"]
        {
            told(&format!("/rappel:{verb}"));
            assert_eq!(typed(&format!("rappel {verb}")), None);
        }
    }

    #[test]
    fn other_prompts_are_for_the_model() {
        for prompt in [
            "",
            "undo",
            "rappel",
            "rappelling",
            "rappel is nice",
            "Rappel undo",
            " rappel undo",
            "/rappel/undo",
            "/rappelundo",
            "please rappel undo",
            "rappel undo 'x",
            "rappel save\nand then go on",
        ] {
            assert_eq!(typed(prompt), None, "{prompt:?}");
        }
        assert_eq!(line("rappel diff latest --stat\n"), ["diff", "latest", "--stat"]);
        assert_eq!(line("rappel undo"), ["undo"]);
    }

    #[test]
    fn each_has_a_name_of_its_own_and_a_verb_that_may_be_typed() {
        let mut names: Vec<_> = SLASHES.iter().map(|slash| slash.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), SLASHES.len());
        assert!(SLASHES.iter().all(|slash| VERBS.contains(&slash.verb())));
    }

    proptest! {
        #[test]
        fn any_prompt_can_be_looked_at(prompt in any::<String>()) {
            let _ = typed(&prompt);
            let slash = format!("/rappel:{prompt}");
            prop_assert!(typed(&slash).is_some());
            let _ = typed(&format!("rappel {prompt}"));
        }
    }
}
