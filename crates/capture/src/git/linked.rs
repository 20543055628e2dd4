//! Git's own folder of a linked work tree (`worktrees/NAME`): which of its files say what git expects
//! of them. A power loss or a stray command spoils them like any other, and git then refuses to work
//! in that work tree, or takes it for one that is gone and prunes it.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use gix_index::hash::{Kind, hasher};
use rappel_store::held;
use rappel_types::{Node, RelPath};

use super::folder::split;
use super::state::State;

/// Whether git makes a file with each linked work tree, and never takes it away while that is
/// there. `rest` is its path in git's folder of the work tree.
pub(super) fn is_always_there(rest: &[u8]) -> bool {
    let names = [&b"HEAD"[..], b"ORIG_HEAD", b"commondir", b"gitdir", b"index", b"logs"];
    names.contains(&rest) || matches!(rest, b"logs/HEAD" | b"refs" | b"reftable")
}

/// Whether git cannot work in a work tree without this file.
pub(super) fn is_essential(rest: &[u8]) -> bool {
    matches!(rest, b"HEAD" | b"commondir" | b"gitdir")
}

/// Whether a file of git's folder of a linked work tree can be what git wrote there.
pub fn is_sound(rest: &[u8], bytes: &[u8]) -> bool {
    match rest {
        b"gitdir" => work_tree_in(bytes).is_some(),
        b"commondir" => {
            let path = bytes.trim_ascii_end();
            path == b"../.." || path.starts_with(b"/") && is_plain(path)
        }
        b"index" => is_whole_index(bytes),
        b"ORIG_HEAD" => is_name(bytes.trim_ascii_end()),
        _ if rest.starts_with(b"logs/") => is_log(bytes),
        _ => !bytes.contains(&0),
    }
}

/// The work tree's folder that a `gitdir` names.
pub fn work_tree_in(gitdir: &[u8]) -> Option<&[u8]> {
    let folder = gitdir.trim_ascii_end().strip_suffix(b"/.git")?;
    (!folder.is_empty() && is_plain(folder)).then_some(folder)
}

fn is_plain(path: &[u8]) -> bool {
    !path.iter().any(u8::is_ascii_control)
}

fn is_name(bytes: &[u8]) -> bool {
    matches!(bytes.len(), 40 | 64) && bytes.iter().all(u8::is_ascii_hexdigit)
}

/// Whether a log has entries, each a line with the names of two objects.
fn is_log(bytes: &[u8]) -> bool {
    let Some(lines) = bytes.strip_suffix(b"\n") else { return false };
    lines.split(|&b| b == b'\n').all(|line| {
        let mut words = line.splitn(3, |&b| b == b' ');
        words.next().is_some_and(is_name) && words.next().is_some_and(is_name)
    })
}

/// Whether an index begins as one and ends with its checksum, or without one where git is told to
/// write none.
fn is_whole_index(bytes: &[u8]) -> bool {
    let ends = |kind: Kind| {
        let width = kind.len_in_bytes();
        let Some(at) = bytes.len().checked_sub(width).filter(|at| *at >= 12) else { return false };
        let (content, said) = bytes.split_at(at);
        let mut hasher = hasher(kind);
        hasher.update(content);
        said.iter().all(|&b| b == 0)
            || hasher.try_finalize().is_ok_and(|found| found.as_bytes() == said)
    };
    bytes.starts_with(b"DIRC") && (ends(Kind::Sha1) || ends(Kind::Sha256))
}

/// The path of git's folder of a linked work tree.
pub fn folder_of(name: &[u8]) -> Option<RelPath> {
    RelPath::new([b"worktrees/", name].concat()).ok()
}

/// Whether a state has git's folder of a linked work tree.
pub fn is_there(state: &State, name: &[u8]) -> bool {
    let folder = folder_of(name).and_then(|path| state.files.get(&path));
    matches!(folder, Some(Node::Directory { .. }))
}

/// Whether a work tree leads to its folder of git's, and that is gone.
pub(super) fn leads_to_nothing(work_tree: &Path, common_dir: &Path, name: &Path) -> bool {
    let Ok(text) = held::read(work_tree.join(".git")) else { return false };
    let leads = text.strip_prefix(b"gitdir: ").unwrap_or_default().trim_ascii_end();
    let leads = work_tree.join(std::ffi::OsStr::from_bytes(leads));
    let above = leads.ancestors().nth(2).and_then(|above| above.canonicalize().ok());
    leads.ends_with(Path::new("worktrees").join(name))
        && above.is_some_and(|above| above == *common_dir)
        && !leads.is_dir()
}

/// The names of the linked work trees whose folders of git's are among these files.
pub(super) fn names<'i>(
    items: impl Iterator<Item = (&'i RelPath, &'i Node)>,
) -> impl Iterator<Item = &'i [u8]> {
    items.filter_map(|(path, node)| match (split(path.as_bytes()), node) {
        ((Some(name), b""), Node::Directory { .. }) => Some(name),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_sound_if_git_can_have_written_it() {
        let name = "0123456789abcdef0123456789abcdef01234567";
        let line = format!("{name} {name} A <a@b> 1 +0000\tcommit\n");
        for (rest, text, expected) in [
            ("gitdir", "/home/me/other/.git\n", true),
            ("gitdir", "../../../other/.git\n", true),
            ("gitdir", "/home/me/oth", false),
            ("gitdir", "/.git\n", false),
            ("gitdir", "", false),
            ("gitdir", "\0\0\0\0\0/.git", false),
            ("commondir", "../..\n", true),
            ("commondir", "/home/me/project/.git\n", true),
            ("commondir", "../", false),
            ("commondir", "", false),
            ("commondir", "\0\0", false),
            ("ORIG_HEAD", &format!("{name}\n"), true),
            ("ORIG_HEAD", &name[..20], false),
            ("logs/HEAD", &line, true),
            ("logs/HEAD", &format!("{line}{line}"), true),
            ("logs/HEAD", &line[..60], false),
            ("logs/HEAD", &format!("{line}{}\n", &line[..30]), false),
            ("logs/HEAD", "", false),
            ("index", "", false),
            ("index", "DIRC", false),
            ("locked", "", true),
            ("locked", "on a stick\n", true),
            ("locked", "\0\0", false),
        ] {
            assert_eq!(is_sound(rest.as_bytes(), text.as_bytes()), expected, "{rest}: {text:?}");
        }
    }

    #[test]
    fn an_index_is_sound_if_its_checksum_fits_or_none_was_written() {
        let mut content = b"DIRC\0\0\0\x02\0\0\0\0".to_vec();
        let mut hasher = hasher(Kind::Sha1);
        hasher.update(&content);
        let sum = hasher.try_finalize().unwrap();
        let without = [&*content, &[0; 20]].concat();
        content.extend_from_slice(sum.as_bytes());
        assert!(is_sound(b"index", &content) && is_sound(b"index", &without));
        assert!(!is_sound(b"index", &content[..content.len() - 1]));
        content[5] ^= 1;
        assert!(!is_sound(b"index", &content));
    }
}
