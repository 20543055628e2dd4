//! References mean this workspace's checkpoints; another one's needs `--workspace`. A workspace
//! whose folder is gone can be read, and written to a new folder.

#![allow(clippy::unwrap_used, reason = "tests may")]

mod support;

use std::path::PathBuf;

use support::World;

/// A second workspace in the same home.
struct Other {
    world: World,
    root: PathBuf,
    id: String,
    workspace: String,
}

impl Other {
    fn new() -> Self {
        let world = World::new();
        world.save("here");
        let root = world.project.outside().join("other");
        std::fs::create_dir(&root).unwrap();
        std::fs::write(root.join("b.txt"), "first\n").unwrap();
        let save = || {
            let output =
                world.command(&["save", "there", "--json"]).current_dir(&root).output().unwrap();
            serde_json::from_slice::<serde_json::Value>(&output.stdout).unwrap()
        };
        save();
        std::fs::write(root.join("b.txt"), "second\n").unwrap();
        let saved = save();
        let id = saved["id"].as_str().unwrap().to_owned();
        let workspace = saved["workspace"]["id"].as_str().unwrap().to_owned();
        Self { world, root, id, workspace }
    }

    /// Exit code and stderr.
    fn refused(&self, arguments: &[&str]) -> (Option<i32>, String) {
        let output = self.world.run(arguments);
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    }

    /// What a command says of the other workspace.
    fn there(&self, arguments: &[&str]) -> String {
        let output = self.world.run(&[arguments, &["--workspace", &self.workspace]].concat());
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {errors}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn reads_the_history(&self) {
        assert!(self.there(&["list"]).contains(&self.id));
        assert!(self.there(&["show", "latest"]).contains(&self.id));
        assert_eq!(self.there(&["cat", "latest~1:b.txt"]), "first\n");
        assert!(self.there(&["diff", "1", "2"]).contains("+second"));
        assert!(self.there(&["log", "b.txt"]).contains(&self.id));
        self.there(&["timeline"]);
        self.there(&["tag", "2", "kept"]);
        let to = self.world.project.outside().join("copy");
        self.there(&["restore", "latest", "--to", to.to_str().unwrap()]);
        assert_eq!(std::fs::read_to_string(to.join("b.txt")).unwrap(), "second\n");
    }
}

#[test]
fn a_reference_means_a_checkpoint_of_this_workspace() {
    let other = Other::new();
    let short = &other.id[..other.id.len() - 1];
    let to = other.world.project.outside().join("copy");
    let to = to.to_str().unwrap();
    for reference in [&other.id[..], short] {
        for arguments in [
            &["show", reference][..],
            &["diff", reference],
            &["restore", reference, "-y"],
            &["restore", reference, "--to", to],
            &["delete", reference, "-y"],
            &["tag", reference, "t"],
            &["verify", reference],
        ] {
            let (code, errors) = other.refused(arguments);
            assert_eq!(code, Some(3), "{arguments:?}: {errors}");
            let wanted = format!("hint: add --workspace {}", other.workspace);
            assert!(errors.contains(&wanted), "{arguments:?}: {errors}");
        }
    }
    assert_eq!(other.world.json(&["list", "--all-workspaces"])["total"], 3);
    let listed = other.world.run(&["list", "--all-workspaces"]);
    assert!(String::from_utf8(listed.stdout).unwrap().contains(&other.workspace));
    other.reads_the_history();
}

#[test]
fn another_workspace_is_worked_with_where_it_is() {
    let other = Other::new();
    std::fs::write(other.root.join("b.txt"), "third\n").unwrap();
    other.there(&["save", "from afar"]);
    assert_eq!(other.there(&["cat", "latest:b.txt"]), "third\n");
    other.there(&["restore", "1", "-y"]);
    assert_eq!(std::fs::read_to_string(other.root.join("b.txt")).unwrap(), "first\n");
    assert_eq!(other.world.json(&["list"])["total"], 1);
    // By the folder that it was last seen in, too.
    let root = other.root.to_str().unwrap();
    assert!(other.world.run(&["show", &other.id, "--workspace", root]).status.success());
    assert!(other.world.run(&["show", &other.id, "--workspace", "../other"]).status.success());
    let (code, errors) = other.refused(&["list", "--workspace", "0000000000000000"]);
    assert_eq!(code, Some(3), "{errors}");
}

#[test]
fn a_workspace_whose_folder_is_gone_can_be_read_and_restored_elsewhere() {
    let other = Other::new();
    std::fs::remove_dir_all(&other.root).unwrap();
    other.reads_the_history();
    for arguments in [
        &["save"][..],
        &["restore", "1", "-y"],
        &["undo", "-y"],
        &["diff", "1"],
        &["session", "start"],
        &["adopt", "../project"],
    ] {
        let named = [arguments, &["--workspace", &other.workspace]].concat();
        let (code, errors) = other.refused(&named);
        assert_eq!(code, Some(3), "{arguments:?}: {errors}");
        assert!(errors.contains("does not exist any more"), "{arguments:?}: {errors}");
    }
    assert!(!other.root.exists());
    other.there(&["delete", "1", "-y"]);
    other.there(&["verify"]);
}
