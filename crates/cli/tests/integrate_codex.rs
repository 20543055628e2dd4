//! Codex and the hooks that `rappel integrate codex` writes: which of them it runs, as the real
//! Codex 0.166.0 was seen to do, and that one of them tells an event.

#![allow(clippy::unwrap_used, reason = "tests may")]

mod support;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rappel_testing::git::git;
use serde_json::{Value, json};
use support::scene::Scene;

const FILE: &str = ".codex/hooks.json";

fn run(scene: &Scene, agent: &str, more: &[&str]) -> Value {
    scene.json(&[&["integrate", agent], more].concat())
}

fn status_in(scene: &Scene, folder: &Path) -> Value {
    let output = scene.command(&["status", "--json"]).current_dir(folder).output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap()
}

/// What `status` says of Codex.
fn integration(scene: &Scene, agent: &str) -> Value {
    let status = status_in(scene, scene.world.project.root());
    let all = status["integrations"].as_array().unwrap();
    all.iter().find(|one| one["agent"] == agent).cloned().unwrap_or_default()
}

fn state(scene: &Scene, agent: &str) -> Value {
    integration(scene, agent)["state"].clone()
}

/// The hints of `status` about integrations; others are about saves.
fn hints(scene: &Scene) -> Vec<String> {
    let status = status_in(scene, scene.world.project.root());
    let all = status["hints"].as_array().unwrap().iter().map(|hint| hint.as_str().unwrap());
    all.filter(|hint| !hint.contains("rappel save")).map(str::to_owned).collect()
}

fn short(scene: &Scene) -> String {
    String::from_utf8(scene.run(&["status", "--short"]).stdout).unwrap()
}

fn config(scene: &Scene) -> PathBuf {
    scene.user().join(".codex/config.toml")
}

fn settings(file: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap()
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

/// What Codex writes into its `config.toml` when its user confirms every hook of a file.
fn confirmed(file: &Path) -> String {
    let mut config = String::new();
    for (event, groups) in settings(file)["hooks"].as_object().unwrap() {
        let mut name = String::new();
        for letter in event.chars() {
            if letter.is_uppercase() && !name.is_empty() {
                name.push('_');
            }
            name.extend(letter.to_lowercase());
        }
        for (number, group) in groups.as_array().unwrap().iter().enumerate() {
            let handler = &group["hooks"][0];
            let command = handler["command"].as_str().unwrap();
            let hash = hash(&name, command, handler["timeout"].as_u64().unwrap());
            let key = format!("{}:{name}:{number}:0", file.display());
            config.push_str(&format!("[hooks.state.\"{key}\"]\ntrusted_hash = \"{hash}\"\n"));
        }
    }
    config
}

fn decided(folder: &Path, level: &str) -> String {
    format!("[projects.\"{}\"]\ntrust_level = \"{level}\"\n", folder.display())
}

/// Tells an event to our hooks in these files, as Codex does that works in a folder. Returns what
/// each of them answered.
fn tell(
    scene: &Scene,
    files: &[&Path],
    folder: &Path,
    payload: &Value,
    flags: &[&str],
) -> Vec<String> {
    let mut payload = payload.clone();
    payload["session_id"] = "s".into();
    payload["cwd"] = folder.to_str().unwrap().into();
    let event = payload["hook_event_name"].as_str().unwrap();
    let groups = files.iter().map(|file| settings(file)["hooks"][event].clone());
    let lines =
        groups.filter_map(|groups| Some(groups[0]["hooks"][0]["command"].as_str()?.to_owned()));
    let lines: Vec<String> = lines.collect();
    let answer = |line: &String| {
        let like = scene.command(&[]);
        let mut shell = Command::new("sh");
        shell.args(["-c", line, "codex"]).args(flags).env_clear().current_dir(folder);
        shell.envs(like.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let mut child = shell.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut stream = child.stdin.take().unwrap();
        // A hook that stands aside may end before it has read all.
        let _ = stream.write_all(payload.to_string().as_bytes());
        drop(stream);
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success());
        String::from_utf8(output.stdout).unwrap()
    };
    lines.iter().map(answer).collect()
}

/// Which of the files answer a command that is typed as a prompt: `-` for one that stands aside.
fn answering(scene: &Scene, files: &[&Path], folder: &Path) -> String {
    answering_with(scene, files, folder, &[])
}

/// The same with flags of Codex.
fn answering_with(scene: &Scene, files: &[&Path], folder: &Path, flags: &[&str]) -> String {
    let payload = json!({"hook_event_name": "UserPromptSubmit", "prompt": "rappel list"});
    let answers = tell(scene, files, folder, &payload, flags);
    answers.iter().map(|answer| if answer.is_empty() { '-' } else { 'x' }).collect()
}

/// A repository with a folder in it, and hooks of Codex for the user and for the project.
fn two_scopes() -> (Scene, PathBuf, PathBuf, PathBuf) {
    let scene = Scene::new();
    let root = fs::canonicalize(scene.world.project.root()).unwrap();
    git(&root, &["init", "-q"]);
    fs::create_dir_all(root.join("src/deep")).unwrap();
    run(&scene, "codex", &["--user"]);
    run(&scene, "codex", &[]);
    let (user, project) = (scene.user().join(FILE), root.join(FILE));
    fs::write(config(&scene), decided(&root, "trusted") + &confirmed(&user) + &confirmed(&project))
        .unwrap();
    (scene, root, user, project)
}

#[test]
fn one_of_two_scopes_tells_an_event_wherever_codex_works() {
    let (scene, root, user, project) = two_scopes();
    let files = [&*user, &*project];
    assert_eq!(answering(&scene, &files, &root), "-x");
    assert_eq!(answering(&scene, &files, &root.join("src/deep")), "-x");
    // Codex does not run the project's where the user does not trust the folder, but for the user's
    // own decision about a folder below.
    let all = fs::read_to_string(config(&scene)).unwrap();
    let untrusted = all.replace("trust_level = \"trusted\"", "trust_level = \"untrusted\"");
    fs::write(config(&scene), &untrusted).unwrap();
    assert_eq!(answering(&scene, &[&user], &root.join("src/deep")), "x");
    // Above the repository, Codex looks for no hooks.
    fs::write(config(&scene), &all).unwrap();
    let inner = root.join("src/deep/inner");
    fs::create_dir(&inner).unwrap();
    git(&inner, &["init", "-q"]);
    assert_eq!(answering(&scene, &[&user], &inner), "x");
}

#[test]
fn a_hook_that_does_not_run_leaves_its_event_and_no_other_to_the_users() {
    let (scene, root, user, project) = two_scopes();
    let all = fs::read_to_string(config(&scene)).unwrap();
    let state = |name: &str| format!("[hooks.state.\"{}:{name}:0:0\"]\n", project.display());
    let prompt = state("user_prompt_submit");
    let call = state("pre_tool_use");
    assert!(all.contains(&prompt) && all.contains(&call), "{all}");
    let files = [&*user, &*project];
    // Which hooks run of another event does not matter.
    let answers = |off: &str| {
        fs::write(config(&scene), all.replace(off, &format!("{off}enabled = false\n"))).unwrap();
        answering(&scene, &files, &root)
    };
    assert_eq!(answers(&call), "-x");
    assert_eq!(answers(&prompt), "xx");
    let changed = |of: &str| {
        let (before, after) = all.split_once(of).unwrap();
        let text = format!("{before}{of}{}", after.replacen("sha256:", "sha256:0", 1));
        fs::write(config(&scene), text).unwrap();
        answering(&scene, &files, &root)
    };
    assert_eq!(changed(&call), "-x");
    assert_eq!(changed(&prompt), "xx");
    let bypass = ["exec", "--dangerously-bypass-hook-trust"];
    assert_eq!(answering_with(&scene, &files, &root, &bypass), "-x");
    // The project has lost the hook that saves before a call: the user's does it.
    fs::write(config(&scene), &all).unwrap();
    let mut hooks = settings(&project);
    hooks["hooks"].as_object_mut().unwrap().remove("PreToolUse");
    fs::write(&project, hooks.to_string()).unwrap();
    assert_eq!(answering(&scene, &files, &root), "-x");
    let payload = json!({
        "hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_use_id": "call_1",
        "tool_input": {"command": "rm -rf a.txt"},
    });
    tell(&scene, &files, &root, &payload, &[]);
    let listed = scene.json(&["list", "--all"]).to_string();
    assert!(listed.contains("Before rm -rf a.txt"), "{listed}");
}

#[test]
fn the_first_decision_about_folder_repository_and_main_checkout_counts() {
    let scene = Scene::new();
    let root = fs::canonicalize(scene.world.project.root()).unwrap();
    git(&root, &["init", "-q"]);
    let package = root.join("pkg");
    fs::create_dir(&package).unwrap();
    fs::write(package.join("rappel.toml"), "").unwrap();
    let integrate = ["integrate", "codex", "--json"];
    assert!(scene.command(&integrate).current_dir(&package).status().unwrap().success());
    let state = |decisions: &[(&Path, &str)]| {
        let text: String = decisions.iter().map(|(folder, level)| decided(folder, level)).collect();
        fs::create_dir_all(scene.user().join(".codex")).unwrap();
        fs::write(config(&scene), text).unwrap();
        status_in(&scene, &package)["integrations"][0]["state"].clone()
    };
    let above = root.parent().unwrap();
    assert_eq!(state(&[(above, "trusted")]), "untrusted-folder");
    assert_eq!(state(&[(&root, "trusted")]), "unconfirmed");
    assert_eq!(state(&[(&root, "trusted"), (&package, "untrusted")]), "untrusted-folder");
    assert_eq!(state(&[(&root, "untrusted"), (&package, "trusted")]), "unconfirmed");
}

#[test]
fn a_linked_work_tree_has_the_hooks_of_the_main_checkout() {
    let (scene, root, user, project) = two_scopes();
    git(&root, &["commit", "-q", "--allow-empty", "-m", "one"]);
    let tree = fs::canonicalize(scene.world.project.outside()).unwrap().join("tree");
    git(&root, &["worktree", "add", "-q", tree.to_str().unwrap()]);
    let before = scene.everything();
    let integrate = |flags: &[&str]| {
        let arguments = [&["integrate", "codex"], flags].concat();
        scene.command(&arguments).current_dir(&tree).output().unwrap()
    };
    for flags in [&[][..], &["--shared"]] {
        let output = integrate(flags);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{said}");
        let again = format!("rappel integrate codex -C {}", root.display());
        assert!(said.contains(&again) && said.contains("--user"), "{said}");
    }
    assert!(!tree.join(".codex").exists());
    assert_eq!(scene.everything(), before);
    // Codex looks in the main checkout only where the work tree has the folder too.
    let places = || -> Vec<String> {
        let status = status_in(&scene, &tree);
        let all = status["integrations"].as_array().unwrap().iter();
        all.map(|one| one["place"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(places(), [user.to_str().unwrap()]);
    assert_eq!(answering(&scene, &[&user], &tree), "x");
    fs::create_dir(tree.join(".codex")).unwrap();
    assert_eq!(places(), [project.to_str().unwrap(), user.to_str().unwrap()]);
    assert_eq!(answering(&scene, &[&user, &project], &tree), "-x");
    // A file of the work tree itself does nothing.
    fs::copy(&project, tree.join(FILE)).unwrap();
    fs::remove_file(&project).unwrap();
    assert!(!places().contains(&tree.join(FILE).to_str().unwrap().to_owned()));
    assert_eq!(answering(&scene, &[&user], &tree), "x");
    // One that an earlier version wrote is taken out.
    assert!(integrate(&["--remove"]).status.success());
    assert!(!tree.join(FILE).exists());
    assert!(integrate(&["--user"]).status.success());
}

#[test]
fn hooks_of_the_user_keep_their_places() {
    let scene = Scene::new();
    run(&scene, "codex", &["--user"]);
    let file = scene.user().join(FILE);
    let guard = json!({"hooks": [{"type": "command", "command": "guard", "timeout": 5}]});
    let places = || -> Vec<usize> {
        let groups = |event: &str| settings(&file)["hooks"][event].as_array().unwrap().clone();
        let place = |event: &str| groups(event).iter().position(|group| *group == guard).unwrap();
        ["PreToolUse", "Stop"].map(place).to_vec()
    };
    let edit = |change: &dyn Fn(&mut Value)| {
        let mut all = settings(&file);
        change(&mut all["hooks"]);
        fs::write(&file, serde_json::to_string_pretty(&all).unwrap()).unwrap();
    };
    edit(&|hooks| {
        hooks["PreToolUse"].as_array_mut().unwrap().push(guard.clone());
        hooks["Stop"].as_array_mut().unwrap().insert(0, guard.clone());
    });
    assert_eq!(places(), [1, 0]);
    let whole = settings(&file);
    // One event is lost, another one has the hook of a program that has moved.
    edit(&|hooks| {
        hooks.as_object_mut().unwrap().remove("PreCompact");
        let text = hooks["PreToolUse"][0].to_string();
        let moved = text.replace(scene.program.to_str().unwrap(), "/old/rappel");
        hooks["PreToolUse"][0] = serde_json::from_str(&moved).unwrap();
    });
    assert_eq!(run(&scene, "codex", &["--user"])["changed"], true);
    assert_eq!(settings(&file), whole);
    assert_eq!(places(), [1, 0]);
    assert_eq!(run(&scene, "codex", &["--user"])["changed"], false);
    // Without ours, the one behind it is the first.
    let notes = run(&scene, "codex", &["--user", "--remove"])["notes"].to_string();
    assert!(notes.contains("another place") && notes.contains("codex exec"), "{notes}");
    let left = json!({"hooks": {"PreToolUse": [guard], "Stop": [guard]}});
    assert_eq!(settings(&file), left);
    // One before ours stays where it is.
    fs::remove_file(&file).unwrap();
    fs::write(&file, left.to_string()).unwrap();
    run(&scene, "codex", &["--user"]);
    let notes = run(&scene, "codex", &["--user", "--remove"])["notes"].to_string();
    assert!(!notes.contains("another place"), "{notes}");
}

#[test]
fn status_tells_which_hooks_of_codex_are_confirmed() {
    let scene = Scene::new();
    let answer = run(&scene, "codex", &["--user"]);
    assert!(answer["notes"][0].as_str().unwrap().contains("confirm"), "{answer}");
    assert_eq!(state(&scene, "codex"), "unconfirmed");
    let file = scene.user().join(".codex/hooks.json");
    let config = confirmed(&file);
    let path = scene.user().join(".codex/config.toml");
    fs::write(&path, &config).unwrap();
    assert_eq!(state(&scene, "codex"), "installed");
    assert_eq!(run(&scene, "codex", &["--user"])["notes"], json!([]));
    assert!(!short(&scene).contains("codex"), "{}", short(&scene));
    // The user switches one hook off, or all.
    let off = config.replacen("trusted_hash", "enabled = false\ntrusted_hash", 1);
    for (off, saying) in [
        (off, "enabled = false"),
        (format!("[features]\nhooks = false\n{config}"), "features.hooks = false"),
    ] {
        fs::write(&path, off).unwrap();
        let found = integration(&scene, "codex");
        assert_eq!(found["state"], "switched-off", "{found}");
        assert_eq!(found["switched_off"]["file"], path.to_str().unwrap());
        let [hint] = &hints(&scene)[..] else { panic!("{:?}", hints(&scene)) };
        assert!(hint.starts_with("take `") && hint.contains(saying), "{hint}");
        assert!(short(&scene).contains("hooks of codex switched off"), "{}", short(&scene));
        let notes = run(&scene, "codex", &["--user"])["notes"].to_string();
        assert!(notes.contains(saying), "{notes}");
    }
    fs::write(&path, &config).unwrap();
    // One event has lost its hook.
    let whole = fs::read_to_string(&file).unwrap();
    let mut settings: Value = serde_json::from_str(&whole).unwrap();
    settings["hooks"].as_object_mut().unwrap().remove("PreToolUse");
    fs::write(&file, settings.to_string()).unwrap();
    let found = integration(&scene, "codex");
    assert_eq!(found["state"], "missing-hooks", "{found}");
    assert_eq!(found["missing"], json!(["PreToolUse"]));
    assert_eq!(hints(&scene), ["rappel integrate codex --user"]);
    fs::write(&file, whole).unwrap();
    // A hook of the user's before ours moves ours, and so does another time limit.
    let moved =
        fs::read_to_string(&file).unwrap().replacen("\"timeout\": 125", "\"timeout\": 9", 1);
    fs::write(&file, moved).unwrap();
    assert_eq!(state(&scene, "codex"), "changed");
    let [hint] = &hints(&scene)[..] else { panic!("{:?}", hints(&scene)) };
    assert!(hint.contains("start codex") && hint.contains("Trust all"), "{hint}");
    assert!(short(&scene).contains("hooks of codex not confirmed"), "{}", short(&scene));
    // The hash is only ever read.
    assert_eq!(fs::read_to_string(&path).unwrap(), config);
}
