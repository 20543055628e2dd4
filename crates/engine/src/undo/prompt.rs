//! `undo --prompt`: to before the last thing that the user asked for.

use rappel_store::document::Undo;
use rappel_store::index::CheckpointRow;
use rappel_store::record::Kind;
use rappel_types::agents::{Body, SessionId};
use rappel_types::{Advice, CheckpointId, Manifest, RelPath, Timestamp, Trigger, time};
use schemars::JsonSchema;
use serde::Serialize;

use super::{Now, Step, exactly, without_agents};
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
    /// What `undo --prompt` would do: to before the last prompt of a session that was not taken back
    /// yet. Asks if another session worked here since.
    ///
    /// A prompt that changed nothing is an error, and no earlier prompt is meant instead. With
    /// `conversation` it is a step like any other, and so is a prompt whose files alone were taken
    /// back.
    pub fn next_undo_prompt(&self, session: &SessionId, conversation: bool) -> Result<PromptStep> {
        self.refuse_if_unfinished()?;
        let session = &self.newest_run_of(session)?;
        let line = self.line_of(session)?;
        let Some(row) = self.last_prompt(&line, conversation)? else {
            return Err(self.none_left(session, &line)?);
        };
        let mut now = self.now_of_everything()?;
        if !conversation && !self.would_take_back(&row, &mut now)? {
            return Err(self.changed_nothing(&row, &line, &mut now)?);
        }
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

    /// The session whose prompt is meant: the one that is named, else the only one that was given
    /// prompts here lately.
    pub fn session_prompted(&self, named: Option<&SessionId>) -> Result<SessionId> {
        if let Some(named) = named {
            return self.find_session(named);
        }
        let lately = self.prompts_lately()?;
        let mut sessions: Vec<SessionId> = Vec::new();
        for (session, ..) in &lately {
            let Ok(id) = session.parse::<SessionId>() else { continue };
            let newest = self.newest_run_of(&id).unwrap_or(id);
            if !sessions.contains(&newest) {
                sessions.push(newest);
            }
        }
        match (&sessions[..], lately.first()) {
            ([only], _) => Ok(only.clone()),
            (_, None) => Err(Error::Nothing {
                message: "no prompt was saved here yet".into(),
                advice: Vec::new(),
            }),
            (_, Some((newest, ..))) => {
                let line = |(session, title, at): &(String, String, Timestamp)| {
                    format!("  {session}  {title:?}  ({at})")
                };
                let offered: Vec<String> = lately.iter().map(line).collect();
                Err(Error::Usage {
                    message: format!(
                        "whose prompt is meant? The last ones are:\n{}",
                        offered.join("\n")
                    ),
                    advice: vec![Advice::UndoPrompt { session: newest.clone() }],
                })
            }
        }
    }

    /// The last prompts, newest first: the session of each, how it begins, and when it was given.
    fn prompts_lately(&self) -> Result<Vec<(String, String, Timestamp)>> {
        let mut found = Vec::new();
        for row in self.rows()?.iter().rev().filter(|row| is_prompt(row)) {
            let Ok(Checkpoint { manifest, .. }) = self.view(row) else { continue };
            let title = manifest.description.unwrap_or_default();
            let session = manifest.session_id.unwrap_or_default();
            found.push((session, title, Timestamp::from_millis(row.created_at)));
            if found.len() == OFFERED {
                break;
            }
        }
        Ok(found)
    }

    /// Whether a checkpoint was made for a prompt of one of these sessions. One that cannot be read
    /// is nothing to go back to.
    fn is_prompt_of(&self, row: &CheckpointRow, line: &[SessionId]) -> bool {
        is_prompt(row)
            && self.store.manifest(row).is_ok_and(|manifest| {
                let named = manifest.session_id.as_deref();
                named.is_some_and(|named| line.iter().any(|id| id.as_str() == named))
            })
    }

    /// The last prompt of these sessions that was not taken back, on the way back from where the
    /// workspace stands.
    fn last_prompt(&self, line: &[SessionId], conversation: bool) -> Result<Option<CheckpointRow>> {
        let key = self.require_known()?.to_string();
        let steps = self.store.look_up(|index| index.documents(Kind::Undo, Some(&key)))?;
        let mut next = self.position()?;
        // What came after it on this way was made before that commit.
        let mut until = u64::MAX;
        while let Some(row) = next {
            if self.is_prompt_of(&row, line) {
                let since = steps.iter().filter(|step| step.birth > row.birth);
                let since = since.filter(|step| step.birth < until);
                let since = since.filter_map(|step| serde_json::from_str(&step.json).ok());
                let went: Vec<Undo> = since.filter(|step: &Undo| step.to == row.id).collect();
                if !self.was_taken_back(&row, &went, conversation)? {
                    return Ok(Some(row));
                }
            }
            until = row.birth;
            next = self.ancestor(&row, |row| row.holds_files)?;
        }
        Ok(None)
    }

    /// Whether one of the steps that went to a prompt's checkpoint took back all of its files, and,
    /// if that is asked, one its conversation.
    fn was_taken_back(
        &self,
        row: &CheckpointRow,
        went: &[Undo],
        conversation: bool,
    ) -> Result<bool> {
        if went.is_empty() || (conversation && !went.iter().any(|step| step.transcripts)) {
            return Ok(false);
        }
        let to = self.store.manifest(row)?;
        for step in went {
            let Some(from) = self.store.checkpoint(&step.from)? else { continue };
            let left = self.files_left(step, &self.store.manifest(&from)?, &to)?;
            if left == to.files.as_ref().map(|files| files.tree) {
                return Ok(true);
            }
        }
        // What rules keep out of a restore may differ for good.
        Ok(!self.would_take_back(row, &mut self.now_of_everything()?)?)
    }

    /// Whether going to a prompt's checkpoint would change anything but agents.
    fn would_take_back(&self, row: &CheckpointRow, now: &mut Now<'_>) -> Result<bool> {
        Ok(self.differs(&self.store.manifest(row)?, now)?
            && self.would_change(&row.id, &without_agents())?)
    }

    /// That the last prompt changed nothing, with the one before it that did.
    fn changed_nothing(
        &self,
        last: &CheckpointRow,
        line: &[SessionId],
        now: &mut Now<'_>,
    ) -> Result<Error> {
        let title = |row: &CheckpointRow| -> Result<String> {
            Ok(self.view(row)?.manifest.description.unwrap_or_default())
        };
        let said = format!("your last prompt, {:?}, changed", title(last)?);
        if let Some(one) = self.ignored_since(last)?.first() {
            let message = format!("{said} only files that git ignores");
            return Ok(Error::Nothing { message, advice: vec![one.advice()] });
        }
        let mut earlier = Some(last.clone());
        while let Some(row) = earlier {
            earlier = self.ancestor(&row, |row| row.holds_files)?;
            let Some(row) = &earlier else { break };
            if !self.is_prompt_of(row, line) || !self.would_take_back(row, now)? {
                continue;
            }
            let files = self.plan_restore(&exactly(&row.id), &without_agents())?.summary.files;
            let count = files.create + files.overwrite + files.delete;
            let files = if count == 1 { "file" } else { "files" };
            let age = time::age(self.now(), Timestamp::from_millis(row.created_at));
            let message = format!(
                "{said} nothing. The one before it that did is {:?} ({age}, {count} {files})",
                title(row)?
            );
            let checkpoint = row.id.to_string();
            let advice = vec![Advice::Restore { checkpoint, paths: Vec::new() }];
            return Ok(Error::Nothing { message, advice });
        }
        let message = format!("{said} nothing, and no prompt before it did");
        Ok(Error::Nothing { message, advice: Vec::new() })
    }

    /// That all prompts of a session were taken back, with the way to files that git ignores.
    fn none_left(&self, session: &SessionId, line: &[SessionId]) -> Result<Error> {
        let rows = self.rows()?;
        let Some(last) = rows.iter().rev().find(|row| self.is_prompt_of(row, line)) else {
            let message = format!("no prompt of session {session} was saved here");
            return Ok(Error::Nothing { message, advice: Vec::new() });
        };
        let message = format!("every prompt of session {session} is undone already");
        Ok(match self.ignored_since(last)?.first() {
            Some(one) => Error::Nothing {
                message: format!("{message}. Files that git ignores did not come back"),
                advice: vec![one.advice()],
            },
            None => Error::Nothing { message, advice: Vec::new() },
        })
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
}

impl IgnoredFiles {
    /// How they come back.
    fn advice(&self) -> Advice {
        let paths = self.paths.iter().map(ToString::to_string).collect();
        Advice::Restore { checkpoint: self.checkpoint.to_string(), paths }
    }
}

fn is_prompt(row: &CheckpointRow) -> bool {
    row.trigger == Trigger::Prompt.as_str()
}
