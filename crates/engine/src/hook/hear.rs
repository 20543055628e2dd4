//! Hearing one event: into the journal, into a checkpoint, and an answer.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rappel_capture::files::First;
use rappel_types::agents::tools::is_delegate;
use rappel_types::agents::{Body, NewEvent, SessionId, SessionState, SessionStatus, payload};
use rappel_types::{CheckpointId, RelPath, Timestamp, Trigger, redact};
use serde_json::Value;

use super::memory::Memory;
use super::{Answer, Call, CallKind, Event, Moment, Outcome, Start};
use crate::agents::{automatic, call_id, hashed, heard_id, is_heard, named};
use crate::destructive::{DestructiveCommand, LeftOut};
use crate::error::Result;
use crate::rappel::Rappel;
use crate::save::{Overtaken, SaveOptions};

/// A checkpoint is described by so many characters of a prompt.
const TITLE_MAX: usize = 120;
/// A brief after a lost context has so many characters at most.
const RECALL_MAX: usize = 8_000;
/// A brief of an earlier run that would have fewer characters is left out.
const RECALL_MIN: usize = 500;
/// Of each stream of a command so many bytes are kept.
const PREVIEW_MAX: usize = 4 << 10;

/// What came of an event.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Heard {
    /// What the agent is told.
    pub answer: Answer,
    /// The session that it belongs to.
    pub session: Option<SessionId>,
    /// The checkpoint that it made.
    pub checkpoint: Option<CheckpointId>,
}

impl Rappel {
    /// Takes what an agent's hook tells: records it, saves what has to be saved, and answers.
    ///
    /// `goes_on` says whether the agent has stopped waiting for this. A call that it was about to make may then have
    /// begun, and the checkpoint before it says so.
    pub fn hear_event(
        &self,
        event: &Event,
        goes_on: Arc<dyn Fn() -> bool + Send + Sync>,
    ) -> Result<Heard> {
        let first = self.read_first(event);
        self.end_gone_sessions()?;
        if self.has_ended(event)? {
            return Ok(Heard::default());
        }
        let session = self.session_of(event)?;
        let event = &self.with_call_id(event, &session)?;
        let operation = event.operation().and_then(|operation| self.resolve_commits(operation));
        let (mut save, mut events) = self.meaning(event, &session, operation.is_some())?;
        for one in &mut events {
            one.at = event.at;
        }
        if let (Some(options), Moment::BeforeCall(call)) = (&mut save, &event.moment) {
            let id = call.id.as_deref().unwrap_or("no id");
            let call = format!("{} ({id} in session {session})", call.tool);
            options.overtaken = Some(Overtaken { call, has_begun: goes_on });
            options.first = first;
        }
        let mut notice = match (&mut save, &event.moment) {
            (Some(options), Moment::BeforeCall(call)) => self.take_edited(call, options)?,
            _ => None,
        };
        // The checkpoint first: it is what cannot be made up for later. And what the agent is about
        // to do is not part of it.
        let checkpoint = match (save, operation) {
            (Some(options), Some(operation)) => {
                let before = self.save_before(&operation, options)?;
                notice = left_out_words(&operation, &before.left_out);
                Some(before.saved.checkpoint.manifest.id)
            }
            (Some(options), None) => self.save_heard(&options)?,
            (None, _) => None,
        };
        if let Moment::Prompt { id, .. } = &event.moment {
            self.match_prompt(&session, event, id.as_deref(), &mut events)?;
        }
        if event.is_pause() {
            self.close_calls(&session, None)?;
        }
        self.record_heard(&session, events)?;
        let mut heard =
            Heard { answer: Answer::default(), session: Some(session.clone()), checkpoint };
        heard.answer.notice = notice;
        match &event.moment {
            Moment::SessionEnd { .. } => {
                self.end_heard(&session, SessionStatus::Completed, "the agent said so", event.at)?;
            }
            Moment::SubagentEnd => {
                self.end_heard(&session, SessionStatus::Completed, "it is done", event.at)?;
            }
            _ => {}
        }
        let lags = event.silent_compaction && event.carries_context;
        if lags || event.moment == Moment::SessionStart(Start::Resumed) {
            self.read_transcripts()?;
        }
        if event.carries_context {
            heard.answer.context = self.news(event, &session)?;
        }
        Ok(heard)
    }

    /// The event, its call with an id. Some agents give none. While one of them lets a subagent do
    /// something, nobody knows whose call it is: the transcripts tell.
    fn with_call_id<'e>(&self, event: &'e Event, session: &SessionId) -> Result<Cow<'e, Event>> {
        let (Moment::BeforeCall(call) | Moment::AfterCall(call, _)) = &event.moment else {
            return Ok(Cow::Borrowed(event));
        };
        if call.id.is_some() {
            return Ok(Cow::Borrowed(event));
        }
        let state = self.load_live(session)?.state;
        let mut running = state.tool_state.running.iter();
        if call.kind != CallKind::Delegate && running.any(|one| is_delegate(&one.tool)) {
            return Ok(Cow::Borrowed(event));
        }
        let at = event.at.unwrap_or_else(|| self.now());
        let what = (call.tool.as_str(), &call.input);
        let id = match &event.moment {
            Moment::BeforeCall(_) => self.begun_call(session, &state, what, at)?,
            _ => self.ended_call(session, &state, what, at)?,
        };
        let mut event = event.clone();
        if let Moment::BeforeCall(call) | Moment::AfterCall(call, _) = &mut event.moment {
            call.id = Some(id);
        }
        Ok(Cow::Owned(event))
    }

    /// What an editor is about to change, as it is now: the agent may not wait for the checkpoint.
    fn read_first(&self, event: &Event) -> Option<Arc<First>> {
        let Moment::BeforeCall(Call { kind: CallKind::Edit(named), .. }) = &event.moment else {
            return None;
        };
        let roots = [&self.root, &self.options.root];
        let paths: Vec<RelPath> = named
            .iter()
            .filter_map(|path| {
                roots.iter().find_map(|root| Path::new(path).strip_prefix(root).ok())
            })
            .filter_map(|path| RelPath::new(path.as_os_str().as_bytes()).ok())
            .collect();
        // What cannot be read now is read, or named, when its turn comes.
        First::read(&self.root, &paths).ok().map(Arc::new)
    }

    /// Has a save take the files that an editor is about to change although git ignores them. Returns
    /// what the user is told of those that it cannot take.
    fn take_edited(&self, call: &Call, options: &mut SaveOptions) -> Result<Option<String>> {
        let CallKind::Edit(named) = &call.kind else { return Ok(None) };
        let files = named.iter().map(PathBuf::from).collect();
        let command = format!("{} {}", call.tool, named.join(" "));
        let edit = DestructiveCommand { command, files, ..DestructiveCommand::default() };
        let Some(left_out) = self.also_ignored(&edit, options)? else { return Ok(None) };
        Ok(left_out_words(&edit, &left_out))
    }

    /// What is saved, and what is recorded, for an event.
    fn meaning(
        &self,
        event: &Event,
        session: &SessionId,
        destroys: bool,
    ) -> Result<(Option<SaveOptions>, Vec<NewEvent>)> {
        let state = self.load_live(session)?.state;
        let save = |trigger| Some(self.options_for(event, &state, session, trigger));
        let if_changed =
            |trigger| save(trigger).map(|options| SaveOptions { if_changed: true, ..options });
        let titled = |trigger, title: String| {
            save(trigger).map(|options| SaveOptions { message: Some(title), ..options })
        };
        Ok(match &event.moment {
            // The agent may have left out the event before it.
            Moment::SessionStart(Start::Compacted) | Moment::BeforeCompaction => {
                (save(Trigger::ContextCompaction), Vec::new())
            }
            Moment::SessionStart(_) => (save(Trigger::SessionStart), Vec::new()),
            Moment::Prompt { id, text } => {
                let prompt = NewEvent::from(Body::Prompt(payload::Prompt { text: text.clone() }));
                let id = id.as_ref().map_or_else(heard_id, |id| named("p", id));
                // The agent may tell the same event twice; one checkpoint goes before a prompt.
                let heard = Memory::read(self, session).prompts.contains(&id);
                let mut options = titled(Trigger::Prompt, title(text)).filter(|_| !heard);
                if let Some(options) = &mut options {
                    // The transcript may have told it already.
                    let is_known = state.prompts.iter().any(|prompt| prompt.id == id);
                    let number = state.prompts.len() + u64::from(!is_known);
                    options.metadata.insert("iteration".into(), number.into());
                    options.metadata.insert("task_description".into(), title(text).into());
                    options.metadata.insert("task_id".into(), id.as_str().into());
                }
                (options, vec![NewEvent { id: Some(id), ..prompt }])
            }
            Moment::BeforeCall(call) => {
                let options = match &call.kind {
                    _ if destroys => save(Trigger::PreOperation),
                    _ => if_changed(Trigger::CodeModified),
                };
                (options, call.id.iter().map(|id| started(id, call)).collect())
            }
            Moment::AfterCall(call, outcome) => {
                (if_changed(Trigger::CodeModified), ended(event, call, outcome))
            }
            Moment::Idle { background: false } => (save(Trigger::TaskCompleted), Vec::new()),
            Moment::Idle { background: true } | Moment::SubagentStart => (None, Vec::new()),
            Moment::Notification | Moment::SubagentEnd | Moment::Interrupt => {
                (if_changed(Trigger::CodeModified), Vec::new())
            }
            Moment::SessionEnd { cleared: true } => {
                (titled(Trigger::PreOperation, "Before the session is cleared".into()), Vec::new())
            }
            Moment::SessionEnd { cleared: false } => {
                let iterations = state.prompts.len();
                let title = format!("session end (iterations={iterations})");
                (titled(Trigger::SessionEnd, title), Vec::new())
            }
        })
    }

    /// Takes a prompt out of what is recorded if the transcript told it already.
    fn match_prompt(
        &self,
        session: &SessionId,
        event: &Event,
        id: Option<&str>,
        events: &mut Vec<NewEvent>,
    ) -> Result<()> {
        let mut memory = Memory::read(self, session);
        if let Some(id) = id {
            memory.note_prompt(named("p", id));
        } else if let [prompt] = events.as_slice()
            && let Ok(NewEvent { body: Body::Prompt(prompt), .. }) = prompt.clone().cleaned()
        {
            let at = event.at.unwrap_or_else(|| self.now());
            let may_be = |id: &str| !is_heard(id) && !memory.prompts.iter().any(|one| one == id);
            let Some(told) = self.same_prompt(session, &prompt.text, at, may_be)? else {
                return Ok(());
            };
            memory.note_prompt(told);
            events.clear();
        }
        memory.write(self, session);
        Ok(())
    }

    /// How a checkpoint for an event describes itself.
    fn options_for(
        &self,
        event: &Event,
        state: &SessionState,
        session: &SessionId,
        trigger: Trigger,
    ) -> SaveOptions {
        let mut metadata: BTreeMap<String, Value> = BTreeMap::new();
        metadata.insert("iteration".into(), state.prompts.len().into());
        metadata.insert("provider".into(), event.provider.as_str().into());
        if let Some(prompt) = state.prompts.recent.last() {
            metadata.insert("task_id".into(), prompt.id.as_str().into());
            metadata.insert("task_description".into(), title(&prompt.text).into());
        }
        if let Some(phase) = self.loki_phase() {
            metadata.insert("phase".into(), phase.into());
        }
        SaveOptions { session: Some(session.to_string()), metadata, ..automatic(trigger, None) }
    }

    /// The phase that Loki Mode is in, where it tells.
    fn loki_phase(&self) -> Option<String> {
        let path = self.root.join(".loki/state/orchestrator.json");
        let text = rappel_store::held::read_to_string(path).ok()?;
        let json: Value = serde_json::from_str(&text).ok()?;
        let phase = json.get("currentPhase").or_else(|| json.get("phase"))?;
        Some(redact::text(phase.as_str()?).into_owned())
    }

    /// Saves; the checkpoint, if there was something to save.
    fn save_heard(&self, options: &SaveOptions) -> Result<Option<CheckpointId>> {
        let saved = self.save(options)?;
        let made = saved.checkpoint.created.then_some(saved.checkpoint.manifest.id);
        Ok(made)
    }

    /// Takes in what transcripts tell, without a checkpoint.
    fn read_transcripts(&self) -> Result<()> {
        let Some(id) = self.workspace_id() else { return Ok(()) };
        if let Some(mut found) = self.find_transcripts(id, false)? {
            self.ingest(id, &mut found);
            self.save_transcripts_memo(id, found.memo);
        }
        Ok(())
    }

    /// Ends the calls of which nothing more will be heard: they were refused or interrupted.
    pub(super) fn close_calls(&self, session: &SessionId, at: Option<Timestamp>) -> Result<()> {
        let state = self.load_live(session)?.state;
        let open = state.tool_state.running.iter().filter(|call| !call.background);
        let events: Vec<NewEvent> = open
            .map(|call| {
                let error = Some("it was refused or interrupted".to_owned());
                let (of, result) = (call.id.clone(), Value::Null);
                let done =
                    payload::ToolFinished { of, result, success: false, error, presumed: true };
                NewEvent { at, ..NewEvent::from(Body::ToolFinished(done)) }
            })
            .collect();
        self.record_heard(session, events)
    }

    fn record_heard(&self, session: &SessionId, events: Vec<NewEvent>) -> Result<()> {
        // What cannot be an event is told by the transcript, where there is one.
        let events: Vec<NewEvent> =
            events.into_iter().filter_map(|event| event.cleaned().ok()).collect();
        if events.is_empty() { Ok(()) } else { self.record_late(session, &events) }
    }

    /// What the model does not know and should, told once.
    fn news(&self, event: &Event, session: &SessionId) -> Result<Option<String>> {
        let mut told: Vec<String> = self.truth(session)?.into_iter().collect();
        let starts_without =
            matches!(event.moment, Moment::SessionStart(Start::Compacted | Start::Resumed));
        let was_cut = event.silent_compaction && self.was_compacted(session)?;
        if starts_without || was_cut {
            let length = |told: &[String]| told.iter().map(|text| text.chars().count()).sum();
            // The newest run first. One that has just begun, or was set back, knows nothing.
            for run in self.runs_of(session)?.iter().rev() {
                let rest = RECALL_MAX.saturating_sub(length(&told));
                if rest < RECALL_MIN {
                    break;
                }
                if !self.load_live(&run.id)?.state.prompts.is_empty() {
                    told.push(self.recall(&run.id)?.to_text(rest));
                }
            }
        }
        Ok((!told.is_empty()).then(|| told.join("\n\n")))
    }

    /// Whether the context of a session was summed up since it was last given a brief.
    fn was_compacted(&self, session: &SessionId) -> Result<bool> {
        let id = session.as_str();
        let newest = self.store.look_up(|index| index.newest_compaction(id))?;
        let mut memory = Memory::read(self, session);
        let Some(newest) = newest.filter(|newest| *newest > memory.compaction) else {
            return Ok(false);
        };
        memory.compaction = newest;
        memory.write(self, session);
        Ok(true)
    }
}

impl Event {
    /// What is about to be destroyed.
    pub fn operation(&self) -> Option<DestructiveCommand> {
        let Moment::BeforeCall(call) = &self.moment else { return None };
        if call.operation.is_some() || call.kind != CallKind::LeaveWorktree {
            return call.operation.clone();
        }
        // The work tree that the agent is in has a file for git's folder.
        let folder = self.folder.as_ref().map(PathBuf::from);
        let above = folder.iter().flat_map(|folder| folder.ancestors());
        let worktree = above.into_iter().find(|folder| folder.join(".git").is_file());
        Some(DestructiveCommand {
            command: call.tool.clone(),
            does: "leaves a work tree".into(),
            files: worktree.map(ToOwned::to_owned).into_iter().collect(),
            ..DestructiveCommand::default()
        })
    }

    /// Whether no call can be under way any more, so that those without an end were refused or
    /// interrupted.
    fn is_pause(&self) -> bool {
        use Moment::{Idle, Interrupt, Prompt, SessionEnd, SessionStart, SubagentEnd};
        match self.moment {
            SessionStart(start) => start != Start::Compacted,
            Prompt { .. } | SubagentEnd | SessionEnd { .. } | Interrupt => true,
            Idle { background } => !background,
            _ => false,
        }
    }
}

/// What the user is told of an operation that its checkpoint does not hold.
fn left_out_words(operation: &DestructiveCommand, left_out: &LeftOut) -> Option<String> {
    let sentences = left_out.sentences();
    let (command, rest) = (title(&operation.command), sentences.join("; "));
    (!sentences.is_empty()).then(|| format!("Rappel saved before `{command}`. {rest}"))
}

/// The first line of what the user asked, fit to be read by others.
fn title(text: &str) -> String {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    let clean = redact::text(line);
    match clean.chars().count() > TITLE_MAX {
        true => clean.chars().take(TITLE_MAX - 1).chain(['…']).collect(),
        false => clean.into_owned(),
    }
}

fn started(id: &str, call: &Call) -> NewEvent {
    let body = Body::ToolStarted(payload::ToolStarted {
        tool: call.tool.clone(),
        arguments: call.input.clone(),
        background: call.background,
    });
    NewEvent { id: Some(call_id(id)), ..NewEvent::from(body) }
}

/// A call that ended. Its beginning is told again, in case it was not heard; what is known is
/// passed over.
fn ended(event: &Event, call: &Call, outcome: &Outcome) -> Vec<NewEvent> {
    let Some(id) = &call.id else { return Vec::new() };
    let mut events = vec![started(id, call)];
    let success = outcome.error.is_none();
    // A call in the background has only been launched.
    if !call.background {
        let done = payload::ToolFinished {
            of: call_id(id),
            result: outcome.result.clone(),
            success,
            error: outcome.error.clone(),
            presumed: outcome.presumed,
        };
        events.push(Body::ToolFinished(done).into());
    }
    match &call.kind {
        CallKind::Shell(command) if !call.background => {
            let body = Body::Command(payload::Command {
                command: command.clone(),
                exit_code: outcome.exit_code,
                working_dir: event.folder.clone(),
                stdout_preview: start_of(&outcome.stdout),
                stderr_preview: start_of(&outcome.stderr),
            });
            events.push(NewEvent { id: Some(hashed("c", &[id])), ..NewEvent::from(body) });
        }
        CallKind::Edit(paths) if success && !paths.is_empty() => {
            let body = Body::Code(payload::Code { paths: paths.clone() });
            events.push(NewEvent { id: Some(hashed("code", &[id])), ..NewEvent::from(body) });
        }
        _ => {}
    }
    events
}

fn start_of(text: &str) -> String {
    let mut end = text.len().min(PREVIEW_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].to_owned()
}
