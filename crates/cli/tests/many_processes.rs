//! Eight processes at once on one home: saving, restoring elsewhere, deleting, collecting garbage.
//!
//! Some seconds here; `RAPPEL_STRESS_SECONDS=60` for the long form.

#![allow(clippy::unwrap_used, reason = "tests may")]

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use rappel_testing::project::Snapshot;
use rappel_testing::{Project, snapshot};

fn run(root: &Path, home: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_rappel"))
        .arg("--json")
        .args(arguments)
        .current_dir(root)
        .env("RAPPEL_HOME", home)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

fn must(root: &Path, home: &Path, arguments: &[&str]) -> serde_json::Value {
    let output = run(root, home, arguments);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {errors}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// One process's life: returns what it saved and did not delete.
fn live(number: usize, home: &Path, until: Instant) -> (Project, Vec<(String, Snapshot)>) {
    let mut project = Project::new();
    for n in 0..30 {
        // Half of it is shared by all, so that they reuse each other's objects.
        let text = if n % 2 == 0 { format!("shared {n}\n") } else { format!("{number} {n}\n") };
        project = project.file(format!("d{}/f{n}", n % 4), text.repeat(n + 1));
    }
    let mut saved: Vec<(String, Snapshot)> = Vec::new();
    let mut turn = number;
    while Instant::now() < until || saved.is_empty() {
        turn += 1;
        let path = project.path(format!("d{}/f{}", turn % 4, turn % 30));
        std::fs::write(path, format!("{turn}")).unwrap();
        match turn % 8 {
            3 if saved.len() > 2 => {
                let (id, expected) = &saved[turn % saved.len()];
                let out = project.outside().join(format!("out{turn}"));
                must(project.root(), home, &["restore", id, "--to", out.to_str().unwrap()]);
                assert_eq!(&snapshot(&out), expected);
            }
            5 if saved.len() > 3 => {
                let (id, _) = saved.remove(turn % saved.len());
                let mut arguments = vec!["delete", &id, "--confirm"];
                arguments.extend((turn % 16 < 8).then_some("--now"));
                must(project.root(), home, &arguments);
            }
            6 => {
                // One gc at a time: a second one is told so and leaves.
                let code = run(project.root(), home, &["gc", "--now", "-y"]).status.code();
                assert!(matches!(code, Some(0 | 5)), "gc: exit {code:?}");
            }
            _ => {
                let state = snapshot(project.root());
                let answer = must(project.root(), home, &["save", &format!("turn {turn}")]);
                saved.push((answer["id"].as_str().unwrap().to_owned(), state));
            }
        }
    }
    (project, saved)
}

#[test]
fn eight_at_once_lose_nothing() {
    let seconds = std::env::var("RAPPEL_STRESS_SECONDS").ok();
    let seconds = seconds.and_then(|text| text.parse().ok()).unwrap_or(6);
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home");
    let until = Instant::now() + Duration::from_secs(seconds);
    let lives: Vec<_> = std::thread::scope(|scope| {
        let home = &home;
        let threads: Vec<_> =
            (0..8).map(|number| scope.spawn(move || live(number, home, until))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let output = run(lives[0].0.root(), &home, &["verify"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    for (project, saved) in &lives {
        for (number, (id, expected)) in saved.iter().enumerate() {
            let out = project.outside().join(format!("last{number}"));
            must(project.root(), &home, &["restore", id, "--to", out.to_str().unwrap()]);
            assert_eq!(&snapshot(&out), expected, "{id}");
        }
    }
}
