//! `rappel run`.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use rappel::types::agents::payload::CommandExit;
use rappel::{OomCounter, Periodic, PeriodicEvent, PeriodicOptions, Rappel, RunSession, RunStart};
use rappel_types::agents::SessionId;
use serde_json::Value;

use crate::commands::trust;
use crate::errors::{Exit, Failure, Result};
use crate::output::clean;
use crate::process::{self, Context};
use crate::supervise::{self, Ended, OnTerminate, Streams, Supervised};
use crate::{detached, face, signals, values};

/// Run a command with checkpoints from its first second to its end
///
/// Makes a checkpoint at once, then one at each interval at which something changed, and a last one
/// however the command ends. The command runs as if it ran alone: its exit code, signals, terminal,
/// ^Z and window size are its own. A request to terminate is passed on, and never more than that.
/// A summary follows on stderr; with --json it is the answer, and what the command writes to stdout
/// goes to stderr.
#[derive(Debug, Clone, clap::Args)]
#[command(override_usage = "rappel run [OPTIONS] -- COMMAND…")]
#[command(after_help = "\
How long the command runs, and a good interval:
  under 1 hour   10m to 15m
  1 to 3 hours   15m to 20m
  3 to 6 hours   20m to 30m
  6 to 8 hours   30m (the default)

Examples:
  rappel run -- claude
  rappel run --interval 15m -- claude -p 'fix the login'
  rappel run --keep-output -- make test
  rappel run --state-dir .aiwg/ralph-external/iterations/001 -- claude
  rappel run --json -- sh -c 'make && make install'")]
pub struct Args {
    /// The time between two checkpoints
    #[arg(long, value_name = "DURATION", default_value = "30m", value_parser = values::interval)]
    pub interval: Duration,
    /// The session: a new name, or the session of a run that crashed [default: a new one]
    #[arg(long, value_name = "ID", value_parser = values::session)]
    pub session: Option<SessionId>,
    /// Also write DIR/checkpoints/NNN-checkpoint.json at each interval, in the form of aiwg
    ///
    /// Numbers go on from what is there. Rappel does not capture these files.
    #[arg(long, value_name = "DIR")]
    pub state_dir: Option<PathBuf>,
    /// Keep the last 200 lines that the command writes, without secrets
    ///
    /// The command then writes to a pipe instead of the terminal: it may leave out colours, and a
    /// program that needs a terminal does not work.
    #[arg(long)]
    pub keep_output: bool,
    /// The command and its arguments
    #[arg(value_name = "COMMAND", required = true, trailing_var_arg = true)]
    pub command: Vec<String>,
}

pub fn run(args: &Args, context: &Context) -> Result {
    let rappel = Arc::new(context.open_silently()?);
    trust::ask_once(&rappel, context)?;
    let around = context.session_id().filter(|around| Some(around) != args.session.as_ref());
    let around = around.and_then(|id| rappel.session(&id).ok());
    let session = rappel.begin_run(RunStart {
        session: args.session.clone(),
        command: line_of(&args.command),
        parent: around.filter(|view| view.status.is_live()).map(|view| view.id),
        process: rappel::process_id(std::process::id()),
    })?;
    let periodic = Arc::new(Periodic::new(
        rappel.clone(),
        PeriodicOptions {
            state_dir: args.state_dir.as_deref().map(|folder| context.absolute(folder)),
            interval: args.interval,
            session: Some(session.id().to_string()),
            session_started_at: session.started_at(),
            on_checkpoint: None,
        },
    ));
    tell_failures(periodic.subscribe());
    let began = begin(args, &rappel, &periodic, &session, context);
    let (supervised, oom) = match began {
        Ok(Begun::Running(supervised, oom)) => (supervised, oom),
        other => {
            let signal = match &other {
                Ok(Begun::Ended(signal)) => Some(*signal),
                _ => None,
            };
            // Why it did not begin is what the user has to know.
            let _ = rappel.end_run(session, CommandExit { signal, ..CommandExit::default() });
            return match other? {
                Begun::NotRun { failure, code } => {
                    failure.show(context.output);
                    Ok(Exit::Passed(code))
                }
                _ => Ok(pass_through(Ended { code: None, signal })),
            };
        }
    };
    session.note_command(supervised.id());
    periodic.watch(supervised.id());
    let on_terminate = Arc::new(SaveOnTerminate { periodic: periodic.clone() });
    let (ended, lines) = supervised
        .wait(&on_terminate)
        .map_err(|error| Failure::failed(format!("cannot wait for the command: {error}")))?;
    let exit = CommandExit {
        code: ended.code,
        signal: ended.signal,
        oom_kills: oom.kills(ended.signal == Some(libc::SIGKILL)),
        peak_rss: periodic.memory().peak().map(|peak| peak.rss),
        output: lines,
    };
    finish(&rappel, &periodic, session, &exit, context)?;
    detached::start_upkeep(&rappel, context);
    Ok(pass_through(ended))
}

/// What became of a command that was to begin.
enum Begun {
    Running(Supervised, OomCounter),
    /// This signal came before it had begun.
    Ended(i32),
    /// It cannot be run; with what a shell says of that.
    NotRun {
        failure: Failure,
        code: u8,
    },
}

/// Makes the first checkpoint, then begins the command.
fn begin(
    args: &Args,
    rappel: &Rappel,
    periodic: &Periodic,
    session: &RunSession,
    context: &Context,
) -> Result<Begun> {
    let cannot = |error: std::io::Error| {
        let program = args.command.first().map(String::as_str).unwrap_or_default();
        Failure::failed(format!("cannot run {}: {error}", clean(program)))
    };
    let signals = supervise::listen().map_err(cannot)?;
    let late = || tell("rappel: the first checkpoint is not made yet; the save goes on");
    let (first, came) =
        supervise::listening(&signals, || periodic.start(None).map(drop), late).map_err(cannot)?;
    first?;
    let output = context.output;
    if let Some(first) = periodic.captured().first().filter(|_| !output.quiet && !output.json) {
        output.tell(&format!("rappel: saved {} (session {})", first.checkpoint, session.id()));
    }
    for warning in rappel.warnings() {
        output.warning(&face::advice::sentence(&warning));
    }
    if let Some(signal) = came {
        tell("rappel: the command was not begun: a signal to end came before");
        return Ok(Begun::Ended(signal));
    }
    let streams = Streams { stdout_to_stderr: output.json, keep: args.keep_output };
    let home = context.home()?;
    let variables =
        [("RAPPEL_SESSION", OsStr::new(session.id().as_str())), ("RAPPEL_HOME", home.as_os_str())];
    let oom = OomCounter::start();
    match Supervised::start(&args.command, context.folder(), &variables, streams, signals) {
        Ok(supervised) => Ok(Begun::Running(supervised, oom)),
        Err(error) => {
            let code = match error.kind() {
                std::io::ErrorKind::NotFound => 127,
                std::io::ErrorKind::PermissionDenied => 126,
                _ => return Err(cannot(error)),
            };
            Ok(Begun::NotRun { failure: cannot(error), code })
        }
    }
}

/// The last checkpoint, the end of the session, and the summary.
fn finish(
    rappel: &Rappel,
    periodic: &Periodic,
    session: RunSession,
    exit: &CommandExit,
    context: &Context,
) -> Result<()> {
    let output = context.output;
    let totals = rappel.run_totals(session.id()).unwrap_or_default();
    let mut metadata: BTreeMap<String, Value> = BTreeMap::new();
    metadata.insert("iteration".into(), totals.prompts.into());
    metadata.extend(exit.code.map(|code| ("exit_code".to_owned(), code.into())));
    metadata.extend(exit.signal.map(|signal| ("signal".to_owned(), signal.into())));
    metadata.insert("oom_kills".into(), exit.oom_kills.into());
    let message = format!("session end (iterations={})", totals.prompts);
    let finished = periodic.finish(Some(message), metadata);
    if let Err(error) = &finished.last {
        rappel.note_run_failure(&error.to_string());
        tell(&format!("rappel: the last checkpoint: {error}"));
    }
    let id = session.id().clone();
    if let Err(error) = rappel.end_run(session, exit.clone()) {
        tell(&format!("rappel: the end of session {id} is not recorded: {error}"));
    }
    if output.json {
        return output.answer_json(&finished.summary);
    }
    if !output.quiet {
        let totals = rappel.run_totals(&id).unwrap_or_default();
        let go_back = periodic
            .captured()
            .first()
            .map(|first| context.suggest(&format!("restore {}", first.checkpoint)));
        let shown = face::run::Run {
            session: &id,
            exit,
            duration_ms: finished.summary.total_duration,
            captured: &periodic.captured(),
            files_modified: &periodic.files_modified(),
            memory: &periodic.memory(),
            tokens: totals.tokens,
            go_back,
        };
        output.tell(face::run::summary(&shown, output.paint_stderr()).trim_end());
    }
    Ok(())
}

/// Ends as the command ended.
fn pass_through(ended: Ended) -> Exit {
    if let Some(signal) = ended.signal {
        signals::die_by(signal);
        return Exit::Passed(u8::try_from(128 + signal).unwrap_or(255));
    }
    Exit::Passed(ended.code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}

/// The command as one would type it.
fn line_of(words: &[String]) -> String {
    words.iter().map(|word| process::quote(word)).collect::<Vec<_>>().join(" ")
}

/// Says on stderr what could not be done, from the thread that hears of it.
fn tell_failures(events: Receiver<PeriodicEvent>) {
    std::thread::spawn(move || {
        for event in events {
            if let PeriodicEvent::Failed { message } = event {
                tell(&format!("rappel: {message}"));
            }
        }
    });
}

/// A line on stderr. From any thread, so not through an output.
fn tell(line: &str) {
    // Nobody is left to be told that stderr cannot be written.
    let _ = writeln!(std::io::stderr().lock(), "{}", clean(line));
}

/// What happens on SIGTERM, while the command ends by itself.
struct SaveOnTerminate {
    periodic: Arc<Periodic>,
}

impl SaveOnTerminate {
    fn last(&self) -> String {
        match self.periodic.captured().last() {
            Some(last) => format!("everything since {}", last.checkpoint),
            None => "everything".into(),
        }
    }
}

impl OnTerminate for SaveOnTerminate {
    fn save(&self) {
        if let Err(error) = self.periodic.capture_now() {
            tell(&format!("rappel: {} is not saved yet: {error}", self.last()));
        }
    }

    fn saved(&self) {
        if let Some(last) = self.periodic.captured().last() {
            let holds = match &last.missing[..] {
                [] => "holds everything".to_owned(),
                missing => format!("lacks {}", missing.join(", ")),
            };
            tell(&format!("rappel: {} {holds}; waiting for the command", last.checkpoint));
        }
    }

    fn late(&self) {
        tell(&format!("rappel: {} is not saved yet; the save goes on", self.last()));
    }
}
