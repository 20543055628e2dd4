//! One prompt, told by a hook and by the transcript. The vendor's id makes them one event in the
//! journal. Where a hook gave no id, they are matched here by their text and time: each prompt of a
//! transcript to at most one hook event. Two hook events are never the same prompt.

use rappel_store::ambient;
use rappel_types::Timestamp;
use rappel_types::agents::{Body, SessionId};

use super::journal::parse;
use crate::error::Result;
use crate::rappel::Rappel;

/// A hook and a transcript tell the same prompt at most this far apart.
const APART_MS: i64 = 2 * 60 * 1000;
/// So begin the ids of prompts.
const PROMPT: &str = "p-";
/// So begin the ids of prompts that a hook told without the vendor's id.
const HEARD: &str = "p-hook-";

/// An id for a prompt that a hook tells without the vendor's.
pub(crate) fn heard_id() -> String {
    format!("{HEARD}{:016x}", ambient::random())
}

/// Whether a hook told a prompt without the vendor's id.
pub(crate) fn is_heard(id: &str) -> bool {
    id.starts_with(HEARD)
}

impl Rappel {
    /// The first prompt in a journal with this text, near this time, whose id `may_be` allows.
    pub(crate) fn same_prompt(
        &self,
        session: &SessionId,
        text: &str,
        at: Timestamp,
        may_be: impl Fn(&str) -> bool,
    ) -> Result<Option<String>> {
        self.same_among(PROMPT, session, text, at, may_be)
    }

    /// The same among those that a hook told without the vendor's id. They are few: a transcript with
    /// many prompts is looked through in a time that grows with it alone.
    pub(crate) fn same_heard(
        &self,
        session: &SessionId,
        text: &str,
        at: Timestamp,
        may_be: impl Fn(&str) -> bool,
    ) -> Result<Option<String>> {
        self.same_among(HEARD, session, text, at, may_be)
    }

    fn same_among(
        &self,
        ids: &str,
        session: &SessionId,
        text: &str,
        at: Timestamp,
        may_be: impl Fn(&str) -> bool,
    ) -> Result<Option<String>> {
        let near = (at.as_millis() - APART_MS, at.as_millis() + APART_MS);
        let rows =
            self.store.look_up(|index| index.prompts_between(session.as_str(), ids, near))?;
        let is_same = |id: &str, body: &Body| match body {
            Body::Prompt(prompt) => may_be(id) && prompt.text == text,
            _ => false,
        };
        Ok(rows.into_iter().find_map(|row| {
            let event = parse(&row).ok()?;
            row.item.filter(|id| is_same(id, &event.body))
        }))
    }
}
