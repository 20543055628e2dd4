//! `rappel recover`.

use rappel::{ErrorKind, Rappel, RecoverOptions};
use rappel_types::Reference;
use rappel_types::reference::Base;

use crate::errors::{Exit, Failure, Result};
use crate::face;
use crate::process::Context;
use crate::{progress, values};

/// Show and resolve unfinished restores and sessions
///
/// A restore that was interrupted is finished or taken back; the half-done state is saved first,
/// and what was edited in it since is left alone and listed.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "\
Examples:
  rappel recover
  rappel recover --finish
  rappel recover --finish --skip databases
  rappel recover --rollback
  rappel recover --set-aside
  rappel recover --steps --json")]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub struct Args {
    /// Carry the unfinished restore on to its end
    #[arg(long)]
    pub finish: bool,
    /// Take the unfinished restore back
    #[arg(long, conflicts_with = "finish")]
    pub rollback: bool,
    /// Take the plan of an interrupted restore out of the way that cannot be read any more
    ///
    /// What is there now is saved first.
    #[arg(long, conflicts_with_all = ["finish", "rollback", "steps"])]
    pub set_aside: bool,
    /// Finish it without the databases that are not restored yet (`databases`)
    #[arg(long, value_name = "FACET", requires = "finish", value_parser = ["databases"])]
    pub skip: Option<String>,
    /// List what a person or a program would do to get back: to the latest checkpoint, or to REF
    #[arg(long, conflicts_with_all = ["finish", "rollback"])]
    pub steps: bool,
    /// The checkpoint that --steps lead to [default: latest]
    #[arg(value_name = "REF", requires = "steps", value_parser = values::reference)]
    pub reference: Option<Reference>,
    /// Disconnect others from a database that they hold
    #[arg(long)]
    pub terminate_connections: bool,
}

pub fn run(args: &Args, context: &Context) -> Result {
    let rappel = context.open()?;
    let output = context.output;
    if args.steps {
        let latest = Reference::new(Base::Latest);
        let reference = args.reference.as_ref().unwrap_or(&latest);
        let point = rappel.create_recovery_point(reference, &face::advice::render)?;
        if output.json {
            output.answer_json(&point)?;
        } else {
            let text = face::recover::steps(&point, output.paint());
            output.answer(|out| Ok(out.write_all(text.as_bytes())?))?;
        }
        return Ok(Exit::Done);
    }
    let mut unfinished = rappel.unfinished()?;
    face::advice::word_sessions(&mut unfinished.sessions);
    if args.set_aside && unfinished.damaged_here {
        return set_aside(&rappel, context);
    }
    if !args.finish && !args.rollback && !args.set_aside {
        if output.json {
            output.answer_json(&unfinished)?;
        } else {
            let suggest = |words: &str| context.suggest(words);
            let text =
                face::recover::unfinished(&unfinished, context.now(), &suggest, output.paint());
            output.answer(|out| Ok(out.write_all(text.as_bytes())?))?;
        }
        return Ok(Exit::Done);
    }
    if args.set_aside || (unfinished.restores.is_empty() && !unfinished.damaged_here) {
        // Asked for twice in a row: what was wanted is so.
        if output.json {
            output.answer_json(&unfinished)?;
        } else if !output.quiet {
            let said = match args.set_aside {
                true => "Every plan of an unfinished restore can be read",
                false => "No restore is unfinished",
            };
            output.answer(|out| Ok(writeln!(out, "{said}")?))?;
        }
        return Ok(Exit::Done);
    }
    let options = RecoverOptions {
        finish: args.finish,
        skip_databases: args.skip.is_some(),
        terminate_connections: args.terminate_connections,
    };
    context.stop_cleanly();
    let mut recovered = progress::watch(context, "Recovering", || rappel.recover(&options))?;
    face::advice::word(&mut recovered.warnings);
    face::advice::word_conflicts(&mut recovered.conflicts);
    if output.json {
        output.answer_json(&recovered)?;
    } else if !output.quiet {
        let text = face::recover::recovered(&recovered, args.finish, output.paint());
        output.answer(|out| Ok(out.write_all(text.as_bytes())?))?;
    }
    face::restore::warn(&recovered.warnings, &recovered.kept, output);
    if recovered.conflicts.is_empty() {
        return Ok(Exit::Done);
    }
    Err(Failure {
        kind: ErrorKind::Conflict,
        message: face::restore::conflicts(&recovered.conflicts),
        hint: None,
    })
}

fn set_aside(rappel: &Rappel, context: &Context) -> Result {
    let output = context.output;
    let done = progress::watch(context, "Saving", || rappel.set_aside())?;
    if output.json {
        output.answer_json(&done)?;
    } else if !output.quiet {
        let suggest = |words: &str| context.suggest(words);
        let text = face::recover::set_aside(&done, &suggest, output.paint());
        output.answer(|out| Ok(out.write_all(text.as_bytes())?))?;
    }
    Ok(Exit::Done)
}
