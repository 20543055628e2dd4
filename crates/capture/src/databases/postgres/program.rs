//! Running `pg_dump` and `psql`: the newest that is installed, or behind a prefix of the user's
//! (`docker exec -i db`).
//!
//! The password goes through the environment of the process. Behind a prefix the environment does not arrive,
//! so there it is the first line of the standard input, which a fixed script takes off. It is
//! never an argument. Without a password in the URL the user's own ways (`~/.pgpass`, a service file)
//! work as they do everywhere; of the other `PG…` variables around us none is heeded.
//!
//! A server that is gone is noticed by the network (`ALIVE`). One that is there and says nothing is given up after a while
//! (`silence`), later while a dump is read, and while it loads data it is the user's to give up: then the program is killed,
//! so that whoever waits for it finds its end.

use std::ffi::OsString;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::super::Guard;
use super::super::command::{LOOK, Words};
use super::super::error::{Error, Result};
use super::url::Address;
use rappel_store::Cancel;

/// Takes the password off the standard input and becomes the program.
const WITH_PASSWORD: &str = r#"IFS= read -r PGPASSWORD; export PGPASSWORD; exec "$0" "$@""#;

/// Variables of the user's that say where passwords and services are, not which server is meant.
const KEPT: [&str; 3] = ["PGPASSFILE", "PGSERVICEFILE", "PGSYSCONFDIR"];

/// How a peer is noticed that is not there any more.
const ALIVE: [(&str, &str); 5] = [
    ("keepalives", "1"),
    ("keepalives_idle", "10"),
    ("keepalives_interval", "5"),
    ("keepalives_count", "3"),
    ("tcp_user_timeout", "30000"),
];

/// How much of a program's complaints is kept.
const WORDS: usize = 8 << 10;

/// How to run the programs for one database.
#[derive(Debug, Clone)]
pub struct Programs {
    /// The database.
    pub address: Address,
    /// What the programs are run through, if anything.
    pub tools: Option<Tools>,
    /// Set when the user wants to stop.
    pub cancel: Cancel,
    /// How long a server may be silent that has little to do.
    pub silence: Duration,
}

/// What programs are run through: `docker exec -i db`.
#[derive(Debug, Clone)]
pub struct Tools {
    /// What is put before the programs' names.
    pub prefix: Vec<String>,
    /// Where it is run.
    pub folder: PathBuf,
    /// Asked before each run.
    pub guard: Guard,
}

/// How long that is, unless told otherwise.
pub const SILENCE: Duration = Duration::from_secs(60);

impl Programs {
    /// Starts a program that is connected to the database. `defaults` are connection
    /// parameters.
    pub fn connect(
        &self,
        program: &str,
        arguments: &[&str],
        defaults: &[(&str, &str)],
    ) -> Result<Running> {
        let mut ours = vec![("application_name", "rappel"), ("connect_timeout", "10")];
        ours.extend(ALIVE);
        ours.extend(defaults);
        let mut line: Vec<OsString> = arguments.iter().map(OsString::from).collect();
        line.extend(["-w", "-d"].map(OsString::from));
        line.push(self.address.connection(&ours).into());
        self.start(program, &line, true)
    }

    /// What `PROGRAM --version` says, like `pg_dump (PostgreSQL) 15.4`.
    pub fn version(&self, program: &str) -> Result<Version> {
        let mut running = self.start(program, &["--version".into()], false)?;
        let mut said = String::new();
        if let Some(mut stdout) = running.stdout.take() {
            // Whatever else it is, it is no version.
            let _ = stdout.read_to_string(&mut said);
        }
        let (status, words) = running.end();
        let version =
            Version::parse(&said).filter(|_| status.is_some_and(|status| status.success()));
        version.ok_or_else(|| {
            let why = if words.is_empty() { said.trim().to_owned() } else { words };
            Error::Unavailable(format!("{program} does not run: {}", self.address.cleaned(&why)))
        })
    }

    fn start(&self, program: &str, arguments: &[OsString], connects: bool) -> Result<Running> {
        let password = self.address.password().filter(|_| connects);
        let tools = self.tools.as_ref();
        let first = tools.and_then(|tools| tools.prefix.first());
        let mut command = match tools.and_then(|tools| Some((tools, tools.prefix.split_first()?))) {
            Some((tools, (first, rest))) => {
                tools.guard.check()?;
                let mut command = Command::new(first);
                command.args(rest).current_dir(&tools.folder);
                if password.is_some() {
                    command.args(["sh", "-c", WITH_PASSWORD]);
                }
                command.arg(program);
                command
            }
            None => Command::new(newest(program)),
        };
        command.args(arguments);
        self.set_environment(&mut command);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| match (error.kind(), first) {
            (std::io::ErrorKind::NotFound, None) => Error::NoProgram(format!(
                "{program} is not installed; install PostgreSQL's client programs (postgresql-client), or \
                 set `tools` where they run elsewhere"
            )),
            (_, Some(tool)) => Error::Unavailable(format!("{tool} cannot be run: {error}")),
            (_, None) => Error::Unavailable(format!("{program} cannot be run: {error}")),
        })?;
        let complaints = child.stderr.take().map(|stderr| Words::of(stderr, WORDS));
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let child = Arc::new(Mutex::new(child));
        let over = kill_when_set(self.cancel.clone(), Arc::clone(&child));
        let mut running = Running { child, stdin, stdout, complaints, over: Some(over) };
        if let (Some(password), true) = (password, first.is_some()) {
            if password.reveal().contains('\n') {
                return Err(Error::Unavailable(
                    "a password with a line break cannot be handed through `tools`".to_owned(),
                ));
            }
            if let Some(stdin) = &mut running.stdin {
                // A program that does not listen says why itself.
                let _ = writeln!(stdin, "{}", password.reveal());
            }
        }
        Ok(running)
    }

    fn set_environment(&self, command: &mut Command) {
        for (name, _) in std::env::vars_os() {
            let Some(known) = name.to_str() else { continue };
            let kept = match known {
                "PGSERVICE" => !self.address.names_host(),
                "PGPASSWORD" => self.address.password().is_none(),
                _ => KEPT.contains(&known),
            };
            if known.starts_with("PG") && !kept {
                command.env_remove(name);
            }
        }
        command.env("LC_ALL", "C");
        if let (Some(password), None) = (self.address.password(), &self.tools) {
            command.env("PGPASSWORD", password.reveal());
        }
    }

    /// What there is to say of a server that said nothing for so long.
    pub fn mute(&self, waited: Duration) -> Error {
        let waited = rappel_types::duration::format_duration(waited.as_millis() as u64);
        let place = &self.address;
        Error::Unavailable(format!("{place}: the server is there, but gave no answer for {waited}"))
    }

    /// What the words of a failed program mean.
    pub fn explain(&self, program: &str, words: &str) -> Error {
        let words = self.address.cleaned(words);
        let has = |text: &str| words.contains(text);
        let said = on_one_line(program, &words);
        let place = &self.address;
        if has("FATAL:  database \"") && has("does not exist") {
            return Error::Absent(format!("{place} does not exist"));
        }
        let timed_out = has("canceling statement due to lock timeout")
            || has("canceling statement due to statement timeout");
        if timed_out && has("LOCK TABLE") {
            return Error::Busy(format!("{place}: another program locks a table: {said}"));
        }
        if has("server version mismatch") {
            return Error::NoProgram(format!(
                "{program} is older than the server of {place}; install the client programs of its \
                 version, or set `tools` to run those beside the server: {said}"
            ));
        }
        Error::Unavailable(
            if has("password authentication failed") || has("no password supplied") {
                format!("{place}: the server refused the user or password; check the URL")
            } else if has("too many connections")
                || has("too many clients")
                || has("connection slots")
            {
                format!(
                    "{place}: no connection is left for this user; a save needs two at once and a restore three \
                 (ALTER ROLE … CONNECTION LIMIT, max_connections): {said}"
                )
            } else if has("FATAL:") {
                format!("{place}: the server does not let us in: {said}")
            } else if has("connection to server")
                || has("could not connect")
                || has("could not translate")
            {
                format!("{place}: the server cannot be reached; is it running? {said}")
            } else if has("row-level security") {
                format!(
                    "{place}: the user may not see all rows; connect as the tables' owner or a role with \
                 BYPASSRLS: {said}"
                )
            } else if said.is_empty() {
                format!("{place}: {program} ended without saying why")
            } else {
                format!("{place}: {program} failed: {said}")
            },
        )
    }
}

/// What a program complained about, without its own name before it.
fn on_one_line(program: &str, words: &str) -> String {
    let line = words.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.strip_prefix(&format!("{program}: error: ")) {
        Some(rest) => rest.to_owned(),
        None => line,
    }
}

/// Kills a program once `cancel` is set, unless what is returned was dropped before.
fn kill_when_set(cancel: Cancel, child: Arc<Mutex<Child>>) -> Sender<()> {
    let (over, called_off) = channel();
    // Without a thread it is waited for to the end.
    let _ = rappel_store::threads::start(move || {
        while called_off.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
            if cancel.is_cancelled() {
                // Does nothing to one that was waited for.
                let _ = locked(&child).kill();
                break;
            }
        }
    });
    over
}

fn locked(child: &Mutex<Child>) -> MutexGuard<'_, Child> {
    child.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A program at work.
#[derive(Debug)]
pub struct Running {
    child: Arc<Mutex<Child>>,
    /// What it is told.
    pub stdin: Option<ChildStdin>,
    /// What it says.
    pub stdout: Option<ChildStdout>,
    complaints: Option<Words>,
    /// Dropped to call off who waits for the user to stop it.
    over: Option<Sender<()>>,
}

impl Running {
    /// Waits for its end: how it ended, and what it complained about.
    pub fn end(mut self) -> (Option<ExitStatus>, String) {
        self.finish()
    }

    /// The same, for whoever cannot give it away.
    pub fn finish(&mut self) -> (Option<ExitStatus>, String) {
        drop(self.stdin.take());
        let mut pause = Duration::from_millis(1);
        // Not locked while it is waited for, so that it can be killed.
        let status = loop {
            match locked(&self.child).try_wait() {
                Ok(Some(status)) => break Some(status),
                Ok(None) => {}
                Err(_) => break None,
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(LOOK / 4);
        };
        (status, self.complaints.take().map(Words::end).unwrap_or_default())
    }

    /// From here on the user cannot stop it.
    pub fn see_through(&mut self) {
        self.over = None;
    }

    /// Ends it now.
    pub fn kill(&mut self) {
        drop(self.stdin.take());
        let mut child = locked(&self.child);
        let _ = child.kill();
        let _ = child.wait();
    }
}

impl Drop for Running {
    /// Nobody is left behind.
    fn drop(&mut self) {
        let ended = locked(&self.child).try_wait();
        if matches!(ended, Ok(None)) {
            self.kill();
        }
    }
}

/// The newest installed one of that name, else whatever the search path has. What Debian has on its search
/// path is a script that costs more than the program.
fn newest(program: &str) -> PathBuf {
    let mut found: Vec<(u32, PathBuf)> = Vec::new();
    for (folder, prefix) in [
        ("/usr/lib/postgresql", ""),
        ("/usr", "pgsql-"),
        ("/opt/homebrew/opt", "postgresql@"),
        ("/usr/local/opt", "postgresql@"),
    ] {
        for entry in Path::new(folder).read_dir().into_iter().flatten().flatten() {
            let name = entry.file_name();
            let number = name.to_str().and_then(|name| name.strip_prefix(prefix)?.parse().ok());
            let path = entry.path().join("bin").join(program);
            if let (Some(number), true) = (number, path.is_file()) {
                found.push((number, path));
            }
        }
    }
    found.sort();
    found.pop().map_or_else(|| PathBuf::from(program), |(_, path)| path)
}

/// A version of PostgreSQL: 15.4 is `(15, 4)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// Which formats and commands it knows.
    pub major: u32,
    /// Which corrections it has.
    pub minor: u32,
}

impl Version {
    /// The first number with or without a dot in a text.
    pub fn parse(text: &str) -> Option<Self> {
        let word =
            text.split_whitespace().find(|word| word.starts_with(|c: char| c.is_ascii_digit()))?;
        let mut numbers = word.split(|c: char| !c.is_ascii_digit()).map(str::parse);
        let major = numbers.next()?.ok()?;
        let minor = numbers.next().and_then(Result::ok).unwrap_or(0);
        Some(Self { major, minor })
    }
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_the_programs_are_explained() {
        let address = Address::parse("postgres://u:s3cret@h/d").unwrap_or_default();
        let (tools, cancel, silence) = (None, Cancel::default(), SILENCE);
        let programs = Programs { address, tools, cancel, silence };
        let explain = |words: &str| programs.explain("pg_dump", words);
        let older = explain(
            "pg_dump: error: aborting because of server version mismatch\n\
             pg_dump: detail: server version: 17.1; pg_dump version: 15.4",
        );
        assert!(older.to_string().contains("older than the server"), "{older}");
        assert!(older.to_string().contains("17.1"), "{older}");
        assert!(matches!(explain("FATAL:  database \"d\" does not exist"), Error::Absent(_)));
        let locked = "pg_dump: error: query failed: ERROR:  canceling statement due to statement timeout\n\
                      pg_dump: detail: Query was: LOCK TABLE public.t IN ACCESS SHARE MODE";
        assert!(matches!(explain(locked), Error::Busy(_)));
        let refused = explain("FATAL:  password authentication failed for user \"u\"");
        assert!(refused.to_string().ends_with("check the URL"), "{refused}");
        let lines = explain("pg_dump: error: connection to server failed:\n\tIs it there?\n");
        let expected = "is it running? connection to server failed: Is it there?";
        assert!(lines.to_string().ends_with(expected), "{lines}");
        let other = explain("something about s3cret");
        assert!(other.to_string().ends_with("something about ***"), "{other}");
    }

    #[test]
    fn versions_as_they_are_said() {
        let version = |text| Version::parse(text).unwrap();
        let fifteen = version("pg_dump (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)");
        assert_eq!(fifteen, Version { major: 15, minor: 18 });
        assert_eq!(version("pg_dump (PostgreSQL) 18beta1"), Version { major: 18, minor: 0 });
        assert_eq!(Version::parse("command not found"), None);
    }
}
