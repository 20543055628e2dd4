//! The end of a day. The first save after local midnight marks it with a checkpoint of its own, over
//! the same trees and in the same run; so does whatever keeps a clock, at midnight. Each day gets
//! one at most: it is decided under the lock. A day on which nothing was saved gets none, so that
//! idle days stay idle for retention.

use rappel_store::index::CheckpointRow;
use rappel_types::{Manifest, Timestamp, Trigger};

use super::{SaveOptions, Saved};
use crate::databases::Holdings;
use crate::error::Result;
use crate::rappel::Rappel;

impl Rappel {
    /// Marks the end of the last day that was worked on, if nobody has. A day that only changed
    /// files, without a checkpoint, counts too.
    pub fn end_day(&self) -> Result<Option<Saved>> {
        let Some(newest) = self.newest_with_files()? else { return Ok(None) };
        if !self.day_is_over(&newest, self.now()) {
            return Ok(None);
        }
        let is_marked = newest.trigger == Trigger::EndOfDay.as_str();
        let saved = self.save(&SaveOptions { if_changed: is_marked, ..options() })?;
        Ok(saved.checkpoint.created.then_some(saved))
    }

    /// The same, where this workspace ends its days by itself at all.
    pub(crate) fn end_day_by_clock(&self) -> Result<()> {
        match self.options.ends_days {
            true => self.end_day().map(drop),
            false => Ok(()),
        }
    }

    /// The same by a save that has found nothing new: a day ends even where its last checkpoint
    /// still says everything. A failure is no failure of that save; the next one tries again.
    pub(super) fn end_day_in_turn(&self, asked: &SaveOptions) {
        let newest = self.newest_with_files().ok().flatten();
        if asked.once_a_day || !newest.is_some_and(|row| self.ends_day(&row, self.now())) {
            return;
        }
        if let Err(error) = self.save_holding(&options(), &mut Holdings::default()) {
            tracing::warn!(%error, "the end of the day was not marked");
        }
    }

    fn newest_with_files(&self) -> Result<Option<CheckpointRow>> {
        let Some(id) = self.workspace_id() else { return Ok(None) };
        Ok(self.store.look_up(|index| index.newest_with_files(id))?)
    }

    /// Whether a save at this moment, after this checkpoint, is to mark the end of a day.
    pub(super) fn ends_day(&self, newest: &CheckpointRow, now: Timestamp) -> bool {
        self.options.ends_days
            && newest.trigger != Trigger::EndOfDay.as_str()
            && self.day_is_over(newest, now)
    }

    /// Whether the local day of a checkpoint is over, and its end may be marked.
    pub(super) fn day_is_over(&self, row: &CheckpointRow, now: Timestamp) -> bool {
        let day = |moment: Timestamp| moment.0.to_zoned(self.options.zone.clone()).date();
        self.config.auto.is_on(Trigger::EndOfDay)
            && day(Timestamp::from_millis(row.created_at)) < day(now)
    }
}

/// Makes a manifest the mark of a day's end.
pub(super) fn mark(manifest: &mut Manifest) {
    manifest.trigger = Trigger::EndOfDay;
    manifest.description = None;
    manifest.tags = Trigger::EndOfDay.automatic_tags();
    manifest.session_id = None;
    manifest.metadata.clear();
}

fn options() -> SaveOptions {
    let trigger = Some(Trigger::EndOfDay);
    SaveOptions {
        trigger,
        tags: Trigger::EndOfDay.automatic_tags(),
        once_a_day: true,
        ..SaveOptions::default()
    }
}
