//! `rappel help`, and what `rappel` says when it is called without a command.

use std::fmt::Write;

use clap::{Command, CommandFactory};

use crate::args::Cli;
use crate::errors::{Exit, Failure, Result};
use crate::output::Output;
use crate::process::Context;

/// Explain a command, or list them
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "\
Examples:
  rappel help restore
  rappel help --all")]
pub struct Args {
    /// Which command
    pub command: Vec<String>,
    /// List every command
    #[arg(long, conflicts_with = "command")]
    pub all: bool,
}

/// The commands by what people come for. A unit test holds that each is in exactly one group.
const GROUPS: &[(&str, &[&str])] = &[
    ("Everyday", &["save", "list", "diff", "restore", "undo", "status"]),
    ("Agents", &["session", "record", "recall"]),
    (
        "Time travel",
        &["at", "find", "timeline", "log", "replay", "show", "cat", "redo", "checkpoint"],
    ),
    (
        "Upkeep",
        &[
            "init",
            "tag",
            "pin",
            "unpin",
            "delete",
            "undelete",
            "gc",
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
];

pub fn run(args: &Args, context: &Context) -> Result {
    let words: Vec<&str> = args.command.iter().map(String::as_str).collect();
    match words[..] {
        [] if args.all => print(&all(), context.output),
        [] => short(context.output),
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
            let heading = format!("{:13}", format!("{group}:"));
            _ = writeln!(text, "{}{}", paint.strong(&heading), wrapped(names, heading.len()));
        }
    }
    text.push_str(
        "\nFlags for every command: -C DIR, --home DIR, --json, -q, --color WHEN\n\
         `rappel help COMMAND` explains a command, `rappel help --all` lists them all.\n",
    );
    print(&text, output)
}

/// Names on as many lines as they need, each indented.
fn wrapped(names: &[&str], indent: usize) -> String {
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
                return Err(Failure::usage(
                    format!("no such command: {}", words.join(" ")),
                    "rappel help --all",
                ));
            }
        };
    }
    let text = command.render_long_help();
    match output.paint().is_on() {
        true => print(&text.ansi().to_string(), output),
        false => print(&text.to_string(), output),
    }
}

fn print(text: &str, output: &Output) -> Result {
    if output.json {
        return Err(Failure::usage("help is no JSON", "leave out --json"));
    }
    output.answer(|out| Ok(out.write_all(text.as_bytes())?))?;
    Ok(Exit::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_in_one_group_and_explained_with_examples() {
        let command = Cli::command();
        let mut grouped: Vec<&str> =
            GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        let mut known: Vec<&str> = command.get_subcommands().map(Command::get_name).collect();
        grouped.sort_unstable();
        known.sort_unstable();
        assert_eq!(grouped, known);
        for found in command.get_subcommands() {
            let name = found.get_name();
            assert!(!about(found).is_empty(), "{name} is not explained");
            let examples = found.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(examples.contains(&format!("rappel {name}")), "{name} has no example");
        }
    }
}
