//! Git as nobody has set it up: the same names, dates and branches on every machine.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Output};

/// Git in a folder; its arguments are to be added.
pub fn command(folder: &Path) -> Command {
    let mut command = Command::new("git");
    command
        .current_dir(folder)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap())
        .env("HOME", "/nonexistent")
        .env("LC_ALL", "C")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_EDITOR", "true")
        // Who only looks changes nothing, and finds no repository around the tests.
        .env("GIT_OPTIONAL_LOCKS", "0")
        .env("GIT_CEILING_DIRECTORIES", std::env::temp_dir())
        .env("GIT_AUTHOR_NAME", "A U Thor")
        .env("GIT_AUTHOR_EMAIL", "author@example.com")
        .env("GIT_COMMITTER_NAME", "C O Mitter")
        .env("GIT_COMMITTER_EMAIL", "committer@example.com")
        .env("GIT_AUTHOR_DATE", "2026-11-15T12:00:00Z")
        .env("GIT_COMMITTER_DATE", "2026-11-15T12:00:00Z")
        .args(["-c", "init.defaultBranch=main", "-c", "protocol.file.allow=always"])
        .args(["-c", "advice.detachedHead=false", "-c", "gc.auto=0"]);
    command
}

/// What git says, whether or not it succeeds.
pub fn attempt<S: AsRef<OsStr>>(folder: &Path, arguments: &[S]) -> Output {
    command(folder).args(arguments).output().unwrap()
}

/// What git says; it must succeed.
pub fn bytes(folder: &Path, arguments: &[&str]) -> Vec<u8> {
    let output = attempt(folder, arguments);
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "git {arguments:?} in {}: {words}", folder.display());
    output.stdout
}

/// The same as text.
pub fn git(folder: &Path, arguments: &[&str]) -> String {
    String::from_utf8_lossy(&bytes(folder, arguments)).into_owned()
}

/// The same without the line's end.
pub fn text(folder: &Path, arguments: &[&str]) -> String {
    git(folder, arguments).trim_end().to_owned()
}
