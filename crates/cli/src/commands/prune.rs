//! `rappel prune`.

use rappel::answers::PruneAnswer;
use rappel::{PruneReport, Rappel};
use rappel_types::retention::Policy;
use rappel_types::size::format_size;
use rappel_types::{CheckpointId, time};

use super::delete::free_now;
use super::restore::exactly;
use crate::errors::{Exit, Result};
use crate::process::Context;
use crate::{confirm, face, progress};

/// Delete old checkpoints by the retention policy
///
/// The policy is [retention] in rappel.toml, or the default one. Some checkpoints always stay:
/// pinned ones, the newest, those that undo or redo may need, those of a session that runs or ended
/// under 72 hours ago, those under a day old, and manual ones unless a policy names them. A preset
/// keeps only its own numbers, pinned ones, the newest with files, and what undo or redo may need.
/// Sessions that ended longer ago than `sessions` keeps them go too, unless a checkpoint that stays
/// refers to them. What was deleted can be brought back for a day with `rappel undelete`. Imported
/// checkpoints stay, unless --workspace names their lineage by its id.
#[derive(Debug, Clone, clap::Args)]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag")]
#[command(after_help = "\
Examples:
  rappel prune --dry-run
  rappel prune --confirm
  rappel prune --keep-last 100 --keep-days 7
  rappel prune --workspace 0123456789abcdef --keep-last 50
  rappel prune --now --confirm")]
pub struct Args {
    /// Show what would go, and why, and delete nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Instead of the policy, keep the newest N
    #[arg(long, value_name = "N")]
    pub keep_last: Option<u64>,
    /// Instead of the policy, keep those under N days old; with --keep-last, either is enough
    #[arg(long, value_name = "N")]
    pub keep_days: Option<u64>,
    /// Apply the policy to manual checkpoints too
    #[arg(long)]
    pub include_manual: bool,
    /// Free the space at once; the checkpoints cannot be brought back
    #[arg(long)]
    pub now: bool,
    /// Delete without asking
    #[arg(short = 'y', long, visible_alias = "yes")]
    pub confirm: bool,
}

impl Args {
    fn policy(&self, rappel: &Rappel) -> rappel::Result<Policy> {
        rappel.policy(self.keep_last, self.keep_days, self.include_manual)
    }

    /// The command that carries this out.
    fn confirmed(&self) -> String {
        let mut line = "prune".to_owned();
        for (flag, number) in [("--keep-last", self.keep_last), ("--keep-days", self.keep_days)] {
            line.extend(number.map(|number| format!(" {flag} {number}")));
        }
        for (given, flag) in [(self.include_manual, "--include-manual"), (self.now, "--now")] {
            line.push_str(if given { " " } else { "" });
            line.push_str(if given { flag } else { "" });
        }
        line + " --confirm"
    }
}

pub fn run(args: &Args, context: &Context) -> Result {
    let rappel = context.open_silently()?;
    let output = context.output;
    // A mistake in rappel.toml is told once: as the reason, not as a warning before it.
    let policy = args.policy(&rappel)?;
    context.warn(&rappel);
    let plan = progress::watch(context, "Looking at checkpoints", || {
        rappel.plan_prune(&policy, args.now)
    })?;
    if args.dry_run || plan.is_empty() {
        return show(&plan, args, &rappel, context);
    }
    if !args.confirm {
        if !output.json {
            let title = |id: &CheckpointId| title(id, &rappel, context);
            output.tell(face::prune::plan(&plan, title, output.paint_stderr()).trim_end());
        }
        let question = match args.now {
            true => "Delete them at once and for good?",
            false => "Delete them?",
        };
        if !confirm::require(context, question, &context.suggest(&args.confirmed()))? {
            return Ok(confirm::DECLINED);
        }
    }
    context.stop_cleanly();
    let report = progress::watch(context, "Deleting", || rappel.prune(plan, args.now))?;
    let freed = match args.now {
        true => free_now(&rappel, context)?,
        false => None,
    };
    let report = PruneReport {
        freed_bytes: freed.as_ref().map_or(report.freed_bytes, |freed| freed.freed_bytes),
        ..report
    };
    if output.json {
        output.answer_json(&PruneAnswer::from(&report))?;
        return Ok(Exit::Done);
    }
    if output.quiet {
        return Ok(Exit::Done);
    }
    output.answer(|out| {
        let number = face::count(report.deleted.len() as u64, "checkpoint", "checkpoints");
        writeln!(out, "Deleted {number}; {} stay", face::thousands(report.kept as u64))?;
        if !report.let_go.is_empty() {
            let number = face::count(report.let_go.len() as u64, "session", "sessions");
            writeln!(out, "Let go of {number}")?;
        }
        match (&freed, args.now) {
            (Some(_), _) => writeln!(out, "Freed {}", format_size(report.freed_bytes))?,
            (None, true) => {}
            (None, false) => {
                let back = context.suggest("undelete ID");
                writeln!(out, "For a day, bring one back with: {back}")?;
            }
        }
        Ok(())
    })?;
    Ok(Exit::Done)
}

/// `  "first"  (2 hours ago)`, as far as that can be read.
fn title(id: &CheckpointId, rappel: &Rappel, context: &Context) -> String {
    let Ok(checkpoint) = rappel.show(&exactly(id)) else { return String::new() };
    let title = face::title(&checkpoint).map(|title| format!("  {title}")).unwrap_or_default();
    format!("{title}  ({})", time::age(context.now(), checkpoint.manifest.created_at))
}

fn show(plan: &PruneReport, args: &Args, rappel: &Rappel, context: &Context) -> Result {
    let output = context.output;
    if output.json {
        output.answer_json(&PruneAnswer::from(plan))?;
        return Ok(Exit::Done);
    }
    output.answer(|out| {
        let title = |id: &CheckpointId| title(id, rappel, context);
        out.write_all(face::prune::plan(plan, title, output.paint()).as_bytes())?;
        if args.dry_run && !plan.is_empty() && !output.quiet {
            writeln!(out, "To apply: {}", context.suggest(&args.confirmed()))?;
        }
        Ok(())
    })?;
    Ok(Exit::Done)
}
