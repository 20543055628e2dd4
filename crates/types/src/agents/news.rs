//! From one state of a session to a later one: the events that lead there.
//!
//! A session that was kept elsewhere comes as states, not as events. An import records the events
//! between two of its states, so that everything that reads journals reads them. Nothing is
//! written here, and nothing is made up: an event has the time of the item that it tells of, and
//! the id. What tells no time has the time of the newer state.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::event::{Body, Event, payload};
use super::input::NewEvent;
use super::items::{Item, Items, Long};
use super::raised;
use super::session::SessionStatus;
use super::state::{
    Belief, BeliefDependency, Branch, Contradiction, Gap, Hypothesis, HypothesisStatus,
    MAIN_BRANCH, SessionState, TokenCount, ToolCall,
};
use crate::Timestamp;

/// The events that lead from `old` to `new`, with their times, in an order in which each is legal.
/// Folded over `old`, they give everything that `new` shows; only the numbers of events are those
/// of the journal that takes them in.
///
/// `None` if no event can tell it: something that `old` knows is not known any more, or is
/// another thing. Then the session was set back in between.
///
/// The long lists must be filled in, or have the same older parts in both. `new` must be a state
/// that events can lead to; see [`legal`] for one that another program made.
pub fn news(old: &SessionState, new: &SessionState) -> Option<Vec<NewEvent>> {
    if !goes_up(old, new) {
        return None;
    }
    let mut timed = Timed::default();
    hypotheses(&old.hypotheses, &new.hypotheses, &mut timed)?;
    beliefs(&old.beliefs, &new.beliefs, &mut timed)?;
    gaps(&old.gaps, &new.gaps, &mut timed)?;
    appended(old, new, &mut timed)?;
    tool_calls(old, new, &mut timed)?;
    branches(old, new, &mut timed)?;
    let mut events = timed.in_order();
    let last = new.latest_at;
    let mut tell = |body| events.push(NewEvent { at: last, id: None, body });
    dependencies(old, new, &mut tell)?;
    contradictions(&old.contradictions, &new.contradictions, &mut tell);
    context(old, new, &mut tell);
    progress(old, new, &mut tell);
    let mut events = begun(old, new, events);
    settle(old, new, &mut events);
    Some(events)
}

/// A state with the same content that events can lead to: links to what is not there are left
/// out, and what follows from other items is as our fold has it. A reader of another program's
/// states gives this one on.
pub fn legal(state: &SessionState) -> SessionState {
    let nothing = SessionState::new(state.session.clone());
    let mut legal = nothing.clone();
    for (number, event) in (1..).zip(news(&nothing, state).unwrap_or_default()) {
        legal.apply(&numbered(event, number));
    }
    legal
}

fn numbered(new: NewEvent, number: u64) -> Event {
    let at = new.at.unwrap_or(Timestamp::from_millis(0));
    Event { number, fork: 0, at, id: new.id, body: new.body }
}

/// Whether no sum went down.
fn goes_up(old: &SessionState, new: &SessionState) -> bool {
    let sums = |of: &SessionState| {
        let TokenCount { input, output, cache_read, cache_write } = of.progress.tokens;
        let metrics = &of.metrics;
        [
            of.progress.total_thoughts,
            of.progress.total_tool_calls,
            metrics.checkpoints_created,
            metrics.hypotheses_tested,
            metrics.verifications_run,
            metrics.gaps_filled,
            metrics.time_in_debugging,
            input,
            output,
            cache_read,
            cache_write,
        ]
    };
    sums(old).iter().zip(sums(new)).all(|(before, after)| *before <= after)
}

/// Events that tell their time. Each is placed at its time, but never before one that it follows
/// from or that its list has before it.
#[derive(Default)]
struct Timed {
    events: Vec<(Timestamp, NewEvent)>,
    /// Where the events are that make something which others name.
    made: HashMap<String, Timestamp>,
}

impl Timed {
    /// Adds an event that follows one at `after`. Gives its place.
    fn add(
        &mut self,
        after: Option<Timestamp>,
        at: Timestamp,
        id: Option<&str>,
        body: Body,
    ) -> Timestamp {
        let about = body.about().and_then(|about| self.made.get(about)).copied();
        let place = Some(at).max(after).max(about).unwrap_or(at);
        if let Some(id) = id {
            self.made.insert(id.to_owned(), place);
        }
        let id = id.map(str::to_owned);
        self.events.push((place, NewEvent { at: Some(at), id, body }));
        place
    }

    fn in_order(mut self) -> Vec<NewEvent> {
        // Stable: of two at the same place, the one that was added first comes first.
        self.events.sort_by_key(|(place, _)| *place);
        self.events.into_iter().map(|(_, event)| event).collect()
    }
}

/// Whether all items that were there are there, in the same order, and new ones come after them.
fn grew<T: Item + Clone>(old: &Items<T>, new: &Items<T>) -> bool {
    old.len() <= new.len() && old.iter().zip(new.iter()).all(|(a, b)| a.id() == b.id())
}

fn hypotheses(old: &Items<Hypothesis>, new: &Items<Hypothesis>, out: &mut Timed) -> Option<()> {
    let mut place = None;
    if !grew(old, new) {
        return None;
    }
    for one in new.iter() {
        let before = old.get(&one.id);
        if before.is_some_and(|before| before.created_at != one.created_at) {
            return None;
        }
        let then = match before {
            Some(before) => before.clone(),
            None => {
                // What was decided later was open first.
                let later = one.updated_at > one.created_at && !one.status.is_open();
                let status = if later { HypothesisStatus::Open } else { one.status };
                let made = payload::Hypothesis {
                    text: one.text.clone(),
                    confidence: Some(one.confidence),
                    status,
                };
                let id = Some(one.id.as_str());
                place = Some(out.add(place, one.created_at, id, Body::Hypothesis(made)));
                Hypothesis { status, updated_at: one.created_at, reason: None, ..one.clone() }
            }
        };
        let decided = then.status != one.status || then.reason != one.reason;
        let mut update = payload::HypothesisUpdated {
            of: one.id.clone(),
            text: (then.text != one.text).then(|| one.text.clone()),
            confidence: (then.confidence != one.confidence).then_some(one.confidence),
            status: decided.then_some(one.status),
            reason: one.reason.clone().filter(|_| decided),
        };
        let changed = update.text.is_some() || update.confidence.is_some() || decided;
        if changed || then.updated_at != one.updated_at {
            update.confidence = update.confidence.or((!changed).then_some(one.confidence));
            out.add(None, one.updated_at, None, Body::HypothesisUpdated(update));
        }
    }
    Some(())
}

fn beliefs(old: &Items<Belief>, new: &Items<Belief>, out: &mut Timed) -> Option<()> {
    let mut place = None;
    if !grew(old, new) {
        return None;
    }
    for one in new.iter() {
        let before = old.get(&one.id);
        if before.is_some_and(|before| before.created_at != one.created_at) {
            return None;
        }
        let then = match before {
            Some(before) => before.clone(),
            None => {
                let made =
                    payload::Belief { text: one.text.clone(), confidence: Some(one.confidence) };
                place = Some(out.add(place, one.created_at, Some(&one.id), Body::Belief(made)));
                Belief { updated_at: one.created_at, ..one.clone() }
            }
        };
        if then != *one {
            let text = (then.text != one.text).then(|| one.text.clone());
            let sure = text.is_none() || then.confidence != one.confidence;
            let confidence = sure.then_some(one.confidence);
            let update = payload::BeliefUpdated { of: one.id.clone(), text, confidence };
            out.add(None, one.updated_at, None, Body::BeliefUpdated(update));
        }
    }
    Some(())
}

fn gaps(old: &Items<Gap>, new: &Items<Gap>, out: &mut Timed) -> Option<()> {
    let mut place = None;
    if !grew(old, new) {
        return None;
    }
    for one in new.iter() {
        let before = old.get(&one.id);
        match before {
            Some(before) if before == one => continue,
            Some(before)
                if before.filled
                    || !one.filled
                    || (&before.text, before.created_at) != (&one.text, one.created_at) =>
            {
                return None;
            }
            Some(_) => {}
            None => {
                let made = Body::Gap(payload::Gap { text: one.text.clone() });
                place = Some(out.add(place, one.created_at, Some(&one.id), made));
            }
        }
        if one.filled {
            let answer = one.answer.clone().unwrap_or_default();
            let filled = payload::GapFilled { of: one.id.clone(), answer };
            let at = one.filled_at.unwrap_or(one.created_at);
            out.add(None, at, None, Body::GapFilled(filled));
        }
    }
    Some(())
}

/// What a list that only grows has more than it had.
fn added<'a, T: PartialEq>(old: &Long<T>, new: &'a Long<T>) -> Option<&'a [Arc<T>]> {
    let same = |(a, b): (&Arc<T>, &Arc<T>)| Arc::ptr_eq(a, b) || a == b;
    let (before, after) = (&old.recent, &new.recent);
    let kept = old.stored == new.stored
        && before.len() <= after.len()
        && before.iter().zip(after).all(same);
    kept.then(|| &after[before.len()..])
}

/// The lists that only grow, tool calls aside.
fn appended(old: &SessionState, new: &SessionState, out: &mut Timed) -> Option<()> {
    fn tell<T: PartialEq>(
        old: &Long<T>,
        new: &Long<T>,
        out: &mut Timed,
        event: impl Fn(&T) -> (Timestamp, &String, Body),
    ) -> Option<()> {
        let mut place = None;
        for one in added(old, new)? {
            let (at, id, body) = event(one);
            place = Some(out.add(place, at, Some(id), body));
        }
        Some(())
    }
    tell(&old.prompts, &new.prompts, out, |one| {
        let body = Body::Prompt(payload::Prompt { text: one.text.clone() });
        (one.created_at, &one.id, body)
    })?;
    tell(&old.thought_chain, &new.thought_chain, out, |one| {
        let thought = payload::Thought {
            kind: one.kind.clone(),
            content: one.content.clone(),
            confidence: one.confidence,
            parent: one.parent.clone(),
        };
        (one.created_at, &one.id, Body::Thought(thought))
    })?;
    tell(&old.evidence, &new.evidence, out, |one| {
        let evidence = payload::Evidence {
            text: one.text.clone(),
            hypothesis: one.hypothesis.clone(),
            supports: one.supports,
            weight: one.weight,
        };
        (one.created_at, &one.id, Body::Evidence(evidence))
    })?;
    tell(&old.verification_results, &new.verification_results, out, |one| {
        let verification = payload::Verification {
            text: one.text.clone(),
            passed: one.passed,
            hypothesis: one.hypothesis.clone(),
            output: one.output.clone(),
        };
        (one.created_at, &one.id, Body::Verification(verification))
    })?;
    tell(&old.notes, &new.notes, out, |one| {
        let body = Body::Note(payload::Note { text: one.text.clone() });
        (one.created_at, &one.id, body)
    })?;
    tell(&old.command_history, &new.command_history, out, |one| {
        let command = payload::Command {
            command: one.command.clone(),
            exit_code: one.exit_code,
            working_dir: one.working_dir.clone(),
            stdout_preview: one.stdout_preview.clone(),
            stderr_preview: one.stderr_preview.clone(),
        };
        (one.timestamp, &one.id, Body::Command(command))
    })
}

/// Whether two records of a call are of the same one, whatever became of it.
fn same_call(one: &ToolCall, other: &ToolCall) -> bool {
    let began = |call: &ToolCall| (call.started_at, call.background);
    (&one.id, &one.tool, &one.arguments) == (&other.id, &other.tool, &other.arguments)
        && began(one) == began(other)
}

fn tool_calls(old: &SessionState, new: &SessionState, out: &mut Timed) -> Option<()> {
    let (old, new) = (&old.tool_state, &new.tool_state);
    // A call whose end was only concluded moves to the end of the list when it really ends.
    let ended: HashMap<&str, &Arc<ToolCall>> =
        new.done.recent.iter().map(|one| (one.id.as_str(), one)).collect();
    let corrected: HashSet<&str> = old
        .done
        .iter()
        .filter(|one| one.presumed)
        .filter(|one| ended.get(one.id.as_str()).is_some_and(|now| !now.presumed))
        .map(|one| one.id.as_str())
        .collect();
    let kept = old.done.recent.iter().filter(|one| !corrected.contains(one.id.as_str()));
    let kept = Long { stored: old.done.stored.clone(), recent: kept.cloned().collect() };
    let known = |id: &str| {
        let presumed = || old.done.iter().find(|one| corrected.contains(id) && one.id == id);
        old.running.get(id).or_else(presumed)
    };
    let mut place = None;
    for one in added(&kept, &new.done)? {
        let at = one.completed_at.unwrap_or(one.started_at);
        let success = one.success.unwrap_or(one.error.is_none());
        let begun = known(&one.id);
        if begun.is_some_and(|begun| !same_call(begun, one)) {
            return None;
        }
        if begun.is_none() && !one.background && !one.presumed {
            let call = payload::Tool {
                tool: one.tool.clone(),
                arguments: one.arguments.clone(),
                result: one.result.clone(),
                success,
                error: one.error.clone(),
                started_at: Some(one.started_at),
            };
            place = Some(out.add(place, at, Some(&one.id), Body::Tool(call)));
            continue;
        }
        if begun.is_none() {
            place = Some(out.add(place, one.started_at, Some(&one.id), started(one)));
        }
        let done = payload::ToolFinished {
            of: one.id.clone(),
            result: one.result.clone(),
            success,
            error: one.error.clone(),
            presumed: one.presumed,
        };
        place = Some(out.add(place, at, None, Body::ToolFinished(done)));
    }
    let mut ahead = None;
    let left = old.running.iter().filter(|one| !ended.contains_key(one.id.as_str()));
    let mut left = left.peekable();
    for one in new.running.iter() {
        match left.next() {
            Some(before) if before == one => {}
            Some(_) => return None,
            None => ahead = Some(out.add(ahead, one.started_at, Some(&one.id), started(one))),
        }
    }
    left.next().is_none().then_some(())
}

fn started(call: &ToolCall) -> Body {
    Body::ToolStarted(payload::ToolStarted {
        tool: call.tool.clone(),
        arguments: call.arguments.clone(),
        background: call.background,
    })
}

fn branches(old: &SessionState, new: &SessionState, out: &mut Timed) -> Option<()> {
    if !grew(&old.branches, &new.branches) {
        return None;
    }
    let mut current = old.current_branch.clone();
    let mut place = None;
    let mut go_to = |name: &str, at: Timestamp, place: &mut Option<Timestamp>, out: &mut Timed| {
        if current != name {
            name.clone_into(&mut current);
            let switched = payload::BranchSwitched { name: name.to_owned() };
            *place = Some(out.add(*place, at, None, Body::BranchSwitched(switched)));
        }
    };
    for one in new.branches.iter() {
        match old.branches.get(&one.name) {
            Some(before) if (&before.from, before.created_at) == (&one.from, one.created_at) => {}
            Some(_) => return None,
            None => {
                let from = one.from.as_deref().unwrap_or(MAIN_BRANCH);
                go_to(from, one.created_at, &mut place, out);
                let made = payload::BranchCreated { name: one.name.clone(), switch: false };
                place = Some(out.add(place, one.created_at, None, Body::BranchCreated(made)));
            }
        }
    }
    let end = |one: &Branch| new.latest_at.unwrap_or(one.created_at);
    for one in new.branches.iter() {
        let before = old.branches.get(&one.name).and_then(|before| before.merged_into.as_ref());
        match (before, &one.merged_into) {
            (before, after) if before == after.as_ref() => {}
            (_, None) => return None,
            (_, Some(into)) => {
                // A merge leaves the branch that was merged; stand where it leads already.
                go_to(into, end(one), &mut place, out);
                let merged = payload::BranchMerged { name: one.name.clone(), into: into.clone() };
                place = Some(out.add(place, end(one), None, Body::BranchMerged(merged)));
            }
        }
    }
    if let Some(at) = new.latest_at.or(place) {
        go_to(&new.current_branch, at, &mut place, out);
    }
    Some(())
}

fn dependencies(old: &SessionState, new: &SessionState, tell: &mut impl FnMut(Body)) -> Option<()> {
    let (before, after) = (&old.belief_dependencies, &new.belief_dependencies);
    let added = after.strip_prefix(before.as_slice())?;
    for BeliefDependency { from, to, kind } in added {
        let (of, on, kind) = (from.clone(), to.clone(), *kind);
        tell(Body::BeliefDependency(payload::BeliefDependency { of, on, kind }));
    }
    Some(())
}

fn contradictions(old: &[Contradiction], new: &[Contradiction], tell: &mut impl FnMut(Body)) {
    let has = |list: &[Contradiction], one: &Contradiction| {
        list.iter().any(|other| other.what == one.what)
    };
    let stay: Vec<&Contradiction> = old.iter().filter(|one| has(new, one)).collect();
    let in_order = stay.iter().zip(new).all(|(a, b)| a.what == b.what);
    for one in old.iter().filter(|one| !in_order || !has(new, one)) {
        let payload::Contradiction { rule, first, second } = one.what.clone();
        let cleared = payload::ContradictionCleared { rule, first, second };
        tell(Body::ContradictionCleared(cleared));
    }
    for one in &new[if in_order { stay.len() } else { 0 }..] {
        tell(Body::Contradiction(one.what.clone()));
    }
}

fn context(old: &SessionState, new: &SessionState, tell: &mut impl FnMut(Body)) {
    let (before, after) = (&old.context, &new.context);
    for (key, value) in &after.variables {
        if before.variables.get(key) != Some(value) {
            let (key, value) = (key.clone(), value.clone());
            tell(Body::ContextSet(payload::ContextSet { key, value }));
        }
    }
    for key in before.variables.keys().filter(|key| !after.variables.contains_key(*key)) {
        tell(Body::ContextUnset(payload::ContextUnset { key: key.clone() }));
    }
    for (key, value) in &after.state {
        if before.state.get(key) != Some(value) {
            let (key, value) = (key.clone(), value.clone());
            tell(Body::ContextStateSet(payload::ContextStateSet { key, value }));
        }
    }
    for key in before.state.keys().filter(|key| !after.state.contains_key(*key)) {
        tell(Body::ContextStateUnset(payload::ContextStateUnset { key: key.clone() }));
    }
}

fn progress(old: &SessionState, new: &SessionState, tell: &mut impl FnMut(Body)) {
    let (before, after) = (&old.progress, &new.progress);
    if (before.step_number, &before.text) != (after.step_number, &after.text) {
        let step_number = Some(after.step_number);
        tell(Body::Progress(payload::Progress { step_number, text: after.text.clone() }));
    }
    let (past, now) = (before.tokens, after.tokens);
    if past != now {
        tell(Body::Tokens(payload::Tokens {
            message: None,
            model: None,
            input: now.input - past.input,
            output: now.output - past.output,
            cache_read: now.cache_read - past.cache_read,
            cache_write: now.cache_write - past.cache_write,
        }));
    }
    // A call that changes a file tells so itself.
    let calls = new.tool_state.done.recent.iter().skip(old.tool_state.done.recent.len());
    let edited: HashSet<&str> =
        calls.filter_map(|one| raised::edited(&one.tool, &one.arguments)).collect();
    let (past, now) = (&old.files_touched, &new.files_touched);
    let same = past.iter().zip(now).take_while(|(a, b)| a == b).count();
    let paths = now[same..].iter().filter(|path| !edited.contains(path.as_str()));
    let paths: Vec<String> = paths.cloned().collect();
    if !paths.is_empty() {
        tell(Body::Code(payload::Code { paths }));
    }
}

/// The session begins or goes on before the other events, and pauses or ends after them.
fn begun(old: &SessionState, new: &SessionState, events: Vec<NewEvent>) -> Vec<NewEvent> {
    let first = events.iter().filter_map(|event| event.at).min().or(new.latest_at);
    let at = |at: Option<Timestamp>, body| NewEvent { at, id: None, body };
    let mut all = Vec::with_capacity(events.len() + 3);
    let ended = |of: &SessionState| (of.status, of.ended_at);
    let mut status = old.status;
    if old.event == 0 {
        let started = payload::SessionStarted {
            workspace: new.workspace,
            provider: new.provider.clone(),
            task: new.task.clone(),
            conversation_id: new.conversation_id.clone(),
            assistant_session_id: new.assistant_session_id.clone(),
            parent: new.parent.clone(),
            process: new.process,
            from_transcript: new.from_transcript,
        };
        all.push(at(new.started_at.or(first), Body::SessionStarted(started)));
    }
    let again = !status.is_live() && (!events.is_empty() || ended(old) != ended(new));
    if again || (status == SessionStatus::Paused && new.status == SessionStatus::Running) {
        let process = new.process.filter(|_| new.process != old.process);
        let resumed = payload::SessionResumed { process, from_transcript: again };
        all.push(at(first, Body::SessionResumed(resumed)));
        status = SessionStatus::Running;
    }
    all.extend(events);
    if status != new.status {
        match new.status {
            // Resumed already.
            SessionStatus::Running => {}
            SessionStatus::Paused => {
                all.push(at(new.latest_at, Body::SessionPaused(payload::SessionPaused::default())));
            }
            status => {
                let end = payload::SessionEnded { status, ..Default::default() };
                all.push(at(new.ended_at.or(new.latest_at), Body::SessionEnded(end)));
            }
        }
    }
    all
}

/// Adds what the events do not lead to by themselves: sums, and facts about the session.
fn settle(old: &SessionState, new: &SessionState, events: &mut Vec<NewEvent>) {
    let mut reached = old.clone();
    for event in std::mem::take(events) {
        let (at, number) = (event.at, reached.event.saturating_add(1));
        let event = numbered(event, number);
        reached.apply(&event);
        events.push(NewEvent { at, id: event.id, body: event.body });
    }
    let touched = reached.files_touched != new.files_touched;
    let facts = |of: &SessionState| payload::Facts {
        status: of.status,
        provider: of.provider.clone(),
        task: of.task.clone(),
        conversation_id: of.conversation_id.clone(),
        assistant_session_id: of.assistant_session_id.clone(),
        started_at: of.started_at,
        ended_at: of.ended_at,
        restored_to: of.restored_to.clone(),
        metrics: of.metrics.clone(),
        progress: of.progress.clone(),
        files_touched: touched.then(|| new.files_touched.clone()),
        ignored: of.ignored,
        unknown: of.unknown,
    };
    let wanted = facts(new);
    if touched || facts(&reached) != wanted || reached.latest_at < new.latest_at {
        let at = new.latest_at.or(reached.latest_at);
        events.push(NewEvent { at, id: None, body: Body::TakenOver(wanted.into()) });
    }
}
