//! `rappel integrate AGENT --mcp`: Rappel's server among the user's, in files that the user wrote.
//! What Rappel did not write stays, byte for byte. What cannot be edited is refused before anything
//! is written.

#![allow(clippy::unwrap_used, reason = "tests may")]

mod support;

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use support::agent::{Agent, SESSION};
use support::scene::Scene;

const CONFIG: &str = ".codex/config.toml";
const GEMINI: &str = ".gemini/settings.json";
const OPENCODE: &str = ".config/opencode/opencode.jsonc";

fn put(scene: &Scene, path: &str, text: &str) {
    let path = scene.user().join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn user_file(scene: &Scene, path: &str) -> String {
    fs::read_to_string(scene.user().join(path)).unwrap()
}

/// A scene in which one of the user's own files has this text.
fn scene(path: &str, text: &str) -> Scene {
    let scene = Scene::new();
    put(&scene, path, text);
    scene
}

fn integrate(scene: &Scene, agent: &str, more: &[&str]) -> Value {
    scene.json(&[&["integrate", agent, "--user"], more].concat())
}

/// The program stands elsewhere now, as after an update.
fn move_program(scene: &mut Scene) {
    let folder = scene.world.project.outside().join("moved");
    fs::create_dir(&folder).unwrap();
    let program = folder.join("rappel");
    fs::rename(&scene.program, &program).unwrap();
    scene.program = program;
}

fn pipe(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

#[test]
fn what_looks_like_our_table_in_a_text_of_codexs_settings_stays() {
    for text in [
        "notes = \"\"\"\n[mcp_servers.rappel]\nprecious 1\nprecious 2\n[x]\n\"\"\"\n",
        "notes = \"\"\"\n[mcp_servers.rappel]\n\"\"\"",
        "notes = '''\r\n[mcp_servers.rappel]\r\n'''\r\n[a]\r\nb = 1\r\n",
        "",
        "\n",
    ] {
        let scene = scene(CONFIG, text);
        integrate(&scene, "codex", &["--mcp"]);
        let with = user_file(&scene, CONFIG);
        assert!(with.starts_with(text) && with.len() > text.len(), "{with}");
        if text.contains("\r\n") {
            assert!(!with.replace("\r\n", "").contains('\n'), "{with:?}");
        }
        // With what the user adds since, the removal has to find the table by itself.
        put(&scene, CONFIG, &format!("{with}\n# mine\n[tui]\na = 1\n"));
        integrate(&scene, "codex", &["--remove"]);
        let rest = user_file(&scene, CONFIG);
        assert!(rest.starts_with(text) && rest.ends_with("\n# mine\n[tui]\na = 1\n"), "{rest}");
        assert_eq!(rest.matches("[mcp_servers").count(), text.matches("[mcp_servers").count());

        put(&scene, CONFIG, text);
        integrate(&scene, "codex", &["--mcp"]);
        integrate(&scene, "codex", &["--remove"]);
        assert_eq!(user_file(&scene, CONFIG), text);
    }
}

#[test]
fn comments_and_tables_below_ours_stay() {
    let scene = scene(CONFIG, "model=\"x\"\n");
    integrate(&scene, "codex", &["--mcp"]);
    let with = user_file(&scene, CONFIG);
    let added = "\n# my colours: do not lose this comment\n# second line\n[tui]\na=1\n";
    put(&scene, CONFIG, &format!("{with}{added}"));
    // What Codex itself adds to our server goes with it.
    let more = "[mcp_servers.rappel.tools.save]\napproval_mode = \"approve\"\n";
    put(&scene, CONFIG, &format!("{with}{added}{more}"));
    integrate(&scene, "codex", &["--mcp"]);
    assert_eq!(user_file(&scene, CONFIG), format!("{with}{added}{more}"));
    integrate(&scene, "codex", &["--remove"]);
    assert_eq!(user_file(&scene, CONFIG), format!("model=\"x\"\n{added}"));
}

#[test]
fn a_server_of_the_users_that_is_called_rappel_stays_in_every_form() {
    let entry = json!({"command": "rappel", "args": ["mcp"], "trust": true, "env": {"A": "1"}});
    let gemini = json!({"mcpServers": {"rappel": entry}}).to_string();
    let plain = "{\"mcpServers\":{\"rappel\":{\"command\":\"rappel\",\"args\":[\"mcp\"]}}}";
    let opencode = "{\"mcp\": {\n  // mine\n  \"rappel\": {\"type\": \"local\", /* why */ \"command\": \
        [\"rappel\", \"mcp\"], \"enabled\": false, \"environment\": {\"A\": \"1\"}},\n}}\n";
    for (agent, file, text) in [
        ("gemini", GEMINI, &*gemini),
        ("gemini", GEMINI, plain),
        ("opencode", OPENCODE, opencode),
        (
            "codex",
            CONFIG,
            "[mcp_servers.rappel]\ncommand = \"rappel\"\nargs = [\"mcp\"]\nstartup_timeout_sec = 9\n",
        ),
        ("codex", CONFIG, "[mcp_servers.\"rappel\"]\ncommand = \"rappel\"\nargs = [\"mcp\"]\n"),
        ("codex", CONFIG, "[ mcp_servers . rappel ]\ncommand = \"mine\"\n"),
        (
            "codex",
            CONFIG,
            "mcp_servers.rappel.command = \"rappel\"\nmcp_servers.rappel.args = [\"mcp\"]\n",
        ),
        ("codex", CONFIG, "mcp_servers = { rappel = { command = \"rappel\" } }\n"),
    ] {
        let scene = scene(file, text);
        let before = scene.everything();
        // Rappel was never here.
        assert_eq!(integrate(&scene, agent, &["--remove"])["changed"], false, "{text}");
        assert_eq!(scene.everything(), before, "{text}");
        for mcp in [&[][..], &["--mcp"]] {
            let answer = integrate(&scene, agent, mcp);
            let after = user_file(&scene, file);
            if agent == "gemini" {
                let found: Value = serde_json::from_str(&after).unwrap();
                let given: Value = serde_json::from_str(text).unwrap();
                assert_eq!(found["mcpServers"], given["mcpServers"]);
            } else {
                assert_eq!(after, text);
            }
            let is_kept = answer["kept"].to_string().contains(file);
            let is_told = answer["notes"].to_string().contains("MCP server `rappel` of yours");
            assert_eq!((is_kept, is_told), (!mcp.is_empty(), !mcp.is_empty()), "{answer}");
        }
        integrate(&scene, agent, &["--remove"]);
        assert_eq!(scene.everything(), before, "{text}");
    }
}

#[test]
fn codex_keeps_no_servers_beside_its_hooks() {
    let text = "{\"mcpServers\":{\"rappel\":{\"command\":\"rappel\",\"args\":[\"mcp\"]}}}";
    let scene = scene(".codex/hooks.json", text);
    let before = scene.everything();
    integrate(&scene, "codex", &["--remove"]);
    assert_eq!(scene.everything(), before);
    integrate(&scene, "codex", &["--mcp"]);
    put(&scene, ".codex/hooks.json", &format!("{}\n", user_file(&scene, ".codex/hooks.json")));
    integrate(&scene, "codex", &["--remove"]);
    assert_eq!(user_file(&scene, ".codex/hooks.json").trim_end(), text);
}

#[test]
fn what_the_user_adds_to_our_server_stays_as_long_as_the_server() {
    let mut scene = Scene::new();
    let before = scene.everything();
    for agent in ["codex", "gemini", "opencode"] {
        integrate(&scene, agent, &["--mcp"]);
    }
    let with = user_file(&scene, CONFIG);
    put(&scene, CONFIG, &with.replace("args =", "# mine\nstartup_timeout_sec = 9\nargs ="));
    let with = user_file(&scene, GEMINI);
    put(&scene, GEMINI, &with.replace("\"args\":", "\"trust\": true, \"args\":"));
    let opencode = OPENCODE.trim_end_matches('c');
    let with = user_file(&scene, opencode);
    let mine = "\"rappel\": { // mine\n      \"enabled\": false,";
    put(&scene, opencode, &with.replace("\"rappel\": {", mine));
    let edited = scene.everything();
    for (agent, flags) in [("codex", &["--mcp"][..]), ("gemini", &[]), ("opencode", &["--mcp"])] {
        assert_eq!(integrate(&scene, agent, flags)["changed"], false, "{agent}");
        assert_eq!(scene.everything(), edited, "{agent}");
    }
    let old = scene.program.to_str().unwrap().to_owned();
    move_program(&mut scene);
    for agent in ["codex", "gemini", "opencode"] {
        assert_eq!(integrate(&scene, agent, &["--mcp"])["changed"], true, "{agent}");
    }
    let program = scene.program.to_str().unwrap();
    for (file, mine) in [
        (CONFIG, "startup_timeout_sec = 9"),
        (CONFIG, "# mine"),
        (GEMINI, "\"trust\": true"),
        (opencode, mine),
    ] {
        let text = user_file(&scene, file);
        assert!(text.contains(mine) && text.contains(program) && !text.contains(&old), "{text}");
    }
    for agent in ["codex", "gemini", "opencode"] {
        let answer = integrate(&scene, agent, &["--remove"]);
        assert_eq!(answer["kept"], json!([]), "{answer}");
    }
    assert_eq!(user_file(&scene, CONFIG), "# mine\n");
    let left: Value = serde_json::from_str(&user_file(&scene, opencode)).unwrap();
    assert_eq!(left["mcp"], json!({}));
    let gone = scene.everything().into_keys().filter(|path| !before.contains_key(path));
    let left: Vec<_> = gone.filter(|path| path.is_file()).collect();
    assert_eq!(left, [scene.user().join(CONFIG), scene.user().join(opencode)]);
}

#[test]
fn a_server_of_ours_that_the_user_changed_is_the_users() {
    let scene = Scene::new();
    for (agent, file) in [("codex", CONFIG), ("gemini", GEMINI)] {
        integrate(&scene, agent, &["--mcp"]);
        let with = user_file(&scene, file);
        put(&scene, file, &with.replace("\"mcp\"", "\"mcp\", \"--verbose\""));
        let answer = integrate(&scene, agent, &["--remove"]);
        assert!(answer["kept"].to_string().contains(file), "{answer}");
        let left = user_file(&scene, file);
        assert!(left.contains("--verbose") && !left.contains("hook"), "{left}");
        // From now on it is nobody else's.
        assert_eq!(integrate(&scene, agent, &["--remove"])["changed"], false);
        assert_eq!(user_file(&scene, file), left);
    }
}

#[test]
fn a_file_that_cannot_be_edited_is_told_before_anything_is_written() {
    for (agent, file, text, saying) in [
        ("codex", CONFIG, "mcp_servers = {}\n", "line 1: \"mcp_servers\" is written in braces"),
        ("codex", CONFIG, "a = \n", "line 1"),
        ("opencode", OPENCODE, "[]\n", "line 1"),
        ("gemini", GEMINI, "{\n\"mcpServers\": []}\n", "line 2"),
        ("gemini", ".gemini/skills", "", "cannot create"),
        ("claude", ".claude.json", "[]", "line 1"),
    ] {
        let scene = scene(file, text);
        let before = scene.everything();
        let arguments = ["integrate", agent, "--user", "--mcp"];
        scene.refused(&arguments, saying);
        assert_eq!(scene.everything(), before, "{agent} {text:?}");
    }
    // One of our own files that is no text.
    let scene = Scene::new();
    let skill = scene.user().join(".codex/skills/rappel/SKILL.md");
    fs::create_dir_all(skill.parent().unwrap()).unwrap();
    fs::write(&skill, b"\xff").unwrap();
    let before = scene.everything();
    scene.refused(&["integrate", "codex", "--user"], "is no text in UTF-8");
    assert_eq!(scene.everything(), before);
}

#[test]
fn a_removal_passes_over_a_spoilt_file_that_rappel_never_wrote() {
    for (agent, file, text) in
        [("codex", CONFIG, "a = \n"), ("opencode", OPENCODE, "["), ("claude", ".claude.json", "[")]
    {
        let scene = scene(file, text);
        let before = scene.everything();
        integrate(&scene, agent, &[]);
        integrate(&scene, agent, &["--remove"]);
        assert_eq!(scene.everything(), before, "{agent}");
    }
    // In a file that Rappel wrote, the server is left and told; the hint says what is true.
    let scene = Scene::new();
    integrate(&scene, "codex", &["--mcp"]);
    let with = user_file(&scene, CONFIG);
    put(&scene, CONFIG, &format!("{with}a = \n"));
    scene.refused(&["integrate", "codex", "--user", "--remove"], "mend the file, which was not");
    assert_eq!(user_file(&scene, CONFIG), format!("{with}a = \n"));
    put(&scene, CONFIG, &with);
    integrate(&scene, "codex", &["--remove"]);
    assert!(!scene.user().join(".codex").exists());
}

#[test]
fn folders_are_recorded_before_they_are_made() {
    for agent in ["codex", "gemini", "opencode"] {
        let scene = Scene::new();
        let records = scene.world.home.join("integrations");
        integrate(&scene, agent, &[]);
        let entries = fs::read_dir(&records).unwrap().map(|entry| entry.unwrap().path());
        let record = entries.filter(|path| path.extension().is_some()).collect::<Vec<_>>();
        integrate(&scene, agent, &["--remove"]);
        let before = scene.everything();
        // Nothing can be recorded.
        fs::create_dir(&record[0]).unwrap();
        scene.refused(&["integrate", agent, "--user"], "it is not a file");
        assert_eq!(scene.everything(), before, "{agent}");
    }
}

#[test]
fn a_pipe_is_not_waited_for() {
    let agent = Agent::called("codex");
    let rollout = agent.world.project.outside().join("rollout.jsonl");
    pipe(&rollout);
    let call = json!({
        "tool_name": "Bash", "tool_use_id": "call_1", "tool_input": {"command": "ls"},
        "tool_response": "a.txt", "transcript_path": rollout.to_str().unwrap(),
    });
    agent.tell(&agent.payload("PostToolUse", call));
    let state = agent.state(&format!("codex:{SESSION}"));
    assert_eq!(state["command_history"][0]["exit_code"], Value::Null);

    // Nor is one that has the name of a file that was being written.
    let scene = Scene::new();
    let litter = scene.path(".codex/.hooks.json.0123456789abcdef.tmp");
    fs::create_dir(scene.path(".codex")).unwrap();
    pipe(&litter);
    scene.json(&["integrate", "codex"]);
    assert!(litter.exists());
}
