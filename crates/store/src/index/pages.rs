//! Lists of checkpoints in pages: which are wanted, in which order, and where a page begins.

use rappel_types::WorkspaceId;
use rusqlite::params_from_iter;
use rusqlite::types::Value;

use super::queries::checkpoint_row;
use super::{CheckpointRow, Index};
use crate::error::Result;

/// Whose checkpoints are wanted.
#[derive(Debug, Clone, Copy)]
pub enum Of<'a> {
    /// Those of one history.
    One(WorkspaceId),
    /// Those of all histories but these.
    AllBut(&'a [WorkspaceId]),
}

/// In which order checkpoints are listed. Lists begin with the newest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// By their numbers, even if the clock stepped back.
    Number,
    /// By the time at which they were made.
    Time,
}

/// A place in such an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// When, in milliseconds since the epoch. In the order of numbers it does not count.
    pub created_at: i64,
    /// The commit. In the order of numbers it does not count.
    pub birth: u64,
    /// The number.
    pub sequence: u64,
}

impl From<&CheckpointRow> for Key {
    fn from(row: &CheckpointRow) -> Self {
        Self { created_at: row.created_at, birth: row.birth, sequence: row.sequence }
    }
}

/// Which checkpoints are wanted. Deleted ones never are.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    /// Whose.
    pub of: Of<'a>,
    /// The order that `before` and `after` mean.
    pub order: Order,
    /// Only those that were made for this reason.
    pub trigger: Option<&'a str>,
    /// Only those that were made from then on, in milliseconds since the epoch.
    pub since: Option<i64>,
    /// Only those that were made up to then.
    pub until: Option<i64>,
    /// Only those of this session.
    pub session: Option<&'a str>,
    /// Only those with this tag.
    pub tag: Option<&'a str>,
    /// Only those that lists count with another one, or only the others.
    pub folded: Option<bool>,
    /// Only those that are older than this place.
    pub before: Option<Key>,
    /// Only those that are newer than this place.
    pub after: Option<Key>,
}

impl<'a> Wanted<'a> {
    /// All checkpoints of these histories.
    pub fn all(of: Of<'a>, order: Order) -> Self {
        Self {
            of,
            order,
            trigger: None,
            since: None,
            until: None,
            session: None,
            tag: None,
            folded: None,
            before: None,
            after: None,
        }
    }

    /// Whether the histories alone decide, so that the tally knows how many there are.
    fn is_unfiltered(&self) -> bool {
        let Self { trigger, since, until, session, tag, before, after, .. } = self;
        let texts = [trigger, session, tag];
        texts.iter().all(|text| text.is_none())
            && since.is_none()
            && until.is_none()
            && before.is_none()
            && after.is_none()
    }

    fn condition(&self) -> Condition {
        let mut condition = Condition { text: "live".into(), values: Vec::new() };
        condition.of(self.of);
        let number = |at: u64| Value::from(i64::try_from(at).unwrap_or(i64::MAX));
        if let Some(trigger) = self.trigger {
            condition.add("trigger = ?", [trigger.to_owned().into()]);
        }
        if let Some(since) = self.since {
            condition.add("created_at >= ?", [since.into()]);
        }
        if let Some(until) = self.until {
            condition.add("created_at <= ?", [until.into()]);
        }
        if let Some(session) = self.session {
            condition.add("session = ?", [session.to_owned().into()]);
        }
        if let Some(tag) = self.tag {
            let tag = || Value::from(tag.to_owned());
            condition.add(
                "id IN (SELECT t.id FROM tagged t WHERE t.tag = ? AND t.added AND NOT EXISTS (
                     SELECT 1 FROM tagged n WHERE n.tag = ? AND n.id = t.id
                         AND NOT n.added AND n.birth > t.birth))",
                [tag(), tag()],
            );
        }
        if let Some(folded) = self.folded {
            condition.add(if folded { "folded" } else { "NOT folded" }, []);
        }
        for (place, sign) in [(self.before, '<'), (self.after, '>')] {
            match (place, self.order) {
                (None, _) => {}
                (Some(key), Order::Number) => {
                    condition.add(&format!("sequence {sign} ?"), [number(key.sequence)]);
                }
                (Some(key), Order::Time) => condition.add(
                    &format!("(created_at, birth, sequence) {sign} (?, ?, ?)"),
                    [key.created_at.into(), number(key.birth), number(key.sequence)],
                ),
            }
        }
        condition
    }
}

/// What follows `WHERE`, and what stands for its question marks.
struct Condition {
    text: String,
    values: Vec<Value>,
}

impl Condition {
    fn add(&mut self, text: &str, values: impl IntoIterator<Item = Value>) {
        self.text.push_str(" AND ");
        self.text.push_str(text);
        self.values.extend(values);
    }

    fn of(&mut self, of: Of<'_>) {
        match of {
            Of::One(id) => self.add("workspace = ?", [Value::from(id.0 as i64)]),
            Of::AllBut([]) => {}
            Of::AllBut(others) => {
                let marks = vec!["?"; others.len()].join(", ");
                let ids = others.iter().map(|id| Value::from(id.0 as i64));
                self.add(&format!("workspace NOT IN ({marks})"), ids);
            }
        }
    }
}

impl Index {
    /// The newest of the checkpoints that are wanted, at most so many, newest first. It takes as long
    /// as the page is, and as it takes to pass over what a filter leaves out.
    pub fn page(&self, wanted: &Wanted<'_>, limit: Option<usize>) -> Result<Vec<CheckpointRow>> {
        let Condition { text, mut values } = wanted.condition();
        let order = match wanted.order {
            Order::Number => "sequence DESC",
            Order::Time => "created_at DESC, birth DESC, sequence DESC",
        };
        let columns = super::queries::COLUMNS;
        let query =
            format!("SELECT {columns} FROM checkpoint WHERE {text} ORDER BY {order} LIMIT ?");
        let limit = limit.and_then(|limit| i64::try_from(limit).ok()).unwrap_or(-1);
        values.push(limit.into());
        let fail = self.fail();
        let mut statement = self.connection.prepare_cached(&query).map_err(&fail)?;
        let rows = statement.query_map(params_from_iter(values), checkpoint_row).map_err(&fail)?;
        rows.collect::<Result<Vec<_>, _>>().map_err(&fail)
    }

    /// How many checkpoints are wanted.
    pub fn count(&self, wanted: &Wanted<'_>) -> Result<usize> {
        let (query, values) = match wanted.is_unfiltered() {
            true => {
                let mut of = Condition { text: "TRUE".into(), values: Vec::new() };
                of.of(wanted.of);
                if let Some(folded) = wanted.folded {
                    of.add("folded = ?", [i64::from(folded).into()]);
                }
                (format!("SELECT coalesce(sum(count), 0) FROM tally WHERE {}", of.text), of.values)
            }
            false => {
                let Condition { text, values } = wanted.condition();
                (format!("SELECT count(*) FROM checkpoint WHERE {text}"), values)
            }
        };
        self.connection
            .prepare_cached(&query)
            .and_then(|mut statement| {
                statement.query_row(params_from_iter(values), |row| row.get(0))
            })
            .map_err(self.fail())
    }

    /// The histories that have checkpoints which lists count with another one.
    pub fn with_folded(&self) -> Result<Vec<WorkspaceId>> {
        let fail = self.fail();
        let mut statement = self
            .connection
            .prepare_cached("SELECT workspace FROM tally WHERE folded AND count > 0")
            .map_err(&fail)?;
        let rows = statement
            .query_map([], |row| Ok(WorkspaceId(row.get::<_, i64>(0)? as u64)))
            .map_err(&fail)?;
        rows.collect::<Result<Vec<_>, _>>().map_err(&fail)
    }
}
