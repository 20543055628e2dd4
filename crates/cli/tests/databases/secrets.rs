//! A password is known to the server that it is for, and to nobody else.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;

use crate::scene::{Scene, files_below};
use crate::support::World;

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

/// A server that asks for a password, hears it, and hangs up.
fn listener() -> (u16, Receiver<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (heard, passwords) = std::sync::mpsc::channel();
    let message = |mut stream: &TcpStream, kind: usize| -> Option<Vec<u8>> {
        let mut head = vec![0; kind + 4];
        stream.read_exact(&mut head).ok()?;
        let length = u32::from_be_bytes(head[kind..].try_into().unwrap()) as usize;
        let mut body = vec![0; length - 4];
        stream.read_exact(&mut body).ok().map(|()| body)
    };
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            message(&stream, 0);
            // Clear text, please.
            let _ = stream.write_all(b"R\0\0\0\x08\0\0\0\x03");
            let _ = heard.send(message(&stream, 1).unwrap_or_default());
        }
    });
    (port, passwords)
}

#[test]
fn the_password_for_every_server_goes_to_another_machine_only_if_that_is_allowed() {
    let world = World::new();
    let (port, heard) = listener();
    // Where it leads is this machine, but that is not what it says.
    let url = format!("postgres://me@db.example:{port}/app?hostaddr=127.0.0.1&sslmode=disable");
    world.write("rappel.toml", &format!("[[database]]\nname = \"app\"\nurl = {url:?}\n"));
    let run = |arguments: &[&str]| {
        let output = world.command(arguments).env("PGPASSWORD", "hunter2").output().unwrap();
        String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap()
    };
    for arguments in [&["save", "--json"][..], &["status"], &["doctor"], &["diff"]] {
        let said = run(arguments);
        assert_eq!(heard.try_iter().count(), 0, "{arguments:?}: {said}");
    }
    let said = run(&["save", "--json"]);
    assert!(said.contains("PGPASSWORD would be sent to a server on another machine"), "{said}");
    assert!(run(&["trust", "--yes"]).contains("PGPASSWORD, which is for every server"));
    run(&["save"]);
    let passwords: Vec<Vec<u8>> = heard.try_iter().collect();
    assert!(passwords.contains(&b"hunter2\0".to_vec()), "{passwords:?}");

    // An address that the user's own environment has needs no question, and one of this machine
    // neither.
    let local = format!("postgres://me@127.0.0.1:{port}/app?sslmode=disable");
    for (text, variable) in [("env:THE_URL", url.as_str()), (local.as_str(), "")] {
        world.json(&["trust", "--revoke"]);
        world.write("rappel.toml", &format!("[[database]]\nname = \"app\"\nurl = {text:?}\n"));
        let mut command = world.command(&["save"]);
        command.env("PGPASSWORD", "hunter2").env("THE_URL", variable).output().unwrap();
        assert!(heard.try_iter().any(|password| password == b"hunter2\0"), "{text}");
    }
}
