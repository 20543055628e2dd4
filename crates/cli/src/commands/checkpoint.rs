//! `rappel checkpoint VERB`: the commands about checkpoints under the names that other systems
//! give them.

use clap::{CommandFactory, Subcommand};
use rappel_types::{CheckpointId, Facet, Reference};

use super::{at, delete, diff, help, list, loki, prune, restore, save, show, timeline};
use crate::args::Cli;
use crate::errors::{Exit, Result};
use crate::process::Context;
use crate::values;

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

/// `restore REF --only agents --confirm`, and how the code would follow.
fn rollback(args: &Rollback, context: &Context) -> Result {
    let rappel = context.open_silently()?;
    let reference = loki::resolved(&rappel, &args.reference, context)?;
    let row = rappel.resolve(&reference, false)?;
    let safety = loki::newest_safety(&rappel)?;
    let checkpoint = rappel.show(&restore::exactly(&row.id))?;
    drop(rappel);
    let how = restore::How { only: vec![Facet::Agents], confirm: true, ..restore::How::default() };
    let reference = Some(restore::exactly(&row.id));
    let exit = restore::run(&restore::Args { reference, how, conversation: None }, context)?;
    let output = context.output;
    write_safety(safety.as_ref(), context)?;
    if !output.json && !output.quiet {
        if let Some(commit) = checkpoint.manifest.git.and_then(|git| git.root.commit) {
            output.tell(&format!(
                "The code is as it was. To move it too: git reset --hard {commit} (that drops what is not committed)"
            ));
        }
        let all = context.suggest(&format!("restore {}", row.id));
        output.tell(&format!(
            "{} {all} brings back everything, and can be undone",
            output.paint_stderr().hint("hint:")
        ));
    }
    Ok(exit)
}

/// Where Loki Mode works, what was made before the rollback is written into its folder too.
fn write_safety(before: Option<&CheckpointId>, context: &Context) -> Result<()> {
    let rappel = context.open_silently()?;
    let made = loki::newest_safety(&rappel)?;
    let Some(made) = made.filter(|made| Some(made) != before) else { return Ok(()) };
    if rappel.loki_place().is_some() {
        let written = rappel.write_loki(&made)?;
        context.output.note(&format!("the state before is {} (pre-rollback snapshot)", written.id));
    }
    Ok(())
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
