//! `rappel undelete`.

use rappel::answers::UndeleteAnswer;
use rappel_types::agents::SessionId;

use crate::errors::{Exit, Result};
use crate::face;
use crate::process::Context;

/// Bring back deleted checkpoints and sessions
///
/// Works for a day after `rappel delete` or `rappel prune`, unless that was told --now.
/// `rappel list --deleted` shows which checkpoints there are.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "\
Examples:
  rappel undelete chk_20261115_143022_k7f3
  rappel undelete 3 4 5")]
pub struct Args {
    /// Each checkpoint's id, the beginning of it, or its number; or a session's id
    #[arg(value_name = "ID", required = true)]
    pub ids: Vec<String>,
}

pub fn run(args: &Args, context: &Context) -> Result {
    let rappel = context.open()?;
    let mut sessions: Vec<SessionId> = Vec::new();
    let mut checkpoints = Vec::new();
    for id in &args.ids {
        match id.parse::<SessionId>() {
            Ok(session) if rappel.is_let_go(&session)? => sessions.push(session),
            _ => checkpoints.push(id.clone()),
        }
    }
    let back = rappel.undelete_all(&checkpoints)?;
    for session in &sessions {
        rappel.bring_back_session(session)?;
    }
    let output = context.output;
    if output.json {
        output.answer_json(&UndeleteAnswer::new(&back, &sessions))?;
    } else if !output.quiet {
        for checkpoint in &back {
            let target = face::restore::target(checkpoint, context.now(), output.paint());
            output.answer(|out| Ok(writeln!(out, "Brought back {target}")?))?;
        }
        for session in &sessions {
            let id = output.paint().id(session.as_str());
            output.answer(|out| Ok(writeln!(out, "Brought back session {id}")?))?;
        }
    }
    Ok(Exit::Done)
}
