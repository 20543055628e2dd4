//! The checkpoints as a graph: which follows which, with a fork where somebody went on from an earlier one.

use rappel_store::index::CheckpointRow;
use rappel_types::{Timestamp, Trigger};
use schemars::JsonSchema;
use serde::Serialize;

use crate::error::Result;
use crate::lineage::{self, LineageView};
use crate::rappel::Rappel;

/// What of the graph to show.
#[derive(Debug, Clone, Default)]
pub struct TimelineOptions {
    /// At most so many checkpoints; `None` is all.
    pub limit: Option<usize>,
    /// Those of agent state alone and of single tool calls too, instead of counting them.
    pub all: bool,
}

/// The graph, newest first.
#[derive(Debug, Clone, JsonSchema, Serialize)]
pub struct Timeline {
    /// How many checkpoints there are in it, whatever the limit.
    pub total: usize,
    /// The newest of them.
    pub checkpoints: Vec<TimelineEntry>,
    /// How many of agent state alone or of single tool calls are newer than all of these.
    pub folded_since: usize,
    /// Those that cannot be read: they are in the graph without a name.
    pub unreadable: Vec<String>,
}

/// A checkpoint in the graph.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct TimelineEntry {
    /// Its id.
    pub id: String,
    /// Its number.
    pub sequence: u64,
    /// The nearest ancestor that is in the graph.
    pub parent: Option<String>,
    /// When it was made.
    pub created_at: Timestamp,
    /// Why.
    pub trigger: String,
    /// The words that it was given.
    pub description: Option<String>,
    /// Its tags.
    pub tags: Vec<String>,
    /// The session that asked for it.
    pub session_id: Option<String>,
    /// The git branch that was checked out.
    pub branch: Option<String>,
    /// Whether it holds files.
    pub holds_files: bool,
    /// Whether the workspace goes on from it.
    pub current: bool,
    /// How many of agent state alone or of single tool calls belong to it.
    pub folded: usize,
    /// Its column in the graph, from 0.
    pub lane: usize,
    /// The columns whose lines end in its own, just above it.
    pub joins: Vec<usize>,
    /// The columns through which a line passes it by.
    pub passing: Vec<usize>,
    /// Where it came from, if it was not made here.
    pub lineage: Option<LineageView>,
}

/// A page of the graph, for a face that draws it bit by bit.
#[derive(Debug, Clone, JsonSchema, Serialize)]
pub struct TimelinePage {
    /// How many checkpoints there are in the graph.
    pub total: usize,
    /// Those of this page, newest first.
    pub checkpoints: Vec<PagedEntry>,
    /// How many of agent state alone or of single tool calls are newer than all of these.
    pub folded_since: usize,
    /// Those that cannot be read: they are in the graph without a name.
    pub unreadable: Vec<String>,
    /// The checkpoint after which the next page begins, if there is one.
    pub next: Option<String>,
}

/// A checkpoint in a page of the graph.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct PagedEntry {
    /// Its place in the graph.
    #[serde(flatten)]
    pub entry: TimelineEntry,
    /// Whether it may not be pruned.
    pub pinned: bool,
    /// How many files changed since its parent; `null` if it holds no files.
    pub changed: Option<ChangedFiles>,
}

/// How many files changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct ChangedFiles {
    pub added: u64,
    pub modified: u64,
    pub deleted: u64,
}

impl Rappel {
    /// The checkpoints of this workspace as a graph, and those of its lineages beside them.
    pub fn timeline(&self, options: &TimelineOptions) -> Result<Timeline> {
        let page = self.timeline_page(options, None)?;
        Ok(Timeline {
            total: page.total,
            checkpoints: page.checkpoints.into_iter().map(|one| one.entry).collect(),
            folded_since: page.folded_since,
            unreadable: page.unreadable,
        })
    }

    /// The part of the graph behind the checkpoint `after`, or its beginning. The columns are those
    /// of the whole graph, so that pages fit together.
    pub fn timeline_page(
        &self,
        options: &TimelineOptions,
        after: Option<&str>,
    ) -> Result<TimelinePage> {
        let ancestry = self.joined_ancestry()?;
        let current = self.head()?.map(|row| row.id);
        let shown =
            |row: &CheckpointRow| options.all || !row.folded || current.as_ref() == Some(&row.id);
        let mut page = TimelinePage {
            total: ancestry.rows().iter().filter(|row| shown(row)).count(),
            checkpoints: Vec::new(),
            folded_since: 0,
            unreadable: Vec::new(),
            next: None,
        };
        let mut lanes = Lanes::default();
        let mut shown_of = Vec::new();
        let limit = options.limit.unwrap_or(usize::MAX);
        let mut begun = after.is_none();
        for row in &lineage::merge(lineage::apart(ancestry.rows())) {
            if !shown(row) {
                // It belongs to the next newer one of its own history.
                let newer = page.checkpoints.iter_mut().rev();
                match newer.zip(shown_of.iter().rev()).find(|(_, of)| **of == row.workspace) {
                    Some((newer, _)) => newer.entry.folded += 1,
                    None => page.folded_since += usize::from(after.is_none()),
                }
                continue;
            }
            if page.checkpoints.len() >= limit {
                page.next = page.checkpoints.last().map(|one| one.entry.id.clone());
                break;
            }
            let parent = ancestry.parent(row, shown).map(|row| row.id.to_string());
            let place = lanes.place(row.id.as_str(), parent.clone());
            if !begun {
                begun = after == Some(row.id.as_str());
                continue;
            }
            shown_of.push(row.workspace);
            let is_current = current.as_ref() == Some(&row.id);
            let entry = self.paged_entry(row, parent, place, is_current, &mut page.unreadable)?;
            page.checkpoints.push(entry);
        }
        Ok(page)
    }

    /// A row with what its manifest says.
    fn paged_entry(
        &self,
        row: &CheckpointRow,
        parent: Option<String>,
        Place { lane, joins, passing }: Place,
        current: bool,
        unreadable: &mut Vec<String>,
    ) -> Result<PagedEntry> {
        let view = self.view_readable(row, unreadable)?;
        let pinned = view.as_ref().is_some_and(|checkpoint| checkpoint.pinned);
        let (manifest, lineage) =
            view.map(|checkpoint| (checkpoint.manifest, checkpoint.lineage)).unzip();
        let git = manifest.as_ref().and_then(|manifest| manifest.git.as_ref());
        let branch = git.and_then(|git| git.root.branch.clone());
        let files = manifest.as_ref().and_then(|manifest| manifest.files.as_ref());
        let changed = files.map(|files| ChangedFiles {
            added: files.added,
            modified: files.modified,
            deleted: files.deleted,
        });
        let (description, tags, session_id) = manifest
            .map(|manifest| (manifest.description, manifest.tags, manifest.session_id))
            .unwrap_or_default();
        let entry = TimelineEntry {
            id: row.id.to_string(),
            sequence: row.sequence,
            parent,
            created_at: Timestamp::from_millis(row.created_at),
            trigger: row.trigger.clone(),
            description,
            tags,
            session_id,
            branch,
            holds_files: row.holds_files,
            current,
            folded: 0,
            lane,
            joins,
            passing,
            lineage: lineage.flatten(),
        };
        Ok(PagedEntry { entry, pinned, changed })
    }
}

impl TimelineEntry {
    /// What it is called: its own words, or what made it.
    pub fn title(&self) -> Option<&str> {
        let trigger: Option<Trigger> = self.trigger.parse().ok();
        let own = |words: &&str| trigger.is_none_or(|trigger| !trigger.names_itself(words));
        let label = trigger.filter(|trigger| *trigger != Trigger::Manual).map(Trigger::label);
        self.description.as_deref().filter(own).or(label)
    }
}

/// The columns of the graph, from the newest checkpoint down: each waits for the one that its line leads to.
#[derive(Debug, Default)]
struct Lanes {
    waiting: Vec<Option<String>>,
}

/// Where a checkpoint is in the graph.
#[derive(Debug, PartialEq)]
struct Place {
    lane: usize,
    joins: Vec<usize>,
    passing: Vec<usize>,
}

impl Lanes {
    /// The place of the next checkpoint, whose line leads on to `parent`.
    fn place(&mut self, id: &str, parent: Option<String>) -> Place {
        let mut own: Vec<usize> = (0..self.waiting.len())
            .filter(|lane| self.waiting[*lane].as_deref() == Some(id))
            .collect();
        if own.is_empty() {
            let free = self.waiting.iter().position(Option::is_none);
            own.push(free.unwrap_or(self.waiting.len()));
        }
        let lane = own.remove(0);
        if lane == self.waiting.len() {
            self.waiting.push(None);
        }
        for joined in &own {
            self.waiting[*joined] = None;
        }
        self.waiting[lane] = None;
        let passing = (0..self.waiting.len()).filter(|lane| self.waiting[*lane].is_some());
        let passing = passing.collect();
        self.waiting[lane] = parent;
        while self.waiting.last().is_some_and(Option::is_none) {
            self.waiting.pop();
        }
        Place { lane, joins: own, passing }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn a_fork_is_a_column_of_its_own_until_its_line_meets_the_other() {
        // 4 and 3 both follow 2, which follows 1.
        let parents: HashMap<&str, &str> = [("4", "2"), ("3", "2"), ("2", "1")].into();
        let mut lanes = Lanes::default();
        let mut place = |id: &str| lanes.place(id, parents.get(id).map(|id| (*id).to_owned()));
        let at = |lane, joins: &[usize], passing: &[usize]| Place {
            lane,
            joins: joins.to_vec(),
            passing: passing.to_vec(),
        };
        assert_eq!(place("4"), at(0, &[], &[]));
        assert_eq!(place("3"), at(1, &[], &[0]));
        assert_eq!(place("2"), at(0, &[1], &[]));
        assert_eq!(place("1"), at(0, &[], &[]));
    }
}
