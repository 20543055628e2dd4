//! What any process committed to a home, in the order of the commits, from a position on. It comes
//! from the log by way of the index, so it is the same for every process and after every restart.

use std::fmt;
use std::str::FromStr;

use crate::error::Result;
use crate::index::Happened;
use crate::store::Store;

/// How far a reader of events has come. Readers keep it as text, and need not understand it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Position {
    /// The home, in short: another one may stand in its place by now.
    home: u32,
    /// The commit.
    commit: u64,
    /// How many events of that commit were read; `None` is all of them.
    within: Option<u64>,
    /// How often gc had run by then.
    generation: u64,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "h{:x}.{}.{}", self.home, self.commit, self.generation)?;
        self.within.map_or(Ok(()), |within| write!(f, ".{within}"))
    }
}

/// That a text is no position.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this is not a position in the events of a home")]
pub struct BadPosition;

impl FromStr for Position {
    type Err = BadPosition;

    fn from_str(text: &str) -> Result<Self, BadPosition> {
        let number = |text: &str| -> Result<u64, BadPosition> {
            let is_plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            text.parse().ok().filter(|_| is_plain).ok_or(BadPosition)
        };
        let mut parts = text.split('.');
        let home = parts.next().and_then(|part| part.strip_prefix('h')).ok_or(BadPosition)?;
        let is_plain = home.bytes().all(|byte| byte.is_ascii_hexdigit());
        let home = u32::from_str_radix(home, 16).ok().filter(|_| is_plain).ok_or(BadPosition)?;
        let (commit, generation) = (parts.next(), parts.next());
        let within = parts.next().map(number).transpose()?;
        match (commit, generation, parts.next()) {
            (Some(commit), Some(generation), None) => {
                Ok(Self { home, commit: number(commit)?, within, generation: number(generation)? })
            }
            _ => Err(BadPosition),
        }
    }
}

/// One thing that happened, and where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// The position behind it: a reader that has come so far has seen it.
    pub position: Position,
    /// The commit's number.
    pub commit: u64,
    /// What happened.
    pub happened: Happened,
}

/// Some of what happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// In the order of the commits.
    pub events: Vec<Event>,
    /// Where to go on.
    pub next: Position,
    /// Whether gc may have taken events away that came after the position asked for: a reader that
    /// goes by them has to look at everything again.
    pub reset: bool,
}

impl Store {
    /// The position behind everything that has happened so far.
    pub fn events_end(&self) -> Result<Position> {
        let (commit, generation) = self.look_up(|index| index.reached())?;
        Ok(Position { home: self.short_id(), commit, within: None, generation })
    }

    fn short_id(&self) -> u32 {
        self.home().id as u32
    }

    /// What happened after a position, at most `limit` events; with no position, from the
    /// beginning. Of what was deleted for good, nothing is told.
    pub fn events(&self, since: Option<Position>, limit: usize) -> Result<Page> {
        let home = self.short_id();
        let mut from = since.unwrap_or_default();
        let is_foreign = since.is_some_and(|since| since.home != home);
        if is_foreign {
            from = self.events_end()?;
        }
        let skip = from.within;
        self.look_up(|index| {
            let (end, generation) = index.reached()?;
            // A position ahead of the log is of another home, or the log has lost its end.
            let reset = since.is_some()
                && (is_foreign
                    || from.commit > end
                    || from.generation > generation
                    || index.may_lack(from.commit, skip.is_some(), from.generation)?);
            let first = if skip.is_some() { from.commit } else { from.commit.saturating_add(1) };
            let mut events: Vec<Event> = Vec::new();
            let mut next = Position { home, commit: end, within: None, generation };
            for commit in index.commits_from(first, limit.saturating_add(1))? {
                let all = index.happened(commit)?;
                let count = all.len() as u64;
                let read = skip.filter(|_| commit == from.commit).unwrap_or(0);
                for (number, happened) in (1..).zip(all).skip(read as usize) {
                    if events.len() == limit {
                        next = events.last().map_or(from, |last| last.position);
                        return Ok(Page { events, next, reset });
                    }
                    let within = Some(number).filter(|number| *number < count);
                    let position = Position { home, commit, within, generation };
                    events.push(Event { position, commit, happened });
                }
            }
            Ok(Page { events, next, reset })
        })
    }
}
