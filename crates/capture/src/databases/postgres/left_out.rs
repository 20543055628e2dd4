//! What `pg_dump` does not write down, so that no restore brings it back, and what it writes down that no server takes.

use super::check::names;
use super::session::{Failure, Session};

/// What a restore of the database as it is now leaves out, in sentences: versions and owners of extensions, the order of
/// columns that came to a child table later, the rows of materialized views.
const NOTES: &str = "\
SELECT pg_catalog.format('extension %s is of version %s; a restore installs %s', e.extname, e.extversion, a.default_version)
FROM pg_catalog.pg_extension e JOIN pg_catalog.pg_available_extensions a ON a.name = e.extname
WHERE e.oid >= 16384 AND e.extversion <> a.default_version
UNION ALL
SELECT pg_catalog.format('extension %s belongs to %s; after a restore it belongs to %s', extname,
  pg_catalog.pg_get_userbyid(extowner), current_user)
FROM pg_catalog.pg_extension WHERE oid >= 16384 AND pg_catalog.pg_get_userbyid(extowner) <> current_user
UNION ALL
SELECT pg_catalog.format('table %s gets the columns of its parent first', i.identity)
FROM pg_catalog.pg_class c, pg_catalog.pg_identify_object('pg_catalog.pg_class'::regclass, c.oid, 0) i
WHERE c.relkind IN ('r', 'f') AND NOT c.relispartition AND EXISTS (
  SELECT FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_attribute b ON b.attrelid = a.attrelid AND b.attnum < a.attnum
  WHERE a.attrelid = c.oid AND a.attnum > 0 AND a.attinhcount > 0 AND NOT a.attisdropped
    AND b.attnum > 0 AND b.attinhcount = 0 AND NOT b.attisdropped)
UNION ALL
SELECT pg_catalog.format('a restore fills materialized view %s anew', i.identity)
FROM pg_catalog.pg_class c, pg_catalog.pg_identify_object('pg_catalog.pg_class'::regclass, c.oid, 0) i
WHERE c.relkind = 'm' AND c.relispopulated";

/// What a restore of the database as it is now leaves out.
pub fn notes(session: &mut Session) -> Result<Vec<String>, Failure> {
    names(session, NOTES)
}

/// A question for each foreign key whose triggers are disabled: is there a row that it refers to nothing?
const ORPHANS: &str = r"
SELECT pg_catalog.format('SELECT pg_catalog.json_build_array(%L) WHERE EXISTS (
    SELECT FROM %s c WHERE (%s) AND NOT EXISTS (SELECT FROM %s p WHERE %s))',
  pg_catalog.format('%s of %s', k.conname, k.conrelid::regclass),
  CASE t.relkind WHEN 'p' THEN '' ELSE 'ONLY ' END || k.conrelid::regclass,
  pg_catalog.string_agg(pg_catalog.format('c.%I IS NOT NULL', f.attname), CASE k.confmatchtype WHEN 'f' THEN ' OR ' ELSE ' AND ' END),
  k.confrelid::regclass,
  pg_catalog.string_agg(pg_catalog.format('p.%I OPERATOR(%I.%s) c.%I', p.attname, n.nspname, o.oprname, f.attname), ' AND '))
FROM pg_catalog.pg_constraint k
JOIN pg_catalog.pg_class t ON t.oid = k.conrelid
CROSS JOIN LATERAL ROWS FROM (pg_catalog.unnest(k.conkey), pg_catalog.unnest(k.confkey), pg_catalog.unnest(k.conpfeqop)) u (f, p, o)
JOIN pg_catalog.pg_attribute f ON f.attrelid = k.conrelid AND f.attnum = u.f
JOIN pg_catalog.pg_attribute p ON p.attrelid = k.confrelid AND p.attnum = u.p
JOIN pg_catalog.pg_operator o ON o.oid = u.o
JOIN pg_catalog.pg_namespace n ON n.oid = o.oprnamespace
WHERE k.contype = 'f' AND k.convalidated AND k.conparentid = 0
  AND EXISTS (SELECT FROM pg_catalog.pg_trigger g WHERE g.tgconstraint = k.oid AND g.tgenabled IN ('D', 'R'))
GROUP BY k.oid, k.conname, k.conrelid, k.confrelid, k.confmatchtype, t.relkind \gexec";

/// Rows that a foreign key forbids and that came in while its triggers were disabled: no server loads them with the key.
pub fn orphans(session: &mut Session) -> Result<Option<String>, Failure> {
    let rows = session.rows(&format!("BEGIN;\nSET LOCAL search_path = '';{ORPHANS}\nCOMMIT;"))?;
    let keys: Vec<&str> = rows.iter().filter_map(|row| row.first()?.as_str()).collect();
    Ok((!keys.is_empty()).then(|| {
        format!(
            "rows refer to nothing, since the triggers of their foreign keys are disabled: {}",
            keys.join(", ")
        )
    }))
}
