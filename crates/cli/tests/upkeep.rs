//! What people see of the commands for upkeep.

#![allow(clippy::unwrap_used, reason = "tests may")]

mod support;

use std::os::unix::fs::PermissionsExt;

use support::World;

#[test]
fn status_says_how_well_the_workspace_is_protected() {
    let world = World::new();
    assert_face!(world, "status_unprotected", "status");
    world.save("first");
    assert_face!(world, "status_protected", "status");
    assert_face!(world, "status_quiet", "status", "-q");
    world.write("a.txt", "changed\n");
    assert_face!(world, "status_unsaved", "status");
}

#[test]
fn a_home_that_cannot_be_used_is_no_protection() {
    let world = World::new();
    std::fs::write(&world.home, "in the way").unwrap();
    assert_face!(world, "status_home_unusable", "status");
    assert_face!(world, "doctor_home_unusable", "doctor");
}

#[test]
fn stats_count_the_space() {
    let world = World::new();
    world.save("first");
    world.write("a.txt", "changed\n");
    world.save("second");
    assert_face!(world, "stats", "stats");
}

#[test]
fn recover_has_nothing_to_do_where_nothing_is_unfinished() {
    let world = World::new();
    world.save("first");
    assert_face!(world, "recover_nothing", "recover");
    assert_face!(world, "recover_finish_nothing", "recover", "--finish");
}

#[test]
fn init_writes_a_commented_configuration_once() {
    let world = World::new();
    world.write(".env", "DATABASE_URL=postgres://me:secret@localhost/app\n");
    std::fs::create_dir(world.project.path(".loki")).unwrap();
    assert_face!(world, "init", "init");
    assert!(!world.read("rappel.toml").contains("secret"));
    assert_face!(world, "init_again", "init");
    assert!(world.run(&["save"]).status.success());
}

#[test]
fn a_moved_folder_adopts_its_history() {
    let world = World::new();
    world.save("first");
    let moved = world.project.outside().join("renamed");
    std::fs::rename(world.project.root(), &moved).unwrap();
    let moved = moved.to_str().unwrap();
    let from_there = |arguments: &[&str]| {
        let mut command = world.command(arguments);
        let output = command.current_dir(moved).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let (_, status) = from_there(&["status", "--json"]);
    assert!(status.contains("rappel adopt"), "{status}");
    assert_eq!(from_there(&["restore", "latest", "-y"]).0, Some(7));
    let (code, said) = from_there(&["adopt", "../project"]);
    assert_eq!(code, Some(0));
    assert_eq!(
        world.normalised(&said),
        "[OUTSIDE]/renamed goes on with 1 checkpoint of [PROJECT]\n"
    );
    assert_eq!(from_there(&["restore", "latest", "-y"]).0, Some(0));
}

#[test]
fn what_a_moved_folder_saved_before_it_was_adopted_is_named() {
    let world = World::new();
    world.save("first");
    let moved = world.project.outside().join("renamed");
    std::fs::rename(world.project.root(), &moved).unwrap();
    let from_there = |arguments: &[&str]| {
        let output = world.command(arguments).current_dir(&moved).output().unwrap();
        let streams = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(streams).unwrap())
    };
    let (_, id) = from_there(&["save", "apart", "-q"]);
    let id = id.lines().next().unwrap();
    let (code, said) = from_there(&["adopt", "../project"]);
    assert_eq!(code, Some(0));
    assert!(said.contains(&format!("rappel restore {id}")), "{said}");
    std::fs::write(moved.join("a.txt"), "edited\n").unwrap();
    assert_eq!(from_there(&["restore", id, "-y"]).0, Some(0));
    assert_eq!(std::fs::read(moved.join("a.txt")).unwrap(), b"one\ntwo\nthree\n");
}

#[test]
fn a_living_original_keeps_its_history() {
    let world = World::new();
    world.save("first");
    let copy = world.project.outside().join("copy");
    std::fs::create_dir(&copy).unwrap();
    let mut command = world.command(&["adopt", "../project"]);
    let output = command.current_dir(&copy).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert_face!(world, "adopt_unknown", "adopt", "../nowhere");
}

#[test]
fn verify_names_what_is_hurt_and_repairs_what_it_can() {
    let world = World::new();
    let noise = support::noise(9_000);
    world.write("noise.txt", &noise);
    world.save("first");
    assert_face!(world, "verify", "verify");
    assert_face!(world, "verify_one", "verify", "latest");
    assert_face!(world, "verify_quiet", "verify", "-q");
    world.damage_a_pack();
    let output = world.run(&["verify"]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(6), "{said}");
    assert!(said.contains("Hurt checkpoints:\n  chk_"), "{said}");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(told.contains("hint: rappel verify --repair"), "{told}");
    let output = world.run(&["verify", "--repair"]);
    assert!(output.status.success(), "the workspace still has the bytes");
    assert!(String::from_utf8_lossy(&output.stdout).contains("1 checkpoint whole again"));
    let output = world.run(&["verify"]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.starts_with("Every checkpoint is whole") && said.contains("seen by a repair"));
    assert_eq!(world.json(&["status"])["state"], "protected");
    let there = world.project.outside().join("there");
    world.json(&["restore", "latest", "--to", there.to_str().unwrap()]);
    assert_eq!(std::fs::read_to_string(there.join("noise.txt")).unwrap(), noise);
}

#[test]
fn a_lost_log_pack_is_told_until_somebody_lets_go_of_it() {
    let world = World::new();
    let mut lost = Vec::new();
    for round in 0..3 {
        world.write("a.txt", &format!("round {round}\n"));
        lost.push(world.save("lost"));
    }
    std::fs::remove_file(world.home.join("packs/log-0000000001.pack")).unwrap();
    for saves in 0..3 {
        let output = world.run(&["verify"]);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(6), "after {saves} saves: {said}");
        assert!(lost.iter().all(|id| said.contains(&format!("{id}: all of it is lost"))), "{said}");
        assert!(told.contains("error: 3 checkpoints are hurt"), "{told}");
        let status = world.run(&["status", "--json"]).stdout;
        let status: serde_json::Value = serde_json::from_slice(&status).unwrap();
        assert!(status["state"] != "protected", "{status}");
        world.write("a.txt", &format!("kept {saves}\n"));
        world.save("kept");
        if saves == 1 {
            world.run(&["gc"]);
            for name in ["index.db", "index.db-wal", "index.db-shm"] {
                let _ = std::fs::remove_file(world.home.join(name));
            }
        }
    }
    assert_eq!(world.run(&["verify", "--repair"]).status.code(), Some(6));
    assert_face!(world, "show_lost", "show", &lost[0]);
    assert_face!(world, "delete_lost", "delete", &lost[0], &lost[1], &lost[2]);
    assert_eq!(world.run(&["verify"]).status.code(), Some(0));
    assert_eq!(world.json(&["list"])["total"], 3);
    assert_eq!(world.json(&["restore", "latest", "-y"])["verified"], true);
}

#[test]
fn doctor_looks_at_everything() {
    let world = World::new();
    world.save("first");
    assert_face!(world, "doctor", "doctor");
}

#[test]
fn doctor_looks_for_the_programs_of_commands_and_does_not_run_them() {
    let world = World::new();
    world.write(
        "rappel.toml",
        "[[database]]\nname = \"app\"\nurl = \"env:NOWHERE_URL\"\n\
         [[command]]\nname = \"gone\"\ncapture = [\"no-such-program\"]\nrestore = [\"true\"]\n\
         [[command]]\nname = \"kept\"\ncapture = [\"touch\", \"ran\"]\nrestore = [\"true\"]\n\
         [[command]]\nname = \"text\"\ncapture = [\"./a.txt\"]\nrestore = [\"true\"]\n",
    );
    world.trust();
    assert_face!(world, "doctor_databases", "doctor");
    assert!(!world.project.path("ran").exists());
}

#[test]
fn deleted_checkpoints_come_back_for_a_day() {
    let world = World::new();
    let first = world.save("first");
    world.write("a.txt", "changed\n");
    world.save("second");
    assert_face!(world, "delete_unconfirmed", "delete", "1", "2");
    assert_face!(world, "delete", "delete", &first, "--confirm");
    assert_eq!(world.json(&["list"])["total"], 1);
    assert_eq!(world.run(&["show", &first]).status.code(), Some(3));
    assert_face!(world, "undelete", "undelete", &first);
    assert_eq!(world.json(&["list"])["total"], 2);
    assert_face!(world, "undelete_again", "undelete", &first);
    assert_face!(world, "undelete_unknown", "undelete", "chk_19990101_000000_zzzz");
    assert_face!(world, "delete_two", "delete", "1", "2", "-y");
    assert_eq!(world.json(&["list"])["total"], 0);
}

#[test]
fn deleted_checkpoints_are_told_from_unknown_ones() {
    let world = World::new();
    assert_face!(world, "list_deleted_none", "list", "--deleted");
    let first = world.save("first");
    world.write("a.txt", "changed\n");
    let second = world.save("second");
    world.json(&["pin", &second]);
    assert_face!(world, "delete_pinned", "delete", "1", "2", "-y");
    assert_eq!(world.json(&["list"])["total"], 2);
    world.json(&["delete", &first, "-y"]);
    assert_face!(world, "list_deleted", "list", "--deleted");
    assert_face!(world, "show_deleted", "show", &first);
    assert_face!(world, "restore_deleted_number", "restore", "1");
    assert_face!(world, "undelete_unknown_of_some", "undelete", "chk_1999");
    assert_face!(world, "undelete_prefix", "undelete", &first[..first.len() - 2]);
    assert_eq!(world.json(&["list"])["total"], 2);
    world.json(&["delete", &first, "-y"]);
    world.json(&["undelete", "1"]);
    assert_eq!(world.json(&["list"])["total"], 2);
}

#[test]
fn a_save_starts_the_gc_that_is_due() {
    let world = World::new();
    world.save("first");
    // What a writer left behind that died two days ago.
    let left = world.home.join("packs/bulk-00000000000000ff.pack");
    let file = std::fs::File::create(&left).unwrap();
    file.set_len(5000).unwrap();
    let now = left.metadata().unwrap().modified().unwrap();
    let then = now - std::time::Duration::from_secs(2 * 24 * 3600);
    file.set_modified(then).unwrap();
    drop(file);
    // Leftovers are looked for once an hour; that was just now.
    for name in ["index.db", "index.db-wal", "index.db-shm"] {
        let _ = std::fs::remove_file(world.home.join(name));
    }
    world.save("second");
    let start = std::time::Instant::now();
    while left.exists() {
        assert!(start.elapsed() < std::time::Duration::from_secs(60), "no gc came");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert!(world.run(&["verify"]).status.success());
}

#[test]
fn space_is_given_back_at_once_if_asked() {
    let world = World::new();
    let noise = support::noise(40_000);
    world.write("noise.txt", &noise);
    let first = world.save("with noise");
    world.remove("noise.txt");
    world.save("without");
    assert_face!(world, "gc_nothing", "gc");
    assert_face!(world, "gc_dry_run", "gc", "--dry-run", "--now");
    assert_face!(world, "gc_now_unconfirmed", "gc", "--now");
    assert_face!(world, "delete_now", "delete", &first, "--now", "--confirm");
    let output = world.run(&["undelete", &first]);
    assert_ne!(output.status.code(), Some(0));
    assert_eq!(world.json(&["list", "--deleted"])["total"], 0);
    let output = world.run(&["show", &first]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(3) && !said.contains("undelete"), "{said}");
    assert_eq!(world.json(&["restore", "latest", "-y"])["verified"], true);
}

#[test]
fn gc_now_frees_what_was_deleted_and_gc_alone_does_not() {
    let world = World::new();
    let mut ids = Vec::new();
    for round in 0..3u32 {
        world.write("noise.txt", &format!("{round}{}", support::noise(40_000 + round)));
        ids.push(world.save("with noise"));
    }
    world.remove("noise.txt");
    world.save("without");
    let size = || -> u64 {
        let packs = std::fs::read_dir(world.home.join("packs")).unwrap();
        packs.map(|pack| pack.unwrap().metadata().unwrap().len()).sum()
    };
    let full = size();
    world.json(&["delete", &ids[0], &ids[1], "-y"]);
    world.json(&["gc"]);
    assert!(size() >= full, "a day of grace");
    // What somebody else deleted a moment ago is not theirs who delete something for good.
    world.json(&["delete", &ids[2], "--now", "-y"]);
    assert_eq!(world.json(&["list", "--deleted"])["total"], 2);
    let before = size();
    assert_face!(world, "gc_now_deleted_unconfirmed", "gc", "--now");
    assert_eq!(size(), before);
    let freed = world.json(&["gc", "--now", "--dry-run"])["freed_bytes"].as_u64().unwrap();
    assert!(freed > full / 3, "{freed} of {full}");
    assert!(world.json(&["gc", "--now", "--confirm"])["freed_bytes"].as_u64().unwrap() > full / 3);
    assert!(size() < full / 3, "{} of {full}", size());
    assert_eq!(world.json(&["list", "--deleted"])["total"], 0);
    assert_ne!(world.run(&["undelete", &ids[0]]).status.code(), Some(0));
    assert!(world.run(&["verify"]).status.success());
    assert_eq!(world.json(&["restore", "latest", "-y"])["verified"], true);
}

#[test]
fn a_damaged_plan_of_a_restore_is_shown_and_has_a_way_out() {
    let world = World::new();
    world.write("a.txt", "before\n");
    let target = world.save("target");
    world.write("a.txt", "since\n");
    let workspace = world.json(&["show", &target])["workspace"]["id"].as_str().unwrap().to_owned();
    let intents = world.home.join("intents");
    let plan = intents.join(format!("00000000000000aa-{workspace}.intent"));
    std::fs::create_dir_all(&intents).unwrap();
    std::fs::write(&plan, b"RAPPELI\x01 and nothing that makes sense").unwrap();
    // What the restore had staged is nowhere else, for all that anybody knows.
    world.write(".rappel-00000000000000aa-0.new", "staged\n");
    let face = |arguments: &[&str]| world.face(arguments).replace(&workspace, "[WORKSPACE]");
    assert_said!("recover_damaged", "rappel recover", face(&["recover"]));
    for how in ["--finish", "--rollback"] {
        let output = world.run(&["recover", how]);
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(6), "{how}: {told}");
        assert!(told.contains("rappel recover --set-aside"), "{how}: {told}");
    }
    let output = world.run(&["restore", &target, "-y"]);
    assert_eq!(output.status.code(), Some(6));
    assert!(String::from_utf8_lossy(&output.stderr).contains("recover --set-aside"));
    assert_eq!(world.run(&["doctor"]).status.code(), Some(1));
    let saved = world.save("in between");
    assert_eq!(world.json(&["show", &saved])["interrupted_restore"], true);
    world.write("a.txt", "and since\n");
    let said = face(&["recover", "--set-aside"]);
    assert_said!("recover_set_aside", "rappel recover --set-aside", said);
    assert!(!plan.exists() && plan.with_extension("damaged").exists());
    assert_eq!(world.read("a.txt"), "and since\n");
    assert_face!(world, "recover_set_aside_again", "recover", "--set-aside");
    assert_face!(world, "recover_finish_after", "recover", "--finish");
    let safety = world.json(&["list", "--trigger", "pre-restore"]);
    let safety = safety["checkpoints"][0]["id"].as_str().unwrap().to_owned();
    assert_eq!(world.json(&["restore", &target, "-y"])["verified"], true);
    assert_eq!(world.read("a.txt"), "before\n");
    assert!(!world.project.path(".rappel-00000000000000aa-0.new").exists());
    assert_eq!(world.json(&["restore", &safety, "-y"])["verified"], true);
    assert_eq!(world.read("a.txt"), "and since\n");
    assert_eq!(world.read(".rappel-00000000000000aa-0.new"), "staged\n");
    assert!(world.run(&["verify"]).status.success());
}

#[test]
fn a_home_of_a_later_version_is_not_written_to() {
    let world = World::new();
    let first = world.save("first");
    let format = world.home.join("format");
    let text = std::fs::read_to_string(&format).unwrap();
    std::fs::write(&format, text.replace("rappel 1", "rappel 2") + "needs 9.9.9\n").unwrap();
    let listed = || {
        let packs = std::fs::read_dir(world.home.join("packs")).unwrap();
        let length = |path: std::path::PathBuf| (path.metadata().unwrap().len(), path);
        packs.map(|pack| length(pack.unwrap().path())).collect::<Vec<_>>()
    };
    let before = listed();
    world.write("a.txt", "changed\n");
    for arguments in [
        &["save", "second"][..],
        &["restore", &first, "-y"],
        &["delete", &first, "-y"],
        &["gc", "--now", "-y"],
        &["verify", "--repair"],
        &["recover", "--finish"],
    ] {
        let output = world.run(arguments);
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {told}");
        assert!(told.contains("needs rappel 9.9.9 or later"), "{arguments:?}: {told}");
        assert!(told.contains("hint: update rappel"), "{arguments:?}: {told}");
    }
    assert_eq!(listed(), before);
    assert_eq!(world.read("a.txt"), "changed\n");
    std::fs::write(&format, text).unwrap();
    assert_eq!(world.json(&["list"])["total"], 1);
}

#[test]
fn what_stays_because_it_could_not_be_captured_is_named_after_the_restore() {
    let world = World::new();
    let first = world.save("first");
    std::fs::create_dir(world.project.path("since")).unwrap();
    let socket = world.project.path("since/socket");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let output = world.run(&["restore", &first, "-y"]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0), "{said}");
    let named =
        said.lines().any(|line| line.starts_with("  = since  (") && line.contains("socket"));
    assert!(named, "{said}");
    assert!(socket.exists());
}

impl World {
    /// Flips a byte in the middle of the largest pack.
    fn damage_a_pack(&self) {
        let packs = std::fs::read_dir(self.home.join("packs")).unwrap();
        let largest = packs
            .map(|pack| pack.unwrap().path())
            .max_by_key(|path| path.metadata().unwrap().len());
        let largest = largest.unwrap();
        let mut bytes = std::fs::read(&largest).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 0xff;
        std::fs::set_permissions(&largest, std::fs::Permissions::from_mode(0o600)).unwrap();
        std::fs::write(&largest, bytes).unwrap();
    }
}
