//! `rappel status`.

use rappel::answers::UnusableStatus;
use rappel::hook::{Installed, Trust};
use rappel::{ErrorKind, Health, Status};
use rappel_types::time;

use crate::errors::{Exit, Failure, Result};
use crate::output::clean;
use crate::process::Context;
use crate::{face, progress};

/// Show how well the workspace is protected
///
/// Protected, degraded or unprotected, since when and why. Exits with 0 if it is protected and
/// with 1 otherwise.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "\
Examples:
  rappel status
  rappel status --json | jq -r .state
  rappel status -q || echo \"save your work\"
  rappel status --short")]
pub struct Args {
    /// One line for a prompt or a status line: the last save, and hooks that are gone or do not run.
    /// It says nothing of changes since
    #[arg(long)]
    pub short: bool,
}

pub fn run(args: &Args, context: &Context) -> Result {
    if args.short {
        return short(context);
    }
    let status = context.open().and_then(|rappel| {
        let installed = super::integrate::installed(&rappel, context);
        Ok(progress::watch(context, "Looking", || -> rappel::Result<Status> {
            let mut status = rappel.status()?;
            rappel.judge_integrations(&mut status, &installed)?;
            face::advice::word_status(&mut status);
            Ok(status)
        })?)
    });
    match status {
        Ok(status) => show(&status, context),
        Err(failure) => unusable(&failure, context),
    }
}

/// When the workspace was last saved, in one line.
fn short(context: &Context) -> Result {
    let rappel = context.open_silently()?;
    let last = rappel.last_saved()?;
    let output = context.output;
    if output.json {
        output.answer_json(&last)?;
        return Ok(Exit::Done);
    }
    let mut line = match last {
        Some(last) => {
            let age = time::age(context.now(), last.at);
            format!("saved {age} · #{}", last.sequence)
        }
        None => "never saved".to_owned(),
    };
    // Without its hooks an agent goes on unsaved, and this line may be all that the user looks at.
    for one in super::integrate::installed(&rappel, context) {
        if let Some(trouble) = trouble(&one) {
            line.push_str(&format!(" · {trouble}"));
        }
    }
    output.answer(|out| Ok(writeln!(out, "{line}")?))?;
    Ok(Exit::Done)
}

/// Why hooks do not run, in a few words.
fn trouble(one: &Installed) -> Option<String> {
    let agent = &one.agent;
    Some(match one.trust {
        _ if one.gone || !one.works => format!("hooks of {agent} gone"),
        _ if !one.missing.is_empty() => format!("some hooks of {agent} gone"),
        _ if one.switched_off.is_some() => format!("hooks of {agent} switched off"),
        Trust::Given => return None,
        Trust::New | Trust::Changed => format!("hooks of {agent} not confirmed"),
        Trust::Folder => format!("{agent} does not trust this folder"),
    })
}

fn show(status: &Status, context: &Context) -> Result {
    let output = context.output;
    if output.json {
        output.answer_json(status)?;
    } else if output.quiet {
        let word = face::health::health(status.state, output.paint());
        output.answer(|out| Ok(writeln!(out, "{word}")?))?;
    } else {
        let text = face::health::status(status, context.now(), output.paint());
        output.answer(|out| Ok(out.write_all(text.as_bytes())?))?;
        for hint in &status.hints {
            output.tell(&format!("{} {}", output.paint_stderr().hint("hint:"), clean(hint)));
        }
    }
    match status.state {
        Health::Protected => Ok(Exit::Done),
        Health::Degraded | Health::Unprotected => Ok(Exit::Bad(ErrorKind::Failed)),
    }
}

/// A workspace that cannot be opened is not protected, whatever the cause.
fn unusable(failure: &Failure, context: &Context) -> Result {
    let output = context.output;
    if output.json {
        let root = context.root().display().to_string();
        let home = context.home().ok().map(|home| home.display().to_string());
        let hints = failure.hint.iter().cloned().collect();
        let reasons = vec![failure.message.clone()];
        output.answer_json(&UnusableStatus::new(root, home, reasons, hints))?;
        return Ok(Exit::Bad(ErrorKind::Failed));
    }
    let word = face::health::health(Health::Unprotected, output.paint());
    output.answer(|out| {
        writeln!(out, "{word}")?;
        if !output.quiet {
            for line in failure.message.lines() {
                writeln!(out, "  {}", clean(line))?;
            }
        }
        Ok(())
    })?;
    if let (Some(hint), false) = (&failure.hint, output.quiet) {
        output.tell(&format!("{} {}", output.paint_stderr().hint("hint:"), clean(hint)));
    }
    Ok(Exit::Bad(ErrorKind::Failed))
}
