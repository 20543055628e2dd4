//! Servers that go mute: whoever waits for one can be stopped.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use rappel_capture::databases::postgres::{Database, Options, Pace};
use rappel_capture::databases::{Error, Watch};
use rappel_store::Cancel;
use rappel_testing::{MemoryStore, Postgres};

use crate::support::{at, capture, database, patient, server_with};

const SOCKET: &str = ".s.PGSQL.5432";

/// Stands between a server and its clients. Once told to, it swallows the next query of each, and sets `cancel`
/// in the name of a user who has waited long enough.
struct Proxy {
    folder: tempfile::TempDir,
    mute: Arc<AtomicBool>,
    cancel: Cancel,
}

impl Proxy {
    fn before(server: &Postgres) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(folder.path().join(SOCKET)).unwrap();
        let (mute, cancel) = (Arc::new(AtomicBool::new(false)), Cancel::default());
        let proxy = Self { folder, mute: Arc::clone(&mute), cancel: cancel.clone() };
        let behind: PathBuf = server.host().join(SOCKET);
        thread::spawn(move || {
            for client in listener.incoming() {
                let (mut client, mut server) =
                    (client.unwrap(), UnixStream::connect(&behind).unwrap());
                let (mut from, mut to) = (server.try_clone().unwrap(), client.try_clone().unwrap());
                thread::spawn(move || {
                    let _ = std::io::copy(&mut from, &mut to);
                    let _ = to.shutdown(Shutdown::Both);
                });
                let (mute, cancel) = (Arc::clone(&mute), cancel.clone());
                thread::spawn(move || {
                    let mut bytes = [0; 8 << 10];
                    while let Ok(count @ 1..) = client.read(&mut bytes) {
                        if bytes[0] == b'Q' && mute.load(Ordering::SeqCst) {
                            cancel.cancel();
                        } else if server.write_all(&bytes[..count]).is_err() {
                            break;
                        }
                    }
                    let _ = server.shutdown(Shutdown::Both);
                });
            }
        });
        proxy
    }

    fn database(&self) -> Database {
        self.unattended().until(self.cancel.clone())
    }

    /// The database as one sees it whom nobody stops.
    fn unattended(&self) -> Database {
        let host = self.folder.path().to_str().unwrap().replace('/', "%2F");
        at(&format!("postgres://postgres@{host}/app"))
    }

    fn go_mute(&self) {
        self.mute.store(true, Ordering::SeqCst);
    }
}

fn is_cancelled(error: &Error) -> bool {
    matches!(error, Error::Store(rappel_store::Error::Cancelled))
}

#[test]
fn a_look_and_a_capture_can_be_stopped() {
    let server = server_with("CREATE TABLE t (n int); INSERT INTO t VALUES (1);");
    let store = MemoryStore::default();
    let proxy = Proxy::before(&server);
    proxy.database().fingerprint().unwrap();
    capture(&proxy.database(), &store);
    proxy.go_mute();
    let error = proxy.database().fingerprint().unwrap_err();
    assert!(is_cancelled(&error), "{error:?}");

    let proxy = Proxy::before(&server);
    proxy.go_mute();
    let error = rappel_capture::databases::postgres::capture::dump(
        &proxy.database(),
        &store,
        None,
        &Pace::default(),
    )
    .unwrap_err();
    assert!(is_cancelled(&error), "{error:?}");
}

#[test]
fn a_restore_can_be_stopped_and_changes_nothing() {
    let server = server_with("CREATE TABLE t (n int); INSERT INTO t VALUES (1);");
    let store = MemoryStore::default();
    let target = capture(&database(&server, "app"), &store).part;
    server.run("app", "UPDATE t SET n = 2;");
    let before = capture(&database(&server, "app"), &store).part;

    let proxy = Proxy::before(&server);
    let mut restoring = proxy.database().restoring(patient()).unwrap();
    restoring.capture(&store, Some(&target), &Watch::nobody()).unwrap();
    proxy.go_mute();
    let error = restoring.stage(&store, &target).unwrap_err();
    assert!(is_cancelled(&error), "{error:?}");
    drop(restoring);
    assert_eq!(capture(&database(&server, "app"), &store).part.digest, before.digest);
}

#[test]
fn a_mute_server_is_given_up_where_it_has_little_to_do() {
    let server = server_with("CREATE TABLE t (n int); INSERT INTO t VALUES (1);");
    let store = MemoryStore::default();
    let target = capture(&database(&server, "app"), &store).part;
    server.run("app", "UPDATE t SET n = 2;");
    let before = capture(&database(&server, "app"), &store).part;
    let proxy = Proxy::before(&server);
    let mut restoring =
        proxy.unattended().given_up_after(Duration::from_secs(5)).restoring(patient()).unwrap();
    restoring.capture(&store, Some(&target), &Watch::nobody()).unwrap();
    proxy.go_mute();
    let staged = restoring.stage(&store, &target).unwrap_err();
    drop(restoring);
    let soon = || proxy.unattended().given_up_after(Duration::from_millis(50));
    let options = || Options { lock_timeout: Duration::from_millis(50), ..patient() };
    for error in [
        staged,
        soon().fingerprint().unwrap_err(),
        soon().check(&store, &target, false).unwrap_err(),
        soon().restoring(options()).map(drop).unwrap_err(),
        soon().create(&target).unwrap_err(),
    ] {
        assert!(
            matches!(&error, Error::Unavailable(words) if words.contains("no answer")),
            "{error:?}"
        );
    }
    assert_eq!(capture(&database(&server, "app"), &store).part.digest, before.digest);
}

#[test]
fn a_server_that_goes_mute_during_a_dump_is_given_up() {
    let server = server_with("CREATE TABLE t (n int);");
    let store = MemoryStore::default();
    let proxy = Proxy::before(&server);
    proxy.go_mute();
    let soon = proxy.unattended().given_up_after(Duration::from_millis(50));
    let dump = rappel_capture::databases::postgres::capture::dump;
    let error = dump(&soon, &store, None, &Pace::default()).unwrap_err();
    assert!(
        matches!(&error, Error::Unavailable(words) if words.contains("no answer")),
        "{error:?}"
    );
}
