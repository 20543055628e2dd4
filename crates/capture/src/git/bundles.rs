//! The objects of a repository: what of them the home lacks goes into a bundle, a git pack with a
//! sorted list of what is in it. A checkpoint names all bundles it needs, so it stands by itself.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::sync::Arc;

use gix_index::hash::ObjectId as Oid;
use rappel_store::Cancel;
use rappel_store::content;
use rappel_store::sink::{Sink, Source};
use rappel_store::threads;
use rappel_types::{Content, Node};

use super::place::Place;
use super::program::{Git, Trouble};
use crate::error::{Error, Result};

/// More bundles than these are brought together into fewer.
pub const MOST: usize = 64;
/// How many of the largest ones stay as they are when that happens.
const LARGEST: usize = 8;

/// A bundle: the pack, and the names of the objects in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bundle {
    /// Its name: the checksum at the pack's end.
    pub name: String,
    /// The pack.
    pub pack: Node,
    /// The names of its objects, sorted, without anything between them.
    pub ids: Node,
    /// Those names, where the bundle was just made: what is not committed cannot be read back.
    pub listed: Option<Arc<[u8]>>,
}

/// What becomes of an attempt to take objects.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// Git could not give them.
    #[error("{0}")]
    Git(Trouble),
    /// Something else.
    #[error(transparent)]
    Other(#[from] Error),
}

impl From<Trouble> for Failure {
    fn from(trouble: Trouble) -> Self {
        Self::Git(trouble)
    }
}

impl From<rappel_store::Error> for Failure {
    fn from(error: rappel_store::Error) -> Self {
        Self::Other(error.into())
    }
}

#[allow(clippy::needless_pass_by_value, reason = "for `map_err`")]
fn broken(error: std::io::Error) -> Failure {
    Failure::Git(Trouble::Failed(error.to_string()))
}

/// The objects that bundles hold, to be asked.
#[derive(Debug)]
pub struct Known {
    width: usize,
    /// The lists with their places, the longest first: most objects are in that one.
    lists: Vec<(usize, Arc<[u8]>)>,
}

impl Known {
    /// Reads the lists of `bundles`; one that cannot be read any more counts as empty.
    pub fn of(bundles: &[Bundle], width: usize, source: &dyn Source) -> Self {
        let lists = bundles.iter().map(|bundle| {
            let list = bundle.listed.clone().or_else(|| bytes_of(source, &bundle.ids));
            list.filter(|list| list.len() % width == 0).unwrap_or_default()
        });
        let mut lists: Vec<(usize, Arc<[u8]>)> = lists.enumerate().collect();
        lists.sort_by_key(|(_, list)| std::cmp::Reverse(list.len()));
        Self { width, lists }
    }

    /// Which of the bundles has the object.
    pub fn find(&self, oid: &Oid) -> Option<usize> {
        let wanted = oid.as_bytes();
        let found = self.lists.iter().find(|(_, list)| {
            let (mut low, mut high) = (0, list.len() / self.width);
            while low < high {
                let middle = usize::midpoint(low, high);
                let at = &list[middle * self.width..(middle + 1) * self.width];
                match at.cmp(wanted) {
                    std::cmp::Ordering::Equal => return true,
                    std::cmp::Ordering::Less => low = middle + 1,
                    std::cmp::Ordering::Greater => high = middle,
                }
            }
            false
        });
        found.map(|(at, _)| *at)
    }
}

/// The bytes of a stored file.
pub fn bytes_of(source: &dyn Source, node: &Node) -> Option<Arc<[u8]>> {
    let Node::File { size, content, .. } = node else { return None };
    match content {
        Content::Whole(id) => source.get(id).ok(),
        Content::Chunked(_) => content::read(source, content, *size, *size).ok().map(Into::into),
    }
}

/// What was found of the objects that a repository needs.
#[derive(Debug, Default)]
pub struct Taken {
    /// The objects that were not known, if there are any.
    pub bundle: Option<Bundle>,
    /// Which of the known bundles are needed.
    pub used: BTreeSet<usize>,
    /// Objects that are named and nowhere to be found.
    pub missing: BTreeSet<Oid>,
}

/// The same as [`take`] for a few new commits on top of what is settled, several times faster: a
/// commit adds what it changes against each of its parents. `None` where there is more to it.
pub fn take_commits(
    place: &Place,
    wanted: &BTreeSet<Oid>,
    staged: &BTreeSet<Oid>,
    settled: &BTreeSet<Oid>,
    known: &Known,
    sink: &dyn Sink,
) -> Result<Option<Taken>, Failure> {
    if wanted.is_empty() && !place.reftable {
        return Ok(Some(Taken::default()));
    }
    if settled.is_empty() || place.reftable || place.partial_clone {
        return Ok(None);
    }
    let commits: BTreeSet<Oid> = wanted.difference(staged).copied().collect();
    let mut input: String = commits.iter().map(|oid| format!("{oid}\n")).collect();
    input.extend(settled.iter().map(|oid| format!("^{oid}\n")));
    let git = place.git();
    let changes = ["log", "--stdin", "--format=%H %T", "--raw", "-t", "-r", "-m", "--root"];
    let plainly = ["--no-abbrev", "--no-renames", "--no-show-signature", "--ignore-missing"];
    let Ok(answer) = git.ask(&[&changes[..], &plainly[..]].concat(), input.as_bytes()) else {
        return Ok(None);
    };
    let mut found: BTreeMap<Oid, &[u8]> = BTreeMap::new();
    let mut listed: BTreeSet<Oid> = BTreeSet::new();
    for line in answer.split(|&b| b == b'\n').filter(|line| !line.is_empty()) {
        let (fields, path) = match line.iter().position(|&b| b == b'\t') {
            Some(tab) => (&line[..tab], &line[tab + 1..]),
            None => (line, &[][..]),
        };
        let words: Vec<&[u8]> = fields.split(|&b| b == b' ').collect();
        let new: &[&[u8]] = match words[..] {
            // Another repository's commit is not among these objects.
            [_, b"160000", ..] => &[],
            [old, _, _, new, _] if old.starts_with(b":") => &[new],
            [commit, tree] => {
                listed.extend(Oid::from_hex(commit));
                &[commit, tree]
            }
            _ => return Ok(None),
        };
        let named = new.iter().filter_map(|hex| Oid::from_hex(hex).ok());
        found.extend(named.filter(|oid| !oid.is_null()).map(|oid| (oid, path)));
    }
    // Tags, trees and what is missing need a closer look.
    if commits.iter().any(|oid| !listed.contains(oid) && known.find(oid).is_none()) {
        return Ok(None);
    }
    found.extend(wanted.intersection(staged).map(|oid| (*oid, &[][..])));
    let mut packer = Packer::new(git);
    for (oid, path) in found.into_iter().filter(|(oid, _)| known.find(oid).is_none()) {
        packer.add(oid, &[oid.to_string().as_bytes(), b" ", path].concat())?;
    }
    let Ok(bundle) = packer.finish(sink) else { return Ok(None) };
    Ok(Some(Taken { bundle, ..Taken::default() }))
}

/// Takes everything that is reachable from `wanted`, but not from `settled`, and not known.
pub fn take(
    place: &Place,
    wanted: &BTreeSet<Oid>,
    settled: &BTreeSet<Oid>,
    known: &Known,
    sink: &dyn Sink,
    cancel: &Cancel,
) -> Result<Taken, Failure> {
    let mut taken = Taken::default();
    if wanted.is_empty() && !place.reftable {
        return Ok(taken);
    }
    let mut input = String::new();
    for oid in wanted {
        input.push_str(&format!("{oid}\n"));
    }
    for oid in settled {
        input.push_str(&format!("^{oid}\n"));
    }
    let mut unseen = wanted.clone();
    let git = place.git();
    let mut args = vec!["rev-list", "--objects", "--ignore-missing", "--missing=print", "--stdin"];
    if place.reftable {
        args.push("--reflog");
    }
    let mut walk = git.start(&args)?;
    let stdin = walk.child.stdin.take();
    let stdout = walk.child.stdout.take();
    let mut packer = Packer::new(git);
    let listed = std::thread::scope(|scope| -> Result<(), Failure> {
        let feed = move || stdin.map(|mut stdin| stdin.write_all(input.as_bytes()));
        threads::start_in(scope, feed).map_err(broken)?;
        let mut lines = BufReader::with_capacity(64 << 10, stdout.ok_or_else(no_pipe)?);
        let mut line = Vec::new();
        loop {
            line.clear();
            if lines.read_until(b'\n', &mut line).map_err(broken)? == 0 {
                return Ok(());
            }
            if cancel.is_cancelled() {
                return Err(Failure::Other(Error::Cancelled));
            }
            let hex = line.split(|b| matches!(b, b' ' | b'\n')).next().unwrap_or_default();
            if let Some(hex) = hex.strip_prefix(b"?") {
                taken.missing.extend(Oid::from_hex(hex));
                continue;
            }
            let Ok(oid) = Oid::from_hex(hex) else { continue };
            unseen.remove(&oid);
            match known.find(&oid) {
                Some(at) => {
                    taken.used.insert(at);
                }
                None => packer.add(oid, &line)?,
            }
        }
    });
    listed?;
    walk.succeed()?;
    // What is not listed is behind something settled, or nowhere.
    taken.missing.extend(unseen.into_iter().filter(|oid| known.find(oid).is_none()));
    taken.bundle = packer.finish(sink)?;
    Ok(taken)
}

fn no_pipe() -> Failure {
    Failure::Git(Trouble::Failed("no pipe".into()))
}

/// Git making a pack of what it is told.
struct Packer<'a> {
    git: Git<'a>,
    running: Option<super::program::Running>,
    ids: Vec<Oid>,
    /// Lines that wait until there are enough of them.
    lines: Vec<u8>,
}

impl<'a> Packer<'a> {
    fn new(git: Git<'a>) -> Self {
        Self { git, running: None, ids: Vec::new(), lines: Vec::new() }
    }

    /// One more object; `line` has its name and where it was found, which helps git to compress.
    fn add(&mut self, oid: Oid, line: &[u8]) -> Result<(), Failure> {
        self.ids.push(oid);
        self.lines.extend_from_slice(line);
        if !line.ends_with(b"\n") {
            self.lines.push(b'\n');
        }
        if self.lines.len() > 60 << 10 { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), Failure> {
        if self.running.is_none() {
            let args = ["pack-objects", "--stdout", "--delta-base-offset", "--quiet"];
            self.running = Some(self.git.start(&args)?);
        }
        if let Some(stdin) = self.running.as_mut().and_then(|running| running.child.stdin.as_mut())
        {
            // Git says why it stopped listening when it is asked for its end.
            let _ = stdin.write_all(&self.lines);
        }
        self.lines.clear();
        Ok(())
    }

    /// The pack and its list; `None` if nothing was added.
    fn finish(mut self, sink: &dyn Sink) -> Result<Option<Bundle>, Failure> {
        if self.ids.is_empty() {
            return Ok(None);
        }
        self.flush()?;
        let Some(mut running) = self.running.take() else { return Ok(None) };
        drop(running.child.stdin.take());
        let stdout = running.child.stdout.take().ok_or_else(no_pipe)?;
        let mut pack = Watched { inner: stdout, head: Vec::new(), tail: Vec::new() };
        let (content, size) = content::store(sink, &mut pack, 0, None)?;
        running.succeed()?;
        self.ids.sort_unstable();
        self.ids.dedup();
        let width = self.ids[0].as_bytes().len();
        let promised = pack
            .head
            .get(8..12)
            .map(|count| count.iter().fold(0usize, |sum, byte| sum << 8 | usize::from(*byte)));
        if promised != Some(self.ids.len()) || pack.tail.len() < width {
            return Err(Failure::Git(Trouble::Failed("it gave an incomplete pack".into())));
        }
        let name: String =
            pack.tail[pack.tail.len() - width..].iter().map(|byte| format!("{byte:02x}")).collect();
        let mut list = Vec::with_capacity(self.ids.len() * width);
        self.ids.iter().for_each(|oid| list.extend_from_slice(oid.as_bytes()));
        let pack = Node::File { mode: 0o444, size, content };
        let (content, size) = content::store(sink, &mut &list[..], list.len() as u64, None)?;
        let ids = Node::File { mode: 0o444, size, content };
        Ok(Some(Bundle { name, pack, ids, listed: Some(list.into()) }))
    }
}

/// Remembers the first and last bytes that pass.
struct Watched<R> {
    inner: R,
    head: Vec<u8>,
    tail: Vec<u8>,
}

impl<R: Read> Read for Watched<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.inner.read(buffer)?;
        let bytes = &buffer[..read];
        let missing = 12usize.saturating_sub(self.head.len()).min(read);
        self.head.extend_from_slice(&bytes[..missing]);
        self.tail.extend_from_slice(&bytes[read.saturating_sub(32)..]);
        let surplus = self.tail.len().saturating_sub(32);
        self.tail.drain(..surplus);
        Ok(read)
    }
}

/// Brings the smaller of too many stored bundles together into one. Objects that the repository
/// does not have any more are left out: nothing that it has needs them.
pub fn gather(
    place: &Place,
    mut bundles: Vec<Bundle>,
    sink: &dyn Sink,
) -> Result<Vec<Bundle>, Failure> {
    if bundles.len() < MOST {
        return Ok(bundles);
    }
    let size = |bundle: &Bundle| match &bundle.pack {
        Node::File { size, .. } => *size,
        _ => 0,
    };
    bundles.sort_by_key(|bundle| std::cmp::Reverse(size(bundle)));
    let small = bundles.split_off(LARGEST);
    let mut wanted: BTreeSet<Oid> = BTreeSet::new();
    for bundle in &small {
        let Node::File { size, content, .. } = &bundle.ids else { continue };
        let list = content::read(sink, content, *size, *size)?;
        let names = list.chunks_exact(place.hash.len_in_bytes());
        wanted.extend(names.filter_map(|name| Oid::try_from(name).ok()));
    }
    let git = place.git();
    let input: String = wanted.iter().map(|oid| format!("{oid}\n")).collect();
    let check = ["cat-file", "--batch-check=%(objectname) %(objecttype)"];
    let answer = git.ask(&check, input.as_bytes())?;
    let mut packer = Packer::new(git);
    for line in answer.split(|&b| b == b'\n').filter(|line| !line.ends_with(b" missing")) {
        let hex = line.split(|&b| b == b' ').next().unwrap_or_default();
        if let Ok(oid) = Oid::from_hex(hex) {
            packer.add(oid, hex)?;
        }
    }
    bundles.extend(packer.finish(sink)?);
    Ok(bundles)
}
