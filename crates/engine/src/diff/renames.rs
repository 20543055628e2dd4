//! Files that are gone in one place and came in another: which of them are the same file.
//!
//! A rename is a reading of a deleted and an added path, not a third kind of change: both stay in
//! their lists. Nothing depends on it but what people see.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use rappel_store::beneath::Root;
use rappel_store::tree::Change;
use rappel_types::{Content, Node, RelPath};
use schemars::JsonSchema;
use serde::Serialize;

use super::{Diff, TEXT_MAX, present_text};
use crate::error::Result;
use crate::rappel::Rappel;

/// Files that have less in common, in percent, are two files.
const SIMILAR: u64 = 50;
/// With more files than this on one side, only equal content is looked for.
const FILES_MAX: usize = 200;
/// No more than this is read to compare files.
const BYTES_MAX: u64 = 32 << 20;

/// A file that has another place now.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Renamed {
    /// Where it was.
    pub from: RelPath,
    /// Where it is.
    pub to: RelPath,
    /// How much of it is the same, in percent.
    pub similarity: u64,
}

/// One side of a rename, which is still without the other.
struct Candidate<'c> {
    path: &'c RelPath,
    node: &'c Node,
    size: u64,
    content: &'c Content,
}

impl<'c> Candidate<'c> {
    /// A file with something in it: empty ones are all alike.
    fn of(path: &'c RelPath, node: &'c Node) -> Option<Self> {
        match node {
            Node::File { size, content, .. } if *size > 0 => {
                Some(Self { path, node, size: *size, content })
            }
            _ => None,
        }
    }
}

impl Rappel {
    /// Finds the renames among the changes of a comparison: files with the same content first, then
    /// text files whose lines are mostly the same. Where the cost would be large, fewer are found.
    pub(super) fn find_renames(&self, diff: &Diff) -> Result<Vec<Renamed>> {
        let mut gone: Vec<Candidate> =
            candidates(&diff.changes, |change| (&change.old, &change.new));
        let mut came: Vec<Candidate> =
            candidates(&diff.changes, |change| (&change.new, &change.old));
        let mut renames = equal(&mut gone, &mut came);
        gone.retain(|file| file.size <= TEXT_MAX);
        came.retain(|file| file.size <= TEXT_MAX);
        let read: u64 = gone.iter().chain(&came).map(|file| file.size).sum();
        let few = gone.len().max(came.len()) <= FILES_MAX && read <= BYTES_MAX;
        if few && !gone.is_empty() && !came.is_empty() {
            let mut old = Vec::new();
            for file in &gone {
                old.push(self.stored_text(Some(file.node))?.map(|text| Lines::of(&text)));
            }
            let now = match diff.against_workspace {
                true => Some(Root::open(&self.root, self.options.disk.clone())?),
                false => None,
            };
            let mut new = Vec::new();
            for file in &came {
                let text = match &now {
                    Some(root) => present_text(root, file.path, Some(file.node)),
                    None => self.stored_text(Some(file.node))?,
                };
                new.push(text.map(|text| Lines::of(&text)));
            }
            renames.extend(similar(&gone, &came, &old, &new));
        }
        renames.sort_by(|a, b| a.to.cmp(&b.to));
        Ok(renames)
    }
}

/// Files that are on the one side of the changes and not on the other.
fn candidates<'c>(
    changes: &'c [Change],
    sides: impl Fn(&'c Change) -> (&'c Option<Node>, &'c Option<Node>),
) -> Vec<Candidate<'c>> {
    let candidate = |change: &'c Change| match sides(change) {
        (Some(node), None) => Candidate::of(&change.path, node),
        _ => None,
    };
    changes.iter().filter_map(candidate).collect()
}

/// Files with the same content; of several, the one with the same name, else the first. Takes them
/// out of both lists.
fn equal(gone: &mut Vec<Candidate>, came: &mut Vec<Candidate>) -> Vec<Renamed> {
    let mut by_content: HashMap<&Content, Vec<&RelPath>> = HashMap::new();
    for file in gone.iter() {
        by_content.entry(file.content).or_default().push(file.path);
    }
    let mut renames = Vec::new();
    // Files that kept their name choose first.
    for only_same_name in [true, false] {
        came.retain(|file| {
            let Some(places) = by_content.get_mut(file.content) else { return true };
            let same_name = places.iter().position(|place| place.name() == file.path.name());
            let chosen = match (same_name, only_same_name) {
                (Some(at), _) => at,
                (None, false) if !places.is_empty() => 0,
                _ => return true,
            };
            let (from, to) = (places.remove(chosen).clone(), file.path.clone());
            renames.push(Renamed { from, to, similarity: 100 });
            false
        });
    }
    let taken: HashSet<&RelPath> = renames.iter().map(|rename| &rename.from).collect();
    gone.retain(|file| !taken.contains(file.path));
    renames
}

/// The best pairs of files that have enough lines in common.
fn similar(
    gone: &[Candidate],
    came: &[Candidate],
    old: &[Option<Lines>],
    new: &[Option<Lines>],
) -> Vec<Renamed> {
    let mut pairs = Vec::new();
    for (from, (before, old)) in gone.iter().zip(old).enumerate() {
        for (to, (after, new)) in came.iter().zip(new).enumerate() {
            let (Some(old), Some(new)) = (old, new) else { continue };
            let score = old.similarity(new);
            if score >= SIMILAR {
                let same_name = before.path.name() == after.path.name();
                pairs.push((score, same_name, from, to));
            }
        }
    }
    pairs.sort_by_key(|&(score, same_name, from, to)| {
        (std::cmp::Reverse((score, same_name)), from, to)
    });
    let (mut taken, mut given) = (vec![false; gone.len()], vec![false; came.len()]);
    let mut renames = Vec::new();
    for (similarity, _, from, to) in pairs {
        if !taken[from] && !given[to] {
            (taken[from], given[to]) = (true, true);
            let (from, to) = (gone[from].path.clone(), came[to].path.clone());
            renames.push(Renamed { from, to, similarity });
        }
    }
    renames
}

/// The lines of a text, in any order: how many bytes each kind of line takes up.
struct Lines {
    bytes: u64,
    kinds: HashMap<u64, u64>,
}

impl Lines {
    fn of(text: &str) -> Self {
        let mut lines = Self { bytes: text.len() as u64, kinds: HashMap::new() };
        for line in text.split_inclusive('\n') {
            let mut hasher = DefaultHasher::new();
            line.hash(&mut hasher);
            *lines.kinds.entry(hasher.finish()).or_default() += line.len() as u64;
        }
        lines
    }

    /// How much of the larger of the two is in both, in percent.
    fn similarity(&self, other: &Self) -> u64 {
        let larger = self.bytes.max(other.bytes).max(1);
        if self.bytes.min(other.bytes) * 100 / larger < SIMILAR {
            return 0;
        }
        let in_other = |line: &u64| other.kinds.get(line).copied().unwrap_or(0);
        let shared = self.kinds.iter().map(|(line, bytes)| in_other(line).min(*bytes));
        shared.sum::<u64>() * 100 / larger
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn similarity_is_what_the_larger_of_two_texts_shares() {
        let score = |a: &str, b: &str| Lines::of(a).similarity(&Lines::of(b));
        assert_eq!(score("a\nb\n", "a\nb\n"), 100);
        assert_eq!(score("a\nb\n", "b\na\n"), 100);
        assert_eq!(score("a\nb\nc\nd\n", "a\nb\nc\nx\n"), 75);
        assert_eq!(score("a\n", "a\nb\nc\nd\n"), 0);
        assert_eq!(score("a\na\na\n", "a\nb\nc\n"), 33);
        assert_eq!(score("", ""), 0);
    }
}
