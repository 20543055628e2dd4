//! `worktrees.tar.gz`: the files of all work trees, each member called by its absolute path without
//! the slash in front, as `tar` calls them.
//!
//! What is read was written by anybody. A member that shows bad will (an absolute path, `..`, the
//! same path twice, something below a file or link) has the whole archive refused. One that a real
//! work tree may hold and a checkpoint must not (a device, a link that leads out, a path that lies in no
//! work tree) is left out and named.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use flate2::read::MultiGzDecoder;
use flate2::{Compression, GzBuilder};
use rappel_types::git_name::is_git;
use rappel_types::path::{escape, unescape};
use rappel_types::{RelPath, Timestamp};
use tar::{Archive, Builder, EntryType, Header};

use crate::portable::{Content, File, Files};
use crate::spool::Spool;

/// An archive has no more members.
const MEMBERS_MAX: u64 = 4_000_000;
/// A name or a link's target is no longer, nor is what says so.
const NAME_MAX: u64 = 1 << 16;
/// What an archive may unpack to: this many times its size, but in any case the least and never more
/// than the most. Nothing that people keep in work trees is packed tighter.
const RATIO: u64 = 250;
const LEAST: u64 = 256 << 20;
const MOST: u64 = 64 << 30;
/// So many members that were left out are named.
const NAMED: usize = 20;

/// The permission bits that an archive may set.
const MODE: u32 = 0o777;

/// A work tree to which members belong.
pub(super) struct Tree {
    /// Its folder, absolute, as bytes.
    pub(super) path: Vec<u8>,
    /// Whether the path may stand behind others: the seed writes it without the home in front.
    pub(super) loose: bool,
}

/// What an archive holds of one work tree.
#[derive(Default)]
pub(super) struct Unpacked {
    pub(super) entries: BTreeMap<RelPath, File>,
    /// Whether something of it was left out.
    pub(super) lacks: bool,
    /// Whether it has any member, be it a folder.
    pub(super) is_there: bool,
}

/// What an archive holds.
pub(super) struct Found {
    /// By work tree, in the order in which they were given.
    pub(super) trees: Vec<Unpacked>,
    /// What was left out, a sentence each.
    pub(super) left_out: Vec<String>,
}

/// Reads an archive; the error is why it is refused.
pub(super) fn read(
    packed: &dyn Content,
    trees: &[Tree],
    spool: &mut Spool,
) -> Result<Found, String> {
    let limit = packed.len().saturating_mul(RATIO).clamp(LEAST, MOST);
    let broken = |error: io::Error| match is_bomb(&error) {
        true => format!("it unpacks to more than {limit} bytes"),
        false => format!("it cannot be unpacked: {error}"),
    };
    let packed = packed.open().map_err(broken)?;
    let unpacked = Limited { inner: MultiGzDecoder::new(packed), left: limit };
    let mut archive = Archive::new(unpacked);
    let mut reader = Reader::new(trees, spool);
    let entries = archive.entries().map_err(broken)?.raw(true);
    for (count, entry) in entries.enumerate() {
        if count as u64 >= MEMBERS_MAX {
            return Err(format!("it has more than {MEMBERS_MAX} members"));
        }
        reader.take(entry.map_err(broken)?).map_err(|refusal| match refusal {
            Refusal::Broken(error) => broken(error),
            Refusal::Because(reason) => reason,
        })?;
    }
    reader.finish()
}

/// Why nothing of an archive is taken.
enum Refusal {
    Broken(io::Error),
    Because(String),
}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Self {
        Self::Broken(error)
    }
}

fn because<T>(path: &[u8], reason: &str) -> Result<T, Refusal> {
    let shown = &path[..path.len().min(200)];
    Err(Refusal::Because(format!("its member {:?} {reason}", escape(shown))))
}

/// What the next member is called, where its header has no room for it.
#[derive(Default)]
struct Told {
    path: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
    modified: Option<i64>,
}

struct Reader<'a> {
    trees: &'a [Tree],
    spool: &'a mut Spool,
    found: Vec<Unpacked>,
    /// Files by what their members are called, for hard links.
    files: HashMap<Vec<u8>, File>,
    told: Told,
    left_out: Vec<String>,
    unnamed: u64,
}

impl<'a> Reader<'a> {
    fn new(trees: &'a [Tree], spool: &'a mut Spool) -> Self {
        let found = trees.iter().map(|_| Unpacked::default()).collect();
        let (files, told) = (HashMap::new(), Told::default());
        Self { trees, spool, found, files, told, left_out: Vec::new(), unnamed: 0 }
    }

    fn take<R: Read>(&mut self, mut member: tar::Entry<'_, R>) -> Result<(), Refusal> {
        let kind = member.header().entry_type();
        match kind {
            EntryType::GNULongName => {
                self.told.path = Some(trimmed(bounded(&mut member)?));
                return Ok(());
            }
            EntryType::GNULongLink => {
                self.told.link = Some(trimmed(bounded(&mut member)?));
                return Ok(());
            }
            EntryType::XHeader => {
                let text = bounded(&mut member)?;
                return self.extended(&text);
            }
            EntryType::XGlobalHeader => return Ok(()),
            _ => {}
        }
        let told = std::mem::take(&mut self.told);
        let name = told.path.unwrap_or_else(|| member.header().path_bytes().into_owned());
        let is_folder = kind == EntryType::Directory || name.ends_with(b"/");
        let name = name.strip_prefix(b"./").unwrap_or(&name);
        let name = name.strip_suffix(b"/").unwrap_or(name);
        if matches!(name, b"" | b".") && is_folder {
            return Ok(());
        }
        if name.starts_with(b"/") {
            return because(name, "has an absolute path");
        }
        if let Err(error) = RelPath::new(name) {
            return because(name, &format!("has an unusable path: {}", error.reason));
        }
        let Some((tree, path)) = self.place_of(name) else {
            let above = |tree: &Tree| {
                let path = tree.path.strip_prefix(b"/").unwrap_or(&tree.path);
                tree.loose || path.strip_prefix(name).is_some_and(|rest| rest.starts_with(b"/"))
            };
            if !(is_folder && self.trees.iter().any(above)) {
                self.leave_out(name, "lies in no work tree of checkpoint.json");
            }
            return Ok(());
        };
        self.found[tree].is_there = true;
        let Some(path) = path else { return Ok(()) };
        if is_folder || path.components().any(is_git) {
            return Ok(());
        }
        let modified = told.modified.or_else(|| member.header().mtime().ok()?.try_into().ok());
        let modified = modified.map(|seconds| Timestamp::from_millis(seconds.saturating_mul(1000)));
        let mode = member.header().mode().unwrap_or(0o644) & MODE;
        let link = match told.link {
            Some(link) => Some(link),
            None => member.header().link_name_bytes().map(std::borrow::Cow::into_owned),
        };
        let file = match kind {
            EntryType::Regular | EntryType::Continuous => {
                let size = member.size();
                let content = self.spool.add(&mut member, size)?;
                let file = File { is_link: false, mode, modified, content };
                self.files.insert(name.to_vec(), file.clone());
                file
            }
            EntryType::Symlink => {
                let Some(target) = link.filter(|target| is_target(target)) else {
                    return because(name, "is a link that leads nowhere");
                };
                if leads_out(&path, &target) {
                    self.leave_out(name, "is a link that leads out of its work tree");
                    self.found[tree].lacks = true;
                    return Ok(());
                }
                File { is_link: true, mode: 0o777, modified, content: Arc::new(target) }
            }
            EntryType::Link => {
                let target = link.unwrap_or_default();
                let target = target.strip_prefix(b"./").unwrap_or(&target);
                let Some(file) = self.files.get(target).cloned() else {
                    self.leave_out(name, "is a hard link to something that is not in it");
                    self.found[tree].lacks = true;
                    return Ok(());
                };
                self.files.insert(name.to_vec(), file.clone());
                file
            }
            EntryType::GNUSparse => return because(name, "is stored with holes"),
            EntryType::Char | EntryType::Block | EntryType::Fifo => {
                self.leave_out(name, "is a device or a pipe");
                self.found[tree].lacks = true;
                return Ok(());
            }
            _ => return because(name, "is of a kind that no work tree has"),
        };
        match self.found[tree].entries.insert(path, file) {
            None => Ok(()),
            Some(_) => because(name, "is in it twice"),
        }
    }

    /// A header of the POSIX form: lines `LENGTH KEY=VALUE`.
    fn extended(&mut self, text: &[u8]) -> Result<(), Refusal> {
        for (key, value) in pax(text).ok_or_else(|| {
            Refusal::Because("it has an extended header that makes no sense".to_owned())
        })? {
            match key {
                b"path" => self.told.path = Some(value.to_vec()),
                b"linkpath" => self.told.link = Some(value.to_vec()),
                b"mtime" => {
                    let whole = value.split(|&byte| byte == b'.').next().unwrap_or_default();
                    let text = std::str::from_utf8(whole).ok();
                    self.told.modified = text.and_then(|text| text.parse().ok());
                }
                b"size" => return because(b"", "is longer than its header can say"),
                key if key.starts_with(b"GNU.sparse.") => {
                    return because(b"", "is stored with holes");
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The work tree in which a member lies, and where in it; `None` is its folder itself.
    fn place_of(&self, name: &[u8]) -> Option<(usize, Option<RelPath>)> {
        let full = [b"/", name].concat();
        let below = |start: usize, tree: &Tree| {
            let rest = full[start..].strip_prefix(&*tree.path)?;
            (rest.is_empty() || rest.starts_with(b"/")).then_some(rest)
        };
        let exact = self
            .trees
            .iter()
            .enumerate()
            .filter_map(|(at, tree)| Some((tree.path.len(), at, below(0, tree)?)));
        let (_, at, rest) = exact.max_by_key(|(length, ..)| *length).or_else(|| {
            let starts = || full.iter().enumerate().filter(|(_, byte)| **byte == b'/');
            let loose = self.trees.iter().enumerate().filter(|(_, tree)| tree.loose);
            loose
                .filter_map(|(at, tree)| {
                    let rest = starts().find_map(|(start, _)| below(start, tree))?;
                    Some((tree.path.len(), at, rest))
                })
                .max_by_key(|(length, ..)| *length)
        })?;
        let path = rest.strip_prefix(b"/").map(RelPath::new).transpose().ok()?;
        Some((at, path))
    }

    fn leave_out(&mut self, name: &[u8], reason: &str) {
        match self.left_out.len() < NAMED {
            true => {
                let shown = &name[..name.len().min(200)];
                self.left_out.push(format!("{} {reason}", escape(shown)));
            }
            false => self.unnamed += 1,
        }
    }

    fn finish(mut self) -> Result<Found, String> {
        for Unpacked { entries, .. } in &self.found {
            for path in entries.keys() {
                if let Some(above) = path.ancestors().find(|above| entries.contains_key(above)) {
                    return Err(format!(
                        "its member {path} lies below {above}, which is no folder"
                    ));
                }
            }
        }
        if self.unnamed > 0 {
            self.left_out.push(format!("{} more members", self.unnamed));
        }
        Ok(Found { trees: self.found, left_out: self.left_out })
    }
}

fn bounded<R: Read>(member: &mut tar::Entry<'_, R>) -> Result<Vec<u8>, Refusal> {
    if member.size() > NAME_MAX {
        return Err(Refusal::Because("it has a name of more than 65536 bytes".to_owned()));
    }
    let mut bytes = Vec::new();
    member.take(NAME_MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn trimmed(mut bytes: Vec<u8>) -> Vec<u8> {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    bytes.truncate(end);
    bytes
}

/// The keys and values of an extended header; `None` if it has another form.
fn pax(mut text: &[u8]) -> Option<Vec<(&[u8], &[u8])>> {
    let mut found = Vec::new();
    while !text.is_empty() {
        let space = text.iter().position(|&byte| byte == b' ')?;
        let length: usize = std::str::from_utf8(&text[..space]).ok()?.parse().ok()?;
        let line = text.get(space + 1..length)?.strip_suffix(b"\n")?;
        let equals = line.iter().position(|&byte| byte == b'=')?;
        found.push((&line[..equals], &line[equals + 1..]));
        text = &text[length..];
    }
    Some(found)
}

/// Whether a link may lead there at all.
fn is_target(target: &[u8]) -> bool {
    !target.is_empty() && target.len() <= rappel_types::path::MAX_PATH && !target.contains(&0)
}

/// Whether a link at `path` leads out of the folder that the path is relative to.
fn leads_out(path: &RelPath, target: &[u8]) -> bool {
    if target.starts_with(b"/") {
        return true;
    }
    let mut depth = path.components().count() - 1;
    for component in target.split(|&byte| byte == b'/') {
        match component {
            b"" | b"." => {}
            b".." => match depth.checked_sub(1) {
                Some(above) => depth = above,
                None => return true,
            },
            _ => depth += 1,
        }
    }
    false
}

fn is_bomb(error: &io::Error) -> bool {
    let inner = error.get_ref();
    inner.is_some_and(<dyn std::error::Error + Send + Sync>::is::<Bomb>)
}

/// What a bomb is told by.
#[derive(Debug, thiserror::Error)]
#[error("too much")]
struct Bomb;

struct Limited<R> {
    inner: R,
    left: u64,
}

impl<R: Read> Read for Limited<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(out)?;
        self.left = self.left.checked_sub(read as u64).ok_or_else(|| io::Error::other(Bomb))?;
        Ok(read)
    }
}

/// Writes an archive of these work trees. The same files give the same bytes.
pub(super) fn write<W: Write>(out: W, trees: &[&Files], at: Timestamp) -> io::Result<W> {
    let packer = GzBuilder::new().mtime(0).write(out, Compression::default());
    let mut builder = Builder::new(packer);
    for files in trees {
        let root = unescape(&files.root).unwrap_or_else(|| files.root.clone().into_bytes());
        let root = root.strip_prefix(b"/").unwrap_or(&root);
        for (path, file) in &files.entries {
            let name = [root, b"/", path.as_bytes()].concat();
            let name = Path::new(OsStr::from_bytes(&name));
            let mut header = Header::new_gnu();
            header.set_mode(file.mode & MODE);
            let modified = file.modified.unwrap_or(at);
            header.set_mtime(modified.as_millis().div_euclid(1000).max(0) as u64);
            if file.is_link {
                let mut target = Vec::new();
                file.content.open()?.read_to_end(&mut target)?;
                header.set_entry_type(EntryType::Symlink);
                header.set_size(0);
                builder.append_link(&mut header, name, OsStr::from_bytes(&target))?;
                continue;
            }
            header.set_entry_type(EntryType::Regular);
            header.set_size(file.content.len());
            let content = file.content.open()?;
            builder.append_data(
                &mut header,
                name,
                Exactly { content, left: file.content.len() },
            )?;
        }
    }
    builder.into_inner()?.finish()
}

/// A content that has as many bytes as it says, or fails.
struct Exactly<'a> {
    content: Box<dyn Read + 'a>,
    left: u64,
}

impl Read for Exactly<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let most = out.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let read = self.content.read(&mut out[..most])?;
        if read == 0 && most > 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.left -= read as u64;
        Ok(read)
    }
}
