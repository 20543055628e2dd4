//! `rappel gc`.

use rappel::Rappel;
use rappel_types::time;

use crate::errors::{Exit, Result};
use crate::process::Context;
use crate::{confirm, face, progress};

/// How many deleted checkpoints are named before it is asked.
const NAMED: usize = 10;

/// Free what nothing needs any more
///
/// What was deleted is freed a day later. --now frees it at once, in all workspaces, so that none of
/// it can be brought back; it asks first. A save starts this by itself when it is overdue.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "\
Examples:
  rappel gc
  rappel gc --dry-run
  rappel gc --now
  rappel gc --now --confirm")]
pub struct Args {
    /// Free all that was deleted, without waiting out the day of grace
    #[arg(long)]
    pub now: bool,
    /// Do so without asking
    #[arg(short = 'y', long, visible_alias = "yes", requires = "now")]
    pub confirm: bool,
    /// Show what would be freed, and free nothing
    #[arg(long)]
    pub dry_run: bool,
}

pub fn run(args: &Args, context: &Context) -> Result {
    let rappel = context.open()?;
    if args.now && !args.confirm && !args.dry_run && !ask(&rappel, context)? {
        return Ok(confirm::DECLINED);
    }
    context.stop_cleanly();
    let report = progress::watch(context, "Freeing space", || match args.now {
        true => rappel.gc_deleted(args.dry_run),
        false => rappel.gc(false, args.dry_run),
    })?;
    let output = context.output;
    if output.json {
        output.answer_json(&report)?;
    } else if !output.quiet {
        let text = face::health::gc(&report, args.dry_run, output.paint());
        output.answer(|out| Ok(out.write_all(text.as_bytes())?))?;
    }
    Ok(Exit::Done)
}

fn ask(rappel: &Rappel, context: &Context) -> Result<bool> {
    let output = context.output;
    let deleted = rappel.deleted_everywhere()?;
    if !output.json && !deleted.is_empty() {
        let number = face::count(deleted.len() as u64, "checkpoint", "checkpoints");
        output.tell(&format!("{number} that can still be brought back:"));
        for manifest in deleted.iter().take(NAMED) {
            let id = output.paint_stderr().id(manifest.id.as_str());
            let title = manifest.description.as_ref().map(|text| format!("  \"{text}\""));
            let age = time::age(context.now(), manifest.created_at);
            let root = &manifest.workspace.root;
            output.tell(&format!("  {id}{}  ({age}, {root})", title.unwrap_or_default()));
        }
        if deleted.len() > NAMED {
            output.tell(&format!("  and {} more", deleted.len() - NAMED));
        }
    }
    let would = rappel.gc_deleted(true)?;
    if !output.json && would.packs_of_lost_checkpoints > 0 {
        output.tell(&format!("Also {}.", face::health::lost_packs(&would)));
    }
    let command = context.suggest("gc --now --confirm");
    confirm::require(context, "Free all that was deleted, for good?", &command)
}
