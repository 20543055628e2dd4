//! Giving an agent back what it knew.

use rappel_types::agents::SessionId;
use rappel_types::agents::brief::{Brief, Extra};

use super::SessionView;
use crate::error::Result;
use crate::rappel::Rappel;

/// So many of the newest items of each long list go into a brief.
const NEWEST: u64 = 200;

impl Rappel {
    /// A brief of what a session knows, for an agent that has just lost its context.
    pub fn recall(&self, session: &SessionId) -> Result<Brief> {
        let state = self.state_now(session, NEWEST)?.state;
        let last_checkpoint = match self.resolve(&LATEST, true) {
            Err(_) => None,
            Ok(row) => {
                let manifest = self.store.manifest(&row)?;
                Some((manifest.id, manifest.created_at, manifest.description))
            }
        };
        Ok(Brief::of(&state, Extra { last_checkpoint, now: self.now() }))
    }
}

const LATEST: rappel_types::Reference =
    rappel_types::Reference { base: rappel_types::reference::Base::Latest, back: 0 };

/// The command with which a session's agent takes up its work again, where it is known how.
pub fn resume_command(session: &SessionView) -> Option<Vec<String>> {
    let id = session.assistant_session_id.as_ref().or(session.conversation_id.as_ref())?;
    let words: &[&str] = match session.provider.as_deref()? {
        "claude" | "claude-code" => &["claude", "--resume"],
        "codex" => &["codex", "resume"],
        "gemini" => &["gemini", "--resume"],
        _ => return None,
    };
    Some(words.iter().map(ToString::to_string).chain([id.clone()]).collect())
}
