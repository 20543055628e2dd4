//! Which records of checkpoints count, how many there are, and which tags they have.
//!
//! Of a checkpoint's records the last one counts, unless a later tombstone names it. Records come
//! in any order (gc copies old ones behind newer ones) and go with their packs, so the database
//! itself keeps `live` and `tally` up: no writer can forget to.

use rappel_types::Trigger;
use rusqlite::{Transaction, params};

use crate::document::Label;
use crate::outline::Outline;
use crate::record::Kind;

pub(super) const SCHEMA: &str = "
CREATE INDEX checkpoint_live ON checkpoint (workspace, sequence) WHERE live;
CREATE INDEX checkpoint_by_time ON checkpoint (created_at, birth, sequence) WHERE live;
-- how many checkpoints count.
CREATE TABLE tally (
    workspace INTEGER NOT NULL, folded INTEGER NOT NULL, count INTEGER NOT NULL,
    PRIMARY KEY (workspace, folded)) WITHOUT ROWID;
-- every mention of a tag: in a manifest (birth 0, because any label is later), or in a label.
CREATE TABLE tagged (
    tag TEXT NOT NULL, id TEXT NOT NULL, birth INTEGER NOT NULL, added INTEGER NOT NULL,
    pack INTEGER NOT NULL, PRIMARY KEY (tag, id, birth, added, pack)) WITHOUT ROWID;

CREATE VIEW counting AS SELECT c.number, NOT EXISTS (
        SELECT 1 FROM checkpoint n WHERE n.id = c.id AND
            (n.birth > c.birth OR (n.birth = c.birth AND n.number > c.number)))
    AND NOT EXISTS (
        SELECT 1 FROM document d WHERE d.kind = 9 AND d.key = c.id AND d.birth > c.birth) AS counts
    FROM checkpoint c;
CREATE TRIGGER checkpoint_added AFTER INSERT ON checkpoint BEGIN
    UPDATE checkpoint SET live = NOT live WHERE id = new.id
        AND live <> (SELECT k.counts FROM counting k WHERE k.number = checkpoint.number);
END;
CREATE TRIGGER checkpoint_removed AFTER DELETE ON checkpoint BEGIN
    UPDATE tally SET count = count - 1
        WHERE old.live AND workspace = old.workspace AND folded = old.folded;
    UPDATE checkpoint SET live = NOT live WHERE id = old.id
        AND live <> (SELECT k.counts FROM counting k WHERE k.number = checkpoint.number);
END;
CREATE TRIGGER tombstone_added AFTER INSERT ON document WHEN new.kind = 9 BEGIN
    UPDATE checkpoint SET live = NOT live WHERE id = new.key
        AND live <> (SELECT k.counts FROM counting k WHERE k.number = checkpoint.number);
END;
CREATE TRIGGER tombstone_removed AFTER DELETE ON document WHEN old.kind = 9 BEGIN
    UPDATE checkpoint SET live = NOT live WHERE id = old.key
        AND live <> (SELECT k.counts FROM counting k WHERE k.number = checkpoint.number);
END;
CREATE TRIGGER checkpoint_turned AFTER UPDATE OF live ON checkpoint BEGIN
    INSERT INTO tally SELECT new.workspace, new.folded, 0 WHERE NOT EXISTS (
        SELECT 1 FROM tally WHERE workspace = new.workspace AND folded = new.folded);
    UPDATE tally SET count = count + new.live - old.live
        WHERE workspace = new.workspace AND folded = new.folded;
END;
";

const _: () = assert!(Kind::Tombstone as u8 == 9, "the triggers here say so");

/// Whether lists count a checkpoint with another one instead of showing it: it holds agent state
/// alone, and not because the user asked for just a part.
pub(super) fn is_folded(outline: &Outline) -> bool {
    let trigger: Option<Trigger> = outline.trigger.parse().ok();
    trigger.is_some_and(|trigger| !outline.holds_files && !trigger.takes_files())
}

/// Notes the tags that a checkpoint was made with.
pub(super) fn insert_tags(
    transaction: &Transaction<'_>,
    outline: &Outline,
    pack: u32,
) -> rusqlite::Result<()> {
    let id = outline.id.as_str();
    outline.tags.iter().try_for_each(|tag| mention(transaction, (tag, id), 0, true, pack))
}

/// Notes the tags that a label adds and takes away. A label of a later version that cannot be read
/// changes nothing.
pub(super) fn insert_label(
    transaction: &Transaction<'_>,
    (id, json): (&str, &str),
    birth: u64,
    pack: u32,
) -> rusqlite::Result<()> {
    let Ok(label) = serde_json::from_str::<Label>(json) else { return Ok(()) };
    for (tags, added) in [(&label.add, true), (&label.remove, false)] {
        for tag in tags {
            mention(transaction, (tag, id), birth, added, pack)?;
        }
    }
    Ok(())
}

fn mention(
    transaction: &Transaction<'_>,
    (tag, id): (&str, &str),
    birth: u64,
    added: bool,
    pack: u32,
) -> rusqlite::Result<()> {
    transaction
        .prepare_cached(
            "INSERT OR IGNORE INTO tagged (tag, id, birth, added, pack) VALUES (?1, ?2, ?3, ?4, ?5)",
        )?
        .execute(params![tag, id, birth, added, pack])?;
    Ok(())
}
