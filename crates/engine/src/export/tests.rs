//! From a workspace to the form of Lugh and back into facets: the whole way, with the programs that people have.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use rappel_capture::git::State;
use rappel_formats::form::Reading;
use rappel_formats::portable::{Content, Database, Git};
use rappel_formats::{Form, Portable};
use rappel_testing::git::{git, text};
use rappel_testing::{Postgres, Project};
use rappel_types::RelPath;
use rappel_types::database::DatabaseKind;
use rappel_types::git::GitPart;
use rusqlite::Connection;
use tempfile::TempDir;

use crate::import::Bundles;
use crate::{OpenOptions, Rappel, SaveOptions, SessionStart};

fn path(text: &str) -> RelPath {
    text.parse().unwrap()
}

fn open(project: &Project) -> Rappel {
    Rappel::open(OpenOptions::new(project.root(), project.outside().join("home"))).unwrap()
}

fn save(rappel: &Rappel) -> Portable {
    let saved = rappel.save(&SaveOptions {
        message: Some("all of it".into()),
        tags: vec!["green".into()],
        wait: Some(std::time::Duration::from_millis(1)),
        ..SaveOptions::default()
    });
    let id = saved.unwrap().checkpoint.manifest.id;
    let row = rappel.store.checkpoint(&id).unwrap().unwrap();
    rappel.portable(&row).unwrap()
}

fn read_lugh(place: &Path) -> (Vec<Portable>, TempDir) {
    let scratch = tempfile::tempdir().unwrap();
    let mut progress = |_| Ok(());
    let reading = &mut Reading { scratch: scratch.path(), progress: &mut progress };
    let found = rappel_formats::read(Form::Lugh, place, reading).unwrap();
    assert_eq!(found.skipped, []);
    (found.checkpoints, scratch)
}

fn bytes_of(content: &dyn Content) -> Vec<u8> {
    let mut bytes = Vec::new();
    content.open().unwrap().read_to_end(&mut bytes).unwrap();
    assert_eq!(bytes.len() as u64, content.len());
    bytes
}

/// What is compared of a work tree: name, branch, commit, path, files.
type Shown = (String, Option<String>, Option<String>, String, u64);

/// A repository with branches, a tag, a stash, a linked work tree and one that stands at no branch.
fn repository() -> Project {
    let project = Project::new()
        .file("src/main.rs", "fn main() {}\n")
        .file("run.sh", "#!/bin/sh\n")
        .mode("run.sh", 0o755)
        .file("large.bin", rappel_testing::noise(3 << 20, 1))
        .symlink("current", "src/main.rs");
    let root = project.root();
    git(root, &["init", "-q"]);
    git(root, &["add", "."]);
    git(root, &["commit", "-qm", "one"]);
    git(root, &["tag", "-a", "v1", "-m", "first"]);
    git(root, &["branch", "feature/x"]);
    git(root, &["worktree", "add", "-q", "../linked", "feature/x"]);
    git(root, &["worktree", "add", "-q", "--detach", "../detached"]);
    let detached = project.outside().join("detached");
    std::fs::write(detached.join("only-here.txt"), "d").unwrap();
    git(&detached, &["add", "."]);
    git(&detached, &["commit", "-qm", "at no branch"]);
    std::fs::write(project.path("src/main.rs"), "fn main() { stash }\n").unwrap();
    git(root, &["stash", "-q"]);
    std::fs::write(project.path("src/main.rs"), "fn main() { dirty }\n").unwrap();
    std::fs::write(project.path("new.txt"), "untracked").unwrap();
    std::fs::write(project.outside().join("linked/note.txt"), "in the work tree").unwrap();
    project
}

fn refs_of(source: &dyn rappel_store::sink::Source, part: &GitPart) -> Vec<String> {
    let states = State::load(source, part).unwrap();
    let refs = states[0].refs.iter().filter(|(name, _)| name.as_bytes().starts_with(b"refs/"));
    refs.map(|(name, target)| format!("{name} {target:?}")).collect()
}

#[test]
fn a_repository_goes_to_lugh_and_comes_back_as_a_facet() {
    let project = repository();
    let root = project.root();
    let rappel = open(&project);
    let (session, _) = rappel
        .start_session(SessionStart { task: Some("mend it".into()), ..SessionStart::default() })
        .unwrap();
    let line = r#"{"kind": "note", "text": "look again"}"#;
    rappel.record(&session, rappel_types::agents::NewEvent::parse(line).unwrap()).unwrap();
    let one = save(&rappel);
    assert_eq!(one.sessions[0].state.notes.iter().next().unwrap().text, "look again");
    assert!(one.files.as_ref().unwrap().whole);
    let place = project.outside().join("lugh");
    let written = rappel_formats::write(Form::Lugh, std::slice::from_ref(&one), &place).unwrap();
    let folder = &written.paths[0];
    assert!(written.left_out.iter().any(|said| said.contains("hooks")), "{written:?}");

    // Git itself takes the bundle.
    let bundle = folder.join("git_bundle.bundle");
    let bundle = bundle.to_str().unwrap();
    git(root, &["bundle", "verify", "-q", bundle]);
    let clone = project.outside().join("clone");
    git(project.outside(), &["clone", "-q", bundle, clone.to_str().unwrap()]);
    assert_eq!(std::fs::read_to_string(clone.join("src/main.rs")).unwrap(), "fn main() {}\n");
    assert_eq!(text(&clone, &["rev-parse", "HEAD"]), text(root, &["rev-parse", "HEAD"]));
    assert_eq!(text(&clone, &["rev-parse", "v1"]), text(root, &["rev-parse", "v1"]));
    git(&clone, &["cat-file", "-e", "origin/feature/x"]);
    let tar =
        Command::new("tar").arg("-tzf").arg(folder.join("worktrees.tar.gz")).output().unwrap();
    let listed = String::from_utf8(tar.stdout).unwrap();
    let linked = project.outside().canonicalize().unwrap().join("linked/note.txt");
    assert!(listed.contains(linked.to_str().unwrap().trim_start_matches('/')), "{listed}");

    let (back, scratch) = read_lugh(&place);
    let files = [&one, &back[0]].map(|one| {
        let files = one.files.as_ref().unwrap();
        let shown = files
            .entries
            .iter()
            .map(|(path, file)| (path.clone(), file.is_link, file.mode, bytes_of(&*file.content)));
        (files.root.clone(), files.whole, shown.collect::<Vec<_>>())
    });
    assert!(files[0] == files[1], "the files are the same");
    assert_eq!(back[0].sessions[0].state.notes, one.sessions[0].state.notes);
    assert_eq!((&back[0].tags, &back[0].description), (&one.tags, &one.description));

    // And it becomes a facet again, like any other.
    let before = std::fs::read_dir(root.join(".git")).unwrap().count();
    let writer = rappel.store.begin().unwrap();
    let given = back[0].git.as_ref().unwrap();
    let (part, reasons) =
        rappel.take_git(&writer, given, scratch.path(), &mut Bundles::default()).unwrap();
    assert_eq!(reasons, []);
    let part = part.unwrap();
    let row = rappel.rows().unwrap().pop().unwrap();
    let original = rappel.store.manifest(&row).unwrap().git.unwrap();
    assert_eq!(part.root.branch, original.root.branch);
    assert_eq!(part.root.commit, original.root.commit);
    assert_eq!(part.root.dirty_files, original.root.dirty_files);
    assert_eq!(part.root.untracked, original.root.untracked);
    assert_eq!(
        refs_of(&writer, &part),
        refs_of(&rappel.store, &original),
        "branches, tags and the stash"
    );
    let worktrees = |part: &GitPart| -> Vec<Shown> {
        let files = |one: &rappel_types::git::WorktreePart| {
            one.files.as_ref().map_or(0, |files| files.count)
        };
        let all = part.root.worktrees.iter();
        all.map(|one| {
            let (branch, commit) = (one.branch.clone(), one.commit.clone());
            (one.name.clone(), branch, commit, one.path.clone(), files(one))
        })
        .collect()
    };
    assert_eq!(worktrees(&part), worktrees(&original));
    let states = State::load(&writer, &part).unwrap();
    let names: Vec<String> = states[0].files.keys().map(ToString::to_string).collect();
    assert!(names.contains(&"index".to_owned()), "{names:?}");
    assert!(!names.iter().any(|name| name.starts_with("hooks")), "{names:?}");
    assert_eq!(std::fs::read_dir(root.join(".git")).unwrap().count(), before);

    // A second one of the same history stores none of its objects again.
    let (again, _) =
        rappel.take_git(&writer, given, scratch.path(), &mut Bundles::after(&part)).unwrap();
    let packs = |part: &GitPart| -> Vec<String> {
        let states = State::load(&writer, part).unwrap();
        states[0].bundles.iter().map(|bundle| bundle.name.clone()).collect()
    };
    assert_eq!(packs(&again.unwrap()), packs(&part));

    // One that came without files has those of its commit.
    let files = rappel.commit_files(given, scratch.path()).unwrap().unwrap();
    let names: Vec<String> = files.entries.keys().map(ToString::to_string).collect();
    assert_eq!(names, ["current", "large.bin", "run.sh", "src/main.rs"]);
    assert_eq!(bytes_of(&*files.entries[&path("src/main.rs")].content), b"fn main() {}\n");
    assert!(files.entries[&path("current")].is_link);
    assert_eq!(files.entries[&path("run.sh")].mode, 0o755);
    assert_eq!(files.entries[&path("large.bin")].content.len(), 3 << 20);
}

#[test]
fn psql_and_sqlite_take_the_dumps_and_they_become_parts_again() {
    let server = Postgres::start();
    server.create("app");
    server.run(
        "app",
        "CREATE TABLE talks (id serial PRIMARY KEY, text text);
         INSERT INTO talks (text) SELECT 'talk ' || n FROM generate_series(1, 1500) n;
         CREATE TABLE empty ();",
    );
    let project = Project::new().file("code", "1");
    let config = "[[database]]\nname = \"app\"\nurl = \"env:DATABASE_URL\"\n";
    std::fs::write(project.path("rappel.toml"), config).unwrap();
    std::fs::write(project.path(".env"), format!("DATABASE_URL=\"{}\"\n", server.url("app")))
        .unwrap();
    let local = Connection::open(project.path("local.db")).unwrap();
    local.execute_batch("CREATE TABLE notes (x); INSERT INTO notes VALUES (1), (2)").unwrap();
    drop(local);
    let rappel = open(&project);
    let one = save(&rappel);
    let place = project.outside().join("lugh");
    rappel_formats::write(Form::Lugh, std::slice::from_ref(&one), &place).unwrap();
    let folder = place.join("latest");

    server.create("copy");
    let mut psql = server.psql_command("copy");
    let done = psql.args(["-v", "ON_ERROR_STOP=1", "-q", "-f"]).arg(folder.join("db_snapshot.sql"));
    let done = done.output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    assert_eq!(server.run("copy", "SELECT count(*) FROM talks").trim(), "1500");
    let copy = Connection::open(folder.join("db_snapshot.local.db.sqlite")).unwrap();
    let rows: i64 = copy.query_row("SELECT count(*) FROM notes", [], |row| row.get(0)).unwrap();
    assert_eq!(rows, 2);
    drop(copy);

    let (back, _scratch) = read_lugh(&place);
    let writer = rappel.store.begin().unwrap();
    let (parts, reasons) = rappel.take_databases(&writer, &back[0].databases).unwrap();
    assert_eq!(reasons, []);
    let row = rappel.rows().unwrap().pop().unwrap();
    let original = rappel.store.manifest(&row).unwrap().databases;
    assert_eq!(parts.len(), 2);
    for part in &parts {
        let expected = original.iter().find(|one| one.name == part.name).unwrap();
        assert_eq!((part.kind, &part.digest), (expected.kind, &expected.digest), "{}", part.name);
        assert_eq!((&part.tables, &part.row_counts), (&expected.tables, &expected.row_counts));
    }
    assert_eq!(parts[1].location.as_deref(), Some("local.db"));
}

fn rappel_alone() -> (Project, Rappel) {
    let project = Project::new().file("a", "1");
    let rappel = open(&project);
    (project, rappel)
}

/// A bundle of a repository that `make` has worked in.
fn bundle_of(make: impl Fn(&Path)) -> (Vec<u8>, String) {
    let folder = tempfile::tempdir().unwrap();
    git(folder.path(), &["init", "-q"]);
    make(folder.path());
    git(folder.path(), &["bundle", "create", "-q", "out", "--all"]);
    let head = text(folder.path(), &["rev-parse", "HEAD"]);
    (std::fs::read(folder.path().join("out")).unwrap(), head)
}

fn commit(folder: &Path) {
    std::fs::write(folder.join("a.txt"), "a").unwrap();
    git(folder, &["add", "a.txt"]);
    git(folder, &["commit", "-qm", "one"]);
}

#[test]
fn bundles_of_enemies_are_refused_by_name_and_run_nothing() {
    let (project, rappel) = rappel_alone();
    let scratch = tempfile::tempdir().unwrap();
    let take = |bundle: Vec<u8>, branch: &str, commit: Option<&str>| {
        let git = Git {
            branch: Some(branch.to_owned()),
            commit: commit.map(str::to_owned),
            bundle: Some(Arc::new(bundle)),
            ..Git::default()
        };
        let writer = rappel.store.begin().unwrap();
        let bundles = &mut Bundles::default();
        let (part, reasons) = rappel.take_git(&writer, &git, scratch.path(), bundles).unwrap();
        (part.unwrap_or_default(), reasons.into_iter().map(|one| one.reason).collect::<Vec<_>>())
    };
    let (good, head) = bundle_of(commit);
    let (part, reasons) = take(good.clone(), "main", Some(&head[..9]));
    assert_eq!((part.root.commit.as_deref(), &reasons[..]), (Some(&*head), &[][..]));

    // A tree with `.git` in it, which git itself would not write.
    let (evil, _) = bundle_of(|folder| {
        commit(folder);
        std::fs::write(folder.join("hook"), "#!/bin/sh\n").unwrap();
        let blob = text(folder, &["hash-object", "-w", "hook"]);
        let tree = {
            let oid = text(folder, &["rev-parse", "HEAD^{tree}"]);
            let mut raw = rappel_testing::git::bytes(folder, &["cat-file", "tree", &oid]);
            let digits: Vec<u8> = (0..20)
                .map(|at| u8::from_str_radix(&blob[2 * at..2 * at + 2], 16).unwrap())
                .collect();
            let mut entry = b"100755 .git\0".to_vec();
            entry.extend(digits);
            entry.append(&mut raw);
            std::fs::write(folder.join("tree"), entry).unwrap();
            text(folder, &["hash-object", "--literally", "-w", "-t", "tree", "tree"])
        };
        let evil = text(folder, &["commit-tree", "-m", "evil", &tree]);
        git(folder, &["update-ref", "refs/heads/main", &evil]);
    });
    let (part, reasons) = take(evil, "main", None);
    assert!(part.tree.is_none() && reasons[0].contains("refused"), "{reasons:?}");
    assert!(reasons[0].contains("git failed"), "{reasons:?}");

    let mut torn = good.clone();
    torn.truncate(good.len() - 30);
    let mut flipped = good.clone();
    let middle = good.len() - 40;
    flipped[middle] ^= 0x55;
    for bad in [torn, flipped, b"# v2 git bundle\n".to_vec(), b"junk".to_vec(), Vec::new()] {
        let (part, reasons) = take(bad, "main", None);
        assert!(part.tree.is_none() && reasons[0].contains("its bundle is refused"), "{reasons:?}");
    }
    // Names that are no branches and commits that are not there are said, and nothing is made of them.
    for (branch, commit) in
        [("-x", None), ("a..b", None), ("x\nref: y", None), ("main", Some("0123456789"))]
    {
        let (part, reasons) = take(good.clone(), branch, commit);
        assert_eq!(reasons.len(), 1, "{branch:?}: {reasons:?}");
        assert!(part.tree.is_some());
    }
    // What it says of its work trees is a folder's name, not a way out.
    let outside = tempfile::tempdir().unwrap();
    let worktree = |name: &str| rappel_formats::portable::Worktree {
        name: name.to_owned(),
        branch: Some("main".to_owned()),
        commit: None,
        path: outside.path().join("w").to_str().unwrap().to_owned(),
        files: None,
    };
    let git = Git {
        branch: Some("main".to_owned()),
        bundle: Some(Arc::new(good)),
        worktrees: ["../../x", "..", "a/b", ".hidden"].map(worktree).to_vec(),
        ..Git::default()
    };
    let writer = rappel.store.begin().unwrap();
    let (part, _) =
        rappel.take_git(&writer, &git, scratch.path(), &mut Bundles::default()).unwrap();
    assert_eq!(part.unwrap().root.worktrees, []);
    assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 0);
    assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 0, "the scratch is clean");
    drop(project);
}

#[test]
fn dumps_of_enemies_are_refused_by_name() {
    use DatabaseKind::{Command, Postgres, Sqlite};
    let (project, rappel) = rappel_alone();
    let database = |name: &str, kind: DatabaseKind, dump: Option<&[u8]>| Database {
        name: name.to_owned(),
        kind,
        tables: Vec::new(),
        row_counts: std::collections::BTreeMap::new(),
        dump: dump.map(|dump| Arc::new(dump.to_vec()) as Arc<dyn Content>),
    };
    let file = project.outside().join("good.db");
    let connection = Connection::open(&file).unwrap();
    connection.execute_batch("CREATE TABLE t (x); INSERT INTO t VALUES (1)").unwrap();
    drop(connection);
    let good = std::fs::read(&file).unwrap();
    let mut spoilt = good.clone();
    spoilt[4096..].fill(0xff);
    let sql: &[u8] =
        b"CREATE TABLE public.t (x integer);\nCOPY public.t (x) FROM stdin;\n1\n2\n\\.\n";
    let all = [
        database("good.db", Sqlite, Some(&good)),
        database(".git/index", Sqlite, Some(&good)),
        database("junk", Sqlite, Some(b"junk")),
        database("short", Sqlite, Some(&good[..1000])),
        database("spoilt", Sqlite, Some(&spoilt)),
        database("empty", Postgres, None),
        database("archive", Postgres, Some(b"PGDMP\x01\x0e")),
        database("sql", Postgres, Some(sql)),
        database("sql", Postgres, Some(sql)),
        database("cut", Postgres, Some(b"CREATE FUNCTION f() AS $$ BEGIN")),
        database("bad\u{1b}[2Jname", Command, Some(b"x")),
        database("cache", Command, Some(b"x")),
    ];
    let writer = rappel.store.begin().unwrap();
    let (parts, reasons) = rappel.take_databases(&writer, &all).unwrap();
    let names: Vec<&str> = parts.iter().map(|part| &*part.name).collect();
    assert_eq!(names, ["good.db", ".git/index", "sql", "cut", "cache"]);
    assert_eq!(parts[1].location, None, "git's folder is no place for a database");
    assert_eq!((parts[2].row_counts["t"], &parts[2].tables[..]), (2, &["t".to_owned()][..]));
    assert!(parts[3].flaw.is_some());
    let reasons: Vec<String> = reasons.into_iter().map(|one| one.reason).collect();
    for (at, said) in [
        "\"junk\": it is no database of SQLite",
        "\"short\": it is ",
        "\"spoilt\": it is ",
        "\"empty\": its content did not come along",
        "\"archive\": its dump is an archive of pg_dump",
        "\"sql\": its name is used twice",
        "its name is used twice, or is none",
    ]
    .into_iter()
    .enumerate()
    {
        assert!(reasons[at].contains(said), "{said}: {reasons:?}");
    }
    assert!(!reasons.iter().any(|reason| reason.contains('\u{1b}')));
}

#[test]
fn what_cannot_be_a_bundle_is_left_out_and_said() {
    let source = repository();
    let project = Project::new();
    let url = format!("file://{}", source.root().display());
    let into: PathBuf = project.path("clone");
    git(project.outside(), &["clone", "-q", "--depth=1", &url, into.to_str().unwrap()]);
    let rappel = Rappel::open(OpenOptions::new(&into, project.outside().join("home"))).unwrap();
    let one = save(&rappel);
    assert!(one.git.as_ref().unwrap().bundle.is_none());
    assert!(one.left_out.iter().any(|said| said.contains("shallow")), "{:?}", one.left_out);
    // An empty repository has nothing to give, and nested ones are named.
    let project = Project::new().file("inner/a", "1").dir("nothing/here");
    git(project.root(), &["init", "-q"]);
    git(&project.path("inner"), &["init", "-q"]);
    let one = save(&open(&project));
    assert!(one.git.as_ref().unwrap().bundle.is_none());
    assert!(one.left_out.contains(&"the repository in inner".to_owned()), "{:?}", one.left_out);
    assert!(one.left_out.contains(&"empty folders".to_owned()), "{:?}", one.left_out);
}

#[test]
fn running_calls_make_an_exported_checkpoint_partial() {
    let (_project, rappel) = rappel_alone();
    let (session, _) = rappel.start_session(SessionStart::default()).unwrap();
    let line = r#"{"kind": "tool", "id": "c1", "tool": "Bash", "input": {}, "started": true}"#;
    rappel.record(&session, rappel_types::agents::NewEvent::parse(line).unwrap()).unwrap();
    let one = save(&rappel);
    assert!(one.partial.iter().any(|said| said.contains("c1")), "{:?}", one.partial);
    let place = tempfile::tempdir().unwrap();
    rappel_formats::write(Form::Lugh, &[one], place.path()).unwrap();
    let text = std::fs::read_to_string(place.path().join("latest/checkpoint.json")).unwrap();
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(json["partial"], true);
}
