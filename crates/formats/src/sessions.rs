//! Sessions in forms that know one session for each checkpoint; and what forms leave out.

use std::sync::Arc;

use rappel_types::agents::{Long, SessionId, SessionState};

use crate::portable::{Portable, Session};

/// What a form calls a session of which nobody said the name.
pub(crate) const UNKNOWN: &str = "unknown";

/// The session that such a form tells of: the one that asked for the checkpoint, or the last.
pub(crate) fn told(checkpoint: &Portable) -> Option<&Session> {
    let asked = |one: &&Session| checkpoint.session.as_ref() == Some(&one.id);
    checkpoint.sessions.iter().find(asked).or(checkpoint.sessions.last())
}

/// The name of a session among ours. Foreign ones may have any letters.
pub(crate) fn name(id: &str) -> SessionId {
    id.parse().unwrap_or_else(|_| {
        let legal = |c: char| c.is_ascii_alphanumeric() || "_-.:".contains(c);
        let letters = id.chars().map(|c| if legal(c) { c } else { '_' });
        let name: String = "s_".chars().chain(letters).take(100).collect();
        name.parse().unwrap_or_else(|_| SessionId::new(rappel_types::Timestamp::from_millis(0), 0))
    })
}

/// A session with what it knew.
pub(crate) fn session(id: &str, state: SessionState) -> Session {
    Session {
        id: id.to_owned(),
        conversation_id: state.conversation_id.clone(),
        assistant_session_id: state.assistant_session_id.clone(),
        provider: state.provider.clone(),
        task: state.task.clone(),
        status: state.status,
        started_at: state.started_at,
        state,
    }
}

/// Lets a state use the items that an earlier one of the same session has already: a history
/// repeats them in every checkpoint.
pub(crate) fn share(old: &SessionState, new: &mut SessionState) {
    fn list<T: PartialEq>(old: &Long<T>, new: &mut Long<T>) {
        for (old, new) in old.recent.iter().zip(&mut new.recent) {
            if old != new {
                break;
            }
            *new = Arc::clone(old);
        }
    }
    list(&old.evidence, &mut new.evidence);
    list(&old.verification_results, &mut new.verification_results);
    list(&old.notes, &mut new.notes);
    list(&old.command_history, &mut new.command_history);
    list(&old.prompts, &mut new.prompts);
    list(&old.thought_chain, &mut new.thought_chain);
    list(&old.tool_state.done, &mut new.tool_state.done);
}

/// Something that a checkpoint may hold: its name, and whether it does.
type Part = (&'static str, fn(&Portable) -> bool);

fn knows(checkpoint: &Portable, holds: impl Fn(&SessionState) -> bool) -> bool {
    checkpoint.sessions.iter().any(|session| holds(&session.state))
}

/// All that a checkpoint may hold.
const PARTS: [Part; 21] = [
    ("files", |one| one.files.is_some()),
    ("git", |one| one.git.is_some()),
    ("databases", |one| !one.databases.is_empty()),
    ("knowledge", |one| one.knowledge.is_some()),
    ("memory", |one| one.process.is_some()),
    ("messages", |one| one.description.is_some()),
    ("tags", |one| !one.tags.is_empty()),
    ("environments", |one| one.environment.is_some()),
    ("metadata", |one| !one.metadata.is_empty()),
    ("further sessions", |one| one.sessions.len() > 1),
    ("hypotheses and evidence", |one| knows(one, |state| !state.hypotheses.is_empty())),
    ("beliefs", |one| knows(one, |state| !state.beliefs.is_empty())),
    ("gaps", |one| knows(one, |state| !state.gaps.is_empty())),
    ("verifications", |one| knows(one, |state| !state.verification_results.is_empty())),
    ("approaches", |one| knows(one, |state| !state.branches.is_empty())),
    ("notes", |one| knows(one, |state| !state.notes.is_empty())),
    ("commands", |one| knows(one, |state| !state.command_history.is_empty())),
    ("thoughts", |one| knows(one, |state| !state.thought_chain.is_empty())),
    ("tool calls", |one| {
        knows(one, |state| {
            !state.tool_state.done.is_empty() || !state.tool_state.running.is_empty()
        })
    }),
    ("context", |one| {
        knows(one, |state| !state.context.variables.is_empty() || !state.context.state.is_empty())
    }),
    ("prompts", |one| knows(one, |state| !state.prompts.is_empty())),
];

/// A sentence for each part that the checkpoints hold and the form does not carry.
pub(crate) fn left_out(
    form: crate::Form,
    checkpoints: &[Portable],
    carried: &[&str],
) -> Vec<String> {
    PARTS
        .iter()
        .filter(|(name, _)| !carried.contains(name))
        .filter(|(_, holds)| checkpoints.iter().any(holds))
        .map(|(name, _)| format!("{form} has no place for {name}"))
        .collect()
}
