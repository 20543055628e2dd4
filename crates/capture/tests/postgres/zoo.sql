-- One of everything that a database can hold and pg_dump knows.
CREATE EXTENSION citext;
CREATE SCHEMA "odd schema";
CREATE EXTENSION pgcrypto WITH SCHEMA "odd schema";
COMMENT ON EXTENSION citext IS 'words about it';
CREATE SCHEMA app AUTHORIZATION zoo_owner;
CREATE SCHEMA empty;
COMMENT ON SCHEMA app IS 'it''s a \ schema';

CREATE TYPE app.mood AS ENUM ('sad', 'it''s ok', 'happy');
CREATE TYPE app.pair AS (x int, y text);
CREATE TYPE app.span AS RANGE (subtype = float8);
CREATE DOMAIN app.positive AS int CHECK (VALUE > 0);
CREATE TYPE app.half;
CREATE COLLATION app.german (provider = icu, locale = 'de-u-co-phonebk');

CREATE SEQUENCE app.counter START 5 INCREMENT 3 CYCLE MAXVALUE 1000;
SELECT nextval('app.counter'), nextval('app.counter');
CREATE SEQUENCE app.untouched;

CREATE TABLE app.parents (
  id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  name citext NOT NULL UNIQUE,
  mood app.mood DEFAULT 'sad',
  pair app.pair,
  pos app.positive,
  spans app.span[],
  doubled int GENERATED ALWAYS AS (pos * 2) STORED,
  favourite int,
  data jsonb DEFAULT '{"a": [1, 2]}'
);
CREATE TABLE app.children (
  id bigserial PRIMARY KEY,
  parent int REFERENCES app.parents DEFERRABLE INITIALLY DEFERRED,
  during int4range,
  EXCLUDE USING gist (during WITH &&)
);
ALTER TABLE app.parents ADD FOREIGN KEY (favourite) REFERENCES app.children (id);
INSERT INTO app.parents (name, pos, pair) VALUES ('Ann', 1, ROW(1, 'one')), ('Bob', 2, NULL);
INSERT INTO app.children (parent, during) VALUES (1, '[1,5)'), (2, '[5,9)');
UPDATE app.parents SET favourite = 1;
CREATE INDEX lower_name ON app.parents (lower(name::text)) WHERE pos > 1;
CREATE INDEX ON app.children USING brin (id);
CREATE STATISTICS app.numbers (dependencies) ON pos, favourite FROM app.parents;
ALTER TABLE app.parents ALTER COLUMN data SET STORAGE EXTERNAL;
ALTER TABLE app.parents CLUSTER ON parents_pkey;
ALTER TABLE app.children REPLICA IDENTITY FULL;

CREATE TABLE app.log (at date, body text) PARTITION BY RANGE (at);
CREATE TABLE app.log_2025 PARTITION OF app.log FOR VALUES FROM ('2025-01-01') TO ('2026-01-01');
CREATE TABLE app.log_rest PARTITION OF app.log DEFAULT PARTITION BY LIST (body);
CREATE TABLE empty.log_rest_x PARTITION OF app.log_rest FOR VALUES IN ('x');
CREATE TABLE public.measures (at date, place int, value int, PRIMARY KEY (at, place)) PARTITION BY RANGE (at, place);
CREATE TABLE public.measures_2025 PARTITION OF public.measures FOR VALUES FROM ('2025-01-01', 0) TO ('2026-01-01', 0);
CREATE TABLE public.measures_rest PARTITION OF public.measures DEFAULT PARTITION BY HASH (place);
CREATE TABLE public.measures_rest_0 PARTITION OF public.measures_rest FOR VALUES WITH (MODULUS 1, REMAINDER 0);
INSERT INTO public.measures VALUES ('2025-05-05', 1, 2), ('2030-01-01', 1, 3);
CREATE INDEX ON app.log (at);
INSERT INTO app.log VALUES ('2025-05-05', 'a'), ('2020-01-01', 'x');
CREATE TABLE base (a int);
CREATE TABLE derived (b int) INHERITS (base);
INSERT INTO derived VALUES (1, 2);
CREATE UNLOGGED TABLE fleeting (a int);
INSERT INTO fleeting VALUES (1);

CREATE TABLE "Odd ""name"" – ñ" ("sp ace" text, "SELECT" text, "tab	le" text);
INSERT INTO "Odd ""name"" – ñ" VALUES
  (E'tab\there', E'back\\slash', E'new\nline'), (NULL, '\N', '\.'), ('', E'\r\n', '\\.'),
  ('ünïcödé 🦀', E'\x01\x02', E'-- no comment\n\\.\n;'), (E'COMMIT;\nBEGIN;', '$$', E'\\restrict x');
CREATE TABLE no_columns ();
INSERT INTO no_columns DEFAULT VALUES;
CREATE TABLE empty_table (id serial, a text);
CREATE TABLE bytes (b bytea, f float8, n numeric, t timestamptz);
INSERT INTO bytes VALUES ('\x00ff5c2e0a', 'NaN', '1e100', '2026-01-01 12:00+02'), (NULL, '-Infinity', 0.1, 'infinity');

CREATE FUNCTION app.tricky(a int DEFAULT 1, VARIADIC b text[] DEFAULT '{}') RETURNS text LANGUAGE plpgsql AS $body$
BEGIN
  -- a comment; with $$ and ' in it
  EXECUTE $q$ SELECT ';' $q$;
  RETURN 'it''s; \. COMMIT;
\.
COMMIT;
BEGIN;
';
END
$body$;
CREATE FUNCTION app.as_string() RETURNS text LANGUAGE sql AS 'SELECT ''COMMIT; -- '' || E''\\'';';
CREATE PROCEDURE app.proc(INOUT x int) LANGUAGE plpgsql AS $$ BEGIN x := x + 1; COMMIT; END $$;
CREATE AGGREGATE app.total (int) (sfunc = int4pl, stype = int, initcond = '0');
CREATE OPERATOR app.<+> (leftarg = int, rightarg = int, function = int4pl);
CREATE OPERATOR FAMILY app.family USING btree;
CREATE FUNCTION app.mood_int(app.mood) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT 1';
CREATE CAST (app.mood AS int) WITH FUNCTION app.mood_int(app.mood);
CREATE TEXT SEARCH CONFIGURATION app.words (COPY = english);
CREATE TEXT SEARCH DICTIONARY app.simple_dict (TEMPLATE = simple);
CREATE CONVERSION app.conv FOR 'LATIN1' TO 'UTF8' FROM iso8859_1_to_utf8;

CREATE VIEW app.names AS SELECT name, app.tricky(id) AS t FROM app.parents WITH LOCAL CHECK OPTION;
CREATE MATERIALIZED VIEW app.counts AS SELECT count(*) AS n FROM app.children WITH DATA;
CREATE UNIQUE INDEX ON app.counts (n);
CREATE MATERIALIZED VIEW later AS SELECT * FROM app.counts WITH NO DATA;
CREATE VIEW app.v1 AS SELECT 1 AS a;
CREATE VIEW app.v2 AS SELECT * FROM app.v1;
CREATE OR REPLACE VIEW app.v1 AS SELECT 1 AS a WHERE NOT EXISTS (SELECT FROM app.parents);
CREATE FUNCTION app.touched() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no %', NEW; END $$;
CREATE TRIGGER guard BEFORE INSERT ON base FOR EACH ROW EXECUTE FUNCTION app.touched();
ALTER TABLE base DISABLE TRIGGER guard;
CREATE CONSTRAINT TRIGGER late AFTER INSERT ON derived DEFERRABLE FOR EACH ROW EXECUTE FUNCTION app.touched();
CREATE RULE ignore AS ON DELETE TO empty_table DO INSTEAD NOTHING;
ALTER TABLE app.children ENABLE ROW LEVEL SECURITY;
CREATE POLICY mine ON app.children FOR SELECT TO zoo_reader USING (id > 1);
CREATE PUBLICATION news FOR TABLE app.parents;
CREATE FUNCTION app.watch() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no DDL here'; END $$;
CREATE FOREIGN DATA WRAPPER wrapper;
CREATE SERVER elsewhere FOREIGN DATA WRAPPER wrapper OPTIONS (host 'x');
CREATE USER MAPPING FOR zoo_owner SERVER elsewhere OPTIONS (secret 'y');
CREATE FOREIGN TABLE app.far (a int) SERVER elsewhere;
CREATE ACCESS METHOD heap2 TYPE TABLE HANDLER heap_tableam_handler;
CREATE TABLE in_heap2 (a int) USING heap2;

SELECT lo_from_bytea(4711, '\x000102ff'), lo_from_bytea(4712, ''), lo_from_bytea(4713, decode(repeat('ab', 100000), 'hex'));
COMMENT ON LARGE OBJECT 4711 IS 'an object';
GRANT SELECT ON LARGE OBJECT 4712 TO zoo_reader;
ALTER LARGE OBJECT 4713 OWNER TO zoo_owner;

COMMENT ON TABLE app.parents IS E'line one\nline two; -- ''quoted''';
COMMENT ON COLUMN app.parents.pos IS 'a column';
COMMENT ON FUNCTION app.tricky IS 'a function';
ALTER TABLE app.parents OWNER TO zoo_owner;
ALTER FUNCTION app.tricky OWNER TO zoo_owner;
ALTER TYPE app.mood OWNER TO zoo_owner;
GRANT USAGE ON SCHEMA app, "odd schema" TO zoo_reader;
GRANT SELECT, INSERT (name, pos) ON app.parents TO zoo_reader WITH GRANT OPTION;
SET ROLE zoo_reader;
GRANT SELECT ON app.parents TO "Zoo ""Keeper""";
RESET ROLE;
REVOKE EXECUTE ON FUNCTION app.tricky FROM PUBLIC;
GRANT USAGE ON SEQUENCE app.counter TO PUBLIC;
ALTER DEFAULT PRIVILEGES FOR ROLE zoo_owner IN SCHEMA app GRANT SELECT ON TABLES TO zoo_reader;
ALTER DEFAULT PRIVILEGES GRANT EXECUTE ON FUNCTIONS TO "Zoo ""Keeper""";
GRANT CREATE ON SCHEMA public TO zoo_reader;
-- From here on nobody may define anything.
CREATE EVENT TRIGGER watch ON ddl_command_start EXECUTE FUNCTION app.watch();
