//! Bulk packs that no commit names: what a save left that did not end, or all that is left of
//! checkpoints whose log is lost. Verify tells of the latter, a repair names them, and gc keeps
//! them until a user frees them.

use crate::error::Result;
use crate::lock::Reached;
use crate::log::Named;
use crate::pack::{self, PackId, PackReader};
use crate::scan::Scan;
use crate::store::Store;

/// A whole bulk pack of this home that no commit names.
struct Unnamed {
    named: Named,
    /// When it was sealed, in milliseconds since the epoch.
    sealed_at: i64,
}

impl Store {
    /// The packs that a lost log named, as far as anybody can tell, as a commit of today would name
    /// them.
    pub(crate) fn forsaken_packs(&self, scan: &Scan<'_>) -> Result<Vec<Named>> {
        let reached = self.reached()?;
        let mut unnamed = self.unnamed_packs(scan)?;
        unnamed.retain(|one| is_forsaken(scan, reached.as_ref(), one.sealed_at));
        if unnamed.is_empty() {
            return Ok(Vec::new());
        }
        // A save may have ended since the scan.
        self.catch_up_to_read()?;
        let rows = self.with_index(|index| index.packs())?;
        unnamed.retain(|one| !rows.iter().any(|row| row.pack == one.named.pack));
        Ok(unnamed.into_iter().map(|one| one.named).collect())
    }

    /// Whole packs that no living writer works on.
    fn unnamed_packs(&self, scan: &Scan<'_>) -> Result<Vec<Unnamed>> {
        let packs = self.home.packs();
        let mut found = Vec::new();
        let mut first_of_a_writer = i64::MAX;
        for id in pack::list(&packs)? {
            let known = scan.named_in.contains_key(&id) || scan.retired.contains_key(&id);
            if known || matches!(id, PackId::Log(_)) {
                continue;
            }
            let reader = match PackReader::open(&packs, id) {
                Err(error) if error.is_not_found() => continue,
                other => other?,
            };
            let sealed_at = reader.modified()?;
            if !reader.is_abandoned() {
                first_of_a_writer = first_of_a_writer.min(sealed_at);
                continue;
            }
            let ours = reader.header.is_some_and(|header| header.home == self.home.id);
            if let (true, Ok(Some((_, hash)))) = (ours, reader.footer()) {
                let named = Named { pack: id, length: reader.length()?, hash, birth: None };
                found.push(Unnamed { named, sealed_at });
            }
        }
        // A writer holds only its first packs; those that it sealed later are its own too.
        found.retain(|one| one.sealed_at < first_of_a_writer);
        Ok(found)
    }
}

/// Whether a lost log named a whole pack that no commit names. If the log is all there, a save left
/// the pack that did not end.
pub(crate) fn is_forsaken(scan: &Scan<'_>, reached: Option<&Reached>, sealed_at: i64) -> bool {
    let log_is_hurt = scan.unhealed().any(|damage| matches!(damage.pack, PackId::Log(_)));
    match reached.filter(|_| !log_is_hurt) {
        Some(reached) if reached.from_the_first => false,
        // A pack that is older than the log was named by an earlier one.
        Some(_) => scan.begun_at.is_some_and(|begun| sealed_at < begun),
        None => true,
    }
}
