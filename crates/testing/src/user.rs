//! Tests by an ordinary user, whom the system tells no where root hears yes.

use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use rustix::process::geteuid;

/// The user that root becomes.
const NOBODY: u32 = 65534;

/// Whether the tests are run by root.
pub fn is_root() -> bool {
    geteuid().is_root()
}

/// Makes a command that of an ordinary user.
pub fn by_ordinary_user(command: &mut Command) -> &mut Command {
    match is_root() {
        true => command.uid(NOBODY).gid(NOBODY),
        false => command,
    }
}

/// Gives everything in a folder to the ordinary user.
pub fn give_away(path: &Path) {
    if !is_root() {
        return;
    }
    chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    if path.is_dir() && !path.is_symlink() {
        for entry in std::fs::read_dir(path).unwrap() {
            give_away(&entry.unwrap().path());
        }
    }
}

/// Copies a program into a folder, because it may lie where others cannot go.
pub fn copy_program(program: &Path, into: &Path) -> std::path::PathBuf {
    let copy = into.join("program");
    std::fs::copy(program, &copy).unwrap();
    std::fs::set_permissions(&copy, std::fs::Permissions::from_mode(0o755)).unwrap();
    copy
}

/// Runs the test called `name` as an ordinary user: in this process if that is who we are, in
/// another if we are root.
pub fn as_ordinary_user(name: &str, test: impl FnOnce()) {
    if !is_root() {
        return test();
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let mut command = Command::new(copy_program(&std::env::current_exe().unwrap(), folder.path()));
    command.args(["--exact", name]).env("TMPDIR", folder.path()).current_dir(folder.path());
    let output = by_ordinary_user(&mut command).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}
