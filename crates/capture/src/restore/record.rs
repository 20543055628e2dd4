//! The bytes of an intent: a magic, then records that each carry their length and checksum.
//!
//! ```text
//! magic      7 bytes  "RAPPELI"
//! version    1 byte
//! record…    length   4 bytes, little endian: of the payload
//!            checksum 16 bytes of BLAKE3 over intent id, place of the record, length, payload
//!            payload  a kind byte, then what the kind says
//! ```
//!
//! The first record is the plan; it is complete before the file gets its name. Those after it are
//! marks of a fixed size, appended as the work goes on; only the last may be cut short, by a crash.

use rappel_store::varint::Cursor;
use rappel_store::{Error, Result};

use super::intent::{Header, IntentId, Phase};
use super::plan::is_git_path;

const MAGIC: &[u8; 7] = b"RAPPELI";
pub const VERSION: u8 = 1;
/// What a reader that knows nothing of repositories must not carry out.
const VERSION_WITH_GIT: u8 = 2;
/// What a reader that knows nothing of databases must not carry out.
const VERSION_WITH_DATABASES: u8 = 3;
/// What a reader that knows nothing of agents must not carry out.
const VERSION_WITH_AGENTS: u8 = 4;
/// What a reader that does not know in which order a spoilt repository is mended must not carry out.
const VERSION_WITH_MENDING: u8 = 5;
/// What a reader that does not know that some files of git come last must not carry out.
const VERSION_WITH_LAST: u8 = 6;
const KIND_HEADER: u8 = 1;
const KIND_MARK: u8 = 2;
const KIND_DATABASE_BEGUN: u8 = 3;
const KIND_DATABASE_DONE: u8 = 4;
const CHECKSUM: usize = 16;
const FRAME: usize = 4 + CHECKSUM;
const MARK_SIZE: usize = FRAME + 2;

fn checksum(id: IntentId, place: u64, payload: &[u8]) -> [u8; CHECKSUM] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&id.0.to_le_bytes());
    hasher.update(&place.to_le_bytes());
    hasher.update(&(payload.len() as u32).to_le_bytes());
    hasher.update(payload);
    let mut sum = [0; CHECKSUM];
    sum.copy_from_slice(&hasher.finalize().as_bytes()[..CHECKSUM]);
    sum
}

fn frame(out: &mut Vec<u8>, id: IntentId, place: u64, payload: &[u8]) {
    out.extend_from_slice(&(payload.len() as u32).to_le_bytes());
    out.extend_from_slice(&checksum(id, place, payload));
    out.extend_from_slice(payload);
}

/// A new intent's file.
pub fn encode(header: &Header) -> Result<Vec<u8>> {
    let json = serde_json::to_vec(header)
        .map_err(|error| Error::Damaged(format!("the plan cannot be written down: {error}")))?;
    if json.len() >= u32::MAX as usize {
        return Err(Error::Damaged("the plan is too large to be written down".into()));
    }
    let version = match header {
        Header { git, .. } if git.has_last() => VERSION_WITH_LAST,
        Header { git, .. } if git.is_of_today() => VERSION_WITH_MENDING,
        Header { agents, .. } if !agents.is_empty() => VERSION_WITH_AGENTS,
        Header { databases, .. } if !databases.is_empty() => VERSION_WITH_DATABASES,
        Header { git, .. } if !git.is_empty() => VERSION_WITH_GIT,
        _ => VERSION,
    };
    Ok(encode_json(header.id, version, &json))
}

/// A new intent's file with a plan that is JSON already.
pub fn encode_json(id: IntentId, version: u8, json: &[u8]) -> Vec<u8> {
    let mut payload = Vec::with_capacity(json.len() + 1);
    payload.push(KIND_HEADER);
    payload.extend_from_slice(json);
    let mut out = Vec::with_capacity(payload.len() + 64);
    out.extend_from_slice(MAGIC);
    out.push(version);
    frame(&mut out, id, 0, &payload);
    out
}

/// What can be noted while the work goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// How far it came.
    Phase(Phase),
    /// The database with this number is about to be committed.
    Begun(u8),
    /// It is committed.
    Done(u8),
}

/// The mark at `place` (the first is 1).
pub fn encode_mark(id: IntentId, place: u64, mark: Mark) -> Vec<u8> {
    let payload = match mark {
        Mark::Phase(phase) => [KIND_MARK, phase.code()],
        Mark::Begun(database) => [KIND_DATABASE_BEGUN, database],
        Mark::Done(database) => [KIND_DATABASE_DONE, database],
    };
    let mut out = Vec::with_capacity(MARK_SIZE);
    frame(&mut out, id, place, &payload);
    out
}

/// What a file says.
pub struct Decoded {
    pub header: Header,
    pub phase: Phase,
    /// The databases whose commit was begun.
    pub begun: Vec<u8>,
    /// The databases that are committed.
    pub done: Vec<u8>,
    /// How many marks it has.
    pub marks: u64,
    /// Where the next one goes: behind the last whole one.
    pub end: u64,
}

/// Reads a file that may hold anything. `id` is what its name says.
pub fn decode(id: IntentId, bytes: &[u8]) -> Result<Decoded> {
    let mut cursor = Cursor::new(bytes, "intent");
    if cursor.take(MAGIC.len())? != MAGIC {
        return Err(cursor.bad("it has no magic"));
    }
    match cursor.byte()? {
        VERSION..=VERSION_WITH_LAST => {}
        // A later version would have been written with a checksum of its own; a damaged byte
        // looks the same, so this is damage unless the rest makes sense to whoever wrote it.
        found => return Err(cursor.bad(&format!("it has version {found}, which is unknown"))),
    }
    let payload = take_record(&mut cursor, id, 0)?;
    let Some((&KIND_HEADER, json)) = payload.split_first() else {
        return Err(cursor.bad("it does not begin with a plan"));
    };
    let header: Header =
        serde_json::from_slice(json).map_err(|error| cursor.bad(&error.to_string()))?;
    if header.id != id {
        return Err(cursor.bad("it belongs under another name"));
    }
    let closed = header.closed.iter().filter_map(|folder| folder.path.as_ref());
    let touched = header.actions.iter().map(|action| &action.path).chain(closed);
    if let Some(path) = touched.into_iter().find(|path| is_git_path(path)) {
        return Err(cursor.bad(&format!("it would write to {path}, which only git does")));
    }
    let (mut phase, mut marks) = (Phase::Planned, 0);
    let (mut begun, mut done) = (Vec::new(), Vec::new());
    let mut end = bytes.len() - cursor.rest().len();
    while !cursor.is_empty() {
        let cut_short = cursor.rest().len() < MARK_SIZE;
        if cut_short || cursor.rest().iter().all(|&b| b == 0) {
            break;
        }
        let payload = take_record(&mut cursor, id, marks + 1)?;
        match payload {
            [KIND_MARK, code] => {
                let known = Phase::from_code(*code);
                phase = known.ok_or_else(|| cursor.bad("a mark is unknown"))?;
            }
            [KIND_DATABASE_BEGUN, database] => begun.push(*database),
            [KIND_DATABASE_DONE, database] => done.push(*database),
            _ => return Err(cursor.bad("a record is no mark")),
        }
        marks += 1;
        end = bytes.len() - cursor.rest().len();
    }
    Ok(Decoded { header, phase, begun, done, marks, end: end as u64 })
}

fn take_record<'b>(cursor: &mut Cursor<'b>, id: IntentId, place: u64) -> Result<&'b [u8]> {
    let length = u32::from_le_bytes(cursor.array()?);
    let sum: [u8; CHECKSUM] = cursor.array()?;
    let payload = cursor.take(length as usize)?;
    if checksum(id, place, payload) != sum {
        return Err(cursor.bad("a checksum does not fit"));
    }
    Ok(payload)
}
