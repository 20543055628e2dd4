//! Giving an agent back what it knew.

use std::collections::HashSet;
use std::path::Path;

use rappel_types::Manifest;
use rappel_types::agents::brief::{Brief, Extra};
use rappel_types::agents::{Body, SessionId};

use super::journal::parse;
use super::{SessionView, StateAt};
use crate::checkpoint::Checkpoint;
use crate::error::Result;
use crate::rappel::Rappel;

/// So many of the newest items of each long list go into a brief.
const NEWEST: u64 = 200;
/// So many hypotheses of each status are told with what evidence says, however far back that lies.
const WORDS: usize = 20;

impl Rappel {
    /// A brief of what a session knows, for an agent that has just lost its context.
    pub fn recall(&self, session: &SessionId) -> Result<Brief> {
        let StateAt { state, checkpoint, .. } = self.state_now(session, NEWEST)?;
        let last_checkpoint = match checkpoint {
            None => None,
            Some((id, _)) => self.store.checkpoint(&id)?,
        };
        let restorable = last_checkpoint.as_ref().is_some_and(|row| row.holds_files);
        let last_checkpoint = last_checkpoint.map(|row| self.view(&row)).transpose()?;
        let last_checkpoint = last_checkpoint.map(|Checkpoint { manifest, .. }| {
            let name = name(&manifest);
            (manifest.id, manifest.created_at, name)
        });
        let mut brief = Brief::of(&state, Extra { last_checkpoint, restorable, now: self.now() });
        self.add_words(&mut brief)?;
        self.make_relative(&mut brief.files_touched);
        Ok(match &self.options.words {
            Some(words) => brief.worded(&**words),
            None => brief,
        })
    }

    /// Names files in the workspace from its root, each once: some agents tell whole paths.
    pub(super) fn make_relative(&self, paths: &mut Vec<String>) {
        let mut seen = HashSet::new();
        paths.retain_mut(|path| {
            if let Ok(inside) = Path::new(&*path).strip_prefix(self.root()) {
                *path = inside.to_string_lossy().into_owned();
            }
            seen.insert(path.clone())
        });
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

/// What a checkpoint is called: in its own words, or by what made it.
fn name(manifest: &Manifest) -> Option<String> {
    match manifest.is_automatic() {
        true => Some(manifest.trigger.label().to_owned()),
        false => manifest.description.clone(),
    }
}

/// The command with which a session's agent takes up its work again, where it is known how.
pub fn resume_command(session: &SessionView) -> Option<Vec<String>> {
    let id = session.assistant_session_id.as_ref().or(session.conversation_id.as_ref())?;
    // People paste the command into a shell, and anybody may have recorded the id.
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ':');
    if id.starts_with('-') || !id.chars().all(is_plain) {
        return None;
    }
    let words: &[&str] = match session.provider.as_deref()? {
        "claude" | "claude-code" => &["claude", "--resume"],
        "codex" => &["codex", "resume"],
        "gemini" => &["gemini", "--resume"],
        "opencode" => &["opencode", "--session"],
        _ => return None,
    };
    Some(words.iter().map(ToString::to_string).chain([id.clone()]).collect())
}
