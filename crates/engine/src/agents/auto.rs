//! Checkpoints that events make by themselves. Those of agent state alone are part of the event's own run; those that
//! take files are saved right after it.

use std::collections::BTreeMap;

use rappel_store::NewRecord;
use rappel_store::index::Index;
use rappel_types::agents::raised::Raised;
use rappel_types::agents::{SessionId, SessionState};
use rappel_types::{CheckpointId, Facet, FacetState, Manifest, Timestamp, Trigger};
use serde_json::Value;

use super::capture::agents_part;
use super::{Live, Notice, Snapshots};
use crate::error::Result;
use crate::rappel::Rappel;
use crate::save::{self, SaveOptions, Seen};

/// `time-passed` makes a checkpoint when the last one with files is older than this.
const TIME_PASSED_MS: i64 = 5 * 60 * 1000;

impl Rappel {
    /// Makes an automatic checkpoint, unless `[auto]` says no or it is too early for one (`time-passed`).
    pub fn auto_checkpoint(&self, trigger: Trigger) -> Result<Option<CheckpointId>> {
        if !self.config.auto.is_on(trigger)
            || (trigger == Trigger::TimePassed && !self.is_time()?)
        {
            return Ok(None);
        }
        let session = self.session_meant(None).ok().map(|view| view.id.to_string());
        let options = SaveOptions { session, ..automatic(trigger, None) };
        Ok(Some(self.save(&options)?.checkpoint.manifest.id))
    }

    /// Saves the checkpoints with files that an event asked for.
    pub(super) fn save_raised(
        &self,
        session: &SessionId,
        raised: &[Raised],
    ) -> Result<(Vec<CheckpointId>, Vec<String>)> {
        if self.live().get(session).is_some_and(|live| !self.is_ours(&live.state)) {
            return Ok((Vec::new(), Vec::new()));
        }
        let on = |one: &&Raised| one.trigger.takes_files() && self.config.auto.is_on(one.trigger);
        let mut wanted: Vec<Raised> = raised.iter().filter(on).cloned().collect();
        if wanted.is_empty() && self.config.auto.is_on(Trigger::TimePassed) && self.is_time()? {
            wanted.push(Raised { trigger: Trigger::TimePassed, tag: None });
        }
        let (mut made, mut notes) = (Vec::new(), Vec::new());
        for Raised { trigger, tag } in wanted {
            let session = Some(session.to_string());
            match self.save(&SaveOptions { session, ..automatic(trigger, tag) }) {
                Ok(saved) => made.push(saved.checkpoint.manifest.id),
                // What happened is recorded all the same.
                Err(error) => notes.push(format!("no checkpoint was made ({trigger}): {error}")),
            }
        }
        Ok((made, notes))
    }

    /// Whether the last checkpoint with files is so old that time alone is a reason.
    fn is_time(&self) -> Result<bool> {
        let Some(id) = self.workspace_id() else { return Ok(true) };
        if self.is_detached() {
            return Ok(false);
        }
        let newest = self.store.look_up(|index| index.newest_with_files(id))?;
        let now = self.now().as_millis();
        Ok(newest.is_none_or(|row| now - row.created_at > TIME_PASSED_MS))
    }

    /// The manifests of agent state alone that an event asks for, each with its place. Under the lock.
    pub(super) fn place_state_checkpoints(
        &self,
        live: &Live,
        index: &mut Index,
        raised: &[Raised],
        now: Timestamp,
    ) -> rappel_store::Result<Vec<Manifest>> {
        let Some(id) = self.workspace_id().filter(|_| self.is_ours(&live.state)) else {
            return Ok(Vec::new());
        };
        let on = |one: &&Raised| !one.trigger.takes_files() && self.config.auto.is_on(one.trigger);
        let mut made: Vec<Manifest> = Vec::new();
        for Raised { trigger, tag } in raised.iter().filter(on) {
            let session = Some(live.state.session.to_string());
            let options = SaveOptions { session, ..automatic(*trigger, *tag) };
            let mut manifest = self.draft(id, &options, &Seen::default(), false);
            manifest.facets.insert(Facet::Agents, FacetState::Captured);
            save::place(&mut manifest, index, id, *trigger, now)?;
            if let Some(before) = made.last() {
                manifest.sequence = before.sequence + 1;
                manifest.parent = Some(before.id.clone());
            }
            made.push(manifest);
        }
        Ok(made)
    }

    /// Those manifests as records, with where the journals stand now.
    pub(super) fn finish_state_checkpoints(
        manifests: Vec<Manifest>,
        live: &Live,
        index: &mut Index,
        connected: Snapshots,
    ) -> rappel_store::Result<Vec<NewRecord>> {
        let Some(first) = manifests.first() else { return Ok(Vec::new()) };
        let id = first.workspace.id;
        let mut agents = agents_part(index, id, &[], Some(live))?;
        agents.connected = connected.taken;
        let mut records = Vec::new();
        for mut manifest in manifests {
            manifest.partial = !connected.failed.is_empty();
            manifest.partial_reasons.clone_from(&connected.failed);
            manifest.agents = Some(agents.clone());
            let base = save::manifest_base(index, id, manifest.sequence)?;
            records.push(NewRecord::Manifest { manifest: Box::new(manifest), base });
        }
        Ok(records)
    }

    /// Tells those who listen.
    pub(crate) fn tell(&self, notice: &Notice) {
        let mut listeners =
            self.listeners.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        listeners.retain(|listener| listener.send(notice.clone()).is_ok());
    }

    /// Everything that this process does from now on, as it happens: events, checkpoints, restores.
    pub fn subscribe(&self) -> std::sync::mpsc::Receiver<Notice> {
        let (sender, receiver) = std::sync::mpsc::channel();
        self.listeners.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(sender);
        receiver
    }
}

/// How an automatic checkpoint describes itself.
pub(crate) fn automatic(trigger: Trigger, tag: Option<&str>) -> SaveOptions {
    let mut tags = trigger.automatic_tags();
    tags.extend(tag.map(str::to_owned));
    SaveOptions {
        message: Some(trigger.automatic_name()),
        tags,
        trigger: Some(trigger),
        only: (!trigger.takes_files()).then(|| [Facet::Agents].into()),
        ..SaveOptions::default()
    }
}

/// What a checkpoint says of the session that asked for it.
pub(crate) fn metadata(
    state: &SessionState,
    trigger: Trigger,
    now: Timestamp,
) -> BTreeMap<String, Value> {
    let duration = state.started_at.map_or(0, |start| now.millis_since(start).max(0));
    let step = match state.progress.step_number {
        0 => state.progress.total_thoughts + state.progress.total_tool_calls,
        step => step,
    };
    BTreeMap::from([
        ("step_number".to_owned(), step.into()),
        ("tokens_used".to_owned(), state.progress.tokens.total().into()),
        ("duration_ms".to_owned(), duration.into()),
        ("checkpoint_reason".to_owned(), trigger.as_str().replace('-', "_").into()),
    ])
}
