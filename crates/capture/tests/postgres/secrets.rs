//! Passwords are in no command line, no message, no dump of ours.

use std::sync::atomic::{AtomicBool, Ordering};

use rappel_capture::databases::Watch;
use rappel_capture::databases::postgres::Pace;
use rappel_testing::MemoryStore;

use crate::support::{at, patient, server_with, through};

const PASSWORD: &str = "s3cr3t\"'$ \\x";
const ESCAPED: &str = "s3cr3t%22%27%24%20%5Cx";

/// Says so when it is dropped, be it by a panic.
struct Ended<'a>(&'a AtomicBool);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Looks at all command lines for as long as `work` takes.
fn watched(work: impl FnOnce() + Send) -> usize {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            let mut looks = 0;
            while !done.load(Ordering::Relaxed) {
                for entry in std::fs::read_dir("/proc").unwrap().flatten() {
                    let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
                    let line = String::from_utf8_lossy(&line);
                    assert!(!line.contains("s3cr3t"), "{line}");
                    looks += usize::from(line.contains("pg_dump") && line.contains("app_user"));
                }
            }
            looks
        });
        let ended = Ended(&done);
        work();
        drop(ended);
        watcher.join().unwrap()
    })
}

#[test]
fn a_password_is_in_no_command_line() {
    let server = server_with("SELECT 1");
    let quoted = PASSWORD.replace('\'', "''");
    server.run(
        "app",
        &format!(
            "CREATE ROLE app_user LOGIN PASSWORD '{quoted}'; ALTER DATABASE app OWNER TO app_user;"
        ),
    );
    server
        .run("app", "SET ROLE app_user; CREATE TABLE t (id serial); INSERT INTO t DEFAULT VALUES;");
    let url = server.url_as(&format!("app_user:{ESCAPED}"), "app");
    let plain = at(&url);
    let bin = rappel_testing::postgres::programs();
    // Behind a prefix that lets no variable through.
    let path = format!("PATH={}:/usr/bin:/bin", bin.display());
    let prefixed = through(&url, &["env", "-i", &path]);
    for database in [plain, prefixed] {
        let looks = watched(|| {
            let store = MemoryStore::default();
            let target = database.capture(&store, None, &Pace::default()).unwrap();
            assert!(target.fingerprint.is_some());
            // A prefix that is no container's is taken for another machine.
            database.check(&store, &target.part, true).unwrap();
            for _ in 0..3 {
                let mut restoring = database.restoring(patient()).unwrap();
                let safety =
                    restoring.capture(&store, Some(&target.part), &Watch::nobody()).unwrap();
                assert_eq!(safety.part, target.part);
                restoring.stage(&store, &target.part).unwrap();
                restoring.commit().unwrap();
            }
            assert!(!format!("{database:?} {:?}", target.part).contains("s3cr3t"));
        });
        assert!(looks > 0, "nobody looked");
    }
}
