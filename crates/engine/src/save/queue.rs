//! Saves of one workspace take turns, and tell each other what they captured: a file in the home
//! with a lock on it, and a note in it. [`super::shared`] decides what the note is worth.
//!
//! Whether a capture began after a save arrived is a matter of counting, not of clocks. Only the
//! save whose turn it is counts up, and it does so before it looks at anything. An arriving save
//! reads the count, without the lock. A capture with a higher number was counted after that, so it
//! began after that.
//!
//! Nobody but saves should write the note. Where another process did, an arrival means nothing: one
//! that found no count arrives again, and a capture that began under a count that was changed from
//! outside is offered to nobody.
//!
//! Not guaranteed: that two saves never capture at once. The queue saves work. Where it cannot be
//! had, or lasts too long, a save captures by itself.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use rappel_store::Cancel;
use rappel_store::ambient;
use rappel_store::held::Handle;
use rappel_store::lock::Patience;
use rappel_types::CheckpointId;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use super::shared::Asked;
use crate::error::Result;

/// The version of the note. A note of another version says nothing.
const VERSION: u32 = 1;
/// No note is longer than this.
const NOTE_MAX: usize = 16 << 10;
/// So many captures are remembered, the newest of each kind.
const CAPTURES: usize = 8;

/// What the file says.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Note {
    version: u32,
    /// Drawn when the count began: a file that was lost or replaced counts anew.
    series: u64,
    /// The number of the last capture that began.
    begun: u64,
    /// The newest checkpoint that holds what these captures saw.
    newest: Option<CheckpointId>,
    /// Captures that are durable, oldest first. All of them saw the same state.
    captures: Vec<Capture>,
}

impl Note {
    /// Begins to count.
    fn begin() -> Self {
        let (series, captures) = (ambient::random(), Vec::new());
        Self { version: VERSION, series, begun: 0, newest: None, captures }
    }
}

/// A capture that is durable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Capture {
    number: u64,
    /// What was looked at.
    pub asked: Asked,
    /// The checkpoint that holds it.
    pub checkpoint: CheckpointId,
    /// Whether it only found that files, git and databases are as they were.
    pub unchanged: bool,
}

/// A save that has arrived.
pub(super) struct Arrived {
    file: Handle,
    at: Arrival,
}

/// What a save found when it arrived.
#[derive(Clone, Copy)]
enum Arrival {
    /// The count had come so far.
    Behind { series: u64, begun: u64 },
    /// No count could be read: a file that is new, or whose note was lost while a capture runs.
    Unknown,
}

impl Arrival {
    fn of(file: &File) -> Self {
        match read(file) {
            Some(note) => Self::Behind { series: note.series, begun: note.begun },
            None => Self::Unknown,
        }
    }
}

/// The save whose turn it is. Dropping this ends the turn, and so does the end of the process.
pub(super) struct Turn {
    file: Handle,
    note: Note,
    arrived: u64,
}

impl Arrived {
    /// Arrives. What is on disk by now is in every capture that begins later.
    pub fn at(path: &Path) -> std::io::Result<Self> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let file = Handle::open(&options, path)?;
        let at = Arrival::of(&file);
        Ok(Self { file, at })
    }

    /// Waits until it is this save's turn; `None` if that takes too long.
    pub fn wait(
        mut self,
        patience: &Patience,
        cancel: &Cancel,
        who: impl Fn() -> String,
    ) -> Result<Option<Turn>> {
        let try_once = || -> Result<bool> {
            cancel.check()?;
            if flock(&self.file, FlockOperation::NonBlockingLockExclusive).is_ok() {
                return Ok(true);
            }
            self.arrive_again();
            Ok(false)
        };
        if patience.wait(try_once, who)?.is_err() {
            return Ok(None);
        }
        let note = read(&self.file).unwrap_or_else(Note::begin);
        let arrived = match self.at {
            Arrival::Behind { series, begun } if series == note.series => begun,
            Arrival::Behind { .. } | Arrival::Unknown => note.begun,
        };
        Ok(Some(Turn { file: self.file, note, arrived }))
    }

    /// A save whose arrival means nothing in the present series arrives now: only captures that
    /// begin later count for it.
    fn arrive_again(&mut self) {
        let is_same = |series| read(&self.file).is_none_or(|note| note.series == series);
        match self.at {
            Arrival::Behind { series, .. } if is_same(series) => {}
            Arrival::Behind { .. } | Arrival::Unknown => self.at = Arrival::of(&self.file),
        }
    }
}

impl Turn {
    /// The captures that began after this save arrived, the newest first, and the newest checkpoint
    /// that holds what they saw.
    pub fn captures(&self) -> impl Iterator<Item = (&Capture, &CheckpointId)> {
        let since = self.note.captures.iter().rev();
        since
            .filter(|capture| capture.number > self.arrived)
            .filter_map(|capture| Some((capture, self.note.newest.as_ref()?)))
    }

    /// The newest checkpoint that holds what the remembered captures saw.
    pub fn newest(&self) -> Option<&CheckpointId> {
        self.note.newest.as_ref().filter(|_| !self.note.captures.is_empty())
    }

    /// Counts a capture that begins now. `None` if that cannot be written: nobody may use it then.
    pub fn begin(&mut self) -> Option<u64> {
        self.note.begun += 1;
        self.write().ok()?;
        Some(self.note.begun)
    }

    /// Notes a capture that is durable. Those before it are forgotten unless they saw the same.
    pub fn note(&mut self, number: u64, asked: Asked, found: Found, saw_the_same: bool) {
        if !self.stands() {
            // Saves may have arrived behind another count meanwhile: none of them may use this.
            self.note = Note::begin();
            let _ = self.write();
            return;
        }
        let captures = &mut self.note.captures;
        captures.retain(|other| saw_the_same && other.asked != asked);
        let Found { checkpoint, unchanged } = found;
        let newest = checkpoint.clone();
        captures.push(Capture { number, asked, checkpoint, unchanged });
        let surplus = captures.len().saturating_sub(CAPTURES);
        captures.drain(..surplus);
        self.note_newest(newest);
    }

    /// Notes another checkpoint that holds what these captures saw.
    pub fn note_newest(&mut self, checkpoint: CheckpointId) {
        if !self.stands() {
            self.note = Note::begin();
        }
        self.note.newest = Some(checkpoint);
        // A note that is not written costs the next save a capture.
        let _ = self.write();
    }

    /// Forgets the captures: the newest checkpoint holds something else.
    pub fn forget(&mut self) {
        self.note.captures.clear();
    }

    /// Whether the file still says how far this save has counted.
    fn stands(&self) -> bool {
        read(&self.file)
            .is_some_and(|now| (now.series, now.begun) == (self.note.series, self.note.begun))
    }

    fn write(&self) -> std::io::Result<()> {
        let mut text = serde_json::to_vec(&self.note)?;
        text.push(b'\n');
        let sum = blake3::hash(&text);
        text.extend_from_slice(sum.to_hex().as_bytes());
        self.file.write_all_at(&text, 0)?;
        self.file.set_len(text.len() as u64)
    }
}

/// What came of a capture.
pub(super) struct Found {
    /// The checkpoint that holds it.
    pub checkpoint: CheckpointId,
    /// See [`Capture::unchanged`].
    pub unchanged: bool,
}

/// The note, unless there is none, or it is being written, or its writer died over it.
fn read(file: &File) -> Option<Note> {
    let mut text = vec![0; NOTE_MAX];
    let length = file.read_at(&mut text, 0).ok()?;
    let end = text[..length].iter().position(|byte| *byte == b'\n')? + 1;
    let (json, rest) = text[..length].split_at(end);
    // Behind the sum there may be the end of a longer note, whose writer could not cut it off.
    let sum = rest.get(..blake3::OUT_LEN * 2)?;
    if blake3::hash(json).to_hex().as_bytes() != sum {
        return None;
    }
    serde_json::from_slice::<Note>(json).ok().filter(|note| note.version == VERSION)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rappel_types::Timestamp;
    use serde_json::json;

    use super::*;

    struct Place(tempfile::TempDir);

    impl Place {
        fn new() -> Self {
            Self(tempfile::tempdir().unwrap())
        }

        fn arrive(&self) -> Arrived {
            Arrived::at(&self.0.path().join("queue")).unwrap()
        }

        fn spoil(&self, text: &str) {
            std::fs::write(self.0.path().join("queue"), text).unwrap();
        }

        /// A save that comes, captures and goes.
        fn capture(&self, kind: &str, saw_the_same: bool) {
            let mut turn = turn(self.arrive());
            let number = turn.begin().unwrap();
            turn.note(number, asked(kind), found(number), saw_the_same);
        }
    }

    fn turn(arrived: Arrived) -> Turn {
        let patience = Duration::ZERO.into();
        arrived.wait(&patience, Cancel::never(), String::new).unwrap().unwrap()
    }

    fn asked(kind: &str) -> Asked {
        let asked = json!({
            "facets": ["files"], "databases": true, "transcripts": true, "settings": kind
        });
        serde_json::from_value(asked).unwrap()
    }

    fn found(number: u64) -> Found {
        let checkpoint = CheckpointId::new(Timestamp::from_millis(number as i64), 0);
        Found { checkpoint, unchanged: false }
    }

    #[test]
    fn a_capture_counts_for_those_who_came_before_it_began() {
        let place = Place::new();
        place.capture("z", false);
        let first = place.arrive();
        let mut leader = turn(place.arrive());
        let number = leader.begin().unwrap();
        let during = place.arrive();
        leader.note(number, asked("a"), found(number), false);
        drop(leader);
        let after = place.arrive();
        assert_eq!(turn(first).captures().count(), 1);
        assert_eq!(turn(during).captures().count(), 0);
        assert_eq!(turn(after).captures().count(), 0);
    }

    #[test]
    fn a_capture_that_was_never_noted_counts_for_nobody() {
        let place = Place::new();
        let first = place.arrive();
        assert_eq!(turn(place.arrive()).begin(), Some(1));
        let second = place.arrive();
        assert_eq!(turn(first).captures().count(), 0);
        place.capture("a", false);
        assert_eq!(turn(second).captures().count(), 1);
    }

    #[test]
    fn a_lost_note_makes_everybody_arrive_again() {
        for text in ["", "{\"version\":1}\n", "garbage"] {
            let place = Place::new();
            place.capture("a", false);
            let before = place.arrive();
            place.spoil(text);
            let unknown = place.arrive();
            // As many captures as there were before begin anew.
            place.capture("a", false);
            place.capture("a", false);
            assert_eq!(turn(before).captures().count(), 0, "{text:?}");
            assert_eq!(turn(unknown).captures().count(), 0, "{text:?}");
        }
    }

    #[test]
    fn a_note_that_is_lost_or_replaced_during_a_capture_offers_that_capture_to_nobody() {
        let place = Place::new();
        place.capture("a", false);
        let old = std::fs::read_to_string(place.0.path().join("queue")).unwrap();
        for text in ["", "garbage", &old] {
            let mut leader = turn(place.arrive());
            let number = leader.begin().unwrap();
            place.spoil(text);
            let during = place.arrive();
            leader.note(number, asked("a"), found(number), false);
            drop(leader);
            assert_eq!(turn(during).captures().count(), 0, "{text:?}");
            // The queue works again.
            let waiting = place.arrive();
            place.capture("a", false);
            assert_eq!(turn(waiting).captures().count(), 1, "{text:?}");
        }
    }

    #[test]
    fn captures_are_remembered_by_what_they_looked_at_while_they_saw_the_same() {
        let place = Place::new();
        place.capture("z", false);
        let first = place.arrive();
        place.capture("a", false);
        place.capture("b", true);
        place.capture("b", true);
        let second = place.arrive();
        assert_eq!(turn(first).captures().count(), 2);
        place.capture("c", false);
        let seen = turn(second);
        let kinds: Vec<&Asked> = seen.captures().map(|(capture, _)| &capture.asked).collect();
        assert_eq!(kinds, [&asked("c")]);
    }

    #[test]
    fn one_at_a_time_and_the_others_do_not_wait_for_ever() {
        let place = Place::new();
        let _leader = turn(place.arrive());
        let patience = Duration::from_millis(5).into();
        let waited = place.arrive().wait(&patience, Cancel::never(), String::new);
        assert!(waited.unwrap().is_none());
        let cancel = Cancel::default();
        cancel.cancel();
        let cancelled = place.arrive().wait(&patience, &cancel, String::new);
        assert!(cancelled.is_err());
    }
}
