//! A second reader of a home, by the rules of `docs/format.md`: it shares no code with Rappel. What
//! the document says of bytes is held here against homes that the program wrote.
//!
//! Not read here: the index (a view), and how damage is treated;
//! `store/tests/golden.rs` and `verify.rs` have those.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail loudly")]

mod dumps;
mod packs;
#[path = "../support/mod.rs"]
mod support;
mod trees;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::process::Command;

use packs::{Packs, blake3, hex, id_of};
use serde_json::Value;
use support::World;
use trees::Entry;

const LABEL: u8 = 7;
const TOMBSTONE: u8 = 9;
const EVENT: u8 = 4;
const SESSION: u8 = 5;

fn git(world: &World, arguments: &[&str]) {
    let status = Command::new("git")
        .current_dir(world.project.root())
        .args(["-c", "user.name=t", "-c", "user.email=t@t", "-c", "init.defaultBranch=main"])
        .args(arguments)
        .output()
        .unwrap()
        .status;
    assert!(status.success(), "{arguments:?}");
}

/// The manifest that counts for a checkpoint.
fn manifest<'p>(packs: &'p Packs, id: &str) -> &'p Value {
    let all = packs.manifests.iter().filter(|(_, manifest)| manifest["id"] == id);
    &all.max_by_key(|(birth, _)| *birth).unwrap().1
}

/// The checkpoints that are not deleted.
fn alive(packs: &Packs) -> BTreeSet<String> {
    let mut born = BTreeMap::new();
    for (birth, manifest) in &packs.manifests {
        let newest = born.entry(manifest["id"].as_str().unwrap().to_owned()).or_insert(*birth);
        *newest = (*newest).max(*birth);
    }
    let tombstones = packs.documents.iter().filter(|document| document.kind == TOMBSTONE);
    for tombstone in tombstones {
        if born.get(&tombstone.about).is_some_and(|birth| *birth < tombstone.birth) {
            born.remove(&tombstone.about);
        }
    }
    born.into_keys().collect()
}

fn listed(world: &World) -> BTreeSet<String> {
    let list = world.json(&["list", "--all"]);
    let all = list["checkpoints"].as_array().unwrap().iter();
    all.map(|one| one["id"].as_str().unwrap().to_owned()).collect()
}

/// The note in `lock` says how far the log is durable.
fn check_note(world: &World, packs: &Packs) {
    let text = std::fs::read(world.home.join("lock")).unwrap();
    // Whatever follows the first object is passed over.
    let mut values = serde_json::Deserializer::from_slice(&text).into_iter::<Value>();
    let reached = values.next().unwrap().unwrap()["reached"].clone();
    let last = packs.commits.last().unwrap();
    assert_eq!(reached["home"], last["home"]);
    assert_eq!(reached["from_the_first"], true);
    assert_eq!(reached["commit"]["sequence"], last["sequence"]);
    assert_eq!(reached["commit"]["generation"], last["generation"]);
    assert_eq!(reached["commit"]["id"], hex(&packs.last_commit));
}

#[test]
fn files_labels_and_deletions_are_read_from_the_packs_alone() {
    let world = World::new();
    for number in 0..700 {
        world.write(&format!("many/{}/file-{number}", number % 9), &format!("number {number}\n"));
    }
    world.write("large.bin", &support::noise(400_000));
    world.write("run.sh", "#!/bin/sh\n");
    std::os::unix::fs::symlink("a.txt", world.project.path("link")).unwrap();
    std::fs::create_dir(world.project.path("empty")).unwrap();
    let first = world.save("first");
    let mut large = world.read("large.bin");
    large.insert_str(700_000, "in the middle");
    world.write("large.bin", &large);
    world.write("a.txt", "one\ntwo\nthree and more\n");
    let second = world.save("second");
    world.json(&["tag", &second, "green,red"]);
    world.json(&["tag", &second, "--remove", "red"]);
    world.json(&["pin", &second]);
    world.write("b.txt", "third\n");
    let third = world.save("third");
    world.json(&["delete", &third, "--confirm"]);

    let packs = Packs::read(&world.home);
    assert!(packs.check_all() > 700);
    check_note(&world, &packs);
    assert_eq!(alive(&packs), BTreeSet::from([first.clone(), second.clone()]));
    assert_eq!(alive(&packs), listed(&world));

    // What the tree says is what lies there, byte for byte.
    let files = &manifest(&packs, &second)["files"];
    let tree = trees::read(&packs, &id_of(&files["tree"]));
    assert_eq!(tree[&b"link"[..]], Entry::Link { target: b"a.txt".to_vec() });
    assert!(matches!(tree[&b"empty"[..]], Entry::Folder { mode: 0o700..=0o777 }));
    let mut count = 0;
    for (path, entry) in &tree {
        let Entry::File { mode, bytes, chunks } = entry else { continue };
        let path = world.project.path(std::str::from_utf8(path).unwrap());
        if path != world.project.path("b.txt") {
            assert!(*bytes == std::fs::read(&path).unwrap(), "{}", path.display());
        }
        let real = std::fs::metadata(&path).unwrap();
        assert_eq!(*mode, u64::from(std::os::unix::fs::MetadataExt::mode(&real) & 0o7777));
        assert_eq!(chunks.is_some(), bytes.len() > 1 << 20, "chunks above 1 MiB");
        count += 1;
    }
    assert_eq!(files["count"], count + 1, "files and links");
    let before = trees::read(&packs, &id_of(&manifest(&packs, &first)["files"]["tree"]));
    let content = |tree: &BTreeMap<Vec<u8>, Entry>| match &tree[&b"a.txt"[..]] {
        Entry::File { bytes, .. } => bytes.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(content(&before), b"one\ntwo\nthree\n");

    // Labels are applied in the order of their births.
    let (mut tags, mut pinned) = (BTreeSet::new(), false);
    let mut labels: Vec<_> =
        packs.documents.iter().filter(|one| one.kind == LABEL && one.about == second).collect();
    labels.sort_by_key(|label| label.birth);
    for label in labels {
        let texts = |key: &str| -> Vec<String> {
            serde_json::from_value(label.says[key].clone()).unwrap_or_default()
        };
        tags.extend(texts("add"));
        for tag in texts("remove") {
            tags.remove(&tag);
        }
        pinned = label.says["pinned"].as_bool().unwrap_or(pinned);
    }
    assert_eq!((tags, pinned), (BTreeSet::from(["green".to_owned()]), true));

    // After gc the same holds of what is left.
    world.json(&["gc", "--now", "--confirm"]);
    let packs = Packs::read(&world.home);
    packs.check_all();
    assert!(packs.commits.iter().any(|commit| commit["packs"].is_array()), "there are bulk packs");
    check_note(&world, &packs);
    assert_eq!(alive(&packs), BTreeSet::from([first, second.clone()]));
    let after = trees::read(&packs, &id_of(&manifest(&packs, &second)["files"]["tree"]));
    assert!(after == tree);
}

#[test]
fn the_state_of_git_is_read_from_the_packs_alone() {
    let world = World::new();
    git(&world, &["init", "-q"]);
    git(&world, &["add", "."]);
    git(&world, &["commit", "-qm", "one"]);
    git(&world, &["tag", "-a", "v1", "-m", "a tag"]);
    world.save("first");
    world.write("a.txt", "two\n");
    git(&world, &["commit", "-qam", "two"]);
    let second = world.save("second");

    let packs = Packs::read(&world.home);
    let state = &manifest(&packs, &second)["git"];
    assert_eq!((&state["branch"], &state["key"]), (&"main".into(), &"root".into()));
    let tree = trees::read(&packs, &id_of(&state["tree"]));
    let file = |path: &str| match &tree[path.as_bytes()] {
        Entry::File { bytes, .. } => bytes.clone(),
        other => panic!("{path}: {other:?}"),
    };
    for path in ["HEAD", "config", "index", "logs/HEAD", "refs/heads/main"] {
        let real = std::fs::read(world.project.path(format!(".git/{path}"))).unwrap();
        assert_eq!(file(&format!("root/dir/{path}")), real, "{path}");
    }
    let refs = String::from_utf8(file("root/refs")).unwrap();
    let commit = state["commit"].as_str().unwrap();
    assert!(refs.contains(&format!("{commit} refs/heads/main\n")), "{refs}");
    assert!(refs.contains("ref: refs/heads/main HEAD\n"), "{refs}");
    let tips = file("root/tips");
    assert_eq!((tips[0], (tips.len() - 1) % 20), (20, 0));
    let tips: Vec<String> = tips[1..].chunks(20).map(hex).collect();
    assert!(tips.is_sorted() && tips.iter().any(|tip| tip == commit));

    // The bundles hold all that the tips lead to: a new repository has it from them alone.
    let empty = world.project.outside().join("empty.git");
    let run = |arguments: &[&str], input: Option<&[u8]>| {
        use std::io::Write;
        let mut child = Command::new("git")
            .args(arguments)
            .env("GIT_DIR", &empty)
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(input.unwrap_or_default()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{arguments:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    run(&["init", "-q", "--bare"], None);
    let mut known = BTreeSet::new();
    let packs_of_git = tree.keys().filter_map(|path| {
        let path = std::str::from_utf8(path).unwrap();
        path.strip_prefix("root/objects/")?.strip_suffix(".pack")
    });
    let names: Vec<&str> = packs_of_git.collect();
    assert_eq!(names.len(), 2, "one bundle of each checkpoint");
    for name in names {
        let pack = file(&format!("root/objects/{name}.pack"));
        assert_eq!(hex(&pack[pack.len() - 20..]), name);
        let ids = file(&format!("root/objects/{name}.ids"));
        let ids: Vec<String> = ids.chunks(20).map(hex).collect();
        assert!(ids.is_sorted());
        assert_eq!(pack[8..12], u32::try_from(ids.len()).unwrap().to_be_bytes());
        known.extend(ids);
        run(&["index-pack", "--stdin"], Some(&pack));
    }
    let held = run(&["cat-file", "--batch-all-objects", "--batch-check=%(objectname)"], None);
    assert_eq!(held.lines().map(str::to_owned).collect::<BTreeSet<_>>(), known);
    for tip in &tips {
        run(&["rev-list", "--objects", tip], None);
    }
}

#[test]
fn databases_knowledge_and_events_are_read_from_the_packs_alone() {
    let world = World::new();
    world.write("notes/plan.md", "# The plan\n\ntext\n");
    world.write(
        "rappel.toml",
        "[[command]]\nname = \"rows\"\ncapture = [\"cat\", \"../rows.sql\"]\n\
         restore = [\"cp\", \"/dev/stdin\", \"../rows.sql\"]\n\n[knowledge]\npaths = [\"notes\"]\n",
    );
    let rows = world.project.path("../rows.sql");
    let mut text = (0..90_000).fold(String::new(), |mut text, row| {
        let _ = writeln!(text, "INSERT {row} {};", row * 7919);
        text
    });
    std::fs::write(&rows, &text).unwrap();
    let sqlite = rusqlite::Connection::open(world.project.path("app.db")).unwrap();
    sqlite.execute_batch("PRAGMA journal_mode = wal; CREATE TABLE t (v TEXT)").unwrap();
    sqlite.execute_batch("INSERT INTO t VALUES ('then')").unwrap();
    world.trust();
    world.json(&["session", "start", "--session", "s1"]);
    world.json(&["record", "note", "a note", "--session", "s1"]);
    let first = world.save("first");
    text = text.replace("INSERT 40000 ", "UPDATE 40000 ").replace("INSERT 70000 ", "");
    text.insert_str(0, "-- a new beginning\n");
    std::fs::write(&rows, &text).unwrap();
    let second = world.save("second");

    let packs = Packs::read(&world.home);
    packs.check_all();
    let part = |id: &str, name: &str| {
        let databases = manifest(&packs, id)["databases"].as_array().unwrap().clone();
        databases.into_iter().find(|one| one["name"] == name).unwrap()
    };
    let digest = |bytes: &[u8]| format!("b3:{}", hex(&blake3(bytes)));
    for (id, is_patch) in [(&first, false), (&second, true)] {
        let rows = part(id, "rows");
        let tree = trees::read(&packs, &id_of(&rows["tree"]));
        assert_eq!(tree.contains_key(&b"patch"[..]), is_patch);
        let dump = dumps::read(&tree);
        assert_eq!(rows["digest"], digest(&dump));
        assert!(dumps::check_lines(&tree) > 100);
        assert_eq!(dump == text.as_bytes(), is_patch);
    }

    // A database file of the pages alone, with the counters that the document asks for.
    let app = part(&second, "app.db");
    let tree = trees::read(&packs, &id_of(&app["tree"]));
    let Entry::File { bytes, chunks, .. } = &tree[&b"pages"[..]] else { panic!("{tree:?}") };
    let mut pages = bytes.clone();
    let page = usize::from(u16::from_be_bytes(pages[16..18].try_into().unwrap()));
    let number = u32::try_from(pages.len() / page).unwrap();
    assert_eq!(pages[28..32], number.to_be_bytes());
    for zero in [24..28, 40..44, 92..100] {
        assert!(pages[zero].iter().all(|byte| *byte == 0));
    }
    assert_eq!(pages[18..20], [2, 2], "there was a write-ahead log");
    let mut ids = chunks.clone().unwrap();
    assert!(ids.len() == pages.len().div_ceil(65536));
    let mut segment = pages[..pages.len().min(65536)].to_vec();
    segment[18..20].copy_from_slice(&[1, 1]);
    ids[0] = blake3(&segment);
    let mut hasher = blake3::Hasher::new();
    hasher.update(&u32::try_from(page).unwrap().to_le_bytes()).update(&number.to_le_bytes());
    for id in &ids {
        hasher.update(id);
    }
    assert_eq!(app["digest"], format!("b3:{}", hasher.finalize().to_hex()));
    pages[27] = 1;
    pages[95] = 1;
    let copy = world.project.outside().join("copy.db");
    std::fs::write(&copy, pages).unwrap();
    let copy = rusqlite::Connection::open(copy).unwrap();
    let value: String = copy.query_row("SELECT v FROM t", [], |row| row.get(0)).unwrap();
    assert_eq!(value, "then");

    let knowledge = &manifest(&packs, &second)["knowledge"];
    assert_eq!(knowledge["paths"], serde_json::json!(["notes"]));
    let index: Value = serde_json::from_slice(&packs.object(&id_of(&knowledge["index"]))).unwrap();
    assert_eq!(index[0]["path"], "notes/plan.md");
    assert_eq!(index[0]["title"], "The plan");
    assert_eq!(packs.object(&id_of(&index[0]["hash"])), b"# The plan\n\ntext\n");

    let events = packs.documents.iter().filter(|one| one.kind == EVENT && one.about == "s1");
    let numbers: Vec<u64> = events.map(|one| one.says["number"].as_u64().unwrap()).collect();
    assert!(numbers.len() >= 2);
    assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>(), "from 1, in order");
}

#[test]
fn the_plan_of_a_restore_that_goes_on_can_be_read() {
    let world = World::new();
    let kept = world.project.outside().join("kept");
    // The command that loads a database runs while the intent is there.
    let (intents, to) = (world.home.join("intents"), kept.display());
    let script = format!("cat > ../rows\ncp -r '{}' '{to}'\n", intents.display());
    world.write("load.sh", &script);
    world.write(
        "rappel.toml",
        "[[command]]\nname = \"rows\"\ncapture = [\"cat\", \"../rows\"]\n\
         restore = [\"sh\", \"load.sh\"]\n",
    );
    let rows = world.project.path("../rows");
    std::fs::write(&rows, "then\n").unwrap();
    world.trust();
    let first = world.save("first");
    std::fs::write(&rows, "now\n").unwrap();
    world.write("a.txt", "now\n");
    let done = world.json(&["restore", &first, "--confirm"]);
    assert_eq!(std::fs::read_to_string(&rows).unwrap(), "then\n");

    let files: Vec<_> = std::fs::read_dir(kept).unwrap().map(|file| file.unwrap().path()).collect();
    let [file] = &files[..] else { panic!("{files:?}") };
    let name = file.file_name().unwrap().to_str().unwrap().strip_suffix(".intent").unwrap();
    let (id, workspace) = name.split_once('-').unwrap();
    assert!(id.len() == 16 && workspace.len() == 16);
    let number = u64::from_str_radix(id, 16).unwrap();
    let bytes = std::fs::read(file).unwrap();
    let mut rest = packs::Bytes(&bytes);
    assert_eq!(rest.take(7), b"RAPPELI");
    assert_eq!(rest.byte(), 3, "it has databases");
    let mut records = Vec::new();
    while !rest.0.is_empty() {
        let length = rest.u32();
        let checksum = rest.take(16);
        let payload = rest.take(length as usize);
        let mut hasher = blake3::Hasher::new();
        hasher.update(&number.to_le_bytes()).update(&(records.len() as u64).to_le_bytes());
        hasher.update(&length.to_le_bytes()).update(payload);
        assert_eq!(checksum, &hasher.finalize().as_bytes()[..16]);
        records.push(payload);
    }
    assert_eq!(records[0][0], 1);
    let plan: Value = serde_json::from_slice(&records[0][1..]).unwrap();
    assert_eq!((&plan["id"], &plan["workspace"]), (&id.into(), &workspace.into()));
    assert_eq!(plan["target"], first);
    assert_eq!(plan["safety"], done["safety_checkpoint"]);
    assert_eq!(plan["root"], world.project.root().to_str().unwrap());
    assert_eq!(plan["databases"][0]["name"], "rows");
    assert_eq!(plan["databases"][0]["to"], format!("b3:{}", hex(&blake3(b"then\n"))));
    let actions = plan["actions"].as_array().unwrap();
    assert!(actions.iter().any(|action| action.to_string().contains("a.txt")), "{plan}");
    // The database was about to be committed, and everything before it is swapped.
    assert_eq!(records.last().unwrap(), &[3, 0]);
    assert!(records[1..].contains(&&[2, 1][..]), "{records:?}");
}

#[test]
fn what_the_user_allowed_is_kept_by_hashes_that_anybody_can_compute() {
    let world = World::new();
    world.write("dump.sh", "echo 1\n");
    world.write(
        "rappel.toml",
        "[[command]]\nname = \"c\"\ncapture = [\"sh\", \"dump.sh\"]\nrestore = [\"cat\"]\n",
    );
    let told = world.json_at_any_exit(&["trust"]);
    world.trust();
    let folder = std::fs::read_dir(world.home.join("trust")).unwrap();
    let files: Vec<_> = folder.map(|entry| entry.unwrap().path()).collect();
    let file = files.iter().find(|path| path.extension().is_some_and(|it| it == "json")).unwrap();
    let trust: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    assert_eq!(trust["version"], 1);
    let (hash, decision) = trust["entries"].as_object().unwrap().iter().next().unwrap();
    assert_eq!(decision["answer"], "allowed");
    let about = &decision["about"];
    assert_eq!(about["files"][0]["path"], "dump.sh");
    assert_eq!(about["files"][0]["content"], hex(&blake3(b"echo 1\n")));
    // Without spaces, keys in this order.
    let entry = format!(
        "{{\"name\":{},\"kind\":{},\"capture\":{},\"restore\":{},\
         \"folder\":{},\"files\":[{{\"path\":{},\"content\":{}}}]}}",
        about["name"],
        about["kind"],
        about["capture"],
        about["restore"],
        about["folder"],
        about["files"][0]["path"],
        about["files"][0]["content"]
    );
    let computed = hex(&blake3(format!("rappel trust entry 1\n{entry}").as_bytes()));
    assert_eq!(*hash, computed);
    let all = format!("rappel trust 1\n{computed}");
    assert_eq!(told["hash"], hex(&blake3(all.as_bytes())));
}

#[test]
fn a_stored_state_of_a_session_is_an_object_that_its_document_names() {
    let world = World::new();
    world.json(&["session", "start", "--session", "s1"]);
    for number in 0..130 {
        world.json(&["record", "note", &format!("note {number}"), "--session", "s1"]);
    }
    let packs = Packs::read(&world.home);
    let states: Vec<_> =
        packs.documents.iter().filter(|one| one.kind == SESSION && one.about == "s1").collect();
    assert!(!states.is_empty());
    for document in states {
        let object = packs.object(&id_of(&document.says["state"]));
        assert_eq!(object[..4], *b"RSS\x01");
        let state: Value = serde_json::from_slice(&object[4..]).unwrap();
        assert_eq!(state["version"], 1);
        let after = document.says["event"].as_u64().unwrap();
        assert!((1..=131).contains(&after), "{}", document.says);
    }
}

#[test]
fn what_integrate_wrote_can_be_taken_out_by_its_record_alone() {
    let world = World::new();
    let settings = ".claude/settings.local.json";
    let before = "{\n  \"model\": \"opus\",\n  \"hooks\": {}\n}\n";
    world.write(settings, before);
    let folder = world.project.outside().join("bin");
    std::fs::create_dir(&folder).unwrap();
    let (ours, program) = (env!("CARGO_BIN_EXE_rappel"), folder.join("rappel"));
    std::fs::hard_link(ours, &program)
        .or_else(|_| std::fs::copy(ours, &program).map(drop))
        .unwrap();
    let like = world.command(&["integrate", "claude"]);
    let mut command = Command::new(program);
    command.args(like.get_args()).current_dir(world.project.root()).env_clear();
    command.envs(like.get_envs().filter_map(|(name, value)| Some((name, value?))));
    assert!(command.output().unwrap().status.success());

    let claude = world.project.path(".claude");
    let name = &hex(&blake3(claude.to_str().unwrap().as_bytes()))[..16];
    let record = std::fs::read(world.home.join(format!("integrations/{name}.json"))).unwrap();
    let record: Value = serde_json::from_slice(&record).unwrap();
    assert_eq!(record["version"], 1);
    assert_eq!(record["folder"], claude.to_str().unwrap());
    let of_file = &record["settings"]["settings.local.json"];
    assert_eq!(of_file["existed"], true);
    let mut text = std::fs::read(world.project.path(settings)).unwrap();
    assert_eq!(of_file["checksum"], hex(&blake3(&text)));
    for edit in of_file["reverse"].as_array().unwrap() {
        let number = |key: &str| usize::try_from(edit[key].as_u64().unwrap()).unwrap();
        let (at, remove) = (number("at"), number("remove"));
        text.splice(at..at + remove, edit["insert"].as_str().unwrap().bytes());
    }
    assert_eq!(String::from_utf8(text).unwrap(), before);
    // A file that is ours alone is known by the hash of its other lines.
    let skill = world.read(".claude/skills/rappel/SKILL.md");
    let is_mark = |line: &&str| line.starts_with("# rappel integrate ");
    let mark = skill.lines().find(is_mark).unwrap();
    let others: String = skill.split_inclusive('\n').filter(|line| !is_mark(line)).collect();
    let hash = &hex(&blake3(others.as_bytes()))[..16];
    assert_eq!(mark, format!("# rappel integrate {hash}"));
}
