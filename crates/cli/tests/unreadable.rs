//! One checkpoint that cannot be read does not hide the others.

#![allow(clippy::unwrap_used, reason = "tests may")]

mod support;

use support::World;

/// Flips a bit in the newest manifest.
fn damage(world: &World) {
    let path = world.home.join("packs/log-0000000001.pack");
    let mut bytes = std::fs::read(&path).unwrap();
    // The magic of a record, the version of its header, and the kind of a manifest.
    let start = *b"RpL\xa7\x01\x03";
    let at = bytes.windows(start.len()).rposition(|window| window == start).unwrap();
    bytes[at + 120] ^= 4;
    std::fs::write(&path, bytes).unwrap();
}

#[test]
fn it_is_named_and_the_others_are_listed() {
    let world = World::new();
    let first = world.save("first");
    world.write("a.txt", "changed\n");
    let second = world.save("second");
    damage(&world);

    for command in ["list", "stats"] {
        let output = world.run(&[command]);
        assert_eq!(output.status.code(), Some(0), "{command}");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.starts_with("warning: ") && said.contains(&second), "{said}");
        let json = world.json(&[command]);
        assert_eq!(json["unreadable"][0], second.as_str());
    }
    let listed = String::from_utf8(world.run(&["list"]).stdout).unwrap();
    assert!(listed.contains(&first) && listed.contains("first"), "{listed}");
    assert!(!listed.contains("Show more"), "{listed}");

    let status = world.run(&["status"]);
    assert_eq!(status.status.code(), Some(1));
    let told = String::from_utf8_lossy(&status.stdout);
    assert!(told.contains("Degraded") && told.contains(&second), "{told}");
    assert_eq!(world.run(&["show", &second]).status.code(), Some(6));
    assert_eq!(world.run(&["show", &first]).status.code(), Some(0));
    assert_eq!(world.run(&["verify"]).status.code(), Some(6));
    assert_eq!(world.run(&["save", "third"]).status.code(), Some(0));
}
