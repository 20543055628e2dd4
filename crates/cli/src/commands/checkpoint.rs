//! `rappel checkpoint VERB`: the commands about checkpoints under the names that other systems
//! give them.

use clap::{CommandFactory, Subcommand};
use rappel::RolledBack;
use rappel_types::Reference;

use super::{at, delete, diff, help, list, loki, prune, restore, save, show, timeline};
use crate::args::Cli;
use crate::errors::{Exit, Result};
use crate::process::Context;
use crate::{face, progress, values};

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
    #[command(visible_alias = "cleanup")]
    Prune(prune::Args),
    /// Set agents' state back to a checkpoint, and leave the code alone
    #[command(after_help = "Examples:\n  rappel checkpoint rollback latest")]
    Rollback(Rollback),
    /// Print this help
    #[command(after_help = "Examples:\n  rappel checkpoint help")]
    Help,
}

/// Which checkpoint to set agents' state back to.
#[derive(Debug, Clone, clap::Args)]
pub struct Rollback {
    /// Which checkpoint
    #[arg(value_name = "REF", value_parser = values::reference)]
    pub reference: Reference,
}

/// Lists checkpoints; in a folder where Loki Mode works, its own among them.
fn list_all(args: &list::Args, context: &Context) -> Result {
    match context.output.json || args.has_filters() || !loki::is_here(context) {
        true => list::run(args, context),
        false => loki::list(args, context),
    }
}

/// Sets agents' state back, and says how the code would follow.
fn rollback(args: &Rollback, context: &Context) -> Result {
    let rappel = context.open()?;
    let reference = loki::resolved(&rappel, &args.reference, context)?;
    let options = restore::How::default().options(context, rappel.root())?;
    context.stop_cleanly();
    let RolledBack { mut report, commit, loki } =
        progress::watch(context, "Comparing", || rappel.rollback(&reference, &options))?;
    face::advice::word_report(&mut report);
    let head = restore::head_after(&report, &rappel, context);
    let exit = restore::tell(&head, &report, &report, "undo", context)?;
    let output = context.output;
    if let Some(written) = loki {
        output.note(&format!("the state before is {} (pre-rollback snapshot)", written.id));
    }
    if !output.json && !output.quiet {
        if let Some(commit) = commit {
            output.tell(&format!(
                "The code is as it was. To move it too: git reset --hard {commit} (that drops what is not committed)"
            ));
        }
        let all = context.suggest(&format!("restore {}", report.checkpoint));
        output.tell(&format!(
            "{} {all} brings back everything, and can be undone",
            output.paint_stderr().hint("hint:")
        ));
    }
    Ok(exit)
}

pub fn run(args: &Args, context: &Context) -> Result {
    match &args.verb {
        None => list_all(&list::Args::default(), context),
        Some(Verb::Create(args)) if loki::is_here(context) => loki::create(args, context),
        Some(Verb::Create(args)) => save::run(args, context),
        Some(Verb::List(args)) => list_all(args, context),
        Some(Verb::Show(args)) if loki::show(&args.reference, context)? => Ok(Exit::Done),
        Some(Verb::Show(args)) => show::run(args, context),
        Some(Verb::Diff(args)) => diff::run(args, context),
        Some(Verb::Restore(args)) => restore::run(args, context),
        Some(Verb::At(args)) => at::run(args, context),
        Some(Verb::Timeline(args)) => timeline::run(args, context),
        Some(Verb::Delete(args)) => delete::run(args, context),
        Some(Verb::Prune(args)) => prune::run(args, context),
        Some(Verb::Rollback(args)) => rollback(args, context),
        Some(Verb::Help) => help::of(&mut Cli::command(), &["checkpoint"], context.output),
    }
}
