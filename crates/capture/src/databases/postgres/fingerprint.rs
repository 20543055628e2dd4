//! Has anything been committed? One question, some milliseconds.
//!
//! Every transaction that changes something takes an id, and a snapshot shows which ids are
//! finished: those below its `xmax` that it does not list. So two equal snapshots of one run of the server
//! have the same commits behind them, prepared transactions and statements of any kind included, and statistics or
//! vacuum do not matter. What else can change:
//! - `nextval` within a block that was logged before takes no id: the sequences' values are
//!   compared too. `setval` on an unlogged sequence takes none either, and what it sets tells nothing until it is
//!   called: a database with such a sequence counts as changed.
//! - After a crash the server may come back without its last commits (`synchronous_commit = off`) and
//!   with empty unlogged tables, and give the same ids again: its processes start anew then, and
//!   their start is part of the fingerprint.
//!
//! Who may not see when the server's processes were started gets the position in the write-ahead log instead
//! of snapshot and start: it moves with every commit, also at checkpoints and crashes.
//!
//! Ids and log are the whole server's, so commits in its other databases look like ones in this.

use super::super::Fingerprint;
use super::super::error::Result;
use super::session::Session;

/// One message to the server, and so one transaction, with which the timeouts end: behind a pooler the connection is
/// another client's then.
const QUERY: &str = "\
SET LOCAL lock_timeout = '1s'\\;
SET LOCAL statement_timeout = '5s'\\;
SELECT pg_catalog.concat_ws(' ',
  (SELECT system_identifier FROM pg_catalog.pg_control_system()),
  (SELECT oid FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database()),
  extract(epoch FROM pg_catalog.pg_postmaster_start_time()),
  COALESCE(
    (SELECT pg_catalog.concat_ws(' ', 'snapshot', extract(epoch FROM max(backend_start)), pg_catalog.pg_current_snapshot())
     FROM pg_catalog.pg_stat_activity
     WHERE backend_type IN ('checkpointer', 'background writer')
     HAVING count(backend_start) = 2 AND NOT pg_catalog.pg_is_in_recovery()),
    pg_catalog.concat_ws(' ', 'log',
      CASE WHEN pg_catalog.pg_is_in_recovery() THEN pg_catalog.pg_last_wal_replay_lsn()
      ELSE pg_catalog.pg_current_wal_insert_lsn() END)),
  'sequences',
  (SELECT pg_catalog.md5(COALESCE(pg_catalog.string_agg(
     pg_catalog.concat_ws(' ', s.seqrelid, COALESCE(pg_catalog.pg_sequence_last_value(s.seqrelid)::text,
       CASE c.relpersistence WHEN 'u' THEN pg_catalog.clock_timestamp()::text END)), ',' ORDER BY s.seqrelid), ''))
   FROM pg_catalog.pg_sequence s JOIN pg_catalog.pg_class c ON c.oid = s.seqrelid
   WHERE c.relpersistence <> 't' AND pg_catalog.has_sequence_privilege(s.seqrelid, 'SELECT, USAGE')));";

/// Looks at a database.
pub fn look(session: &mut Session) -> Result<Fingerprint> {
    Ok(Fingerprint(session.ask(QUERY)?.into_iter().next().unwrap_or_default()))
}
