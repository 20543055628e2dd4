//! What transcripts tell, as events of journals: so that sessions which nobody records can be asked about like any other.
//!
//! A transcript belongs to the session that its provider calls by the same id; one that nobody began is begun here
//! (`claude:ID`), and ended when its transcript has been silent for a day. Each item becomes an event at the time of its
//! line. Its id follows from the transcript alone, so that a transcript that is read again adds nothing.
//!
//! Not told: that an item lies on a branch that the conversation left; it happened all the same.

use std::collections::{HashMap, HashSet};

use rappel_capture::agents::Provider;
use rappel_capture::agents::follow;
use rappel_capture::agents::locate::{Role, Transcript};
use rappel_capture::agents::transcripts::{Batch, Found, Item, Reader, Session};
use rappel_store::ambient;
use rappel_store::index::Index;
use rappel_types::agents::{Body, NewEvent, SessionId, SessionStatus, payload};
use rappel_types::{Timestamp, WorkspaceId};
use serde_json::{Value, json};

use super::SessionView;
use super::opencode::Opencode;
use super::transcripts::{Known, Transcripts};
use crate::error::{Error, Result};
use crate::rappel::Rappel;

/// A run of the store holds so many events at most, and about so many bytes of them: few enough that states are stored
/// often, and that others do not wait for long.
const RUN_EVENTS: usize = 256;
const RUN_BYTES: usize = 512 << 10;
/// A session that is known from its transcript alone is over when that was silent for so long.
const SILENCE_MS: i64 = 24 * 60 * 60 * 1000;
/// Items that wait until it is known whose they are.
const WAITING_MAX: usize = 10_000;
/// So many matched prompts and calls are remembered: more than there are in two minutes.
const MATCHED: usize = 200;
/// Longer ids of vendors are replaced by their hash.
const ID_MAX: usize = 100;

impl Transcripts {
    /// Whether one of them has changed since it was read, or has been silent for long.
    pub(crate) fn has_news(&self, now: Timestamp) -> bool {
        self.unread().next().is_some()
            || self.silent(now).next().is_some()
            || self.opencode.as_ref().is_some_and(Opencode::may_have_news)
    }

    /// Those that have changed since they were read, subagents last.
    fn unread(&self) -> impl Iterator<Item = &Transcript> {
        let of = |role| self.located.transcripts.iter().filter(move |one| one.role == role);
        let changed = |one: &&Transcript| {
            self.memo.read.get(&one.key()).is_none_or(|known| known.stamp != Some(one.stamp))
        };
        of(Role::Session).chain(of(Role::Subagent)).filter(changed)
    }

    /// Those whose session may be over.
    fn silent(&self, now: Timestamp) -> impl Iterator<Item = (&String, &Known)> {
        let is_silent = move |known: &Known| {
            !known.over && known.latest_at.is_some_and(|at| now.millis_since(at) > SILENCE_MS)
        };
        self.memo.read.iter().filter(move |(_, known)| is_silent(known))
    }
}

impl Rappel {
    /// Reads what is new in transcripts into the journals. What goes wrong is said, and tried again by the next save.
    /// The caller writes the memo down; where it does not, the next save finds that there is nothing new.
    pub(crate) fn ingest(&self, id: WorkspaceId, found: &mut Transcripts) -> Vec<String> {
        let mut said = Vec::new();
        let unread: Vec<Transcript> = found.unread().cloned().collect();
        let mut names = Names::default();
        for transcript in unread {
            let known = found.memo.read.get(&transcript.key());
            match self.read_transcript(id, &transcript, known, &mut names) {
                Ok(known) => drop(found.memo.read.insert(transcript.key(), known)),
                Err(error) => {
                    let place = transcript.root.join(transcript.path.to_string());
                    said.push(format!("the transcript {} was not read: {error}", place.display()));
                }
            }
        }
        if let Some(opencode) = &found.opencode
            && let Err(error) = self.read_opencode(id, opencode, &mut found.memo, &mut names)
        {
            let path = opencode.database.path.display();
            said.push(format!("the sessions of opencode in {path} were not read: {error}"));
        }
        let silent: Vec<(String, Known)> =
            found.silent(self.now()).map(|(key, known)| (key.clone(), known.clone())).collect();
        for (key, known) in silent {
            match self.end_silent(&known) {
                Ok(()) => drop(found.memo.read.insert(key, Known { over: true, ..known })),
                Err(error) => said.push(format!("a silent session was not ended: {error}")),
            }
        }
        said
    }

    /// The sessions of which a transcript tells more than their journals know. Nothing is taken in.
    pub(crate) fn sessions_with_news(&self) -> Result<HashSet<SessionId>> {
        let mut news = HashSet::new();
        let Some(id) = self.workspace_id() else { return Ok(news) };
        let Some(found) = self.find_transcripts(id, false)? else { return Ok(news) };
        for transcript in found.unread() {
            let known = found.memo.read.get(&transcript.key());
            let Some(session) = known.and_then(|known| known.session.clone()) else { continue };
            let Some(mut reader) = self.load_reader::<Reader>(id, &transcript.key()) else {
                continue;
            };
            // One that cannot be read is told by the save.
            let Ok(file) = transcript.open() else { continue };
            let mut more = false;
            let read = follow::read_on(&mut reader, &transcript.path, &file, &mut |batch| {
                more |= batch.found.iter().any(|found| found.item.can_be_abandoned());
                Ok(())
            });
            if read.is_ok() && more {
                news.insert(session);
            }
        }
        news.extend(self.opencode_with_news(id, &found));
        Ok(news)
    }

    /// Reads one on.
    fn read_transcript(
        &self,
        id: WorkspaceId,
        transcript: &Transcript,
        known: Option<&Known>,
        names: &mut Names,
    ) -> Result<Known> {
        let key = transcript.key();
        let file = transcript.open().map_err(Error::io("open", &transcript.root))?;
        let session = match known.and_then(|known| known.session.clone()) {
            Some(session) => self.still_there(session)?,
            None => None,
        };
        let reader = session.as_ref().and_then(|_| self.load_reader::<Reader>(id, &key));
        let mut reader =
            reader.unwrap_or_else(|| Reader::new(transcript.provider, &transcript.path));
        let provider = transcript.provider.as_str();
        let mut telling = Telling::new(self, id, provider, names, session, known)?;
        let read = follow::read_on(&mut reader, &transcript.path, &file, &mut |batch| {
            telling.take(batch);
            // Why is known to the one who tells.
            telling.failed.as_ref().map_or(Ok(()), |_| Err(std::io::ErrorKind::Other.into()))
        });
        if let Some(error) = telling.failed.take() {
            return Err(error);
        }
        read.map_err(Error::io("read", &transcript.root))?;
        let latest_at = telling.latest_at;
        let matched = telling.matched();
        let place = json!({"offset": reader.offset(), "head": reader.head()});
        let session = telling.finish(&key, place)?;
        // Without a session nothing was told: it is read from its start when there is more of it.
        if session.is_some() {
            self.save_reader(id, &key, &reader);
        }
        let over = known.is_some_and(|known| known.over && known.latest_at == latest_at);
        Ok(Known { session, stamp: Some(transcript.stamp), latest_at, over, matched })
    }

    /// A session, unless it was let go.
    pub(super) fn still_there(&self, session: SessionId) -> Result<Option<SessionId>> {
        let last = self.store.look_up(|index| index.last_event(session.as_str()))?;
        Ok(last.map(|_| session))
    }

    /// Ends a session that nobody else will end.
    fn end_silent(&self, known: &Known) -> Result<()> {
        let Some(session) = &known.session else { return Ok(()) };
        let state = match self.load_live(session) {
            Err(Error::NoSession { let_go: Some(_), .. }) => return Ok(()),
            live => live?.state,
        };
        let silent = state.latest_at.is_none_or(|at| self.now().millis_since(at) > SILENCE_MS);
        if !state.from_transcript || !state.status.is_live() || !silent {
            return Ok(());
        }
        let end = Body::SessionEnded(payload::SessionEnded {
            status: SessionStatus::Completed,
            reason: Some("its transcript was silent for a day".into()),
            exit: None,
        });
        let end = NewEvent { at: state.latest_at, ..NewEvent::from(end) };
        self.record_late(session, &[end])
    }

    /// A name for a session that nobody began.
    fn name_session(&self, provider: &str, name: &str) -> Result<SessionId> {
        let is_free = |id: &SessionId| {
            self.store.look_up(|index| Ok(index.last_event(id.as_str())?.is_none()))
        };
        if let Ok(id) = format!("{provider}:{name}").parse()
            && is_free(&id)?
        {
            return Ok(id);
        }
        loop {
            let id = SessionId::new(self.now(), ambient::random() as u32);
            if is_free(&id)? {
                return Ok(id);
            }
        }
    }
}

/// The sessions of the workspace, by what their providers call them. Looked up once, and only if somebody asks.
#[derive(Default)]
pub(super) struct Names(Option<HashMap<(String, String), SessionId>>);

impl Names {
    fn all(&mut self, rappel: &Rappel) -> Result<&mut HashMap<(String, String), SessionId>> {
        if self.0.is_none() {
            let mut sessions = rappel.sessions()?;
            // Of several, one that goes on counts for more, and then the newest.
            sessions.sort_by_key(|view| (view.status.is_live(), view.started_at));
            let mut all = HashMap::new();
            for view in sessions {
                let provider = view.provider.unwrap_or_default();
                let provider = provider.strip_suffix("-code").unwrap_or(&provider).to_owned();
                for name in [view.conversation_id, view.assistant_session_id].into_iter().flatten()
                {
                    all.insert((provider.clone(), name), view.id.clone());
                }
            }
            self.0 = Some(all);
        }
        Ok(self.0.get_or_insert_default())
    }
}

/// A transcript on its way into a journal.
pub(super) struct Telling<'a> {
    rappel: &'a Rappel,
    workspace: WorkspaceId,
    provider: &'static str,
    names: &'a mut Names,
    session: Option<SessionId>,
    /// Whose it says it is.
    announced: Option<Session>,
    /// What was said up to then was told once, and let go.
    let_go_until: Option<Timestamp>,
    /// Every run of an agent writes the same transcript, and each is a session of its own.
    runs: Vec<SessionView>,
    /// What came before it was known whose it is.
    waiting: Vec<Found>,
    /// The line of the last item, and how many it had.
    line: (u64, usize),
    pub(super) latest_at: Option<Timestamp>,
    pending: Vec<NewEvent>,
    bytes: usize,
    /// The hook events that its prompts and calls were matched to.
    matched: Vec<String>,
    /// The calls of its newest lines that hooks told by other ids.
    heard: HashMap<String, String>,
    pub(super) failed: Option<Error>,
}

impl<'a> Telling<'a> {
    /// Begins to tell a transcript into the journal of a session, if it is known whose it is.
    pub(super) fn new(
        rappel: &'a Rappel,
        workspace: WorkspaceId,
        provider: &'static str,
        names: &'a mut Names,
        session: Option<SessionId>,
        known: Option<&Known>,
    ) -> Result<Self> {
        let runs = session.as_ref().map(|session| rappel.runs_of(session)).transpose()?;
        Ok(Self {
            rappel,
            workspace,
            provider,
            names,
            session,
            announced: None,
            let_go_until: None,
            runs: runs.unwrap_or_default(),
            waiting: Vec::new(),
            line: (0, 0),
            latest_at: known.and_then(|known| known.latest_at),
            pending: Vec::new(),
            bytes: 0,
            matched: known.map(|known| known.matched.clone()).unwrap_or_default(),
            heard: HashMap::new(),
            failed: None,
        })
    }

    /// Whether the provider's hooks name each call as its transcript does.
    fn names_calls(&self) -> bool {
        Provider::named(self.provider.as_bytes()).is_none_or(Provider::names_calls)
    }

    /// The hook events that its newest prompts and calls were matched to.
    pub(super) fn matched(&self) -> Vec<String> {
        self.matched[self.matched.len().saturating_sub(MATCHED)..].to_vec()
    }

    pub(super) fn take(&mut self, batch: Batch) {
        for found in batch.found {
            if self.failed.is_some() {
                return;
            }
            self.failed = self.take_one(found).err();
        }
    }

    fn take_one(&mut self, found: Found) -> Result<()> {
        if self.rappel.is_cancelled() {
            return Err(rappel_store::Error::Cancelled.into());
        }
        if self.session.is_none() {
            if let (None, Item::Session(session)) = (&self.announced, &found.item) {
                self.announced = Some(session.clone());
                self.let_go_until = self.let_go_until(session)?;
                self.waiting.retain(|found| !is_past(found, self.let_go_until));
            }
            let Some(session) = self.announced.clone() else {
                if self.waiting.len() < WAITING_MAX {
                    self.waiting.push(found);
                }
                return Ok(());
            };
            // A session that was let go begins anew only with something that came later.
            if self.waiting.is_empty() && is_past(&found, self.let_go_until) {
                return Ok(());
            }
            let waiting = std::mem::take(&mut self.waiting);
            let first = waiting.iter().chain([&found]).find_map(|found| found.at);
            self.settle(&session, first)?;
            for found in waiting {
                self.tell(found)?;
            }
        }
        self.tell(found)
    }

    /// The time of the latest event of a session of that name that was let go.
    fn let_go_until(&self, session: &Session) -> Result<Option<Timestamp>> {
        let name = &session.assistant_session_id;
        let gone = self.rappel.store.look_up(|index| index.let_go_named(self.provider, name))?;
        Ok(gone.map(|gone| gone.until))
    }

    /// Finds out whose it is, and begins that session if nobody did.
    fn settle(&mut self, session: &Session, at: Option<Timestamp>) -> Result<()> {
        let named = |name: &str| (self.provider.to_string(), name.to_owned());
        let name = named(&session.assistant_session_id);
        let names = self.names.all(self.rappel)?;
        if let Some(known) = names.get(&name) {
            self.session = Some(known.clone());
            self.runs = self.rappel.runs_of(known)?;
            return Ok(());
        }
        let parent =
            session.parent.as_deref().and_then(|parent| names.get(&named(parent)).cloned());
        let id = self.rappel.name_session(self.provider, &name.1)?;
        let body = Body::SessionStarted(payload::SessionStarted {
            workspace: Some(self.workspace),
            provider: Some(name.0.clone()),
            assistant_session_id: Some(name.1.clone()),
            parent,
            from_transcript: true,
            ..payload::SessionStarted::default()
        });
        names.insert(name, id.clone());
        self.session = Some(id);
        self.push(NewEvent { at, ..NewEvent::from(body) })
    }

    fn tell(&mut self, found: Found) -> Result<()> {
        self.line = match self.line {
            (line, count) if line == found.line => (line, count + 1),
            _ => (found.line, 0),
        };
        let at = found.at.or(self.latest_at);
        self.latest_at = self.latest_at.max(at);
        if is_past(&found, self.let_go_until) {
            return Ok(());
        }
        self.turn_to_run(&found.item, at)?;
        if self.was_told_before(&found)? {
            return Ok(());
        }
        let Some(found) = self.match_call(found)? else { return Ok(()) };
        let Some((id, body)) = event_of(found.item, found.at, self.line) else { return Ok(()) };
        // What cannot be said in a journal is in the transcript all the same.
        match (NewEvent { at, id, body }).cleaned() {
            Ok(event) if self.was_heard(&event)? => Ok(()),
            Ok(event) => self.push(event),
            Err(_) => Ok(()),
        }
    }

    /// Whether a hook told a prompt without the vendor's id, and no other prompt here is that one.
    fn was_heard(&mut self, event: &NewEvent) -> Result<bool> {
        let (Body::Prompt(prompt), Some(at), Some(session)) =
            (&event.body, event.at, &self.session)
        else {
            return Ok(false);
        };
        if let Some(id) = &event.id {
            let known = |index: &mut Index| index.events_about(session.as_str(), id);
            if !self.rappel.store.look_up(known)?.is_empty() {
                return Ok(true);
            }
        }
        let may_be = |id: &str| !self.matched.iter().any(|one| one == id);
        let heard = self.rappel.same_heard(session, &prompt.text, at, may_be)?;
        let was_heard = heard.is_some();
        self.matched.extend(heard);
        Ok(was_heard)
    }

    /// A call that a hook told by another id goes by that. Its beginning is known then.
    fn match_call(&mut self, found: Found) -> Result<Option<Found>> {
        let Some(session) = self.session.as_ref().filter(|_| !self.names_calls()) else {
            return Ok(Some(found));
        };
        match &found.item {
            Item::ToolStarted { id, tool, input, .. } => {
                let rappel = self.rappel;
                let Some(heard) = rappel.heard_same_call(session, tool, input, &self.matched)?
                else {
                    return Ok(Some(found));
                };
                self.matched.push(heard.clone());
                self.heard.insert(id.clone(), heard);
                Ok(None)
            }
            Item::ToolFinished { id, output, error, success } => {
                let Some(heard) = self.heard.remove(id) else { return Ok(Some(found)) };
                let (output, error, success) = (output.clone(), error.clone(), *success);
                let item = Item::ToolFinished { id: heard, output, error, success };
                Ok(Some(Found { item, ..found }))
            }
            _ => Ok(Some(found)),
        }
    }

    /// Goes over to the run that an item is of: the newest that had begun by then, unless a hook told
    /// it of the run before or after. Hooks may be late.
    fn turn_to_run(&mut self, item: &Item, at: Option<Timestamp>) -> Result<()> {
        if self.runs.len() < 2 {
            return Ok(());
        }
        let had_begun = |run: &SessionView| run.started_at.is_none_or(|began| Some(began) <= at);
        let newest = self.runs.iter().rposition(had_begun).unwrap_or_default();
        let mut run = &self.runs[newest].id;
        if let Some(id) = vendors_id(item) {
            for other in &self.runs[newest.saturating_sub(1)..self.runs.len().min(newest + 2)] {
                let known = |index: &mut Index| index.events_about(other.id.as_str(), &id);
                if !self.rappel.store.look_up(known)?.is_empty() {
                    run = &other.id;
                }
            }
        }
        if self.session.as_ref() != Some(run) {
            let run = run.clone();
            self.flush()?;
            self.session = Some(run);
        }
        Ok(())
    }

    /// Whether a prompt is in the journal under the id that earlier versions gave it.
    fn was_told_before(&self, found: &Found) -> Result<bool> {
        let (Item::Prompt { id: Some(_), text }, Some(session)) = (&found.item, &self.session)
        else {
            return Ok(false);
        };
        let id = prompt_id(found.at, self.line, text);
        let known = |index: &mut Index| index.events_about(session.as_str(), &id);
        Ok(!self.rappel.store.look_up(known)?.is_empty())
    }

    fn push(&mut self, event: NewEvent) -> Result<()> {
        self.bytes += event.body.to_value().to_string().len();
        self.pending.push(event);
        if self.pending.len() >= RUN_EVENTS || self.bytes >= RUN_BYTES {
            self.flush()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        let pending = std::mem::take(&mut self.pending);
        self.bytes = 0;
        match &self.session {
            Some(session) if !pending.is_empty() => self.rappel.record_late(session, &pending),
            _ => Ok(()),
        }
    }

    /// Writes the rest, and how far that is. The reader itself is only in the cache: it would outweigh what it read.
    pub(super) fn finish(mut self, key: &str, reader: Value) -> Result<Option<SessionId>> {
        if !self.pending.is_empty() {
            let place = Body::Transcript(payload::Transcript { path: key.to_owned(), reader });
            self.pending.push(NewEvent { at: self.latest_at, ..NewEvent::from(place) });
        }
        self.flush()?;
        Ok(self.session)
    }
}

/// Whether something was told once and let go. What has no time is as old as what stands before it.
fn is_past(found: &Found, let_go_until: Option<Timestamp>) -> bool {
    let_go_until.is_some_and(|until| found.at.is_none_or(|at| at <= until))
}

/// The id that a hook would tell the same thing by.
fn vendors_id(item: &Item) -> Option<String> {
    match item {
        Item::Prompt { id, .. } => id.as_ref().map(|id| named("p", id)),
        Item::ToolStarted { id, .. } | Item::ToolFinished { id, .. } => Some(call_id(id)),
        Item::FilesChanged { id, .. } => Some(hashed("code", &[id])),
        _ => None,
    }
}

/// What an item is in a journal, and its id there. The ids of tool calls are the vendor's, so that whoever records them
/// too tells nothing twice.
fn event_of(
    item: Item,
    at: Option<Timestamp>,
    (line, place): (u64, usize),
) -> Option<(Option<String>, Body)> {
    let event = match item {
        Item::Prompt { id, text } => {
            // A hook tells it by the same id.
            let id = match id {
                Some(id) => named("p", &id),
                None => prompt_id(at, (line, place), &text),
            };
            (Some(id), Body::Prompt(payload::Prompt { text }))
        }
        Item::Thought { id, kind, text, parent } => {
            let thought = payload::Thought {
                kind: kind.as_str().to_owned(),
                content: text,
                confidence: None,
                parent: parent.map(|parent| named("t", &parent)),
            };
            (Some(named("t", &id)), Body::Thought(thought))
        }
        Item::ToolStarted { id, tool, input, background } => {
            let call = payload::ToolStarted { tool, arguments: input, background };
            (Some(call_id(&id)), Body::ToolStarted(call))
        }
        Item::ToolFinished { id, output, error, success } => {
            let result = output.into();
            let done =
                payload::ToolFinished { of: call_id(&id), result, success, error, presumed: false };
            (None, Body::ToolFinished(done))
        }
        Item::FilesChanged { id, paths } => {
            (Some(hashed("code", &[&id])), Body::Code(payload::Code { paths }))
        }
        Item::Tokens(tokens) => {
            let id = hashed("k", &[&tokens.message, &tokens.output.to_string()]);
            let tokens = payload::Tokens {
                message: Some(tokens.message),
                model: tokens.model,
                input: tokens.input,
                output: tokens.output,
                cache_read: tokens.cache_read,
                cache_write: tokens.cache_write,
            };
            (Some(id), Body::Tokens(tokens))
        }
        Item::Compaction { text, .. } => {
            let id = hashed("compaction", &[&moment(at, line), &place.to_string()]);
            (Some(id), Body::Compaction(payload::Compaction { text }))
        }
        Item::Session(_) | Item::Title { .. } => return None,
    };
    Some(event)
}

/// An id for a prompt that its provider gives none.
fn prompt_id(at: Option<Timestamp>, (line, place): (u64, usize), text: &str) -> String {
    hashed("p", &[&moment(at, line), &place.to_string(), text])
}

/// When something happened, or where it stands if nobody says when.
fn moment(at: Option<Timestamp>, line: u64) -> String {
    at.map_or_else(|| format!("line {line}"), |at| at.as_millis().to_string())
}

/// A vendor's id among ours.
pub(crate) fn named(prefix: &str, id: &str) -> String {
    match is_plain(id) {
        true => format!("{prefix}-{id}"),
        false => hashed(prefix, &[id]),
    }
}

pub(crate) fn call_id(id: &str) -> String {
    if is_plain(id) { id.to_owned() } else { hashed("x", &[id]) }
}

fn is_plain(id: &str) -> bool {
    !id.is_empty() && id.len() <= ID_MAX && !id.chars().any(char::is_control)
}

pub(crate) fn hashed(prefix: &str, parts: &[&str]) -> String {
    let mut hasher = blake3::Hasher::new();
    for part in parts {
        hasher.update(&(part.len() as u64).to_le_bytes()).update(part.as_bytes());
    }
    format!("{prefix}-{}", &hasher.finalize().to_hex()[..12])
}
