//! Lists of checkpoints, in pages.
//!
//! The index finds a page, and counts what is not on it, without a look at the rest of the history.
//! Three questions need more than the index knows, so all checkpoints are looked at: which differ at
//! a path, which hold an event, and which deleted ones can be brought back.

use std::collections::{BTreeMap, HashMap, HashSet};

use rappel_store::index::{CheckpointRow, DocumentRow, Index, Key, Of, Order, Wanted};
use rappel_store::record::Kind;
use rappel_types::reference::Base;
use rappel_types::{Reference, RelPath, Timestamp, Trigger, WorkspaceId};
use schemars::JsonSchema;
use serde::Serialize;

use crate::agents::FoundEvent;
use crate::checkpoint::Checkpoint;
use crate::cursor::Cursor;
use crate::error::Result;
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

    /// Whether the index alone cannot answer it.
    fn is_search(&self) -> bool {
        self.deleted || self.path.is_some() || self.asks_for_events()
    }

    /// What it wants of a history, from the newest on.
    fn wanted<'f>(&'f self, of: Of<'f>, order: Order) -> Wanted<'f> {
        Wanted {
            trigger: self.trigger.map(Trigger::as_str),
            since: self.since.map(Timestamp::as_millis),
            until: self.until.map(Timestamp::as_millis),
            // Whoever asks for what happened in a session means events, whoever saved them.
            session: self.session.as_deref().filter(|_| !self.asks_for_events()),
            tag: self.tag.as_deref(),
            ..Wanted::all(of, order)
        }
    }
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

/// The histories that a list joins.
enum Histories {
    /// These, each in an order of its own.
    These(Vec<(WorkspaceId, Order)>),
    /// All of the home but these, by time.
    AllBut(Vec<WorkspaceId>),
}

impl Histories {
    fn parts(&self) -> Vec<(Of<'_>, Order)> {
        match self {
            Self::These(these) => these.iter().map(|(id, order)| (Of::One(*id), *order)).collect(),
            Self::AllBut(others) => vec![(Of::AllBut(others), Order::Time)],
        }
    }

    /// In which order a history is listed, if it is.
    fn order_of(&self, id: WorkspaceId) -> Option<Order> {
        match self {
            Self::These(these) => these.iter().find(|(one, _)| *one == id).map(|(_, order)| *order),
            Self::AllBut(others) => (!others.contains(&id)).then_some(Order::Time),
        }
    }
}

/// What the index says of a page.
struct Page {
    rows: Vec<(CheckpointRow, Vec<DocumentRow>)>,
    total: usize,
    next: Option<Cursor>,
    folded: Folded,
}

/// Checkpoints that are counted instead of shown.
#[derive(Default)]
struct Folded {
    /// With the next newer one of their history that is shown, by its id.
    with: BTreeMap<String, usize>,
    /// Newer than all that are shown.
    since: usize,
    total: usize,
}

impl Rappel {
    /// The checkpoints with a tag, newest first, those of agent state alone included.
    pub fn find_by_tag(&self, tag: &str) -> Result<Vec<Checkpoint>> {
        let tag = Some(tag.to_owned());
        Ok(self.list(&ListFilter { tag, all: true, ..ListFilter::default() })?.checkpoints)
    }

    /// Lists checkpoints, newest first.
    pub fn list(&self, filter: &ListFilter) -> Result<Listing> {
        Ok(self.find_listed(filter)?.0)
    }

    /// The checkpoints that a filter means, and the events for which it means them.
    pub(crate) fn find_listed(&self, filter: &ListFilter) -> Result<(Listing, Vec<FoundEvent>)> {
        if let Some(named) = &filter.session
            && !self.store.look_up(|index| index.knows_session(named))?
        {
            let id = named.parse().map_err(|_| self.no_session(named))?;
            let session = Some(self.find_session(&id)?.to_string());
            return self.find_listed(&ListFilter { session, ..filter.clone() });
        }
        let histories = self.histories_listed(filter)?;
        let mut unreadable = Vec::new();
        let (page, events) = match filter.is_search() {
            true => self.search_page(filter, &histories, &mut unreadable)?,
            false => (self.store.look_up(|index| page(index, filter, &histories))?, Vec::new()),
        };
        let latest = self.resolve(&Reference::new(Base::Latest), true).ok();
        let mut listing = Listing {
            total: page.total,
            checkpoints: Vec::with_capacity(page.rows.len()),
            next: page.next.map(|next| next.to_string()),
            latest: latest.map(|row| row.id.to_string()),
            folded: page.folded.with,
            folded_since: page.folded.since,
            folded_total: page.folded.total,
            unreadable,
        };
        for (row, labels) in &page.rows {
            let view = self.view_labelled(row, labels);
            listing.checkpoints.extend(readable(view, row, &mut listing.unreadable)?);
        }
        let shown = &listing.checkpoints;
        listing.folded.retain(|id, _| shown.iter().any(|one| one.manifest.id.as_str() == id));
        Ok((listing, events))
    }

    /// In one history the order is the sequence, even if the clock stepped back. Those of a lineage
    /// are numbered in the order in which they were imported, so their times count.
    fn histories_listed(&self, filter: &ListFilter) -> Result<Histories> {
        let lineages = self.store.look_up(lineage::all_in)?;
        let is_lineage = |id: WorkspaceId| lineages.iter().any(|lineage| lineage.workspace == id);
        if filter.all_workspaces && !filter.deleted {
            let except = lineages.iter().filter(|_| filter.own).map(|lineage| lineage.workspace);
            return Ok(Histories::AllBut(except.collect()));
        }
        let Some(own) = self.workspace_id() else { return Ok(Histories::These(Vec::new())) };
        let order = if is_lineage(own) { Order::Time } else { Order::Number };
        let mut these = vec![(own, order)];
        let of_own = lineages.iter().filter(|lineage| lineage.of == own && !filter.own);
        these.extend(of_own.map(|lineage| (lineage.workspace, Order::Time)));
        Ok(Histories::These(these))
    }

    /// A page of what only a look at all checkpoints finds.
    fn search_page(
        &self,
        filter: &ListFilter,
        histories: &Histories,
        unreadable: &mut Vec<String>,
    ) -> Result<(Page, Vec<FoundEvent>)> {
        let mut rows = match filter.deleted {
            true => self.deleted_listed(filter, histories, unreadable)?,
            false => self.store.look_up(|index| merged(index, filter, histories, None))?,
        };
        if let Some(path) = &filter.path {
            self.retain_differing(&mut rows, path)?;
        }
        let mut events = Vec::new();
        if filter.asks_for_events() {
            events = self.find_events(filter, &rows)?;
            let held: HashSet<&str> =
                events.iter().filter_map(|event| event.checkpoint.as_deref()).collect();
            rows.retain(|row| held.contains(row.id.as_str()));
        }
        let mut folded = Folded::default();
        if !filter.unfolds() {
            fold(&mut rows, &mut folded);
        }
        let total = rows.len();
        let newest = newest_of(&rows);
        let after = filter.after.as_ref();
        rows.retain(|row| {
            let order = histories.order_of(row.workspace).unwrap_or(Order::Number);
            after.is_none_or(|after| after.is_before(row, order))
        });
        let next = cut(&mut rows, filter, &newest);
        let labels = |row: &CheckpointRow| self.store.look_up(|index| labels_of(index, row));
        let rows = rows.into_iter().map(|row| labels(&row).map(|labels| (row, labels)));
        let rows = rows.collect::<rappel_store::Result<Vec<_>>>()?;
        Ok((Page { rows, total, next, folded }, events))
    }

    /// The deleted checkpoints that a filter means, newest first.
    fn deleted_listed(
        &self,
        filter: &ListFilter,
        histories: &Histories,
        unreadable: &mut Vec<String>,
    ) -> Result<Vec<CheckpointRow>> {
        let mut rows = self.deleted_rows()?;
        rows.retain(|row| histories.order_of(row.workspace).is_some());
        let mut rows = lineage::merge(lineage::apart(&rows));
        rows.retain(|row| {
            filter.trigger.is_none_or(|trigger| row.trigger == trigger.as_str())
                && filter.since.is_none_or(|since| row.created_at >= since.as_millis())
                && filter.until.is_none_or(|until| row.created_at <= until.as_millis())
        });
        if filter.tag.is_none() && filter.session.is_none() {
            return Ok(rows);
        }
        let mut kept = Vec::new();
        for row in rows {
            let Some(Checkpoint { manifest, .. }) = self.view_readable(&row, unreadable)? else {
                continue;
            };
            if filter.tag.as_ref().is_none_or(|tag| manifest.tags.contains(tag))
                && (filter.session.is_none() || manifest.session_id == filter.session)
            {
                kept.push(row);
            }
        }
        Ok(kept)
    }

    /// A checkpoint; if it cannot be read, its id is noted instead.
    pub(crate) fn view_readable(
        &self,
        row: &CheckpointRow,
        unreadable: &mut Vec<String>,
    ) -> Result<Option<Checkpoint>> {
        readable(self.view(row), row, unreadable)
    }

    /// Keeps those whose files or databases differ at or below a path from the checkpoint that they follow.
    fn retain_differing(&self, rows: &mut Vec<CheckpointRow>, path: &RelPath) -> Result<()> {
        let ancestry = self.joined_ancestry()?;
        let mut kept = Vec::new();
        for row in rows.drain(..).filter(|row| row.holds_files || !row.folded) {
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
}

fn readable(
    view: Result<Checkpoint>,
    row: &CheckpointRow,
    unreadable: &mut Vec<String>,
) -> Result<Option<Checkpoint>> {
    match view {
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

/// The page that a filter means, as the index has it at one moment.
fn page(
    index: &mut Index,
    filter: &ListFilter,
    histories: &Histories,
) -> rappel_store::Result<Page> {
    let mut folded = Folded::default();
    let mut newest = BTreeMap::new();
    let mut total = 0;
    for (of, order) in histories.parts() {
        let wanted = filter.wanted(of, order);
        let shown = Wanted { folded: shown_only(filter), ..wanted };
        total += index.count(&shown)?;
        if let Of::One(id) = of {
            let first = index.page(&Wanted::all(of, order), Some(1))?;
            newest.extend(first.first().map(|row| (id, Key::from(row))));
        }
    }
    let mut rows = merged(index, filter, histories, filter.limit)?;
    let next = cut(&mut rows, filter, &newest);
    if !filter.unfolds() {
        for id in index.with_folded()? {
            if let Some(order) = histories.order_of(id) {
                let wanted = filter.wanted(Of::One(id), order);
                count_folded(index, &wanted, &rows, &mut folded)?;
            }
        }
    }
    let rows = rows.into_iter().map(|row| labels_of(index, &row).map(|labels| (row, labels)));
    Ok(Page { rows: rows.collect::<Result<_, _>>()?, total, next, folded })
}

/// Checkpoints that are listed one by one, or all.
fn shown_only(filter: &ListFilter) -> Option<bool> {
    (!filter.unfolds()).then_some(false)
}

/// The histories joined, newest first: all of them, or a page with one more.
fn merged(
    index: &Index,
    filter: &ListFilter,
    histories: &Histories,
    limit: Option<usize>,
) -> rappel_store::Result<Vec<CheckpointRow>> {
    let mut parts = Vec::new();
    for (of, order) in histories.parts() {
        let mut wanted = filter.wanted(of, order);
        if !filter.is_search() {
            wanted.folded = shown_only(filter);
            wanted.before = filter.after.as_ref().and_then(|after| after.place_in(of));
        }
        let mut rows = index.page(&wanted, limit.map(|limit| limit.saturating_add(1)))?;
        rows.reverse();
        parts.push(rows);
    }
    Ok(lineage::merge(parts))
}

/// Cuts a page at its limit. Says where the next one begins.
fn cut(
    rows: &mut Vec<CheckpointRow>,
    filter: &ListFilter,
    newest: &BTreeMap<WorkspaceId, Key>,
) -> Option<Cursor> {
    let limit = filter.limit.filter(|limit| *limit < rows.len())?;
    rows.truncate(limit);
    let by_time = filter.all_workspaces && !filter.deleted;
    Cursor::behind(filter.after.as_ref(), rows, newest, by_time)
}

/// Counts the checkpoints of one history that are not shown, each with the next newer one on the
/// page.
fn count_folded(
    index: &Index,
    wanted: &Wanted<'_>,
    page: &[CheckpointRow],
    folded: &mut Folded,
) -> rappel_store::Result<()> {
    let Of::One(id) = wanted.of else { return Ok(()) };
    let hidden = Wanted { folded: Some(true), ..*wanted };
    let shown = Wanted { folded: Some(false), ..*wanted };
    folded.total += index.count(&hidden)?;
    let newest = index.page(&shown, Some(1))?;
    let after = newest.first().map(Key::from);
    folded.since += index.count(&Wanted { after, ..hidden })?;
    let mut own = page.iter().filter(|row| row.workspace == id).peekable();
    while let Some(row) = own.next() {
        let before = Some(Key::from(row));
        let older = match own.peek() {
            Some(older) => Some(Key::from(*older)),
            None => index.page(&Wanted { before, ..shown }, Some(1))?.first().map(Key::from),
        };
        let count = index.count(&Wanted { before, after: older, ..hidden })?;
        if count > 0 {
            folded.with.insert(row.id.to_string(), count);
        }
    }
    Ok(())
}

/// Takes those out of a whole list that belong to others, and counts them.
fn fold(rows: &mut Vec<CheckpointRow>, folded: &mut Folded) {
    let mut newer: HashMap<WorkspaceId, String> = HashMap::new();
    rows.retain(|row| {
        if !row.folded {
            newer.insert(row.workspace, row.id.to_string());
            return true;
        }
        folded.total += 1;
        match newer.get(&row.workspace) {
            Some(newer) => *folded.with.entry(newer.clone()).or_default() += 1,
            None => folded.since += 1,
        }
        false
    });
}

/// The newest checkpoint of each history in a list.
fn newest_of(rows: &[CheckpointRow]) -> BTreeMap<WorkspaceId, Key> {
    let mut newest = BTreeMap::new();
    for row in rows {
        newest.entry(row.workspace).or_insert_with(|| Key::from(row));
    }
    newest
}

fn labels_of(index: &Index, row: &CheckpointRow) -> rappel_store::Result<Vec<DocumentRow>> {
    index.documents(Kind::Label, Some(row.id.as_str()))
}
