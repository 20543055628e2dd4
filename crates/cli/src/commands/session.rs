//! `rappel session`.

use clap::Subcommand;
use rappel::answers::{ResumeAnswer, SessionAnswer, SessionShowAnswer, SessionsAnswer};
use rappel::types::agents::{ProcessId, SessionId, SessionStatus};
use rappel::{Recorded, SessionStart, SessionView};

use crate::errors::{Exit, Failure, Result};
use crate::face;
use crate::output::clean;
use crate::process::{self, Context};
use crate::values;

/// Begin, pause, end and look at agents' sessions
///
/// A session is one agent's run. `rappel record` records what happens in it, and every checkpoint
/// knows how far it was.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "\
Examples:
  export RAPPEL_SESSION=$(rappel session start --task \"fix the login\" -q)
  rappel session list
  rappel session end --status completed
  rappel session resume ses_20261115_143022_k7f3")]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Clone, Subcommand)]
enum Verb {
    /// Begin a session, and print its id
    #[command(
        after_help = "Example:\n  export RAPPEL_SESSION=$(rappel session start --task \"fix the login\" --provider claude)"
    )]
    Start(Start),
    /// Pause a session
    #[command(after_help = "Example:\n  rappel session pause")]
    Pause(Which),
    /// Resume a session, and print the command that resumes its agent
    #[command(after_help = "Example:\n  rappel session resume ses_20261115_143022_k7f3 --exec")]
    Resume(Resume),
    /// End a session
    #[command(
        after_help = "Example:\n  rappel session end --status failed --reason \"no more budget\""
    )]
    End(End),
    /// List this workspace's sessions
    #[command(visible_alias = "ls", after_help = "Example:\n  rappel session list --json")]
    List,
    /// Show one session
    #[command(after_help = "Example:\n  rappel session show ses_20261115_143022_k7f3")]
    Show(Which),
}

#[derive(Debug, Clone, clap::Args)]
struct Start {
    /// Its id [default: a new one]
    #[arg(long, value_name = "ID", value_parser = values::session)]
    session: Option<SessionId>,
    /// The agent: claude, codex, gemini …
    #[arg(long, value_name = "NAME")]
    provider: Option<String>,
    /// The task
    #[arg(long, value_name = "TEXT")]
    task: Option<String>,
    /// The agent's own id of the conversation
    #[arg(long, value_name = "ID")]
    conversation_id: Option<String>,
    /// The agent's own id of the session
    #[arg(long, value_name = "ID")]
    assistant_session_id: Option<String>,
    /// The session that started it (subagents) [default: RAPPEL_SESSION, while it is running]
    #[arg(long, value_name = "ID", value_parser = values::session)]
    parent: Option<SessionId>,
    /// The agent's process
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,
}

#[derive(Debug, Clone, clap::Args)]
struct Which {
    /// The session [default: RAPPEL_SESSION, else the only running one]
    #[arg(value_name = "ID", value_parser = values::session)]
    session: Option<SessionId>,
    /// The same, as other commands take it
    #[arg(long = "session", value_name = "ID", hide = true, conflicts_with = "session")]
    #[arg(value_parser = values::session)]
    flagged: Option<SessionId>,
}

#[derive(Debug, Clone, clap::Args)]
struct Resume {
    #[command(flatten)]
    which: Which,
    /// Run the agent's own resume command
    #[arg(long)]
    exec: bool,
}

#[derive(Debug, Clone, clap::Args)]
struct End {
    #[command(flatten)]
    which: Which,
    /// How it ended: completed, failed
    #[arg(long, default_value = "completed", value_parser = values::end_status)]
    status: SessionStatus,
    /// Why
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

pub fn run(args: &Args, context: &Context) -> Result {
    let rappel = context.open()?;
    let named =
        |which: &Which| context.named_session(which.session.as_ref().or(which.flagged.as_ref()));
    match &args.verb {
        Verb::Start(start) => {
            let process = start.pid.map(process_of).transpose()?;
            // A variable that was left over from a session that is over names no parent.
            let around = context.session_id().and_then(|id| rappel.session(&id).ok());
            let around = around.filter(|view| view.status.is_live()).map(|view| view.id);
            let (session, recorded) = rappel.start_session(SessionStart {
                session: start.session.clone(),
                provider: start.provider.clone(),
                task: start.task.clone(),
                conversation_id: start.conversation_id.clone(),
                assistant_session_id: start.assistant_session_id.clone(),
                parent: start.parent.clone().or(around),
                process,
            })?;
            let view = rappel.session(&session)?;
            tell(context, &view, &recorded, &session.to_string())
        }
        Verb::Pause(which) => {
            let session = rappel.session_meant(named(which)?.as_ref())?.id;
            let recorded = rappel.pause_session(&session)?;
            let text = format!("Session {session} is paused");
            tell(context, &rappel.session(&session)?, &recorded, &text)
        }
        Verb::Resume(resume) => {
            let view = rappel.session_looked_at(named(&resume.which)?.as_ref())?;
            let command = rappel::resume_command(&view);
            let paused = view.status == SessionStatus::Paused;
            if command.is_none() && (resume.exec || !paused) {
                return Err(no_command(&view));
            }
            let recorded = paused.then(|| rappel.resume_session(&view.id, None)).transpose()?;
            if let (true, Some(command)) = (resume.exec, &command) {
                return Err(process::replace_by(command, rappel.root()).failure);
            }
            let view = rappel.session(&view.id)?;
            if context.output.json {
                let checkpoints = recorded.map(|recorded| recorded.checkpoints).unwrap_or_default();
                context.output.answer_json(&ResumeAnswer {
                    session: &view,
                    command: command.as_deref(),
                    checkpoints: &checkpoints,
                })?;
                return Ok(Exit::Done);
            }
            let line = match &command {
                Some(words) => {
                    words.iter().map(|word| process::quote(word)).collect::<Vec<_>>().join(" ")
                }
                None => format!("Session {} resumed", view.id),
            };
            context.output.answer(|out| Ok(writeln!(out, "{}", clean(&line))?))?;
            Ok(Exit::Done)
        }
        Verb::End(end) => {
            let session = rappel.session_meant(named(&end.which)?.as_ref())?.id;
            let recorded = rappel.end_session(&session, end.status, end.reason.clone())?;
            let text = format!("Session {session} ended ({})", end.status);
            tell(context, &rappel.session(&session)?, &recorded, &text)
        }
        Verb::List => {
            let sessions = rappel.sessions_and_imported()?;
            if context.output.json {
                context.output.answer_json(&SessionsAnswer::from(&sessions[..]))?;
            } else {
                let text = face::agents::sessions(&sessions, context.now(), context.output.paint());
                context.output.answer(|out| Ok(out.write_all(text.as_bytes())?))?;
            }
            Ok(Exit::Done)
        }
        Verb::Show(which) => {
            let view = rappel.session_looked_at(named(which)?.as_ref())?;
            let found = rappel.state_now(&view.id, face::agents::SHOWN)?;
            let modified = rappel.files_modified(&view.id)?;
            if context.output.json {
                context.output.answer_json(&SessionShowAnswer {
                    session: &view,
                    files_modified: &modified,
                    now: (&found).into(),
                })?;
            } else {
                let mut text =
                    face::agents::session(&view, &modified, context.now(), context.output.paint());
                text.push_str(&face::agents::state(&found, context.now(), context.output.paint()));
                context.output.answer(|out| Ok(out.write_all(text.as_bytes())?))?;
            }
            Ok(Exit::Done)
        }
    }
}

/// A process that is there.
fn process_of(pid: u32) -> Result<ProcessId> {
    rappel::process_id(pid).ok_or_else(|| {
        Failure::usage(format!("there is no process {pid}"), "--pid $$ names the shell's own")
    })
}

fn no_command(view: &SessionView) -> Failure {
    let message = match &view.provider {
        Some(provider) if view.assistant_session_id.is_none() => {
            format!("no {} session id was recorded for {}", face::capitalised(provider), view.id)
        }
        Some(provider) => format!("Rappel does not know how {provider} resumes a session"),
        None => format!("no provider was recorded for {}", view.id),
    };
    Failure::usage(message, "rappel recall gives its agent what it needs to go on")
}

fn tell(context: &Context, session: &SessionView, recorded: &Recorded, text: &str) -> Result {
    let output = context.output;
    if output.json {
        output.answer_json(&SessionAnswer::new(session, recorded))?;
    } else {
        output.answer(|out| Ok(writeln!(out, "{}", clean(text))?))?;
        for note in &recorded.notes {
            output.warning(note);
        }
    }
    Ok(Exit::Done)
}
