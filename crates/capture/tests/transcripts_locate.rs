//! Which transcripts belong to a workspace.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "tests may")]

use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};

use rappel_capture::agents::Provider;
use rappel_capture::agents::locate::{Located, Memo, Role, Surroundings, locate, named};
use tempfile::TempDir;

/// A user's home with agents in it.
struct Home(TempDir);

impl Home {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn write(&self, path: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, bytes).unwrap();
        path
    }

    fn claude(&self, path: &str, cwd: &str) -> PathBuf {
        let snapshot = r#"{"type":"file-history-snapshot","messageId":"x"}"#;
        self.write(
            &format!(".claude/projects/{path}"),
            format!("{snapshot}\n{{\"type\":\"user\",\"cwd\":\"{cwd}\"}}\n"),
        )
    }

    fn codex(&self, path: &str, cwd: &str) -> PathBuf {
        self.write(&format!(".codex/{path}"), rollout(cwd))
    }

    fn surroundings(&self) -> Surroundings {
        Surroundings::of(self.path())
    }

    fn locate(&self) -> Located {
        locate(&self.surroundings(), &[Path::new("/w/shop")], &mut Memo::default())
    }

    fn found(&self) -> Vec<String> {
        let located = self.locate();
        assert!(located.troubles.is_empty(), "{:?}", located.troubles);
        names(&located)
    }
}

fn rollout(cwd: &str) -> String {
    let instructions = "x".repeat(100_000);
    format!(
        "{{\"type\":\"session_meta\",\"payload\":{{\"id\":\"1\",\"base\":\"{instructions}\",\"cwd\":\"{cwd}\"}}}}\n"
    )
}

fn names(located: &Located) -> Vec<String> {
    let names = located.transcripts.iter().map(|one| format!("{}: {}", one.provider, one.path));
    names.collect()
}

#[test]
fn nothing_is_found_where_nothing_is() {
    assert!(Home::new().found().is_empty());
}

#[test]
fn claude_sessions_are_those_whose_lines_say_so() {
    let home = Home::new();
    home.claude("-w-shop/1.jsonl", "/w/shop");
    home.claude("-w-shop-src/2.jsonl", "/w/shop/src");
    // Names that fit and sessions that do not.
    home.claude("-w-shop-old/3.jsonl", "/w/shop-old");
    home.claude("-w-shop/4.jsonl", "/w.shop");
    home.claude("-w-shop/5.jsonl", "/w/shop/../other");
    home.claude("-w/6.jsonl", "/w");
    // A session that says nothing is one of the folder's.
    home.write(".claude/projects/-w-shop/7.jsonl", "{\"type\":\"summary\"}\n");
    home.write(".claude/projects/-w-shop-x/8.jsonl", "{\"type\":\"summary\"}\n");
    home.write(".claude/projects/-w-shop/memory/notes.md", "no transcript");
    let expected = [
        "claude: projects/-w-shop/1.jsonl",
        "claude: projects/-w-shop/7.jsonl",
        "claude: projects/-w-shop-src/2.jsonl",
    ];
    assert_eq!(home.found(), expected);
}

#[test]
fn what_belongs_to_a_claude_session_comes_with_it() {
    let home = Home::new();
    home.claude("-w-shop/1.jsonl", "/w/shop");
    home.claude("-w-shop/1/subagents/agent-a.jsonl", "/somewhere/else");
    home.write(".claude/projects/-w-shop/1/tool-results/long.txt", "very long");
    home.claude("-w-shop/2.jsonl", "/w-shop");
    home.claude("-w-shop/2/subagents/agent-b.jsonl", "/w/shop");
    // The session's own transcript is gone.
    home.claude("-w-shop/3/subagents/agent-c.jsonl", "/w/shop");
    home.claude("-w-shop/4/subagents/agent-d.jsonl", "/w-shop");
    let located = home.locate();
    let found: Vec<_> =
        located.transcripts.iter().map(|one| (one.path.to_string(), one.role)).collect();
    let expected = [
        ("projects/-w-shop/1/subagents/agent-a.jsonl".to_owned(), Role::Subagent),
        ("projects/-w-shop/1/tool-results/long.txt".to_owned(), Role::Output),
        ("projects/-w-shop/1.jsonl".to_owned(), Role::Session),
        ("projects/-w-shop/3/subagents/agent-c.jsonl".to_owned(), Role::Subagent),
    ];
    assert_eq!(found, expected);
    assert_eq!(located.transcripts[1].size(), 9);
}

#[test]
fn codex_rollouts_are_found_by_their_first_line() {
    let home = Home::new();
    home.codex("sessions/2026/10/05/rollout-1.jsonl", "/w/shop");
    home.codex("sessions/2026/10/05/rollout-2.jsonl", "/w/other");
    home.codex("sessions/2026/10/05/notes.jsonl", "/w/shop");
    home.codex("archived_sessions/rollout-3.jsonl", "/w/shop/src");
    let packed = |cwd| zstd::encode_all(rollout(cwd).as_bytes(), 1).unwrap();
    home.write(".codex/sessions/2026/10/04/rollout-4.jsonl.zst", packed("/w/shop"));
    home.write(".codex/sessions/2026/10/04/rollout-5.jsonl.zst", packed("/w/other"));
    // Being compressed right now.
    home.write(".codex/sessions/2026/10/05/rollout-1.jsonl.zst", packed("/w/shop"));
    home.write(".codex/sessions/2026/10/05/rollout-6.jsonl", "");
    home.write(".codex/sessions/2026/10/05/rollout-7.jsonl.zst", "damaged");
    let expected = [
        "codex: archived_sessions/rollout-3.jsonl",
        "codex: sessions/2026/10/04/rollout-4.jsonl.zst",
        "codex: sessions/2026/10/05/rollout-1.jsonl",
    ];
    assert_eq!(home.found(), expected);
}

#[test]
fn a_rollout_keeps_its_key_when_it_is_compressed_and_archived() {
    let home = Home::new();
    let key = |home: &Home| home.locate().transcripts[0].key();
    let plain = home.codex("sessions/2026/10/05/rollout-1.jsonl", "/w/shop");
    let before = key(&home);
    std::fs::remove_file(plain).unwrap();
    let packed = zstd::encode_all(rollout("/w/shop").as_bytes(), 1).unwrap();
    home.write(".codex/archived_sessions/rollout-1.jsonl.zst", packed);
    assert_eq!(key(&home), before);
}

#[test]
fn gemini_projects_are_known_by_hash_marker_or_list() {
    let home = Home::new();
    // printf /w/shop | sha256sum
    let hash = "ac49d249e813877b6b27fa5b303d4fe2cdfcc954fc1ac2407f0b3c6edb10a6b6";
    home.write(&format!(".gemini/tmp/{hash}/chats/session-1.jsonl"), "{}\n");
    home.write(".gemini/tmp/shop/.project_root", "/w/shop\n");
    home.write(".gemini/tmp/shop/chats/session-2.jsonl", "{}\n");
    home.write(".gemini/tmp/shop/chats/parent/child.jsonl", "{}\n");
    home.write(".gemini/tmp/shop/chats/notes.txt", "none");
    home.write(".gemini/tmp/shop/logs.json", "[]");
    home.write(".gemini/tmp/src/chats/session-3.jsonl", "{}\n");
    home.write(".gemini/tmp/other/.project_root", "/w/other");
    home.write(".gemini/tmp/other/chats/session-4.jsonl", "{}\n");
    home.write(".gemini/tmp/unknown/chats/session-5.jsonl", "{}\n");
    // A list that is out of date does not outdo what a folder says itself.
    let list = r#"{"projects":{"/w/shop/src":"src","/w/shop":"other","/x":"unknown"}}"#;
    home.write(".gemini/projects.json", list);
    let mut expected = vec![
        format!("gemini: tmp/{hash}/chats/session-1.jsonl"),
        "gemini: tmp/shop/chats/parent/child.jsonl".to_owned(),
        "gemini: tmp/shop/chats/session-2.jsonl".to_owned(),
        "gemini: tmp/src/chats/session-3.jsonl".to_owned(),
    ];
    expected.sort();
    assert_eq!(home.found(), expected);
    let roles: Vec<Role> = home.locate().transcripts.iter().map(|one| one.role).collect();
    assert_eq!(roles.iter().filter(|role| **role == Role::Subagent).count(), 1);
}

#[test]
fn homes_can_be_elsewhere() {
    let home = Home::new();
    home.write("a/projects/mine/1.jsonl", "{\"cwd\":\"/w/shop\"}\n");
    home.write("b/sessions/2026/01/01/rollout-1.jsonl", rollout("/w/shop"));
    home.write("c/.gemini/tmp/s/.project_root", "/w/shop");
    home.write("c/.gemini/tmp/s/chats/session-1.jsonl", "{}\n");
    let surroundings = Surroundings {
        home: home.path().to_owned(),
        claude_config_dir: Some(home.path().join("a")),
        claude_project_dir_name: Some("mine".to_owned()),
        codex_home: Some(home.path().join("b")),
        gemini_cli_home: Some(home.path().join("c")),
        data_home: Some(home.path().join("d")),
        opencode_db: None,
    };
    assert_eq!(surroundings.opencode_database(), home.path().join("d/opencode/opencode.db"));
    let located = locate(&surroundings, &[Path::new("/w/shop")], &mut Memo::default());
    let expected = [
        "claude: projects/mine/1.jsonl",
        "codex: sessions/2026/01/01/rollout-1.jsonl",
        "gemini: tmp/s/chats/session-1.jsonl",
    ];
    assert_eq!(names(&located), expected);
    let unset = Surroundings { claude_config_dir: Some(PathBuf::new()), ..home.surroundings() };
    assert_eq!(unset.root(Provider::Claude), home.path().join(".claude"));
}

#[test]
fn what_was_learned_is_not_read_again() {
    let home = Home::new();
    let own = home.codex("sessions/2026/10/05/rollout-1.jsonl", "/w/shop");
    let other = home.codex("sessions/2026/10/05/rollout-2.jsonl", "/w/other");
    let mut memo = Memo::default();
    let mut search = |roots: &[&Path]| {
        // Kept between saves.
        memo = serde_json::from_slice(&serde_json::to_vec(&memo).unwrap()).unwrap();
        names(&locate(&home.surroundings(), roots, &mut memo))
    };
    let shop = [Path::new("/w/shop")];
    let found = search(&shop);
    // In place, the same inode: had they been read again, the answers would be others.
    std::fs::write(&own, rollout("/w/other")).unwrap();
    std::fs::write(&other, rollout("/w/shop")).unwrap();
    assert_eq!(search(&shop), found);
    assert_eq!(search(&[Path::new("/w/other")]), found, "another workspace asks anew");
    assert_eq!(search(&shop), ["codex: sessions/2026/10/05/rollout-2.jsonl"]);
    // Another file in its place is asked anew.
    let inode = std::fs::metadata(&other).unwrap().ino();
    let beside = home.codex("beside", "/w/other");
    std::fs::rename(beside, &other).unwrap();
    assert_ne!(std::fs::metadata(&other).unwrap().ino(), inode);
    assert!(search(&shop).is_empty());
}

#[test]
fn links_out_of_an_agents_home_are_not_followed() {
    let home = Home::new();
    let outside = home.write("outside/1.jsonl", "{\"cwd\":\"/w/shop\"}\n");
    home.claude("-w-shop/2.jsonl", "/w/shop");
    symlink(&outside, home.path().join(".claude/projects/-w-shop/1.jsonl")).unwrap();
    symlink(home.path().join("outside"), home.path().join(".claude/projects/-w-shop-x")).unwrap();
    let located = home.locate();
    assert_eq!(names(&located), ["claude: projects/-w-shop/2.jsonl"]);
    assert_eq!(located.troubles.len(), 1, "{:?}", located.troubles);
    assert!(located.troubles[0].contains("1.jsonl: it is reached through a link"));
    std::fs::remove_file(home.path().join(".claude/projects/-w-shop/1.jsonl")).unwrap();
    let through = home.path().join(".claude/projects/-w-shop-x/1.jsonl");
    assert!(named(&home.surroundings(), &through).is_none());
    // A home that is a link itself is the user's choice.
    let moved = home.path().join("dotfiles");
    std::fs::rename(home.path().join(".claude"), &moved).unwrap();
    symlink(&moved, home.path().join(".claude")).unwrap();
    assert_eq!(home.found(), ["claude: projects/-w-shop/2.jsonl"]);
    // What cannot be looked at is said.
    std::fs::rename(moved.join("projects"), home.path().join("projects")).unwrap();
    symlink(home.path().join("projects"), moved.join("projects")).unwrap();
    let located = home.locate();
    assert!(located.transcripts.is_empty());
    assert!(located.troubles[0].contains("through a link"), "{:?}", located.troubles);
}

#[test]
fn a_transcript_that_a_hook_names_is_found_by_its_path() {
    let home = Home::new();
    let path = home.claude("-elsewhere/1.jsonl", "/elsewhere");
    let found = named(&home.surroundings(), &path).unwrap();
    assert_eq!(found.path.to_string(), "projects/-elsewhere/1.jsonl");
    assert_eq!((found.provider, found.role), (Provider::Claude, Role::Session));
    assert_eq!(found.open().unwrap().metadata().unwrap().len(), found.size());
    assert!(named(&home.surroundings(), Path::new("/etc/passwd")).is_none());
    assert!(named(&home.surroundings(), &path.with_extension("gone")).is_none());
}

#[test]
fn a_claude_session_that_moved_into_a_work_tree_belongs_to_where_it_started() {
    let home = Home::new();
    // Its transcript moved along.
    let path = home.claude("-w-shop--claude-worktrees-side/1.jsonl", "/w/shop");
    let mut lines = std::fs::read_to_string(&path).unwrap();
    lines.push_str("{\"type\":\"user\",\"cwd\":\"/w/shop/.claude/worktrees/side\"}\n");
    std::fs::write(&path, lines).unwrap();
    assert_eq!(home.found(), ["claude: projects/-w-shop--claude-worktrees-side/1.jsonl"]);
    let side = [Path::new("/w/shop/.claude/worktrees/side")];
    let there = locate(&home.surroundings(), &side, &mut Memo::default());
    assert_eq!(names(&there), Vec::<String>::new());
}
