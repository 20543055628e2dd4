//! `undo --prompt`: to before the last thing that the user asked for.

use rappel_store::index::CheckpointRow;
use rappel_types::Advice;
use rappel_types::agents::{Body, SessionId};
use rappel_types::{CheckpointId, Manifest, RelPath, Timestamp, Trigger};
use schemars::JsonSchema;
use serde::Serialize;

use super::Step;
use crate::agents::parse_event;
use crate::checkpoint::Checkpoint;
use crate::error::{Error, Result};
use crate::rappel::Rappel;

/// So many prompts are offered where nobody says whose is meant.
const OFFERED: usize = 10;

/// A prompt that can be undone.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
pub struct PromptStep {
    /// The way back.
    #[serde(flatten)]
    pub step: Step,
    /// The session that it was given to.
    pub session: SessionId,
    /// What the user asked for, in full where it is known.
    pub prompt: String,
    /// Another session that worked here since.
    pub other: Option<String>,
    /// Files that git ignores, that were destroyed or overwritten since, and that this step does
    /// not bring back.
    pub ignored: Vec<IgnoredFiles>,
}

/// Files that git ignores, held by a checkpoint from before something destroyed or overwrote them.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
pub struct IgnoredFiles {
    /// The checkpoint.
    pub checkpoint: CheckpointId,
    /// The files.
    pub paths: Vec<RelPath>,
}

impl Rappel {
    /// What `undo --prompt` would do: to before the last prompt of a session that changed anything.
    /// Asks if another session worked here since.
    pub fn next_undo_prompt(&self, session: Option<&SessionId>) -> Result<PromptStep> {
        self.refuse_if_unfinished()?;
        let Some(session) = session else { return Err(self.whose_prompt()?) };
        let session = &self.newest_run_of(session)?;
        let line = self.line_of(session)?;
        let of_line = |row: &CheckpointRow| -> Result<Option<Manifest>> {
            if row.trigger != Trigger::Prompt.as_str() {
                return Ok(None);
            }
            let manifest = self.store.manifest(row)?;
            let named = manifest.session_id.as_deref();
            let is_meant = named.is_some_and(|named| line.iter().any(|id| id.as_str() == named));
            Ok(is_meant.then_some(manifest))
        };
        // One that cannot be read is nothing to go back to.
        let row = self.nearest_that_differs(|row| of_line(row).is_ok_and(|found| found.is_some()));
        let row = match row {
            Err(Error::Nothing { .. }) => {
                let last = self.rows()?.into_iter().rev();
                let last = last.into_iter().find(|row| of_line(row).is_ok_and(|it| it.is_some()));
                let ignored = match last {
                    Some(last) => self.ignored_since(&last)?,
                    None => Vec::new(),
                };
                return Err(nothing_left(session, &ignored));
            }
            other => other?,
        };
        let manifest = self.view(&row)?.manifest;
        let other = self.other_since(&row, &line)?;
        let title = manifest.description.clone().unwrap_or_default();
        let step = Step {
            description: format!("go back to before the prompt {title:?}"),
            asks: other.is_some(),
            ..Self::step_to(&row, self.last_step()?)
        };
        let prompt = self.words_of(&manifest)?.unwrap_or(title);
        let session = manifest.session_id.and_then(|id| id.parse().ok());
        let session = session.unwrap_or_else(|| line[0].clone());
        let ignored = self.ignored_since(&row)?;
        Ok(PromptStep { step, session, prompt, other, ignored })
    }

    /// The files that git ignores and that commands have destroyed, or edits overwritten, since a
    /// checkpoint. Each is told once, with a checkpoint that holds it.
    fn ignored_since(&self, since: &CheckpointRow) -> Result<Vec<IgnoredFiles>> {
        let is_later = |row: &&CheckpointRow| row.sequence > since.sequence && row.holds_files;
        let rows = self.rows()?;
        let later = rows.iter().filter(is_later);
        let later: Vec<Manifest> = later.filter_map(|row| self.store.manifest(row).ok()).collect();
        let found = self.ignored_and_lost(&self.store.manifest(since)?, &later)?;
        let named = |(checkpoint, mut paths): (CheckpointId, Vec<RelPath>)| {
            // A folder that is gone stands for what it held.
            let all = paths.clone();
            paths.retain(|path| !all.iter().any(|above| above != path && path.is_within(above)));
            IgnoredFiles { checkpoint, paths }
        };
        Ok(found.into_iter().map(named).collect())
    }

    /// A session and those that it goes on from.
    fn line_of(&self, session: &SessionId) -> Result<Vec<SessionId>> {
        let mut line = vec![session.clone()];
        let mut view = self.session(session)?;
        while let Some(parent) = view.parent.take().filter(|parent| !line.contains(parent)) {
            let before = self.session(&parent)?;
            if before.assistant_session_id != view.assistant_session_id {
                break;
            }
            line.push(parent);
            view = before;
        }
        Ok(line)
    }

    /// Another session that made a checkpoint with files since then. Those that the session itself
    /// sent do not count.
    fn other_since(&self, since: &CheckpointRow, line: &[SessionId]) -> Result<Option<String>> {
        let rows = self.rows()?;
        for row in rows.iter().filter(|row| row.sequence > since.sequence && row.holds_files) {
            let Ok(manifest) = self.store.manifest(row) else { continue };
            let Some(id) = manifest.session_id else { continue };
            if line.iter().any(|own| own.as_str() == id) {
                continue;
            }
            let parent = id.parse().ok().and_then(|id| self.session(&id).ok()?.parent);
            if parent.is_none_or(|parent| !line.contains(&parent)) {
                return Ok(Some(id));
            }
        }
        Ok(None)
    }

    /// The prompt's own words.
    fn words_of(&self, manifest: &Manifest) -> Result<Option<String>> {
        let id = manifest.metadata.get("task_id").and_then(|id| id.as_str());
        let (Some(session), Some(id)) = (manifest.session_id.as_deref(), id) else {
            return Ok(None);
        };
        let rows = self.store.look_up(|index| index.events_about(session, id))?;
        Ok(rows.iter().find_map(|row| match parse_event(row).ok()?.body {
            Body::Prompt(prompt) => Some(prompt.text),
            _ => None,
        }))
    }

    /// That it must be said whose prompt is meant, with those that there are.
    fn whose_prompt(&self) -> Result<Error> {
        let (mut offered, mut newest) = (Vec::new(), String::new());
        for row in self.rows()?.iter().rev() {
            if row.trigger != Trigger::Prompt.as_str() {
                continue;
            }
            let Ok(Checkpoint { manifest, .. }) = self.view(row) else { continue };
            let session = manifest.session_id.unwrap_or_default();
            if newest.is_empty() {
                newest.clone_from(&session);
            }
            let title = manifest.description.unwrap_or_default();
            let at = Timestamp::from_millis(row.created_at);
            offered.push(format!("  {session}  {title:?}  ({at})"));
            if offered.len() == OFFERED {
                break;
            }
        }
        if offered.is_empty() {
            return Ok(Error::Nothing {
                message: "no prompt was saved here yet".into(),
                advice: Vec::new(),
            });
        }
        Ok(Error::Usage {
            message: format!("whose prompt is meant? The last ones are:\n{}", offered.join("\n")),
            advice: vec![Advice::UndoPrompt { session: newest }],
        })
    }
}

/// That no prompt's files differ, with the way to those that git ignores.
fn nothing_left(session: &SessionId, ignored: &[IgnoredFiles]) -> Error {
    let message = format!("no prompt of session {session} has changed anything that is left");
    let Some(one) = ignored.first() else { return Error::Nothing { message, advice: Vec::new() } };
    let message = format!("{message}, but for files that git ignores");
    let paths: Vec<String> = one.paths.iter().map(ToString::to_string).collect();
    let checkpoint = one.checkpoint.to_string();
    Error::Nothing { message, advice: vec![Advice::Restore { checkpoint, paths }] }
}
