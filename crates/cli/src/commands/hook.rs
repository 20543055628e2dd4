//! `rappel hook`.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rappel::ambient::{Clock, SystemClock};
use rappel::hook::{Answer, Call, Event, Moment, Workers, budgets};
use rappel::process_id;
use rappel_hooks::integrate::Called;
use rappel_hooks::typed::{self, Typed};
use rappel_hooks::{PayloadError, Scope, VENDORS, Vendor, vendor};
use rappel_types::agents::{ProcessId, SessionId};
use rappel_types::config::HooksConfig;
use serde::{Deserialize, Serialize};

use super::hook_git;
use crate::detached;
use crate::errors::{Exit, Result};
use crate::payload;
use crate::process::{self, Context};
use crate::worker::{self, Side, Waited};

/// A payload that is longer is no payload.
const PAYLOAD_MAX: usize = 64 << 20;
/// The answer to a command is cut at so many characters.
const REPLY_MAX: usize = 20_000;
/// Exit codes of a command line that makes no sense, or that names what is not there.
const USAGE: i32 = 2;
const UNKNOWN: i32 = 3;
/// The exit code of a command that asks first.
const UNCONFIRMED: i32 = 4;
/// How long the user waits for a command that was typed as a prompt.
const REPLY_WAIT: Duration = Duration::from_secs(25);

/// Take what an agent's hook tells; `rappel integrate` sets that up
///
/// Reads one event as JSON from its standard input, records it, saves what has to be saved, and
/// prints what the agent should know, in the agent's own form. It always exits 0: an agent is never
/// stopped by it.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "\
Examples:
  rappel hook claude
  rappel hook claude --projects-only
  rappel hook git post-commit
  rappel integrate claude")]
pub struct Args {
    /// Whose hook it is: an agent's, or git's
    #[arg(value_parser = caller)]
    pub agent: Caller,
    /// Which of git's hooks it is
    pub hook: Option<String>,
    /// Do nothing but in git work trees and in folders with a rappel.toml
    #[arg(long)]
    pub projects_only: bool,
    /// Do nothing where the hooks of this user's own settings for the project run too
    #[arg(long, hide = true)]
    pub shared: bool,
    /// Save once this process of git has ended
    #[arg(long, hide = true, value_name = "PID")]
    pub after: Option<i32>,
}

impl Args {
    /// Whose settings the hook stands in.
    fn scope(&self) -> Scope {
        match (self.projects_only, self.shared) {
            (true, _) => Scope::User,
            (false, true) => Scope::Shared,
            (false, false) => Scope::Local,
        }
    }
}

/// Whose hook it is.
#[derive(Debug, Clone, Copy)]
pub enum Caller {
    /// An agent's.
    Agent(&'static Vendor),
    /// Git's.
    Git,
}

fn caller(name: &str) -> Result<Caller, String> {
    if name == hook_git::GIT {
        return Ok(Caller::Git);
    }
    let names = || VENDORS.iter().map(|vendor| vendor.name).collect::<Vec<_>>().join(", ");
    vendor(name).map(Caller::Agent).ok_or_else(|| format!("there are {}, git", names()))
}

/// How long the agent waits for each event.
fn budget(moment: &Moment, budgets: &HooksConfig) -> Duration {
    match moment {
        // Databases take as long as they take.
        Moment::BeforeCall(Call { operation: Some(operation), .. }) if operation.databases => {
            Duration::from_secs(120)
        }
        Moment::BeforeCall(_) => budgets.before_call,
        Moment::Prompt { text, .. } if typed::typed(text).is_some() => REPLY_WAIT,
        Moment::SessionEnd { .. } => budgets.session_end,
        _ => budgets.other,
    }
}

#[allow(clippy::unnecessary_wraps, reason = "as every command")]
pub fn run(args: &Args, context: &Context) -> Result {
    let started = Instant::now();
    match args.agent {
        // Whatever goes wrong is told where it can be told, and the agent goes on.
        Caller::Agent(vendor) => drop(hear(vendor, args, context, started)),
        Caller::Git => {
            hook_git::run(args.hook.as_deref().unwrap_or_default(), args.after, context);
        }
    }
    Ok(Exit::Done)
}

fn hear(vendor: &'static Vendor, args: &Args, context: &Context, started: Instant) -> Result<()> {
    // Which event it is, and with that its budget, is not known before it is read.
    let until = started + HooksConfig::default().other;
    let is_whole = |bytes: &[u8]| serde_json::from_slice::<serde::de::IgnoredAny>(bytes).is_ok();
    let payload = payload::read(std::io::stdin(), PAYLOAD_MAX, until, is_whole)?;
    let at = SystemClock.now();
    let agent = process::hooked_agent(vendor);
    let process =
        agent.process.map(|pid| process_id(pid).unwrap_or(ProcessId { pid, started: 0, boot: 0 }));
    let home = context.home()?;
    let workers = Workers::of(&home);
    let event = match (vendor.event)(&payload, process) {
        Ok(event) => Event { at: Some(at), ..event },
        Err(PayloadError::Unknown(name)) => {
            workers.pass_over(&name);
            return Ok(());
        }
        Err(PayloadError::Nothing) => return Ok(()),
        Err(error) => {
            let folder = agent.project.unwrap_or_else(|| PathBuf::from("."));
            workers.note_failure(&context.within(&folder).root(), &error.to_string());
            return Ok(());
        }
    };
    let folder = agent.project.or_else(|| event.folder.as_ref().map(PathBuf::from));
    if let (Some(folder), Ok(user)) = (&folder, context.agent_folder(vendor)) {
        let called = Called {
            scope: args.scope(),
            folder,
            user: &user,
            payload: &payload,
            is_unasked: agent.is_unasked,
        };
        if called.stands_aside(vendor, &process::path_folders()) {
            return Ok(());
        }
    }
    drop(payload);
    let context = match &folder {
        Some(folder) => context.within(folder),
        None => context.within(Path::new(".")),
    };
    let root = context.root();
    if args.projects_only && !rappel::is_project(&root) {
        return Ok(());
    }
    let until = started + budget(&event.moment, &budgets(&root));
    let heard = match worker::start() {
        Ok(Side::Worker(pipe)) => {
            let pipe = Arc::new(pipe);
            let listener = pipe.clone();
            let goes_on = move || worker::is_alone(&listener);
            let said = work(&context, &event, &workers, Arc::new(goes_on));
            // Where nobody listens any more, the work was done all the same.
            let bytes = serde_json::to_vec(&said).unwrap_or_default();
            let _ = worker::answer(&pipe, &bytes);
            return Ok(());
        }
        Ok(Side::Caller(pipe)) => match worker::wait(&pipe, until)? {
            Waited::StillAtWork => Said::Answer(still_at_work(&event)),
            // One that died is noted by the next event, which finds what it left.
            Waited::Answer(bytes) => serde_json::from_slice(&bytes)
                .unwrap_or_else(|_| Said::Failed("its worker died".into())),
        },
        // Without a second process it is done in this one.
        Err(_) => work(&context, &event, &workers, Arc::new(|| false)),
    };
    let text = match heard {
        Said::Answer(answer) => (vendor.answer)(&event, &answer),
        Said::Failed(message) => failed(vendor, &event, &workers, &message),
    };
    if !text.is_empty() {
        let mut out = std::io::stdout().lock();
        writeln!(out, "{text}")?;
    }
    Ok(())
}

/// What the user is told of a failure: once in a session, at an event where the agent shows it.
fn failed(vendor: &Vendor, event: &Event, workers: &Workers, message: &str) -> String {
    let notice =
        format!("Rappel could not save: {message}. It says so once; `rappel status` tells more.");
    let text = (vendor.answer)(event, &Answer { notice: Some(notice), ..Answer::default() });
    match !text.is_empty() && workers.shows_failure(event) {
        true => text,
        false => String::new(),
    }
}

/// Whether the agent has stopped waiting.
type GoesOn = Arc<dyn Fn() -> bool + Send + Sync>;

/// What the worker says.
#[derive(Serialize, Deserialize)]
enum Said {
    Answer(Answer),
    Failed(String),
}

/// What is done beside the agent. A failure is noted here: the hook may be gone.
fn work(context: &Context, event: &Event, workers: &Workers, goes_on: GoesOn) -> Said {
    let root = context.root();
    // A home that is not there yet is made by whoever opens it first.
    if context.home().is_ok_and(|home| !home.exists()) {
        let _ = context.open_patiently();
    }
    let _at_work = workers.begin(&root, event);
    workers.note_heard(&root, &event.provider);
    match answer(context, event, goes_on) {
        Ok(answer) => Said::Answer(answer),
        Err(failure) => {
            workers.note_failure(&root, &failure.message);
            Said::Failed(failure.message)
        }
    }
}

fn answer(context: &Context, event: &Event, goes_on: GoesOn) -> Result<Answer> {
    if let Moment::Prompt { text, .. } = &event.moment
        && let Some(reply) = reply(context, event, text)?
    {
        return Ok(Answer { reply: Some(reply), ..Answer::default() });
    }
    let rappel = context.open_patiently()?;
    let heard = rappel.hear_event(event, goes_on)?;
    detached::start_upkeep(&rappel, context);
    Ok(heard.answer)
}

/// The answer to a prompt that is a command of ours; nothing if the model should see it.
fn reply(context: &Context, event: &Event, prompt: &str) -> Result<Option<String>> {
    let (words, is_slash) = match typed::typed(prompt) {
        None => return Ok(None),
        Some(Typed::Slash(Err(problem))) => return Ok(Some(problem)),
        Some(Typed::Slash(Ok(words))) => (words, true),
        Some(Typed::Plain(words)) => (words, false),
    };
    let session = context.open_patiently()?.session_called(&event.provider, &event.session)?;
    let ran = run_command(context, &words, session.as_ref())?;
    if ran.code == Some(UNCONFIRMED) {
        let shown = ran.text.split("\nerror: ").next().unwrap_or_default();
        let confirm = ran.text.lines().rev().find_map(|line| line.strip_prefix("hint: "));
        let confirm = confirm.unwrap_or("the same with --confirm");
        return Ok(Some(format!("{shown}\nTo do it, type: {confirm}")));
    }
    // Words that only look like a command are for the model: nobody talks in flags and ids.
    let is_meant =
        !matches!(ran.code, Some(USAGE | UNKNOWN)) || words.iter().any(|word| is_no_prose(word));
    Ok((is_slash || is_meant).then_some(ran.text))
}

/// Whether a word is a flag, an id or a number.
fn is_no_prose(word: &str) -> bool {
    let is_number = !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
    is_number || word.starts_with('-') || word.starts_with("chk_")
}

/// What a command of ours came to.
struct Ran {
    code: Option<i32>,
    text: String,
}

/// Runs a command of ours where the agent works, and gathers what it says.
fn run_command(context: &Context, words: &[String], session: Option<&SessionId>) -> Result<Ran> {
    let mut command = std::process::Command::new(std::env::current_exe()?);
    command
        // Before what was typed: behind a `--` they would be paths.
        .args(["--color", "never"])
        .args(words)
        .env("RAPPEL_HOME", context.home()?)
        .current_dir(context.root())
        .stdin(Stdio::null());
    if let Some(session) = session {
        command.env("RAPPEL_SESSION", session.as_str());
    }
    let output = command.output()?;
    let text = [output.stdout, output.stderr].concat();
    let mut text = String::from_utf8_lossy(&text).trim_end().to_owned();
    if text.chars().count() > REPLY_MAX {
        text = text.chars().take(REPLY_MAX).collect();
        let line: Vec<String> = words.iter().map(|word| process::quote(word)).collect();
        text.push_str(&format!("\n… The rest: rappel {}", line.join(" ")));
    }
    Ok(Ran { code: output.status.code(), text })
}

/// What the user is told when a save takes longer than an agent should wait.
fn still_at_work(event: &Event) -> Answer {
    let what = match &event.moment {
        Moment::BeforeCall(call) => format!(
            "Rappel is still saving: the state before this call of {} may hold what the call does",
            call.tool
        ),
        Moment::Prompt { text, .. } if typed::typed(text).is_some() => {
            let reply = "The command goes on; `rappel status` and `rappel list` show its end.";
            return Answer { reply: Some(reply.into()), ..Answer::default() };
        }
        _ => return Answer::default(),
    };
    Answer { notice: Some(what), ..Answer::default() }
}
