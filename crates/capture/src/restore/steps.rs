//! An intent's actions as steps with names to work under, in either direction.
//!
//! Each step has one slot: a name in the nearest folder above it that is a folder before and after
//! the restore. There the new content is staged, and there the old one goes, since the two change
//! places. Keeping it so close, rather than in one trash at the root, means that every move is a
//! rename within one folder or down from it: never across a mount or an overlay's layers, durable
//! with the folders that are synced anyway, and a crash leaves exactly one place to look at. A slot
//! never holds half a file: content is written under the slot's name with `.tmp`, which may always
//! be removed, and gets the slot's own name when it is complete and synced.

use std::collections::HashSet;

use rappel_store::Error as StoreError;
use rappel_types::{Node, RelPath};

use super::error::Result;
use super::intent::Header;

/// Which way an intent is carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// From the old state to the new one.
    Forward,
    /// From the new state back to the old one.
    Backward,
}

/// One path on the way from one state to the other.
#[derive(Debug, Clone)]
pub struct Step {
    /// Where.
    pub path: RelPath,
    /// What should stand there now.
    pub from: Option<Node>,
    /// What shall stand there.
    pub to: Option<Node>,
    /// Where the new content waits and the old one goes.
    pub slot: RelPath,
    /// Where the old one goes if the file system cannot exchange.
    pub aside: RelPath,
    /// Where the new content is written.
    pub unfinished: RelPath,
}

impl Step {
    /// Whether only permission bits change.
    pub fn is_mode_only(&self) -> bool {
        match (&self.from, &self.to) {
            (Some(Node::Directory { .. }), Some(Node::Directory { .. })) => true,
            (
                Some(Node::File { size: a, content: x, .. }),
                Some(Node::File { size: b, content: y, .. }),
            ) => (a, x) == (b, y),
            _ => false,
        }
    }

    /// Whether something new has to be put there.
    pub fn is_placed(&self) -> bool {
        self.to.is_some() && !self.is_mode_only()
    }

    /// Whether the new content has to be staged: a new folder where nothing stands is just made.
    pub fn is_staged(&self) -> bool {
        self.is_placed() && !(self.from.is_none() && self.makes_folder())
    }

    /// Whether a folder shall stand there.
    pub fn makes_folder(&self) -> bool {
        matches!(self.to, Some(Node::Directory { .. }))
    }

    /// Whether a folder stands there that shall go.
    pub fn removes_folder(&self) -> bool {
        matches!(self.from, Some(Node::Directory { .. })) && !self.makes_folder()
    }
}

/// The steps of an intent, in order of paths.
pub fn steps_of(header: &Header, way: Way) -> Result<Vec<Step>> {
    let is_folder = |node: &Option<Node>| matches!(node, Some(Node::Directory { .. }));
    let moving: HashSet<&RelPath> = header
        .actions
        .iter()
        .filter(|action| !(is_folder(&action.old) && is_folder(&action.new)))
        .map(|action| &action.path)
        .collect();
    let mut steps = Vec::with_capacity(header.actions.len());
    for (number, action) in header.actions.iter().enumerate() {
        let mut anchor = action.path.parent();
        while let Some(folder) = &anchor {
            if !moving.contains(folder) && !folder.ancestors().any(|above| moving.contains(&above))
            {
                break;
            }
            anchor = folder.parent();
        }
        let name = |suffix: &str| {
            let name = format!(".rappel-{}-{number}{suffix}", header.id);
            let path = match &anchor {
                Some(folder) => folder.join(name.as_bytes()),
                None => RelPath::new(name),
            };
            path.map_err(|error| StoreError::Damaged(error.to_string()))
        };
        let (from, to) = match way {
            Way::Forward => (action.old.clone(), action.new.clone()),
            Way::Backward => (action.new.clone(), action.old.clone()),
        };
        steps.push(Step {
            path: action.path.clone(),
            from,
            to,
            slot: name("")?,
            aside: name(".old")?,
            unfinished: name(".tmp")?,
        });
    }
    Ok(steps)
}
