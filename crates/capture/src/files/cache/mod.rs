//! What the last scan knew: one file for each workspace, a hint that may be deleted at any time.
//!
//! The file is a sequence of batches. The first holds a record of every folder (`record`), each
//! later one only the folders that changed since; the newest record of a folder counts. So a save
//! that changed little writes little, and loading is one read and one pass over the records' heads.
//! When more than half is outdated, everything is written anew.
//!
//! ```text
//! batch   "RFC2" · length u64 · checksum of the batch before 32 · records length u64
//!         record… · memo (JSON) · checksum 32
//! ```
//!
//! Length is that of the whole batch. The checksum is BLAKE3 over everything before it in the batch.
//! Whatever does not fit, however slightly, makes the whole file count as absent. It is not synced.

pub(crate) mod record;
mod restored;

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use rappel_store::disk::{Disk, DiskFile, Op};
use rappel_store::held;
use rappel_types::manifest::SelectionRules;
use rappel_types::{CheckpointId, ObjectId, RelPath};
use serde::{Deserialize, Serialize};

use self::record::{Draft, Record, What};
pub use self::restored::Restored;
use super::git::consulted::Consulted;
use crate::error::{Error, Result};

const MAGIC: &[u8; 4] = b"RFC2";
/// Length of a batch before its records.
const HEAD: usize = 4 + 8 + 32 + 8;
const SUM: usize = 32;
/// The root folder's number.
pub(crate) const ROOT: u32 = 0;
/// Outdated bytes that are not worth writing everything anew.
const SLACK: usize = 256 << 10;
/// A folder that has no record.
const NOWHERE: u64 = u64::MAX;

/// What is known besides the folders.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Memo {
    /// The tree of all that is recorded here.
    pub base: ObjectId,
    pub checkpoint: Option<CheckpointId>,
    /// A hash of the configuration and everything else that is given from outside.
    pub digest: ObjectId,
    pub rules: SelectionRules,
    pub repos: Vec<RepoMemo>,
    pub count: u64,
    pub bytes: u64,
    /// The next folder's number.
    pub next: u32,
    /// Bytes of the records that count.
    pub live: u64,
}

/// What is known of a repository, or of a `.git` that is none.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct RepoMemo {
    /// The folder that it governs; `None` is the root.
    pub folder: Option<RelPath>,
    /// Where it was found, if not in that folder.
    pub above: Option<String>,
    pub is_repo: bool,
    pub rules: Vec<Consulted>,
    pub rules_digest: ObjectId,
    pub index: Vec<Consulted>,
    pub index_digest: ObjectId,
    /// Why the index could not be read.
    pub trouble: Option<String>,
}

/// What the last scan knew of a workspace. Only ever a hint: without it a scan finds the same,
/// slower.
#[derive(Clone)]
pub struct Cache {
    bytes: Vec<u8>,
    /// How much of `bytes` is in the file it was loaded from, or saved to.
    saved: usize,
    /// Where the record of each folder is.
    table: Vec<u64>,
    memo: Memo,
}

impl std::fmt::Debug for Cache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cache").field("base", &self.memo.base).finish_non_exhaustive()
    }
}

impl Cache {
    /// Reads the cache at `path`. `None` if there is none, or none that can be used.
    pub fn load(path: &Path) -> Option<Self> {
        let mut file = held::open(path).ok()?;
        let length = file.metadata().ok()?.len();
        let mut bytes = Vec::with_capacity(usize::try_from(length).ok()?.checked_add(1)?);
        file.read_to_end(&mut bytes).ok()?;
        Self::decode(bytes)
    }

    /// Reads a cache from its bytes. `None` if there is anything odd about them.
    pub fn decode(bytes: Vec<u8>) -> Option<Self> {
        let mut table = Vec::new();
        let mut memo = None;
        let mut at = 0;
        let mut before: &[u8] = &[0; SUM];
        while at < bytes.len() {
            let batch = batch_at(&bytes[at..], before)?;
            enter(&mut table, batch.records, at + HEAD)?;
            memo = Some(batch.memo);
            at += batch.length;
            before = &bytes[at - SUM..at];
        }
        let memo: Memo = serde_json::from_slice(memo?).ok()?;
        let saved = bytes.len();
        let cache = Self { bytes, saved, table, memo };
        cache.record(ROOT).is_some().then_some(cache)
    }

    /// The tree to which the next scan's changes are relative.
    pub fn base(&self) -> &ObjectId {
        &self.memo.base
    }

    /// The checkpoint that holds this tree, if one does.
    pub fn checkpoint(&self) -> Option<&CheckpointId> {
        self.memo.checkpoint.as_ref()
    }

    /// Stores the cache at `path`: only what is new, if the file is still the one it was loaded
    /// from. Not synced: a torn cache is no cache.
    pub fn save(&mut self, disk: &Arc<dyn Disk>, path: &Path) -> Result<()> {
        if self.saved == self.bytes.len() {
            return Ok(());
        }
        if self.saved == 0 || !self.append(disk, path)? {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let random = rappel_store::ambient::random();
            let temporary = path.with_file_name(format!("{name}.{random:016x}.tmp"));
            let file = DiskFile::create_new(disk, &temporary)?;
            file.write_at(&self.bytes, 0)?;
            let rename = || {
                disk.gate(&Op::Rename { from: &temporary, to: path })?;
                std::fs::rename(&temporary, path)
            };
            rename().map_err(Error::io("rename", path))?;
        }
        self.saved = self.bytes.len();
        Ok(())
    }

    /// Whether the file at `path` is what this was loaded from, or saved to.
    pub fn is_at(&self, path: &Path) -> bool {
        held::open(path).is_ok_and(|file| self.is_in(&file))
    }

    /// A batch ends with a checksum that all before it goes into, so the end tells.
    fn is_in(&self, file: &File) -> bool {
        let Some(at) = self.saved.checked_sub(SUM) else { return false };
        let mut end = [0; SUM];
        file.metadata().is_ok_and(|meta| meta.len() == self.saved as u64)
            && std::os::unix::fs::FileExt::read_exact_at(file, &mut end, at as u64).is_ok()
            && self.bytes[at..self.saved] == end
    }

    /// Adds to the file what it has not got; `false` if it is not the file that was loaded.
    fn append(&self, disk: &Arc<dyn Disk>, path: &Path) -> Result<bool> {
        let Ok(file) = DiskFile::open(disk, path) else { return Ok(false) };
        // Two scans of one workspace may end at the same time; the later one writes its own file.
        if file.file().try_lock().is_err() {
            return Ok(false);
        }
        let same = self.is_in(file.file());
        if same {
            file.write_at(&self.bytes[self.saved..], self.saved as u64)?;
        }
        Ok(same)
    }

    pub(crate) fn memo(&self) -> &Memo {
        &self.memo
    }

    /// The record of a folder.
    pub(crate) fn record(&self, number: u32) -> Option<Record<'_>> {
        let at = *self.table.get(number as usize)?;
        Record::at(self.bytes.get(usize::try_from(at).ok()?..)?)
    }

    /// Every record below and including `number`, with its path. Ends also if records go round in
    /// a circle.
    pub(crate) fn below(&self, number: u32, path: &[u8]) -> Vec<(Vec<u8>, Record<'_>)> {
        let mut found = Vec::new();
        let mut open = vec![(number, path.to_vec())];
        while let Some((number, path)) = open.pop() {
            let Some(record) = self.record(number) else { continue };
            for entry in record.entries() {
                if let What::Folder(child) = entry.what {
                    open.push((child, super::selector::join(&path, entry.name)));
                }
            }
            found.push((path, record));
            if found.len() > self.table.len() {
                break;
            }
        }
        found
    }
}

struct Batch<'a> {
    length: usize,
    records: &'a [u8],
    memo: &'a [u8],
}

fn batch_at<'a>(bytes: &'a [u8], before: &[u8]) -> Option<Batch<'a>> {
    let number = |at: usize| -> Option<usize> {
        let bytes = bytes.get(at..at + 8)?.try_into().ok()?;
        usize::try_from(u64::from_le_bytes(bytes)).ok()
    };
    let (length, records) = (number(4)?, number(44)?);
    let fits = bytes.starts_with(MAGIC) && bytes.get(12..44)? == before;
    if !fits || length > bytes.len() || records > length.checked_sub(HEAD + SUM)? {
        return None;
    }
    let (content, sum) = bytes[..length].split_at(length - SUM);
    if checksum(content) != sum {
        return None;
    }
    let (records, memo) = content[HEAD..].split_at(records);
    Some(Batch { length, records, memo })
}

/// Notes where each record of a batch is.
fn enter(table: &mut Vec<u64>, records: &[u8], start: usize) -> Option<()> {
    let mut at = 0;
    while at < records.len() {
        let record = Record::at(&records[at..])?;
        let number = record.folder() as usize;
        // Numbers are given out one by one, so a table cannot be longer than what names it.
        if number > table.len() + records.len() {
            return None;
        }
        if number >= table.len() {
            table.resize(number + 1, NOWHERE);
        }
        table[number] = (start + at) as u64;
        at += record.length();
    }
    Some(())
}

/// BLAKE3 of pieces that are hashed side by side: loading is on the path of every save.
fn checksum(bytes: &[u8]) -> [u8; SUM] {
    use rayon::prelude::*;
    const PIECE: usize = 512 << 10;
    if bytes.len() <= PIECE {
        return *blake3::hash(bytes).as_bytes();
    }
    let pieces: Vec<[u8; SUM]> =
        bytes.par_chunks(PIECE).map(|piece| *blake3::hash(piece).as_bytes()).collect();
    *blake3::hash(pieces.as_flattened()).as_bytes()
}

/// Appends a batch to `bytes`. `write` adds the records.
fn push_batch(bytes: &mut Vec<u8>, memo: &Memo, write: impl FnOnce(&mut Vec<u8>)) {
    let start = bytes.len();
    let before: [u8; SUM] =
        start.checked_sub(SUM).and_then(|at| bytes[at..].try_into().ok()).unwrap_or([0; SUM]);
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(&[0; 8]);
    bytes.extend_from_slice(&before);
    bytes.extend_from_slice(&[0; 8]);
    write(bytes);
    let records = (bytes.len() - start - HEAD) as u64;
    // A memo is made of texts and numbers; it cannot fail to be written, and an empty one is none.
    bytes.extend_from_slice(&serde_json::to_vec(memo).unwrap_or_default());
    let length = (bytes.len() - start + SUM) as u64;
    bytes[start + 4..start + 12].copy_from_slice(&length.to_le_bytes());
    bytes[start + 44..start + 52].copy_from_slice(&records.to_le_bytes());
    let sum = checksum(&bytes[start..]);
    bytes.extend_from_slice(&sum);
}

/// A cache whose tree is not committed yet.
#[derive(Debug)]
pub struct CacheDraft {
    /// What was known before.
    pub(crate) before: Option<Cache>,
    /// The folders that differ from it.
    pub(crate) drafts: Vec<Draft>,
    pub(crate) memo: Memo,
}

impl CacheDraft {
    /// The cache, once the tree of the scan's changes is committed as `base`.
    pub fn finish(self, base: ObjectId, checkpoint: Option<CheckpointId>) -> Cache {
        let Self { before, drafts, mut memo } = self;
        memo.base = base;
        memo.checkpoint = checkpoint;
        let mut cache = before.unwrap_or_else(|| Cache {
            bytes: Vec::new(),
            saved: 0,
            table: Vec::new(),
            memo: memo.clone(),
        });
        let mut records = Vec::new();
        let mut live = cache.memo.live;
        if cache.bytes.is_empty() {
            live = 0;
        }
        for draft in &drafts {
            let outdated = cache.record(draft.number).map_or(0, |record| record.length() as u64);
            let start = records.len();
            draft.encode(&mut records);
            live = live.saturating_sub(outdated) + (records.len() - start) as u64;
        }
        memo.live = live;
        cache.memo = memo;
        let start = cache.bytes.len();
        push_batch(&mut cache.bytes, &cache.memo, |bytes| bytes.extend_from_slice(&records));
        // Only what cannot be read is not entered, and this was written a moment ago.
        let _ = enter(&mut cache.table, &records, start + HEAD);
        if cache.bytes.len() > 2 * live as usize + SLACK {
            cache.rewrite();
        }
        cache
    }
}

impl Cache {
    /// Leaves out what is outdated.
    fn rewrite(&mut self) {
        let mut records = Vec::with_capacity(self.memo.live as usize);
        let mut table = vec![NOWHERE; self.table.len()];
        for (_, record) in self.below(ROOT, b"") {
            table[record.folder() as usize] = (HEAD + records.len()) as u64;
            records.extend_from_slice(record.bytes());
        }
        self.memo.live = records.len() as u64;
        let mut bytes = Vec::with_capacity(records.len() + 4096);
        push_batch(&mut bytes, &self.memo, |bytes| bytes.extend_from_slice(&records));
        (self.bytes, self.table, self.saved) = (bytes, table, 0);
    }
}
