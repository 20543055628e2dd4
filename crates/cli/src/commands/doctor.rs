//! `rappel doctor`.

use rappel::{Check, ErrorKind};
use serde_json::json;

use crate::errors::{Exit, Result};
use crate::process::Context;
use crate::{face, progress};

/// Check that everything Rappel relies on works
///
/// Exits with 1 if something is wrong.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "\
Examples:
  rappel doctor
  rappel doctor --json | jq '.checks[] | select(.ok | not)'")]
pub struct Args {}

pub fn run(_: &Args, context: &Context) -> Result {
    let output = context.output;
    let looked = context.open().and_then(|rappel| {
        let mut checks = progress::spinner(context, "Looking", || rappel.doctor())?;
        let installed = super::integrate::installed(&rappel, context);
        checks.extend(rappel.integrations(&installed)?.iter().map(Check::of_integration));
        Ok(checks)
    });
    // What cannot even be opened is a finding, not a failure to look.
    let checks = looked.unwrap_or_else(|failure| {
        vec![Check { name: "opening", ok: false, found: failure.message, hint: failure.hint }]
    });
    let ok = checks.iter().all(|check| check.ok);
    if output.json {
        output.answer_json(&json!({"ok": ok, "checks": checks}))?;
    } else if !(output.quiet && ok) {
        let text = face::health::checks(&checks, output.paint());
        output.answer(|out| Ok(out.write_all(text.as_bytes())?))?;
    }
    Ok(if ok { Exit::Done } else { Exit::Bad(ErrorKind::Failed) })
}
