//! Sessions of opencode into journals. They are rows of one database, which is read on where the last save left off, and
//! only if the file looks different from then.

use std::collections::HashSet;

use rappel_capture::agents::opencode::{Database, NAME, Reader};
use rappel_types::WorkspaceId;
use rappel_types::agents::SessionId;
use serde_json::json;

use super::ingest::{Names, Telling};
use super::transcripts::{Known, Memo, Transcripts};
use crate::error::{Error, Result};
use crate::rappel::Rappel;

/// Under this name what is remembered of the database is filed.
const KEY: &str = "opencode/opencode.db";

/// The database, as a save finds it.
#[derive(Debug)]
pub(super) struct Opencode {
    pub database: Database,
    /// What it looks like; nothing if its next write could look the same.
    seen: Option<String>,
    /// Whether it looked the same when it was last read.
    is_known: bool,
}

impl Opencode {
    pub(super) fn look(database: Database, memo: &Memo) -> Self {
        // One that cannot be looked at says why when it is read.
        let seen = database.fingerprint().ok().flatten().map(|seen| seen.0);
        let is_known = seen.is_some() && seen == memo.opencode;
        Self { database, seen, is_known }
    }

    pub(super) fn may_have_news(&self) -> bool {
        !self.is_known
    }
}

/// What is remembered of a session is filed under this name.
fn key(session: &str) -> String {
    format!("{NAME}/{session}")
}

impl Rappel {
    /// Reads what is new into the journals.
    pub(super) fn read_opencode(
        &self,
        id: WorkspaceId,
        opencode: &Opencode,
        memo: &mut Memo,
        names: &mut Names,
    ) -> Result<()> {
        if opencode.is_known {
            return Ok(());
        }
        let mut reader = self.load_reader::<Reader>(id, KEY).unwrap_or_default();
        loop {
            let before = reader.clone();
            let read = reader.read_on(&opencode.database, &self.root_paths(), self.cancel());
            let told = read.map_err(|error| Error::Database { name: NAME.into(), error })?;
            for (name, batch) in told.sessions {
                let known = self.tell_opencode(id, &name, batch, memo, names)?;
                memo.read.insert(key(&name), known);
            }
            // The rows that were told are told once, even if the next ones cannot be read.
            if reader != before {
                self.save_reader(id, KEY, &reader);
            }
            if !told.more {
                break;
            }
        }
        memo.opencode.clone_from(&opencode.seen);
        Ok(())
    }

    fn tell_opencode(
        &self,
        id: WorkspaceId,
        name: &str,
        batch: rappel_capture::agents::transcripts::Batch,
        memo: &Memo,
        names: &mut Names,
    ) -> Result<Known> {
        let known = memo.read.get(&key(name));
        let session = match known.and_then(|known| known.session.clone()) {
            Some(session) => self.still_there(session)?,
            None => None,
        };
        let mut telling = Telling::new(self, id, NAME, names, session, known)?;
        let last = batch.found.last().map(|found| found.line);
        telling.take(batch);
        if let Some(error) = telling.failed.take() {
            return Err(error);
        }
        let latest_at = telling.latest_at;
        let matched = telling.matched();
        let session = telling.finish(&key(name), json!({"row": last}))?;
        let over = known.is_some_and(|known| known.over && known.latest_at == latest_at);
        Ok(Known { session, stamp: None, latest_at, over, matched })
    }

    /// The sessions of which the database tells more than their journals know. Nothing is taken in.
    pub(super) fn opencode_with_news(
        &self,
        id: WorkspaceId,
        found: &Transcripts,
    ) -> HashSet<SessionId> {
        let mut news = HashSet::new();
        let Some(opencode) = found.opencode.as_ref().filter(|one| one.may_have_news()) else {
            return news;
        };
        let Some(mut reader) = self.load_reader::<Reader>(id, KEY) else { return news };
        // One that cannot be read is told by the save.
        while let Ok(told) = reader.read_on(&opencode.database, &self.root_paths(), self.cancel()) {
            for (name, batch) in told.sessions {
                let more = batch.found.iter().any(|found| found.item.can_be_abandoned());
                let known = found.memo.read.get(&key(&name));
                news.extend(known.and_then(|known| known.session.clone()).filter(|_| more));
            }
            if !told.more {
                break;
            }
        }
        news
    }
}
