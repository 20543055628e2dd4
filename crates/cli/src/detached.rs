//! Upkeep that goes on after a command has answered.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// Starts `rappel gc` for a home, in a process group of its own so that Ctrl-C in the terminal
/// does not reach it. Nobody waits for it; if it cannot be started, a later save tries again.
pub fn start_gc(home: &Path, root: &Path) {
    let Ok(program) = std::env::current_exe() else { return };
    let _ = Command::new(program)
        .args(["gc", "--quiet", "--home"])
        .arg(home)
        .arg("-C")
        .arg(root)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn();
}
