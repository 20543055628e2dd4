//! Tests that cannot run on this machine. They never just pass: each one is counted.

use std::io::Write;

/// The variable that names the file where `scripts/test` counts them.
const TOLD_IN: &str = "RAPPEL_CANNOT_RUN";

/// Says that the test that calls this cannot run here, and why. Where `CI` is set, that is a
/// failure: everything a test needs is there.
///
/// A runner shows nothing of a test that passes, so the line goes to a file too, if there is one.
#[track_caller]
pub fn cannot_run(reason: &str) {
    let thread = std::thread::current();
    let place = std::panic::Location::caller();
    let line = match thread.name() {
        Some(name) if name != "main" => format!("CANNOT RUN: {name}: {reason}"),
        _ => format!("CANNOT RUN: {place}: {reason}"),
    };
    assert!(std::env::var_os("CI").is_none(), "{line}");
    eprintln!("{line}");
    if let Some(file) = std::env::var_os(TOLD_IN) {
        let mut file = std::fs::File::options().append(true).create(true).open(file).unwrap();
        file.write_all(format!("{line}\n").as_bytes()).unwrap();
    }
}
