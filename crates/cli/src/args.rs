//! The command line: which commands there are, and the flags that all of them take.
//!
//! What a single command takes is in its own file under `commands/`.

use std::ffi::OsString;
use std::path::PathBuf;

use anstream::ColorChoice;
use clap::builder::Styles;
use clap::builder::styling::{AnsiColor, Style};
use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::commands;
use crate::errors::Result;
use crate::process::Context;
use crate::values;

const STYLES: Styles = Styles::styled()
    .header(Style::new().bold())
    .usage(Style::new().bold())
    .literal(AnsiColor::Cyan.on_default())
    .placeholder(Style::new());

/// Save states for AI coding agents: everything in one checkpoint, restored without losing
/// anything.
#[derive(Debug, Parser)]
#[command(name = "rappel", version, styles = STYLES, disable_help_subcommand = true)]
#[command(max_term_width = 100)]
pub struct Cli {
    #[command(flatten)]
    pub flags: Flags,
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// Flags that every command takes, before or after its name.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Everywhere")]
pub struct Flags {
    /// Work as if started in DIR
    #[arg(short = 'C', value_name = "DIR", global = true)]
    pub directory: Vec<PathBuf>,
    /// Work with this workspace, by its id or folder, instead of the current one
    #[arg(long, value_name = "ID", global = true)]
    pub workspace: Option<String>,
    /// Keep Rappel's data in DIR [default: RAPPEL_HOME, else the platform's data folder]
    #[arg(long, value_name = "DIR", global = true)]
    pub home: Option<PathBuf>,
    /// Answer with one JSON document
    #[arg(long, global = true)]
    pub json: bool,
    /// Print only the result
    #[arg(short, long, global = true)]
    pub quiet: bool,
    /// When to use colours
    #[arg(long, value_name = "WHEN", value_enum, default_value_t, global = true)]
    pub color: Colour,
    /// Print long answers on a terminal without a pager
    #[arg(long, global = true)]
    pub no_pager: bool,
}

/// How many to show, as the commands take it that list something.
#[derive(Debug, Clone, Copy, Default, Args)]
#[group(skip)]
pub struct Limit {
    /// How many at most [default: 20]
    #[arg(value_name = "LIMIT", value_parser = values::limit)]
    limit: Option<u64>,
    /// The same
    #[arg(short = 'n', long = "limit", value_name = "LIMIT", value_parser = values::limit)]
    #[arg(conflicts_with = "limit")]
    number: Option<u64>,
}

impl Limit {
    /// How many are shown unless told.
    const DEFAULT: u64 = 20;

    /// How many.
    pub fn get(self) -> u64 {
        self.limit.or(self.number).unwrap_or(Self::DEFAULT)
    }

    /// As the engine takes it.
    pub fn most(self) -> usize {
        usize::try_from(self.get()).unwrap_or(usize::MAX)
    }
}

/// When to use colours.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Colour {
    #[default]
    Auto,
    Always,
    Never,
}

impl From<Colour> for ColorChoice {
    fn from(colour: Colour) -> Self {
        match colour {
            Colour::Auto => Self::Auto,
            Colour::Always => Self::Always,
            Colour::Never => Self::Never,
        }
    }
}

macro_rules! commands {
    ($($(#[$attribute:meta])* $variant:ident($module:ident)),* $(,)?) => {
        /// Every command, each in its own module.
        #[derive(Debug, Subcommand)]
        #[allow(clippy::large_enum_variant, reason = "there is one, once")]
        pub enum Command {
            $($(#[$attribute])* $variant(commands::$module::Args)),*
        }

        impl Command {
            /// Carries the command out.
            pub fn run(&self, context: &Context) -> Result {
                match self { $(Self::$variant(args) => commands::$module::run(args, context)),* }
            }
        }
    };
}

commands! {
    Save(save),
    #[command(visible_alias = "ls")]
    List(list),
    Diff(diff),
    Restore(restore),
    Undo(undo),
    Status(status),
    Session(session),
    Record(record),
    Recall(recall),
    Report(report),
    At(at),
    Replay(replay),
    Find(find),
    Timeline(timeline),
    Log(log),
    Redo(redo),
    Show(show),
    Cat(cat),
    #[command(visible_alias = "cp")]
    Checkpoint(checkpoint),
    Init(init),
    Tag(tag),
    Describe(describe),
    Pin(pin),
    Unpin(unpin),
    Delete(delete),
    Undelete(undelete),
    Gc(gc),
    #[command(visible_alias = "cleanup")]
    Prune(prune),
    Verify(verify),
    Stats(stats),
    Doctor(doctor),
    Recover(recover),
    Bisect(bisect),
    Export(export),
    Adopt(adopt),
    Import(import),
    Trust(trust),
    Integrate(integrate),
    Run(run),
    Guard(guard),
    Watch(watch),
    Serve(serve),
    Mcp(mcp),
    Hook(hook),
    #[command(hide = true)]
    Upkeep(upkeep),
    Completions(completions),
    Help(help),
}

/// What the command line asks for, where clap has not got as far as telling.
pub struct Glance<'a> {
    /// The first word that is no flag.
    pub command: Option<&'a str>,
    /// `--json` is among the flags.
    pub json: bool,
}

impl<'a> Glance<'a> {
    /// Glances over the arguments after the program's name.
    pub fn over(arguments: &'a [OsString]) -> Self {
        let mut glance = Self { command: None, json: false };
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            match argument.to_str() {
                Some("--") => break,
                Some("--json") => glance.json = true,
                Some("-C" | "--home" | "--color" | "--workspace") => _ = arguments.next(),
                Some(flag) if flag.starts_with('-') => {}
                word => glance.command = glance.command.or(word),
            }
        }
        glance
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn global_flags_may_follow_the_command() {
        let cli = Cli::try_parse_from(["rappel", "list", "--json", "-C", "x", "--color", "never"]);
        let flags = cli.unwrap().flags;
        assert!(flags.json);
        assert_eq!(flags.directory, [PathBuf::from("x")]);
        assert_eq!(flags.color, Colour::Never);
    }

    #[test]
    fn a_glance_tells_the_command_from_the_values_of_flags() {
        let glance = |text: &str| {
            let words: Vec<OsString> = text.split(' ').map(OsString::from).collect();
            let glance = Glance::over(&words);
            (glance.command.map(str::to_owned), glance.json)
        };
        assert_eq!(glance("-C dir --help"), (None, false));
        assert_eq!(glance("--home=x --json save"), (Some("save".into()), true));
        assert_eq!(glance("save -- --json"), (Some("save".into()), false));
    }
}
