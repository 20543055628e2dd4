//! `rappel serve`: the API of the real binary, over real sockets.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may")]

#[path = "support/http.rs"]
mod http;
mod support;

use std::os::unix::fs::PermissionsExt;

use http::Server;
use rappel_testing::git::git;
use serde_json::{Value, json};
use support::World;

fn world() -> World {
    let world = World::new();
    git(world.project.root(), &["init", "-q", "-b", "main"]);
    world.write("src/main.rs", "fn main() {}\n");
    git(world.project.root(), &["add", "."]);
    git(world.project.root(), &["commit", "-qm", "one"]);
    world
}

fn id_of(entry: &Value) -> String {
    entry["id"].as_str().unwrap().to_owned()
}

#[test]
fn the_seeds_lines_are_answered_as_the_seed_has_them() {
    let world = world();
    let server = Server::start(&world);
    assert_eq!(server.json("/api/checkpoints"), json!([]));
    let made = server.send("POST /api/checkpoints", &[], None);
    assert_eq!(made.status, 201);
    let body = json!({"message": "before deploying to production"});
    let made = server.post("/api/checkpoints", &body);
    assert_eq!(made.status, 201);
    let made = made.json();
    assert_eq!(made["message"], "before deploying to production");
    assert_eq!(made["git_sha"].as_str().unwrap().len(), 8);
    assert!(made["created_at"].as_str().unwrap().ends_with("+00:00"));
    assert!(made["files"].as_array().unwrap().contains(&"files".into()));
    assert_eq!(made["checkpoint"]["id"], made["id"]);
    let listed = server.json("/api/checkpoints?limit=1");
    assert_eq!(listed.as_array().unwrap().len(), 1);
    assert_eq!(listed[0]["id"], made["id"]);
    let one = server.json(&format!("/api/checkpoints/{}", id_of(&made)));
    assert_eq!(one["message"], made["message"]);
    // The same thing that the command line shows.
    assert_eq!(world.json(&["show", &id_of(&made)])["id"], made["id"]);
}

#[test]
fn without_git_and_without_anything_lists_are_empty_and_say_what_to_do() {
    let world = World::new();
    let server = Server::start(&world);
    let list = server.get("/api/checkpoints");
    assert_eq!((list.status, list.json()), (200, json!([])));
    assert!(list.header("rappel-hint").unwrap().contains("POST /api/checkpoints"));
    let sessions = server.json("/api/sessions");
    assert_eq!(sessions["sessions"], json!([]));
    assert!(sessions["hint"].is_string());
    assert_eq!(server.json("/api/timeline")["checkpoints"], json!([]));
    assert_eq!(server.json("/api/status")["state"], "unprotected");
    for route in ["/api/undo", "/api/redo"] {
        let next = server.json(route);
        assert_eq!(next["step"], json!(null));
        assert!(next["hint"].as_str().unwrap().contains("nothing"), "{next}");
    }
    world.write("a", "1");
    let made = server.post("/api/checkpoints", &json!({})).json();
    assert_eq!(made["git_sha"], "");
    assert!(made["message"].is_string());
}

#[test]
fn limits_and_values_are_refused_with_a_fitting_status() {
    let world = world();
    let server = Server::start(&world);
    server.post("/api/checkpoints", &json!({}));
    for (request, status) in [
        ("GET /api/checkpoints?limit=0", 422),
        ("GET /api/checkpoints?limit=201", 422),
        ("GET /api/checkpoints?limit=abc", 400),
        ("GET /api/checkpoints?limit=-1", 400),
        ("GET /api/checkpoints/chk_20200101_000000_zzzz", 404),
        ("GET /api/checkpoints/..%2f..%2fetc%2fpasswd", 400),
        ("GET /api/checkpoints/latest/files/..%2f..%2fetc%2fpasswd", 400),
        ("GET /api/checkpoints/latest/files/%2fetc%2fpasswd", 400),
        ("GET /api/checkpoints/latest/files/src/none.rs", 404),
        ("GET /api/log/..%2fx", 400),
        ("GET /api/sessions/none", 404),
        ("GET /api/jobs/job_99", 404),
        ("GET /api/jobs/..", 404),
        ("GET /api/at", 400),
        ("GET /api/checkpoints?tags=x", 400),
        ("GET /api/checkpoints/latest/restore?paths=src", 400),
        ("POST /api/undo?workspce=elsewhere", 400),
        ("GET /api/diff?from=nothing-like-this", 404),
        ("GET /api/status?workspace=ffffffffffffffff", 404),
        ("GET /api/none", 404),
        ("PUT /api/checkpoints", 405),
    ] {
        let answer = server.send(request, &[], None);
        assert_eq!(answer.status, status, "{request}: {}", String::from_utf8_lossy(&answer.body));
        let error = &answer.json()["error"];
        assert!(error["message"].as_str().is_some_and(|text| !text.is_empty()), "{request}");
        assert!(error["kind"].is_string(), "{request}");
    }
    for body in ["{", "[]", "\"x\"", "{\"message\": 7}", "{\"mesage\": \"x\"}", &"[".repeat(9_000)]
    {
        let answer = server.send("POST /api/checkpoints", &[], Some(body));
        assert_eq!(answer.status, 400, "{body:.40}");
    }
    let long = format!("{{\"message\": \"{}\"}}", "x".repeat(2 << 20));
    assert_eq!(server.send("POST /api/checkpoints", &[], Some(&long)).status, 413);
}

#[test]
fn a_restore_is_planned_confirmed_done_and_undone() {
    let world = world();
    let server = Server::start(&world);
    let first = id_of(&server.post("/api/checkpoints", &json!({"message": "first"})).json());
    world.write("src/main.rs", "fn main() { broken }\n");
    world.write("new.txt", "new");
    let route = format!("/api/checkpoints/{first}/restore");
    let seen = server.json(&route);
    assert_eq!(seen["dry_run"], true);
    assert_eq!(seen["summary"]["files"]["overwrite"], 1);
    let planned = server.post(&route, &json!({}));
    assert_eq!((planned.status, &planned.json()["plan"]), (200, &seen["plan"]));
    assert_eq!(world.read("src/main.rs"), "fn main() { broken }\n", "a plan changes nothing");

    // What was seen is no longer what would be done.
    world.write("src/main.rs", "fn main() { other }\n");
    let stale = server.post(&route, &json!({"plan": seen["plan"]}));
    assert_eq!((stale.status, &stale.json()["error"]["kind"]), (409, &json!("conflict")));
    assert_eq!(server.post(&route, &json!({"plan": "abc"})).status, 409);
    assert_eq!(world.read("src/main.rs"), "fn main() { other }\n");

    let plan = server.post(&route, &json!({})).json()["plan"].clone();
    let job = server.job(&route, &json!({"plan": plan}));
    assert_eq!(job["state"], "done", "{job}");
    assert_eq!(job["result"]["verified"], true);
    assert_eq!(world.read("src/main.rs"), "fn main() {}\n");

    let undone = server.job("/api/undo", &json!({}));
    assert_eq!(undone["state"], "done", "{undone}");
    assert_eq!(world.read("src/main.rs"), "fn main() { other }\n");
    assert_eq!(world.read("new.txt"), "new");
    let redone = server.job("/api/redo", &json!({}));
    assert_eq!(redone["state"], "done", "{redone}");
    assert_eq!(world.read("src/main.rs"), "fn main() {}\n");
}

#[test]
fn what_is_deleted_for_good_cannot_be_brought_back() {
    let world = world();
    let server = Server::start(&world);
    let first = id_of(&server.post("/api/checkpoints", &json!({"message": "first"})).json());
    world.write("src/main.rs", "changed");
    let second = id_of(&server.post("/api/checkpoints", &json!({"message": "second"})).json());
    let undelete =
        |id: &str| server.send(&format!("POST /api/checkpoints/{id}/undelete"), &[], None).status;
    let delete = |line: String| server.send(&line, &[], None).status;
    assert_eq!(delete(format!("DELETE /api/checkpoints/{first}")), 200);
    assert_eq!(undelete(&first), 200);
    world.write("src/main.rs", "other");
    let other = id_of(&server.post("/api/checkpoints", &json!({"message": "other"})).json());
    assert_eq!(delete(format!("DELETE /api/checkpoints/{other}")), 200);
    assert_eq!(delete(format!("DELETE /api/checkpoints/{first}?now=true")), 200);
    assert_eq!(undelete(&first), 404);
    // What others deleted can still be brought back.
    assert_eq!(undelete(&other), 200);
    assert_eq!(delete(format!("DELETE /api/checkpoints/{other}?now=true")), 200);
    assert_eq!(server.json("/api/checkpoints/latest")["id"], second.as_str());
}

#[test]
fn what_belongs_into_the_body_is_not_passed_over_behind_the_address() {
    let world = world();
    let server = Server::start(&world);
    for name in ["one", "two", "three"] {
        world.write("src/main.rs", name);
        server.post("/api/checkpoints", &json!({"trigger": "pre-operation"}));
    }
    let pruned = server.send("POST /api/prune?dry_run=true&keep_last=1", &[], None);
    assert_eq!(pruned.status, 400);
    assert!(pruned.json()["error"]["message"].as_str().unwrap().contains("dry_run"));
    assert_eq!(server.json("/api/checkpoints").as_array().unwrap().len(), 3);
}

#[test]
fn what_came_of_a_job_is_told_by_the_job_and_by_no_list() {
    let world = world();
    world.save("one");
    let server = Server::start(&world);
    let job = server.job("/api/verify", &json!({}));
    assert!(job["result"].is_object(), "{job}");
    assert_eq!(server.json("/api/jobs")[0]["result"], json!(null));
    // It may be long, so only the newest ones are kept.
    for _ in 0..8 {
        server.job("/api/verify", &json!({}));
    }
    let first = server.json(&format!("/api/jobs/{}", job["id"].as_str().unwrap()));
    assert_eq!((&first["state"], &first["result"]), (&json!("done"), &json!(null)));
}

#[test]
fn listeners_are_told_when_the_workspace_is_no_longer_safe() {
    let world = world();
    world.save("one");
    let server = Server::start(&world);
    assert_eq!(server.json("/api/status")["state"], "protected");
    let mut events = server.events(None);
    assert_eq!(events.next_named("health").data["state"], "protected");
    // Nobody has allowed that this is run.
    let command = "[[command]]\nname = \"x\"\ncapture = [\"true\"]\nrestore = [\"true\"]\n";
    world.write("rappel.toml", command);
    let health = events.next_named("health").data;
    assert_eq!(health["state"], "degraded", "{health}");
}

#[test]
fn files_come_as_bytes_in_ranges_and_never_as_a_page() {
    let world = world();
    world.write("page.html", "<script>alert(1)</script>");
    let noise: Vec<u8> =
        (0..300_000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    std::fs::write(world.project.root().join("noise.bin"), &noise).unwrap();
    world.save("one");
    let server = Server::start(&world);
    let page = server.get("/api/checkpoints/latest/files/page.html");
    assert_eq!(page.body, b"<script>alert(1)</script>");
    assert_eq!(page.header("content-type").unwrap(), "text/plain; charset=utf-8");
    assert_eq!(page.header("x-content-type-options").unwrap(), "nosniff");
    let whole = server.get("/api/checkpoints/latest/files/noise.bin");
    assert_eq!(whole.body, noise);
    assert_eq!(whole.header("content-type").unwrap(), "application/octet-stream");
    let line = "GET /api/checkpoints/latest/files/noise.bin";
    for (range, from, to) in [
        ("bytes=0-9", 0, 10),
        ("bytes=100000-200000", 100_000, 200_001),
        ("bytes=299990-", 299_990, 300_000),
        ("bytes=-5", 299_995, 300_000),
    ] {
        let part = server.send(line, &[&format!("Range: {range}")], None);
        assert_eq!(part.status, 206, "{range}");
        assert_eq!(part.body, noise[from..to], "{range}");
        let expected = format!("bytes {from}-{}/300000", to - 1);
        assert_eq!(part.header("content-range").unwrap(), expected);
    }
    assert_eq!(server.send(line, &["Range: bytes=300000-"], None).status, 416);
    let tree = server.json("/api/checkpoints/latest/tree?path=src");
    assert_eq!(tree["entries"].as_array().unwrap().len(), 2, "{tree}");
}

#[test]
fn pages_of_other_sites_and_callers_without_the_token_are_refused() {
    let world = world();
    let server = Server::start(&world);
    let port = server.address.split(':').nth(1).unwrap();
    let line = "GET /api/status";
    for header in [
        "Host: evil.example".to_owned(),
        format!("Host: evil.example:{port}"),
        "Origin: http://evil.example".into(),
        "Origin: null".into(),
        "Sec-Fetch-Site: cross-site".into(),
        "Sec-Fetch-Site: same-site".into(),
    ] {
        let answer = server.send(line, &[&header], None);
        assert_eq!(answer.status, 403, "{header}");
        assert_eq!(answer.header("access-control-allow-origin"), None);
    }
    // Not even a preflight of another origin is answered kindly.
    let preflight = server.send(
        "OPTIONS /api/checkpoints",
        &["Origin: http://evil.example", "Access-Control-Request-Method: POST"],
        None,
    );
    assert_eq!(preflight.status, 403);
    let own = format!("Origin: http://{}", server.address);
    assert_eq!(server.send(line, &[&own, "Sec-Fetch-Site: same-origin"], None).status, 200);
    assert_eq!(server.send(line, &[&format!("Host: localhost:{port}")], None).status, 200);
    assert_eq!(server.send_raw(b"GET /api/status HTTP/1.0\r\n\r\n").status, 403);
}

#[test]
fn another_user_of_the_machine_needs_the_token() {
    if !rustix::process::geteuid().is_root() {
        rappel_testing::cannot_run("only root can become another user");
        return;
    }
    let world = world();
    let server = Server::start(&world);
    let ask = |headers: &str| {
        // Another user opens the connection itself: the kernel knows who that is.
        let script = format!(
            "import os,socket,sys; os.setgid(65534); os.setuid(65534); \
             h,p='{}'.split(':'); s=socket.socket(); s.connect((h,int(p))); \
             s.sendall(b'GET /api/status HTTP/1.1\\r\\nHost: localhost\\r\\nConnection: close\\r\\n{headers}\\r\\n'); \
             print(s.recv(12).decode())",
            server.address
        );
        let output = std::process::Command::new("python3").args(["-c", &script]).output().unwrap();
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    };
    assert_eq!(ask(""), "HTTP/1.1 401");
    assert_eq!(ask("Authorization: Bearer 00000000000000000000000000000000\\r\\n"), "HTTP/1.1 401");
    let path = world.home.join("token");
    let token = std::fs::read_to_string(&path).unwrap();
    assert_eq!(ask(&format!("Authorization: Bearer {}\\r\\n", token.trim())), "HTTP/1.1 200");
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn a_second_server_of_the_same_home_tells_the_first_ones_url() {
    let world = world();
    let server = Server::start(&world);
    let port = server.address.split(':').nth(1).unwrap();
    let second = world.run(&["serve", "--port", port]);
    assert!(second.status.success());
    let url = String::from_utf8_lossy(&second.stdout).into_owned();
    assert_eq!(url.lines().next(), Some(&*format!("http://{}", server.address)));

    let other = World::new();
    let refused = other.run(&["serve", "--port", port]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("another home"));

    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let refused = world.run(&["serve", "--port", &port]);
    assert_eq!(refused.status.code(), Some(1));
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains(&format!("process {}", std::process::id())), "{said}");
}

#[test]
fn events_of_any_process_arrive_in_order_and_survive_a_restart_of_the_server() {
    let world = world();
    world.save("zero");
    let server = Server::start(&world);
    let mut events = server.events(None);
    let first = world.save("one");
    let told = events.next_named("checkpoint");
    assert_eq!(told.data["checkpoint"], first.as_str(), "{told:?}");
    assert_eq!(told.data["also"], "agent.checkpoint");
    let position = told.id.unwrap();
    assert_eq!(server.stop(), 0);
    assert_eq!(events.next().map(|event| event.name), None, "the stream ends with the server");

    // Nobody listens now.
    world.json(&["session", "start", "--session", "s1"]);
    world.json(&["record", "thought", "it is the cache", "--session", "s1"]);
    world.json(&["record", "tool", "Bash", "--input", "{}", "--output", "{}", "--session", "s1"]);
    world.write("src/main.rs", "changed");
    let second = world.save("two");
    world.json(&["session", "end", "s1"]);

    let server = Server::start(&world);
    let mut events = server.events(Some(&position));
    let mut names = Vec::new();
    loop {
        let event = events.next().unwrap();
        if event.name == "checkpoint" && event.data["checkpoint"] == second.as_str() {
            names.push("two".to_owned());
        } else if !["checkpoint", "journal"].contains(&event.name.as_str()) {
            names.push(event.name.clone());
        }
        if event.name == "session.ended" {
            break;
        }
    }
    assert_eq!(
        names,
        ["session.started", "thought.created", "tool.finished", "two", "session.ended"]
    );
    // From the beginning, everything that ever happened here.
    let mut all = server.events(Some("0"));
    let zero = all.next_named("checkpoint");
    assert_eq!(zero.data["message"], "zero");
}

#[test]
fn slow_and_idle_clients_hold_nobody_up() {
    use std::io::Write;
    let world = world();
    world.save("one");
    let server = Server::start(&world);
    let mut idle: Vec<_> = (0..500).map(|_| server.events(None)).collect();
    // Clients that began a request and say no more.
    let mut slow: Vec<_> = (0..50).map(|_| server.connect()).collect();
    for stream in &mut slow {
        stream.write_all(b"POST /api/checkpoints HTTP/1.1\r\nHost: localhost\r\nContent-").unwrap();
    }
    assert_eq!(server.get("/api/checkpoints").status, 200);
    let made = world.save("two");
    for events in &mut idle {
        let told = events.next_named("checkpoint");
        assert_eq!(told.data["checkpoint"], made.as_str());
    }
    assert_eq!(server.get("/api/status").status, 200);
}

#[test]
fn a_session_is_replayed_as_it_stands_now() {
    let world = world();
    world.json(&["session", "start", "--session", "s"]);
    world.json(&["record", "thought", "the first one", "--session", "s"]);
    let middle = world.save("middle");
    world.json(&["record", "thought", "the second one", "--session", "s"]);
    world.write("src/main.rs", "fn main() { second }\n");
    world.json(&["session", "end", "s"]);
    world.save("end");
    let server = Server::start(&world);
    let steps = || server.json("/api/sessions/s/replay")["total"].as_u64().unwrap();
    let whole = steps();
    world.json(&["restore", &middle, "--confirm"]);
    assert!(steps() < whole, "what was taken back is not replayed");
    world.json(&["undo"]);
    assert!(steps() >= whole, "{} of {whole}", steps());
}

#[test]
fn half_a_request_does_not_hold_up_the_end_of_a_server() {
    use std::io::{Read, Write};
    let world = world();
    let log = tempfile::NamedTempFile::new().unwrap();
    let mut command = world.command(&["serve", "--port", "0"]);
    command.env("RAPPEL_LOG", "warn").stderr(log.reopen().unwrap());
    let server = Server::spawn(command);
    let head = "POST /api/checkpoints HTTP/1.1\r\nHost: localhost\r\n";
    let begun = ["Content-", "Content-Length: 20\r\nContent-Type: application/json\r\n\r\n{\"mess"];
    let mut halves = begun.map(|rest| {
        let mut stream = server.connect();
        stream.write_all(format!("{head}{rest}").as_bytes()).unwrap();
        stream
    });
    // A whole one is answered.
    assert_eq!(server.get("/api/checkpoints").status, 200);
    assert_eq!(server.stop(), 0);
    for stream in &mut halves {
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert_eq!(String::from_utf8_lossy(&answer), "");
    }
    // It did not wait for them until its patience ended.
    assert_eq!(std::fs::read_to_string(log.path()).unwrap(), "");
    assert_eq!(world.json(&["list"])["total"], 0);
}

#[test]
fn a_killed_server_hurts_nothing() {
    let world = world();
    let server = Server::start(&world);
    let made = id_of(&server.post("/api/checkpoints", &json!({"message": "one"})).json());
    let pid = rustix::process::Pid::from_raw(server.pid() as i32).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    drop(server);
    assert_eq!(world.json(&["show", "latest"])["id"], made.as_str());
    assert!(world.run(&["verify"]).status.success());
    let server = Server::start(&world);
    assert_eq!(server.json("/api/checkpoints").as_array().unwrap().len(), 1);
}
