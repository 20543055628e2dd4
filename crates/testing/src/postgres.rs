//! A PostgreSQL server for one test: in a folder of its own, reached by a socket in that folder, and
//! gone with the value (or with the thread that started it, if that dies first).

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

/// The user that runs the server where root must not.
const UNPRIVILEGED: &str = "postgres";

/// A running server. Its superuser is `postgres`, who needs no password on the socket; others need one.
#[derive(Debug)]
pub struct Postgres {
    folder: TempDir,
    server: Option<Child>,
    settings: Vec<String>,
}

/// A folder with another server (`initdb` and `postgres`) to run than the installed one, to try old and new ones with the
/// installed client programs.
const OTHER_SERVER: &str = "RAPPEL_TEST_POSTGRES";

/// Where a server's own programs are.
fn server_programs() -> PathBuf {
    std::env::var_os(OTHER_SERVER).map_or_else(programs, PathBuf::from)
}

/// Where the newest installed server has its programs; the client programs are those that Rappel takes.
pub fn programs() -> PathBuf {
    let mut versions: Vec<(u32, PathBuf)> = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let number = entry.file_name().to_str()?.parse().ok()?;
            let bin = entry.path().join("bin");
            bin.join("postgres").exists().then_some((number, bin))
        })
        .collect();
    versions.sort();
    if let Some((_, newest)) = versions.pop() {
        return newest;
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .find(|folder| folder.join("postgres").exists() && folder.join("initdb").exists())
        .expect("no PostgreSQL server is installed; scripts/test installs it")
}

impl Postgres {
    /// A new server, which does not wait for the disk.
    pub fn start() -> Self {
        Self::start_with(&["fsync=off", "full_page_writes=off"])
    }

    /// A new server with these settings (`name=value`).
    pub fn start_with(settings: &[&str]) -> Self {
        let folder = tempfile::Builder::new().prefix("rappel-pg-").tempdir().unwrap();
        let mut server = Self {
            folder,
            server: None,
            settings: settings.iter().map(|&setting| setting.to_owned()).collect(),
        };
        if rustix::process::geteuid().is_root() {
            let status = Command::new("chown").arg(UNPRIVILEGED).arg(server.folder.path()).status();
            assert!(status.unwrap().success(), "the user {UNPRIVILEGED} is needed to run a server");
        }
        let made = as_somebody()
            .arg(server_programs().join("initdb"))
            .arg("-D")
            .arg(server.data())
            .args(["--no-sync", "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C"])
            .current_dir("/")
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let access = "local all postgres trust\nlocal all all scram-sha-256\nhost all all all scram-sha-256\n";
        std::fs::write(server.data().join("pg_hba.conf"), access).unwrap();
        server.up();
        server
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// The folder of its socket: the `host` to connect to.
    pub fn host(&self) -> &Path {
        self.folder.path()
    }

    /// The address of one of its databases, for its superuser.
    pub fn url(&self, database: &str) -> String {
        self.url_as("postgres", database)
    }

    /// The address of one of its databases for `user`, which may be `name:password`.
    pub fn url_as(&self, user: &str, database: &str) -> String {
        let mut host = String::new();
        for byte in self.host().to_str().unwrap().bytes() {
            match byte {
                b'/' => host.push_str("%2F"),
                byte => write!(host, "{}", char::from(byte)).unwrap(),
            }
        }
        format!("postgres://{user}@{host}/{database}")
    }

    /// Starts the server, and waits until it answers.
    pub fn up(&mut self) {
        assert!(self.server.is_none());
        let _ = std::fs::remove_file(self.data().join("postmaster.pid"));
        let log = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.folder.path().join("log"))
            .unwrap();
        let mut command = as_somebody();
        command.arg(server_programs().join("postgres")).arg("-D").arg(self.data());
        command.args(["-c", "listen_addresses=", "-c", "max_prepared_transactions=8"]);
        // Nothing happens that the test did not ask for.
        command.args(["-c", "autovacuum=off"]);
        // Servers before 14 would keep passwords in a way that ours do not take.
        command.args(["-c", "password_encryption=scram-sha-256"]);
        command.arg("-c").arg(format!("unix_socket_directories={}", self.host().display()));
        for setting in &self.settings {
            command.args(["-c", setting]);
        }
        let server = command
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        self.server = Some(server);
        self.wait_until_it_answers();
    }

    /// Waits until the server takes connections (again).
    pub fn wait_until_it_answers(&mut self) {
        for _ in 0..600 {
            let asked = self.psql_command("postgres").args(["-c", "SELECT 1"]).output().unwrap();
            if asked.status.success() {
                return;
            }
            if let Some(Ok(Some(status))) = self.server.as_mut().map(Child::try_wait) {
                panic!("the server ended: {status}\n{}", self.log());
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        panic!("the server does not answer\n{}", self.log());
    }

    /// Stops the server in an orderly way.
    pub fn down(&mut self) {
        self.signal(rustix::process::Signal::INT);
    }

    /// Ends the server as a power failure would, but for what the kernel still holds.
    pub fn crash(&mut self) {
        self.signal(rustix::process::Signal::QUIT);
    }

    fn signal(&mut self, signal: rustix::process::Signal) {
        if let Some(mut server) = self.server.take() {
            if let Ok(None) = server.try_wait() {
                let pid = rustix::process::Pid::from_child(&server);
                let _ = rustix::process::kill_process(pid, signal);
            }
            let _ = server.wait();
        }
    }

    /// What the server had to say.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// `psql` as the superuser of `database`; rows come without decoration.
    pub fn psql_command(&self, database: &str) -> Command {
        let mut command = Command::new(programs().join("psql"));
        command.args(["-XAtq", "-v", "ON_ERROR_STOP=1", "-U", "postgres", "-d", database, "-h"]);
        command.arg(self.host());
        command
    }

    /// Carries out statements, which must succeed, and returns what they answer.
    pub fn run(&self, database: &str, statements: &str) -> String {
        let mut psql = self
            .psql_command(database)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = psql.stdin.take().unwrap();
        let output = std::thread::scope(|scope| {
            scope.spawn(move || std::io::Write::write_all(&mut stdin, statements.as_bytes()));
            psql.wait_with_output().unwrap()
        });
        let complaints = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{complaints}\n{statements}");
        String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
    }

    /// A new, empty database.
    pub fn create(&self, database: &str) {
        self.run("postgres", &format!("CREATE DATABASE {database}"));
    }

    /// What `pg_dump` says of a database.
    pub fn dump(&self, database: &str) -> String {
        let output = Command::new(programs().join("pg_dump"))
            .args(["-U", "postgres", "-h"])
            .arg(self.host())
            .arg(database)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let dump = String::from_utf8(output.stdout).unwrap();
        // These carry a new key every time.
        let keyed =
            |line: &&str| !line.starts_with("\\restrict") && !line.starts_with("\\unrestrict");
        dump.split_inclusive('\n').filter(keyed).collect()
    }

    /// `pgbench` on one of its databases.
    pub fn pgbench(&self, database: &str) -> Command {
        let mut command = Command::new(programs().join("pgbench"));
        command.args(["-U", "postgres", "-h"]).arg(self.host()).arg(database);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    /// Kills one of the server's processes, which makes it start over.
    pub fn kill_backend(&self, pid: &str) {
        let status = Command::new("kill").args(["-9", pid]).status().unwrap();
        assert!(status.success());
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.crash();
    }
}

/// A command line to which a program of the server is added: it is run by somebody who is not root, and
/// ends when we do.
fn as_somebody() -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "QUIT"]);
    if rustix::process::geteuid().is_root() {
        command.args(["--reuid", UNPRIVILEGED, "--regid", UNPRIVILEGED, "--clear-groups"]);
    }
    command.arg("--");
    command
}
