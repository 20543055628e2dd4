//! CAF's tables in a file of SQLite: `checkpoints`, `thoughts`, `tool_calls`, `executions`, with
//! exactly the columns, types and foreign keys that CAF documents.
//!
//! A checkpoint repeats what the ones before it had, and an id is given once for all of them. So a
//! thought or a call belongs to the first checkpoint that had it; a later one changes its row, but
//! not to which checkpoint it belongs. Two runs may use the same id: the second one's row is
//! called `EXECUTION:ID`. A call that runs has `success` 0 and no `completed_at`.

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use rappel_types::Timestamp;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};
use serde::Serialize;
use serde_json::Value;

use super::document::{Call, Checkpoint, Thought};
use crate::form::Written;
use crate::portable::Portable;
use crate::sessions::UNKNOWN;
use crate::{Error, Result, sessions};

/// As CAF documents them; indexes for what is looked up.
pub const SCHEMA: &str = "
CREATE TABLE IF NOT EXISTS executions (
  id TEXT PRIMARY KEY,
  agent_id TEXT NOT NULL,
  task TEXT NOT NULL,
  started_at INTEGER NOT NULL,
  completed_at INTEGER,
  status TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS checkpoints (
  id TEXT PRIMARY KEY,
  timestamp INTEGER NOT NULL,
  execution_id TEXT NOT NULL,
  agent_id TEXT NOT NULL,
  snapshot_json TEXT NOT NULL,
  metadata_json TEXT NOT NULL,
  FOREIGN KEY (execution_id) REFERENCES executions(id)
);
CREATE TABLE IF NOT EXISTS thoughts (
  id TEXT PRIMARY KEY,
  checkpoint_id TEXT NOT NULL,
  type TEXT NOT NULL,
  content TEXT NOT NULL,
  confidence REAL,
  parent_id TEXT,
  created_at INTEGER NOT NULL,
  FOREIGN KEY (checkpoint_id) REFERENCES checkpoints(id),
  FOREIGN KEY (parent_id) REFERENCES thoughts(id)
);
CREATE TABLE IF NOT EXISTS tool_calls (
  id TEXT PRIMARY KEY,
  checkpoint_id TEXT NOT NULL,
  tool_id TEXT NOT NULL,
  args_json TEXT NOT NULL,
  result_json TEXT,
  success INTEGER NOT NULL,
  error TEXT,
  started_at INTEGER NOT NULL,
  completed_at INTEGER,
  FOREIGN KEY (checkpoint_id) REFERENCES checkpoints(id)
);
CREATE INDEX IF NOT EXISTS checkpoints_by_timestamp ON checkpoints(timestamp);
CREATE INDEX IF NOT EXISTS checkpoints_by_execution ON checkpoints(execution_id, timestamp);
CREATE INDEX IF NOT EXISTS thoughts_by_checkpoint ON thoughts(checkpoint_id);
CREATE INDEX IF NOT EXISTS thoughts_by_parent ON thoughts(parent_id);
CREATE INDEX IF NOT EXISTS tool_calls_by_checkpoint ON tool_calls(checkpoint_id);
CREATE INDEX IF NOT EXISTS tool_calls_by_tool ON tool_calls(tool_id);
";

/// Another process may be writing.
const WAIT: Duration = Duration::from_secs(10);

/// Adds checkpoints to the tables, or updates those that are there, all of them or none. A file
/// that is not there is made.
pub fn write(file: &Path, checkpoints: &[Portable]) -> Result<Written> {
    let refused = |error: rusqlite::Error| Error::Refused {
        path: file.to_owned(),
        reason: format!("SQLite: {error}"),
    };
    put(file, checkpoints).map_err(refused)?;
    Ok(Written { paths: vec![file.to_owned()], left_out: super::left_out(checkpoints) })
}

fn put(file: &Path, checkpoints: &[Portable]) -> rusqlite::Result<()> {
    let mut database = Connection::open(file)?;
    database.busy_timeout(WAIT)?;
    // The file may be anybody's: nothing that it brings along is run.
    database.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
    database.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    database.pragma_update(None, "foreign_keys", true)?;
    let change = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
    change.execute_batch(SCHEMA)?;
    // Links are checked when everything is there.
    change.pragma_update(None, "defer_foreign_keys", true)?;
    for checkpoint in checkpoints {
        add(&change, checkpoint, &super::written(checkpoint))?;
    }
    change.commit()
}

fn add(
    change: &Transaction<'_>,
    checkpoint: &Portable,
    document: &Checkpoint,
) -> rusqlite::Result<()> {
    execution(change, checkpoint, document)?;
    change.execute(
        "INSERT INTO checkpoints VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT (id) DO UPDATE SET \
         timestamp = ?2, execution_id = ?3, agent_id = ?4, snapshot_json = ?5, metadata_json = ?6",
        params![
            document.id,
            document.timestamp,
            document.execution_id,
            document.agent_id,
            json(&document.snapshot)?,
            json(&document.metadata)?,
        ],
    )?;
    let chain = &document.snapshot.thought_chain;
    let mut names = HashMap::new();
    for (place, thought) in chain.iter().enumerate() {
        let id = or_numbered(&thought.id, "thought", document, place);
        names.insert(thought.id.as_str(), name(change, Table::Thoughts, &id, document)?);
    }
    for (place, one) in chain.iter().enumerate() {
        let id = match names.get(one.id.as_str()) {
            Some(id) if !one.id.is_empty() => id.clone(),
            _ => or_numbered(&one.id, "thought", document, place),
        };
        let parent = one.parent_id.as_deref().and_then(|parent| names.get(parent));
        thought(change, &id, one, parent, document)?;
    }
    for (place, one) in document.snapshot.tool_state.calls.iter().enumerate() {
        let id = or_numbered(&one.id, "call", document, place);
        let id = name(change, Table::ToolCalls, &id, document)?;
        call(change, &id, one, document)?;
    }
    Ok(())
}

fn json(value: &impl Serialize) -> rusqlite::Result<String> {
    serde_json::to_string(value)
        .map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))
}

/// An id for what has none.
fn or_numbered(id: &str, kind: &str, document: &Checkpoint, place: usize) -> String {
    match id {
        "" => format!("{}:{kind}-{}", document.execution_id, place + 1),
        id => id.to_owned(),
    }
}

fn execution(
    change: &Transaction<'_>,
    checkpoint: &Portable,
    document: &Checkpoint,
) -> rusqlite::Result<()> {
    let session = sessions::told(checkpoint);
    let task = session.and_then(|one| one.task.as_ref().or(one.state.task.as_ref()));
    let began = session.and_then(|one| one.started_at.or(one.state.started_at));
    let began = began.map_or(document.timestamp, Timestamp::as_millis);
    let ended = session.and_then(|one| one.state.ended_at).map(Timestamp::as_millis);
    let status = session.map_or("running", |one| super::status(checkpoint.trigger, &one.state));
    // An older checkpoint that is added later does not turn the run back.
    change.execute(
        "INSERT INTO executions VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT (id) DO UPDATE SET \
         agent_id = ?2, task = ?3, started_at = min(started_at, ?4), completed_at = ?5, \
         status = ?6 WHERE NOT EXISTS \
         (SELECT 1 FROM checkpoints WHERE execution_id = ?1 AND timestamp > ?7)",
        params![
            document.execution_id,
            document.agent_id,
            task.map_or(UNKNOWN, String::as_str),
            began,
            ended,
            status,
            document.timestamp,
        ],
    )?;
    Ok(())
}

#[derive(Clone, Copy)]
enum Table {
    Thoughts,
    ToolCalls,
}

/// What a row is called: by its id, unless another run has a row with it.
fn name(
    change: &Transaction<'_>,
    table: Table,
    id: &str,
    document: &Checkpoint,
) -> rusqlite::Result<String> {
    let query = match table {
        Table::Thoughts => {
            "SELECT c.execution_id FROM thoughts t JOIN checkpoints c ON c.id = t.checkpoint_id \
             WHERE t.id = ?1"
        }
        Table::ToolCalls => {
            "SELECT c.execution_id FROM tool_calls t JOIN checkpoints c ON c.id = t.checkpoint_id \
             WHERE t.id = ?1"
        }
    };
    let owner: Option<String> =
        change.prepare_cached(query)?.query_row([id], |row| row.get(0)).optional()?;
    Ok(match owner {
        Some(owner) if owner != document.execution_id => {
            format!("{}:{id}", document.execution_id)
        }
        _ => id.to_owned(),
    })
}

fn thought(
    change: &Transaction<'_>,
    id: &str,
    thought: &Thought,
    parent: Option<&String>,
    document: &Checkpoint,
) -> rusqlite::Result<()> {
    let mut insert = change.prepare_cached(
        "INSERT INTO thoughts VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT (id) DO UPDATE SET \
         type = ?3, content = ?4, confidence = ?5, parent_id = ?6, created_at = ?7",
    )?;
    let created = thought.created_at.unwrap_or(document.timestamp);
    let Thought { kind, content, confidence, .. } = thought;
    insert.execute(params![id, document.id, kind, content, confidence, parent, created])?;
    Ok(())
}

fn call(
    change: &Transaction<'_>,
    id: &str,
    call: &Call,
    document: &Checkpoint,
) -> rusqlite::Result<()> {
    let outcome = document.snapshot.tool_state.results.get(&call.id);
    let field = |name: &str| {
        let value = outcome.and_then(|outcome| outcome.get(name)).or(call.extra.get(name));
        value.filter(|value| !value.is_null())
    };
    let error = field("error").map(|error| match error {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    });
    let ended = call.completed_at.is_some() || outcome.is_some();
    let success = field("success").and_then(Value::as_bool);
    let success = success.unwrap_or(ended && error.is_none());
    let mut insert = change.prepare_cached(
        "INSERT INTO tool_calls VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9) \
         ON CONFLICT (id) DO UPDATE SET tool_id = ?3, args_json = ?4, result_json = ?5, \
         success = ?6, error = ?7, started_at = ?8, completed_at = ?9 \
         WHERE ?9 IS NOT NULL OR completed_at IS NULL",
    )?;
    insert.execute(params![
        id,
        document.id,
        call.tool_id,
        call.args.to_string(),
        field("result").map(Value::to_string),
        success,
        error,
        call.started_at.unwrap_or(document.timestamp),
        call.completed_at,
    ])?;
    Ok(())
}
