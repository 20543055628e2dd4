//! Running the `git` program so that it changes nothing, fetches nothing and runs nothing of the
//! user's: no hooks, no filters, no monitors, no traces, none of the `GIT_*` variables around us.

use std::ffi::OsStr;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::JoinHandle;

/// Why git could not answer, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trouble {
    /// There is no such program.
    NoProgram,
    /// It failed; its own words.
    Failed(String),
}

impl std::fmt::Display for Trouble {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoProgram => f.write_str("the git program is not installed"),
            Self::Failed(words) => write!(f, "git failed: {words}"),
        }
    }
}

/// Whether there is a git program to be run.
pub fn is_installed() -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join("git").is_file())
}

/// Settings that keep git from running or changing anything of the user's.
const HARMLESS: [&str; 10] = [
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "core.alternateRefsCommand=",
    "core.untrackedCache=false",
    "core.pager=cat",
    "gc.auto=0",
    "maintenance.auto=false",
    "protocol.allow=never",
    "safe.directory=*",
    "log.showSignature=false",
];

/// A repository, to run git on.
#[derive(Debug, Clone, Copy)]
pub struct Git<'a> {
    /// Git's own folder of the work tree.
    pub git_dir: &'a Path,
    /// Another index than the work tree's.
    pub index: Option<&'a Path>,
    /// Another folder of objects than the one in `git_dir`.
    pub objects: Option<&'a Path>,
}

impl<'a> Git<'a> {
    /// Git on the repository whose folder this is.
    pub fn at(git_dir: &'a Path) -> Self {
        Self { git_dir, index: None, objects: None }
    }

    fn command<S: AsRef<OsStr>>(&self, args: &[S]) -> Command {
        let mut command = Command::new("git");
        command.env_clear();
        for name in ["PATH", "TMPDIR"] {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        command
            .env("LC_ALL", "C")
            .env("GIT_DIR", self.git_dir)
            // No command of ours looks at a work tree, and a submodule's may be gone.
            .env("GIT_WORK_TREE", self.git_dir)
            .envs(self.index.map(|index| ("GIT_INDEX_FILE", index)))
            .envs(self.objects.map(|objects| ("GIT_OBJECT_DIRECTORY", objects)))
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_ATTR_NOSYSTEM", "1")
            .env("GIT_OPTIONAL_LOCKS", "0")
            .env("GIT_NO_LAZY_FETCH", "1")
            .env("GIT_NO_REPLACE_OBJECTS", "1")
            .env("GIT_TERMINAL_PROMPT", "0")
            // Who an entry in a reflog would be by; ours are replaced by what was captured.
            .env("GIT_COMMITTER_NAME", "rappel")
            .env("GIT_COMMITTER_EMAIL", "rappel@localhost");
        for setting in HARMLESS {
            command.args(["-c", setting]);
        }
        command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Starts git; what it is told and what it says go through pipes.
    pub fn start<S: AsRef<OsStr>>(&self, args: &[S]) -> Result<Running, Trouble> {
        let mut command = self.command(args);
        command.stdin(Stdio::piped());
        let mut child = command.spawn().map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => Trouble::NoProgram,
            _ => Trouble::Failed(error.to_string()),
        })?;
        let complaints = child.stderr.take().map(|mut stderr| {
            rappel_store::threads::start(move || {
                let mut words = Vec::new();
                let _ = stderr.by_ref().take(8 << 10).read_to_end(&mut words);
                // The rest is read so that git is not stopped by a full pipe.
                let _ = std::io::copy(&mut stderr, &mut std::io::sink());
                words
            })
        });
        match complaints.transpose() {
            Ok(complaints) => Ok(Running { child, complaints }),
            Err(error) => {
                let _ = child.kill();
                let _ = child.wait();
                Err(Trouble::Failed(format!("cannot start a thread: {error}")))
            }
        }
    }

    /// What git answers, with `input` on its standard input.
    pub fn ask<S: AsRef<OsStr>>(&self, args: &[S], input: &[u8]) -> Result<Vec<u8>, Trouble> {
        let (status, output, words) = self.try_ask(args, input)?;
        if status.success() { Ok(output) } else { Err(Trouble::Failed(essence(&words))) }
    }

    /// The same, where failing is an answer too.
    pub fn try_ask<S: AsRef<OsStr>>(
        &self,
        args: &[S],
        input: &[u8],
    ) -> Result<(ExitStatus, Vec<u8>, String), Trouble> {
        let failed = |error: std::io::Error| Trouble::Failed(error.to_string());
        let mut running = self.start(args)?;
        let stdin = running.child.stdin.take();
        let mut output = Vec::new();
        std::thread::scope(|scope| {
            let feed = move || {
                // Git may stop listening early; what it says then counts.
                let _ = stdin.map(|mut stdin| std::io::Write::write_all(&mut stdin, input));
            };
            rappel_store::threads::start_in(scope, feed).map_err(failed)?;
            match running.child.stdout.take() {
                Some(mut stdout) => stdout.read_to_end(&mut output).map_err(failed),
                None => Ok(0),
            }
        })?;
        let (status, words) = running.end()?;
        Ok((status, output, words))
    }
}

/// What git says at its end, without what it complained of on the way there.
fn essence(words: &str) -> String {
    let end = words.lines().rev().find_map(|line| line.strip_prefix("fatal: "));
    end.unwrap_or(words).to_owned()
}

/// Git at work.
#[derive(Debug)]
pub struct Running {
    /// The process.
    pub child: Child,
    complaints: Option<JoinHandle<Vec<u8>>>,
}

impl Running {
    /// Waits for its end: how it ended, and what it complained about.
    pub fn end(mut self) -> Result<(ExitStatus, String), Trouble> {
        drop(self.child.stdin.take());
        let status = self.child.wait().map_err(|error| Trouble::Failed(error.to_string()))?;
        let words = self.complaints.take().and_then(|thread| thread.join().ok());
        let words = String::from_utf8_lossy(&words.unwrap_or_default()).trim().to_owned();
        Ok((status, if words.is_empty() { status.to_string() } else { words }))
    }

    /// Waits for its end, which must be a good one.
    pub fn succeed(self) -> Result<(), Trouble> {
        let (status, words) = self.end()?;
        if status.success() { Ok(()) } else { Err(Trouble::Failed(essence(&words))) }
    }
}

impl Drop for Running {
    /// Nobody is left behind.
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}
