//! Refs and the objects that git's files name.

use std::collections::{BTreeMap, BTreeSet};

use gix_index::hash::{Kind, ObjectId as Oid};
use rappel_types::RelPath;

/// What a ref leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// An object.
    Object(Oid),
    /// Another ref.
    Symbolic(Vec<u8>),
}

/// Every ref of a repository by its name in the common folder: `HEAD`, `refs/heads/x`,
/// `worktrees/w/HEAD`.
pub type Refs = BTreeMap<RelPath, Target>;

/// A loose ref's content.
pub fn parse_loose(bytes: &[u8]) -> Option<Target> {
    let line = bytes.split(|&b| b == b'\n').next().unwrap_or_default();
    if let Some(target) = line.strip_prefix(b"ref:") {
        return Some(Target::Symbolic(target.trim_ascii().to_vec()));
    }
    Oid::from_hex(line.trim_ascii()).ok().map(Target::Object)
}

/// The refs in `packed-refs`.
pub fn parse_packed(bytes: &[u8]) -> Vec<(RelPath, Target)> {
    let lines =
        bytes.split(|&b| b == b'\n').filter(|line| !matches!(line.first(), Some(b'#' | b'^')));
    lines
        .filter_map(|line| {
            let space = line.iter().position(|&b| b == b' ')?;
            let oid = Oid::from_hex(&line[..space]).ok()?;
            Some((RelPath::new(line[space + 1..].trim_ascii_end()).ok()?, Target::Object(oid)))
        })
        .collect()
}

/// Whether git can read `packed-refs`: one line that it does not understand, and it reads none.
pub fn is_whole_packed(bytes: &[u8]) -> bool {
    let Some(lines) = bytes.strip_suffix(b"\n") else { return bytes.is_empty() };
    lines.split(|&b| b == b'\n').all(|line| match line.first() {
        Some(b'#') => true,
        Some(b'^') => Oid::from_hex(&line[1..]).is_ok(),
        _ => line.iter().position(|&b| b == b' ').is_some_and(|space| {
            Oid::from_hex(&line[..space]).is_ok() && RelPath::new(&line[space + 1..]).is_ok()
        }),
    })
}

/// Refs as they are stored in a checkpoint: a line each, `ID NAME` or `ref: TARGET NAME`. No ref has
/// a blank in its name.
pub fn encode(refs: &Refs) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, target) in refs {
        match target {
            Target::Object(oid) => out.extend_from_slice(oid.to_string().as_bytes()),
            Target::Symbolic(target) => {
                out.extend_from_slice(b"ref: ");
                out.extend_from_slice(target);
            }
        }
        out.push(b' ');
        out.extend_from_slice(name.as_bytes());
        out.push(b'\n');
    }
    out
}

/// Reads what [`encode`] wrote; a line that makes no sense is passed over.
pub fn decode(bytes: &[u8]) -> Refs {
    let line = |line: &[u8]| {
        let (rest, symbolic) = match line.strip_prefix(b"ref: ") {
            Some(rest) => (rest, true),
            None => (line, false),
        };
        let space = rest.iter().position(|&b| b == b' ')?;
        let name = RelPath::new(&rest[space + 1..]).ok()?;
        let target = match symbolic {
            true => Target::Symbolic(rest[..space].to_vec()),
            false => Target::Object(Oid::from_hex(&rest[..space]).ok()?),
        };
        Some((name, target))
    };
    bytes.split(|&b| b == b'\n').filter_map(line).collect()
}

/// The object that a ref leads to, symbolic ones followed.
pub fn resolve<'a>(refs: &'a Refs, name: &RelPath) -> Option<&'a Oid> {
    let mut name = name.clone();
    for _ in 0..8 {
        match refs.get(&name)? {
            Target::Object(oid) => return Some(oid),
            Target::Symbolic(next) => name = RelPath::new(&**next).ok()?,
        }
    }
    None
}

/// Every full object name in a text of git's: reflogs, the notes of an unfinished operation. The
/// name of nothing is not one.
pub fn named_in(bytes: &[u8], hash: Kind, found: &mut BTreeSet<Oid>) {
    let length = hash.len_in_hex();
    for word in bytes.split(|b| !b.is_ascii_hexdigit()) {
        if word.len() == length
            && let Ok(oid) = Oid::from_hex(word)
            && !oid.is_null()
        {
            found.insert(oid);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    const B: &str = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";

    fn path(text: &str) -> RelPath {
        RelPath::new(text).unwrap()
    }

    fn oid(text: &str) -> Oid {
        Oid::from_hex(text.as_bytes()).unwrap()
    }

    #[test]
    fn loose_and_packed_refs_are_read_as_git_writes_them() {
        assert_eq!(parse_loose(format!("{A}\n").as_bytes()), Some(Target::Object(oid(A))));
        let symbolic = Target::Symbolic(b"refs/heads/main".to_vec());
        assert_eq!(parse_loose(b"ref: refs/heads/main\n"), Some(symbolic));
        assert_eq!(parse_loose(b""), None);
        let packed =
            format!("# pack-refs with: peeled\n{A} refs/heads/a\n{B} refs/tags/v1\n^{A}\n");
        let expected = [
            (path("refs/heads/a"), Target::Object(oid(A))),
            (path("refs/tags/v1"), Target::Object(oid(B))),
        ];
        assert_eq!(parse_packed(packed.as_bytes()), expected);
    }

    #[test]
    fn refs_survive_their_stored_form() {
        let refs = Refs::from([
            (path("HEAD"), Target::Symbolic(b"refs/heads/caf\xe9".to_vec())),
            (RelPath::new(b"refs/heads/caf\xe9".to_vec()).unwrap(), Target::Object(oid(A))),
        ]);
        assert_eq!(decode(&encode(&refs)), refs);
        assert_eq!(resolve(&refs, &path("HEAD")), Some(&oid(A)));
        assert_eq!(resolve(&refs, &path("refs/heads/none")), None);
        assert!(decode(b"nonsense\nref: x\n\n").is_empty());
    }

    #[test]
    fn names_are_found_in_logs() {
        let zero = "0".repeat(40);
        let log = format!("{zero} {A} A U Thor <a@b> 1 +0000\tcommit: {}\n", &B[..39]);
        let mut found = BTreeSet::new();
        named_in(log.as_bytes(), Kind::Sha1, &mut found);
        assert_eq!(found, BTreeSet::from([oid(A)]));
    }
}
