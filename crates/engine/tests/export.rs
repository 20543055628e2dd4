//! Writing checkpoints out: everything or nothing, the same bytes, and no secret where none is
//! wanted.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test may fail loudly"
)]

mod support;

use rappel_types::Advice;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rappel::types::agents::NewEvent;
use rappel::types::{Facet, FacetState, Manifest};
use rappel::{
    ErrorKind, ExportOptions, ExportRange, Form, OpenOptions, Rappel, SaveOptions, SessionStart,
};
use rappel_store::bundle::Bundle;
use rappel_store::tree;
use rappel_testing::{Failure, Fault, FaultDisk, Project};
use support::World;

fn options(reference: &str, place: &Path) -> ExportOptions {
    let reference = reference.parse().unwrap();
    ExportOptions { place: Some(place.to_owned()), ..ExportOptions::new(reference) }
}

fn world() -> World {
    World::new(Project::new().file("a.txt", "one\n").file("src/b.txt", "b\n"))
}

/// The names in a folder, hidden ones too.
fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn paths(bundle: &Bundle, manifest: &Manifest) -> Vec<String> {
    let tree = manifest.files.as_ref().unwrap().tree;
    tree::read(bundle, &tree).unwrap().iter().map(|entry| entry.path.to_string()).collect()
}

#[test]
fn a_range_is_one_file_with_everything_once() {
    let world = world();
    world.save("first");
    world.write("a.txt", "two\n");
    world.save("second");
    world.write("a.txt", "three\n");
    let third = world.save("third");
    let out = tempfile::tempdir().unwrap();
    let rappel = world.open();
    let range = ExportRange::Through("1".parse().unwrap(), "latest".parse().unwrap());
    let both = ExportRange::One("2".parse().unwrap());
    let checkpoints = vec![range, both];
    let file = out.path().join("all.rappel");
    let exported = rappel.export(&ExportOptions { checkpoints, ..options("1", &file) }).unwrap();
    assert_eq!((exported.paths, exported.form), (vec![file.clone()], "rappel"));
    assert_eq!(exported.checkpoints.len(), 3);
    assert_eq!(exported.left_out, [""; 0]);
    let bundle = Bundle::open(&file).unwrap();
    let sequences: Vec<u64> = bundle.manifests().map(|one| one.sequence).collect();
    assert_eq!(sequences, [1, 2, 3]);
    // A folder: the file is called by the checkpoint.
    let exported = rappel.export(&options("3", out.path())).unwrap();
    assert_eq!(exported.paths, [out.path().join(format!("{third}.rappel"))]);
    // The same to a stream.
    let mut bytes = Vec::new();
    rappel.export_to(&options("3", out.path()), &mut bytes).unwrap();
    assert_eq!(bytes, std::fs::read(&exported.paths[0]).unwrap());
    let backwards = ExportRange::Through("3".parse().unwrap(), "1".parse().unwrap());
    let checkpoints = vec![backwards];
    let error = rappel.export(&ExportOptions { checkpoints, ..options("1", &file) }).unwrap_err();
    let advice = vec![Advice::SwapRange { from: "1".into(), to: "3".into() }];
    assert_eq!((error.kind(), error.advice()), (ErrorKind::Usage, advice));
}

#[test]
fn a_file_that_is_no_bundle_is_not_replaced() {
    let world = world();
    world.save("first");
    let out = tempfile::tempdir().unwrap();
    let file = out.path().join("thesis.txt");
    std::fs::write(&file, "my thesis").unwrap();
    let rappel = world.open();
    let error = rappel.export(&options("1", &file)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Usage);
    assert_eq!(std::fs::read(&file).unwrap(), b"my thesis");
    // A link to one is not followed, and not replaced.
    let link = out.path().join("link");
    std::os::unix::fs::symlink(&file, &link).unwrap();
    assert!(rappel.export(&options("1", &link)).is_err());
    // A bundle is.
    let bundle = out.path().join("x.rappel");
    rappel.export(&options("1", &bundle)).unwrap();
    rappel.export(&options("1", &bundle)).unwrap();
    Bundle::open(&bundle).unwrap();
}

#[test]
fn whatever_fails_leaves_no_half_file() {
    let world = world();
    world.save("first");
    let failures = [Failure::Io, Failure::NoSpace, Failure::ShortWrite];
    for redact in [false, true] {
        let mut tried = 0;
        let mut failed = 0;
        // One operation after the other fails, until there is none left.
        loop {
            tried += 1;
            let mut is_past = true;
            for failure in failures {
                let out = tempfile::tempdir().unwrap();
                let file = out.path().join("x.rappel");
                std::fs::write(&file, "").unwrap();
                let disk = FaultDisk::new();
                let opened = OpenOptions { disk: disk.clone(), ..world.options() };
                let rappel = Rappel::open(opened).unwrap();
                let at = tried;
                disk.set(Fault::Fail { at, failure });
                let result = rappel.export(&ExportOptions { redact, ..options("1", &file) });
                is_past &= disk.count() < at;
                failed += u64::from(result.is_err());
                let is_old = std::fs::read(&file).unwrap().is_empty();
                assert!(!(result.is_ok() && is_old));
                if !is_old {
                    Bundle::open(&file).unwrap();
                }
                assert_eq!(names(out.path()), ["x.rappel"], "{at} {failure:?}");
            }
            if is_past {
                break;
            }
        }
        assert!(tried > 4 && failed > 8, "it creates, writes, syncs and renames: {tried} {failed}");
    }
}

#[test]
fn what_is_not_there_is_refused_by_name() {
    let world = world();
    let first = world.save("first");
    world.write("a.txt", "two\n");
    world.save("second");
    let out = tempfile::tempdir().unwrap();
    let rappel = world.open();
    rappel.delete(&[first.parse().unwrap()], false).unwrap();
    let error = rappel.export(&options(&first, out.path())).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.to_string().contains(&first), "{error}");
    assert_eq!(names(out.path()), [""; 0]);
}

/// A project with secrets in many places.
fn secretive() -> World {
    let token = "ghp_0123456789abcdefghijABCDEF";
    let project = Project::new()
        .file("src/main.rs", "struct Login { password: String }\n")
        .file(".env", "DB_PASSWORD=hunter2\nPORT=80\n")
        .file("deploy/key", "-----BEGIN OPENSSH PRIVATE KEY-----\nx\n")
        .file("notes.md", format!("the token is {token}\n"))
        .file("big.log", format!("{}{token}\n", "nothing to see here\n".repeat(120_000)))
        .file("app.bin", [b"\xff\xfe\x00".as_slice(), token.as_bytes(), b"\x00"].concat())
        .file("rappel.toml", "[files]\ninclude = [\".env\"]\n");
    World::new(project)
}

#[test]
fn nothing_that_looks_like_a_secret_leaves_with_redact() {
    let world = secretive();
    rappel_testing::git::git(world.project.root(), &["init", "-q"]);
    let database = rusqlite::Connection::open(world.project.path("app.db")).unwrap();
    database.execute_batch("CREATE TABLE t (x); INSERT INTO t VALUES ('hunter2')").unwrap();
    drop(database);
    let rappel = world.open();
    let (session, _) = rappel.start_session(SessionStart::default()).unwrap();
    let line = r#"{"kind": "note", "text": "look at the login"}"#;
    rappel.record(&session, NewEvent::parse(line).unwrap()).unwrap();
    let saved = rappel.save(&SaveOptions {
        message: Some("with API_KEY=hunter2 set".into()),
        metadata: [("password".to_owned(), "hunter2".into())].into(),
        session: Some(session.to_string()),
        ..SaveOptions::default()
    });
    let manifest = saved.unwrap().checkpoint.manifest;
    let id = manifest.id.as_str();
    let later = [("api_token".to_owned(), "hunter2".into())].into();
    let label = rappel::Label { metadata: later, ..Default::default() };
    rappel.relabel(&id.parse().unwrap(), &label).unwrap();
    assert_eq!(manifest.databases.len(), 1);
    let out = tempfile::tempdir().unwrap();
    let file = out.path().join("x.rappel");
    let exported = rappel.export(&ExportOptions { redact: true, ..options(id, &file) }).unwrap();
    assert_eq!(names(out.path()), ["x.rappel"], "nothing is left beside it");

    let bundle = Bundle::open(&file).unwrap();
    let told = bundle.manifests().next().unwrap();
    assert_eq!(paths(&bundle, told), ["deploy", "rappel.toml", "src", "src/main.rs"]);
    let secret = ["ghp_0123456789abcdefghijABCDEF", "hunter2", "OPENSSH PRIVATE KEY"];
    bundle
        .each_object(&mut |id, bytes| {
            let text = String::from_utf8_lossy(bytes);
            assert!(!secret.iter().any(|one| text.contains(one)), "{id}: {text}");
            Ok(())
        })
        .unwrap();
    let json = serde_json::to_string(told).unwrap();
    assert!(!secret.iter().any(|one| json.contains(one)), "{json}");
    let said = |words: &str| bundle.documents().iter().any(|one| one.json.contains(words));
    assert!(said("look at the login") && said("api_token") && !said("hunter2"));

    // It says so, where a restore looks.
    assert!(told.partial);
    let reasons = &told.partial_reasons;
    for path in [".env", "deploy/key", "notes.md", "big.log", "app.bin"] {
        let named = |one: &&rappel::types::manifest::PartialReason| {
            one.facet == Facet::Files && one.path.as_ref().is_some_and(|at| at.to_string() == path)
        };
        assert!(reasons.iter().any(|one| named(&one)), "{path}: {reasons:?}");
        assert!(exported.left_out.iter().any(|what| what.contains(path)), "{path}");
    }
    for facet in [Facet::Git, Facet::Databases] {
        assert_eq!(told.state_of(facet), FacetState::Failed);
        assert!(reasons.iter().any(|one| one.facet == facet && one.path.is_none()));
    }
    assert!(told.git.is_none() && told.databases.is_empty());
    // The same bytes again, and everything without it.
    let again = out.path().join("y.rappel");
    rappel.export(&ExportOptions { redact: true, ..options(id, &again) }).unwrap();
    assert_eq!(std::fs::read(&file).unwrap(), std::fs::read(&again).unwrap());
    rappel.export(&options(id, &again)).unwrap();
    let whole = Bundle::open(&again).unwrap();
    assert_eq!(*whole.manifests().next().unwrap(), manifest);
}

#[test]
fn two_at_once_to_one_name_leave_one_whole_file() {
    let world = world();
    world.save("first");
    world.write("a.txt", "two\n");
    world.save("second");
    let out = tempfile::tempdir().unwrap();
    let file: PathBuf = out.path().join("x.rappel");
    std::thread::scope(|scope| {
        for number in ["1", "2"] {
            let (world, file) = (&world, &file);
            let rappel = world.open();
            scope.spawn(move || {
                for _ in 0..20 {
                    rappel.export(&options(number, file)).unwrap();
                    Bundle::open(file).unwrap();
                }
            });
        }
    });
    assert_eq!(names(out.path()), ["x.rappel"]);
}

#[test]
fn each_form_goes_where_its_tool_looks() {
    let world = world();
    let variables: rappel::Variables = Arc::new(|_| None);
    let rappel = Rappel::open(OpenOptions { variables, ..world.options() }).unwrap();
    let place = rappel.export_place(Form::Loki, Path::new("/p")).unwrap();
    assert_eq!(place, Path::new("/p/.loki/state/checkpoints"));
    assert!(rappel.export_place(Form::Lugh, Path::new("/p")).is_err(), "no home folder is known");
    let variables: rappel::Variables = Arc::new(|name| Some(format!("/v/{name}")));
    let rappel = Rappel::open(OpenOptions { variables, ..world.options() }).unwrap();
    let place = |form| rappel.export_place(form, Path::new("/p")).unwrap();
    assert_eq!(place(Form::Lugh), Path::new("/v/LUGH_HOME/checkpoints"));
    assert_eq!(place(Form::Loki), Path::new("/v/LOKI_DIR/state/checkpoints"));
    assert_eq!(place(Form::Caf), Path::new("/p/checkpoints"));
}
