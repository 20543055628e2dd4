//! Sessions that were let go. What was born before their tombstones is in no journal any more, in
//! whatever order an index takes in records: gc's copies of them may come late.

use std::collections::HashSet;

use rappel_types::{CheckpointId, Timestamp};
use rusqlite::{OptionalExtension, Transaction, params};

use super::{Index, journal};
use crate::document::{DOCUMENT_VERSION, SessionTombstone, Tombstone};
use crate::error::Result;
use crate::gc::GRACE;
use crate::record::Kind;

pub(super) const SCHEMA: &str = "
-- until: the time of a session's latest event, at: when it was let go, due: when gc may collect it,
-- all in milliseconds since the epoch.
CREATE TABLE let_go (
    session TEXT NOT NULL, birth INTEGER NOT NULL, pack INTEGER NOT NULL, provider TEXT,
    called TEXT, last INTEGER NOT NULL, until INTEGER NOT NULL, at INTEGER NOT NULL,
    due INTEGER NOT NULL, PRIMARY KEY (session, birth, pack)) WITHOUT ROWID;
CREATE INDEX let_go_by_name ON let_go (called, provider);
CREATE INDEX let_go_by_due ON let_go (due);
";

/// What is known of a session that was let go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LetGo {
    /// When it was let go.
    pub at: Timestamp,
    /// The number of its last event.
    pub last: u64,
    /// The time of its latest event.
    pub until: Timestamp,
}

/// Takes in a tombstone, if it is one of a session.
pub(super) fn insert(
    transaction: &Transaction<'_>,
    json: &str,
    birth: u64,
    pack: u32,
) -> rusqlite::Result<()> {
    let Ok(gone) = serde_json::from_str::<SessionTombstone>(json) else { return Ok(()) };
    if gone.version > DOCUMENT_VERSION {
        return Ok(());
    }
    let at = gone.at.as_millis();
    let due = if gone.now { at } else { at.saturating_add(grace()) };
    transaction
        .prepare_cached("INSERT OR IGNORE INTO let_go VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)")?
        .execute(params![
            gone.session,
            birth,
            pack,
            gone.provider,
            gone.called,
            gone.last,
            gone.until.as_millis(),
            at,
            due
        ])?;
    journal::forget_before(transaction, &gone.session, birth)
}

/// Whether a part of a journal that was born with this commit was let go.
pub(super) fn is_gone(
    transaction: &Transaction<'_>,
    session: &str,
    birth: u64,
) -> rusqlite::Result<bool> {
    transaction
        .prepare_cached("SELECT EXISTS (SELECT 1 FROM let_go WHERE session = ?1 AND birth > ?2)")?
        .query_row(params![session, birth], |row| row.get(0))
}

fn grace() -> i64 {
    i64::try_from(GRACE.as_millis()).unwrap_or(i64::MAX)
}

impl Index {
    /// What is known of a session that was let go, the last time.
    pub fn let_go(&self, session: &str) -> Result<Option<LetGo>> {
        self.connection
            .prepare_cached(
                "SELECT at, last, until FROM let_go WHERE session = ?1
                 ORDER BY birth DESC LIMIT 1",
            )
            .and_then(|mut statement| statement.query_row([session], row).optional())
            .map_err(self.fail())
    }

    /// The same by what an agent calls its session: the one that went on for longest.
    pub fn let_go_named(&self, provider: &str, called: &str) -> Result<Option<LetGo>> {
        self.connection
            .prepare_cached(
                "SELECT at, last, until FROM let_go WHERE called = ?1 AND
                     (provider = ?2 OR provider = ?2 || '-code') ORDER BY until DESC LIMIT 1",
            )
            .and_then(|mut statement| {
                statement.query_row(params![called, provider], row).optional()
            })
            .map_err(self.fail())
    }

    /// When gc may first collect a session that was not due at `since` yet.
    pub(crate) fn next_parting(&self, since: i64) -> Result<Option<i64>> {
        self.connection
            .prepare_cached("SELECT min(due) FROM let_go WHERE due > ?1")
            .and_then(|mut statement| statement.query_row([since], |row| row.get(0)))
            .map_err(self.fail())
    }

    /// Whether a checkpoint refers to a session: one that was not deleted, or that can still be
    /// brought back. Those in `without` do not count.
    pub fn is_held(
        &self,
        session: &str,
        now: Timestamp,
        without: &HashSet<CheckpointId>,
    ) -> Result<bool> {
        let fail = self.fail();
        let mut statement = self
            .connection
            .prepare_cached(
                "SELECT checkpoint FROM held WHERE session = ?1
                 UNION SELECT id FROM checkpoint WHERE session = ?1",
            )
            .map_err(&fail)?;
        let found = statement.query_map([session], |row| row.get::<_, String>(0)).map_err(&fail)?;
        for id in found {
            let Ok(id) = id.map_err(&fail)?.parse::<CheckpointId>() else { continue };
            if !without.contains(&id) && self.stays(&id, now)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether a checkpoint is there, or was deleted so short a time ago that it can come back.
    fn stays(&self, id: &CheckpointId, now: Timestamp) -> Result<bool> {
        match self.checkpoint(id)? {
            None => Ok(false),
            Some((_, false)) => Ok(true),
            Some((_, true)) => {
                let tombstone = self.newest_document(Kind::Tombstone, id.as_str())?;
                let tombstone = tombstone
                    .and_then(|document| serde_json::from_str::<Tombstone>(&document.json).ok());
                Ok(tombstone.is_none_or(|gone| !gone.now && now.millis_since(gone.at) < grace()))
            }
        }
    }
}

fn row(row: &rusqlite::Row<'_>) -> rusqlite::Result<LetGo> {
    Ok(LetGo {
        at: Timestamp::from_millis(row.get(0)?),
        last: row.get(1)?,
        until: Timestamp::from_millis(row.get(2)?),
    })
}
