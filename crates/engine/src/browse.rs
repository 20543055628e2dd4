//! Looking at checkpoints: listing, showing, reading files out of them.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::Write;

use rappel_capture::databases::sqlite;
use rappel_store::index::CheckpointRow;
use rappel_store::{content, tree};
use rappel_types::Advice;
use rappel_types::agents::SessionId;
use rappel_types::{
    CheckpointId, Entry, Node, Reference, RelPath, Timestamp, Trigger, WorkspaceId,
};
use schemars::JsonSchema;
use serde::Serialize;

use crate::agents::FoundEvent;
use crate::ancestry::Ancestry;
use crate::checkpoint::Checkpoint;
use crate::cursor::Cursor;
use crate::databases::sqlite_at;
use crate::error::{Error, Result};
use crate::lineage;
use crate::rappel::Rappel;

/// Which checkpoints to list.
#[derive(Debug, Clone, Default)]
#[allow(clippy::struct_excessive_bools, reason = "each is a choice of its own")]
pub struct ListFilter {
    /// At most so many; `None` is all.
    pub limit: Option<usize>,
    /// Only those after the end of a former page: what [`Listing::next`] said there.
    pub after: Option<Cursor>,
    /// Only with this tag.
    pub tag: Option<String>,
    /// Only for this reason.
    pub trigger: Option<Trigger>,
    /// Only from then on.
    pub since: Option<Timestamp>,
    /// Only up to then.
    pub until: Option<Timestamp>,
    /// Only of this session.
    pub session: Option<String>,
    /// Only those that are the first to hold a call of this tool.
    pub tool: Option<String>,
    /// Only those that are the first to hold something that says this, whatever the case of its letters.
    pub text: Option<String>,
    /// Only those whose files or databases differ here, or below, from the checkpoint that they follow.
    pub path: Option<RelPath>,
    /// Those of agent state alone and of single tool calls too, instead of counting them.
    pub all: bool,
    /// Of every workspace in the home.
    pub all_workspaces: bool,
    /// Those that were deleted and can still be brought back, instead.
    pub deleted: bool,
    /// None that came from elsewhere.
    pub own: bool,
}

impl ListFilter {
    /// Whether it asks what happened in sessions.
    fn asks_for_events(&self) -> bool {
        self.tool.is_some() || self.text.is_some()
    }

    /// Whether what it means is shown even if it would be folded otherwise.
    fn unfolds(&self) -> bool {
        self.all
            || self.deleted
            || self.tag.is_some()
            || self.trigger.is_some()
            || self.asks_for_events()
    }
}

/// Whether a checkpoint belongs to another in a list: it holds agent state alone, and not because
/// the user asked for just a part.
pub(crate) fn is_folded(row: &CheckpointRow) -> bool {
    let trigger: Option<Trigger> = row.trigger.parse().ok();
    trigger.is_some_and(|trigger| !row.holds_files && !trigger.takes_files())
}

/// Checkpoints, newest first.
#[derive(Debug, Clone, JsonSchema, Serialize)]
pub struct Listing {
    /// How many there are, whatever the limit.
    pub total: usize,
    /// The newest of them, or those after the page asked for.
    pub checkpoints: Vec<Checkpoint>,
    /// Where the next page begins, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// What `latest` means.
    pub latest: Option<String>,
    /// How many checkpoints of agent state alone belong to one of these, by its id.
    pub folded: BTreeMap<String, usize>,
    /// How many of them are newer than all of these.
    pub folded_since: usize,
    /// How many of them there are, whatever the limit.
    pub folded_total: usize,
    /// Those that would be among them and cannot be read: damaged, or made by a later version.
    pub unreadable: Vec<String>,
}

impl Listing {
    /// Takes those out that belong to others, and counts them with the next newer one that stays.
    fn fold(&mut self, rows: &mut Vec<CheckpointRow>) {
        let mut newer: HashMap<WorkspaceId, String> = HashMap::new();
        rows.retain(|row| {
            let is_latest = self.latest.as_deref() == Some(row.id.as_str());
            if !is_folded(row) || is_latest {
                newer.insert(row.workspace, row.id.to_string());
                return true;
            }
            self.folded_total += 1;
            match newer.get(&row.workspace) {
                Some(newer) => *self.folded.entry(newer.clone()).or_default() += 1,
                None => self.folded_since += 1,
            }
            false
        });
    }
}

impl Rappel {
    /// The checkpoints with a tag, newest first, those of agent state alone included.
    pub fn find_by_tag(&self, tag: &str) -> Result<Vec<Checkpoint>> {
        let tag = Some(tag.to_owned());
        Ok(self.list(&ListFilter { tag, all: true, ..ListFilter::default() })?.checkpoints)
    }

    /// Lists checkpoints, newest first.
    pub fn list(&self, filter: &ListFilter) -> Result<Listing> {
        Ok(self.look_for(filter)?.0)
    }

    /// The checkpoints that a filter means, and the events for which it means them.
    pub(crate) fn look_for(&self, filter: &ListFilter) -> Result<(Listing, Vec<FoundEvent>)> {
        if let Some(session) = &filter.session
            && !self.store.look_up(|index| index.knows_session(session))?
        {
            return Err(self.no_session(session));
        }
        let mut rows = self.rows_meant(filter)?;
        let mut newest = BTreeMap::new();
        for row in &rows {
            newest.entry(row.workspace).or_insert(row.sequence);
        }
        let reference = Reference::new(rappel_types::reference::Base::Latest);
        let latest = match rows.is_empty() {
            true => None,
            false => self.resolve(&reference, true).ok(),
        };
        let latest = latest.map(|row| row.id.to_string());
        rows.retain(|row| {
            filter.trigger.is_none_or(|trigger| row.trigger == trigger.as_str())
                && filter.since.is_none_or(|since| row.created_at >= since.as_millis())
                && filter.until.is_none_or(|until| row.created_at <= until.as_millis())
        });
        if let Some(path) = &filter.path {
            self.retain_differing(&mut rows, path)?;
        }
        let mut listing = Listing {
            total: 0,
            checkpoints: Vec::new(),
            next: None,
            latest,
            folded: BTreeMap::new(),
            folded_since: 0,
            folded_total: 0,
            unreadable: Vec::new(),
        };
        self.retain_labelled(&mut rows, filter, &mut listing)?;
        let mut events = Vec::new();
        if filter.asks_for_events() {
            events = self.find_events(filter, &rows)?;
            let held: HashSet<&str> =
                events.iter().filter_map(|event| event.checkpoint.as_deref()).collect();
            rows.retain(|row| held.contains(row.id.as_str()));
        }
        if !filter.unfolds() {
            listing.fold(&mut rows);
        }
        listing.total = rows.len();
        let after = filter.after.as_ref();
        let mut page: Vec<&CheckpointRow> =
            rows.iter().filter(|row| after.is_none_or(|after| after.is_before(row))).collect();
        if let Some(limit) = filter.limit.filter(|limit| *limit < page.len()) {
            page.truncate(limit);
            let by_time = filter.all_workspaces && !filter.deleted;
            let next = Cursor::behind(after, &page, &newest, by_time);
            listing.next = next.map(|next| next.to_string());
        }
        for row in page {
            listing.checkpoints.extend(self.view_readable(row, &mut listing.unreadable)?);
        }
        let shown = &listing.checkpoints;
        listing.folded.retain(|id, _| shown.iter().any(|one| one.manifest.id.as_str() == id));
        Ok((listing, events))
    }

    /// All checkpoints that a filter may mean, newest first. In one history the order is the
    /// sequence, even if the clock stepped back.
    fn rows_meant(&self, filter: &ListFilter) -> Result<Vec<CheckpointRow>> {
        if filter.all_workspaces && !filter.deleted {
            let mut rows = self.store.look_up(|index| index.checkpoints(None))?;
            rows.sort_by_key(|row| std::cmp::Reverse((row.created_at, row.birth)));
            if filter.own {
                let lineages = self.store.look_up(lineage::all_in)?;
                rows.retain(|row| !lineages.contains(&row.workspace));
            }
            return Ok(rows);
        }
        let mut histories = match filter.deleted {
            true => lineage::apart(&self.deleted_rows()?),
            false => self.histories()?,
        };
        if filter.own {
            let own = self.workspace_id();
            histories.retain(|rows| rows.first().map(|row| row.workspace) == own);
        }
        Ok(lineage::merge(histories))
    }

    /// A checkpoint; if it cannot be read, its id is noted instead.
    pub(crate) fn view_readable(
        &self,
        row: &CheckpointRow,
        unreadable: &mut Vec<String>,
    ) -> Result<Option<Checkpoint>> {
        match self.view(row) {
            Ok(checkpoint) => Ok(Some(checkpoint)),
            Err(error) if error.is_unreadable() => {
                let id = row.id.to_string();
                if !unreadable.contains(&id) {
                    unreadable.push(id);
                }
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Keeps those with the tag and of the session that are asked for.
    fn retain_labelled(
        &self,
        rows: &mut Vec<CheckpointRow>,
        filter: &ListFilter,
        listing: &mut Listing,
    ) -> Result<()> {
        // Whoever asks for what happened in a session means events, whoever saved them.
        let session = filter.session.as_ref().filter(|_| !filter.asks_for_events());
        if filter.tag.is_none() && session.is_none() {
            return Ok(());
        }
        let mut kept = Vec::new();
        for row in rows.drain(..) {
            let Some(Checkpoint { manifest, .. }) =
                self.view_readable(&row, &mut listing.unreadable)?
            else {
                continue;
            };
            if filter.tag.as_ref().is_none_or(|tag| manifest.tags.contains(tag))
                && session.is_none_or(|session| manifest.session_id.as_ref() == Some(session))
            {
                kept.push(row);
            }
        }
        *rows = kept;
        Ok(())
    }

    /// Keeps those whose files or databases differ at or below a path from the checkpoint that they follow.
    fn retain_differing(&self, rows: &mut Vec<CheckpointRow>, path: &RelPath) -> Result<()> {
        let ancestry = self.joined_ancestry()?;
        let mut kept = Vec::new();
        for row in rows.drain(..).filter(|row| row.holds_files || !is_folded(row)) {
            let differs = self.changes_of(&row, &ancestry).and_then(|changes| {
                let file = changes.iter().any(|change| change.path.is_within(path));
                Ok(file || self.database_change(&row, path, &ancestry)?.is_some())
            });
            match differs {
                Ok(true) => kept.push(row),
                Ok(false) => {}
                Err(error) if error.is_unreadable() => {}
                Err(error) => return Err(error),
            }
        }
        *rows = kept;
        Ok(())
    }

    /// What a checkpoint changed in the files of the one that it follows; all of them if it is the first.
    pub(crate) fn changes_of(
        &self,
        row: &CheckpointRow,
        ancestry: &Ancestry,
    ) -> Result<Vec<tree::Change>> {
        let Some(files) = self.store.manifest(row)?.files else { return Ok(Vec::new()) };
        let before = match ancestry.parent(row, |row| row.holds_files) {
            Some(parent) => self.store.manifest(parent)?.files,
            None => None,
        };
        match before {
            Some(before) => Ok(tree::diff(self.source(), &before.tree, &files.tree)?),
            None => {
                let entries = tree::read(self.source(), &files.tree)?.into_iter();
                let added = |entry: Entry| tree::Change {
                    path: entry.path,
                    old: None,
                    new: Some(entry.node),
                };
                Ok(entries.map(added).collect())
            }
        }
    }

    /// One checkpoint with everything known about it.
    pub fn show(&self, reference: &Reference) -> Result<Checkpoint> {
        self.view(&self.resolve(reference, true)?)
    }

    /// The newest checkpoint that holds something of a session.
    pub fn newest_holding(&self, session: &SessionId) -> Result<Option<CheckpointId>> {
        self.session(session)?;
        let mut newest: Option<CheckpointRow> = None;
        for hit in self.store.look_up(|index| index.held(session.as_str()))? {
            let Ok(id) = hit.checkpoint.parse() else { continue };
            let row = self.store.checkpoint(&id)?;
            newest = newest.into_iter().chain(row).max_by_key(|row| row.birth);
        }
        Ok(newest.map(|row| row.id))
    }

    /// Every path that a checkpoint holds, in order.
    pub fn files_of(&self, reference: &Reference) -> Result<Vec<Entry>> {
        let row = self.resolve(reference, true)?;
        match self.store.manifest(&row)?.files {
            Some(files) => Ok(tree::read(self.source(), &files.tree)?),
            None => Ok(Vec::new()),
        }
    }

    /// Writes one file as a checkpoint holds it to `out`; a link's target if it is one, and a
    /// database of SQLite as one file, without a write-ahead log.
    pub fn cat(&self, reference: &Reference, path: &RelPath, out: &mut dyn Write) -> Result<()> {
        let row = self.resolve(reference, true)?;
        let missing = || Error::NoPath { checkpoint: row.id.to_string(), path: path.to_string() };
        let node = self.node_at(&row, path)?;
        if node.is_none()
            && let Some(database) = sqlite_at(&self.store.manifest(&row)?, path)
        {
            return sqlite::write_to(self.source(), database, out)
                .map_err(|error| Error::Database { name: database.name.clone(), error });
        }
        match node.ok_or_else(missing)? {
            Node::File { size, content, .. } => {
                Ok(content::write_to(self.source(), &content, size, out)?)
            }
            Node::Symlink { target } => {
                out.write_all(&target).map_err(Error::io("write", "the link's target"))
            }
            Node::Directory { .. } => Err(Error::Usage {
                message: format!("{path} is a folder"),
                advice: vec![Advice::ShowFiles { checkpoint: row.id.to_string() }],
            }),
        }
    }

    /// How long a file is that a checkpoint holds; `None` where only writing it tells (a link, a
    /// database).
    pub fn length_of(&self, reference: &Reference, path: &RelPath) -> Result<Option<u64>> {
        let row = self.resolve(reference, true)?;
        Ok(match self.node_at(&row, path)? {
            Some(Node::File { size, .. }) => Some(size),
            _ => None,
        })
    }

    pub(crate) fn node_at(&self, row: &CheckpointRow, path: &RelPath) -> Result<Option<Node>> {
        match self.store.manifest(row)?.files {
            Some(files) => Ok(tree::lookup(self.source(), &files.tree, path)?),
            None => Ok(None),
        }
    }
}
