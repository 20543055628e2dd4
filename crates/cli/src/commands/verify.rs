//! `rappel verify`.

use rappel::{ErrorKind, Hurt, Rappel};
use rappel_types::Reference;

use crate::errors::{Exit, Failure, Result};
use crate::process::Context;
use crate::{face, progress, values};

/// Read and check everything, or one checkpoint
///
/// Exits with 6 if something is damaged, and names the checkpoints that the damage affects. --repair
/// brings back what other records or the workspace's files still have, and removes nothing. Known
/// damage that no checkpoint needs is reported but is not an error. A checkpoint that is lost as a
/// whole is named until `rappel delete` removes it.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "\
Examples:
  rappel verify
  rappel verify latest
  rappel verify --repair")]
pub struct Args {
    /// Only this checkpoint
    #[arg(value_name = "REF", value_parser = values::reference)]
    pub reference: Option<Reference>,
    /// Bring back what can be brought back
    #[arg(long, conflicts_with = "reference")]
    pub repair: bool,
}

pub fn run(args: &Args, context: &Context) -> Result {
    let rappel = context.open()?;
    context.stop_cleanly();
    if args.repair {
        return repair(&rappel, context);
    }
    let report = progress::watch(context, "Checking", || rappel.verify(args.reference.as_ref()))?;
    let output = context.output;
    if output.json {
        output.answer_json(&report)?;
    } else if !(output.quiet && report.is_clean()) {
        let text = face::verify::checked(&report, output.paint());
        output.answer(|out| Ok(out.write_all(text.as_bytes())?))?;
    }
    if report.is_clean() {
        return Ok(Exit::Done);
    }
    Err(Failure {
        kind: ErrorKind::Damage,
        message: damage(&report.hurt),
        hint: Some(context.suggest("verify --repair")),
    })
}

fn repair(rappel: &Rappel, context: &Context) -> Result {
    let report = progress::watch(context, "Repairing", || rappel.repair())?;
    let output = context.output;
    if output.json {
        output.answer_json(&report)?;
    } else if !output.quiet {
        let text = face::verify::repaired(&report, output.paint());
        output.answer(|out| Ok(out.write_all(text.as_bytes())?))?;
    }
    if report.lost.is_empty() {
        return Ok(Exit::Done);
    }
    Err(Failure { kind: ErrorKind::Damage, message: damage(&report.lost), hint: None })
}

fn damage(hurt: &[Hurt]) -> String {
    match hurt.len() {
        0 => "something is damaged; every checkpoint that is listed is whole".into(),
        1 => "one checkpoint is hurt".into(),
        number => format!("{} checkpoints are hurt", face::thousands(number as u64)),
    }
}
