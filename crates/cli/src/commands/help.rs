//! `rappel help`, and what `rappel` says when it is called without a command.

use std::fmt::Write;

use clap::{Command, CommandFactory};
use rappel_types::slip;

use crate::args::Cli;
use crate::errors::{Exit, Failure, Result};
use crate::output::Output;
use crate::process::Context;

/// Explain a command, or list them
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "\
Examples:
  rappel help restore
  rappel help session start
  rappel help concepts
  rappel help --all")]
pub struct Args {
    /// Which command, or `concepts`: the words that all of them use
    pub command: Vec<String>,
    /// List every command
    #[arg(long, conflicts_with = "command")]
    pub all: bool,
}

/// The commands by what people come for. A unit test holds that each is in exactly one group.
const GROUPS: &[(&str, &[&str])] = &[
    ("Everyday", &["save", "list", "diff", "restore", "undo", "status"]),
    ("Agents", &["run", "report", "session", "record", "recall"]),
    (
        "Time travel",
        &["at", "find", "timeline", "log", "replay", "bisect", "show", "cat", "redo", "checkpoint"],
    ),
    (
        "Upkeep",
        &[
            "init",
            "tag",
            "describe",
            "pin",
            "unpin",
            "delete",
            "undelete",
            "gc",
            "prune",
            "verify",
            "stats",
            "doctor",
            "recover",
            "adopt",
            "trust",
            "completions",
            "help",
        ],
    ),
    ("Integrations", &["serve", "mcp", "export", "import", "integrate", "guard", "watch", "hook"]),
];

/// The words that help and messages use, each in a sentence.
const CONCEPTS: &str = "\
checkpoint  One save of a workspace that never changes again, with an id, a number and,
            if you like, a message and tags.
facet       One side of what a checkpoint holds: files, git, databases, agents, knowledge
            or process; --only and --skip choose among them.
workspace   A project folder with its own history of checkpoints: the folder with
            rappel.toml, else the root of the git work tree, else the folder you are in.
home        The folder where Rappel keeps the checkpoints of all your workspaces:
            RAPPEL_HOME, else rappel in the platform's folder for data.
reference   How you name a checkpoint (REF): its id or the beginning of one, its number,
            latest, latest~2 or latest^ (further back), or @{2 hours ago}.
lineage     A history that came from elsewhere (rappel import), beside the workspace's own:
            never latest, a parent or a step of undo. FORMAT:ID names one of its checkpoints.
session     One run of an agent, with what it thought, did and found out.
trigger     Why a checkpoint was made: by hand (manual), before a restore (pre-restore),
            by an agent's step and so on.
safety checkpoint
            The save of the present that every restore makes first; undo goes back to it.
";

pub fn run(args: &Args, context: &Context) -> Result {
    let words: Vec<&str> = args.command.iter().map(String::as_str).collect();
    match words[..] {
        [] if args.all => print(&all(), context.output),
        [] => short(context.output),
        ["concepts"] => print(CONCEPTS, context.output),
        _ => of(&mut Cli::command(), &words, context.output),
    }
}

/// The everyday commands, and the names of the others.
pub fn short(output: &Output) -> Result {
    let command = Cli::command();
    let paint = output.paint();
    let mut text = format!("{}\n\n", about(&command));
    _ = writeln!(text, "{} rappel [OPTIONS] COMMAND …\n", paint.strong("Usage:"));
    for (place, (group, names)) in GROUPS.iter().enumerate() {
        if place == 0 {
            _ = writeln!(text, "{}", paint.strong(&format!("{group}:")));
            text.push_str(&lines(&command, names));
            text.push('\n');
        } else {
            let heading = format!("{:14}", format!("{group}:"));
            _ = writeln!(text, "{}{}", paint.strong(&heading), wrapped(names, heading.len()));
        }
    }
    text.push_str(
        "\nFlags for every command: -C DIR, --home DIR, --json, -q, --color WHEN, --no-pager\n\
         `rappel help COMMAND` explains a command, `rappel help concepts` the words,\n\
         `rappel help --all` lists every command.\n",
    );
    print(&text, output)
}

/// Names on as many lines as they need, each indented.
pub(super) fn wrapped(names: &[&str], indent: usize) -> String {
    const WIDTH: usize = 80;
    let mut text = String::new();
    let mut column = indent;
    for (place, name) in names.iter().enumerate() {
        if place > 0 {
            text.push(',');
            column += 1;
            if column + 1 + name.len() > WIDTH {
                text.push('\n');
                text.push_str(&" ".repeat(indent));
                column = indent;
            } else {
                text.push(' ');
                column += 1;
            }
        }
        text.push_str(name);
        column += name.len();
    }
    text
}

/// Every command, by group.
fn all() -> String {
    let command = Cli::command();
    let mut text = String::new();
    for (place, (group, names)) in GROUPS.iter().enumerate() {
        let gap = if place == 0 { "" } else { "\n" };
        _ = write!(text, "{gap}{group}:\n{}", lines(&command, names));
    }
    text
}

fn lines(command: &Command, names: &[&str]) -> String {
    let mut text = String::new();
    for name in names {
        if let Some(found) = command.find_subcommand(name) {
            let aliases: Vec<_> = found.get_visible_aliases().collect();
            let name = match aliases.is_empty() {
                true => (*name).to_owned(),
                false => format!("{name}, {}", aliases.join(", ")),
            };
            _ = writeln!(text, "  {name:16}{}", about(found));
        }
    }
    text
}

fn about(command: &Command) -> String {
    command.get_about().map(ToString::to_string).unwrap_or_default()
}

/// The help of one command, named by the words that lead to it.
pub fn of(root: &mut Command, words: &[&str], output: &Output) -> Result {
    root.build();
    let mut command = root;
    for word in words {
        command = match command.find_subcommand_mut(word) {
            Some(found) => found,
            None => {
                let hint = did_you_mean(words).unwrap_or_else(|| "rappel help --all".into());
                let message = format!("no such command: {}", words.join(" "));
                return Err(Failure::usage(message, hint));
            }
        };
    }
    let text = command.render_long_help();
    match output.paint().is_on() {
        true => print(&text.ansi().to_string(), output),
        false => print(&text.to_string(), output),
    }
}

/// The command that is most likely meant by words of which the last that matters is a slip.
pub fn did_you_mean(words: &[&str]) -> Option<String> {
    let mut command = &Cli::command();
    let mut meant = vec!["rappel"];
    for word in words {
        let Some(found) = command.find_subcommand(word) else {
            let names = command.get_subcommands().flat_map(Command::get_name_and_visible_aliases);
            meant.push(slip::nearest(word, names)?);
            return Some(format!("did you mean `{}`?", meant.join(" ")));
        };
        meant.push(found.get_name());
        command = found;
    }
    None
}

fn print(text: &str, output: &Output) -> Result {
    if output.json {
        return Err(Failure::usage("help has no JSON form", "leave out --json"));
    }
    output.answer(|out| Ok(out.write_all(text.as_bytes())?))?;
    Ok(Exit::Done)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[test]
    fn every_command_is_in_one_group_and_explained_with_examples() {
        let command = Cli::command();
        let mut grouped: Vec<&str> =
            GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        let shown = command.get_subcommands().filter(|one| !one.is_hide_set());
        let mut known: Vec<&str> = shown.map(Command::get_name).collect();
        grouped.sort_unstable();
        known.sort_unstable();
        assert_eq!(grouped, known);
        explained(&command, "rappel");
    }

    /// The calls of `rappel` in examples, in words as a shell splits them.
    fn calls(examples: &str) -> Vec<Vec<String>> {
        let mut calls = Vec::new();
        for (at, _) in examples.match_indices("rappel ") {
            // Not in a sentence, a path or a name.
            if !examples[..at].ends_with([' ', '(']) || examples[..at].ends_with(". ") {
                continue;
            }
            let (mut words, mut word, mut quote) = (Vec::new(), String::new(), None);
            for c in examples[at..].chars() {
                match (c, quote) {
                    (c, Some(open)) if c == open => quote = None,
                    ('"' | '\'', None) => quote = Some(c),
                    ('\n' | '|' | '>' | ';' | ')', None) => break,
                    (' ', None) => words.push(std::mem::take(&mut word)),
                    (c, _) => word.push(c),
                }
            }
            words.push(word);
            words.retain(|word| !word.is_empty());
            calls.push(words);
        }
        calls
    }

    /// Every command below, down to the last verb, is explained and has an example that can be
    /// typed.
    fn explained(command: &Command, above: &str) {
        for found in command.get_subcommands() {
            let name = format!("{above} {}", found.get_name());
            assert!(!about(found).is_empty(), "{name} is not explained");
            let examples = found.get_after_help().map(ToString::to_string).unwrap_or_default();
            // What other systems call a checkpoint's verbs has the examples of our own.
            let meant = if above == "rappel checkpoint" { "rappel " } else { &name };
            assert!(examples.contains(meant), "{name} has no example");
            for call in calls(&examples) {
                let parsed = Cli::try_parse_from(&call).map_err(|error| error.to_string());
                assert!(parsed.is_ok(), "{name}: {call:?}: {parsed:?}");
            }
            explained(found, &name);
        }
    }
}
