//! opencode keeps all sessions of a user in one database of SQLite. It is read without a trace
//! ([`rows`]), a little at a time, and never written.
//!
//! A [`Reader`] remembers how far it read. Rows are added with growing row ids, so new ones lie at a
//! table's end; a part that was not finished is looked at again. Where the last row that was read is
//! another one now (sessions were deleted, or the file was rebuilt), everything is told again.
//!
//! Its rows are not kept in checkpoints: other tables of the same file hold credentials, and a
//! restore could not put single sessions back without writing to the database.

mod parts;

use std::collections::{BTreeMap, VecDeque};
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use rappel_store::Cancel;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::locate::Surroundings;
use super::transcripts::{Batch, Session};
use crate::databases::sqlite::rows::{self, Row, Rows, Table};
use crate::databases::sqlite::{self};
use crate::databases::{Fingerprint, Result};

use parts::Part;

/// The name that sessions and messages use.
pub const NAME: &str = "opencode";
/// Raised when a reader's memory means something else than before.
const VERSION: u32 = 1;
/// How long a writer is waited for.
const PATIENCE: Duration = Duration::from_secs(2);
/// At one moment so many rows of parts are read, and about so many bytes of them. The database is
/// held against moving pages as long as that.
const STEP_ROWS: usize = 20_000;
const STEP_BYTES: usize = 16 << 20;
/// So many messages are remembered. Most parts follow their message at once.
const MESSAGES: usize = 256;
/// So many parts that are not finished are looked at again.
const OPEN: usize = 256;

/// A user's database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Database {
    /// Where it is.
    pub path: PathBuf,
}

/// What is remembered between two readings.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Reader {
    version: u32,
    /// The last row of each table that was read.
    session: Place,
    message: Place,
    part: Place,
    /// The sessions that worked in the workspace.
    sessions: BTreeMap<String, Known>,
    /// The newest messages of those sessions.
    messages: VecDeque<Message>,
    /// Parts that will change.
    open: VecDeque<(i64, String)>,
}

/// A row that was read.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct Place {
    row: i64,
    id: String,
}

/// A session of the workspace.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct Known {
    /// Its row.
    row: i64,
    session: Session,
    /// The last thought.
    thought: Option<String>,
}

/// What the parts of a message have to know of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Message {
    id: String,
    session: String,
    kind: MessageKind,
    model: Option<String>,
    /// Whether its prompt was told.
    told: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum MessageKind {
    User,
    Agent,
    Summary,
}

/// What one reading told.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Told {
    /// By session, as opencode calls it, in the order in which they began: a subagent's behind the
    /// one that sent it. Each batch begins with what is known of the session.
    pub sessions: Vec<(String, Batch)>,
    /// Whether there is more to read.
    pub more: bool,
}

impl Database {
    /// The database of a user; nothing if there is none.
    pub fn of(surroundings: &Surroundings) -> Option<Self> {
        let path = surroundings.opencode_database();
        path.is_file().then_some(Self { path })
    }

    /// A cheap look; nothing if the next write could look the same.
    pub fn fingerprint(&self) -> Result<Option<Fingerprint>> {
        let database = sqlite::Database {
            name: NAME.into(),
            path: self.path.clone(),
            location: None,
            patience: PATIENCE,
        };
        database.fingerprint()
    }
}

impl Reader {
    /// Reads on. `workspace` is the workspace's root by all the paths that it has.
    pub fn read_on(
        &mut self,
        database: &Database,
        workspace: &[&Path],
        cancel: &Cancel,
    ) -> Result<Told> {
        let (reader, told) = rows::read(&database.path, PATIENCE, cancel, |rows| {
            let mut reader = self.clone();
            let told = reader.step(rows, workspace)?;
            Ok((reader, told))
        })?;
        *self = reader;
        Ok(told)
    }

    fn step(&mut self, rows: &Rows<'_>, workspace: &[&Path]) -> Result<Told> {
        let tables = [rows.table("session")?, rows.table("message")?, rows.table("part")?];
        // Another version may keep its sessions elsewhere.
        let [Some(sessions), Some(messages), Some(parts)] = tables else {
            return Ok(Told::default());
        };
        let is_known = self.version == VERSION
            && self.session.is_in(rows, &sessions)?
            && self.message.is_in(rows, &messages)?
            && self.part.is_in(rows, &parts)?;
        if !is_known {
            *self = Self { version: VERSION, ..Self::default() };
        }
        self.read_sessions(rows, &sessions, workspace)?;
        let mut told = Told::default();
        if self.sessions.is_empty() {
            // All parts are of others. Where a session of ours begins later, its parts follow it.
            self.message.skip_to_end(rows, &messages)?;
            self.part.skip_to_end(rows, &parts)?;
            return Ok(told);
        }
        self.read_open(rows, &parts, &mut told)?;
        let mut step = (0, 0);
        let mut last = std::mem::take(&mut self.part);
        let from = last.row;
        rows.after(&parts, from, &mut |row| {
            last = Place::of(row)?;
            if let Some(part) = self.part_of_ours(row)? {
                self.read_messages(rows, &messages, &part.message)?;
                step.1 += part.bytes;
                if !self.tell(&part, &mut told) {
                    self.open.push_back((row.id, part.id));
                }
            }
            step.0 += 1;
            told.more = step.0 >= STEP_ROWS || step.1 >= STEP_BYTES;
            Ok(!told.more)
        })?;
        self.part = last;
        let excess = self.open.len().saturating_sub(OPEN);
        self.open.drain(..excess);
        told.sessions.sort_by_key(|(id, _)| self.sessions.get(id).map(|known| known.row));
        Ok(told)
    }

    /// Takes in the sessions that are new.
    fn read_sessions(&mut self, rows: &Rows<'_>, table: &Table, workspace: &[&Path]) -> Result<()> {
        rows.after(table, self.session.row, &mut |row| {
            self.session = Place::of(row)?;
            let folder = row.text("directory")?;
            if folder.as_ref().is_some_and(|folder| holds(workspace, Path::new(folder))) {
                let session = Session {
                    assistant_session_id: self.session.id.clone(),
                    cwd: folder,
                    parent: row.text("parent_id")?,
                    model: None,
                    version: row.text("version")?,
                    git_branch: None,
                };
                let known = Known { row: row.id, session, ..Known::default() };
                self.sessions.insert(self.session.id.clone(), known);
            }
            Ok(true)
        })
    }

    /// Reads messages until the one that is asked for is known. Where it is not to be found it came
    /// long before, and nothing is read.
    fn read_messages(&mut self, rows: &Rows<'_>, table: &Table, until: &str) -> Result<()> {
        if self.messages.iter().any(|message| message.id == until) {
            return Ok(());
        }
        let (mut place, mut new, mut found) = (self.message.clone(), VecDeque::new(), false);
        rows.after(table, self.message.row, &mut |row| {
            place = Place::of(row)?;
            let session = row.text("session_id")?.unwrap_or_default();
            if self.sessions.contains_key(&session) {
                let data = json(row)?;
                let is_summary = data.get("summary") == Some(&Value::Bool(true));
                let kind = match data.get("role").and_then(Value::as_str) {
                    Some("user") => MessageKind::User,
                    _ if is_summary => MessageKind::Summary,
                    _ => MessageKind::Agent,
                };
                let model = data.get("modelID").and_then(Value::as_str).map(str::to_owned);
                new.push_back(Message { id: place.id.clone(), session, kind, model, told: false });
                let excess = new.len().saturating_sub(MESSAGES);
                new.drain(..excess);
            }
            found = place.id == until;
            Ok(!found)
        })?;
        if found {
            self.message = place;
            self.messages.append(&mut new);
            let excess = self.messages.len().saturating_sub(MESSAGES);
            self.messages.drain(..excess);
        }
        Ok(())
    }

    /// Looks again at the parts that were not finished.
    fn read_open(&mut self, rows: &Rows<'_>, table: &Table, told: &mut Told) -> Result<()> {
        for (id, name) in std::mem::take(&mut self.open) {
            let part = rows.get(table, id, |row| self.part_of_ours(row))?.flatten();
            if let Some(part) = part.filter(|part| part.id == name)
                && !self.tell(&part, told)
            {
                self.open.push_back((id, name));
            }
        }
        Ok(())
    }

    /// A part, if its session is of the workspace.
    fn part_of_ours(&self, row: &mut Row<'_>) -> Result<Option<Part>> {
        let session = row.text("session_id")?.unwrap_or_default();
        if !self.sessions.contains_key(&session) {
            return Ok(None);
        }
        let text = row.text("data")?.unwrap_or_default();
        Ok(Some(Part {
            row: row.id,
            id: row.text("id")?.unwrap_or_default(),
            session,
            message: row.text("message_id")?.unwrap_or_default(),
            created: row.integer("time_created")?,
            bytes: text.len(),
            // What is no JSON says nothing, and will not change.
            data: serde_json::from_str(&text).unwrap_or(Value::Null),
        }))
    }
}

impl Place {
    fn of(row: &mut Row<'_>) -> Result<Self> {
        Ok(Self { row: row.id, id: row.text("id")?.unwrap_or_default() })
    }

    /// Whether the row that was read last is still that one.
    fn is_in(&self, rows: &Rows<'_>, table: &Table) -> Result<bool> {
        if self.row == 0 {
            return Ok(true);
        }
        let there = rows.get(table, self.row, |row| row.text("id"))?.flatten();
        Ok(there.is_some_and(|id| id == self.id))
    }

    fn skip_to_end(&mut self, rows: &Rows<'_>, table: &Table) -> Result<()> {
        if let Some(last) = rows.last(table, Place::of)? {
            *self = last;
        }
        Ok(())
    }
}

fn json(row: &mut Row<'_>) -> Result<Value> {
    let text = row.text("data")?.unwrap_or_default();
    Ok(serde_json::from_str(&text).unwrap_or(Value::Null))
}

/// Whether a path is the workspace or lies in it.
fn holds(workspace: &[&Path], path: &Path) -> bool {
    let plain = path.components().all(|part| !matches!(part, Component::ParentDir));
    plain && workspace.iter().any(|root| path.starts_with(root))
}
