//! Giving an agent back what it knew.

use rappel_types::agents::brief::{Brief, Extra};
use rappel_types::agents::{Body, SessionId};

use super::SessionView;
use super::journal::parse;
use crate::error::Result;
use crate::rappel::Rappel;

/// So many of the newest items of each long list go into a brief.
const NEWEST: u64 = 200;
/// So many hypotheses of each status are told with what evidence says, however far back that lies.
const WORDS: usize = 20;

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
        let mut brief = Brief::of(&state, Extra { last_checkpoint, now: self.now() });
        self.add_words(&mut brief)?;
        Ok(brief)
    }

    /// Adds what evidence says that lies further back, for the hypotheses that are told first.
    fn add_words(&self, brief: &mut Brief) -> Result<()> {
        let session = brief.session.as_str();
        let lists = [&mut brief.confirmed, &mut brief.open, &mut brief.ruled_out];
        let first = lists.into_iter().flat_map(|list| list.iter_mut().take(WORDS));
        let evidence = first.flat_map(|one| [&mut one.supported_by, &mut one.refuted_by]).flatten();
        for one in evidence.filter(|one| one.text.is_none()) {
            let rows = self.store.look_up(|index| index.events_about(session, &one.id))?;
            one.text =
                rows.iter().filter_map(|row| parse(row).ok()).find_map(|event| match event.body {
                    Body::Evidence(evidence) => Some(evidence.text),
                    _ => None,
                });
        }
        Ok(())
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
