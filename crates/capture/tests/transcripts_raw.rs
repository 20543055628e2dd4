//! The bytes of transcripts in a checkpoint, and what a restore makes of them.

#![allow(clippy::unwrap_used, clippy::panic, clippy::disallowed_methods, reason = "tests may")]

use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::Mutex;
use std::time::{Duration, SystemTime};

use proptest::prelude::*;
use rappel_capture::agents::Provider;
use rappel_capture::agents::locate::{self, Role, Surroundings, Transcript};
use rappel_capture::agents::raw::{
    self, Captured, Care, Decision, Memo, Plan, Present, Standing, Why, decide,
};
use rappel_capture::files::stamp::{Stamp, Trust};
use rappel_store::Cancel;
use rappel_store::sink::{Role as Kind, Sink, Source};
use rappel_store::{content, tree};
use rappel_testing::MemoryStore;
use rappel_types::{Node, ObjectId};
use tempfile::TempDir;

/// An agent's home and a store.
struct Place {
    folder: TempDir,
    store: MemoryStore,
}

impl Place {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), store: MemoryStore::default() }
    }

    fn surroundings(&self) -> Surroundings {
        Surroundings::of(self.folder.path())
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(".claude/projects/-w").join(name)
    }

    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.at(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, bytes).unwrap();
        path
    }

    /// Writes a file and lets a tick of the file system's clock pass.
    fn write_settled(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.write(name, bytes);
        settle(&path);
        path
    }

    /// Writes a file that is being written right now, as far as its stamp tells.
    fn write_fresh(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.write(name, bytes);
        freshen(&path);
        path
    }

    fn transcripts(&self, names: &[&str]) -> Vec<Transcript> {
        let found = names.iter().map(|name| locate::named(&self.surroundings(), &self.at(name)));
        found.map(Option::unwrap).collect()
    }

    fn capture(&self, names: &[&str], memo: Option<&Memo>) -> Captured {
        raw::capture(&self.store, &self.transcripts(names), memo, Care::Growth, &Cancel::default())
            .unwrap()
    }

    fn stored(&self, tree: &ObjectId) -> Vec<(String, u32, Vec<u8>)> {
        let entries = tree::read(&self.store, tree).unwrap().into_iter();
        let files = entries.map(|entry| match entry.node {
            Node::File { mode, size, content } => {
                let bytes = content::read(&self.store, &content, size, 1 << 30).unwrap();
                (entry.path.to_string(), mode, bytes)
            }
            other => panic!("{other:?}"),
        });
        files.collect()
    }

    fn plan(&self, captured: &Captured, memo: Option<&Memo>) -> Plan {
        raw::plan(&self.store, &captured.tree, &self.surroundings(), memo).unwrap()
    }

    fn decisions(&self, captured: &Captured) -> Vec<Decision> {
        self.plan(captured, None).transcripts.iter().map(|planned| planned.decision).collect()
    }
}

fn set_modified(path: &Path, years: u64) {
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(years * 31_557_600);
    std::fs::OpenOptions::new().append(true).open(path).unwrap().set_modified(time).unwrap();
}

/// Gives a file a time to come, which is no proof of anything.
fn freshen(path: &Path) {
    set_modified(path, 200);
}

/// Waits until a file's stamp is older than a tick, by the clock that stamps files.
fn settle(path: &Path) {
    set_modified(path, 50);
    let folder = std::fs::File::open(path.parent().unwrap()).unwrap();
    let stamp = Stamp::of(&rustix::fs::stat(path).unwrap());
    while !Trust::start(&folder).unwrap().believes(&stamp) {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A store that does something in the middle of the first object, and counts.
struct Meddling<'a> {
    store: &'a MemoryStore,
    meddle: Mutex<Option<Box<dyn FnOnce() + Send + 'a>>>,
    puts: Mutex<usize>,
}

impl<'a> Meddling<'a> {
    fn with(store: &'a MemoryStore, meddle: impl FnOnce() + Send + 'a) -> Self {
        Self { store, meddle: Mutex::new(Some(Box::new(meddle))), puts: Mutex::default() }
    }
}

impl Source for Meddling<'_> {
    fn get(&self, id: &ObjectId) -> rappel_store::Result<Arc<[u8]>> {
        self.store.get(id)
    }
}

impl Sink for Meddling<'_> {
    fn put(
        &self,
        role: Kind,
        bytes: &[u8],
        base: Option<&ObjectId>,
    ) -> rappel_store::Result<ObjectId> {
        *self.puts.lock().unwrap() += usize::from(role != Kind::Structure);
        if let Some(meddle) = self.meddle.lock().unwrap().take() {
            meddle();
        }
        self.store.put(role, bytes, base)
    }
}

#[test]
fn the_tree_holds_every_byte_under_its_provider() {
    let place = Place::new();
    place.write("1.jsonl", "{\"a\":1}\n");
    place.write("1/subagents/agent-x.jsonl", "{}\n");
    let long = vec![b'x'; 3 << 20];
    place.write("1/tool-results/long.txt", &long);
    let names = ["1.jsonl", "1/subagents/agent-x.jsonl", "1/tool-results/long.txt"];
    let captured = place.capture(&names, None);
    assert!(captured.troubles.is_empty());
    assert_eq!((captured.files, captured.bytes), (3, 8 + 3 + (3 << 20)));
    let expected = [
        ("claude/projects/-w/1/subagents/agent-x.jsonl".to_owned(), 0o600, b"{}\n".to_vec()),
        ("claude/projects/-w/1/tool-results/long.txt".to_owned(), 0o600, long),
        ("claude/projects/-w/1.jsonl".to_owned(), 0o600, b"{\"a\":1}\n".to_vec()),
    ];
    assert_eq!(place.stored(&captured.tree), expected);
}

#[test]
fn what_is_unchanged_is_not_read_again() {
    let place = Place::new();
    place.write_settled("1.jsonl", "{\"a\":1}\n");
    place.write_settled("2.jsonl", "{\"b\":1}\n");
    let first = place.capture(&["1.jsonl", "2.jsonl"], None);
    let memo = Memo::from_json(&serde_json::to_vec(&first.memo).unwrap()).unwrap();
    place.write_settled("2.jsonl", "{\"b\":1}\n{\"b\":2}\n");
    let counting = Meddling::with(&place.store, || {});
    let transcripts = place.transcripts(&["1.jsonl", "2.jsonl"]);
    let second =
        raw::capture(&counting, &transcripts, Some(&memo), Care::Growth, &Cancel::default())
            .unwrap();
    assert_eq!(*counting.puts.lock().unwrap(), 1);
    let afresh = place.capture(&["1.jsonl", "2.jsonl"], None);
    assert_eq!(second.tree, afresh.tree);
    let nothing = Meddling::with(&place.store, || panic!("nothing is to be stored"));
    let third =
        raw::capture(&nothing, &transcripts, Some(&second.memo), Care::Growth, &Cancel::default())
            .unwrap();
    assert_eq!(third.tree, second.tree);
    let fewer = place.capture(&["2.jsonl"], Some(&second.memo));
    assert_eq!(fewer.tree, place.capture(&["2.jsonl"], None).tree);
}

#[test]
fn a_file_too_young_to_be_believed_is_read_again() {
    let place = Place::new();
    let path = place.write_fresh("1.jsonl", "{\"a\":1}\n");
    let transcripts = place.transcripts(&["1.jsonl"]);
    let first =
        raw::capture(&place.store, &transcripts, None, Care::Growth, &Cancel::default()).unwrap();
    // The same stamp is given again, as if the clock had not moved on.
    std::fs::write(&path, "{\"a\":2}\n").unwrap();
    let second = raw::capture(
        &place.store,
        &transcripts,
        Some(&first.memo),
        Care::Growth,
        &Cancel::default(),
    );
    assert_eq!(place.stored(&second.unwrap().tree)[0].2, b"{\"a\":2}\n");
}

#[test]
fn one_that_is_being_written_is_taken_up_to_its_last_line() {
    let place = Place::new();
    let whole = "{\"a\":1}\n".repeat(20_000);
    let path = place.write_fresh("1.jsonl", format!("{whole}{{\"half"));
    let first = place.capture(&["1.jsonl"], None);
    assert_eq!(place.stored(&first.tree)[0].2, whole.as_bytes());
    assert_eq!(place.decisions(&first), [Decision::LeaveItGrew]);
    // Left alone since, that is how it ends.
    settle(&path);
    let second = place.capture(&["1.jsonl"], Some(&first.memo));
    assert_eq!(place.stored(&second.tree)[0].2, std::fs::read(&path).unwrap());
    assert_eq!(place.decisions(&second), [Decision::Same]);
    place.write_fresh("2.jsonl", "not one line");
    assert_eq!(place.stored(&place.capture(&["2.jsonl"], None).tree)[0].2, b"");
}

#[test]
fn one_that_grows_while_it_is_read_is_taken_as_it_was() {
    let place = Place::new();
    let path = place.write_settled("1.jsonl", "{\"a\":1}\n");
    let sink = Meddling::with(&place.store, || {
        let mut file = std::fs::OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(b"{\"a\":2}\n{\"a").unwrap();
        freshen(&path);
    });
    let transcripts = place.transcripts(&["1.jsonl"]);
    let captured =
        raw::capture(&sink, &transcripts, None, Care::Growth, &Cancel::default()).unwrap();
    assert_eq!(place.stored(&captured.tree)[0].2, b"{\"a\":1}\n");
    let next = place.capture(&["1.jsonl"], Some(&captured.memo));
    assert_eq!(place.stored(&next.tree)[0].2, b"{\"a\":1}\n{\"a\":2}\n");
}

#[test]
fn one_that_is_rewritten_while_it_is_read_is_read_again() {
    let place = Place::new();
    let path = place.write_settled("1.jsonl", "{\"a\":1}\n{\"a\":2}\n");
    let sink = Meddling::with(&place.store, || std::fs::write(&path, "{\"b\":1}\n").unwrap());
    let transcripts = place.transcripts(&["1.jsonl"]);
    let captured =
        raw::capture(&sink, &transcripts, None, Care::Growth, &Cancel::default()).unwrap();
    assert_eq!(place.stored(&captured.tree)[0].2, b"{\"b\":1}\n");
}

#[test]
fn what_cannot_be_taken_is_named_and_what_is_gone_is_not() {
    let place = Place::new();
    place.write("1.jsonl", "{}\n");
    let gone = place.write("2.jsonl", "{}\n");
    let linked = place.write("3.jsonl", "{}\n");
    let transcripts = place.transcripts(&["1.jsonl", "2.jsonl", "3.jsonl"]);
    std::fs::remove_file(gone).unwrap();
    std::fs::remove_file(&linked).unwrap();
    symlink(place.at("1.jsonl"), linked).unwrap();
    let captured =
        raw::capture(&place.store, &transcripts, None, Care::Growth, &Cancel::default()).unwrap();
    assert_eq!(captured.files, 1);
    let troubles: Vec<String> =
        captured.troubles.iter().map(|(path, _)| path.to_string()).collect();
    assert_eq!(troubles, ["claude/projects/-w/3.jsonl"]);
}

#[test]
fn a_home_that_went_away_is_named() {
    let place = Place::new();
    place.write("1.jsonl", "{}\n");
    let transcripts = place.transcripts(&["1.jsonl"]);
    std::fs::remove_dir_all(place.folder.path().join(".claude")).unwrap();
    let captured =
        raw::capture(&place.store, &transcripts, None, Care::Growth, &Cancel::default()).unwrap();
    assert_eq!((captured.files, captured.troubles.len()), (0, 1));
}

#[test]
fn a_capture_can_be_stopped() {
    let place = Place::new();
    place.write("1.jsonl", "{}\n");
    let stop = Cancel::default();
    stop.cancel();
    let stopped =
        raw::capture(&place.store, &place.transcripts(&["1.jsonl"]), None, Care::Growth, &stop);
    assert!(matches!(stopped, Err(rappel_capture::Error::Cancelled)));
    let stop = Cancel::default();
    let sink = Meddling::with(&place.store, || stop.cancel());
    let stopped = raw::capture(&sink, &place.transcripts(&["1.jsonl"]), None, Care::Growth, &stop);
    assert!(matches!(stopped, Err(rappel_capture::Error::Cancelled)));
}

#[test]
fn a_decision_is_made_by_what_stands_there() {
    let file = |size, agrees| Standing::File(Present { size, agrees });
    for (now, expected) in [
        (Standing::Nothing, Decision::PutBack(Why::Missing)),
        (Standing::Other, Decision::PutBack(Why::Changed)),
        (file(10, 10), Decision::Same),
        (file(11, 10), Decision::LeaveItGrew),
        (file(9, 9), Decision::PutBack(Why::Truncated)),
        (file(0, 0), Decision::PutBack(Why::Truncated)),
        (file(10, 9), Decision::PutBack(Why::Changed)),
        (file(12, 3), Decision::PutBack(Why::Changed)),
        (file(8, 3), Decision::PutBack(Why::Changed)),
    ] {
        assert_eq!(decide(now, 10), expected, "{now:?}");
    }
    assert_eq!(decide(file(0, 0), 0), Decision::Same);
    assert_eq!(decide(file(5, 0), 0), Decision::LeaveItGrew);
}

#[test]
fn a_restore_knows_what_became_of_each_transcript() {
    let place = Place::new();
    let names =
        ["cut.jsonl", "gone.jsonl", "grew.jsonl", "other.jsonl", "same.jsonl", "swapped.jsonl"];
    let long = "{\"a\":1}\n".repeat(400_000);
    for name in names {
        place.write(name, &long);
    }
    let captured = place.capture(&names, None);
    place.write("cut.jsonl", &long[..long.len() - 8]);
    std::fs::remove_file(place.at("gone.jsonl")).unwrap();
    place.write("grew.jsonl", format!("{long}{{}}\n"));
    let mut other = long.clone().into_bytes();
    other[2_000_000] ^= 1;
    place.write("other.jsonl", other);
    std::fs::remove_file(place.at("swapped.jsonl")).unwrap();
    symlink(place.at("same.jsonl"), place.at("swapped.jsonl")).unwrap();
    let expected = [
        Decision::PutBack(Why::Truncated),
        Decision::PutBack(Why::Missing),
        Decision::LeaveItGrew,
        Decision::PutBack(Why::Changed),
        Decision::Same,
        Decision::PutBack(Why::Changed),
    ];
    assert_eq!(place.decisions(&captured), expected);
    let plan = place.plan(&captured, None);
    let grew = &plan.transcripts[2];
    assert_eq!(
        (grew.provider, &grew.root),
        (Provider::Claude, &place.folder.path().join(".claude"))
    );
    assert_eq!(grew.path.to_string(), "projects/-w/grew.jsonl");
    assert!(plan.unknown.is_empty());
    std::fs::remove_dir_all(place.folder.path().join(".claude")).unwrap();
    assert_eq!(place.decisions(&captured), [Decision::PutBack(Why::Missing); 6]);
}

#[test]
fn one_that_its_agent_moved_is_no_missing_one() {
    let place = Place::new();
    let home = place.folder.path();
    let rollout = ".codex/sessions/2026/11/16/rollout-2026-11-16T19-56-00-0000.jsonl";
    let archived = ".codex/archived_sessions/rollout-2026-11-16T19-56-00-0000.jsonl";
    let worktree = ".claude/projects/-w--claude-worktrees-x/1.jsonl";
    let put = |name: &str| {
        let path = home.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, "{}\n").unwrap();
        path
    };
    let paths = [place.write("1.jsonl", "{}\n"), put(rollout)];
    put(".codex/sessions/2026/11/16/rollout-2026-11-16T19-56-00-0001.jsonl");
    put(".claude/projects/-other/2.jsonl");
    let found = paths.iter().map(|path| locate::named(&place.surroundings(), path).unwrap());
    let found: Vec<Transcript> = found.collect();
    let captured = raw::capture(&place.store, &found, None, Care::Growth, &Cancel::default());
    let captured = captured.unwrap();
    let moved = || -> Vec<(Decision, Option<String>)> {
        let plan = place.plan(&captured, None).transcripts.into_iter();
        plan.map(|one| (one.decision, one.moved.map(|(path, _)| path.to_string()))).collect()
    };
    for path in &paths {
        std::fs::remove_file(path).unwrap();
    }
    let missing = (Decision::PutBack(Why::Missing), None);
    assert_eq!(moved(), [missing.clone(), missing]);
    put(worktree);
    for rollout in [archived.to_owned(), format!("{rollout}.zst"), format!("{archived}.zst")] {
        let path = put(&rollout);
        let at = |path: &str| Some(path.split_once('/').unwrap().1.to_owned());
        let left = |path: &str| (Decision::LeaveItMoved, at(path));
        assert_eq!(moved(), [left(worktree), left(&rollout)]);
        std::fs::remove_file(path).unwrap();
    }
}

#[test]
fn a_plan_believes_the_newest_capture() {
    let place = Place::new();
    place.write_settled("1.jsonl", "{}\n");
    let captured = place.capture(&["1.jsonl"], None);
    let empty = MemoryStore::default();
    let entries = tree::read(&place.store, &captured.tree).unwrap();
    let only_tree = tree::write(&empty, &entries).unwrap();
    let surroundings = place.surroundings();
    let plan = raw::plan(&empty, &only_tree, &surroundings, Some(&captured.memo)).unwrap();
    assert_eq!(plan.transcripts[0].decision, Decision::Same, "without the content to compare with");
    assert!(raw::plan(&empty, &only_tree, &surroundings, None).is_err());
}

#[test]
fn paths_of_agents_to_come_are_named() {
    let place = Place::new();
    place.write("1.jsonl", "{}\n");
    let captured = place.capture(&["1.jsonl"], None);
    let mut entries = tree::read(&place.store, &captured.tree).unwrap();
    entries[0].path = "newcomer/x.jsonl".parse().unwrap();
    let tree = tree::write(&place.store, &entries).unwrap();
    let plan = raw::plan(&place.store, &tree, &place.surroundings(), None).unwrap();
    assert!(plan.transcripts.is_empty());
    assert_eq!(plan.unknown[0].to_string(), "newcomer/x.jsonl");
}

#[test]
fn roles_are_known_by_the_path() {
    let place = Place::new();
    place.write("1/tool-results/x.jsonl", "half");
    let transcripts = place.transcripts(&["1/tool-results/x.jsonl"]);
    assert_eq!(transcripts[0].role, Role::Output);
    let captured = place.capture(&["1/tool-results/x.jsonl"], None);
    assert_eq!(place.stored(&captured.tree)[0].2, b"half", "an output has no lines to complete");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever the two contents are, the decision is the one that the whole contents give.
    #[test]
    fn decisions_agree_with_the_contents(
        then in "[ab\n]{0,6}",
        now in prop::option::of("[ab\n]{0,6}"),
    ) {
        let place = Place::new();
        place.write_settled("1.jsonl", &then);
        let captured = place.capture(&["1.jsonl"], None);
        match &now {
            Some(now) => drop(place.write("1.jsonl", now)),
            None => std::fs::remove_file(place.at("1.jsonl")).unwrap(),
        }
        let expected = match &now {
            None => Decision::PutBack(Why::Missing),
            Some(now) if *now == then => Decision::Same,
            Some(now) if now.starts_with(&then) => Decision::LeaveItGrew,
            Some(now) if then.starts_with(now) => Decision::PutBack(Why::Truncated),
            Some(_) => Decision::PutBack(Why::Changed),
        };
        prop_assert_eq!(place.decisions(&captured), [expected]);
    }
}

/// Lines that are all different, so that chunks end at many places.
fn lines(count: usize, seed: u64) -> Vec<u8> {
    let mut state = seed;
    let mut text = Vec::new();
    for number in 0..count {
        let mut word = String::new();
        for _ in 0..20 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            word.push_str(&format!("{:08x}", state >> 32));
        }
        text.extend(format!("{{\"n\":{number},\"text\":\"{word}\"}}\n").into_bytes());
    }
    text
}

fn append(path: &Path, bytes: &[u8]) {
    std::fs::OpenOptions::new().append(true).open(path).unwrap().write_all(bytes).unwrap();
}

/// Some eight megabytes.
const MANY: usize = 45_000;

#[test]
fn one_that_grew_costs_its_new_bytes() {
    let place = Place::new();
    let path = place.write_settled("1.jsonl", lines(MANY, 1));
    let mut last = place.capture(&["1.jsonl"], None);
    for (round, more) in [1, 3_000, 10, 1, 20_000].into_iter().enumerate() {
        append(&path, &lines(more, 7 + round as u64));
        settle(&path);
        let counting = Meddling::with(&place.store, || {});
        let transcripts = place.transcripts(&["1.jsonl"]);
        let cancel = Cancel::default();
        let memo = Memo::from_json(&serde_json::to_vec(&last.memo).unwrap()).unwrap();
        last = raw::capture(&counting, &transcripts, Some(&memo), Care::Growth, &cancel).unwrap();
        // A chunk has 64 KiB at least, and a line some 190 bytes.
        let puts = *counting.puts.lock().unwrap();
        assert!(puts <= 2 + more * 190 / (64 << 10), "{puts} pieces were stored for {more} lines");
        assert_eq!(last.tree, place.capture(&["1.jsonl"], None).tree, "after {more} lines");
        assert_eq!(place.stored(&last.tree)[0].2, std::fs::read(&path).unwrap());
    }
}

/// What somebody does to a transcript.
type Rewrite = Box<dyn Fn(&Path)>;

#[test]
fn one_that_was_rewritten_is_not_taken_for_one_that_grew() {
    let before = lines(MANY, 1);
    let other = lines(MANY, 2);
    let half = before.len() / 2;
    let changed = |at: usize| {
        let mut bytes = before.clone();
        bytes[at] ^= 1;
        bytes
    };
    let grown = |bytes: &[u8]| [bytes, &other[..200_000]].concat();
    let over = |bytes: Vec<u8>| -> Rewrite {
        // In place: the same file, no byte of it cut off first.
        Box::new(move |path| {
            let mut file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
            file.write_all(&bytes).unwrap();
        })
    };
    let anew =
        |bytes: Vec<u8>| -> Rewrite { Box::new(move |path| std::fs::write(path, &bytes).unwrap()) };
    let replaced = |bytes: Vec<u8>| -> Rewrite {
        Box::new(move |path| {
            let beside = path.with_extension("new");
            std::fs::write(&beside, &bytes).unwrap();
            std::fs::rename(beside, path).unwrap();
        })
    };
    let ways: [(&str, Rewrite); 8] = [
        ("rewritten in place with the same size", over(changed(half))),
        ("its first line changed, and grown", over(grown(&changed(10)))),
        ("its last line changed, and grown", over(grown(&changed(before.len() - 10)))),
        ("cut, and grown again", anew([&before[..half], &other[..]].concat())),
        ("emptied, and written with other lines", anew([&other[..], &before[..]].concat())),
        (
            "a line put in, and grown",
            anew(grown(&[&before[..half], b"{}\n", &before[half..]].concat())),
        ),
        ("replaced by another file with another middle", replaced(grown(&changed(half)))),
        ("cut, and not grown again", anew(before[..half].to_vec())),
    ];
    for (what, rewrite) in ways {
        let place = Place::new();
        let path = place.write_settled("1.jsonl", &before);
        let first = place.capture(&["1.jsonl"], None);
        rewrite(&path);
        settle(&path);
        let second = place.capture(&["1.jsonl"], Some(&first.memo));
        assert!(place.stored(&second.tree)[0].2 == std::fs::read(&path).unwrap(), "{what}");
    }
}

/// No file system tells an append from a change in place before it. Such a change is not missed for
/// ever, and not at all where a restore may displace the file.
#[test]
fn a_change_in_the_middle_of_one_that_grew_is_noticed_in_turn_and_by_whoever_reads_all() {
    let place = Place::new();
    let mut bytes = lines(MANY, 1);
    let path = place.write_settled("1.jsonl", &bytes);
    let first = place.capture(&["1.jsonl"], None);
    let half = bytes.len() / 2;
    bytes[half] ^= 1;
    bytes.extend(lines(1, 3));
    let mut file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.write_all(&bytes).unwrap();
    settle(&path);
    let transcripts = place.transcripts(&["1.jsonl"]);
    let cancel = Cancel::default();
    let taken = |memo: &Memo, care| {
        raw::capture(&place.store, &transcripts, Some(memo), care, &cancel).unwrap()
    };
    let now = |captured: &Captured| place.stored(&captured.tree)[0].2 == bytes;
    assert!(now(&taken(&first.memo, Care::Whole)));
    let grown = taken(&first.memo, Care::Growth);
    // Its stamp is believed now, but not by one that reads all.
    assert!(now(&taken(&grown.memo, Care::Whole)));
    let mut last = grown;
    let mut turns = 0;
    loop {
        append(&path, &lines(1, 5));
        settle(&path);
        last = place.capture(&["1.jsonl"], Some(&last.memo));
        turns += 1;
        if place.stored(&last.tree)[0].2 == std::fs::read(&path).unwrap() {
            break;
        }
        assert!(turns < 10, "a MiB is read again each time, and there are eight");
    }
}
