//! `rappel serve` and callers that mean no good, or change their minds.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may")]

#[allow(dead_code, reason = "this file uses some of it")]
#[path = "support/http.rs"]
mod http;
mod support;

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use http::Server;
use serde_json::json;
use support::World;

fn world() -> World {
    let world = World::new();
    world.write("src/main.rs", "fn main() {}\n");
    std::fs::write(world.project.outside().join("secret"), "of another folder").unwrap();
    world.save("one");
    world
}

/// Waits until something holds that has to.
fn until(what: &str, holds: impl Fn() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn no_path_leads_out_of_a_checkpoint() {
    let world = world();
    let server = Server::start(&world);
    let outside = world.project.outside().display().to_string().replace('/', "%2f");
    let absolute = format!("{outside}%2fsecret");
    let long = format!("{}x", "a%2f".repeat(10_000));
    let deep = "d/".repeat(2_000);
    let tricks = [
        "../secret",
        "..%2fsecret",
        "%2e%2e%2fsecret",
        "%2e%2e/secret",
        "src/..%2f..%2fsecret",
        "src%2f..%2fmain.rs",
        "..%5csecret",
        "%252e%252e%252fsecret",
        "src%2fmain.rs%00",
        "%00",
        "src//main.rs",
        ".",
        "%2e",
        "src/",
        "~",
        "%ff%fe",
        "%",
        "%zz",
        ".rappel",
        ".git%2fconfig",
        &absolute,
        &long,
        &deep,
    ];
    for trick in tricks {
        for route in [
            "/api/checkpoints/latest/files/",
            "/api/checkpoints/latest/tree?path=",
            "/api/log/",
            "/api/diff?path=",
            "/api/checkpoints/latest/restore?path=",
            "/api/checkpoints/",
            "/api/sessions/",
            "/api/jobs/",
            "/web/",
            "/",
        ] {
            let answer = server.send(&format!("GET {route}{trick}"), &[], None);
            let text = String::from_utf8_lossy(&answer.body).into_owned();
            let shown = &trick[..trick.len().min(60)];
            assert!(!text.contains("of another folder"), "{route}{shown}");
            assert!(!text.contains("root:"), "{route}{shown}");
            assert!(answer.status != 0 && answer.status < 500, "{route}{shown}: {text}");
            assert!(!text.contains("panicked"), "{route}{shown}: {text}");
        }
        // The route that reads files finds none of them.
        let line = format!("GET /api/checkpoints/latest/files/{trick}");
        let status = server.send(&line, &[], None).status;
        assert!((400..500).contains(&status), "{line:.80}: {status}");
    }
    assert_eq!(server.get("/api/checkpoints/latest/files/src%2fmain.rs").status, 200);
}

#[test]
fn paths_in_a_body_do_not_lead_out_either() {
    let world = world();
    let server = Server::start(&world);
    for path in ["../secret", "/etc/passwd", "src/../../secret", "a\0b", "", ".", "src//main.rs"] {
        let body = json!({"paths": [path]});
        let answer = server.post("/api/checkpoints/latest/restore", &body);
        assert_eq!(answer.status, 400, "{path:?}: {}", String::from_utf8_lossy(&answer.body));
    }
    for to in ["relative", "../there", ""] {
        let answer = server.post("/api/checkpoints/latest/restore", &json!({"to": to}));
        assert_eq!(answer.status, 400, "{to:?}");
    }
    // A folder with something in it is not written to.
    let full = world.project.root().display().to_string();
    let job = server.job("/api/checkpoints/latest/restore", &json!({"to": full}));
    assert_eq!(job["state"], "failed", "{job}");
    for path in ["relative", "../x"] {
        assert_eq!(server.post("/api/import", &json!({"path": path})).status, 400, "{path}");
    }
    let job = server.job("/api/import", &json!({"path": "/nonexistent/x"}));
    assert_eq!(job["state"], "failed", "{job}");
}

#[test]
fn bodies_that_are_too_deep_too_long_or_a_lie_are_refused() {
    let world = world();
    let server = Server::start(&world);
    let line = "POST /api/checkpoints";
    for deep in [
        format!("{{\"metadata\": {{\"a\": {}1{}}}}}", "[".repeat(40), "]".repeat(40)),
        "{\"a\":".repeat(100_000),
        "[".repeat(500_000),
        format!("{{\"message\": \"{}", "\\".repeat(200_000)),
    ] {
        assert_eq!(server.send(line, &[], Some(&deep)).status, 400);
    }
    // Depth within a text is no depth.
    let body = json!({"message": "[".repeat(1_000)});
    assert_eq!(server.post("/api/checkpoints", &body).status, 201);

    // Without a length said before, the limit holds all the same.
    let mut stream = server.connect();
    let head = "POST /api/checkpoints HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\
                Connection: close\r\n\r\n";
    stream.write_all(head.as_bytes()).unwrap();
    let piece = format!("{:x}\r\n{}\r\n", 1 << 16, " ".repeat(1 << 16));
    for _ in 0..40 {
        // The server may hang up as soon as it has seen enough.
        if stream.write_all(piece.as_bytes()).is_err() {
            break;
        }
    }
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    let said = String::from_utf8_lossy(&bytes).into_owned();
    assert!(said.is_empty() || said.starts_with("HTTP/1.1 413"), "{said:.200}");

    let refused = [
        // Two lengths: one of them is a lie.
        "Content-Length: 2\r\nContent-Length: 30\r\n",
        "Content-Length: -1\r\n",
        "Content-Length: 99999999999999999999999\r\n",
    ];
    for lie in refused {
        let request =
            format!("{line} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{lie}\r\n{{}}");
        assert_eq!(server.send_raw(request.as_bytes()).status, 400, "{lie}");
    }
    let long = format!("X-Long: {}", "x".repeat(1 << 20));
    assert!(matches!(server.send("GET /api/status", &[&long], None).status, 0 | 400..=499));
    let many: Vec<String> = (0..5_000).map(|n| format!("X-{n}: 1")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    assert!(matches!(server.send("GET /api/status", &many, None).status, 0 | 400..=499));
    assert!(matches!(server.send_raw(b"\x16\x03\x01 not http\r\n\r\n").status, 0 | 400));
    assert_eq!(server.get("/api/status").status, 200, "it goes on");
}

#[test]
fn wrong_tokens_of_every_kind_are_refused() {
    if !rustix::process::geteuid().is_root() {
        rappel_testing::cannot_run("only root can become another user");
        return;
    }
    let world = world();
    let server = Server::start(&world);
    let token = std::fs::read_to_string(world.home.join("token")).unwrap().trim().to_owned();
    let ask = |headers: &str, line: &str| {
        let script = format!(
            "import encodings.idna,os,socket; os.setgid(65534); os.setuid(65534); \
             h,p='{}'.split(':'); s=socket.create_connection((h,int(p))); \
             s.sendall('{line} HTTP/1.1\\r\\nHost: localhost\\r\\nConnection: close\\r\\n{headers}\\r\\n'.encode()); \
             print(s.recv(12).decode())",
            server.address
        );
        let output = std::process::Command::new("python3").args(["-c", &script]).output().unwrap();
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    };
    let almost = &token[..token.len() - 1];
    for shown in [
        "Authorization: \\r\\n".to_owned(),
        "Authorization: Bearer\\r\\n".into(),
        "Authorization: Bearer \\r\\n".into(),
        format!("Authorization: {token}\\r\\n"),
        format!("Authorization: Basic {token}\\r\\n"),
        format!("Authorization: Bearer {almost}\\r\\n"),
        format!("Authorization: Bearer {token}0\\r\\n"),
        format!("Authorization: Bearer {almost}g\\r\\n"),
        format!("X-Token: {token}\\r\\n"),
        format!("Cookie: token={token}\\r\\n"),
    ] {
        assert_eq!(ask(&shown, "GET /api/status"), "HTTP/1.1 401", "{shown}");
        assert_eq!(ask(&shown, "POST /api/checkpoints"), "HTTP/1.1 401", "{shown}");
    }
    assert_eq!(ask("", &format!("GET /api/status?token={token}")), "HTTP/1.1 401");
    assert_eq!(ask("", "GET /api/events"), "HTTP/1.1 401");
    let right = format!("Authorization: Bearer {token}\\r\\n");
    assert_eq!(ask(&right, "GET /api/status"), "HTTP/1.1 200");
    // The right token does not make another site's page ours.
    let foreign = format!("{right}Origin: http://evil.example\\r\\n");
    assert_eq!(ask(&foreign, "GET /api/status"), "HTTP/1.1 403");
}

/// A workspace whose restore stops in one of its commands until `release` is written to.
fn with_commands(world: &World) {
    let fifo = world.project.outside().join("fifo");
    let made = std::process::Command::new("mkfifo").arg(&fifo).status().unwrap();
    assert!(made.success());
    let outside = world.project.outside().display();
    let command = |name: &str, capture: &str, restore: &str| {
        format!(
            "[[command]]\nname = \"{name}\"\ncapture = [\"sh\", \"-c\", \"{capture}\"]\n\
             restore = [\"sh\", \"-c\", \"{restore}\"]\n"
        )
    };
    let state = format!("cat {outside}/state");
    let first = command("a", &state, "cat > /dev/null");
    let second = command(
        "b",
        &format!(
            "if [ -e {outside}/hold-capture ]; then touch {outside}/begun; cat {outside}/fifo; fi; {state}"
        ),
        &format!(
            "cat > /dev/null; if [ -e {outside}/hold-restore ]; then touch {outside}/begun; cat {outside}/fifo; fi"
        ),
    );
    world.write("rappel.toml", &format!("{first}{second}"));
    std::fs::write(world.project.outside().join("state"), "1").unwrap();
    world.trust();
}

#[test]
fn a_job_can_be_cancelled_while_it_prepares_and_leaves_nothing() {
    let world = World::new();
    world.write("a", "1");
    with_commands(&world);
    let first = world.save("one");
    world.write("a", "2");
    std::fs::write(world.project.outside().join("state"), "2").unwrap();
    let server = Server::start(&world);
    let route = format!("/api/checkpoints/{first}/restore");
    let plan = server.json(&route)["plan"].clone();
    std::fs::write(world.project.outside().join("hold-capture"), "").unwrap();
    let begun = server.post(&route, &json!({"plan": plan}));
    assert_eq!(begun.status, 202);
    let id = begun.json()["id"].as_str().unwrap().to_owned();
    until("the command runs", || world.project.outside().join("begun").exists());
    assert_eq!(server.json(&format!("/api/jobs/{id}"))["state"], "running");
    let asked = server.send(&format!("DELETE /api/jobs/{id}"), &[], None);
    assert_eq!((asked.status, &asked.json()["state"]), (202, &json!("cancelling")));
    let ended = server.end_of(&id);
    assert_eq!(ended["state"], "cancelled", "{ended}");
    assert_eq!(world.read("a"), "2");
    assert_eq!(server.json("/api/recover")["restores"], json!([]));

    // It has ended: there is nothing to cancel, and it is still told of.
    let late = server.send(&format!("DELETE /api/jobs/{id}"), &[], None);
    assert_eq!((late.status, &late.json()["error"]["kind"]), (409, &json!("conflict")));
    assert_eq!(server.json("/api/jobs")[0]["id"], id.as_str());
    assert_eq!(server.send("DELETE /api/jobs/job_999", &[], None).status, 404);
}

#[test]
fn a_restore_whose_first_database_is_back_cannot_be_cancelled() {
    let world = World::new();
    world.write("a", "1");
    with_commands(&world);
    let first = world.save("one");
    world.write("a", "2");
    std::fs::write(world.project.outside().join("state"), "2").unwrap();
    let server = Server::start(&world);
    let route = format!("/api/checkpoints/{first}/restore");
    let body = json!({"only": ["files", "databases"]});
    let plan = server.post(&route, &body).json()["plan"].clone();
    std::fs::write(world.project.outside().join("hold-restore"), "").unwrap();
    let begun = server.post(&route, &json!({"plan": plan, "only": ["files", "databases"]}));
    assert_eq!(begun.status, 202);
    let id = begun.json()["id"].as_str().unwrap().to_owned();
    until("the command runs", || world.project.outside().join("begun").exists());
    let asked = server.send(&format!("DELETE /api/jobs/{id}"), &[], None);
    assert_eq!(asked.status, 409, "{}", String::from_utf8_lossy(&asked.body));
    assert!(asked.json()["error"]["hint"].as_str().unwrap().contains("/api/undo"));
    assert_eq!(server.json(&format!("/api/jobs/{id}"))["state"], "running");
    std::fs::remove_file(world.project.outside().join("hold-restore")).unwrap();
    std::fs::write(world.project.outside().join("fifo"), "go on").unwrap();
    let ended = server.end_of(&id);
    assert_eq!(ended["state"], "done", "{ended}");
    assert_eq!(world.read("a"), "1");
}

#[test]
fn jobs_end_with_the_server_and_are_not_told_of_after() {
    let world = world();
    let server = Server::start(&world);
    let job = server.job("/api/verify", &json!({}));
    let id = job["id"].as_str().unwrap().to_owned();
    assert_eq!(job["state"], "done", "{job}");
    assert_eq!(server.stop(), 0);
    let server = Server::start(&world);
    assert_eq!(server.get(&format!("/api/jobs/{id}")).status, 404);
    assert_eq!(server.json("/api/jobs"), json!([]));
}

#[test]
fn idle_streams_leave_when_their_clients_do() {
    let world = world();
    let server = Server::start(&world);
    let open = || {
        let folder = format!("/proc/{}/fd", server.pid());
        std::fs::read_dir(folder).unwrap().count()
    };
    drop(server.events(None));
    until("the first stream is gone", || open() < 60);
    let before = open();
    let idle: Vec<_> = (0..500).map(|_| server.events(None)).collect();
    // The first stream may have been counted before, and left since.
    assert!(open() >= before + 490);
    assert_eq!(server.get("/api/status").status, 200);
    drop(idle);
    // The server learns of it with the next event.
    let mut number = 0;
    let deadline = Instant::now() + Duration::from_secs(60);
    while open() > before + 20 && Instant::now() < deadline {
        number += 1;
        world.write("src/main.rs", &format!("{number}"));
        world.save(&format!("save {number}"));
    }
    assert!(open() <= before + 20, "{before} to {}", open());
}
