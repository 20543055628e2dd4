//! `rappel record`.

use std::ffi::OsString;
use std::io::{BufRead, Read};

use clap::Subcommand;
use rappel::answers::{LineAnswer, LineError, RecordAnswer};
use rappel::types::agents::{
    Body, Confidence, DependencyKind, HypothesisStatus, NewEvent, SessionId, payload,
};
use rappel::{ErrorKind, Rappel};
use serde_json::Value;

use crate::errors::{Exit, Failure, Result};
use crate::output::clean;
use crate::process::Context;
use crate::values;

/// Record what happens in a session
///
/// The event is safe on disk when this returns. Each call prints the id of what it recorded. Secrets
/// are taken out before anything is written.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "\
Examples:
  rappel record thought \"the cache is never emptied\" --confidence 0.8
  H=$(rappel record hypothesis \"the index is stale\" --confidence 0.6)
  rappel record evidence \"rebuilding it helps\" --for $H --supports --weight 0.8
  rappel record hypothesis --id $H --status confirmed
  rappel record command \"cargo test\" --exit-code 1 --stderr @err.log
  echo '{\"kind\": \"note\", \"text\": \"half-way\"}' | rappel record --stdin")]
pub struct Args {
    /// The session [default: RAPPEL_SESSION, else the only running one]
    #[arg(long, value_name = "ID", global = true, value_parser = values::session)]
    session: Option<SessionId>,
    /// Read one JSON event per line, and acknowledge each
    #[arg(long)]
    stdin: bool,
    #[command(subcommand)]
    kind: Option<Kind>,
}

#[derive(Debug, Clone, Subcommand)]
enum Kind {
    /// A thought of the agent
    #[command(
        after_help = "Examples:\n  rappel record thought \"the cache is never emptied\" --type observation --confidence 0.8"
    )]
    Thought(Thought),
    /// A tool call, in one go or as it starts and finishes
    #[command(
        after_help = "Examples:\n  rappel record tool Bash --input '{\"command\": \"ls\"}' --output @out.txt\n  X=$(rappel record tool Build --started); …; rappel record tool --id $X --finished"
    )]
    Tool(Tool),
    /// A hypothesis, or a change of one
    #[command(
        after_help = "Examples:\n  rappel record hypothesis \"the index is stale\" --confidence 0.6\n  rappel record hypothesis --id h3 --status rejected --reason \"it is new\""
    )]
    Hypothesis(Hypothesis),
    /// Evidence for or against a hypothesis
    #[command(
        after_help = "Examples:\n  rappel record evidence \"rebuilding it helps\" --for h3 --supports --weight 0.8"
    )]
    Evidence(Evidence),
    /// A belief, or a change of one
    #[command(
        after_help = "Examples:\n  rappel record belief \"the cache is shared\" --confidence 0.9\n  rappel record belief --id b2 --depends-on b1 --as contradicts"
    )]
    Belief(Belief),
    /// A gap: something not known, or the answer to it
    #[command(
        after_help = "Examples:\n  rappel record gap \"who empties the cache?\"\n  rappel record gap --id g1 --filled \"the timer in main.rs\""
    )]
    Gap(Gap),
    /// A verification: a check, and whether it passed
    #[command(
        after_help = "Examples:\n  rappel record verification \"the tests of login\" --failed --for h3 --output @test.log"
    )]
    Verification(Verification),
    /// An approach: begun, switched to or merged
    #[command(
        after_help = "Examples:\n  rappel record branch without-cache --switch\n  rappel record branch without-cache --merge-into main"
    )]
    Branch(Branch),
    /// A note
    #[command(after_help = "Examples:\n  rappel record note \"the staging server is slow today\"")]
    Note(Text),
    /// A prompt of the user
    #[command(after_help = "Examples:\n  rappel record prompt \"make the login work again\"")]
    Prompt(Text),
    /// A command that was run
    #[command(
        after_help = "Examples:\n  rappel record command \"cargo test\" --exit-code 101 --stderr @err.log"
    )]
    Command(Command),
    /// A variable of the context, or an entry of its state
    #[command(
        after_help = "Examples:\n  rappel record context target=staging\n  rappel record context --unset target\n  rappel record context --state plan='{\"step\":2}'"
    )]
    Context(ContextValue),
    /// Progress of the work
    #[command(after_help = "Examples:\n  rappel record progress \"tests run\" --step 4")]
    Progress(Progress),
    /// Tokens that a request to the model used
    #[command(
        after_help = "Examples:\n  rappel record tokens --input 1200 --output 340 --model opus"
    )]
    Tokens(Tokens),
    /// A compaction: the agent's context is about to be cut
    #[command(after_help = "Examples:\n  rappel record compaction \"the context is 90 % full\"")]
    Compaction(OptionalText),
    /// A change of source code
    #[command(after_help = "Examples:\n  rappel record code src/main.rs src/cache.rs")]
    Code(Code),
}

#[derive(Debug, Clone, clap::Args)]
struct Text {
    /// The text
    text: String,
}

#[derive(Debug, Clone, clap::Args)]
struct OptionalText {
    /// The text
    text: Option<String>,
}

#[derive(Debug, Clone, clap::Args)]
struct Thought {
    /// The thought
    text: String,
    /// What kind: reasoning, observation, action …
    #[arg(long = "type", default_value = "reasoning")]
    kind: String,
    /// How sure, from 0 to 1
    #[arg(long, allow_negative_numbers = true, value_parser = values::confidence)]
    confidence: Option<Confidence>,
    /// The thought it follows
    #[arg(long, value_name = "ID")]
    parent: Option<String>,
}

#[derive(Debug, Clone, clap::Args)]
struct Tool {
    /// The tool
    #[arg(required_unless_present = "finished")]
    name: Option<String>,
    /// The call's input, as JSON or text (or `-`, or `@FILE`)
    #[arg(long, value_name = "JSON")]
    input: Option<String>,
    /// The call's output, as JSON or text (or `-`, or `@FILE`)
    #[arg(long, value_name = "JSON")]
    output: Option<String>,
    /// Why it failed
    #[arg(long, value_name = "TEXT")]
    error: Option<String>,
    /// The call has only started; finish it later with the printed id
    #[arg(long, conflicts_with_all = ["finished", "output", "error"])]
    started: bool,
    /// The call with this id has finished
    #[arg(long, requires = "id")]
    finished: bool,
    /// The call's id
    #[arg(long, value_name = "ID")]
    id: Option<String>,
    /// Do not wait for it
    #[arg(long, requires = "started")]
    background: bool,
}

#[derive(Debug, Clone, clap::Args)]
struct Hypothesis {
    /// The hypothesis
    #[arg(required_unless_present = "id")]
    text: Option<String>,
    /// The hypothesis to change
    #[arg(long, value_name = "ID")]
    id: Option<String>,
    /// Its status: open, testing, confirmed, rejected
    #[arg(long, value_parser = values::word::<HypothesisStatus>)]
    status: Option<HypothesisStatus>,
    /// How sure, from 0 to 1
    #[arg(long, allow_negative_numbers = true, value_parser = values::confidence)]
    confidence: Option<Confidence>,
    /// Its new text
    #[arg(long = "text", value_name = "TEXT", requires = "id")]
    new_text: Option<String>,
    /// Why
    #[arg(long, value_name = "TEXT", requires = "id")]
    reason: Option<String>,
}

#[derive(Debug, Clone, clap::Args)]
#[command(group = clap::ArgGroup::new("side").required(true).args(["supports", "refutes"]))]
struct Evidence {
    /// What was found
    text: String,
    /// The hypothesis that it is about
    #[arg(long = "for", value_name = "ID")]
    hypothesis: String,
    /// It supports the hypothesis
    #[arg(long)]
    supports: bool,
    /// It refutes the hypothesis
    #[arg(long)]
    refutes: bool,
    /// How strongly, from 0 to 1
    #[arg(long, allow_negative_numbers = true, value_parser = values::confidence, default_value = "0.5")]
    weight: Confidence,
}

#[derive(Debug, Clone, clap::Args)]
struct Belief {
    /// The belief
    #[arg(required_unless_present = "id")]
    text: Option<String>,
    /// The belief to change
    #[arg(long, value_name = "ID")]
    id: Option<String>,
    /// How sure, from 0 to 1
    #[arg(long, allow_negative_numbers = true, value_parser = values::confidence)]
    confidence: Option<Confidence>,
    /// Its new text
    #[arg(long = "text", value_name = "TEXT", requires = "id")]
    new_text: Option<String>,
    /// The belief that it depends on
    #[arg(long, value_name = "ID", requires_all = ["id", "kind"])]
    depends_on: Option<String>,
    /// How: requires, supports, contradicts
    #[arg(long = "as", id = "kind", value_name = "KIND", requires = "depends_on")]
    #[arg(value_parser = values::word::<DependencyKind>)]
    kind: Option<DependencyKind>,
}

#[derive(Debug, Clone, clap::Args)]
struct Gap {
    /// What is not known
    #[arg(required_unless_present = "id")]
    text: Option<String>,
    /// The gap that is filled
    #[arg(long, value_name = "ID", requires = "filled")]
    id: Option<String>,
    /// The answer
    #[arg(long, value_name = "ANSWER", requires = "id")]
    filled: Option<String>,
}

#[derive(Debug, Clone, clap::Args)]
#[command(group = clap::ArgGroup::new("outcome").required(true).args(["passed", "failed"]))]
struct Verification {
    /// What was checked
    text: String,
    /// The check passed
    #[arg(long)]
    passed: bool,
    /// The check failed
    #[arg(long)]
    failed: bool,
    /// The hypothesis that it is about
    #[arg(long = "for", value_name = "ID")]
    hypothesis: Option<String>,
    /// The check's output (or `-`, or `@FILE`)
    #[arg(long, value_name = "TEXT")]
    output: Option<String>,
}

#[derive(Debug, Clone, clap::Args)]
struct Branch {
    /// The approach's name
    name: String,
    /// Switch to it; it is begun if it does not exist
    #[arg(long, conflicts_with = "merge_into")]
    switch: bool,
    /// Merge it into another approach
    #[arg(long, value_name = "OTHER")]
    merge_into: Option<String>,
}

#[derive(Debug, Clone, clap::Args)]
struct Command {
    /// The command
    #[arg(value_name = "COMMAND")]
    line: String,
    /// Its exit code
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    exit_code: Option<i32>,
    /// Where it ran
    #[arg(long, value_name = "DIR")]
    dir: Option<String>,
    /// Its standard output (or `-`, or `@FILE`)
    #[arg(long, value_name = "TEXT")]
    stdout: Option<String>,
    /// Its standard error (or `-`, or `@FILE`)
    #[arg(long, value_name = "TEXT")]
    stderr: Option<String>,
}

#[derive(Debug, Clone, clap::Args)]
struct ContextValue {
    /// The variable and its value, as JSON or as text
    #[arg(value_name = "KEY=VALUE", required_unless_present = "unset", value_parser = values::key_value)]
    value: Option<(String, Value)>,
    /// Remove a variable
    #[arg(long, value_name = "KEY", conflicts_with = "value")]
    unset: Option<String>,
    /// Set or remove an entry of the context's state, not a variable
    #[arg(long)]
    state: bool,
}

impl ContextValue {
    fn body(&self) -> Body {
        if let Some(key) = self.unset.clone() {
            let unset = payload::ContextUnset { key };
            let body = if self.state { Body::ContextStateUnset } else { Body::ContextUnset };
            return body(unset);
        }
        let (key, value) = self.value.clone().unwrap_or_default();
        let set = payload::ContextSet { key, value };
        let body = if self.state { Body::ContextStateSet } else { Body::ContextSet };
        body(set)
    }
}

#[derive(Debug, Clone, clap::Args)]
struct Progress {
    /// The step
    text: Option<String>,
    /// The step's number [default: the next one]
    #[arg(long, value_name = "N")]
    step: Option<u64>,
}

#[derive(Debug, Clone, clap::Args)]
struct Tokens {
    /// Tokens that were read
    #[arg(long, value_name = "N", default_value_t)]
    input: u64,
    /// Tokens that were written
    #[arg(long, value_name = "N", default_value_t)]
    output: u64,
    /// Tokens read from the cache
    #[arg(long, value_name = "N", default_value_t)]
    cache_read: u64,
    /// Tokens written to the cache
    #[arg(long, value_name = "N", default_value_t)]
    cache_write: u64,
    /// The model
    #[arg(long)]
    model: Option<String>,
    /// The request: a later count of the same one replaces this one
    #[arg(long, value_name = "ID")]
    message: Option<String>,
}

#[derive(Debug, Clone, clap::Args)]
struct Code {
    /// The files
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<OsString>,
}

pub fn run(args: &Args, context: &Context) -> Result {
    if args.kind.is_some() == args.stdin {
        return Err(Failure::usage(
            "say what to record: either a kind or --stdin",
            "rappel record note \"half-way\"; rappel help record lists the kinds",
        ));
    }
    let rappel = context.open()?;
    let named = context.asking_session(args.session.as_ref(), &rappel)?;
    let session = rappel.session_meant(named.as_ref())?.id;
    match &args.kind {
        Some(kind) => {
            let event = kind.event(&rappel, &session, context)?;
            record(&rappel, &session, event, context)
        }
        None => lines(&rappel, &session, context),
    }
}

fn record(rappel: &Rappel, session: &SessionId, event: NewEvent, context: &Context) -> Result {
    let recorded = rappel.record(session, event)?;
    let output = context.output;
    if output.json {
        output.answer_json(&RecordAnswer::new(Some(session), &recorded))?;
    } else {
        let id = recorded.id().unwrap_or_else(|| recorded.event.number.to_string());
        output.answer(|out| Ok(writeln!(out, "{}", clean(&id))?))?;
        for note in &recorded.notes {
            output.warning(note);
        }
    }
    Ok(Exit::Done)
}

/// One event a line; each is acknowledged by a line. A line that is refused does not stop the others.
fn lines(rappel: &Rappel, session: &SessionId, context: &Context) -> Result {
    // How many, and what they have in common.
    let (mut refused, mut kind) = (0u64, None);
    let mut input = std::io::stdin().lock();
    let mut line = Vec::new();
    let mut number = 0u64;
    loop {
        line.clear();
        if input.by_ref().take(LINE_MAX).read_until(b'\n', &mut line)? == 0 {
            break;
        }
        number += 1;
        let too_long = line.len() as u64 == LINE_MAX && !line.ends_with(b"\n");
        if too_long {
            // The rest of a line is not the next one.
            skip_line(&mut input)?;
        }
        let text = String::from_utf8_lossy(&line);
        if text.trim().is_empty() {
            continue;
        }
        let parsed = match too_long {
            false => NewEvent::parse(text.trim()).map_err(|error| error.to_string()),
            true => Err(format!("the line is longer than {} MiB", LINE_MAX >> 20)),
        };
        let done = parsed
            .map_err(|error| Failure::usage(error, "rappel help record"))
            .and_then(|event| Ok(rappel.record(session, event)?));
        let answer = match &done {
            Ok(recorded) => LineAnswer::Recorded(RecordAnswer::new(None, recorded)),
            Err(failure) => {
                refused += 1;
                let same = kind.is_none_or(|kind| kind == failure.kind);
                kind = Some(if same { failure.kind } else { ErrorKind::Usage });
                let error = LineError {
                    kind: failure.kind.as_str(),
                    message: &failure.message,
                    hint: failure.hint.as_deref(),
                    line: number,
                };
                LineAnswer::Refused { error }
            }
        };
        context.output.answer_line(&answer)?;
        if context.output.is_closed() {
            break;
        }
    }
    let Some(kind) = kind else { return Ok(Exit::Done) };
    Err(Failure {
        kind,
        message: format!("lines that were refused: {refused} of {number}"),
        hint: Some("each line's answer says why".into()),
    })
}

fn skip_line(input: &mut impl BufRead) -> Result<()> {
    loop {
        let buffer = input.fill_buf()?;
        let (length, ended) = match buffer.iter().position(|byte| *byte == b'\n') {
            Some(end) => (end + 1, true),
            None => (buffer.len(), buffer.is_empty()),
        };
        input.consume(length);
        if ended {
            return Ok(());
        }
    }
}

/// The longest line that is read; an event says less.
const LINE_MAX: u64 = 16 << 20;

/// A text as it is given, from stdin (`-`) or from a file (`@FILE`).
fn given(text: &str) -> Result<String> {
    let bytes = match text {
        "-" => {
            let mut bytes = Vec::new();
            std::io::stdin().lock().take(LINE_MAX).read_to_end(&mut bytes)?;
            bytes
        }
        _ => match text.strip_prefix('@') {
            None => return Ok(text.to_owned()),
            Some(path) => std::fs::read(path).map_err(|error| {
                let message = format!("cannot read {}: {error}", clean(path));
                Failure::usage(
                    message,
                    "@FILE gives a file's content; write the text itself to give that",
                )
            })?,
        },
    };
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn given_opt(text: Option<&String>) -> Result<Option<String>> {
    text.map(|text| given(text)).transpose()
}

/// JSON, or the text itself where it is none.
fn loose_json(text: Option<&String>) -> Result<Value> {
    let text = given_opt(text)?;
    Ok(text.map_or(Value::Null, |text| serde_json::from_str(&text).unwrap_or(Value::String(text))))
}

impl Kind {
    fn event(&self, rappel: &Rappel, session: &SessionId, context: &Context) -> Result<NewEvent> {
        let mut id = None;
        let body = match self {
            Self::Thought(thought) => Body::Thought(payload::Thought {
                kind: thought.kind.clone(),
                content: thought.text.clone(),
                confidence: thought.confidence,
                parent: thought.parent.clone(),
            }),
            Self::Tool(tool) => {
                if !tool.finished {
                    id.clone_from(&tool.id);
                }
                tool.body()?
            }
            Self::Hypothesis(hypothesis) => hypothesis.body(),
            Self::Evidence(evidence) => Body::Evidence(payload::Evidence {
                text: evidence.text.clone(),
                hypothesis: evidence.hypothesis.clone(),
                supports: evidence.supports,
                weight: evidence.weight,
            }),
            Self::Belief(belief) => belief.body(),
            Self::Gap(Gap { id: Some(of), filled: Some(answer), .. }) => {
                Body::GapFilled(payload::GapFilled { of: of.clone(), answer: answer.clone() })
            }
            Self::Gap(gap) => {
                Body::Gap(payload::Gap { text: gap.text.clone().unwrap_or_default() })
            }
            Self::Verification(verification) => Body::Verification(payload::Verification {
                text: verification.text.clone(),
                passed: verification.passed,
                hypothesis: verification.hypothesis.clone(),
                output: given_opt(verification.output.as_ref())?,
            }),
            Self::Branch(branch) => branch.body(rappel, session)?,
            Self::Note(note) => Body::Note(payload::Note { text: note.text.clone() }),
            Self::Prompt(prompt) => Body::Prompt(payload::Prompt { text: prompt.text.clone() }),
            Self::Command(command) => Body::Command(payload::Command {
                command: command.line.clone(),
                exit_code: command.exit_code,
                working_dir: command.dir.clone(),
                stdout_preview: given_opt(command.stdout.as_ref())?.unwrap_or_default(),
                stderr_preview: given_opt(command.stderr.as_ref())?.unwrap_or_default(),
            }),
            Self::Context(context) => context.body(),
            Self::Progress(progress) => Body::Progress(payload::Progress {
                step_number: progress.step,
                text: progress.text.clone(),
            }),
            Self::Tokens(tokens) => Body::Tokens(payload::Tokens {
                message: tokens.message.clone(),
                model: tokens.model.clone(),
                input: tokens.input,
                output: tokens.output,
                cache_read: tokens.cache_read,
                cache_write: tokens.cache_write,
            }),
            Self::Compaction(compaction) => {
                Body::Compaction(payload::Compaction { text: compaction.text.clone() })
            }
            Self::Code(code) => {
                let paths = context.paths(rappel.root(), &code.paths)?;
                Body::Code(payload::Code { paths: paths.iter().map(ToString::to_string).collect() })
            }
        };
        Ok(NewEvent { at: None, id, body })
    }
}

impl Tool {
    fn body(&self) -> Result<Body> {
        let tool = self.name.clone().unwrap_or_default();
        let arguments = loose_json(self.input.as_ref())?;
        if self.started {
            let background = self.background;
            return Ok(Body::ToolStarted(payload::ToolStarted { tool, arguments, background }));
        }
        let result = loose_json(self.output.as_ref())?;
        let (error, success) = (self.error.clone(), self.error.is_none());
        Ok(match &self.id {
            Some(of) if self.finished => Body::ToolFinished(payload::ToolFinished {
                of: of.clone(),
                result,
                success,
                error,
                presumed: false,
            }),
            _ => Body::Tool(payload::Tool {
                tool,
                arguments,
                result,
                success,
                error,
                started_at: None,
            }),
        })
    }
}

impl Hypothesis {
    fn body(&self) -> Body {
        match &self.id {
            Some(of) => Body::HypothesisUpdated(payload::HypothesisUpdated {
                of: of.clone(),
                text: self.new_text.clone().or_else(|| self.text.clone()),
                confidence: self.confidence,
                status: self.status,
                reason: self.reason.clone(),
            }),
            None => Body::Hypothesis(payload::Hypothesis {
                text: self.text.clone().unwrap_or_default(),
                confidence: self.confidence,
                status: self.status.unwrap_or_default(),
            }),
        }
    }
}

impl Belief {
    fn body(&self) -> Body {
        match (&self.id, &self.depends_on, self.kind) {
            (Some(of), Some(on), Some(kind)) => Body::BeliefDependency(payload::BeliefDependency {
                of: of.clone(),
                on: on.clone(),
                kind,
            }),
            (Some(of), ..) => Body::BeliefUpdated(payload::BeliefUpdated {
                of: of.clone(),
                text: self.new_text.clone().or_else(|| self.text.clone()),
                confidence: self.confidence,
            }),
            _ => Body::Belief(payload::Belief {
                text: self.text.clone().unwrap_or_default(),
                confidence: self.confidence,
            }),
        }
    }
}

impl Branch {
    fn body(&self, rappel: &Rappel, session: &SessionId) -> Result<Body> {
        let name = self.name.clone();
        if let Some(into) = self.merge_into.clone() {
            return Ok(Body::BranchMerged(payload::BranchMerged { name, into }));
        }
        let state = rappel.state_now(session, 0)?.state;
        let is_there =
            name == rappel::types::agents::MAIN_BRANCH || state.branches.get(&name).is_some();
        Ok(match self.switch && is_there {
            true => Body::BranchSwitched(payload::BranchSwitched { name }),
            false => Body::BranchCreated(payload::BranchCreated { name, switch: self.switch }),
        })
    }
}
