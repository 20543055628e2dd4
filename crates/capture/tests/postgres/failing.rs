//! What goes wrong leaves everything as it was, and says why.

use std::process::{Child, ChildStdin, Stdio};
use std::time::Duration;

use rappel_capture::databases::postgres::{Database, Options, Pace};
use rappel_capture::databases::{Error, Fate, Watch, dump};
use rappel_testing::{MemoryStore, Postgres};
use rappel_types::Advice;
use rappel_types::database::DatabasePart;

use crate::support::{ZOO, at, capture, database, patient, restore, server_with, through};

const SMALL: &str = "CREATE TABLE t (id serial PRIMARY KEY, body text); INSERT INTO t (body) VALUES ('one'), ('two');";

/// What somebody would have to have dumped to get this text.
fn part(store: &MemoryStore, text: &str, like: &DatabasePart) -> DatabasePart {
    let stored = dump::store(store, &mut text.as_bytes(), None).unwrap();
    DatabasePart { tree: stored.tree, digest: stored.digest, bytes: stored.bytes, ..like.clone() }
}

fn short() -> Options {
    Options { lock_timeout: Duration::from_millis(1500), ..Options::default() }
}

#[test]
fn a_dump_that_fails_at_its_end_changes_nothing() {
    let server = server_with(ZOO);
    let database = database(&server, "app");
    let store = MemoryStore::default();
    let before = server.dump("app");
    let target = capture(&database, &store).part;
    for (end, why) in [
        ("SELECT 1/0;\n", "division by zero"),
        ("COPY public.base (a) FROM stdin;\nnot a number\n\\.\n", "invalid input syntax"),
        ("\\! touch /tmp/never\n", "to psql"),
        ("ROLLBACK;\n", "transactions"),
        ("SELECT 'no end", "middle of a statement"),
    ] {
        let failing = part(&store, &format!("{before}{end}"), &target);
        let error = restore(&database, &store, &failing).unwrap_err();
        assert!(matches!(error, Error::Refused { .. }), "{error:?}");
        assert!(error.to_string().contains(why), "{error}");
        assert_eq!(server.dump("app"), before, "{why}");
    }
}

/// Somebody with an open transaction in which `statement` was done, and the id of his process. Gone with his input.
fn holder(server: &Postgres, statement: &str) -> (Child, ChildStdin, String) {
    let mut holder = server.psql_command("app");
    let mut holder = holder.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = holder.stdin.take().unwrap();
    let statements = format!(
        "SET application_name = 'the holder'; BEGIN; {statement}; SELECT pg_backend_pid();\n"
    );
    std::io::Write::write_all(&mut stdin, statements.as_bytes()).unwrap();
    let mut pid = String::new();
    let mut lines = std::io::BufReader::new(holder.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut lines, &mut pid).unwrap();
    (holder, stdin, pid.trim().to_owned())
}

#[test]
fn who_has_a_table_to_himself_is_named() {
    let server = server_with(SMALL);
    let (mut holder, stdin, pid) = holder(&server, "LOCK TABLE t");
    let store = MemoryStore::default();
    let error = database(&server, "app").capture(&store, None, &Pace::default()).unwrap_err();
    let message = error.to_string();
    assert!(matches!(error, Error::Busy(_)), "{message}");
    assert!(message.contains(&format!("(pid {pid}, application the holder")), "{message}");
    drop(stdin);
    holder.wait().unwrap();
}

#[test]
fn who_holds_a_lock_is_named() {
    let server = server_with(SMALL);
    let (mut holder, mut stdin, pid) = holder(&server, "UPDATE t SET body = 'x'");
    let database = database(&server, "app");
    let before = server.dump("app");
    let error = database.restoring(short()).err().unwrap();
    assert!(matches!(error, Error::Busy(_)), "{error:?}");
    let message = error.to_string();
    assert!(message.contains(&format!("pid {pid}")), "{message}");
    assert!(
        message.contains("application the holder, user postgres, query started 20"),
        "{message}"
    );
    assert_eq!(server.dump("app"), before);

    // Told to end it, it does.
    let store = MemoryStore::default();
    let target = capture(&database, &store).part;
    let options = Options { terminate_connections: true, ..patient() };
    let mut restoring = database.restoring(options).unwrap();
    restoring.capture(&store, None, &Watch::nobody()).unwrap();
    restoring.stage(&store, &target).unwrap();
    restoring.commit().unwrap();
    drop(restoring);
    // It notices with the next thing it is told.
    std::io::Write::write_all(&mut stdin, b"SELECT 1;\n").unwrap();
    drop(stdin);
    assert!(!holder.wait().unwrap().success());
    assert_eq!(server.dump("app"), before);
}

#[test]
fn who_still_reads_a_table_that_must_go_is_named() {
    let server = server_with(SMALL);
    let database = database(&server, "app");
    let store = MemoryStore::default();
    let target = capture(&database, &store).part;
    server.run("app", "INSERT INTO t (body) VALUES ('three')");
    let before = server.dump("app");
    let (mut holder, stdin, pid) = holder(&server, "SELECT 'read' FROM t LIMIT 0");
    let mut restoring = database.restoring(short()).unwrap();
    restoring.capture(&store, None, &Watch::nobody()).unwrap();
    let error = restoring.stage(&store, &target).unwrap_err();
    assert!(matches!(error, Error::Busy(_)), "{error:?}");
    assert!(error.to_string().contains(&format!("(pid {pid}, application the holder")), "{error}");
    drop((restoring, stdin));
    holder.wait().unwrap();
    assert_eq!(server.dump("app"), before);
}

/// Servers before 15 publish tables only, which are locked.
const WHOLE_SCHEMA: &str = r"SELECT current_setting('server_version_num')::int >= 150000 AS from_15 \gset
    \if :from_15
    ALTER PUBLICATION p ADD TABLES IN SCHEMA public;
    \else
    CREATE PUBLICATION q;
    \endif";

#[test]
fn what_slips_in_during_a_restore_is_a_conflict() {
    let server = server_with(SMALL);
    server.run("app", "CREATE SEQUENCE free; CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 1'; SELECT lo_from_bytea(1, 'a');
        CREATE FOREIGN DATA WRAPPER w; CREATE SERVER far FOREIGN DATA WRAPPER w; CREATE PUBLICATION p;");
    let database = database(&server, "app");
    let store = MemoryStore::default();
    let target = capture(&database, &store).part;
    for (slip, named) in [
        ("CREATE TABLE meanwhile (id int)", "table meanwhile was made"),
        ("CREATE SCHEMA meanwhile_schema", "schema meanwhile_schema was made"),
        (
            "CREATE OR REPLACE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 2'",
            "function f() was changed",
        ),
        ("COMMENT ON SCHEMA public IS 'words'", "pg_description"),
        ("DROP FUNCTION f()", "dropped"),
        ("SELECT nextval('free')", "sequence free moved on"),
        ("SELECT setval('free', 77, false)", "sequence free moved on"),
        ("SELECT lo_put(1, 0, 'b')", "pg_largeobject"),
        (
            "CREATE USER MAPPING FOR PUBLIC SERVER far",
            "user mapping for public on server far was made",
        ),
        (WHOLE_SCHEMA, "was made"),
    ] {
        let mut restoring = database.restoring(patient()).unwrap();
        restoring.capture(&store, None, &Watch::nobody()).unwrap();
        server.run("app", slip);
        let after = server.dump("app");
        let error = restoring.stage(&store, &target).unwrap_err();
        assert!(matches!(error, Error::Conflict(_)), "{slip}: {error:?}");
        assert!(error.to_string().contains(named), "{slip}: {error}");
        drop(restoring);
        assert_eq!(server.dump("app"), after, "{slip}");
    }
    // What is temporary belongs to nobody else.
    let mut restoring = database.restoring(patient()).unwrap();
    restoring.capture(&store, None, &Watch::nobody()).unwrap();
    server.run("app", "CREATE TEMPORARY TABLE mine (id serial PRIMARY KEY)");
    restoring.stage(&store, &target).unwrap();
    restoring.commit().unwrap();
}

/// Every connection leaves a row. Servers before 17 have no such triggers; there nothing is shown by this.
const LOGINS: &str = r"CREATE TABLE logins (at timestamptz);
    CREATE FUNCTION login() RETURNS event_trigger LANGUAGE plpgsql AS 'BEGIN INSERT INTO public.logins VALUES (now()); END';
    SELECT current_setting('server_version_num')::int >= 170000 AS from_17 \gset
    \if :from_17
    CREATE EVENT TRIGGER at_login ON login EXECUTE FUNCTION login();
    ALTER EVENT TRIGGER at_login ENABLE ALWAYS;
    \endif";

#[test]
fn a_trigger_that_writes_at_login_is_not_waited_for() {
    let server = server_with(SMALL);
    server.run("app", LOGINS);
    let triggers = || server.run("app", "SELECT count(*) FROM pg_event_trigger");
    let before = triggers();
    let database = database(&server, "app");
    let store = MemoryStore::default();
    let target = capture(&database, &store).part;
    for damage in ["DROP TABLE t", "DROP SCHEMA public CASCADE; CREATE SCHEMA public"] {
        server.run("app", damage);
        restore(&database, &store, &target).unwrap();
        assert_eq!(server.run("app", "SELECT count(*) FROM t"), "2", "{damage}");
        assert_eq!(triggers(), before, "{damage}");
    }
}

#[test]
fn what_is_not_committed_never_was() {
    let server = server_with(SMALL);
    let database = database(&server, "app");
    let store = MemoryStore::default();
    let target = capture(&database, &store).part;
    server.run("app", "DROP TABLE t");
    let before = server.dump("app");
    let mut restoring = database.restoring(patient()).unwrap();
    restoring.capture(&store, None, &Watch::nobody()).unwrap();
    restoring.stage(&store, &target).unwrap();
    let ticket = restoring.ticket().unwrap();
    drop(restoring);
    assert_eq!(database.fate(&ticket).unwrap(), Fate::Aborted);
    assert_eq!(server.dump("app"), before);

    let mut restoring = database.restoring(patient()).unwrap();
    restoring.capture(&store, None, &Watch::nobody()).unwrap();
    restoring.stage(&store, &target).unwrap();
    let ticket = restoring.ticket().unwrap();
    restoring.commit().unwrap();
    assert_eq!(database.fate(&ticket).unwrap(), Fate::Committed);
    let elsewhere = rappel_types::database::Ticket { server: "1/2".to_owned(), ..ticket.clone() };
    assert_eq!(database.fate(&elsewhere).unwrap(), Fate::Unknown);
    let future = rappel_types::database::Ticket { transaction: "4000000000".to_owned(), ..ticket };
    assert_eq!(database.fate(&future).unwrap(), Fate::Unknown);
}

#[test]
fn what_cannot_be_had_says_why() {
    let mut server = server_with(SMALL);
    server.run("app", "CREATE ROLE user1 LOGIN PASSWORD 'right'");
    let take =
        |database: &Database| database.capture(&MemoryStore::default(), None, &Pace::default());
    let wrong = at(&server.url_as("user1:wr0ng-pw", "app"));
    let error = take(&wrong).unwrap_err();
    assert!(matches!(&error, Error::Unavailable(words) if words.contains("password")), "{error:?}");
    assert!(!format!("{error:?} {wrong:?}").contains("wr0ng-pw"));

    let forbidden = take(&at(&server.url_as("user1:right", "app"))).unwrap_err();
    assert!(forbidden.to_string().contains("permission denied"), "{forbidden}");

    let absent = take(&database(&server, "no_such_database")).unwrap_err();
    assert!(matches!(absent, Error::Absent(_)), "{absent:?}");

    server.run("app", "CREATE ROLE user2 LOGIN PASSWORD 'right' CONNECTION LIMIT 0");
    let full = take(&at(&server.url_as("user2:right", "app"))).unwrap_err();
    assert!(full.to_string().contains("no connection is left for this user"), "{full}");

    server.create("closed");
    server.run("app", "ALTER DATABASE closed ALLOW_CONNECTIONS false");
    let closed = take(&database(&server, "closed")).unwrap_err();
    assert!(closed.to_string().contains("the server does not let us in"), "{closed}");

    let missing = through(&server.url("app"), &["/no/such/tool"]);
    assert!(take(&missing).unwrap_err().to_string().contains("/no/such/tool cannot be run"));

    server.down();
    let gone = take(&database(&server, "app")).unwrap_err();
    assert!(
        matches!(&gone, Error::Unavailable(words) if words.contains("is it running?")),
        "{gone:?}"
    );
}

#[test]
fn a_dump_that_was_cut_short_is_none() {
    let server = server_with(SMALL);
    let text = server.dump("app");
    let folder = tempfile::tempdir().unwrap();
    let half = folder.path().join("half.sql");
    std::fs::write(&half, &text[..text.len() / 2]).unwrap();
    // A pg_dump that fails in the middle.
    let script = format!(
        "case \"$*\" in *psql*) shift; exec {}/psql \"$@\" ;; *) cat {}; echo 'pg_dump: error: disk' >&2; exit 1 ;; esac",
        rappel_testing::postgres::programs().display(),
        half.display()
    );
    let database = through(&server.url("app"), &["sh", "-c", &script, "sh"]);
    let error = database.capture(&MemoryStore::default(), None, &Pace::default()).unwrap_err();
    assert!(matches!(&error, Error::Unavailable(words) if words.contains("disk")), "{error:?}");
}

#[test]
fn a_client_without_restrict_keys_is_good_enough() {
    let server = server_with(SMALL);
    let script = format!(
        "case \"$*\" in *restrict-key*) echo 'pg_dump: unrecognized option --restrict-key=rappel' >&2; exit 1 ;; esac; \
         program=$1; shift; exec {}/\"$program\" \"$@\"",
        rappel_testing::postgres::programs().display(),
    );
    let old = through(&server.url("app"), &["sh", "-c", &script, "sh"]);
    let store = MemoryStore::default();
    let target = old.capture(&store, None, &Pace::default()).unwrap().part;
    assert_eq!(target.row_counts, capture(&database(&server, "app"), &store).part.row_counts);
    server.run("app", "DROP SCHEMA public CASCADE; CREATE SCHEMA public");
    restore(&database(&server, "app"), &store, &target).unwrap();
    let again = old.capture(&store, None, &Pace::default()).unwrap().part;
    assert_eq!(again.row_counts, target.row_counts);
}

#[test]
fn a_dropped_database_is_made_anew() {
    let server = server_with(ZOO);
    let database = database(&server, "app");
    let store = MemoryStore::default();
    let target = capture(&database, &store).part;
    let before = server.dump("app");
    server.run("postgres", "DROP DATABASE app");
    assert!(matches!(database.restoring(patient()), Err(Error::Absent(_))));
    assert!(matches!(database.fingerprint(), Err(Error::Absent(_))));
    assert_eq!(database.create(&target).unwrap(), [""; 0]);
    restore(&database, &store, &target).unwrap();
    assert_eq!(server.dump("app"), before);
}

/// What a server knows of a database besides its content.
fn known(server: &Postgres) -> String {
    server.run(
        "postgres",
        "SELECT pg_get_userbyid(datdba), pg_encoding_to_char(encoding), datcollate, datctype,
           shobj_description(d.oid, 'pg_database'),
           (SELECT string_agg(concat_ws(':', setrole::regrole, setconfig::text), ' ' ORDER BY setrole)
            FROM pg_db_role_setting WHERE setdatabase = d.oid),
           (SELECT spcname FROM pg_tablespace t WHERE t.oid = dattablespace),
           (SELECT string_agg(acl::text, ' ' ORDER BY acl::text) FROM unnest(datacl) acl)
         FROM pg_database d WHERE datname = 'app'",
    )
}

#[test]
fn a_dropped_database_is_made_as_it_was() {
    let server = Postgres::start();
    server.run("postgres", r#"CREATE ROLE "the ""owner"""; CREATE ROLE agent"#);
    server.run(
        "postgres",
        r#"CREATE DATABASE app TEMPLATE template0 ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'POSIX' OWNER "the ""owner""""#,
    );
    server.run(
        "app",
        r#"CREATE SCHEMA "My Schema";
        COMMENT ON DATABASE app IS E'it''s\na \\! comment';
        ALTER DATABASE app SET search_path TO "My Schema", public, "$user";
        ALTER DATABASE app SET statement_timeout = '20min';
        ALTER DATABASE app SET app.mode TO E'fast\n\\! touch x; ''quoted''';
        ALTER ROLE agent IN DATABASE app SET work_mem = '8MB';
        REVOKE ALL ON DATABASE app FROM PUBLIC;
        GRANT CONNECT ON DATABASE app TO agent WITH GRANT OPTION;
        GRANT TEMPORARY ON DATABASE app TO PUBLIC;
        ALTER DATABASE app SET default_transaction_read_only = on;"#,
    );
    let place = "SET allow_in_place_tablespaces = on; CREATE TABLESPACE \"else where\" LOCATION ''";
    server.run("postgres", place);
    server.run("postgres", "ALTER DATABASE app SET TABLESPACE \"else where\"");
    let database = database(&server, "app");
    let store = MemoryStore::default();
    let target = capture(&database, &store).part;
    assert_eq!(target.obstacle, None);
    let before = known(&server);
    for part in ["LATIN1", "work_mem", "agent=c*", "else where"] {
        assert!(before.contains(part), "{part}: {before}");
    }
    server.run("postgres", "DROP DATABASE app");
    assert_eq!(database.create(&target).unwrap(), [""; 0]);
    assert_eq!(known(&server), before);
    restore(&database, &store, &target).unwrap();
    assert_eq!(capture(&database, &store).part.digest, target.digest);
    assert_eq!(known(&server), before);
}

#[test]
fn what_cannot_be_made_as_it_was_is_told() {
    let server = Postgres::start();
    server.run("postgres", "CREATE ROLE agent LOGIN CREATEDB PASSWORD 'agent'; CREATE ROLE other");
    server.run("postgres", "CREATE DATABASE app OWNER other");
    server.run(
        "app",
        "ALTER DATABASE app SET app.jwt_secret = 'hunter2'; ALTER DATABASE app SET log_statement = 'all';",
    );
    let store = MemoryStore::default();
    let target = capture(&database(&server, "app"), &store).part;
    assert!(!format!("{target:?}").contains("hunter2"), "{target:?}");
    server.run("postgres", "DROP DATABASE app");
    let agent = at(&server.url_as("agent:agent", "app"));
    let notes = agent.create(&target).unwrap().join("\n");
    for words in ["it belonged to other", "jwt_secret", "looks like a secret", "log_statement"] {
        assert!(notes.contains(words), "{words}: {notes}");
    }
    assert!(known(&server).starts_with("agent|"), "{}", known(&server));

    server.run("postgres", "DROP DATABASE app");
    let mut newer = target.clone();
    if let Some(definition) = &mut newer.definition {
        definition.provider = Some("builtin".to_owned());
        definition.locale = Some("of later".to_owned());
    }
    let notes = database(&server, "app").create(&newer).unwrap().join("\n");
    assert!(notes.contains("does not have its collation"), "{notes}");

    server.run("postgres", "DROP DATABASE app");
    server.run("postgres", "DROP ROLE other");
    let error = database(&server, "app").create(&target).unwrap_err();
    assert!(
        matches!(&error, Error::Refused { message, .. } if message.contains("other")),
        "{error}"
    );
}

#[test]
fn what_the_user_could_not_restore_is_foreseen_when_it_is_read() {
    let server = Postgres::start();
    server.run("postgres", "CREATE ROLE agent LOGIN PASSWORD 'agent'; CREATE ROLE other");
    server.run("postgres", "CREATE DATABASE app OWNER agent");
    let agent = at(&server.url_as("agent:agent", "app"));
    let store = MemoryStore::default();
    server.run("app", "CREATE TABLE mine (n int); ALTER TABLE mine OWNER TO agent");
    assert_eq!(capture(&agent, &store).part.obstacle, None);
    server.run(
        "app",
        "CREATE TABLE theirs (n int); ALTER TABLE theirs OWNER TO other; GRANT SELECT ON theirs TO agent",
    );
    let part = capture(&agent, &store).part;
    let obstacle = part.obstacle.clone().unwrap();
    assert!(obstacle.contains("public.theirs"), "{obstacle}");
    let refused = agent.check(&store, &part, false).unwrap_err();
    assert!(matches!(refused, Error::Refused { .. }), "{refused}");
    assert_eq!(capture(&database(&server, "app"), &store).part.obstacle, None, "a superuser may");
    server.run("postgres", "GRANT other TO agent");
    // The table is given to a role that may create nothing in `public`.
    let obstacle = capture(&agent, &store).part.obstacle.unwrap();
    assert!(obstacle.contains("public.theirs"), "{obstacle}");
    let refused = agent.check(&store, &part, false).unwrap_err();
    assert!(matches!(refused, Error::Refused { .. }), "{refused}");
    server.run(
        "app",
        "CREATE SCHEMA theirs AUTHORIZATION other; ALTER TABLE theirs SET SCHEMA theirs",
    );
    let part = capture(&agent, &store).part;
    assert_eq!(part.obstacle, None);
    restore(&agent, &store, &part).unwrap();
}

#[test]
fn what_cannot_succeed_is_refused_beforehand() {
    let server =
        Postgres::start_with(&["fsync=off", "max_locks_per_transaction=10", "max_connections=10"]);
    server.create("app");
    server.run("app", SMALL);
    let store = MemoryStore::default();
    let app = database(&server, "app");
    let target = capture(&app, &store).part;
    let refusal =
        |database: &Database, target: &DatabasePart| match database.check(&store, target, false) {
            Err(Error::Refused { message, advice }) => {
                let advice: Vec<&str> = advice.iter().filter_map(|one| one.as_plain()).collect();
                format!("{message} | {}", advice.join("; "))
            }
            other => panic!("{other:?}"),
        };
    app.check(&store, &target, false).unwrap();
    let with =
        |statements: &str| part(&store, &format!("{}{statements}", server.dump("app")), &target);

    let said = refusal(&app, &with("ALTER TABLE public.t OWNER TO nobody_here;\n"));
    assert!(said.contains("nobody_here") && said.contains("CREATE ROLE"), "{said}");
    let said = refusal(&app, &with("CREATE EXTENSION IF NOT EXISTS no_such WITH SCHEMA public;\n"));
    assert!(said.contains("no_such"), "{said}");
    let said = refusal(&app, &with("SET default_tablespace = nowhere;\n"));
    assert!(said.contains("nowhere"), "{said}");

    let many: String = (0..200).map(|n| format!("CREATE TABLE public.t{n} (a int);\n")).collect();
    let said = refusal(&app, &with(&many));
    assert!(said.contains("max_locks_per_transaction = "), "{said}");

    // Somebody who owns the tables, and not all else.
    server.run("app", "CREATE ROLE dev LOGIN PASSWORD 'pw'; ALTER DATABASE app OWNER TO dev; ALTER TABLE t OWNER TO dev;");
    let dev = at(&server.url_as("dev:pw", "app"));
    let owned = capture(&dev, &store).part;
    dev.check(&store, &owned, false).unwrap();
    restore(&dev, &store, &owned).unwrap();
    // A pg_dump of 15 says of older servers to whom the schema belongs that every database has.
    let public = server.run(
        "app",
        "SELECT format('ALTER SCHEMA public OWNER TO %s;', nspowner::regrole) FROM pg_namespace WHERE nspname = 'public'",
    );
    let explicit = part(&store, &format!("{}{public}\n", server.dump("app")), &owned);
    restore(&dev, &store, &explicit).unwrap();
    let given = part(
        &store,
        &format!("{}ALTER SCHEMA public OWNER TO zoo_owner;\n", server.dump("app")),
        &owned,
    );
    server.run("app", "CREATE ROLE zoo_owner");
    let said = refusal(&dev, &given);
    assert!(said.contains("zoo_owner"), "{said}");
    let said = refusal(&dev, &target);
    assert!(said.contains("postgres"), "{said}");
    server.run("app", "CREATE FUNCTION e() RETURNS event_trigger LANGUAGE plpgsql AS 'BEGIN END'; ALTER FUNCTION e OWNER TO dev; CREATE EVENT TRIGGER no ON ddl_command_end EXECUTE FUNCTION e();");
    let said = refusal(&dev, &owned);
    assert!(said.contains("event triggers: no"), "{said}");
    server.run("app", "DROP EVENT TRIGGER no; CREATE TABLE other (id int);");
    let said = refusal(&dev, &owned);
    assert!(said.contains("public.other"), "{said}");
    server.run("app", "DROP TABLE other; CREATE SUBSCRIPTION sub CONNECTION 'host=nowhere' PUBLICATION p WITH (connect = false)");
    let said = refusal(&app, &target);
    assert!(said.contains("subscribes") && said.contains("sub"), "{said}");

    let remote = at("postgres://192.0.2.1/app");
    let Err(Error::Refused { advice, .. }) = remote.check(&store, &target, false) else { panic!() };
    assert_eq!(advice, [Advice::AllowDatabase { name: "app".into() }]);
}
