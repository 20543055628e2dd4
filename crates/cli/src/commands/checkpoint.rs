//! `rappel checkpoint VERB`: the commands about checkpoints under the names that other systems
//! give them.

use clap::{CommandFactory, Subcommand};

use super::{at, delete, diff, help, list, restore, save, show, timeline};
use crate::args::Cli;
use crate::errors::Result;
use crate::process::Context;

/// The same commands under other names: create, list, show and so on
///
/// Without a verb, checkpoints are listed.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "\
Examples:
  rappel checkpoint create \"before refactor\"
  rappel cp ls
  rappel cp show latest")]
pub struct Args {
    #[command(subcommand)]
    pub verb: Option<Verb>,
}

/// What to do with checkpoints.
#[derive(Debug, Clone, Subcommand)]
pub enum Verb {
    Create(save::Args),
    #[command(visible_alias = "ls")]
    List(list::Args),
    Show(show::Args),
    Diff(diff::Args),
    Restore(restore::Args),
    At(at::Args),
    Timeline(timeline::Args),
    Delete(delete::Args),
    /// Print this help
    Help,
}

pub fn run(args: &Args, context: &Context) -> Result {
    match &args.verb {
        None => list::run(&list::Args::default(), context),
        Some(Verb::Create(args)) => save::run(args, context),
        Some(Verb::List(args)) => list::run(args, context),
        Some(Verb::Show(args)) => show::run(args, context),
        Some(Verb::Diff(args)) => diff::run(args, context),
        Some(Verb::Restore(args)) => restore::run(args, context),
        Some(Verb::At(args)) => at::run(args, context),
        Some(Verb::Timeline(args)) => timeline::run(args, context),
        Some(Verb::Delete(args)) => delete::run(args, context),
        Some(Verb::Help) => help::of(&mut Cli::command(), &["checkpoint"], context.output),
    }
}
