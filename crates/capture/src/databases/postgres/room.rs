//! Whether the server's table of locks has room for a restore, in which every object that is dropped or made takes some until
//! the commit. The numbers are measured (`what_the_lock_table_takes` compares them with a server).

use super::super::error::Result;
use super::check::refused;
use super::session::Session;

/// What every restore takes (a superuser's locks the catalogs), and what a few other sessions take.
const BESIDES: u64 = 100;

/// The table of locks, and what it takes to drop everything that is there.
#[derive(Debug, Clone, Copy, Default)]
pub struct Room {
    each: u64,
    slots: u64,
    to_drop: u64,
}

/// Asks the server.
pub fn look(session: &mut Session) -> Result<Room> {
    let row = session.rows(
        "SELECT pg_catalog.json_build_array(
           pg_catalog.current_setting('max_locks_per_transaction')::bigint,
           (SELECT pg_catalog.sum(setting::bigint) + 1 FROM pg_catalog.pg_settings WHERE name IN ('max_connections',
              'max_prepared_transactions', 'autovacuum_max_workers', 'max_worker_processes', 'max_wal_senders')),
           (SELECT pg_catalog.count(*) FROM (SELECT DISTINCT classid, objid FROM pg_catalog.pg_depend WHERE objid >= 16384) d)
             + (SELECT pg_catalog.count(*) FROM pg_catalog.pg_class WHERE oid >= 16384 AND relkind IN ('r', 'p', 'm', 'f', 'S'))
             + (SELECT pg_catalog.count(*) FROM pg_catalog.pg_namespace WHERE oid >= 16384)
             + (SELECT pg_catalog.count(*) FROM pg_catalog.pg_largeobject_metadata));",
    )?;
    let number = |at: usize| row.first().and_then(|row| row.get(at)?.as_u64()).unwrap_or_default();
    Ok(Room { each: number(0), slots: number(1), to_drop: number(2) })
}

impl Room {
    /// Refuses a restore for which it is too small. `to_make` is what the dump takes.
    pub fn suffices(&self, to_make: u64) -> Result<()> {
        let Self { each, slots, to_drop } = *self;
        let needed = to_drop + to_make + BESIDES;
        if slots == 0 || needed <= each * slots {
            return Ok(());
        }
        Err(refused(
            format!(
                "the server's table of locks is too small: about {needed} are needed, it has {}",
                each * slots
            ),
            format!(
                "set max_locks_per_transaction = {} in postgresql.conf and restart the server",
                (needed * 5 / 4).div_ceil(slots)
            ),
        ))
    }
}
