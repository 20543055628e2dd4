//! Nobody else on the machine can read what is kept.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test may fail loudly"
)]

mod support;

use std::os::unix::fs::MetadataExt;

use rappel_testing::Project;
use support::World;

#[test]
fn everything_in_a_home_is_private() {
    let world = World::new(Project::new().file("secret", "hunter2"));
    let first = world.save("first");
    world.write("secret", "hunter3");
    world.restore(&first);
    let mut folders = vec![world.home.path().to_owned()];
    while let Some(folder) = folders.pop() {
        let meta = std::fs::metadata(&folder).unwrap();
        assert_eq!(meta.mode() & 0o077, 0, "{}", folder.display());
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let meta = std::fs::symlink_metadata(&path).unwrap();
            assert_eq!(meta.mode() & 0o077, 0, "{}", path.display());
            if meta.is_dir() {
                folders.push(path);
            }
        }
    }
}
