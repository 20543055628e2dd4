//! `rappel checkpoint …` in a folder where Loki Mode works: the tool's layout is written too, and the commands print
//! what it prints. The reader of the layout here knows nothing but the tool's rules.

#![allow(clippy::unwrap_used, reason = "tests may")]

mod support;

use std::path::PathBuf;

use rappel_testing::git::{git, text};
use serde_json::Value;
use support::World;

fn world() -> World {
    let world = World::new();
    git(world.project.root(), &["init", "-q"]);
    git(world.project.root(), &["add", "."]);
    git(world.project.root(), &["commit", "-qm", "one"]);
    for (path, text) in [
        (".loki/session.json", "{\"step\": 1}"),
        (".loki/dashboard-state.json", "{}"),
        (".loki/queue/pending.json", "[]"),
        (".loki/queue/completed.json", "[]"),
        (".loki/memory/a.json", "{}"),
        (".loki/state/orchestrator.json", "{\"currentPhase\": \"BUILD\", \"iteration\": 12}"),
    ] {
        world.write(path, text);
    }
    world
}

/// What a command says, which must succeed.
fn must(world: &World, arguments: &[&str]) -> String {
    let done = world.run(arguments);
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{arguments:?}: {said}");
    String::from_utf8(done.stdout).unwrap()
}

fn place(world: &World) -> PathBuf {
    world.project.path(".loki/state/checkpoints")
}

fn metadata(world: &World, id: &str) -> Value {
    let path = place(world).join(id).join("metadata.json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn index(world: &World) -> Vec<Value> {
    let text = std::fs::read_to_string(place(world).join("index.jsonl")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn create_writes_the_layout_and_prints_what_the_seed_shows() {
    let world = world();
    let sha = text(world.project.root(), &["rev-parse", "HEAD"]);
    let said = must(&world, &["checkpoint", "create", "before refactor"]);
    let lines: Vec<&str> = said.lines().collect();
    let id = lines[2].strip_prefix("  Checkpoint: ").unwrap();
    assert!(id.starts_with("cp-2") && id.len() == "cp-20260212-143022".len(), "{said}");
    assert_eq!(lines[..2], ["Creating checkpoint...", ""]);
    assert_eq!(lines[3], format!("  Git SHA:    {}", &sha[..8]));
    assert_eq!(
        lines[4..6],
        ["  Message:    before refactor", "  Files:      4 state items copied"]
    );
    assert_eq!(lines[6], format!("  Location:   .loki/state/checkpoints/{id}"));
    assert!(lines[7].starts_with("  Rappel:     chk_"), "{said}");
    assert_eq!(lines[9], format!("  Restore with: rappel checkpoint rollback {id}"));

    let metadata = metadata(&world, id);
    assert_eq!(
        (&metadata["message"], &metadata["git_sha"]),
        (&"before refactor".into(), &sha.into())
    );
    assert_eq!((&metadata["phase"], &metadata["iteration"]), (&"BUILD".into(), &12.into()));
    let ours = metadata["rappel_id"].as_str().unwrap();
    assert_eq!(world.json(&["show", ours])["description"], "before refactor");
    assert_eq!(index(&world)[0]["id"], id);
    let copied = std::fs::read_to_string(place(&world).join(id).join("session.json")).unwrap();
    assert_eq!(copied, "{\"step\": 1}");

    // What we wrote there is no part of what is saved.
    let again = world.json(&["checkpoint", "create", "again"]);
    assert_eq!(again["files"]["added"], 0, "{again}");
    let location = again["loki"]["location"].as_str().unwrap();
    assert!(location.ends_with(again["loki"]["id"].as_str().unwrap()), "{again}");
    assert_eq!(again["loki"]["items"], 4);
    assert_eq!(index(&world).len(), 2);
}

#[test]
fn list_has_all_ids_together_and_show_tells_what_the_folder_says() {
    let world = world();
    for (id, metadata) in [
        (
            "cp-12-1739345422",
            r#"{"timestamp": "2025-02-12T07:30:22Z", "iteration": 12,
            "task_description": "session end (iterations=12)", "git_sha": "def5678a0011"}"#,
        ),
        (
            "chk-20250212-150105",
            r#"{"created_at": "2025-02-12T15:01:05+00:00", "message": "served",
            "git_sha": "abc1234f", "files": ["metadata.json"]}"#,
        ),
        ("cp-20250213-100000", r#"{"timestamp": "2025-02-13T10:00:00Z", "message": "by hand"}"#),
    ] {
        world.write(&format!(".loki/state/checkpoints/{id}/metadata.json"), metadata);
    }
    world.write(".loki/state/checkpoints/index.jsonl", "{\"id\": \"cp-torn\n");
    let saved = world.json(&["save", "only ours"]);
    let made = must(&world, &["cp", "create", "both"]);
    let made = made.lines().find_map(|line| line.strip_prefix("  Checkpoint: ")).unwrap();
    let output = world.run(&["cp"]);
    let said = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines[..2], ["Checkpoints", ""]);
    let squeezed = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(
        squeezed(lines[2]),
        "cp-12-1739345422 2025-02-12 07:30:22 def5678a session end (iterations=12)"
    );
    assert_eq!(squeezed(lines[3]), "chk-20250212-150105 2025-02-12 15:01:05 abc1234f served");
    assert_eq!(squeezed(lines[4]), "cp-20250213-100000 2025-02-13 10:00:00 no-git by hand");
    assert!(lines[5].contains(saved["id"].as_str().unwrap()) && lines[5].ends_with("only ours"));
    assert!(lines[6].contains(made) && lines[6].ends_with("both"), "{said}");
    assert_eq!(lines[7..], ["", "  Showing 5 of 5 checkpoints"]);
    assert!(must(&world, &["cp", "ls", "2"]).contains("Showing 2 of 5 checkpoints"));
    let shown = must(&world, &["cp", "show", "cp-12-1739345422"]);
    for line in ["Git SHA:    def5678a0011", "Iteration:  12", "Message:    session end"] {
        assert!(shown.contains(line), "{shown}");
    }
    // Ours is shown as ever by its own name, and JSON is what it was.
    assert!(must(&world, &["cp", "show", saved["id"].as_str().unwrap()]).contains("only ours"));
    assert_eq!(world.json(&["cp", "list"])["total"], 2);
    // What only that tool holds cannot be rolled back to before it is imported.
    let refused = world.run(&["cp", "rollback", "cp-12-1739345422"]);
    assert_eq!(refused.status.code(), Some(3));
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("Rappel does not hold it") && said.contains("import .loki"), "{said}");
}

#[test]
fn rollback_sets_the_state_back_by_the_tools_id_and_leaves_a_safety_checkpoint() {
    let world = world();
    let sha = text(world.project.root(), &["rev-parse", "HEAD"]);
    let made = must(&world, &["cp", "create", "then"]);
    let id = made.lines().find_map(|line| line.strip_prefix("  Checkpoint: ")).unwrap().to_owned();
    world.write(".loki/session.json", "{\"step\": 2}");
    world.write("src/main.rs", "fn main() { later }\n");
    let rolled = world.run(&["cp", "rollback", &id]);
    let said = String::from_utf8_lossy(&rolled.stderr).into_owned();
    assert!(rolled.status.success(), "{said}");
    assert_eq!(world.read(".loki/session.json"), "{\"step\": 1}");
    assert_eq!(world.read("src/main.rs"), "fn main() { later }\n", "the code is left alone");
    assert!(said.contains(&format!("git reset --hard {sha}")), "{said}");
    let safety = index(&world).pop().unwrap();
    assert_eq!(safety["task"], "pre-rollback snapshot");
    let safety = safety["id"].as_str().unwrap();
    assert!(safety.starts_with("cp-12-"), "{safety}");
    let metadata = metadata(&world, safety);
    assert_eq!(metadata["task_description"], "pre-rollback snapshot");
    assert!(place(&world).join(safety).join("state/orchestrator.json").is_file());
    // And back again.
    must(&world, &["cp", "rollback", safety]);
    assert_eq!(world.read(".loki/session.json"), "{\"step\": 2}");
}

#[test]
fn loki_dir_is_honoured_and_elsewhere_nothing_changes() {
    let world = world();
    std::fs::rename(world.project.path(".loki"), world.project.path("elsewhere")).unwrap();
    let mut command = world.command(&["cp", "create", "there"]);
    let done = command.env("LOKI_DIR", "elsewhere").output().unwrap();
    let said = String::from_utf8(done.stdout).unwrap();
    assert!(said.contains("Location:   elsewhere/state/checkpoints/cp-"), "{said}");
    assert!(said.contains("4 state items copied"), "{said}");
    let mut command = world.command(&["cp", "create", "again", "--json"]);
    let done = command.env("LOKI_DIR", "elsewhere").output().unwrap();
    let json: Value = serde_json::from_slice(&done.stdout).unwrap();
    assert_eq!(json["files"]["added"], 0, "what we write there is not captured: {json}");
    let said = must(&world, &["cp", "create", "plain"]);
    assert!(said.starts_with("Saved ") || said.starts_with("Nothing changed"), "{said}");
}
