//! The commands that README and guides show are run in a scratch project: none is unknown, and none
//! takes other arguments than the page says.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may")]

mod support;

use std::path::{Path, PathBuf};
use std::process::Command;

use rappel_types::Config;
use support::World;

/// What the program says to a command that it does not know, or not like that.
const UNKNOWN: [&str; 3] = ["unexpected argument", "unrecognized subcommand", "invalid value"];

/// A page, by its name and text.
fn pages() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let in_folder = |folder: &str| {
        let entries = std::fs::read_dir(root.join(folder)).unwrap();
        entries.map(|entry| entry.unwrap().path()).collect::<Vec<PathBuf>>()
    };
    let mut paths =
        [vec![root.join("README.md")], in_folder("docs"), in_folder("docs/guide")].concat();
    paths.retain(|path| path.extension().is_some_and(|ending| ending == "md"));
    // That page is about bytes, some of which read like a command.
    paths.retain(|path| !path.ends_with("format.md"));
    paths.sort();
    assert!(paths.len() > 8, "{paths:?}");
    let named = |path: PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        (name, std::fs::read_to_string(path).unwrap())
    };
    paths.into_iter().map(named).collect()
}

/// The blocks of a page that show a shell, each as the lines that call `rappel`.
fn blocks(page: &str) -> Vec<Vec<String>> {
    let mut blocks = Vec::new();
    let mut block: Option<(String, Vec<String>)> = None;
    for line in page.lines() {
        let line = line.trim();
        match (&mut block, line.strip_prefix("```")) {
            (None, Some(language)) => block = Some((language.to_owned(), Vec::new())),
            (Some(_), Some(_)) => blocks.extend(block.take().map(|(_, lines)| lines)),
            (Some((language, lines)), None) => {
                let typed = match language.as_str() {
                    "console" => line.strip_prefix("$ "),
                    "sh" | "" => Some(line),
                    _ => None,
                };
                let calls = |line: &&str| {
                    line.starts_with("rappel ")
                        || line.contains("$(rappel ")
                        || line.contains("| rappel ")
                };
                lines.extend(typed.filter(calls).map(str::to_owned));
            }
            (None, None) => {}
        }
    }
    blocks.retain(|lines| !lines.is_empty());
    blocks
}

/// The commands that stand in a page's sentences.
fn inline(page: &str) -> Vec<String> {
    let mut in_block = false;
    let mut found = Vec::new();
    for line in page.lines() {
        if line.trim_start().starts_with("```") {
            in_block = !in_block;
        } else if !in_block {
            let code = line.split('`').skip(1).step_by(2);
            found.extend(code.filter(|code| code.starts_with("rappel ")).map(str::to_owned));
        }
    }
    found
}

/// A command with something in the place of each word that stands for something, and without what
/// may be left out.
fn filled_in(command: &str) -> String {
    let mut words = Vec::new();
    let mut optional = false;
    for word in command.split(' ') {
        optional |= word.starts_with('[');
        if !optional {
            words.push(match word {
                "REF" | "A" | "GOOD" | "BAD" => "latest",
                "REF:PATH" => "latest:a.txt",
                "REF:./f" => "latest:./a.txt",
                "PATH" | "P" => "a.txt",
                "WHEN" => "now",
                "ID" | "SESSION" => "s1",
                "COMMAND" => "save",
                "OLD_ROOT" => "/nowhere",
                "DIR" => "written",
                "N" | "LIMIT" => "1",
                word => word,
            });
        }
        optional &= !word.ends_with(']');
    }
    words.join(" ")
}

/// Types the lines into one shell; what each said on stderr, and its exit code.
fn typed(world: &World, lines: &[String]) -> Vec<(i32, String)> {
    let rappel = world.command::<&str>(&[]);
    let folder = Path::new(rappel.get_program()).parent().unwrap().to_owned();
    let errors = world.project.outside().join("errors");
    std::fs::create_dir_all(&errors).unwrap();
    // The agent that the pages run, which need not be installed here.
    let agents = world.project.outside().join("agents");
    std::fs::create_dir_all(&agents).unwrap();
    std::os::unix::fs::symlink("/bin/true", agents.join("claude")).ok();
    let mut script = String::new();
    for (place, line) in lines.iter().enumerate() {
        let said = errors.join(place.to_string());
        // These run until they are ended.
        let line = line.replacen("rappel watch", "timeout 2 rappel watch", 1);
        let line = line.replacen("rappel serve", "timeout 2 rappel serve", 1);
        // The shell's own redirection would take a comment at the end of the line for its target.
        script.push_str(&format!(
            "{{ {line}\n}} 2> '{0}' > /dev/null; echo $? > '{0}.code'\n",
            said.display()
        ));
    }
    let mut shell = Command::new("sh");
    shell.env_clear().envs(rappel.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let path = std::env::var("PATH").unwrap();
    let path = format!("{}:{}:{path}", folder.display(), agents.display());
    shell.env("PATH", path).arg("-c").arg(script).current_dir(world.project.root());
    shell.stdin(std::process::Stdio::null());
    assert!(shell.status().unwrap().success(), "{lines:?}");
    let read = |place: usize, ending: &str| {
        std::fs::read_to_string(errors.join(format!("{place}{ending}"))).unwrap()
    };
    (0..lines.len()).map(|at| (read(at, ".code").trim().parse().unwrap(), read(at, ""))).collect()
}

/// A project with a checkpoint and a session.
fn scratch() -> World {
    let world = World::new();
    world.save("Before adding Stripe");
    world.write("src/main.rs", "fn main() { pay() }\n");
    let agent = ["--provider", "claude", "--assistant-session-id", "7f3c1d52"];
    world.json(&[&["session", "start", "--session", "s1"], &agent[..]].concat());
    world
}

#[test]
fn what_the_pages_show_being_typed_can_be_typed() {
    let mut count = 0;
    for (name, page) in pages() {
        for block in blocks(&page) {
            let lines: Vec<String> = block.iter().map(|line| filled_in(line)).collect();
            for (line, (code, said)) in lines.iter().zip(typed(&scratch(), &lines)) {
                let known = UNKNOWN.iter().all(|words| !said.contains(words));
                assert!(code != 2 && code != 127 && known, "{name}: {line}: exit {code}: {said}");
                count += 1;
            }
        }
    }
    assert!(count > 40, "only {count} commands were found");
}

#[test]
fn what_the_pages_say_in_passing_is_known_too() {
    let mut count = 0;
    let world = scratch();
    for (name, page) in pages() {
        let lines: Vec<String> = inline(&page)
            .iter()
            .filter(|line| !line.contains('…'))
            .map(|line| filled_in(line))
            .collect();
        for (line, (code, said)) in lines.iter().zip(typed(&world, &lines)) {
            let known = UNKNOWN.iter().all(|words| !said.contains(words));
            assert!(code != 127 && known, "{name}: {line}: exit {code}: {said}");
            count += 1;
        }
    }
    assert!(count > 60, "only {count} commands were found");
}

/// Every Rust file of the project, by its path from the root.
fn sources() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut found = Vec::new();
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if entry.is_dir() {
                folders.push(entry);
            } else if entry.extension().is_some_and(|ending| ending == "rs") {
                let name = entry.strip_prefix(&root).unwrap().to_str().unwrap().to_owned();
                found.push((name, std::fs::read_to_string(entry).unwrap()));
            }
        }
    }
    found
}

#[test]
fn every_test_that_a_page_names_is_there() {
    let sources = sources();
    let mut count = 0;
    let claims = ["features.md", "guarantees.md", "threat-model.md"];
    for (name, page) in pages().into_iter().filter(|(name, _)| claims.contains(&name.as_str())) {
        for code in page.split('`').skip(1).step_by(2) {
            let is_word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
            let is_name = code.bytes().all(|byte| is_word(byte) || byte == b'_');
            if is_name && code.matches('_').count() >= 3 {
                let begins = format!("fn {code}(");
                let is_there = sources.iter().any(|(_, text)| text.contains(&begins));
                assert!(is_there, "{name} names the test {code}, and there is none");
                count += 1;
            } else if let Some(file) = code.strip_suffix(".rs").filter(|_| !code.contains(' ')) {
                let ending = format!("/{}.rs", file.trim_start_matches("crates/"));
                let is_there =
                    sources.iter().any(|(path, _)| format!("/{path}").ends_with(&ending));
                assert!(is_there, "{name} names {code}, and there is no such file");
            }
        }
    }
    assert!(count > 100, "only {count} tests are named");
}

#[test]
fn the_format_names_all_that_lies_in_a_home() {
    let world = scratch();
    world.json(&["restore", "latest", "--yes"]);
    world.json(&["gc"]);
    world.write(
        "rappel.toml",
        "[[command]]\nname = \"c\"\ncapture = [\"true\"]\nrestore = [\"true\"]\n",
    );
    world.trust();
    let mut hook =
        world.command(&["hook", "claude"]).stdin(std::process::Stdio::piped()).spawn().unwrap();
    let root = world.project.root().to_str().unwrap();
    let event = format!(
        r#"{{"hook_event_name":"SessionStart","session_id":"s","cwd":"{root}","source":"startup"}}"#
    );
    std::io::Write::write_all(&mut hook.stdin.take().unwrap(), event.as_bytes()).unwrap();
    assert!(hook.wait().unwrap().success());
    let format = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/format.md");
    let page = std::fs::read_to_string(format).unwrap();
    let mut names = Vec::new();
    for entry in std::fs::read_dir(&world.home).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let shown = name.trim_end_matches("-wal").trim_end_matches("-shm");
        let is_named = page
            .lines()
            .any(|line| line.strip_prefix(shown).is_some_and(|rest| rest.starts_with(['/', ' '])));
        assert!(is_named, "docs/format.md does not name {name}");
        names.push(name);
    }
    for name in ["hooks", "trust", "restoring", "cache"] {
        assert!(names.iter().any(|found| found == name), "{names:?}");
    }
}

/// The texts that pages show as a whole `rappel.toml`, or as sections of one. What is indented is
/// a single line of a section.
fn configurations() -> Vec<(String, String)> {
    let mut found = Vec::new();
    for (name, page) in pages() {
        for block in page.split("\n```toml\n").skip(1) {
            let text = block.split("\n```").next().unwrap().to_owned();
            found.push((name.clone(), text));
        }
    }
    assert!(found.len() > 8, "{found:?}");
    found
}

#[test]
fn every_configuration_that_a_page_shows_is_understood() {
    for (name, text) in configurations() {
        let config = Config::parse(&text, &name).unwrap_or_else(|error| panic!("{error}\n{text}"));
        assert_eq!(config.unknown, [""; 0], "{name}:\n{text}");
    }
}

#[test]
fn what_pages_call_the_defaults_are_those() {
    let default = Config::default();
    let parsed = |page: &str, section: &str| {
        let all = configurations().into_iter();
        let mut of_page = all.filter(|(name, text)| name == page && text.starts_with(section));
        Config::parse(&of_page.next().unwrap().1, page).unwrap()
    };
    assert_eq!(parsed("retention.md", "[retention]").retention, default.retention);
    assert_eq!(parsed("claude-code.md", "[hooks]").hooks, default.hooks);
}

#[test]
fn no_test_is_ignored() {
    let mark = ["#[", "ignore"].concat();
    for (path, text) in sources() {
        assert!(!text.contains(&mark), "{path}");
    }
}
