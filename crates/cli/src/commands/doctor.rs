//! `rappel doctor`.

use rappel::answers::DoctorAnswer;
use rappel::{Check, ErrorKind};

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
        let mut checks = progress::watch(context, "Looking", || rappel.doctor())?;
        let installed = super::integrate::installed(&rappel, context);
        checks.extend(rappel.integrations(&installed)?.iter().map(Check::of_integration));
        for check in &mut checks {
            match face::advice::hint(&check.advice) {
                Some(hint) if check.ok => check.found = format!("{} ({hint})", check.found),
                hint => check.hint = hint,
            }
        }
        Ok(checks)
    });
    // What cannot even be opened is a finding, not a failure to look.
    let checks = looked.unwrap_or_else(|failure| {
        let (found, hint) = (failure.message, failure.hint);
        vec![Check { name: "opening", ok: false, found, advice: Vec::new(), hint }]
    });
    let answer = DoctorAnswer::from(&checks[..]);
    let ok = answer.ok;
    if output.json {
        output.answer_json(&answer)?;
    } else if !(output.quiet && ok) {
        let text = face::health::checks(&checks, output.paint());
        output.answer(|out| Ok(out.write_all(text.as_bytes())?))?;
    }
    Ok(if ok { Exit::Done } else { Exit::Bad(ErrorKind::Failed) })
}
