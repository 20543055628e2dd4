//! What people get for input that makes no sense: a name for the mistake, and the next step.

#![allow(clippy::unwrap_used, reason = "tests may")]

mod support;

use std::os::unix::fs::PermissionsExt;

use support::World;

#[test]
fn references_that_mean_nothing_or_too_much() {
    let world = World::new();
    assert_face!(world, "no_checkpoints_at_all", "show", "latest");
    let first = world.save("first");
    world.write("a.txt", "changed\n");
    world.save("second");
    assert_face!(world, "not_a_reference", "show", "chk_20261115!!");
    assert_face!(world, "unknown_id", "show", "chk_19990101_000000_zzzz");
    assert_face!(world, "unknown_number", "restore", "99");
    assert_face!(world, "ambiguous_prefix", "show", "chk_2");
    assert_face!(world, "nowhere_to_go_back_from", "show", "~2");
    assert_face!(world, "too_far_back", "show", "latest~9");
    assert_face!(world, "not_a_time", "show", "@{soon}");
    assert_face!(world, "before_all_time", "show", "@{10 years ago}");
    assert_face!(world, "path_tricks", "cat", "latest:../../etc/passwd");
    assert_face!(world, "no_such_path", "cat", "latest:nope");
    assert_face!(world, "no_path_given", "cat", "latest");
    assert_face!(world, "a_folder", "cat", "latest:src");
    world.json(&["tag", "1", "green"]);
    assert_face!(world, "a_tag_for_a_reference", "show", "green");
    assert_face!(world, "unknown_prefix", "show", "chk_1999");
    let near = format!("{}zzzz", &first[..20]);
    let output = world.run(&["show", &near]);
    assert_eq!(output.status.code(), Some(3));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains(&first) && said.contains("rappel list"), "{said}");
}

#[test]
fn flags_that_make_no_sense() {
    let world = World::new();
    world.save("first");
    assert_face!(world, "no_such_command", "sav");
    assert_face!(world, "no_such_command_at_all", "xyzzy");
    assert_face!(world, "unquoted_message", "save", "Before", "adding", "Stripe");
    assert_face!(world, "missing_reference", "restore");
    assert_face!(world, "unknown_flag", "list", "--bogus");
    assert_face!(world, "bad_limit", "list", "0");
    assert_face!(world, "bad_facet", "save", "--only", "files,tables");
    assert_face!(world, "bad_meta", "save", "--meta", "step");
    assert_face!(world, "bad_tag", "save", "-t", "two words");
    assert_face!(world, "bad_shell", "completions", "tcsh");
    assert_face!(world, "outside_of_the_workspace", "diff", "latest", "--path", "/etc");
    assert_face!(world, "patch_without_a_terminal", "restore", "latest", "--patch");
    assert_face!(world, "no_such_folder", "-C", "nowhere", "list");
    assert_json_face!(world, "usage_as_json", "list", "--bogus");
    assert_json_face!(world, "not_found_as_json", "show", "99");
    let output = world.run(&["save", "--trigger", "whim"]);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn roots_that_cannot_be_a_workspace() {
    let world = World::new();
    assert_face!(world, "silly_root", "-C", "/", "save");
}

#[test]
fn a_configuration_with_mistakes_names_each() {
    let world = World::new();
    world.write("rappel.toml", "[files]\nmax_file_size = \"256XB\"\ninclude = 3\n");
    assert_face!(world, "bad_configuration", "save");
    world.write("rappel.toml", "[files]\nexclude = [\n  \"tmp/**\",\n  \"a[\",\n]\n");
    assert_face!(world, "bad_pattern", "save");
}

#[test]
fn what_is_no_json_says_so() {
    let world = World::new();
    assert_json_face!(world, "help_as_json", "help", "save");
    assert_json_face!(world, "completions_as_json", "completions", "bash");
}

#[test]
fn a_file_in_the_place_of_the_home() {
    let world = World::new();
    std::fs::write(&world.home, "in the way").unwrap();
    assert_face!(world, "home_is_a_file", "save");
}

#[test]
fn a_home_of_a_later_version_is_left_alone() {
    let world = World::new();
    world.save("first");
    let format = world.home.join("format");
    let text = std::fs::read_to_string(&format).unwrap();
    let later = text.replacen('1', "999", 1);
    std::fs::set_permissions(&format, std::fs::Permissions::from_mode(0o600)).unwrap();
    std::fs::write(&format, later).unwrap();
    assert_face!(world, "home_of_a_later_version", "save");
}
