//! `rappel guard` and the hook before destructive commands, through the real binary: what the
//! checkpoint holds although git ignores it, what it says it does not hold, and what comes back.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may")]

mod support;

use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use support::World;
use support::guarded::{before, git, newest, restore, shell, tell, world};
use support::terminal::OnTerminal;

#[test]
fn an_ignored_folder_that_a_command_names_comes_back() {
    let world = world();
    let old = world.save("before all");
    assert_eq!(before(&world, "rm -rf secret"), None);
    let saved = newest(&world);
    assert_eq!(saved["description"], "Before rm -rf secret");
    assert!(shell(&world, "rm -rf secret").status.success());
    restore(&world, &saved);
    assert_eq!(world.read("secret/.env"), "TOKEN=1\n");
    assert_eq!(world.read("secret/deep/key"), "key\n");

    // Another checkpoint knows nothing of them, and leaves them alone.
    world.write("a.txt", "changed\n");
    let report = world.json(&["restore", &old, "--confirm"]);
    assert_eq!(report["summary"]["files"]["delete"], 0, "{report}");
    assert_eq!(world.read("secret/.env"), "TOKEN=1\n");
    // Neither does going back and forth.
    world.json(&["undo", "--confirm"]);
    assert_eq!(world.read("secret/.env"), "TOKEN=1\n");
}

#[test]
fn an_ignored_file_that_an_editor_names_comes_back() {
    let world = world();
    world.save("before all");
    let path = world.project.path("settings.local");
    let call = json!({"tool_name": "Write", "tool_input": {"file_path": path, "content": "x"}});
    tell(&world, "PreToolUse", &call);
    world.write("settings.local", "theirs\n");
    tell(&world, "PostToolUse", &call);
    let list = world.json(&["list"]);
    let held = |one: &Value| {
        let file = format!("{}:settings.local", one["id"].as_str().unwrap());
        world.run(&["cat", &file]).stdout == b"mine\n"
    };
    let all = list["checkpoints"].as_array().unwrap();
    let saved = all.iter().find(|one| held(one)).unwrap_or_else(|| panic!("{list}"));
    restore(&world, saved);
    assert_eq!(world.read("settings.local"), "mine\n");
}

#[test]
fn undo_of_a_prompt_names_the_ignored_files_that_it_does_not_bring_back() {
    let world = world();
    world.save("before all");
    tell(&world, "SessionStart", &json!({"source": "startup"}));
    tell(&world, "UserPromptSubmit", &json!({"prompt": "wipe it", "prompt_id": "p1"}));
    before(&world, "rm -rf secret");
    shell(&world, "rm -rf secret");
    let undo = |world: &World| {
        let answer = tell(world, "UserPromptSubmit", &json!({"prompt": "/rappel:undo --prompt"}));
        answer["reason"].as_str().unwrap_or_default().to_owned()
    };
    let saved = newest(&world)["id"].as_str().unwrap().to_owned();
    let said = undo(&world);
    assert!(said.contains("files that git ignores"), "{said}");
    assert!(said.contains(&format!("rappel restore {saved} --path secret")), "{said}");
    world.write("a.txt", "changed\n");
    let said = undo(&world);
    assert!(said.contains(&format!("restore {saved} -- secret")), "{said}");
    assert!(said.contains("The prompt was:\nwipe it"), "{said}");
}

#[test]
fn undo_of_a_prompt_names_an_ignored_file_that_edits_overwrote() {
    let world = world();
    world.save("before all");
    tell(&world, "SessionStart", &json!({"source": "startup"}));
    tell(&world, "UserPromptSubmit", &json!({"prompt": "set it", "prompt_id": "p1"}));
    let path = world.project.path("settings.local");
    let call = json!({"tool_name": "Write", "tool_input": {"file_path": path}});
    for text in ["theirs\n", "theirs again\n"] {
        tell(&world, "PreToolUse", &call);
        world.write("settings.local", text);
        tell(&world, "PostToolUse", &call);
    }
    world.write("a.txt", "changed\n");
    let answer = tell(&world, "UserPromptSubmit", &json!({"prompt": "/rappel:undo --prompt"}));
    let said = answer["reason"].as_str().unwrap_or_default();
    let line = said.lines().find(|line| line.contains("-- settings.local"));
    let words = line.unwrap_or_else(|| panic!("{said}")).trim().strip_prefix("rappel ").unwrap();
    let words: Vec<&str> = words.split(' ').collect();
    let words = [&words[..2], &["--confirm"], &words[2..]].concat();
    assert!(world.run(&words).status.success(), "{words:?}");
    assert_eq!(world.read("settings.local"), "mine\n", "as it was before the prompt");
}

#[test]
fn git_of_a_repository_in_an_ignored_folder_is_named_as_left_out() {
    let world = world();
    world.save("before all");
    world.write("secret/inner/x", "x\n");
    git(&world, &["init", "-q", "secret/inner"]);
    let said = before(&world, "rm -rf secret").unwrap_or_default();
    assert!(said.contains("secret/inner/.git (git's folder"), "{said}");
    let left_out = newest(&world)["files"]["skipped"].to_string();
    assert!(left_out.contains("secret/inner/.git"), "{left_out}");
}

#[test]
fn git_clean_takes_what_is_ignored_and_the_message_names_the_rest() {
    let world = world();
    world.save("before all");
    let message = before(&world, "git clean -fdx").unwrap();
    assert!(message.contains("node_modules") && !message.contains("secret"), "{message}");
    let saved = newest(&world);
    let skipped = saved["files"]["skipped"].as_array().unwrap();
    assert_eq!(skipped.len(), 1, "{skipped:?}");
    assert_eq!(skipped[0]["path"], "node_modules");
    git(&world, &["clean", "-qfdx"]);
    assert!(!world.project.path("settings.local").exists());
    restore(&world, &saved);
    assert_eq!(world.read("secret/.env"), "TOKEN=1\n");
    assert_eq!(world.read("settings.local"), "mine\n");
    assert!(!world.project.path("node_modules").exists());
}

#[test]
fn what_no_checkpoint_can_hold_is_named() {
    let world = world();
    world.write("rappel.toml", "[files]\nmax_file_size = \"1KiB\"\nexclude = [\"*.key\"]\n");
    world.write("secret/large", &"x".repeat(2000));
    world.write("secret/my.key", "k");
    world.save("before all");
    let outside = world.project.outside().join("elsewhere");
    std::fs::write(&outside, "text").unwrap();
    let message = before(&world, &format!("rm -rf secret {} \"$X\"", outside.display())).unwrap();
    for words in ["secret/large", "max_file_size", "secret/my.key", "elsewhere", "$X"] {
        assert!(message.contains(words), "{words} is not in {message}");
    }
    let saved = newest(&world);
    assert_eq!(saved["metadata"]["operation"]["unknown"], json!(["\"$X\""]));
    let outside = saved["metadata"]["operation"]["outside"].to_string();
    assert!(outside.contains("elsewhere"), "{saved}");
}

#[test]
fn a_destructive_command_gets_a_checkpoint_even_if_nothing_changed() {
    let world = world();
    world.save("before all");
    for _ in 0..2 {
        before(&world, "git reset --hard");
    }
    before(&world, "git status");
    let list = world.json(&["list"]);
    let all = list["checkpoints"].as_array().unwrap();
    let count = |trigger: &str| all.iter().filter(|one| one["trigger"] == trigger).count();
    assert_eq!((count("pre-operation"), count("code-modified")), (2, 0), "{list}");
    let trees: Vec<&Value> = all
        .iter()
        .filter(|one| one["trigger"] == "pre-operation")
        .map(|one| &one["files"]["tree"])
        .collect();
    assert_eq!(trees[0], trees[1]);
}

#[test]
fn the_first_checkpoint_of_a_workspace_holds_ignored_files_too() {
    let world = world();
    assert_eq!(before(&world, "rm settings.local"), None);
    let saved = newest(&world);
    world.remove("settings.local");
    restore(&world, &saved);
    assert_eq!(world.read("settings.local"), "mine\n");
}

#[test]
fn the_files_of_a_removed_work_tree_come_back_with_those_that_git_ignores() {
    let world = world();
    let place = world.project.outside().join("wt");
    let place = place.to_str().unwrap();
    git(&world, &["worktree", "add", "-q", place]);
    std::fs::write(format!("{place}/new.txt"), "new\n").unwrap();
    std::fs::write(format!("{place}/my.local"), "mine\n").unwrap();
    world.save("before all");
    let command = format!("git worktree remove --force {place}");
    assert_eq!(before(&world, &command), None);
    let saved = newest(&world);
    git(&world, &["worktree", "remove", "--force", place]);
    restore(&world, &saved);
    for (name, text) in [("new.txt", "new\n"), ("my.local", "mine\n")] {
        assert_eq!(std::fs::read_to_string(format!("{place}/{name}")).unwrap(), text);
    }
}

#[test]
fn guard_saves_and_becomes_the_command() {
    let world = world();
    world.save("before all");
    let output = world.run(&["guard", "--", "sh", "-c", "rm -rf secret; cat; exit 7"]);
    assert_eq!(output.status.code(), Some(7), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.starts_with("rappel: saved chk_"), "{said}");
    let saved = newest(&world);
    assert_eq!(saved["description"], "Before sh -c 'rm -rf secret; cat; exit 7'");
    restore(&world, &saved);
    assert_eq!(world.read("secret/.env"), "TOKEN=1\n");

    // What the command will find in its environment is known.
    let line = ["guard", "--", "sh", "-c", "rm -rf \"$D\" $UNSET"];
    let output = world.command(&line).env("D", "secret").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("unknown before it runs: $UNSET") && !said.contains("\"$D\","), "{said}");
    restore(&world, &newest(&world));
    assert_eq!(world.read("secret/.env"), "TOKEN=1\n");

    let mut child = world.command(&["guard", "--", "sh", "-c", "cat; kill -TERM $$"]);
    let mut child = child.stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"through\n").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.stdout, b"through\n");
    assert_eq!(output.status.signal(), Some(15), "{output:?}");
}

#[test]
fn guard_does_not_run_a_command_that_it_could_not_save_before() {
    let world = world();
    let output = world
        .command(&["guard", "--", "rm", "-rf", "secret"])
        .env("RAPPEL_HOME", "/proc/nowhere")
        .output()
        .unwrap();
    assert!(!output.status.success(), "{output:?}");
    assert_eq!(world.read("secret/.env"), "TOKEN=1\n");
}

#[test]
fn a_command_that_cannot_be_run_ends_as_in_a_shell() {
    let world = world();
    for (program, code) in [("no-such-program", 127), ("./a.txt", 126)] {
        let output = world.run(&["guard", "--", program]);
        assert_eq!(output.status.code(), Some(code), "{output:?}");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains(&format!("cannot run {program}")), "{said}");
    }
}

#[test]
fn a_quiet_guard_says_nothing_of_its_own() {
    let world = world();
    let output = world.run(&["-q", "guard", "--", "sh", "-c", "echo out; echo err >&2"]);
    assert_eq!((&*output.stdout, &*output.stderr), (&b"out\n"[..], &b"err\n"[..]));
    assert_eq!(newest(&world)["description"], "Before sh -c 'echo out; echo err >&2'");
    let output = world.run(&["guard", "-q", "--line", "rm -rf secret"]);
    assert!(output.stderr.is_empty() && output.status.success(), "{output:?}");
}

#[test]
fn the_function_for_a_shell_is_no_json() {
    let world = world();
    let output = world.run(&["guard", "--shell", "bash", "--json"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(output.stdout.is_empty());
    let said: Value = serde_json::from_slice(&output.stderr).unwrap();
    assert_eq!(said["error"]["kind"], "usage", "{said}");
}

#[test]
fn a_guarded_command_has_the_terminal_to_itself() {
    let world = world();
    world.save("before all");
    let script = "test -t 0 && test -t 1 && test -t 2 && echo ready && read answer && \
                  echo \"got $answer\"; rm -rf secret; exit 3";
    let shown = world.on_terminal(&["guard", "--", "sh", "-c", script], &[("ready", "yes\n")]);
    assert!(shown.text.contains("got yes"), "{}", shown.text);
    assert_eq!(shown.code, 3, "{}", shown.text);
    restore(&world, &newest(&world));
    assert_eq!(world.read("secret/.env"), "TOKEN=1\n");
    // With the terminal in charge, the signal of a key reaches the command, and ends it.
    let script = "trap 'exit 9' INT; echo ready; while :; do sleep 0.01; done";
    let plain = world.command(&["guard", "--", "sh", "-c", script]);
    let mut command = Command::new("setsid");
    command.arg("--ctty").arg(plain.get_program()).args(plain.get_args());
    command.current_dir(world.project.root()).env_clear();
    command.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let mut is_typed = false;
    let shown = OnTerminal::start(command).watch(|text, mut master, _| {
        if !is_typed && text.contains("ready\r\n") {
            master.write_all(b"\x03").unwrap();
            is_typed = true;
        }
    });
    assert_eq!((is_typed, shown.code), (true, 9), "{}", shown.text);
}

/// Types lines into a shell that has the function of `rappel guard --shell`.
fn typed(world: &World, name: &str, arguments: &[&str], script: &str) -> Option<Output> {
    if Command::new(name).arg("--version").output().is_err() {
        rappel_testing::cannot_run(&format!("{name} is not installed"));
        return None;
    }
    let bin = std::path::Path::new(env!("CARGO_BIN_EXE_rappel")).parent().unwrap().to_owned();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let mut command = Command::new(name);
    command
        .args(arguments)
        .current_dir(world.project.root())
        .env("PATH", path)
        .env("HOME", world.project.outside().join("user"))
        .env("RAPPEL_HOME", &world.home)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    Some(child.wait_with_output().unwrap())
}

/// What a shell did with an ordinary line and a destructive one.
fn check_shell(name: &str, arguments: &[&str], script: &str) {
    let world = world();
    world.save("before all");
    let Some(output) = typed(&world, name, arguments, script) else { return };
    let said = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<&str> = said.lines().filter(|line| line.contains("rappel: saved")).collect();
    assert_eq!(lines.len(), 1, "{name}: {said}");
    assert!(lines[0].contains("before rm -rf secret"), "{name}: {said}");
    assert!(!world.project.path("secret").exists(), "{name}: {said}");
    let saved = newest(&world);
    restore(&world, &saved);
    assert_eq!(world.read("secret/.env"), "TOKEN=1\n");
}

#[test]
fn bash_guards_what_is_typed() {
    let script = "eval \"$(rappel guard --shell bash)\"\nls > /dev/null\nrm -rf secret\nexit\n";
    check_shell("bash", &["--norc", "--noprofile", "-i"], script);
}

#[test]
fn bash_keeps_its_last_argument_and_the_users_own_trap() {
    let world = world();
    let script = "trap 'seen=yes' DEBUG\n\
                  eval \"$(rappel guard --shell bash)\"\n\
                  eval \"$(rappel guard --shell bash)\"\n\
                  mkdir fresh && cd $_\npwd\necho \"seen=$seen\"\ntrap -p DEBUG\nexit\n";
    let Some(output) = typed(&world, "bash", &["--norc", "--noprofile", "-i"], script) else {
        return;
    };
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.lines().any(|line| line.ends_with("/fresh")), "{said}");
    assert!(said.contains("seen=yes"), "{said}");
    assert_eq!(said.matches("__rappel_guard").count(), 1, "{said}");
}

#[test]
fn a_shell_says_that_it_runs_what_could_not_be_saved() {
    let world = world();
    let script = "eval \"$(rappel guard --shell bash)\"\nexport RAPPEL_HOME=/proc/none\n\
                  rm -rf secret\nexit\n";
    let Some(output) = typed(&world, "bash", &["--norc", "--noprofile", "-i"], script) else {
        return;
    };
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("rappel: NOT saved before rm -rf secret, which runs now"), "{said}");
}

#[test]
fn zsh_guards_what_is_typed() {
    let script = "eval \"$(rappel guard --shell zsh)\"\nls > /dev/null\nrm -rf secret\nexit\n";
    check_shell("zsh", &["-f", "-i", "-s"], script);
}

#[test]
fn a_line_that_only_begins_with_rappel_is_guarded() {
    for (name, arguments, script) in [
        (
            "zsh",
            &["-f", "-i", "-s"][..],
            "eval \"$(rappel guard --shell zsh)\"\n\
             rappel status -q && rm -rf secret || rm -rf secret\nexit\n",
        ),
        (
            "fish",
            &["--no-config"],
            "rappel guard --shell fish | source\n\
             for line in 'rappel list' 'rappel status -q; rm -rf secret'\n\
             emit fish_preexec $line\neval $line\nend\n",
        ),
    ] {
        let world = world();
        world.save("before all");
        let Some(output) = typed(&world, name, arguments, script) else { return };
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(said.matches("rappel: saved").count(), 1, "{name}: {said}");
        restore(&world, &newest(&world));
        assert_eq!(world.read("secret/.env"), "TOKEN=1\n", "{name}");
    }
}

#[test]
fn rules_that_changed_since_the_last_save_are_todays() {
    for (rule, command) in [
        ("echo out >> .git/info/exclude", "rm -rf out"),
        ("echo out >> .git/info/exclude", "git clean -fdxq"),
        ("echo '*.txt' >> .git/info/exclude", "rm out/d.txt"),
        ("echo out >> more && git config core.excludesFile \"$PWD/more\"", "rm -rf out"),
    ] {
        let world = world();
        world.save("before all");
        assert!(shell(&world, rule).status.success());
        world.write("out/d.txt", "data\n");
        before(&world, command);
        assert!(shell(&world, command).status.success());
        assert!(!world.project.path("out/d.txt").exists(), "{command}");
        restore(&world, &newest(&world));
        assert_eq!(world.read("out/d.txt"), "data\n", "{rule}; {command}");
    }
}

#[test]
fn git_clean_with_patterns_and_links_that_commands_go_through_take_what_is_ignored() {
    for (command, path) in [
        ("git clean -fx '*.local'", "settings.local"),
        ("cd src && git clean -fdxq :/", "secret/.env"),
        ("git clean -fdxq -- ':!src'", "secret/.env"),
        ("echo x > link", "settings.local"),
        ("truncate -s 0 link", "settings.local"),
        ("find folder/ -type f -delete", "secret/.env"),
    ] {
        let world = world();
        assert!(shell(&world, "ln -s settings.local link; ln -s secret folder").status.success());
        world.save("before all");
        let content = world.read(path);
        before(&world, command);
        assert!(shell(&world, command).status.success(), "{command}");
        restore(&world, &newest(&world));
        assert_eq!(world.read(path), content, "{command}");
    }
}

#[test]
fn each_version_of_an_ignored_file_is_saved_before_an_edit() {
    let world = world();
    let path = world.project.path("settings.local").to_str().unwrap().to_owned();
    let edit = |world: &World| {
        let call = json!({"tool_name": "Write", "tool_input": {"file_path": path}});
        tell(world, "PreToolUse", &call);
    };
    // The first one begins the history of the workspace.
    for version in ["one\n", "two\n", "three\n"] {
        world.write("settings.local", version);
        edit(&world);
        let list = world.json(&["list", "--all"]);
        let held = list["checkpoints"].as_array().unwrap().iter().any(|one| {
            let place = format!("{}:settings.local", one["id"].as_str().unwrap());
            world.run(&["cat", &place]).stdout == version.as_bytes()
        });
        assert!(held, "{version}");
    }
}

#[test]
fn an_edit_is_taken_back_where_git_checkout_names_a_path_without_dashes() {
    for command in ["git checkout -q src", "git checkout -q HEAD src", "git checkout -q plain"] {
        let world = world();
        world.write("plain", "committed\n");
        git(&world, &["add", "plain"]);
        git(&world, &["commit", "-q", "-m", "plain"]);
        world.save("before all");
        world.write("src/main.rs", "work\n");
        world.write("plain", "work\n");
        before(&world, command);
        assert_eq!(newest(&world)["description"], format!("Before {command}"));
        assert!(shell(&world, command).status.success());
        restore(&world, &newest(&world));
        assert_eq!(world.read("src/main.rs"), "work\n", "{command}");
        assert_eq!(world.read("plain"), "work\n", "{command}");
    }
}

#[test]
fn what_a_checkpoint_leaves_out_by_its_own_rules_is_named_too() {
    let world = world();
    world.write("rappel.toml", "[files]\nmax_file_size = \"1KiB\"\n");
    world.write("model.bin", &"x".repeat(2000));
    world.save("before all");
    for command in ["rm model.bin", "git clean -fd", "git clean -f ."] {
        let message = before(&world, command).unwrap();
        assert!(message.contains("model.bin"), "{command}: {message}");
    }
    let message = before(&world, "git clean -fd src");
    assert!(!message.unwrap_or_default().contains("model.bin"));
}

#[test]
fn a_database_that_is_not_saved_is_named_before_it_is_dropped() {
    let world = world();
    world.save("before all");
    let message = before(&world, "dropdb app").unwrap();
    assert!(message.contains("databases not saved: none is configured"), "{message}");
    let saved = newest(&world);
    assert_eq!(saved["metadata"]["operation"]["databases"][0], "none is configured");
    let shown = world.face(&["show", saved["id"].as_str().unwrap()]);
    assert!(shown.contains("databases not saved: none is configured"), "{shown}");
    assert!(!shown.contains("{\""), "{shown}");
    world.write(
        "rappel.toml",
        "[[database]]\nname = \"app\"\nurl = \"postgres://nobody@127.0.0.1:1/app\"\n",
    );
    let message = before(&world, "prisma migrate reset --force").unwrap();
    assert!(message.contains("databases not saved: app: "), "{message}");
}

#[test]
fn fish_guards_what_is_typed() {
    // Fish tells what is typed at a terminal only; the event is the one that it sends.
    let script = "rappel guard --shell fish | source\n\
                  for line in 'ls > /dev/null' 'rm -rf secret'\n\
                  emit fish_preexec $line\neval $line\nend\n";
    check_shell("fish", &["--no-config"], script);
}

#[test]
fn a_lost_repository_is_told_until_a_person_saves_without_it() {
    let world = world();
    let saved = world.save("before all");
    assert!(shell(&world, "rm -rf .git").status.success());
    let status = |world: &World| world.json_at_any_exit(&["status"]);
    assert_eq!(status(&world)["state"], "degraded");
    assert!(world.run(&["guard", "--", "true"]).status.success());
    let after = status(&world);
    assert_eq!(after["state"], "degraded", "{after}");
    assert!(after["hints"].to_string().contains(&saved), "{after}");
    world.run(&["save", "without git"]);
    assert_eq!(status(&world)["state"], "protected");
}
