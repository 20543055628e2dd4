//! The lines of `curl` that the page of the API shows, against a real server: each is answered, and
//! with the keys that the page shows.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may")]

#[allow(dead_code, reason = "this file uses some of it")]
#[path = "support/http.rs"]
mod http;
mod support;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use http::Server;
use rappel_testing::git::git;
use serde_json::Value;
use support::World;

/// The lines with `curl`, and what the page shows below each.
fn lines(page: &str) -> Vec<(String, String)> {
    let mut found: Vec<(String, String)> = Vec::new();
    for block in page.split("```console\n").skip(1) {
        let mut is_curl = false;
        for line in block.split("```").next().unwrap().lines() {
            match line.strip_prefix("$ ") {
                Some(typed) => {
                    is_curl = typed.starts_with("curl ");
                    found.extend(is_curl.then(|| (typed.to_owned(), String::new())));
                }
                None if is_curl => found.last_mut().unwrap().1.push_str(line),
                None => {}
            }
        }
    }
    found
}

/// The keys of the object that the page shows, or of the first one of an array, without those of
/// objects inside.
fn shown_keys(shown: &str) -> Vec<String> {
    let (mut keys, mut depth) = (Vec::new(), 0);
    let parts: Vec<&str> = shown.split('"').collect();
    for (place, part) in parts.iter().enumerate() {
        if place % 2 == 0 {
            let count = |brackets: [char; 2]| part.matches(brackets).count();
            depth += count(['{', '[']);
            depth -= count(['}', ']']);
        } else if parts.get(place + 1).is_some_and(|next| next.starts_with(':')) && depth <= 2 {
            keys.push(((*part).to_owned(), depth));
        }
    }
    let outermost = keys.iter().map(|(_, depth)| *depth).min().unwrap_or_default();
    keys.retain(|(_, depth)| *depth == outermost);
    keys.into_iter().map(|(key, _)| key).collect()
}

/// A value that a later line uses is written in capitals: `"plan": "PLAN"`.
fn remember(shown: &str, answer: &Value, known: &mut BTreeMap<String, String>) {
    for (key, value) in answer.as_object().into_iter().flatten() {
        let name = shown.split(&format!("\"{key}\": \"")).nth(1).and_then(|s| s.split('"').next());
        let is_name =
            |name: &&str| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_uppercase());
        if let (Some(name), Some(value)) = (name.filter(is_name), value.as_str()) {
            known.insert(name.to_owned(), value.to_owned());
        }
    }
}

#[test]
fn every_line_of_the_page_is_answered_as_it_shows() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/api.md");
    let page = std::fs::read_to_string(path).unwrap();
    let world = World::new();
    git(world.project.root(), &["init", "-q", "-b", "main"]);
    world.write("src/main.rs", "fn main() {}\n");
    git(world.project.root(), &["add", "."]);
    git(world.project.root(), &["commit", "-qm", "one"]);
    world.save("the first");
    world.write("src/new.rs", "// not saved yet\n");
    let server = Server::start(&world);
    let port = server.address.split(':').nth(1).unwrap();
    let mut known = BTreeMap::<String, String>::new();
    let lines = lines(&page);
    assert!(lines.len() > 20, "only {} lines were found", lines.len());
    for (line, shown) in &lines {
        let mut typed = line.replace("57374", port);
        for (name, value) in &known {
            typed = typed.replace(name.as_str(), value);
        }
        let is_stream = line.contains("/api/events");
        let quiet = format!("{typed} -sS -o answer -w '%{{http_code}}'");
        let mut shell = Command::new("sh");
        shell.current_dir(world.project.outside()).args(["-c", &quiet]);
        let output = shell.output().unwrap();
        let status = String::from_utf8_lossy(&output.stdout).into_owned();
        let bytes = std::fs::read(world.project.outside().join("answer")).unwrap();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let is_fine = if shown.contains("\"error\"") {
            status.starts_with('4')
        } else {
            status.starts_with('2')
        };
        assert!(is_fine, "{line}: {status} {text}");
        assert!(is_stream || output.status.success(), "{line}: {output:?}");
        if is_stream {
            assert!(text.contains("event: checkpoint\n"), "{text}");
        } else if shown.starts_with(['{', '[']) {
            let answer: Value = serde_json::from_str(&text).unwrap();
            let first = if shown.starts_with('[') { &answer[0] } else { &answer };
            for key in shown_keys(shown) {
                assert!(first.get(&key).is_some(), "{line}: no {key} in {text}");
            }
            remember(shown, &answer, &mut known);
            // The next lines are about what a job has done.
            if let Some(job) = answer["id"].as_str().filter(|id| id.starts_with("job_")) {
                let ended = server.end_of(job);
                assert_eq!(ended["state"], "done", "{line}: {ended}");
            }
        } else {
            assert_eq!(text.trim_end(), shown.trim_end(), "{line}");
        }
    }
}
