//! `rappel integrate claude`: what it writes, and that `--remove` takes exactly that out again.

#![allow(clippy::unwrap_used, reason = "tests may")]

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use support::scene::Scene;

const LOCAL: &str = ".claude/settings.local.json";
const SHARED: &str = ".claude/settings.json";
const MARK: &str = "# rappel integrate claude";

const COMMANDS: [&str; 14] = [
    "checkpoint",
    "checkpoint-cleanup",
    "checkpoint-delete",
    "checkpoints",
    "diff",
    "list",
    "replay",
    "replay-agents",
    "replay-exit",
    "replay-memory",
    "replay-step",
    "restore",
    "status",
    "undo",
];

#[test]
fn hooks_commands_and_skill_are_written_and_everything_is_saved() {
    let scene = Scene::new();
    let answer = scene.json(&["integrate", "claude"]);
    assert_eq!(answer["changed"], true);
    assert_eq!(answer["scope"], "local");
    assert_eq!(answer["program"], scene.program.to_str().unwrap());
    assert_eq!(answer["notes"], serde_json::json!([]));
    let latest = scene.json(&["show", "latest"]);
    assert_eq!(latest["id"], answer["checkpoint"]);
    let mut named: Vec<&str> =
        answer["commands"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
    named.sort_unstable();
    assert_eq!(named, COMMANDS.map(|name| format!("/rappel:{name}")));

    // The shape that Claude's documentation describes.
    let settings = scene.settings(LOCAL);
    assert_eq!(settings.as_object().unwrap().len(), 1);
    for (event, groups) in settings["hooks"].as_object().unwrap() {
        let [group] = &groups.as_array().unwrap()[..] else { panic!("{event}") };
        let [handler] = &group["hooks"].as_array().unwrap()[..] else { panic!("{event}") };
        assert_eq!(handler["type"], "command");
        assert!(handler["timeout"].as_u64().unwrap() >= 6);
        let line = handler["command"].as_str().unwrap();
        assert!(line.contains(scene.program.to_str().unwrap()) && line.ends_with(MARK), "{line}");
    }
    for name in COMMANDS {
        let text = scene.world.read(&format!(".claude/commands/rappel/{name}.md"));
        assert!(text.contains("disable-model-invocation: true\n"), "{text}");
    }
    assert!(scene.world.read(".claude/skills/rappel/SKILL.md").contains("rappel recall"));
    // They are this user's, and git need not know of them.
    assert!(scene.world.read(".claude/commands/rappel/.gitignore").ends_with("*\n"));
}

#[test]
fn the_answer_names_what_was_written_and_how_to_remove_it() {
    let scene = Scene::new();
    let said = String::from_utf8(scene.run(&["integrate", "claude"]).stdout).unwrap();
    for expected in [
        LOCAL,
        ".claude/commands/rappel",
        ".claude/skills/rappel",
        "/rappel:undo",
        "Saved chk_",
        "rappel integrate claude --remove",
    ] {
        assert!(said.contains(expected), "{expected}: {said}");
    }
    let again = String::from_utf8(scene.run(&["integrate", "claude"]).stdout).unwrap();
    assert!(again.contains("integrated already"), "{again}");
}

#[test]
fn a_second_time_changes_nothing() {
    let scene = Scene::new();
    for flags in [&[][..], &["--user"], &["--shared"], &["--status-line"]] {
        let line = [&["integrate", "claude"], flags].concat();
        assert_eq!(scene.json(&line)["changed"], true, "{flags:?}");
        let before = scene.everything();
        let again = scene.json(&line);
        assert_eq!(again["changed"], false, "{flags:?}");
        assert_eq!(again["checkpoint"], Value::Null);
        assert_eq!(scene.everything(), before, "{flags:?}");
    }
    // Without the flag, the status line that was asked for before stays.
    assert_eq!(scene.json(&["integrate", "claude"])["changed"], false);
}

#[test]
fn removal_gives_every_byte_back() {
    for text in [
        "",
        " \n\n",
        "{}",
        "{}\n",
        "{\n}\n",
        "{\"hooks\": {}}",
        "{\"hooks\": {\"Stop\": []}}\n",
        "\u{feff}{\"model\": \"opus\"}",
        "{\r\n  \"model\": \"opus\"\r\n}\r\n",
        "{\"model\":\"opus\"}",
        "{\n\t\"z\": 1.0,\n\t\"a\": [1,2 ,3]\n}",
        "{\n  \"hooks\": {\n    \"PreToolUse\": [\n      {\"matcher\": \"Bash\", \"hooks\": [{\"type\": \"command\", \"command\": \"mine\"}]}\n    ]\n  },\n  \"env\": {}\n}\n",
    ] {
        let scene = Scene::new();
        fs::create_dir_all(scene.path(".claude")).unwrap();
        for path in [LOCAL, SHARED] {
            scene.world.write(path, text);
        }
        let before = scene.everything();
        for flags in [&[][..], &["--shared"], &["--status-line"]] {
            scene.json(&[&["integrate", "claude"], flags].concat());
        }
        assert_ne!(scene.world.read(LOCAL), text);
        scene.json(&["integrate", "claude", "--remove"]);
        assert_eq!(scene.world.read(LOCAL), text);
        scene.json(&["integrate", "claude", "--remove", "--shared"]);
        assert_eq!(scene.everything(), before, "{text:?}");
    }
}

#[test]
fn what_was_not_there_is_gone_again() {
    let scene = Scene::new();
    let before = scene.everything();
    for flags in [&[][..], &["--shared"], &["--user"]] {
        scene.json(&[&["integrate", "claude"], flags].concat());
        assert_ne!(scene.everything(), before);
        assert_eq!(
            scene.json(&[&["integrate", "claude", "--remove"], flags].concat())["changed"],
            true
        );
        assert_eq!(scene.everything(), before, "{flags:?}");
        let again = scene.json(&[&["integrate", "claude", "--remove"], flags].concat());
        assert_eq!(again["changed"], false);
    }
}

#[test]
fn remove_all_leaves_nothing_behind_in_any_project() {
    let scene = Scene::new();
    let other = scene.world.project.outside().join("other");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("x.txt"), "x").unwrap();
    let before = scene.everything();
    for flags in [&[][..], &["--shared"], &["--user"]] {
        scene.json(&[&["integrate", "claude"], flags].concat());
    }
    scene.json(&["integrate", "claude", "-C", other.to_str().unwrap()]);
    assert!(other.join(LOCAL).exists());
    scene.json(&["integrate", "--remove", "--all"]);
    assert_eq!(scene.everything(), before);
    assert_eq!(fs::read_dir(&other).unwrap().count(), 1);
    // Without the home's records, too.
    for flags in [&[][..], &["--shared"], &["--user"]] {
        scene.json(&[&["integrate", "claude"], flags].concat());
    }
    fs::remove_dir_all(&scene.world.home).unwrap();
    scene.json(&["integrate", "--remove", "--all"]);
    let files = |all: &BTreeMap<PathBuf, Option<Vec<u8>>>| -> Vec<PathBuf> {
        all.iter().filter(|(_, bytes)| bytes.is_some()).map(|(path, _)| path.clone()).collect()
    };
    assert_eq!(files(&scene.everything()), files(&before));
    assert!(!scene.world.home.exists());
}

#[test]
fn a_file_that_is_not_understood_stays_and_is_named_with_the_line() {
    for (text, saying) in [
        ("[]", "line 1"),
        ("{\n  // mine\n  \"a\": 1\n}", "line 2"),
        ("{\"a\": 1,}", "line 1"),
        ("{\n\"hooks\": null\n}", "line 2"),
        ("{\"hooks\": []}", "line 1"),
        ("{\"hooks\":\n{\"Stop\":\n{}}}", "line 3"),
        ("{\"hooks\": {},\n\"hooks\": {}}", "line 2"),
        ("nonsense", "line 1"),
    ] {
        let scene = Scene::new();
        fs::create_dir_all(scene.path(".claude")).unwrap();
        scene.world.write(LOCAL, text);
        let before = scene.everything();
        scene.refused(&["integrate", "claude"], saying);
        scene.refused(&["integrate", "claude"], "settings.local.json");
        assert_eq!(scene.everything(), before, "{text}");
    }
    let scene = Scene::new();
    fs::create_dir_all(scene.path(".claude")).unwrap();
    fs::write(scene.path(LOCAL), b"{\"a\": \"\xff\"}").unwrap();
    scene.refused(&["integrate", "claude"], "settings.local.json is no text in UTF-8");
    scene.refused(&["integrate", "claude", "--remove"], "settings.local.json");
}

#[test]
fn links_and_modes_stay() {
    let scene = Scene::new();
    fs::create_dir_all(scene.path(".claude")).unwrap();
    let real = scene.world.project.outside().join("dotfiles.json");
    fs::write(&real, "{\"a\": 1}").unwrap();
    fs::set_permissions(&real, fs::Permissions::from_mode(0o640)).unwrap();
    symlink(&real, scene.path(LOCAL)).unwrap();
    scene.json(&["integrate", "claude"]);
    assert!(fs::read_to_string(&real).unwrap().contains(MARK));
    assert!(scene.path(LOCAL).is_symlink());
    assert_eq!(fs::metadata(&real).unwrap().permissions().mode() & 0o777, 0o640);
    scene.json(&["integrate", "claude", "--remove"]);
    assert!(scene.path(LOCAL).is_symlink());
    assert_eq!(fs::read_to_string(&real).unwrap(), "{\"a\": 1}");

    fs::remove_file(&real).unwrap();
    scene.refused(&["integrate", "claude"], "a link to a file that does not exist");
}

#[test]
fn a_pipe_in_the_place_of_settings_is_not_waited_for() {
    let scene = Scene::new();
    fs::create_dir_all(scene.path(".claude")).unwrap();
    let made = Command::new("mkfifo").arg(scene.path(LOCAL)).status().unwrap();
    assert!(made.success());
    scene.refused(&["integrate", "claude"], "it is not a file");
    // Never saved, so it is not protected; but it ends.
    assert_eq!(scene.run(&["status"]).status.code(), Some(1));
}

#[test]
fn a_read_only_file_stays() {
    let scene = Scene::new();
    fs::create_dir_all(scene.path(".claude")).unwrap();
    scene.world.write(LOCAL, "{}");
    fs::set_permissions(scene.path(LOCAL), fs::Permissions::from_mode(0o444)).unwrap();
    scene.refused(&["integrate", "claude"], "settings.local.json is read-only");
    assert_eq!(scene.world.read(LOCAL), "{}");
}

#[test]
fn a_strangers_link_does_not_lead_elsewhere() {
    let scene = Scene::new();
    let elsewhere = scene.world.project.outside().join("elsewhere");
    fs::create_dir_all(elsewhere.join("rappel")).unwrap();
    fs::create_dir_all(scene.path(".claude")).unwrap();
    symlink(&elsewhere, scene.path(".claude/commands")).unwrap();
    scene.refused(&["integrate", "claude"], "leads out of");
    assert_eq!(fs::read_dir(elsewhere.join("rappel")).unwrap().count(), 0);
    assert!(!scene.path(LOCAL).exists());
}

#[test]
fn other_hooks_stay_and_an_older_command_of_ours_is_replaced() {
    let scene = Scene::new();
    fs::create_dir_all(scene.path(".claude")).unwrap();
    let tools =
        "^(Bash|PowerShell|Edit|MultiEdit|Write|NotebookEdit|ExitWorktree|mcp__(?!rappel__).*)$";
    let text = format!(
        r#"{{
  "hooks": {{
    "PreToolUse": [
      {{ "matcher": "{tools}", "hooks": [{{ "type": "command", "command": "mine" }}] }},
      {{ "matcher": "Bash", "hooks": [{{ "type": "command", "command": "/old/rappel hook claude; exit 0 {MARK}" }}] }}
    ],
    "Notification": [{{ "hooks": [{{ "type": "command", "command": "rappel hook claude" }}] }}]
  }}
}}
"#
    );
    scene.world.write(LOCAL, &text);
    scene.json(&["integrate", "claude"]);
    let after = scene.settings(LOCAL);
    let lines: Vec<&str> = after["hooks"]["PreToolUse"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|group| group["hooks"].as_array().unwrap())
        .map(|hook| hook["command"].as_str().unwrap())
        .collect();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert_eq!(lines[0], "mine");
    assert!(!scene.world.read(LOCAL).contains("/old/rappel"));
    scene.json(&["integrate", "claude", "--remove"]);
    let rest = scene.settings(LOCAL);
    assert_eq!(rest["hooks"]["PreToolUse"].as_array().unwrap().len(), 1);
    // A line that does not say that it is ours is not ours.
    assert_eq!(rest["hooks"]["Notification"][0]["hooks"][0]["command"], "rappel hook claude");
}

#[test]
fn what_the_user_changed_in_between_stays() {
    let scene = Scene::new();
    scene.json(&["integrate", "claude", "--status-line"]);
    let text = scene.world.read(LOCAL);
    scene
        .world
        .write(LOCAL, &text.replacen('{', "{\n  \"permissions\": {\"allow\": [\"Bash(ls)\"]},", 1));
    assert_eq!(scene.json(&["integrate", "claude"])["changed"], false);
    let command = ".claude/commands/rappel/undo.md";
    let edited = scene.world.read(command) + "More.\n";
    scene.world.write(command, &edited);
    scene.world.write(".claude/commands/rappel/mine.md", "my own\n");
    let again = scene.json(&["integrate", "claude"]);
    assert_eq!(again["changed"], false);
    assert_eq!(again["kept"].as_array().unwrap().len(), 1);
    let removed = scene.json(&["integrate", "claude", "--remove"]);
    assert_eq!(removed["kept"].as_array().unwrap().len(), 2);
    assert_eq!(scene.settings(LOCAL), serde_json::json!({"permissions": {"allow": ["Bash(ls)"]}}));
    assert_eq!(scene.world.read(command), edited);
    assert_eq!(fs::read_dir(scene.path(".claude/commands/rappel")).unwrap().count(), 2);
    assert!(!scene.path(".claude/skills").exists());
}

#[test]
fn shared_files_name_no_path_of_this_machine() {
    let scene = Scene::new();
    scene.json(&["integrate", "claude"]);
    let answer = scene.json(&["integrate", "claude", "--shared"]);
    let notes = answer["notes"].to_string();
    assert!(
        notes.contains("not on your PATH") && notes.contains("one of them is enough"),
        "{notes}"
    );
    let program = scene.program.to_str().unwrap();
    assert!(!scene.world.read(SHARED).contains(program));
    let undo = ".claude/commands/rappel/undo.md";
    assert!(!scene.world.read(undo).contains(program));
    assert!(!scene.path(".claude/commands/rappel/.gitignore").exists());
    // The one that stays has the commands as it needs them.
    scene.json(&["integrate", "claude", "--remove", "--shared"]);
    assert!(!scene.path(SHARED).exists());
    assert!(scene.world.read(undo).contains(program));
    assert!(scene.path(".claude/commands/rappel/.gitignore").exists());
}

#[test]
fn the_users_own_settings_save_projects_only() {
    let scene = Scene::new();
    let answer = scene.json(&["integrate", "claude", "--user"]);
    let settings = scene.user().join(".claude/settings.json");
    assert_eq!(answer["settings"], settings.to_str().unwrap());
    // The folder is no project, so it is not saved.
    assert_eq!(answer["checkpoint"], Value::Null);
    let text = fs::read_to_string(&settings).unwrap();
    assert_eq!(text.matches("hook claude --projects-only").count(), 10);
    assert!(scene.user().join(".claude/commands/rappel/undo.md").exists());
    assert!(!scene.path(".claude").exists());

    let elsewhere = scene.world.project.outside().join("config");
    let mut command = scene.command(&["integrate", "claude", "--user", "--json"]);
    let output = command.env("CLAUDE_CONFIG_DIR", &elsewhere).output().unwrap();
    assert!(output.status.success());
    assert!(elsewhere.join("settings.json").exists());
}

#[test]
fn a_status_line_is_set_unless_there_is_one() {
    let scene = Scene::new();
    scene.json(&["integrate", "claude", "--status-line"]);
    let line = scene.settings(LOCAL)["statusLine"].clone();
    assert_eq!(line["type"], "command");
    assert!(line["command"].as_str().unwrap().contains(" status --short"));
    scene.json(&["integrate", "claude", "--remove"]);
    assert!(!scene.path(LOCAL).exists());

    fs::create_dir_all(scene.path(".claude")).unwrap();
    let mine = r#"{"statusLine": {"type": "command", "command": "mine"}}"#;
    scene.world.write(LOCAL, mine);
    let answer = scene.json(&["integrate", "claude", "--status-line"]);
    assert!(answer["notes"].to_string().contains("another status line"));
    assert_eq!(scene.settings(LOCAL)["statusLine"]["command"], "mine");
    scene.json(&["integrate", "claude", "--remove"]);
    assert_eq!(scene.world.read(LOCAL), mine);
}

#[test]
fn a_home_that_cannot_be_used_is_told_before_anything_is_written() {
    let scene = Scene::new();
    let before = scene.everything();
    fs::write(&scene.world.home, "no folder").unwrap();
    let output = scene.run(&["integrate", "claude"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(scene.everything(), before);
}

#[test]
fn a_crash_between_the_record_and_the_file_costs_nothing() {
    let scene = Scene::new();
    fs::create_dir_all(scene.path(".claude")).unwrap();
    for text in ["{\n  \"a\": 1\n}\n", "{}"] {
        scene.world.write(LOCAL, text);
        scene.json(&["integrate", "claude"]);
        // The record is there and the file is not written yet.
        scene.world.write(LOCAL, text);
        scene.json(&["integrate", "claude", "--remove"]);
        assert_eq!(scene.world.read(LOCAL), text);
        scene.json(&["integrate", "claude"]);
        scene.world.write(LOCAL, text);
        scene.json(&["integrate", "claude"]);
        scene.json(&["integrate", "claude", "--remove"]);
        assert_eq!(scene.world.read(LOCAL), text);
    }
}

#[test]
fn hooks_that_are_disabled_are_told() {
    let scene = Scene::new();
    fs::create_dir_all(scene.path(".claude")).unwrap();
    scene.world.write(SHARED, r#"{"disableAllHooks": true}"#);
    let answer = scene.json(&["integrate", "claude"]);
    let notes = answer["notes"].to_string();
    assert!(notes.contains("disableAllHooks") && notes.contains("settings.json"), "{notes}");
}

#[test]
fn a_folder_that_is_no_text_is_refused_before_anything_is_made() {
    use std::os::unix::ffi::OsStrExt;
    let scene = Scene::new();
    let odd = scene.path("").join(std::ffi::OsStr::from_bytes(b"odd\xff"));
    fs::create_dir(&odd).unwrap();
    let mut command = scene.command(&["integrate", "claude", "--json"]);
    let output = command.current_dir(&odd).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("not UTF-8"));
    assert_eq!(fs::read_dir(&odd).unwrap().count(), 0);
    let mut command = scene.command(&["integrate", "claude", "--remove", "--json"]);
    assert!(command.current_dir(&odd).output().unwrap().status.success());
}

#[test]
fn a_program_below_target_is_refused_with_the_install_line() {
    let scene = Scene::with_program("target");
    let before = scene.everything();
    scene.refused(&["integrate", "claude"], "cargo install --path crates/cli");
    scene.refused(&["integrate", "claude", "--user"], "cargo install --path crates/cli");
    assert_eq!(scene.everything(), before);
}

#[test]
fn a_chosen_home_is_the_hooks_home_too() {
    let scene = Scene::new();
    let home = scene.world.project.outside().join("my home");
    scene.json(&["integrate", "claude", "--home", home.to_str().unwrap()]);
    let quoted = format!("--home '{}'", home.display());
    assert!(scene.world.read(LOCAL).contains(&quoted));
    assert!(scene.world.read(".claude/commands/rappel/undo.md").contains(&quoted));
}

#[test]
fn two_processes_at_once_write_it_once() {
    let scene = Scene::new();
    fs::create_dir_all(scene.path(".claude")).unwrap();
    scene.world.write(LOCAL, "{\"a\": 1}\n");
    for _ in 0..3 {
        let both: Vec<_> = (0..4)
            .map(|_| scene.command(&["integrate", "claude", "--json"]).spawn().unwrap())
            .collect();
        for one in both {
            let output = one.wait_with_output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        }
        assert_eq!(scene.world.read(LOCAL).matches(MARK).count(), 11);
        scene.json(&["integrate", "claude", "--remove"]);
        assert_eq!(scene.world.read(LOCAL), "{\"a\": 1}\n");
        assert_eq!(fs::read_dir(scene.path(".claude")).unwrap().count(), 1);
    }
}

/// The shell block of a command's file with words pasted in as Claude does, run by a shell.
fn paste(scene: &Scene, name: &str, words: &str) -> Output {
    let text = scene.world.read(&format!(".claude/commands/rappel/{name}.md"));
    let (_, block) = text.split_once("```!\n").unwrap();
    let (block, _) = block.split_once("\n```\n").unwrap();
    let like = scene.command(&[]);
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(block.replace("$ARGUMENTS", words)).current_dir(scene.world.project.root());
    shell.env_clear();
    for (name, value) in like.get_envs() {
        shell.env(name, value.unwrap());
    }
    shell.stdin(Stdio::null()).output().unwrap()
}

#[test]
fn what_is_typed_after_a_command_is_taken_as_it_is() {
    let scene = Scene::with_program("a bin");
    scene.json(&["integrate", "claude"]);
    let message = "it's $(touch canary) `touch canary` \\ \"x\"; touch canary";
    let output = paste(&scene, "checkpoint", message);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(scene.json(&["show", "latest"])["description"], message);
    assert!(!scene.path("canary").exists());

    scene.world.write("a.txt", "other\n");
    let said = String::from_utf8(paste(&scene, "diff", "latest --stat").stdout).unwrap();
    assert!(said.contains("a.txt"), "{said}");
    // A restore shows its plan first.
    let planned = paste(&scene, "restore", "latest");
    assert_eq!(planned.status.code(), Some(4));
    assert_eq!(scene.world.read("a.txt"), "other\n");
    assert!(paste(&scene, "restore", "latest --confirm").status.success());
    assert_eq!(scene.world.read("a.txt"), "one\ntwo\nthree\n");
    assert!(paste(&scene, "undo", "").status.success());
    assert_eq!(scene.world.read("a.txt"), "other\n");
    assert!(paste(&scene, "checkpoints", "1").status.success());
    assert_eq!(paste(&scene, "restore", "'x").status.code(), Some(2));
    assert!(!scene.path("canary").exists());
}

#[test]
fn a_hook_line_runs_and_never_blocks() {
    let scene = Scene::new();
    scene.json(&["integrate", "claude"]);
    let settings = scene.settings(LOCAL);
    let events = settings["hooks"].as_object().unwrap();
    for gone in [false, true] {
        if gone {
            fs::remove_file(&scene.program).unwrap();
        }
        for (event, groups) in events {
            let line = groups[0]["hooks"][0]["command"].as_str().unwrap();
            let mut shell = Command::new("sh");
            shell.args(["-c", line]).current_dir(scene.world.project.root()).env_clear();
            for (name, value) in scene.command(&[]).get_envs() {
                shell.env(name, value.unwrap());
            }
            // What is no payload must not stop the agent either.
            let output = shell.stdin(Stdio::null()).output().unwrap();
            assert_eq!(output.status.code(), Some(0), "{event}");
            let said = String::from_utf8(output.stdout).unwrap();
            match gone && event == "SessionStart" {
                true => {
                    let said: Value = serde_json::from_str(&said).unwrap();
                    let told = said["systemMessage"].as_str().unwrap();
                    assert!(told.contains(scene.program.to_str().unwrap()), "{told}");
                }
                false => assert_eq!(said, "", "{event}"),
            }
        }
    }
}

#[test]
fn what_a_killed_integrate_left_is_removed() {
    let scene = Scene::new();
    let folder = scene.path(".claude");
    fs::create_dir(&folder).unwrap();
    let left = folder.join(".settings.local.json.0123456789abcdef.tmp");
    let held = folder.join(".settings.local.json.fedcba9876543210.tmp");
    let mine = folder.join(".settings.local.json.mine.tmp");
    for path in [&left, &held, &mine] {
        fs::write(path, "{}").unwrap();
    }
    // Another one is at work.
    let lock = fs::File::open(&held).unwrap();
    lock.lock().unwrap();
    scene.json(&["integrate", "claude"]);
    assert!(!left.exists() && held.exists() && mine.exists());
    drop(lock);
    scene.json(&["integrate", "claude"]);
    assert!(!held.exists() && mine.exists());
    fs::remove_file(&mine).unwrap();
    scene.json(&["integrate", "claude", "--remove", "--all"]);
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
}

#[test]
fn where_two_scopes_have_hooks_one_of_them_tells_an_event() {
    let scene = Scene::new();
    let git = Command::new("git").args(["init", "-q"]).current_dir(scene.path("")).status();
    assert!(git.unwrap().success());
    let told = || {
        let count = |scene: &Scene| scene.json(&["list", "--all"])["total"].as_u64().unwrap();
        let before = count(&scene);
        // As Claude does: the hooks of every file.
        let mut lines = Vec::new();
        let user = scene.world.project.outside().join("user/.claude/settings.json");
        for file in [scene.path(LOCAL), scene.path(SHARED), user] {
            let text = fs::read_to_string(file).unwrap_or_else(|_| "{}".into());
            let settings: Value = serde_json::from_str(&text).unwrap();
            let line = &settings["hooks"]["UserPromptSubmit"][0]["hooks"][0]["command"];
            lines.extend(line.as_str().map(str::to_owned));
        }
        let payload = serde_json::json!({
            "hook_event_name": "UserPromptSubmit", "session_id": "s", "prompt": "go on",
        });
        for line in &lines {
            let like = scene.command(&[]);
            let mut shell = Command::new("sh");
            shell.args(["-c", line]).env_clear().current_dir(scene.path(""));
            shell.envs(like.get_envs().filter_map(|(name, value)| Some((name, value?))));
            let path = std::env::var("PATH").unwrap();
            let folder = scene.program.parent().unwrap().to_str().unwrap();
            shell.env("PATH", format!("{folder}:{path}"));
            shell.env("CLAUDE_PROJECT_DIR", scene.path(""));
            let mut child = shell.stdin(Stdio::piped()).spawn().unwrap();
            let mut stream = child.stdin.take().unwrap();
            // One that stands aside may not read it.
            let _ = std::io::Write::write_all(&mut stream, payload.to_string().as_bytes());
            drop(stream);
            assert!(child.wait().unwrap().success());
        }
        (lines.len(), count(&scene) - before)
    };
    scene.json(&["integrate", "claude", "--user"]);
    assert_eq!(told(), (1, 1));
    scene.json(&["integrate", "claude", "--shared"]);
    assert_eq!(told(), (2, 1));
    scene.json(&["integrate", "claude"]);
    assert_eq!(told(), (3, 1));
    // The local ones call a program that is gone: the others are heard again.
    let text = fs::read_to_string(scene.path(LOCAL)).unwrap();
    let program = scene.program.to_str().unwrap();
    fs::write(scene.path(LOCAL), text.replace(program, "/no/such/rappel")).unwrap();
    assert_eq!(told(), (3, 1));
}
