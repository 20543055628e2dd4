-- What only newer servers know, each from its version on.
SELECT current_setting('server_version_num')::int AS server \gset
SELECT :server >= 140000 AS from_14, :server >= 150000 AS from_15, :server >= 160000 AS from_16,
  :server >= 170000 AS from_17, :server >= 180000 AS from_18 \gset
CREATE SCHEMA newer;
\if :from_14
CREATE FUNCTION newer.standard(a int) RETURNS int LANGUAGE sql IMMUTABLE BEGIN ATOMIC SELECT a + 1; SELECT a + 2; END;
CREATE PROCEDURE newer.gives(OUT a int) LANGUAGE sql AS 'SELECT 1';
CREATE TYPE newer.span AS RANGE (subtype = float8, multirange_type_name = newer.spans);
CREATE TABLE newer.packed (a text COMPRESSION lz4, s newer.spans);
INSERT INTO newer.packed SELECT repeat('x', 10000), '{[1,2),[3,4)}';
CREATE STATISTICS newer.expression ON (length(a)), (upper(a)) FROM newer.packed;
\endif
\if :from_15
CREATE TABLE newer.single (id int PRIMARY KEY, a int UNIQUE NULLS NOT DISTINCT, b text);
CREATE VIEW newer.as_reader WITH (security_invoker = true) AS SELECT * FROM newer.single;
CREATE PUBLICATION some_rows FOR TABLE newer.single (id, a) WHERE (id > 1);
CREATE PUBLICATION whole_schema FOR TABLES IN SCHEMA newer;
\endif
\if :from_16
CREATE COLLATION newer.rules (provider = icu, locale = 'de', rules = '&a < g');
CREATE TABLE newer.stored (a text STORAGE EXTERNAL);
\endif
\if :from_17
CREATE COLLATION newer.builtin (provider = builtin, locale = 'C.UTF-8');
GRANT MAINTAIN ON newer.single TO zoo_reader;
CREATE TABLE newer.numbered (id int GENERATED ALWAYS AS IDENTITY, at date) PARTITION BY RANGE (at);
CREATE TABLE newer.numbered_rest PARTITION OF newer.numbered DEFAULT;
INSERT INTO newer.numbered (at) VALUES ('2026-01-01');
\endif
\if :from_18
CREATE EXTENSION btree_gist WITH SCHEMA newer;
CREATE TABLE newer.rooms (
  id int, during daterange, doubled int GENERATED ALWAYS AS (id * 2) VIRTUAL,
  CONSTRAINT named NOT NULL during, CONSTRAINT positive CHECK (id > 0) NOT ENFORCED,
  PRIMARY KEY (id, during WITHOUT OVERLAPS)
);
INSERT INTO newer.rooms VALUES (1, '[2026-01-01,2026-02-01)'), (-1, '[2026-02-01,2026-03-01)');
CREATE TABLE newer.stays (
  room int, during daterange, a int, FOREIGN KEY (room, PERIOD during) REFERENCES newer.rooms (id, PERIOD during)
);
INSERT INTO newer.stays VALUES (1, '[2026-01-02,2026-01-05)', NULL);
ALTER TABLE newer.stays ADD CONSTRAINT from_now_on NOT NULL a NOT VALID;
CREATE TABLE newer.inheriting () INHERITS (newer.stays);
CREATE PUBLICATION computed FOR TABLE newer.rooms WITH (publish_generated_columns = stored);
ALTER DEFAULT PRIVILEGES FOR ROLE zoo_owner GRANT SELECT ON LARGE OBJECTS TO zoo_reader;
\endif
