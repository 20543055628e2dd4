//! Upkeep that goes on after a command has answered.

use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use rappel::Rappel;

use crate::process::Context;

/// Starts `rappel upkeep` if it is due, in a process group of its own so that Ctrl-C in the terminal
/// does not reach it. Nobody waits for it; if it cannot be started, a later save tries again.
pub fn start_upkeep(rappel: &Rappel, context: &Context) {
    let due = rappel.upkeep_due();
    if !due.retention && !due.gc {
        return;
    }
    let (Ok(program), Ok(home)) = (std::env::current_exe(), context.home()) else { return };
    let _ = Command::new(program)
        .arg("upkeep")
        .args(due.gc.then_some("--gc"))
        .args(["--quiet", "--home"])
        .arg(home)
        .arg("-C")
        .arg(rappel.root())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn();
}
