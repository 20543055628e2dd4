//! A checkpoint before an operation, where something goes wrong: the process is killed, the disk is
//! full, the ignored files are more than a checkpoint takes.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may")]

mod support;

use std::fs::File;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use rappel_testing::cannot_run;
use rappel_testing::killed::{Steps, some_of, was_killed};
use support::World;
use support::guarded::{before, newest, restore, world};

/// `rappel guard` of a command that destroys, under another program.
fn guarded(world: &World, mut around: Command) -> Output {
    let plain = world.command(&["guard", "--", "rm", "-rf", "secret"]);
    around.arg(plain.get_program()).args(plain.get_args());
    around.current_dir(world.project.root()).env_clear();
    around.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
    around.stdin(Stdio::null()).output().unwrap()
}

#[test]
fn a_guard_that_is_killed_at_any_step_has_not_run_the_command_or_has_saved_before_it() {
    let world = world();
    world.save("before all");
    let Some(steps) = Steps::of([]) else {
        return cannot_run("strace cannot trace processes here");
    };
    assert!(guarded(&world, steps.counting()).status.success());
    restore(&world, &newest(&world));
    let made = steps.made();
    assert!(made.len() > 5, "{made:?}");
    let mut killed = 0;
    for step in some_of(&made, 4, 12) {
        let output = guarded(&world, steps.killing_at(step));
        let exists = world.project.path("secret/.env").exists();
        let was_killed = was_killed(output.status);
        assert!(exists || !was_killed, "{step:?}: killed, and the command ran");
        killed += usize::from(was_killed);
        if !was_killed {
            restore(&world, &newest(&world));
        }
        // Whatever was left behind, the next one works, and its checkpoint is whole.
        let output = world.run(&["guard", "--", "rm", "-rf", "secret"]);
        assert!(output.status.success(), "{step:?}: {output:?}");
        restore(&world, &newest(&world));
        assert_eq!(world.read("secret/.env"), "TOKEN=1\n", "{step:?}");
        assert_eq!(world.read("secret/deep/key"), "key\n", "{step:?}");
    }
    assert!(killed > 4, "{killed} of {made:?}");
    assert!(world.run(&["verify"]).status.success());
}

/// Whether a file system can be mounted in a name space of its own.
fn can_mount(at: &Path) -> bool {
    let mount = r#"mount -t tmpfs -o size=1m none "$0""#;
    let tried = Command::new("unshare").args(["-m", "sh", "-c", mount]).arg(at).output();
    let can = tried.is_ok_and(|tried| tried.status.success());
    if !can {
        cannot_run("nothing can be mounted in a name space of its own");
    }
    can
}

#[test]
fn on_a_full_disk_the_command_does_not_run() {
    let world = world();
    if !can_mount(world.project.outside()) {
        return;
    }
    world.write("secret/large", &support::noise(400_000));
    std::fs::create_dir_all(&world.home).unwrap();
    let mut around = Command::new("unshare");
    let mount = r#"mount -t tmpfs -o size=1m none "$0" && exec "$@""#;
    around.args(["-m", "sh", "-c", mount]).arg(&world.home);
    let output = guarded(&world, around);
    assert!(!output.status.success(), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("error:") && !said.contains("rappel: saved"), "{said}");
    assert_eq!(world.read("secret/.env"), "TOKEN=1\n", "{said}");
    // With room for it, it is saved and runs.
    let output = world.run(&["guard", "--", "rm", "-rf", "secret"]);
    assert!(output.status.success(), "{output:?}");
    restore(&world, &newest(&world));
    assert_eq!(world.read("secret/large"), support::noise(400_000));
}

#[test]
fn ignored_files_beyond_the_limits_are_named_in_the_message_and_in_the_checkpoint() {
    let world = world();
    world.write("rappel.toml", "[files]\nmax_file_size = \"2GiB\"\n");
    world.save("before all");
    // Holes take no room on the disk, and what is left out is not read.
    for (name, length) in [("secret/much", (1 << 30) + 1), ("secret/huge", (2 << 30) + 1)] {
        File::create(world.project.path(name)).unwrap().set_len(length).unwrap();
    }
    let said = before(&world, "rm -rf secret").unwrap();
    let saved = newest(&world);
    assert!(said.contains("secret/huge (it is larger than max_file_size)"), "{said}");
    assert!(
        said.contains("secret/much (ignored files of more than 1 GiB are not taken)"),
        "{said}"
    );
    let skipped = saved["files"]["skipped"].as_array().unwrap();
    let named: Vec<&str> = skipped.iter().map(|one| one["path"].as_str().unwrap()).collect();
    assert_eq!(named, ["secret/huge", "secret/much"], "{saved}");
    std::fs::remove_dir_all(world.project.path("secret")).unwrap();
    restore(&world, &saved);
    assert_eq!(world.read("secret/.env"), "TOKEN=1\n");
    assert_eq!(world.read("secret/deep/key"), "key\n");
    assert!(!world.project.path("secret/much").exists());
}
