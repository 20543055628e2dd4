//! A password in a URL is known to the server and to nobody else.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::scene::{Scene, files_below};

/// As it is, and as it stands in the URL.
const PASSWORD: [&str; 2] = ["hunter2/with@odd", "hunter2%2Fwith%40odd"];

fn holds_it(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    PASSWORD.iter().any(|password| text.contains(password))
}

/// Everybody's command line while `work` is done.
fn command_lines(work: impl FnOnce()) -> Vec<Vec<u8>> {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watching = scope.spawn(|| {
            let mut seen = std::collections::BTreeSet::new();
            while !over.load(Ordering::Relaxed) {
                for process in std::fs::read_dir("/proc").unwrap().flatten() {
                    if let Ok(line) = std::fs::read(process.path().join("cmdline")) {
                        seen.insert(line);
                    }
                }
                std::thread::sleep(std::time::Duration::from_millis(2));
            }
            seen
        });
        work();
        over.store(true, Ordering::Relaxed);
        watching.join().unwrap().into_iter().collect()
    })
}

#[test]
fn no_command_line_output_log_or_file_holds_it() {
    let scene = Scene::new();
    scene
        .server
        .run("postgres", &format!("CREATE ROLE agent LOGIN SUPERUSER PASSWORD '{}'", PASSWORD[0]));
    let url = scene.server.url_as(&format!("agent:{}", PASSWORD[1]), "app");
    scene.address(&url);
    // It is in that file, which is the user's own.
    scene.world.write(".rappelignore", ".env\n");
    let temporary = scene.world.project.outside().join("temporary");
    std::fs::create_dir(&temporary).unwrap();
    let mut seen_files = Vec::new();
    let mut run = |arguments: &[&str], code: i32| {
        let mut command = scene.world.command(arguments);
        command.env("RAPPEL_LOG", "trace").env("TMPDIR", &temporary);
        let output = command.output().unwrap();
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {words}");
        assert!(!holds_it(&output.stdout) && !holds_it(&output.stderr), "{arguments:?}: {words}");
        seen_files.extend(files_below(&temporary));
        words
    };
    let lines = command_lines(|| {
        let words = run(&["save", "first"], 0);
        assert!(words.contains("TRACE") || words.contains("DEBUG"), "nothing is logged: {words}");
        scene.server.run("app", "DELETE FROM sessions");
        run(&["restore", "1", "--dry-run"], 0);
        run(&["restore", "1", "--confirm"], 0);
        run(&["undo"], 0);
        run(&["status"], 0);
        run(&["show", "1", "--json"], 0);
    });
    assert_eq!(scene.server.run("app", "SELECT count(*) FROM sessions"), "0");
    // That they were seen at all makes the rest mean something.
    let of =
        |program: &str| lines.iter().any(|line| String::from_utf8_lossy(line).contains(program));
    assert!(of("psql\0"), "no psql was seen");
    for line in &lines {
        assert!(!holds_it(line), "{}", String::from_utf8_lossy(line));
    }

    // Refused by the server, it is not repeated either.
    scene.server.run("postgres", "ALTER ROLE agent PASSWORD 'another'");
    let words = run(&["save", "refused"], 0);
    assert!(words.contains("password"), "{words}");
    assert_eq!(seen_files, Vec::<std::path::PathBuf>::new(), "left in the temporary folder");
    for file in files_below(&scene.world.home) {
        assert!(!holds_it(&std::fs::read(&file).unwrap()), "{}", file.display());
    }
}
