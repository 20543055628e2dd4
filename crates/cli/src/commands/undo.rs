//! `rappel undo`.

use rappel::{Rappel, RestoreReport, Step};
use rappel_types::time;
use serde::Serialize;

use super::patch;
use super::restore::{self, How};
use crate::errors::Result;
use crate::face;
use crate::process::Context;
use crate::progress;

/// Take back the last restore, or go back one checkpoint
///
/// If a restore is the last thing that happened, just what it touched is put back, without a
/// question. Otherwise the nearest earlier checkpoint of this line of work that differs from now is
/// restored, after a confirmation. Again goes further back; `rappel redo` goes forward.
#[derive(Debug, Clone, clap::Args)]
#[group(skip)]
#[command(after_help = "\
Examples:
  rappel undo
  rappel undo --dry-run
  rappel undo --path src/auth --confirm
  rappel undo --overwrite")]
pub struct Args {
    #[command(flatten)]
    pub how: How,
    /// Also take back paths that were edited since
    #[arg(long)]
    pub overwrite: bool,
}

/// Which step it is, and what it does.
#[derive(Serialize)]
struct Answer<'a> {
    step: &'a Step,
    #[serde(flatten)]
    report: &'a RestoreReport,
}

pub fn run(args: &Args, context: &Context) -> Result {
    let rappel = context.open()?;
    let step = progress::spinner(context, "Comparing", || rappel.next_undo_over(args.overwrite))?;
    take("undo", &step, args, rappel, context)
}

/// Carries out an undo or redo and says which, and to what moment.
pub(super) fn take(
    verb: &str,
    step: &Step,
    args: &Args,
    mut rappel: Rappel,
    context: &Context,
) -> Result {
    let mut options = args.how.options(context, rappel.root())?;
    if let Some(folder) = &args.how.to {
        return restore::copy_out(&restore::exactly(&step.to), &options, folder, &rappel, context);
    }
    if args.how.patch {
        return patch::run(&restore::exactly(&step.to), &options, &mut rappel, context);
    }
    let back = if verb == "undo" { "redo" } else { "undo" };
    let head = format!(
        "{}: {}, to how it was {} ({})",
        face::capitalised(verb),
        step.description,
        time::age(context.now(), step.moment),
        face::checkpoint::local(step.moment, &context.zone())
    );
    if args.how.dry_run || (step.asks && !args.how.confirm) {
        let mut report = progress::spinner(context, "Comparing", || {
            rappel.plan_step(step, args.overwrite, &options)
        })?;
        let overwrite = if args.overwrite { " --overwrite" } else { "" };
        let words = format!("{verb}{overwrite}");
        report.confirm_with = Some(args.how.confirm_with(&words, context));
        let answer = Answer { step, report: &report };
        let approved = restore::approve(&head, &answer, &report, back, &args.how, context)?;
        if let Some(exit) = approved {
            return Ok(exit);
        }
        options.expected = Some(report.plan);
    }
    context.stop_cleanly();
    let report = progress::restore(context, restore::SAVING, || {
        rappel.step(step, args.overwrite, &options)
    })?;
    let answer = Answer { step, report: &report };
    restore::tell(&head, &answer, &report, back, context)
}
