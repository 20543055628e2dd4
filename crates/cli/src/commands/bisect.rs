//! `rappel bisect`.

use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};

use rappel::types::bisect::Answer;
use rappel::{BisectRequest, Bisected, Candidate, ErrorKind, Ran, Rappel};
use rappel_types::Reference;

use super::diff::unified;
use crate::errors::{Exit, Result};
use crate::output::clean;
use crate::process::{self, Context};
use crate::{face, values};

/// Find the first checkpoint at which a command fails
///
/// GOOD is a checkpoint at which the command succeeds, BAD a later one at which it fails. Each
/// checkpoint to test is written to a scratch folder, as by `restore --to`, and the command runs
/// there; the workspace is not touched. The command's exit code is the answer, as in git: 0 is
/// good, 1 to 127 is bad, 125 means that this checkpoint cannot be tested, and 128 or more stops
/// the search. The two checkpoints that the search ends at are tested twice: a command that answers by
/// chance is noticed.
#[derive(Debug, Clone, clap::Args)]
#[command(override_usage = "\
rappel bisect GOOD BAD -- COMMAND…
       rappel bisect --continue
       rappel bisect --abort")]
#[command(after_help = "\
Examples:
  rappel bisect 12 latest -- cargo test
  rappel bisect '@{yesterday 18:00}' latest -- sh -c 'make || exit 125; ./run-tests'
  rappel bisect --continue
  rappel bisect --abort")]
pub struct Args {
    /// A checkpoint at which the command succeeds
    #[arg(value_name = "GOOD", value_parser = values::reference)]
    #[arg(required_unless_present_any = ["goes_on", "abort"])]
    pub good: Option<Reference>,
    /// A later one at which it fails
    #[arg(value_name = "BAD", value_parser = values::reference)]
    #[arg(required_unless_present_any = ["goes_on", "abort"])]
    pub bad: Option<Reference>,
    /// The command and its arguments
    #[arg(value_name = "COMMAND", last = true)]
    #[arg(required_unless_present_any = ["goes_on", "abort"])]
    pub command: Vec<String>,
    /// Go on with a search that was interrupted
    #[arg(long = "continue", conflicts_with_all = ["good", "bad", "command", "abort"])]
    pub goes_on: bool,
    /// Give up a search that was interrupted, and remove its scratch folder
    #[arg(long, conflicts_with_all = ["good", "bad", "command"])]
    pub abort: bool,
}

pub fn run(args: &Args, context: &Context) -> Result {
    let rappel = context.open()?;
    let output = context.output;
    if args.abort {
        let was = rappel.abort_bisect()?;
        if output.json {
            output.answer_json(&rappel::answers::BisectAbortAnswer { aborted: was })?;
        } else if !output.quiet {
            let said = if was { "Gave up the bisect" } else { "No bisect is unfinished" };
            output.answer(|out| Ok(writeln!(out, "{said}")?))?;
        }
        return Ok(Exit::Done);
    }
    context.stop_cleanly();
    let found = match (&args.good, &args.bad) {
        (Some(good), Some(bad)) => {
            let request = BisectRequest {
                good: good.clone(),
                bad: bad.clone(),
                command: args.command.clone(),
                temporary: process::temporary(),
            };
            rappel.bisect(&request, &mut |candidate| test(candidate, &args.command, context))?
        }
        _ => {
            let command = rappel.bisect_command()?;
            rappel.continue_bisect(&mut |candidate| test(candidate, &command, context))?
        }
    };
    if output.json {
        output.answer_json(&found)?;
    } else {
        show(&rappel, &found, context)?;
    }
    match found.skipped.is_empty() {
        true => Ok(Exit::Done),
        false => Ok(Exit::Bad(ErrorKind::Failed)),
    }
}

/// Runs the command in a candidate's folder. What it says goes to stderr: stdout has the answer.
fn test(candidate: &Candidate, command: &[String], context: &Context) -> Ran {
    let output = context.output;
    let id = output.paint_stderr().id(candidate.checkpoint.as_str());
    if !output.quiet && !output.json {
        let left = face::count(candidate.left as u64, "checkpoint", "checkpoints");
        output.tell(&format!("Testing {id} ({left} left)"));
    }
    let [program, arguments @ ..] = command else { return Ran::Abort("no command".into()) };
    let stdout = match std::io::stderr().as_fd().try_clone_to_owned() {
        Ok(stderr) => Stdio::from(stderr),
        Err(_) => Stdio::null(),
    };
    let mut command = Command::new(program);
    command.args(arguments).current_dir(&candidate.folder).env("PWD", &candidate.folder);
    // None of them may lead the command out of its folder, or into a session.
    for name in process::LEADING_ELSEWHERE {
        command.env_remove(name);
    }
    let status = match command.stdin(Stdio::null()).stdout(stdout).status() {
        Ok(status) => status,
        Err(error) => return Ran::Abort(format!("cannot run {}: {error}", clean(program))),
    };
    match (status.code(), status.signal()) {
        (Some(0), _) => Ran::Answer(Answer::Good, 0),
        (Some(125), _) => Ran::Answer(Answer::Skip, 125),
        (Some(code), _) if code < 128 => Ran::Answer(Answer::Bad, code),
        (Some(code), _) => Ran::Abort(format!("the command ended with exit code {code}")),
        (None, signal) => {
            Ran::Abort(format!("the command was ended by signal {}", signal.unwrap_or(0)))
        }
    }
}

fn show(rappel: &Rappel, found: &Bisected, context: &Context) -> Result<()> {
    let output = context.output;
    let text = face::bisect::found(found, context.now(), output.paint());
    let mut diff = found.culprit.diff.clone();
    face::diff::leave_told(&mut diff);
    output.page(|out| {
        out.write_all(text.as_bytes())?;
        unified(rappel, &diff, out, output)
    })
}
