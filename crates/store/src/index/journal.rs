//! The journals of agents' sessions in the index: their events, the states that are stored of them, and which
//! checkpoint holds how much of which.
//!
//! The views at the end are for people: they have the names that analysts of agents' runs know, and may be
//! queried with `sqlite3 -readonly`.

use rappel_types::agents::{Body, Event, Fork, SessionPosition, SessionStatus, payload};
use rappel_types::{ObjectId, Timestamp};
use rusqlite::{OptionalExtension, Transaction, params};
use serde::Deserialize;

use super::{Index, let_go};
use crate::error::Result;
use crate::outline::Outline;

pub(super) const SCHEMA: &str = "
CREATE TABLE event (
    row INTEGER PRIMARY KEY, session TEXT NOT NULL, number INTEGER NOT NULL, fork INTEGER NOT NULL,
    at INTEGER NOT NULL, kind TEXT NOT NULL, item TEXT, name TEXT, about TEXT, body TEXT NOT NULL,
    birth INTEGER NOT NULL, pack INTEGER NOT NULL, UNIQUE (session, number));
CREATE INDEX event_by_item ON event (session, item) WHERE item IS NOT NULL;
CREATE INDEX event_by_about ON event (session, about) WHERE about IS NOT NULL;
-- all that is asked of many calls at once, so that their rows need not be read.
CREATE INDEX event_by_tool ON event (name COLLATE NOCASE, session, number, fork, at, kind)
    WHERE kind IN ('tool', 'tool-started');
CREATE INDEX event_of_session ON event (session, number)
    WHERE kind IN ('session-started', 'session-paused', 'session-resumed', 'session-ended', 'restored');
-- the newest thing that is known of how a session stands.
CREATE TABLE session (
    id TEXT PRIMARY KEY, workspace TEXT, number INTEGER NOT NULL, status TEXT NOT NULL) WITHOUT ROWID;
CREATE INDEX session_live ON session (workspace) WHERE status IN ('running', 'paused');
CREATE TABLE snapshot (
    session TEXT NOT NULL, event INTEGER NOT NULL, fork INTEGER NOT NULL, latest_at INTEGER NOT NULL,
    state BLOB NOT NULL, birth INTEGER NOT NULL, pack INTEGER NOT NULL,
    PRIMARY KEY (session, event)) WITHOUT ROWID;
CREATE TABLE held (
    session TEXT NOT NULL, event INTEGER NOT NULL, checkpoint TEXT NOT NULL, fork INTEGER NOT NULL,
    pack INTEGER NOT NULL, PRIMARY KEY (session, event, checkpoint)) WITHOUT ROWID;

CREATE VIEW executions AS SELECT
    e.session AS id, coalesce(json_extract(e.body, '$.data.provider'), '') AS agent_id,
    coalesce(json_extract(e.body, '$.data.task'), '') AS task, e.at AS started_at,
    (SELECT n.at FROM event n WHERE n.session = e.session AND n.kind = 'session-ended'
        ORDER BY n.number DESC LIMIT 1) AS completed_at,
    (SELECT CASE n.kind WHEN 'session-paused' THEN 'paused' WHEN 'session-ended' THEN
            json_extract(n.body, '$.data.status') WHEN 'restored' THEN
            json_extract(n.body, '$.data.status') ELSE 'running' END
        FROM event n WHERE n.session = e.session AND n.kind IN
            ('session-started', 'session-paused', 'session-resumed', 'session-ended', 'restored')
        ORDER BY n.number DESC LIMIT 1) AS status
    FROM event e WHERE e.kind = 'session-started';
-- the first checkpoint that holds an event, on its own fork or one that goes on from it.
CREATE VIEW first_held AS SELECT
    e.session AS session, e.number AS number,
    (SELECT h.checkpoint FROM held h WHERE h.session = e.session AND h.event >= e.number
        AND EXISTS (SELECT 1 FROM checkpoints c WHERE c.id = h.checkpoint)
        AND h.fork >= e.fork AND (h.fork = e.fork OR EXISTS (WITH RECURSIVE known (fork, last) AS (
            SELECT h.fork, h.event UNION ALL
            SELECT json_extract(r.body, '$.data.of'), json_extract(r.body, '$.data.to')
            FROM known k JOIN event r ON r.session = h.session AND r.kind = 'restored' AND r.fork = k.fork)
            SELECT 1 FROM known k WHERE k.fork = e.fork AND k.last >= e.number))
        ORDER BY h.event LIMIT 1) AS checkpoint
    FROM event e;
CREATE VIEW thoughts AS SELECT
    e.session || ':' || e.item AS id, e.session AS execution_id, e.number AS number, e.fork AS fork,
    (SELECT f.checkpoint FROM first_held f WHERE f.session = e.session AND f.number = e.number) AS checkpoint_id,
    e.name AS type, json_extract(e.body, '$.data.content') AS content,
    json_extract(e.body, '$.data.confidence') AS confidence,
    e.session || ':' || json_extract(e.body, '$.data.parent') AS parent_id, e.at AS created_at
    FROM event e WHERE e.kind = 'thought';
CREATE VIEW tool_calls AS SELECT
    e.session || ':' || e.item AS id, e.session AS execution_id, e.number AS number, e.fork AS fork,
    (SELECT f.checkpoint FROM first_held f WHERE f.session = e.session AND f.number = e.number) AS checkpoint_id,
    e.name AS tool_id, json_extract(e.body, '$.data.arguments') AS args_json,
    coalesce(json_extract(d.body, '$.data.result'), json_extract(e.body, '$.data.result')) AS result_json,
    coalesce(json_extract(d.body, '$.data.success'), json_extract(e.body, '$.data.success'), 0) AS success,
    coalesce(json_extract(d.body, '$.data.error'), json_extract(e.body, '$.data.error')) AS error,
    e.at AS started_at, CASE e.kind WHEN 'tool' THEN e.at ELSE d.at END AS completed_at
    FROM event e LEFT JOIN event d ON d.session = e.session AND d.about = e.item AND d.kind = 'tool-finished'
    WHERE e.kind IN ('tool', 'tool-started');
CREATE VIEW checkpoints AS SELECT
    id, created_at AS timestamp, session AS execution_id, sequence, trigger, description, parent,
    holds_files, printf('%016x', workspace) AS workspace_id
    FROM checkpoint WHERE live;
";

/// An event, where the index has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventRow {
    /// Its session.
    pub session: String,
    /// Its number there.
    pub number: u64,
    /// Its fork.
    pub fork: u32,
    /// What it is called.
    pub kind: String,
    /// When it happened, in milliseconds since the epoch.
    pub at: i64,
    /// The id of what it made.
    pub item: Option<String>,
    /// Its JSON.
    pub json: String,
}

/// Where a call of a tool is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallRow {
    /// Its session.
    pub session: String,
    /// The number of its event there.
    pub number: u64,
    /// The fork of that.
    pub fork: u32,
    /// When it began, in milliseconds since the epoch.
    pub at: i64,
}

/// What [`event_row`] reads.
const EVENT: &str = "SELECT session, number, fork, kind, at, item, body FROM event";

/// A stored state of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SnapshotRow {
    /// The event after which it was so.
    pub event: u64,
    /// The fork of that.
    pub fork: u32,
    /// The state.
    pub state: ObjectId,
}

/// A checkpoint that holds an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hit {
    /// The checkpoint's id.
    pub checkpoint: String,
    /// Where it has the journal.
    pub position: SessionPosition,
}

/// What a stored state's document says.
#[derive(Deserialize)]
struct Stored {
    event: u64,
    #[serde(default)]
    fork: u32,
    latest_at: Timestamp,
    state: ObjectId,
}

pub(super) fn insert_event(
    transaction: &Transaction<'_>,
    session: &str,
    json: &str,
    (birth, pack): (u64, u32),
) -> rusqlite::Result<()> {
    // What cannot be read as an event at all has no place in a journal; the record stays.
    let Ok(event) = Event::parse(json) else { return Ok(()) };
    if let_go::is_gone(transaction, session, birth)? {
        return Ok(());
    }
    // A copy that gc made of an old record may come after the record that counts.
    transaction
        .prepare_cached(
            "INSERT INTO event
                 (session, number, fork, at, kind, item, name, about, body, birth, pack)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
             ON CONFLICT (session, number) DO UPDATE SET fork = excluded.fork, at = excluded.at,
                 kind = excluded.kind, item = excluded.item, name = excluded.name,
                 about = excluded.about, body = excluded.body, birth = excluded.birth,
                 pack = excluded.pack WHERE excluded.birth >= birth",
        )?
        .execute(params![
            session,
            event.number,
            event.fork,
            event.at.as_millis(),
            event.body.kind(),
            event.id,
            event.body.name(),
            event.body.about(),
            json,
            birth,
            pack
        ])?;
    state_session(transaction, session, &event)
}

/// Takes in how an event leaves its session.
fn state_session(
    transaction: &Transaction<'_>,
    session: &str,
    event: &Event,
) -> rusqlite::Result<()> {
    let (workspace, status) = match &event.body {
        Body::SessionStarted(start) => (start.workspace, SessionStatus::Running),
        Body::SessionPaused(_) => (None, SessionStatus::Paused),
        Body::SessionResumed(_) => (None, SessionStatus::Running),
        Body::SessionEnded(end) => (None, end.status),
        Body::Restored(restored) => (None, restored.status),
        _ => return Ok(()),
    };
    transaction
        .prepare_cached(
            "INSERT INTO session (id, workspace, number, status) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT (id) DO UPDATE SET workspace = coalesce(workspace, excluded.workspace),
                 status = iif(excluded.number >= number, excluded.status, status),
                 number = max(number, excluded.number)",
        )?
        .execute(params![
            session,
            workspace.map(|id| id.to_string()),
            event.number,
            status.as_str()
        ])?;
    Ok(())
}

pub(super) fn insert_snapshot(
    transaction: &Transaction<'_>,
    session: &str,
    json: &str,
    (birth, pack): (u64, u32),
) -> rusqlite::Result<()> {
    let Ok(stored) = serde_json::from_str::<Stored>(json) else { return Ok(()) };
    if let_go::is_gone(transaction, session, birth)? {
        return Ok(());
    }
    transaction
        .prepare_cached(
            "INSERT OR REPLACE INTO snapshot (session, event, fork, latest_at, state, birth, pack)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        )?
        .execute(params![
            session,
            stored.event,
            stored.fork,
            stored.latest_at.as_millis(),
            stored.state.0,
            birth,
            pack
        ])?;
    Ok(())
}

/// Takes what was born before this commit out of a session's journal.
pub(super) fn forget_before(
    transaction: &Transaction<'_>,
    session: &str,
    birth: u64,
) -> rusqlite::Result<()> {
    for table in ["event", "snapshot"] {
        transaction.execute(
            &format!("DELETE FROM {table} WHERE session = ?1 AND birth < ?2"),
            params![session, birth],
        )?;
    }
    transaction.execute("DELETE FROM session WHERE id = ?1", [session])?;
    // The session may have begun anew since.
    let mut statement = transaction.prepare_cached(
        "SELECT body FROM event INDEXED BY event_of_session WHERE session = ?1 AND kind IN
             ('session-started', 'session-paused', 'session-resumed', 'session-ended', 'restored')
         ORDER BY number",
    )?;
    let left = statement.query_map([session], |row| row.get::<_, String>(0))?;
    for json in left.collect::<rusqlite::Result<Vec<_>>>()? {
        if let Ok(event) = Event::parse(&json) {
            state_session(transaction, session, &event)?;
        }
    }
    Ok(())
}

pub(super) fn insert_held(
    transaction: &Transaction<'_>,
    outline: &Outline,
    pack: u32,
) -> rusqlite::Result<()> {
    for (session, position) in &outline.positions {
        transaction
            .prepare_cached(
                "INSERT OR REPLACE INTO held (session, event, checkpoint, fork, pack)
                 VALUES (?1, ?2, ?3, ?4, ?5)",
            )?
            .execute(params![session, position.event, outline.id.as_str(), position.fork, pack])?;
    }
    Ok(())
}

impl Index {
    /// The last event of a session, whatever its fork.
    pub fn last_event(&self, session: &str) -> Result<Option<u64>> {
        self.connection
            .prepare_cached("SELECT max(number) FROM event WHERE session = ?1")
            .and_then(|mut statement| statement.query_row([session], |row| row.get(0)))
            .map_err(self.fail())
    }

    /// How many events a session has, and the time of the latest, in milliseconds since the epoch.
    pub fn extent(&self, session: &str) -> Result<(u64, Option<i64>)> {
        self.connection
            .prepare_cached("SELECT count(*), max(at) FROM event WHERE session = ?1")
            .and_then(|mut statement| {
                statement.query_row([session], |row| Ok((row.get(0)?, row.get(1)?)))
            })
            .map_err(self.fail())
    }

    /// The events of a fork behind `after`, up to `to`; with `at`, only what had happened by then.
    pub fn events(
        &self,
        session: &str,
        fork: u32,
        (after, to): (u64, u64),
        at: Option<Timestamp>,
    ) -> Result<Vec<EventRow>> {
        let to = to.min(i64::MAX as u64);
        match at.map(Timestamp::as_millis) {
            None => self.event_rows(
                "WHERE session = ?1 AND number > ?2 AND number <= ?3 AND fork = ?4 ORDER BY number",
                params![session, after, to, fork],
            ),
            Some(at) => self.event_rows(
                "WHERE session = ?1 AND number > ?2 AND number <= ?3 AND fork = ?4 AND at <= ?5
                 ORDER BY number",
                params![session, after, to, fork, at],
            ),
        }
    }

    /// Up to `limit` events of a session behind `after`, in the order in which they came.
    pub fn some_events(&self, session: &str, after: u64, limit: u64) -> Result<Vec<EventRow>> {
        self.event_rows(
            "WHERE session = ?1 AND number > ?2 ORDER BY number LIMIT ?3",
            params![session, after, limit],
        )
    }

    /// Every event of a session behind `after`, in the order in which they came.
    pub fn events_after(&self, session: &str, after: u64) -> Result<Vec<EventRow>> {
        self.event_rows(
            "WHERE session = ?1 AND number > ?2 ORDER BY number",
            params![session, after],
        )
    }

    /// The events that made, or are about, something with this id.
    pub fn events_about(&self, session: &str, item: &str) -> Result<Vec<EventRow>> {
        // Left alone, SQLite walks through all events of the session, in the order that is asked for.
        let mut rows = self.event_rows(
            "INDEXED BY event_by_item WHERE session = ?1 AND item = ?2",
            params![session, item],
        )?;
        rows.extend(self.event_rows(
            "INDEXED BY event_by_about WHERE session = ?1 AND about = ?2",
            params![session, item],
        )?);
        rows.sort_by_key(|row| row.number);
        rows.dedup_by_key(|row| row.number);
        Ok(rows)
    }

    /// The number of the newest event of a session that says that its context was summed up.
    pub fn newest_compaction(&self, session: &str) -> Result<Option<u64>> {
        let rows = self.event_rows(
            "INDEXED BY event_by_item WHERE session = ?1 AND item >= 'compaction-'
             AND item < 'compaction.' AND kind = 'compaction'",
            params![session],
        )?;
        Ok(rows.iter().map(|row| row.number).max())
    }

    /// The prompts of a session between two times whose ids begin like this, in the order in which
    /// they came. It walks through all that begin so, whatever their times.
    pub fn prompts_between(
        &self,
        session: &str,
        ids: &str,
        (from, to): (i64, i64),
    ) -> Result<Vec<EventRow>> {
        let mut rows = self.event_rows(
            "INDEXED BY event_by_item WHERE session = ?1 AND item >= ?2 AND item < ?2 || '\u{7f}'
             AND kind = 'prompt' AND at BETWEEN ?3 AND ?4",
            params![session, ids, from, to],
        )?;
        rows.sort_by_key(|row| row.number);
        Ok(rows)
    }

    /// The events that begin, pause, end and set back sessions: of one, or of all.
    pub fn session_events(&self, session: Option<&str>) -> Result<Vec<EventRow>> {
        const OF_SESSION: &str =
            "kind IN ('session-started', 'session-paused', 'session-resumed', 'session-ended',
                 'restored') ORDER BY session, number";
        // Two statements: with both cases in one, those of one session are looked for among all.
        match session {
            Some(session) => self.event_rows(
                &format!("INDEXED BY event_of_session WHERE session = ?1 AND {OF_SESSION}"),
                params![session],
            ),
            None => self
                .event_rows(&format!("INDEXED BY event_of_session WHERE {OF_SESSION}"), params![]),
        }
    }

    /// The first prompt of a session, if one is near its beginning.
    pub fn first_prompt(&self, session: &str) -> Result<Option<EventRow>> {
        let found = self.event_rows(
            "WHERE session = ?1 AND number <= 64 AND kind = 'prompt' ORDER BY number LIMIT 1",
            params![session],
        )?;
        Ok(found.into_iter().next())
    }

    /// The calls of a tool, whatever the case of its letters.
    pub fn tool_events(&self, tool: &str) -> Result<Vec<EventRow>> {
        self.event_rows(
            "WHERE name = ?1 COLLATE NOCASE AND kind IN ('tool', 'tool-started')
             ORDER BY session, number",
            params![tool],
        )
    }

    /// The same without what they say: only where and when they are.
    pub fn tool_calls(&self, tool: &str) -> Result<Vec<CallRow>> {
        let fail = self.fail();
        let mut statement = self
            .connection
            .prepare_cached(
                "SELECT session, number, fork, at FROM event
                 WHERE name = ?1 COLLATE NOCASE AND kind IN ('tool', 'tool-started')
                 ORDER BY session, number",
            )
            .map_err(&fail)?;
        let rows = statement
            .query_map([tool], |row| {
                let (session, number) = (row.get(0)?, row.get(1)?);
                Ok(CallRow { session, number, fork: row.get(2)?, at: row.get(3)? })
            })
            .map_err(&fail)?;
        rows.collect::<Result<Vec<_>, _>>().map_err(&fail)
    }

    /// One event.
    pub fn event(&self, session: &str, number: u64) -> Result<Option<EventRow>> {
        let rows =
            self.event_rows("WHERE session = ?1 AND number = ?2", params![session, number])?;
        Ok(rows.into_iter().next())
    }

    /// The sessions of a workspace that run or wait.
    pub fn live_sessions(&self, workspace: &str) -> Result<Vec<String>> {
        self.session_ids(
            "SELECT id FROM session WHERE workspace = ?1 AND status IN ('running', 'paused')",
            workspace,
        )
    }

    /// All sessions of a workspace.
    pub fn sessions(&self, workspace: &str) -> Result<Vec<String>> {
        self.session_ids("SELECT id FROM session WHERE workspace = ?1", workspace)
    }

    /// Whether anything is known of a session: its journal, or a checkpoint that holds it or was made for it.
    pub fn knows_session(&self, session: &str) -> Result<bool> {
        self.connection
            .prepare_cached(
                "SELECT EXISTS (SELECT 1 FROM event WHERE session = ?1)
                     OR EXISTS (SELECT 1 FROM held WHERE session = ?1)
                     OR EXISTS (SELECT 1 FROM checkpoint WHERE session = ?1)",
            )
            .and_then(|mut statement| statement.query_row([session], |row| row.get(0)))
            .map_err(self.fail())
    }

    fn session_ids(&self, query: &str, workspace: &str) -> Result<Vec<String>> {
        let fail = self.fail();
        let mut statement = self.connection.prepare_cached(query).map_err(&fail)?;
        let rows = statement.query_map([workspace], |row| row.get(0)).map_err(&fail)?;
        rows.collect::<Result<Vec<_>, _>>().map_err(&fail)
    }

    /// The forks of a session.
    pub fn forks(&self, session: &str) -> Result<Vec<Fork>> {
        let rows = self.event_rows(
            "INDEXED BY event_of_session WHERE session = ?1 AND kind IN
                 ('session-started', 'session-paused', 'session-resumed', 'session-ended', 'restored')
             AND kind = 'restored' ORDER BY number",
            params![session],
        )?;
        let fork = |row: EventRow| {
            let event = Event::parse(&row.json).ok()?;
            match event.body {
                Body::Restored(payload::Restored { of, to, .. }) => {
                    Some(Fork { fork: event.fork, begins: event.number, of, to })
                }
                _ => None,
            }
        };
        Ok(rows.into_iter().filter_map(fork).collect())
    }

    /// The newest stored state of a fork at or before an event, of those that know nothing later than `at`.
    pub fn snapshot(
        &self,
        session: &str,
        fork: u32,
        to: u64,
        at: Option<Timestamp>,
    ) -> Result<Option<SnapshotRow>> {
        let at = at.map_or(i64::MAX, Timestamp::as_millis);
        self.connection
            .prepare_cached(
                "SELECT event, fork, state FROM snapshot
                 WHERE session = ?1 AND event <= ?2 AND fork = ?3 AND latest_at <= ?4
                 ORDER BY event DESC LIMIT 1",
            )
            .and_then(|mut statement| {
                let to = to.min(i64::MAX as u64);
                statement
                    .query_row(params![session, to, fork, at], |row| {
                        let state: [u8; 32] = row.get(2)?;
                        Ok(SnapshotRow {
                            event: row.get(0)?,
                            fork: row.get(1)?,
                            state: ObjectId(state),
                        })
                    })
                    .optional()
            })
            .map_err(self.fail())
    }

    fn hits(&self, query: &str, session: &str, event: u64) -> Result<Vec<Hit>> {
        let fail = self.fail();
        let mut statement = self.connection.prepare_cached(query).map_err(&fail)?;
        let event = event.min(i64::MAX as u64);
        let rows = statement
            .query_map(params![session, event], |row| {
                let position = SessionPosition { fork: row.get(1)?, event: row.get(2)? };
                Ok(Hit { checkpoint: row.get(0)?, position })
            })
            .map_err(&fail)?;
        rows.collect::<Result<Vec<_>, _>>().map_err(&fail)
    }

    /// The checkpoints that hold no more of a session than an event, the nearest first.
    pub fn holders_before(&self, session: &str, event: u64) -> Result<Vec<Hit>> {
        self.hits(
            "SELECT checkpoint, fork, event FROM held WHERE session = ?1 AND event <= ?2
             ORDER BY event DESC, checkpoint DESC LIMIT 1000",
            session,
            event,
        )
    }

    /// Shows `visit` every event whose JSON may say `needle`, whatever the case of its letters. Whether it does, and
    /// not in a key or an id, is for the event to say.
    pub fn events_saying(&self, needle: &str, visit: &mut dyn FnMut(EventRow)) -> Result<()> {
        let fail = self.fail();
        let wanted = Needle::new(needle);
        // Every page is looked at once: mapped, they need not be copied one by one, which takes two thirds as long again.
        let mapped = Mapped::new(&self.connection);
        let mut statement = mapped.connection.prepare_cached(EVENT).map_err(&fail)?;
        let mut rows = statement.query([]).map_err(&fail)?;
        while let Some(row) = rows.next().map_err(&fail)? {
            let body = row.get_ref(6).map_err(&fail)?.as_bytes().unwrap_or_default();
            if wanted.is_in(body) {
                visit(event_row(row).map_err(&fail)?);
            }
        }
        Ok(())
    }

    /// Every place in a session's journal that a checkpoint holds, in order.
    pub fn held(&self, session: &str) -> Result<Vec<Hit>> {
        self.hits(
            "SELECT checkpoint, fork, event FROM held WHERE session = ?1 AND event >= ?2
             ORDER BY event",
            session,
            0,
        )
    }

    pub(super) fn event_rows(
        &self,
        rest: &str,
        params: &[&dyn rusqlite::ToSql],
    ) -> Result<Vec<EventRow>> {
        let fail = self.fail();
        let mut statement =
            self.connection.prepare_cached(&format!("{EVENT} {rest}")).map_err(&fail)?;
        let rows = statement.query_map(params, event_row).map_err(&fail)?;
        rows.collect::<Result<Vec<_>, _>>().map_err(&fail)
    }
}

fn event_row(row: &rusqlite::Row<'_>) -> rusqlite::Result<EventRow> {
    Ok(EventRow {
        session: row.get(0)?,
        number: row.get(1)?,
        fork: row.get(2)?,
        kind: row.get(3)?,
        at: row.get(4)?,
        item: row.get(5)?,
        json: row.get(6)?,
    })
}

/// How much of the database is mapped into memory at most.
const MAPPED_MAX: i64 = 1 << 30;

/// A connection that maps the database into memory as long as this is there, and no longer: a disk that fails under a
/// map ends the process instead of failing a query.
struct Mapped<'c> {
    connection: &'c rusqlite::Connection,
}

impl<'c> Mapped<'c> {
    fn new(connection: &'c rusqlite::Connection) -> Self {
        // One that cannot be mapped is read as ever.
        let _ = connection.pragma_update_and_check(None, "mmap_size", MAPPED_MAX, |_| Ok(()));
        Self { connection }
    }
}

impl Drop for Mapped<'_> {
    fn drop(&mut self) {
        let _ = self.connection.pragma_update_and_check(None, "mmap_size", 0, |_| Ok(()));
    }
}

/// Bytes that every JSON has that says a text, whatever the case of its letters.
struct Needle {
    lower: Vec<u8>,
    /// Its rarest byte: where it is, and how it looks in either case.
    place: usize,
    rarest: [u8; 2],
}

impl Needle {
    fn new(text: &str) -> Self {
        // As it stands in JSON, without its quotes.
        let json = serde_json::to_string(text).unwrap_or_default();
        let json = json.get(1..json.len().saturating_sub(1)).unwrap_or_default();
        // Letters beyond ASCII look different in bytes when their case does; the longest part between them will do.
        let part = json.split(|char: char| !char.is_ascii()).max_by_key(|part| part.len());
        let lower = part.unwrap_or_default().to_ascii_lowercase().into_bytes();
        let place = (0..lower.len()).min_by_key(|at| commonness(lower[*at])).unwrap_or_default();
        let rarest = lower.get(place).copied().unwrap_or_default();
        Self { rarest: [rarest, rarest.to_ascii_uppercase()], place, lower }
    }

    fn is_in(&self, body: &[u8]) -> bool {
        if self.lower.is_empty() {
            return true;
        }
        let mut places = memchr::memchr2_iter(self.rarest[0], self.rarest[1], body);
        places.any(|at| {
            let found = at.checked_sub(self.place).and_then(|start| body.get(start..));
            found
                .and_then(|found| found.get(..self.lower.len()))
                .is_some_and(|found| found.eq_ignore_ascii_case(&self.lower))
        })
    }
}

/// How common a byte is in JSON and in words.
fn commonness(byte: u8) -> usize {
    const COMMON: &[u8] =
        br#"zqxjkvbypgfw~^`@#$%&*+=?!<>|;()mucldrhsn/'[]ioat0123456789_-.{}:, e\""#;
    COMMON.iter().position(|known| *known == byte).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::Needle;

    #[test]
    fn a_needle_is_found_in_any_case_and_at_any_place() {
        let found = |needle: &str, body: &str| Needle::new(needle).is_in(body.as_bytes());
        assert!(found("Stale Cache", r#"{"text":"the stale CACHE"}"#));
        assert!(found("x", "x") && found("", "anything"));
        assert!(!found("stale cache", r#"{"text":"stale, cache"}"#));
        assert!(found("say \"hi\"", r#"{"text":"I say \"hi\""}"#));
        // The part without letters beyond ASCII decides; the event itself has the last word.
        assert!(found("ÄNDERN", r#"{"text":"ändern"}"#));
        assert!(!found("ändern", r#"{"text":"lassen"}"#));
    }
}
