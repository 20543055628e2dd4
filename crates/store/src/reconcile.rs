//! Comparing the index with the packs. Gc and verify, which read the packs anyway, build an index
//! anew that says something else than they do.

use std::collections::{HashMap, HashSet};

use crate::error::Result;
use crate::index::{Index, PackRow, RecordRow};
use crate::log::Named;
use crate::pack::PackId;
use crate::record::Kind;
use crate::scan::{ManifestRecord, Scan};
use crate::sink::Source;
use crate::store::{Store, decode_manifest};

impl Store {
    /// Builds the index anew if it contradicts what `scan` has read. What others committed since the
    /// scan does not count; once they have retired packs, nothing can be compared.
    pub(crate) fn reconcile(&self, scan: &Scan<'_>) -> Result<()> {
        if self.read_only.is_some() {
            return Ok(());
        }
        let contradicts = self.look_up(|index| {
            index.reload()?;
            match index.generation() == scan.generation {
                true => contradicts(index, scan),
                false => Ok(false),
            }
        })?;
        if contradicts {
            let mut lock = self.lock()?;
            self.with_index(Index::clear)?;
            self.catch_up(&mut lock)?;
        }
        Ok(())
    }
}

fn contradicts(index: &Index, scan: &Scan<'_>) -> Result<bool> {
    let (manifests, documents) = index.records(scan.sequence)?;
    let readable = |record: &&ManifestRecord| {
        scan.get(&record.object).and_then(|json| decode_manifest(&json)).is_ok()
    };
    let row = |record: &ManifestRecord| (record.pack, record.offset, record.birth, record.object);
    let missing = scan.manifests.iter().filter(|record| !manifests.contains(&row(record)));
    // The index has no row for a manifest that cannot be read.
    let hides = missing.filter(readable).count() > 0;
    let real_manifests: HashSet<RecordRow> = scan.manifests.iter().map(row).collect();

    let listed = |kind: Kind| !matches!(kind, Kind::Event | Kind::Session);
    let others = scan.documents.iter().filter(|document| listed(document.kind));
    let real_documents: HashSet<RecordRow> =
        others.map(|one| (one.pack, one.offset, one.birth, one.id)).collect();

    if !manifests.is_subset(&real_manifests) || !documents.is_subset(&real_documents) {
        // Of what is damaged by now the index may know more than the packs.
        return Ok(scan.damage.is_empty());
    }
    if hides || documents != real_documents {
        return Ok(true);
    }
    let objects = scan.pieces.iter().filter(|piece| piece.kind != Kind::Manifest).count();
    let short = index.count_objects()? < objects + manifests.len();
    Ok(scan.damage.is_empty() && (short || knows_other_packs(index, scan)?))
}

fn knows_other_packs(index: &Index, scan: &Scan<'_>) -> Result<bool> {
    let packs: HashMap<PackId, PackRow> =
        index.packs()?.into_iter().map(|row| (row.pack, row)).collect();
    // Packs that were retired and unlinked long ago are in no commit any more.
    let counts = |pack: &PackId| scan.packs.contains_key(pack) || scan.retired.contains_key(pack);
    let differs = |row: &PackRow| row.retired_at.is_some() != scan.retired.contains_key(&row.pack);
    let same =
        |row: &PackRow, named: &Named| row.length == named.length && row.hash == Some(named.hash);
    let mut named = scan.packs.values().filter_map(|info| info.named.as_ref());
    Ok(packs.values().any(|row| counts(&row.pack) && differs(row))
        || !named.all(|named| packs.get(&named.pack).is_some_and(|row| same(row, named))))
}
