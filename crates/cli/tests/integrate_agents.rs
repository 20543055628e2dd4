//! `rappel integrate codex` and `gemini`: what they write, that `--remove` takes exactly that out
//! again, and what `status` says of hooks that are gone or do not run, with what to do.

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

fn status(scene: &Scene) -> Value {
    let output = scene.run(&["status", "--json"]);
    serde_json::from_slice(&output.stdout).unwrap()
}

/// What `status` says of an agent.
fn integration(scene: &Scene, agent: &str) -> Value {
    let status = status(scene);
    let all = status["integrations"].as_array().unwrap();
    all.iter().find(|one| one["agent"] == agent).cloned().unwrap_or_default()
}

fn state(scene: &Scene, agent: &str) -> Value {
    integration(scene, agent)["state"].clone()
}

/// The hints of `status` about integrations; others are about saves.
fn hints(scene: &Scene) -> Vec<String> {
    let status = status(scene);
    let all = status["hints"].as_array().unwrap().iter().map(|hint| hint.as_str().unwrap());
    all.filter(|hint| !hint.contains("rappel save")).map(str::to_owned).collect()
}

fn short(scene: &Scene) -> String {
    String::from_utf8(scene.run(&["status", "--short"]).stdout).unwrap()
}

/// Has Gemini CLI trust the project.
fn trust_in_gemini(scene: &Scene) {
    let root = scene.world.project.root().to_str().unwrap().to_owned();
    let folder = scene.user().join(".gemini");
    fs::create_dir_all(&folder).unwrap();
    let rules = json!({ root: "TRUST_FOLDER" }).to_string();
    fs::write(folder.join("trustedFolders.json"), rules).unwrap();
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
            ("{\n  \"a\": 1,\n}", "line 3"),
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
    // Codex takes no comments.
    let scene = Scene::new();
    scene.world.write(".codex/hooks.json", "{\n  // mine\n}");
    scene.refused(&["integrate", "codex"], "line 2");
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
    assert_eq!(text, "# mine\nmodel = \"x\"\n\n[tui]\ntheme = \"x\"\n");
    // The table has the file's line ends.
    fs::write(&config, "a = 1\r\n").unwrap();
    run(&scene, "codex", &["--user", "--mcp"]);
    let text = fs::read_to_string(&config).unwrap();
    assert!(text.contains("[mcp_servers.rappel]\r\n"), "{text:?}");
    assert_eq!(text.matches('\n').count(), text.matches("\r\n").count());
}

#[test]
fn hooks_that_were_taken_out_by_hand_are_missed_in_every_scope() {
    let files = [
        ("claude", ".claude/settings.json", ".claude/settings.json"),
        ("codex", ".codex/hooks.json", ".codex/hooks.json"),
        ("gemini", ".gemini/settings.json", ".gemini/settings.json"),
        ("opencode", ".opencode/plugins/rappel.js", ".config/opencode/plugins/rappel.js"),
    ];
    for (agent, project, user) in files {
        let scene = Scene::new();
        trust_in_gemini(&scene);
        for (flag, file) in [("--shared", scene.path(project)), ("--user", scene.user().join(user))]
        {
            run(&scene, agent, &[flag]);
            assert_ne!(integration(&scene, agent), Value::Null);
            match agent {
                "opencode" | "codex" => fs::remove_file(&file).unwrap(),
                _ => fs::write(&file, "{}").unwrap(),
            }
            let found = integration(&scene, agent);
            assert_eq!(found["state"], "gone", "{found}");
            assert_eq!(found["place"], file.to_str().unwrap());
            let again = format!("rappel integrate {agent} {flag}");
            let hints = hints(&scene);
            assert_eq!(hints[0], again);
            assert!(hints[1].starts_with(&format!("{again} --remove")), "{hints:?}");
            assert!(short(&scene).contains(&format!("hooks of {agent} gone")));
            // A user who does not want them any more says so.
            let output = scene.run(&["integrate", agent, flag, "--remove"]);
            assert!(output.status.success(), "{output:?}");
            assert_eq!(integration(&scene, agent), Value::Null);
        }
    }
}

#[test]
fn a_program_that_is_gone_is_told_with_the_scope_of_its_hooks() {
    for flag in ["--user", ""] {
        let scene = Scene::new();
        trust_in_gemini(&scene);
        let flags: &[&str] = if flag.is_empty() { &[] } else { &[flag] };
        run(&scene, "gemini", flags);
        let moved = scene.program.with_file_name("moved");
        fs::rename(&scene.program, &moved).unwrap();
        let mut command = std::process::Command::new(&moved);
        let like = scene.command(&["status", "--json"]);
        command.args(like.get_args()).current_dir(scene.path("")).env_clear();
        command.envs(like.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let status: Value = serde_json::from_slice(&command.output().unwrap().stdout).unwrap();
        assert_eq!(status["integrations"][0]["state"], "missing", "{status}");
        let again = format!("rappel integrate gemini {flag}");
        assert!(status["hints"].as_array().unwrap().contains(&json!(again.trim())), "{status}");
        let file = match flag {
            "--user" => scene.user().join(".gemini/settings.json"),
            _ => scene.path(".gemini/settings.json"),
        };
        let text = fs::read_to_string(file).unwrap();
        assert!(text.contains(&format!("`{}`", again.trim())), "{text}");
    }
}

#[test]
fn gemini_hooks_that_are_missing_or_switched_off_are_named() {
    let scene = Scene::new();
    trust_in_gemini(&scene);
    run(&scene, "gemini", &[]);
    assert_eq!(state(&scene, "gemini"), "installed");
    let file = ".gemini/settings.json";
    let whole = scene.world.read(file);
    let mut settings = scene.settings(file);
    settings["hooks"].as_object_mut().unwrap().remove("BeforeTool");
    scene.world.write(file, &settings.to_string());
    let found = integration(&scene, "gemini");
    assert_eq!(
        (&found["state"], &found["missing"]),
        (&json!("missing-hooks"), &json!(["BeforeTool"]))
    );
    assert_eq!(hints(&scene), ["rappel integrate gemini"]);
    assert!(short(&scene).contains("some hooks of gemini gone"), "{}", short(&scene));
    let said = String::from_utf8(scene.run(&["status"]).stdout).unwrap();
    assert!(said.contains("some of its hooks are gone from there: BeforeTool"), "{said}");
    // Other hooks of that name are none of ours.
    for (switch, is_off) in [
        (json!({"enabled": false}), true),
        (json!({"disabled": ["other", "rappel"]}), true),
        (json!({"disabled": ["other"], "enabled": true}), false),
    ] {
        scene.world.write(file, &whole);
        let users = scene.user().join(file);
        let text = format!("// mine\n{}", json!({ "hooksConfig": switch }));
        fs::write(&users, text).unwrap();
        let found = integration(&scene, "gemini");
        assert_eq!(found["state"] == "switched-off", is_off, "{found}");
        if is_off {
            let hint = &hints(&scene)[0];
            assert!(
                hint.contains("hooksConfig.") && hint.contains(users.to_str().unwrap()),
                "{hint}"
            );
        }
        // The project says otherwise.
        let mut settings = scene.settings(file);
        settings["hooksConfig"] = json!({"enabled": true});
        scene.world.write(file, &settings.to_string());
        let is_still_off = switch["disabled"].to_string().contains("rappel");
        assert_eq!(state(&scene, "gemini") == "switched-off", is_still_off);
    }
}

#[test]
fn comments_in_gemini_settings_stay() {
    let file = ".gemini/settings.json";
    let mine =
        "// mine\n{\n  \"theme\": \"dark\", // at night\n  /* none */\n  \"hooks\": { }\n}\n";
    let scene = Scene::new();
    trust_in_gemini(&scene);
    scene.world.write(file, mine);
    let before = scene.everything();
    run(&scene, "gemini", &["--mcp"]);
    assert_eq!(state(&scene, "gemini"), "installed");
    assert_eq!(run(&scene, "gemini", &["--mcp"])["changed"], false);
    run(&scene, "gemini", &["--remove"]);
    assert_eq!(scene.everything(), before);
    // A comment that comes after the hooks hides nothing, and stays.
    let scene = Scene::new();
    trust_in_gemini(&scene);
    run(&scene, "gemini", &["--mcp"]);
    let text = scene.world.read(file).replacen('{', "{\n  // my comment", 1);
    scene.world.write(file, &text);
    assert_eq!(state(&scene, "gemini"), "installed");
    assert_eq!(run(&scene, "gemini", &["--remove"])["changed"], true);
    assert_eq!(scene.world.read(file), "{\n  // my comment\n}\n");
}

#[test]
fn what_was_empty_stays_in_files_that_were_edited_since() {
    let texts = [
        ("codex", ".codex/hooks.json", "{\"hooks\":{\"Stop\":[]},\"a\": 1}\n"),
        (
            "gemini",
            ".gemini/settings.json",
            "{\n  \"hooks\": {\n    \"AfterTool\":[ ]\n  },\n  \"mcpServers\" : { },\n  \"a\": 1\n}\n",
        ),
    ];
    for (agent, file, text) in texts {
        let scene = Scene::new();
        scene.world.write(file, text);
        run(&scene, agent, &["--mcp"]);
        let edited = |text: &str| text.replace("\"a\": 1", "\"a\": 2");
        scene.world.write(file, &edited(&scene.world.read(file)));
        run(&scene, agent, &["--remove"]);
        assert_eq!(scene.world.read(file), edited(text));
    }
}

#[test]
fn paths_of_this_machine_are_kept_out_of_git_or_told() {
    let scene = Scene::new();
    let git = |arguments: &[&str]| rappel_testing::git::git(scene.world.project.root(), arguments);
    git(&["init", "-q"]);
    let listed = || git(&["status", "--porcelain", "-uall"]);
    let before = listed();
    let answer = run(&scene, "codex", &["--mcp"]);
    assert!(scene.path(".codex/config.toml").exists());
    assert_eq!(listed(), before);
    assert!(!answer["notes"].to_string().contains("this machine"), "{answer}");
    run(&scene, "codex", &["--remove"]);
    assert!(!scene.path(".codex").exists());
    // A file that was there is the user's, and git lists it.
    scene.world.write(".codex/config.toml", "a = 1\n");
    let answer = run(&scene, "codex", &["--mcp"]);
    let notes = answer["notes"].to_string();
    assert!(notes.contains("config.toml now names a path of this machine"), "{notes}");
    assert!(!notes.contains("hooks.json now"), "{notes}");
    let listing = listed();
    assert!(listing.contains(".codex/config.toml") && !listing.contains("hooks.json"), "{listing}");
    // What everybody has names none.
    let answer = run(&scene, "codex", &["--mcp", "--shared"]);
    assert!(!answer["notes"].to_string().contains("this machine"), "{answer}");
}

#[test]
fn integrate_says_which_commands_go_through_the_model() {
    let scene = Scene::new();
    let said = |agent: &str| String::from_utf8(scene.run(&["integrate", agent]).stdout).unwrap();
    let gemini = said("gemini");
    let (answered, repeated) = gemini.split_once("go through the model").unwrap();
    assert!(answered.contains("  rappel undo, ") && !answered.contains("/rappel:undo"));
    assert!(repeated.contains("/rappel:undo"), "{gemini}");
    for (agent, typed) in [("claude", "/rappel:undo"), ("opencode", "/rappel/undo")] {
        let said = said(agent);
        assert!(said.contains("without the model:\n  ") && said.contains(typed), "{said}");
        assert!(!said.contains("go through the model"), "{said}");
    }
    let help = String::from_utf8(scene.run(&["integrate", "--help"]).stdout).unwrap();
    assert!(help.contains(".opencode/plugins/rappel.js") && help.contains("`opencode`"), "{help}");
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
    let hints = hints(&scene);
    assert!(hints.contains(&"start gemini in this folder and say that you trust it".to_owned()));
    assert!(!hints.iter().any(|hint| hint.contains("integrate")), "{hints:?}");
    assert!(short(&scene).contains("gemini does not trust this folder"), "{}", short(&scene));
    trust_in_gemini(&scene);
    assert_eq!(state(&scene, "gemini"), "installed");
    // One rule for each command that the model may run too, and none for the program as a whole.
    let policy = fs::read_to_string(scene.user().join(".gemini/policies/rappel.toml")).unwrap();
    assert_eq!(policy.matches("[[rule]]").count(), 11);
    assert_eq!(policy.matches("--typed=").count(), 11);
    for verb in ["delete", "prune", "restore"] {
        assert!(!policy.contains(&format!(" {verb} --typed=")), "{policy}");
    }
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
