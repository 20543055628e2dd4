//! `rappel trust`, and the question that `save` asks.

use rappel::answers::{DecisionsAnswer, RevokedAnswer};
use rappel::{Answer, ErrorKind, Rappel, Trust, TrustState};

use crate::errors::{Exit, Failure, Result};
use crate::process::Context;
use crate::{confirm, face};

/// Show what rappel.toml would run or reach, and allow it
///
/// A rappel.toml may name programs ([[command]], tools) and SQLite files outside the workspace. Rappel
/// runs and reads none of them before you have allowed it, here or when save asks on a terminal. What
/// you allow is exactly what is shown, for this workspace: command lines, folder, and the content of
/// each script of the workspace that a command line names. If any of it changes, Rappel asks again.
///
/// A program that has no terminal can set RAPPEL_TRUST to the hash that this command prints.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "\
Examples:
  rappel trust
  rappel trust --yes
  rappel trust --list
  RAPPEL_TRUST=$(rappel trust --json | jq -r .hash) rappel save")]
pub struct Args {
    /// Allow it without a question
    #[arg(short, long)]
    pub yes: bool,
    /// Forget everything that you allowed or refused for this workspace
    #[arg(long, conflicts_with_all = ["yes", "list"])]
    pub revoke: bool,
    /// List what you allowed and refused for this workspace
    #[arg(long, conflicts_with = "yes")]
    pub list: bool,
}

pub fn run(args: &Args, context: &Context) -> Result {
    let rappel = context.open()?;
    if args.list {
        return list(&rappel, context);
    }
    if args.revoke {
        return revoke(&rappel, context);
    }
    let mut trust = rappel.trust();
    if args.yes && trust.state != TrustState::Nothing {
        rappel.decide(&trust, Answer::Allowed)?;
        trust = Trust { state: TrustState::Allowed, ..trust };
        for one in &mut trust.entries {
            one.state = TrustState::Allowed;
        }
    }
    let output = context.output;
    if output.json {
        output.answer_json(&trust)?;
    } else if !(output.quiet && trust.state == TrustState::Allowed) {
        let text = face::trust::text(&trust, output.paint());
        output.answer(|out| {
            out.write_all(text.as_bytes())?;
            match trust.state {
                TrustState::Nothing => writeln!(
                    out,
                    "rappel.toml runs no programs and reaches nothing outside the workspace."
                )?,
                TrustState::Allowed => writeln!(out, "Allowed for {}", rappel.root().display())?,
                TrustState::Refused | TrustState::New => {}
            }
            Ok(())
        })?;
    }
    match trust.state {
        TrustState::Nothing | TrustState::Allowed => Ok(Exit::Done),
        TrustState::Refused | TrustState::New => ask(&rappel, &trust, context),
    }
}

/// Asks about what was shown.
fn ask(rappel: &Rappel, trust: &Trust, context: &Context) -> Result {
    if !context.can_ask_a_person() {
        let advice = match context.is_in_an_agents_shell() {
            true => "ask the user to run this on a terminal".to_owned(),
            false => context.suggest("trust --yes"),
        };
        return Err(Failure::unconfirmed("this is not allowed yet", advice));
    }
    match decide(rappel, trust, context)? {
        Answer::Allowed => Ok(Exit::Done),
        Answer::Refused => Ok(Exit::Bad(ErrorKind::Confirmation)),
    }
}

fn decide(rappel: &Rappel, trust: &Trust, context: &Context) -> Result<Answer> {
    let answer = match confirm::ask("Allow this for this workspace?")? {
        true => Answer::Allowed,
        false => Answer::Refused,
    };
    rappel.decide(trust, answer)?;
    context.output.tell(match answer {
        Answer::Allowed => "Allowed. `rappel trust --revoke` takes that back.",
        Answer::Refused => "Refused. `rappel trust` asks again.",
    });
    Ok(answer)
}

/// Asks a person about what nobody decided yet. A save goes on whatever the answer is.
pub fn ask_once(rappel: &Rappel, context: &Context) -> Result<()> {
    if !context.can_ask_a_person() {
        return Ok(());
    }
    let mut trust = rappel.trust();
    trust.entries.retain(|one| one.state == TrustState::New);
    if trust.entries.is_empty() {
        return Ok(());
    }
    let output = context.output;
    output.tell("rappel.toml wants to run programs or to reach outside the workspace:\n");
    output.tell(&face::trust::text(&trust, output.paint_stderr()));
    decide(rappel, &trust, context).map(drop)
}

fn list(rappel: &Rappel, context: &Context) -> Result {
    let all = rappel.trust_decisions()?;
    let output = context.output;
    if output.json {
        output.answer_json(&DecisionsAnswer { decisions: &all })?;
    } else if all.is_empty() {
        output.note("you have allowed and refused nothing in this workspace");
    } else {
        let text = face::trust::decisions(&all, context.now(), output.paint());
        output.answer(|out| Ok(out.write_all(text.as_bytes())?))?;
    }
    Ok(Exit::Done)
}

fn revoke(rappel: &Rappel, context: &Context) -> Result {
    let revoked = rappel.revoke_trust()?;
    let output = context.output;
    if output.json {
        output.answer_json(&RevokedAnswer { revoked })?;
    } else if !output.quiet {
        let count = face::count(revoked as u64, "decision", "decisions");
        output.answer(|out| Ok(writeln!(out, "Forgot {count}; nothing is allowed now.")?))?;
    }
    Ok(Exit::Done)
}
