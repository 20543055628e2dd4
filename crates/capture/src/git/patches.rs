//! What a checkpoint's files differ in from a commit, as patches that `git apply` takes.
//!
//! Git makes them, in an empty repository of ours that borrows the objects of the user's. So
//! nothing of the user's is written or run: no filters, no drivers, no settings.
//!
//! Not guaranteed: a file whose attributes have git encode it anew (`working-tree-encoding`) does
//! not come back by its patch as it was.

use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rappel_store::content;
use rappel_store::sink::Source;
use rappel_types::{Node, RelPath};

use super::place::Place;
use super::program::{Git, Trouble};
use super::stand_in::StandIn;

/// The mode of a submodule's entry.
const SUBMODULE: &[u8] = b"160000 ";

/// What a commit holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Held {
    /// Its files and links.
    pub files: BTreeSet<RelPath>,
    /// Its submodules.
    pub submodules: BTreeSet<RelPath>,
}

/// The paths of a commit.
pub fn held(place: &Place, commit: &str) -> Result<Held, Trouble> {
    let list = place.git().ask(&["ls-tree", "-r", "-z", "--full-tree", commit], b"")?;
    let mut held = Held::default();
    for entry in list.split(|&byte| byte == 0) {
        let path = entry.iter().position(|&byte| byte == b'\t').map(|at| &entry[at + 1..]);
        let Some(path) = path.and_then(|path| RelPath::new(path).ok()) else { continue };
        match entry.starts_with(SUBMODULE) {
            true => held.submodules.insert(path),
            false => held.files.insert(path),
        };
    }
    Ok(held)
}

/// The patches from `commit` to what stands at `paths` (`None`: nothing), one for each path that
/// differs, deletions first. All of them are text: what is not UTF-8 is in git's binary form.
pub fn make(
    place: &Place,
    commit: &str,
    paths: &[(RelPath, Option<Node>)],
    source: &dyn Source,
) -> Result<Vec<String>, Trouble> {
    let failed = |error: std::io::Error| Trouble::Failed(error.to_string());
    let stand_in = StandIn::new(&place.git_dir, &place.common_dir, place.hash).map_err(failed)?;
    let at = stand_in.folder();
    let (objects, index) = (at.join("objects"), at.join("own-index"));
    std::fs::create_dir_all(objects.join("info")).map_err(failed)?;
    let borrowed = place.common_dir.join("objects");
    if borrowed.as_os_str().as_bytes().contains(&b'\n') {
        return Err(Trouble::Failed("a line break is in the repository's name".into()));
    }
    let line = [borrowed.as_os_str().as_bytes(), b"\n"].concat();
    std::fs::write(objects.join("info/alternates"), line).map_err(failed)?;
    let git = Git { git_dir: at, index: Some(&index), objects: Some(&objects) };
    let width = place.hash.len_in_hex();
    git.ask(&["read-tree", commit], b"")?;
    git.ask(
        &["update-index", "--replace", "-z", "--index-info"],
        &entries(git, width, paths, source)?,
    )?;
    let text = compare(git, commit, "* !diff\n")?;
    let pieces = split(&text);
    // Bytes that are no UTF-8 have no place in JSON; git's binary form is ASCII.
    let binary = match pieces.iter().all(|piece| std::str::from_utf8(piece).is_ok()) {
        true => Vec::new(),
        false => compare(git, commit, "* -diff\n")?,
    };
    let binary = split(&binary);
    let mut patches = Vec::new();
    for (number, piece) in pieces.iter().enumerate() {
        let piece = match std::str::from_utf8(piece) {
            Ok(piece) => Some(piece),
            Err(_) => binary.get(number).and_then(|piece| std::str::from_utf8(piece).ok()),
        };
        let piece = piece.ok_or_else(|| Trouble::Failed("a patch is no text".into()))?;
        patches.push(piece.to_owned());
    }
    // A file may stand where a folder was: what was in it goes first.
    patches.sort_by_key(|patch| !patch.lines().nth(1).is_some_and(|l| l.starts_with("deleted ")));
    Ok(patches)
}

/// Puts the contents into git's store, and says which entries an index with them has.
fn entries(
    git: Git<'_>,
    width: usize,
    paths: &[(RelPath, Option<Node>)],
    source: &dyn Source,
) -> Result<Vec<u8>, Trouble> {
    let failed = |error: std::io::Error| Trouble::Failed(error.to_string());
    let folder = git.git_dir.join("contents");
    std::fs::create_dir(&folder).map_err(failed)?;
    let (mut names, mut held) = (Vec::new(), Vec::new());
    for (path, node) in paths {
        let at = folder.join(held.len().to_string());
        let mode = match node {
            Some(Node::File { size, content, mode, .. }) => {
                write(source, &at, (content, *size))?;
                if mode & 0o100 == 0 { "100644" } else { "100755" }
            }
            Some(Node::Symlink { target }) => {
                std::fs::write(&at, target).map_err(failed)?;
                "120000"
            }
            Some(Node::Directory { .. }) | None => continue,
        };
        names.extend_from_slice(at.as_os_str().as_bytes());
        names.push(b'\n');
        held.push((path, mode));
    }
    let named = git.ask(&["hash-object", "-w", "--no-filters", "--stdin-paths"], &names)?;
    let oids: Vec<&str> = std::str::from_utf8(&named).unwrap_or_default().lines().collect();
    if oids.len() != held.len() {
        return Err(Trouble::Failed("git named fewer contents than it was given".into()));
    }
    let mut lines = Vec::new();
    let mut say = |head: String, path: &RelPath| {
        lines.extend_from_slice(head.as_bytes());
        lines.extend_from_slice(path.as_bytes());
        lines.push(0);
    };
    let gone = |node: &Option<Node>| matches!(node, None | Some(Node::Directory { .. }));
    for (path, _) in paths.iter().filter(|(_, node)| gone(node)) {
        say(format!("0 {}\t", "0".repeat(width)), path);
    }
    for (oid, (path, mode)) in oids.iter().zip(held) {
        say(format!("{mode} {oid}\t"), path);
    }
    Ok(lines)
}

fn write(
    source: &dyn Source,
    at: &Path,
    (content, size): (&rappel_types::Content, u64),
) -> Result<(), Trouble> {
    let mut file =
        std::fs::File::create_new(at).map_err(|error| Trouble::Failed(error.to_string()))?;
    let written = content::write_to(source, content, size, &mut file);
    written.map_err(|error| Trouble::Failed(error.to_string()))
}

/// What the index differs in from the commit, with these attributes.
fn compare(git: Git<'_>, commit: &str, attributes: &str) -> Result<Vec<u8>, Trouble> {
    let file = git.git_dir.join("info/attributes");
    std::fs::write(file, attributes).map_err(|error| Trouble::Failed(error.to_string()))?;
    let words = [
        "diff-index",
        "--cached",
        "--patch",
        "--binary",
        "--full-index",
        "--no-renames",
        "--no-ext-diff",
        "--no-textconv",
        "--no-color",
        "--ignore-submodules=all",
        "--unified=3",
        "--src-prefix=a/",
        "--dst-prefix=b/",
        commit,
    ];
    git.ask(&words, b"")
}

/// A patch of many files as one for each. No line of a hunk and none of a binary patch begins like
/// a header: a hunk's begin with a sign, and a binary one's have no spaces.
fn split(patch: &[u8]) -> Vec<&[u8]> {
    const HEADER: &[u8] = b"diff --git ";
    let mut begins: Vec<usize> = patch
        .windows(HEADER.len())
        .enumerate()
        .filter(|&(at, window)| window == HEADER && (at == 0 || patch[at - 1] == b'\n'))
        .map(|(at, _)| at)
        .collect();
    begins.push(patch.len());
    begins.windows(2).map(|pair| &patch[pair[0]..pair[1]]).collect()
}
