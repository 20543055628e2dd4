//! Files of git's folder that git cannot read: torn by a power loss, overwritten, gone, or a folder
//! in their place. A capture keeps their bytes and says so. A restore puts them back as files before
//! it asks git for anything, and an undo puts them last where they were, since git answers nothing
//! after that.

use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rappel_store::held;
use rappel_store::sink::Source;
use rappel_types::{Node, RelPath};

use super::bundles::bytes_of;
use super::folder::{Role, is_folder_of_git, role, split};
use super::linked;
use super::live::refs_of_files;
use super::place::Place;
use super::program::{Git, Trouble};
use super::refs::Refs;
use super::state::State;

/// How a file's bytes are had.
pub type Text<'a> = &'a mut dyn FnMut(&RelPath) -> Option<Vec<u8>>;

/// The bytes of a file in git's folder as they are right now.
pub fn live_text(common_dir: &Path) -> impl FnMut(&RelPath) -> Option<Vec<u8>> {
    move |path| held::read(common_dir.join(std::ffi::OsStr::from_bytes(path.as_bytes()))).ok()
}

/// Everything that git has to read and cannot. `spoilt` are the refs among it.
pub(super) fn unreadable<'i>(
    place: &Place,
    items: &(impl Iterator<Item = (&'i RelPath, &'i Node)> + Clone),
    mut spoilt: BTreeSet<RelPath>,
    text: Text<'_>,
) -> BTreeSet<RelPath> {
    let is = |name: &RelPath, fits: fn(&Node) -> bool| {
        items.clone().any(|(path, node)| path == name && fits(node))
    };
    let own = RelPath::new([&*place.own_prefix(), b"HEAD"].concat()).ok();
    let heads = [own, RelPath::new("HEAD").ok()];
    spoilt.extend(heads.into_iter().flatten().filter(|head| !is(head, |node| !is_folder(node))));
    let named = |name: &str| RelPath::new(name).ok();
    spoilt.extend(named("refs").filter(|refs| !is(refs, is_folder)));
    for name in ["packed-refs", "shallow", "info/exclude", "info/attributes"] {
        spoilt.extend(named(name).filter(|file| is(file, is_folder)));
    }
    spoilt.extend(named("config").filter(|config| {
        is(config, is_folder) || text(config).is_some_and(|bytes| !is_readable_config(&bytes))
    }));
    if !place.common_dir.join("objects").is_dir() {
        spoilt.extend(named("objects"));
    }
    for name in linked::names(items.clone()) {
        for rest in [&b"HEAD"[..], b"commondir", b"gitdir", b"index"] {
            let path = RelPath::new([b"worktrees/", name, b"/", rest].concat());
            spoilt.extend(path.ok().filter(|path| match is(path, |_| true) {
                true => {
                    is(path, is_folder)
                        || rest != b"HEAD"
                            && text(path).is_some_and(|bytes| !linked::is_sound(rest, &bytes))
                }
                false => linked::is_essential(rest),
            }));
        }
    }
    spoilt
}

/// What a capture says of it.
pub(super) fn told(spoilt: &BTreeSet<RelPath>) -> String {
    let names: Vec<String> = spoilt.iter().take(3).map(ToString::to_string).collect();
    let more = match spoilt.len() - names.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("git cannot read {}{more} in its folder; the bytes are kept", names.join(", "))
}

fn is_folder(node: &Node) -> bool {
    matches!(node, Node::Directory { .. })
}

/// Whether git can read a configuration. It is asked only about what is not plain to see.
fn is_readable_config(bytes: &[u8]) -> bool {
    let is_name = |b: u8| b.is_ascii_alphanumeric() || b == b'-';
    let is_plain = |line: &[u8]| {
        let line = line.trim_ascii();
        let (name, value) = match line.iter().position(|&b| b == b'=') {
            Some(at) => (line[..at].trim_ascii_end(), &line[at + 1..]),
            None => (line, &[][..]),
        };
        match line.first() {
            None | Some(b'#' | b';') => true,
            Some(b'[') => {
                line.ends_with(b"]") && line[1..line.len() - 1].iter().all(|&b| is_name(b))
            }
            Some(first) => {
                first.is_ascii_alphabetic()
                    && name.iter().all(|&b| is_name(b))
                    && !value.iter().any(|b| matches!(b, b'"' | b'\\' | 0))
            }
        }
    };
    let starts = bytes.split(|&b| b == b'\n').map(<[u8]>::trim_ascii);
    let mut starts = starts.filter(|line| !matches!(line.first(), None | Some(b'#' | b';')));
    // Of a setting without a section git says what it thinks.
    if starts.next().is_none_or(|line| line.starts_with(b"["))
        && bytes.split(|&b| b == b'\n').all(is_plain)
    {
        return true;
    }
    let asked = Git::at(Path::new("/dev/null")).ask(&["config", "--file", "-", "--list"], bytes);
    !matches!(asked, Err(Trouble::Failed(_)))
}

/// How a repository comes to be readable.
#[derive(Debug, Default)]
pub struct Mend {
    /// What changes as files.
    pub paths: BTreeSet<RelPath>,
    /// What the refs are then.
    pub refs: Refs,
    /// What git cannot read and the other side does not hold either.
    pub left: BTreeSet<RelPath>,
}

/// Which files of `bad` have to be as in `good` so that git can read them; `text` has the bytes of
/// `bad`. `concerns` says of which linked work trees.
pub fn mend(
    bad: &State,
    good: &State,
    concerns: &dyn Fn(&[u8]) -> bool,
    text: Text<'_>,
    source: &dyn Source,
) -> Mend {
    let mut mend = Mend { refs: bad.refs.clone(), ..Mend::default() };
    let all: BTreeSet<&RelPath> = bad.files.keys().chain(good.files.keys()).collect();
    let differs = |path: &&RelPath| bad.files.get(*path) != good.files.get(*path);
    let differing: Vec<&RelPath> = all.iter().copied().filter(differs).collect();
    let is_ref = |path: &RelPath| matches!(role(path.as_bytes()), Role::Head | Role::Refs);
    let tables = all.iter().any(|path| path.as_bytes().starts_with(b"reftable/"));
    let spoilt = match differing.iter().any(|path| is_ref(path)) && !tables {
        true => refs_of_files(bad.files.iter(), text).1,
        false => BTreeSet::new(),
    };
    // A file that git cannot read on the other side either mends nothing.
    let spoilt_there = match spoilt.is_empty() {
        true => BTreeSet::new(),
        false => {
            let mut stored =
                |path: &RelPath| Some(bytes_of(source, good.files.get(path)?)?.to_vec());
            refs_of_files(good.files.iter(), &mut stored).1
        }
    };
    for path in differing {
        if split(path.as_bytes()).0.is_some_and(|worktree| !concerns(worktree)) {
            if spoilt.contains(path) {
                mend.left.insert(path.clone());
            }
            continue;
        }
        let (old, new) = (bad.files.get(path), good.files.get(path));
        let wanted = match (old, new) {
            (Some(old), Some(new)) if is_folder(old) != is_folder(new) => {
                is_misplaced(bad, path, is_folder(old))
            }
            (None, Some(_)) => match split(path.as_bytes()) {
                // The folder of a work tree that is gone comes back whole.
                (Some(worktree), rest) => {
                    linked::is_there(bad, worktree) && linked::is_always_there(rest)
                }
                (None, rest) => matches!(rest, b"HEAD" | b"refs" | b"config"),
            },
            _ if spoilt.contains(path) => {
                let known = !spoilt_there.contains(path)
                    && (new.is_some()
                        || path.as_bytes() == b"packed-refs"
                        || good.refs.contains_key(path));
                if !known {
                    mend.left.insert(path.clone());
                }
                known
            }
            (Some(_), Some(new)) if split(path.as_bytes()).0.is_some() => {
                is_lost_of_worktree(path, text, new, source)
            }
            (Some(_), Some(new)) if role(path.as_bytes()) == Role::Setup => {
                is_lost(path, text, new, source)
            }
            _ => false,
        };
        if wanted {
            let below = all.iter().filter(|other| other.is_within(path) && differs(other));
            mend.paths.extend(below.map(|other| (*other).clone()));
        }
    }
    // What lies in a folder that stands in the place of a file goes with it.
    mend.left.retain(|path| !mend.paths.contains(path));
    if !tables && mend.paths.iter().any(is_ref) {
        let mut files = bad.files.clone();
        for path in &mend.paths {
            match good.files.get(path) {
                Some(node) => drop(files.insert(path.clone(), node.clone())),
                None => drop(files.remove(path)),
            }
        }
        let mut after = |path: &RelPath| match mend.paths.contains(path) {
            true => bytes_of(source, good.files.get(path)?).map(|bytes| bytes.to_vec()),
            false => text(path),
        };
        mend.refs = refs_of_files(files.iter(), &mut after).0;
    }
    mend
}

/// Whether what stands at `path` in `state` cannot be what git wants there, given that it is a
/// folder on one side and a file on the other.
fn is_misplaced(state: &State, path: &RelPath, folder: bool) -> bool {
    let (_, rest) = split(path.as_bytes());
    match role(path.as_bytes()) {
        // The folder of a work tree has no name in itself.
        _ if is_folder_of_git(rest) || rest.is_empty() => !folder,
        Role::Head | Role::Refs | Role::Log if rest != b"packed-refs" => {
            !is_of_refs(state, path, folder)
        }
        _ => folder,
    }
}

/// Whether a folder in the place of a file, or the other way round, is the work of refs that were
/// made and deleted: `a/b` where `a` was.
fn is_of_refs(state: &State, path: &RelPath, folder: bool) -> bool {
    let (_, rest) = split(path.as_bytes());
    let own = &path.as_bytes()[..path.as_bytes().len() - rest.len()];
    let name = [own, rest.strip_prefix(b"logs/").unwrap_or(rest)].concat();
    let Ok(name) = RelPath::new(name) else { return false };
    match folder {
        true => state.refs.keys().any(|known| *known != name && known.is_within(&name)),
        false => state.refs.contains_key(&name),
    }
}

/// Whether a file of a linked work tree, which a restore leaves alone otherwise, has lost what it
/// said.
fn is_lost_of_worktree(path: &RelPath, text: Text<'_>, good: &Node, source: &dyn Source) -> bool {
    let (_, rest) = split(path.as_bytes());
    let (Some(now), Some(then)) = (text(path), bytes_of(source, good)) else { return false };
    !linked::is_sound(rest, &now) && linked::is_sound(rest, &then)
}

/// Whether a file of the set-up, which a restore leaves alone otherwise, has lost what it said.
fn is_lost(path: &RelPath, text: Text<'_>, good: &Node, source: &dyn Source) -> bool {
    let (Some(now), Some(then)) = (text(path), bytes_of(source, good)) else { return false };
    let is_config = path.as_bytes() == b"config";
    let has_nothing = |bytes: &[u8]| {
        bytes.contains(&0) || is_config && (bytes.is_empty() || !is_readable_config(bytes))
    };
    has_nothing(&now) && !has_nothing(&then)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_is_readable_if_git_says_so() {
        for (text, expected) in [
            ("", true),
            ("# nothing\n\n", true),
            ("[core]\n\tbare = false\n[remote \"o\"]\n\turl = x\n", true),
            ("[alias]\n\tx = \"!f() { \\\n echo; }; f\"\n", true),
            ("bare = false\n", true),
            ("[core]\n\tbare = fal\"se\n", false),
            ("[core\n", false),
            ("\0\0\0\0", false),
            ("\u{7f}ELF nonsense", false),
        ] {
            assert_eq!(is_readable_config(text.as_bytes()), expected, "{text:?}");
        }
    }
}
