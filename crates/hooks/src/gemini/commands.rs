//! Gemini CLI's files for `/rappel:NAME`, and the policy that lets them run without a question.
//!
//! Gemini CLI runs the shell line of a command before any hook hears of the prompt. It quotes what
//! the user typed as one word.

use std::path::PathBuf;

use crate::caller::Caller;
use crate::integrate::Place;
use crate::owned;
use crate::scope::Scope;
use crate::typed::{SLASHES, Slash};

/// By this a prompt is known to be the answer of one of these commands.
pub const ANSWERED: &str = "Above is what Rappel answered to the user's command `/rappel:";

/// The file of a command.
pub fn file(slash: &Slash, caller: &Caller, _: &str) -> String {
    let text = |text: &str| toml::Value::from(text).to_string();
    let prompt = format!(
        "!{{{}{} {{{{args}}}}}}\n\n{ANSWERED}{}`. It is done. Repeat the answer unchanged in a code \
         block. Do nothing else: call no tool, and add no word of your own.\n",
        line(slash, caller),
        caller.flags(),
        slash.name
    );
    let rest = format!("description = {}\nprompt = {}\n", text(slash.about), text(&prompt));
    owned::sealed("", &rest)
}

/// The words that every call of a command begins with.
fn line(slash: &Slash, caller: &Caller) -> String {
    format!("{} {} --typed={}", caller.word(), slash.verb(), slash.name)
}

/// Commands of ours for which Gemini CLI asks its user. A rule cannot tell the user's command from a
/// call of the model, which may run these lines too: without a question it must neither delete
/// checkpoints nor put an older state in the place of what the user sees.
const ASKED: &[&str] = &["delete", "prune", "restore"];

/// One rule for each command that may run without a question. Gemini CLI reads policies of the user
/// alone.
pub fn policy(place: &Place, caller: &Caller) -> Vec<(PathBuf, String)> {
    if place.scope != Scope::User {
        return Vec::new();
    }
    let rule = |slash: &Slash| {
        let prefix = toml::Value::from(line(slash, caller));
        format!(
            "[[rule]]\ntoolName = \"run_shell_command\"\ncommandPrefix = {prefix}\n\
             decision = \"allow\"\npriority = 100\n"
        )
    };
    let allowed = SLASHES.iter().filter(|slash| !ASKED.contains(&slash.verb()));
    let rules: Vec<String> = allowed.map(rule).collect();
    vec![(place.folder.join("policies/rappel.toml"), owned::sealed("", &rules.join("\n")))]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::caller::Program;
    use crate::owned::{Owner, owner};

    #[test]
    fn each_file_is_toml_with_one_call_of_its_verb() {
        let caller = Caller::new(Program::At("/it's \"a\"/rappel".into()), Some("/h".into()));
        let caller = caller.unwrap();
        for slash in SLASHES {
            let text = file(slash, &caller, "");
            assert_eq!(owner(&text), Owner::Rappel);
            let table: toml::Table = text.parse().unwrap();
            let prompt = table["prompt"].as_str().unwrap();
            let line = format!("!{{{} --home /h {{{{args}}}}}}\n", line(slash, &caller));
            assert!(prompt.starts_with(&line), "{prompt}");
            assert_eq!(prompt.matches("!{").count(), 1);
            assert_eq!(table["description"].as_str(), Some(slash.about));
        }
    }
}
