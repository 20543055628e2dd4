-- Empties a database, in a transaction: what pg_dump would say of it afterwards is nothing.
--
-- The server computes from its catalogs what is to be dropped, and psql carries it out (\gexec), so that
-- no name passes through us. The schema public itself stays, since pg_dump takes it for granted; owner,
-- grants and comment become those it was made with. Not undone: grants on the server's own objects in pg_catalog.

SET LOCAL client_min_messages = warning;
SET LOCAL search_path = '';

SELECT pg_catalog.format('DROP PUBLICATION IF EXISTS %I', pubname) FROM pg_catalog.pg_publication \gexec

-- Privileges that new objects would get: back to what they are without being told.
SELECT DISTINCT pg_catalog.format('ALTER DEFAULT PRIVILEGES FOR ROLE %I %s REVOKE ALL ON %s FROM %s', r.rolname,
  CASE WHEN d.defaclnamespace <> 0 THEN pg_catalog.format('IN SCHEMA %I', n.nspname) END, k.kind,
  CASE WHEN a.grantee = 0 THEN 'PUBLIC' ELSE pg_catalog.quote_ident(g.rolname) END)
FROM pg_catalog.pg_default_acl d
JOIN pg_catalog.pg_roles r ON r.oid = d.defaclrole
LEFT JOIN pg_catalog.pg_namespace n ON n.oid = d.defaclnamespace
JOIN (VALUES ('r', 'TABLES'), ('S', 'SEQUENCES'), ('f', 'FUNCTIONS'), ('T', 'TYPES'), ('n', 'SCHEMAS'), ('L', 'LARGE OBJECTS'))
  k (letter, kind) ON k.letter = d.defaclobjtype::text
CROSS JOIN LATERAL pg_catalog.aclexplode(d.defaclacl) a
LEFT JOIN pg_catalog.pg_roles g ON g.oid = a.grantee \gexec
SELECT pg_catalog.format('ALTER DEFAULT PRIVILEGES FOR ROLE %I GRANT %s ON %s TO %s', r.rolname, a.privilege_type, k.kind,
  CASE WHEN a.grantee = 0 THEN 'PUBLIC' ELSE pg_catalog.quote_ident(g.rolname) END)
FROM pg_catalog.pg_default_acl d
JOIN pg_catalog.pg_roles r ON r.oid = d.defaclrole
JOIN (VALUES ('r', 'TABLES', 'r'), ('S', 'SEQUENCES', 's'), ('f', 'FUNCTIONS', 'f'), ('T', 'TYPES', 'T'), ('n', 'SCHEMAS', 'n'),
        ('L', 'LARGE OBJECTS', 'L'))
  k (letter, kind, code) ON k.letter = d.defaclobjtype::text
CROSS JOIN LATERAL pg_catalog.aclexplode(pg_catalog.acldefault(k.code::"char", d.defaclrole)) a
LEFT JOIN pg_catalog.pg_roles g ON g.oid = a.grantee
WHERE d.defaclnamespace = 0 \gexec

-- Tables of which an index or a partition key needs something of an extension go before it.
SELECT DISTINCT pg_catalog.format('DROP %s IF EXISTS %s CASCADE',
  CASE t.relkind WHEN 'm' THEN 'MATERIALIZED VIEW' ELSE 'TABLE' END, i.identity)
FROM pg_catalog.pg_depend e
JOIN pg_catalog.pg_depend d ON d.refclassid = e.classid AND d.refobjid = e.objid AND d.classid = 'pg_catalog.pg_class'::regclass
LEFT JOIN pg_catalog.pg_index x ON x.indexrelid = d.objid
JOIN pg_catalog.pg_class t ON t.oid = COALESCE(x.indrelid, d.objid) AND t.relkind IN ('r', 'p', 'm')
CROSS JOIN LATERAL pg_catalog.pg_identify_object('pg_catalog.pg_class'::regclass, t.oid, 0) i
WHERE e.deptype = 'e' AND e.classid = 'pg_catalog.pg_opclass'::regclass
  AND NOT EXISTS (SELECT FROM pg_catalog.pg_depend o
                  WHERE o.classid = 'pg_catalog.pg_class'::regclass AND o.objid = t.oid AND o.deptype = 'e') \gexec
SELECT pg_catalog.format('DROP EXTENSION IF EXISTS %I CASCADE', extname)
FROM pg_catalog.pg_extension WHERE oid >= 16384 \gexec
SELECT pg_catalog.format('DROP CAST IF EXISTS %s CASCADE', i.identity)
FROM pg_catalog.pg_cast c, pg_catalog.pg_identify_object('pg_catalog.pg_cast'::regclass, c.oid, 0) i
WHERE c.oid >= 16384
  AND NOT EXISTS (SELECT FROM pg_catalog.pg_depend o
                  WHERE o.classid = 'pg_catalog.pg_cast'::regclass AND o.objid = c.oid AND o.deptype IN ('i', 'e')) \gexec
SELECT pg_catalog.format('DROP SCHEMA IF EXISTS %I CASCADE', nspname)
FROM pg_catalog.pg_namespace
WHERE nspname !~ '^pg_' AND nspname NOT IN ('information_schema', 'public') \gexec

-- What lies in public by itself, not as a part of something else. A column that a table is partitioned by is a part of its table.
SELECT pg_catalog.format('DROP %s IF EXISTS %s CASCADE',
  CASE WHEN i.type IN ('function', 'procedure', 'aggregate') THEN 'ROUTINE'
       WHEN i.type = 'composite type' THEN 'TYPE'
       WHEN i.type = 'statistics object' THEN 'STATISTICS'
       ELSE i.type END, i.identity)
FROM pg_catalog.pg_depend d
JOIN pg_catalog.pg_namespace n ON n.oid = d.refobjid AND d.refclassid = 'pg_catalog.pg_namespace'::regclass
CROSS JOIN LATERAL pg_catalog.pg_identify_object(d.classid, d.objid, d.objsubid) i
WHERE n.nspname = 'public' AND d.deptype = 'n'
  AND NOT EXISTS (SELECT FROM pg_catalog.pg_depend o
                  WHERE o.classid = d.classid AND o.objid = d.objid AND o.objsubid = d.objsubid
                    AND o.deptype IN ('i', 'e')) \gexec

SELECT pg_catalog.format('DROP TRANSFORM IF EXISTS FOR %s LANGUAGE %I CASCADE', pg_catalog.format_type(t.trftype, NULL), l.lanname)
FROM pg_catalog.pg_transform t JOIN pg_catalog.pg_language l ON l.oid = t.trflang
WHERE t.oid >= 16384 \gexec
SELECT pg_catalog.format('DROP FOREIGN DATA WRAPPER IF EXISTS %I CASCADE', fdwname)
FROM pg_catalog.pg_foreign_data_wrapper WHERE oid >= 16384 \gexec
SELECT pg_catalog.format('DROP LANGUAGE IF EXISTS %I CASCADE', lanname)
FROM pg_catalog.pg_language WHERE oid >= 16384 \gexec
SELECT pg_catalog.format('DROP ACCESS METHOD IF EXISTS %I CASCADE', amname)
FROM pg_catalog.pg_am WHERE oid >= 16384 \gexec
SELECT pg_catalog.count(pg_catalog.lo_unlink(oid)) FROM pg_catalog.pg_largeobject_metadata;

-- The schema public, as initdb makes it; but since 15 pg_dump takes it for granted, of older servers too, that not everybody
-- may create something there.
SELECT 'CREATE SCHEMA public'
WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = 'public') \gexec
SELECT pg_catalog.format('ALTER SCHEMA public OWNER TO %I', o.rolname)
FROM pg_catalog.pg_namespace n, pg_catalog.pg_roles o
WHERE n.nspname = 'public' AND n.nspowner <> o.oid
  AND CASE WHEN pg_catalog.current_setting('server_version_num')::int >= 150000
      THEN o.rolname = 'pg_database_owner' ELSE o.oid = 10 END \gexec
SELECT s.statement
FROM pg_catalog.pg_namespace n
JOIN pg_catalog.pg_roles o ON o.oid = n.nspowner
CROSS JOIN LATERAL (SELECT CASE WHEN :dump_before_15 AND pg_catalog.current_setting('server_version_num')::int < 150000
                           THEN 'USAGE, CREATE' ELSE 'USAGE' END AS rights) w
CROSS JOIN LATERAL (
  SELECT 1 AS step, pg_catalog.format('REVOKE ALL ON SCHEMA public FROM %s CASCADE',
    CASE WHEN a.grantee = 0 THEN 'PUBLIC' ELSE pg_catalog.quote_ident(g.rolname) END) AS statement
  FROM pg_catalog.aclexplode(n.nspacl) a LEFT JOIN pg_catalog.pg_roles g ON g.oid = a.grantee
  UNION SELECT 2, pg_catalog.format('GRANT ALL ON SCHEMA public TO %I', o.rolname)
  UNION SELECT 3, pg_catalog.format('GRANT %s ON SCHEMA public TO PUBLIC', w.rights)) s
WHERE n.nspname = 'public'
  AND n.nspacl::text IS DISTINCT FROM pg_catalog.format('{%1$I=UC/%1$I,=%2$s/%1$I}', o.rolname,
        CASE w.rights WHEN 'USAGE' THEN 'U' ELSE 'UC' END)
ORDER BY s.step \gexec
SELECT $$COMMENT ON SCHEMA public IS 'standard public schema'$$
FROM pg_catalog.pg_namespace n
WHERE n.nspname = 'public'
  AND pg_catalog.obj_description(n.oid, 'pg_namespace') IS DISTINCT FROM 'standard public schema' \gexec
