//! `rappel integrate codex` and `gemini`: what they write, that `--remove` takes exactly that out
//! again, and what `status` says of the trust that these agents ask for.

#![allow(clippy::unwrap_used, reason = "tests may")]

mod support;

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::{Value, json};
use support::scene::Scene;

/// Every flag that says where, for both.
const AGENTS: [(&str, &str); 2] =
    [("codex", ".codex/hooks.json"), ("gemini", ".gemini/settings.json")];
const SCOPES: [&[&str]; 3] = [&[], &["--shared"], &["--user"]];

fn run(scene: &Scene, agent: &str, more: &[&str]) -> Value {
    scene.json(&[&["integrate", agent], more].concat())
}

/// What `status` says of an agent.
fn state(scene: &Scene, agent: &str) -> Value {
    let output = scene.run(&["status", "--json"]);
    let status: Value = serde_json::from_slice(&output.stdout).unwrap();
    let all = status["integrations"].as_array().unwrap();
    let found = all.iter().find(|one| one["agent"] == agent);
    found.map(|one| one["state"].clone()).unwrap_or_default()
}

#[test]
fn what_was_not_there_is_gone_again() {
    for (agent, file) in AGENTS {
        let scene = Scene::new();
        let before = scene.everything();
        for flags in SCOPES {
            for mcp in [&[][..], &["--mcp"]] {
                let answer = run(&scene, agent, &[flags, mcp].concat());
                assert_eq!(answer["changed"], true);
                assert_eq!(answer["agent"], agent);
                assert!(answer["settings"].as_str().unwrap().ends_with(file));
                let again = run(&scene, agent, &[flags, mcp].concat());
                assert_eq!(again["changed"], false, "{again}");
                let remove = [flags, &["--remove"]].concat();
                assert_eq!(run(&scene, agent, &remove)["changed"], true);
                assert_eq!(scene.everything(), before, "{agent} {flags:?} {mcp:?}");
                assert_eq!(run(&scene, agent, &remove)["changed"], false);
            }
        }
    }
}

#[test]
fn removal_gives_every_byte_back() {
    let own = "{\n  \"hooks\": {\n    \"Stop\": [\n      {\"hooks\": [{\"type\": \"command\", \"command\": \"mine\"}]}\n    ]\n  },\n  \"mcpServers\": {\"other\": {\"command\": \"x\"}}\n}\n";
    for text in ["", "{}", "{\r\n  \"a\": 1\r\n}\r\n", "\u{feff}{\"a\": 1.0}", own] {
        for (agent, file) in AGENTS {
            let scene = Scene::new();
            scene.world.write(file, text);
            scene.world.write(".codex/config.toml", "# mine\r\nmodel = \"x\"  # why\n[a]\nb=1");
            let before = scene.everything();
            run(&scene, agent, &["--mcp"]);
            assert_ne!(scene.world.read(file), text);
            run(&scene, agent, &["--remove"]);
            assert_eq!(scene.everything(), before, "{agent} {text:?}");
        }
    }
}

#[test]
fn one_file_for_both_scopes_is_the_users_or_everybodys() {
    for (agent, file) in AGENTS {
        let scene = Scene::new();
        run(&scene, agent, &[]);
        let folder = file.split('/').next().unwrap();
        let ignore = format!("{folder}/.gitignore");
        let program = scene.program.to_str().unwrap();
        assert!(scene.world.read(file).contains(program));
        assert!(scene.world.read(&ignore).contains(file.rsplit('/').next().unwrap()));
        // What everybody has names no path of this machine, and git lists it.
        run(&scene, agent, &["--shared"]);
        assert!(!scene.world.read(file).contains(program));
        assert!(scene.world.read(file).contains("--shared"));
        assert!(!scene.path(&ignore).exists());
        let skill = scene.world.read(&format!("{folder}/skills/rappel/SKILL.md"));
        assert!(!skill.contains(program));
        run(&scene, agent, &["--remove"]);
        assert!(!scene.path(folder).exists());
    }
}

#[test]
fn remove_all_takes_every_agent_out_of_every_project() {
    let scene = Scene::new();
    let other = scene.world.project.outside().join("other");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("x.txt"), "x").unwrap();
    let before = scene.everything();
    for agent in ["claude", "codex", "gemini"] {
        run(&scene, agent, &["--mcp"]);
        run(&scene, agent, &["--user"]);
        run(&scene, agent, &["--mcp", "-C", other.to_str().unwrap()]);
    }
    assert!(other.join(".codex/config.toml").exists());
    scene.json(&["integrate", "--remove", "--all"]);
    let mut after = scene.everything();
    // Claude Code's own file for the user was made by the registration, and is not a project's.
    after.retain(|path, _| !path.ends_with(".claude.json"));
    assert_eq!(after, before);
    let left: Vec<_> = fs::read_dir(&other).unwrap().map(|one| one.unwrap().file_name()).collect();
    assert_eq!(left, ["x.txt"]);
}

#[test]
fn strange_files_and_links_are_left_alone() {
    for (agent, file) in AGENTS {
        for (text, saying) in [
            ("[]", "line 1"),
            ("{\n  // mine\n  \"a\": 1\n}", "line 2"),
            ("{\n\"hooks\": null\n}", "line 2"),
            ("{\"hooks\":\n{\"SessionStart\":\n{}}}", "line 3"),
        ] {
            let scene = Scene::new();
            scene.world.write(file, text);
            let before = scene.everything();
            scene.refused(&["integrate", agent], saying);
            assert_eq!(scene.everything(), before, "{agent} {text}");
        }
        let scene = Scene::new();
        let elsewhere = scene.world.project.outside().join("elsewhere");
        fs::create_dir(&elsewhere).unwrap();
        let folder = file.split('/').next().unwrap();
        fs::create_dir(scene.path(folder)).unwrap();
        symlink(&elsewhere, scene.path(&format!("{folder}/skills"))).unwrap();
        scene.refused(&["integrate", agent], "leads out of");
        assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);
    }
    let scene = Scene::new();
    scene.world.write(".codex/config.toml", "a = 1\nb = \n");
    scene.refused(&["integrate", "codex", "--mcp"], "line 2");
    assert_eq!(scene.world.read(".codex/config.toml"), "a = 1\nb = \n");
    // A server of the user's that has our name stays, there and in the settings.
    let mine = "[mcp_servers.rappel]\ncommand = \"mine\"\n";
    let scene = Scene::new();
    scene.world.write(".codex/config.toml", mine);
    let answer = run(&scene, "codex", &["--mcp"]);
    assert!(answer["kept"][0].as_str().unwrap().ends_with("config.toml"), "{answer}");
    run(&scene, "codex", &["--remove"]);
    assert_eq!(scene.world.read(".codex/config.toml"), mine);
    let mine = "{\"mcpServers\": {\"rappel\": {\"command\": \"mine\"}}}";
    scene.world.write(".gemini/settings.json", mine);
    let answer = run(&scene, "gemini", &["--mcp"]);
    assert!(answer["kept"][0].as_str().unwrap().ends_with("settings.json"), "{answer}");
    run(&scene, "gemini", &["--remove"]);
    assert_eq!(scene.world.read(".gemini/settings.json"), mine);
}

#[test]
fn codex_gets_a_table_for_its_server_and_the_home_goes_along() {
    let scene = Scene::new();
    let config = scene.user().join(".codex/config.toml");
    fs::create_dir_all(config.parent().unwrap()).unwrap();
    fs::write(&config, "# mine\nmodel = \"x\"\n").unwrap();
    run(&scene, "codex", &["--user", "--mcp"]);
    let text = fs::read_to_string(&config).unwrap();
    let home = scene.world.home.to_str().unwrap();
    assert_eq!(
        text,
        format!(
            "# mine\nmodel = \"x\"\n\n[mcp_servers.rappel]\ncommand = \"{}\"\nargs = [\"mcp\"]\n\
             env = {{ RAPPEL_HOME = \"{home}\" }}\n",
            scene.program.display()
        )
    );
    // What the user adds since stays.
    fs::write(&config, format!("{text}\n[tui]\ntheme = \"x\"\n")).unwrap();
    run(&scene, "codex", &["--user", "--remove"]);
    let text = fs::read_to_string(&config).unwrap();
    assert_eq!(text, "# mine\nmodel = \"x\"\n[tui]\ntheme = \"x\"\n");
}

/// The hash by which Codex knows a hook, made by another program than ours.
fn hash(event: &str, command: &str, timeout: u64) -> String {
    let text = json!({"event_name": event, "hooks": [
        {"async": false, "command": command, "timeout": timeout, "type": "command"}]});
    let mut child = std::process::Command::new("sha256sum")
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), text.to_string().as_bytes())
        .unwrap();
    let output = child.wait_with_output().unwrap();
    format!("sha256:{}", &String::from_utf8(output.stdout).unwrap()[..64])
}

#[test]
fn status_tells_which_hooks_of_codex_are_confirmed() {
    let scene = Scene::new();
    let answer = run(&scene, "codex", &["--user"]);
    assert!(answer["notes"][0].as_str().unwrap().contains("confirm"), "{answer}");
    assert_eq!(state(&scene, "codex"), "unconfirmed");
    let file = scene.user().join(".codex/hooks.json");
    let hooks: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    let mut config = String::new();
    for (event, groups) in hooks["hooks"].as_object().unwrap() {
        let mut name = String::new();
        for letter in event.chars() {
            if letter.is_uppercase() && !name.is_empty() {
                name.push('_');
            }
            name.extend(letter.to_lowercase());
        }
        let handler = &groups[0]["hooks"][0];
        let command = handler["command"].as_str().unwrap();
        let hash = hash(&name, command, handler["timeout"].as_u64().unwrap());
        let key = format!("{}:{name}:0:0", file.display());
        config.push_str(&format!("[hooks.state.\"{key}\"]\ntrusted_hash = \"{hash}\"\n"));
    }
    let path = scene.user().join(".codex/config.toml");
    fs::write(&path, &config).unwrap();
    assert_eq!(state(&scene, "codex"), "installed");
    assert_eq!(run(&scene, "codex", &["--user"])["notes"], json!([]));
    // A hook of the user's before ours moves ours, and so does another time limit.
    let moved =
        fs::read_to_string(&file).unwrap().replacen("\"timeout\": 125", "\"timeout\": 9", 1);
    fs::write(&file, moved).unwrap();
    assert_eq!(state(&scene, "codex"), "changed");
    // The hash is only ever read.
    assert_eq!(fs::read_to_string(&path).unwrap(), config);
}

#[test]
fn a_project_counts_once_its_agent_trusts_the_folder() {
    let scene = Scene::new();
    let root = scene.world.project.root().to_str().unwrap().to_owned();
    run(&scene, "codex", &[]);
    assert_eq!(state(&scene, "codex"), "untrusted-folder");
    let codex = scene.user().join(".codex");
    fs::create_dir_all(&codex).unwrap();
    let config = format!("[projects.\"{root}\"]\ntrust_level = \"trusted\"\n");
    fs::write(codex.join("config.toml"), config).unwrap();
    assert_eq!(state(&scene, "codex"), "unconfirmed");

    run(&scene, "gemini", &["--user"]);
    assert_eq!(state(&scene, "gemini"), "untrusted-folder");
    let trusted = json!({ root: "TRUST_FOLDER" }).to_string();
    fs::write(scene.user().join(".gemini/trustedFolders.json"), trusted).unwrap();
    assert_eq!(state(&scene, "gemini"), "installed");
    // One rule for each command, and none for the program as a whole.
    let policy = fs::read_to_string(scene.user().join(".gemini/policies/rappel.toml")).unwrap();
    assert_eq!(policy.matches("[[rule]]").count(), 14);
    assert_eq!(policy.matches("--typed=").count(), 14);
}

#[test]
fn a_gemini_command_takes_what_was_typed_as_one_word() {
    let scene = Scene::new();
    run(&scene, "gemini", &[]);
    let text = scene.world.read(".gemini/commands/rappel/checkpoint.toml");
    let line = text.split("!{").nth(1).unwrap().split("{{args}}").next().unwrap().to_owned();
    let typed = |words: &str| {
        let mut command = scene.command(&[]);
        let mut shell = std::process::Command::new("sh");
        shell
            .args(["-c", &format!("{line}{words}")])
            .current_dir(command.get_current_dir().unwrap());
        for (name, value) in command.get_envs() {
            shell.env(name, value.unwrap());
        }
        command = shell;
        command.output().unwrap()
    };
    scene.world.write("a.txt", "changed\n");
    let output = typed("'before $(touch no) change -t green'");
    assert!(output.status.success(), "{output:?}");
    let latest = scene.json(&["show", "latest"]);
    assert!(
        latest["description"].as_str().unwrap().starts_with("before $(touch no) change"),
        "{latest}"
    );
    assert!(!scene.path("no").exists());
    assert!(typed("''").status.success());
    assert!(typed("").status.success());
}
