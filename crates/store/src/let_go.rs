//! Letting sessions go, and bringing them back, by records: a session's tombstone takes the events
//! and stored states that were born before it out of the journal, and events that are appended
//! again were born after.

use std::collections::{BTreeMap, HashSet};

use rappel_types::agents::Event;

use crate::append::{Change, Space};
use crate::document::SessionTombstone;
use crate::error::{Error, Result};
use crate::record::Kind;
use crate::scan::{Depth, Document, Scan};
use crate::store::Store;
use crate::writer::{NewRecord, Spool};

impl Store {
    /// Lets sessions go, in one commit, and says which. One that has gone on since, or that a
    /// checkpoint refers to by now, stays. Works on a full disk.
    pub fn let_go(&self, sessions: &[SessionTombstone]) -> Result<Vec<String>> {
        if sessions.is_empty() {
            return Ok(Vec::new());
        }
        let now = self.clock.now();
        let mut gone = Vec::new();
        self.bury(&mut || {
            gone.clear();
            let mut found = Vec::new();
            for one in sessions {
                let stays = self.with_index(|index| {
                    let as_it_was = index.last_event(&one.session)? == Some(one.last);
                    Ok(!as_it_was || index.is_held(&one.session, now, &HashSet::new())?)
                })?;
                if !stays {
                    gone.push(one.session.clone());
                    found.push((SessionTombstone::key(&one.session), json(one)?));
                }
            }
            Ok(found)
        })?;
        Ok(gone)
    }

    /// Brings back the journal of a session that was let go; false if none was. If gc has taken
    /// some of it, that is [`Error::SessionCollected`].
    pub fn bring_back_session(&self, session: &str) -> Result<bool> {
        let mut lock = self.lock()?;
        let tail = self.catch_up(&mut lock)?;
        // The index has forgotten the events; the packs have not.
        let scan = Scan::read(self, &tail, Depth::Tables)?;
        let Some((tombstone, born)) = newest_tombstone(&scan, session) else { return Ok(false) };
        let events = events_before(&scan, session, born);
        if events.len() as u64 != tombstone.events {
            return Err(Error::SessionCollected(session.to_owned()));
        }
        if self.with_index(|index| index.last_event(session))?.is_some() {
            return Err(Error::SessionBegunAnew(session.to_owned()));
        }
        let mut spool = Spool::default();
        for json in events.into_values() {
            let key = session.to_owned();
            let new = NewRecord::Document { kind: Kind::Event, key, json: json.to_owned() };
            let (kind, record, body) = self.encode_new(new)?;
            spool.add(self, kind, &record, body)?;
        }
        let change = Change { generation: tail.generation, ..Change::default() };
        let (entries, commit, position) =
            self.append(&mut lock, &tail, spool, change, Space::Ordinary)?;
        drop(lock);
        let behind = tail.indexed_sequence();
        let _ = self.with_index(|index| index.apply_own(&entries, &commit, &position, behind));
        Ok(true)
    }
}

fn json(tombstone: &SessionTombstone) -> Result<String> {
    serde_json::to_string(tombstone)
        .map_err(|error| Error::Damaged(format!("tombstone of a session: {error}")))
}

/// The last tombstone of a session, and the commit that it was born with.
fn newest_tombstone(scan: &Scan<'_>, session: &str) -> Option<(SessionTombstone, u64)> {
    let key = SessionTombstone::key(session);
    let about = |one: &&Document| one.kind == Kind::Tombstone && one.key == key;
    let newest = scan.documents.iter().filter(about).max_by_key(|one| one.birth)?;
    Some((serde_json::from_str(&newest.json).ok()?, newest.birth))
}

/// The events of a session that were born between its tombstone and the one before that, by number.
fn events_before<'s>(scan: &'s Scan<'_>, session: &str, born: u64) -> BTreeMap<u64, &'s str> {
    let key = SessionTombstone::key(session);
    let earlier = scan
        .documents
        .iter()
        .filter(|one| one.kind == Kind::Tombstone && one.key == key && one.birth < born);
    let from = earlier.map(|one| one.birth).max().unwrap_or(0);
    let own = scan.documents.iter().filter(|one| {
        one.kind == Kind::Event && one.key == session && one.birth > from && one.birth < born
    });
    own.filter_map(|one| Some((Event::parse(&one.json).ok()?.number, &*one.json))).collect()
}
