//! What the library must be told about the process: folders, environment, machine, signals.
//!
//! The only module that reads environment variables. Commands get a [`Context`] and open the
//! workspace through it.

use std::collections::HashMap;
use std::ffi::OsString;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::tz::TimeZone;
use rappel::ambient::{Clock, SystemClock};
use rappel::{Environment, ErrorKind, OpenOptions, Operation, Rappel, Surroundings};
use rappel_hooks::integrate::UserFolder;
use rappel_hooks::{Process, VENDORS, Vendor};
use rappel_types::Advice;
use rappel_types::agents::SessionId;
use rappel_types::{Reference, RelPath, Timestamp, When, WorkspaceId, time};

use crate::ancestors;
use crate::args::Flags;
use crate::errors::{Failure, Result};
use crate::output::{Output, clean};
use crate::pager::Pager;
use crate::{face, values};

/// What every command works with.
pub struct Context<'a> {
    /// Where words go.
    pub output: &'a Output,
    folder: PathBuf,
    home: Option<PathBuf>,
    /// The workspace that is named instead of the one here.
    workspace: Option<String>,
    /// The flags that choose home and folder, to be repeated in commands that are suggested.
    chosen: Vec<String>,
    /// Stops what the command does, and knows how far it is.
    pub operation: Operation,
}

impl<'a> Context<'a> {
    /// Looks at the flags and the process. `-C` counts as the current folder from here on.
    pub fn new(flags: &Flags, output: &'a Output) -> Result<Self> {
        let mut folder = std::env::current_dir()
            .map_err(|error| Failure::failed(format!("cannot read the current folder: {error}")))?;
        for further in &flags.directory {
            folder.push(further);
        }
        if !flags.directory.is_empty() {
            folder = std::fs::canonicalize(&folder).map_err(|error| Failure {
                kind: ErrorKind::NotFound,
                message: format!("cannot go to {}: {error}", folder.display()),
                hint: None,
            })?;
        }
        let home = flags.home.as_deref().map(|home| folder.join(home));
        let mut chosen = Vec::new();
        for (flag, paths) in [("-C", &flags.directory[..]), ("--home", flags.home.as_slice())] {
            for path in paths {
                chosen.extend([flag.to_owned(), quote(&path.to_string_lossy())]);
            }
        }
        let workspace =
            flags.workspace.as_deref().map(|named| match named.parse::<WorkspaceId>() {
                Ok(_) => named.to_owned(),
                Err(_) => {
                    let path = values::without_dots(&folder.join(named));
                    path.to_string_lossy().into_owned()
                }
            });
        if let Some(named) = &workspace {
            chosen.extend(["--workspace".to_owned(), quote(named)]);
        }
        Ok(Self { output, folder, home, workspace, chosen, operation: Operation::default() })
    }

    /// Opens the workspace that the current folder belongs to.
    pub fn open(&self) -> Result<Rappel> {
        let opened = self.open_silently()?;
        self.warn(&opened);
        Ok(opened)
    }

    /// Tells what there is to say about a workspace that was opened.
    pub fn warn(&self, opened: &Rappel) {
        for warning in opened.warnings() {
            self.output.warning(&face::advice::sentence(&warning));
        }
        self.announce(opened);
    }

    /// Tells a person, once, that retention deletes by itself.
    pub fn announce(&self, rappel: &Rappel) {
        if self.output.json || self.output.quiet || !std::io::stderr().is_terminal() {
            return;
        }
        if let Some(first) = rappel.take_announcement() {
            let number = face::count(first.count as u64, "checkpoint", "checkpoints");
            let plan = self.suggest("prune --dry-run");
            self.output.note(&format!(
                "Rappel deleted {number} of {} ({}), by its rules for retention and size. \
                 `rappel undelete` brings each back for a day; `{plan}` shows what stays and why. \
                 Rappel goes on doing so, and says it only this once",
                first.root,
                time::age(self.now(), first.at),
            ));
        }
    }

    /// Opens it for a save, which says itself what stands in its way.
    pub fn open_silently(&self) -> Result<Rappel> {
        self.open_with(self.options()?)
    }

    /// The same for a worker that no one waits for: it has time to wait for a locked home.
    pub fn open_patiently(&self) -> Result<Rappel> {
        let lock_limit = std::time::Duration::from_secs(10 * 60);
        self.open_with(OpenOptions { lock_limit, ..self.options()? })
    }

    #[allow(clippy::unused_self, reason = "opening is asked of the context")]
    fn open_with(&self, options: OpenOptions) -> Result<Rappel> {
        let home = options.home.clone();
        Rappel::open(options).map_err(|error| {
            // The system refused something in the home; whatever else fails has its own advice.
            let refused = error.refused_path().is_some_and(|path| path.starts_with(&home));
            let mut failure = Failure::from(error);
            if refused {
                let advice = || face::advice::render(&Advice::ChooseHome);
                failure.hint.get_or_insert_with(advice);
            }
            failure
        })
    }

    /// How the workspace is opened.
    pub fn options(&self) -> Result<OpenOptions> {
        Ok(OpenOptions {
            ends_days: true,
            environment: environment(),
            machine: machine(),
            environment_name: variable("RAPPEL_ENVIRONMENT")
                .and_then(|name| name.into_string().ok()),
            variables: Arc::new(|name| variable(name).and_then(|value| value.into_string().ok())),
            trust: variable("RAPPEL_TRUST").and_then(|hash| hash.into_string().ok()),
            agents: surroundings(),
            zone: self.zone(),
            operation: self.operation.clone(),
            workspace: self.workspace.clone(),
            words: Some(Arc::new(face::advice::render)),
            waiting: (!self.output.json).then(|| Arc::new(|who: &str| waiting(who)) as _),
            ..OpenOptions::new(self.root(), self.home()?)
        })
    }

    /// The folder that the command works in.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Whether the user named the folder or the workspace.
    pub fn names_workspace(&self) -> bool {
        self.workspace.is_some() || self.chosen.iter().any(|word| word == "-C")
    }

    /// The workspace's root.
    pub fn root(&self) -> PathBuf {
        rappel::find_root(&self.folder)
    }

    /// Where Rappel keeps its data.
    pub fn home(&self) -> Result<PathBuf> {
        if let Some(home) = &self.home {
            return Ok(home.clone());
        }
        if let Some(home) = variable("RAPPEL_HOME") {
            return Ok(self.folder.join(home));
        }
        platform_home().ok_or_else(|| Failure {
            kind: ErrorKind::Failed,
            message: "there is no home folder to keep checkpoints in".into(),
            hint: Some("set HOME, or choose a folder with --home or RAPPEL_HOME".into()),
        })
    }

    /// The home that the user chose for this call.
    pub fn chosen_home(&self) -> Option<PathBuf> {
        self.home.clone()
    }

    /// Where an agent keeps the user's own settings.
    #[allow(clippy::unused_self, reason = "what the process says is asked of the context")]
    pub fn agent_folder(&self, agent: &Vendor) -> Result<UserFolder> {
        user_folder(agent).ok_or_else(|| {
            Failure::failed(format!("there is no home folder with the settings of {}", agent.name))
        })
    }

    /// The agent session that the process belongs to, if it says so.
    #[allow(clippy::unused_self, reason = "what the process says is asked of the context")]
    pub fn session(&self) -> Option<String> {
        variable("RAPPEL_SESSION").and_then(|session| session.into_string().ok())
    }

    /// The same, where it is an id at all.
    pub fn session_id(&self) -> Option<SessionId> {
        self.session().and_then(|session| session.parse().ok())
    }

    /// The session that is named: by a flag, else by `RAPPEL_SESSION`. To pass over one that cannot be a session's id
    /// would be to take another session for it.
    pub fn named_session(&self, given: Option<&SessionId>) -> Result<Option<SessionId>> {
        let Some(session) = self.session().filter(|_| given.is_none()) else {
            return Ok(given.cloned());
        };
        session.parse().map(Some).map_err(|error| {
            Failure::usage(
                format!("RAPPEL_SESSION: {error}"),
                "export it as `rappel session start` prints it, or unset it",
            )
        })
    }

    /// The same for another folder.
    pub fn within(&self, folder: &Path) -> Self {
        Self {
            output: self.output,
            folder: self.folder.join(folder),
            home: self.home.clone(),
            workspace: None,
            chosen: self.chosen.clone(),
            operation: self.operation.clone(),
        }
    }

    /// The session that asks: the one that is named, else the one of the agent in whose shell this
    /// runs. An agent whose session is not known is nobody.
    pub fn asking_session(
        &self,
        given: Option<&SessionId>,
        rappel: &Rappel,
    ) -> Result<Option<SessionId>> {
        let named = self.named_session(given)?;
        if given.is_some() {
            return Ok(named);
        }
        for vendor in VENDORS {
            let session = match named_by(vendor) {
                Some(name) => rappel.session_called(vendor.name, &name)?,
                None => session_above(vendor, rappel)?,
            };
            let Some(session) = session else { continue };
            // Below `rappel run` the variable names the run, and its agent has its own session.
            if named.is_none() || rappel.session(&session)?.parent == named {
                return Ok(Some(session));
            }
        }
        Ok(named)
    }

    /// From now on Ctrl-C and a request to terminate stop long work cleanly; a second one stops it
    /// at once. Not called earlier, so that a question can be answered with Ctrl-C.
    pub fn stop_cleanly(&self) {
        use signal_hook::consts::{SIGINT, SIGTERM};
        for signal in [SIGINT, SIGTERM] {
            // Where a handler cannot be set, the signal kills; the store and a restore survive it.
            let _ = signal_hook::flag::register_conditional_shutdown(
                signal,
                128 + signal,
                self.operation.cancel.flag(),
            );
            let _ = signal_hook::flag::register(signal, self.operation.cancel.flag());
        }
    }

    /// Paths as they were written on the command line; none at all if one is the whole workspace.
    pub fn paths<'p>(
        &self,
        root: &Path,
        given: impl IntoIterator<Item = &'p OsString>,
    ) -> Result<Vec<RelPath>> {
        let mut paths = Vec::new();
        // In another workspace, paths are meant from its root on.
        let folder = if self.workspace.is_some() { root } else { &self.folder };
        for path in given {
            match values::path_below(root, folder, path)? {
                Some(path) => paths.push(path),
                None => return Ok(Vec::new()),
            }
        }
        Ok(paths)
    }

    /// The failure; if a file was given where a checkpoint belongs, with how to write that.
    pub fn or_a_path<'r>(
        &self,
        mut failure: Failure,
        command: &str,
        given: impl IntoIterator<Item = Option<&'r Reference>>,
    ) -> Failure {
        let is_path = |text: &String| self.folder.join(text).symlink_metadata().is_ok();
        let mut given = given.into_iter().flatten().map(ToString::to_string);
        if failure.kind == ErrorKind::NotFound
            && let Some(path) = given.find(is_path)
        {
            let command = self.suggest(command);
            failure.hint = Some(format!("paths come after `--`: {command} -- {}", quote(&path)));
        }
        failure
    }

    /// A path of ours, against the current folder.
    pub fn absolute(&self, path: &Path) -> PathBuf {
        self.folder.join(path)
    }

    /// A command that can be typed here, with the flags that this one was called with. They follow
    /// the command, so that what a reader looks for comes first.
    pub fn suggest(&self, words: &str) -> String {
        let mut command = format!("rappel {words}");
        for flag in &self.chosen {
            command.push(' ');
            command.push_str(flag);
        }
        command
    }

    /// The present.
    #[allow(clippy::unused_self, reason = "what the process says is asked of the context")]
    pub fn now(&self) -> Timestamp {
        SystemClock.now()
    }

    /// The zone in which people here mean their times.
    #[allow(clippy::unused_self, reason = "what the process says is asked of the context")]
    pub fn zone(&self) -> TimeZone {
        // Asking jiff for the system's zone makes it walk all zones to learn its name; the rules
        // themselves are in one file.
        if std::env::var_os("TZ").is_none()
            && let Ok(rules) = std::fs::read("/etc/localtime")
            && let Ok(zone) = TimeZone::tzif("local", &rules)
        {
            return zone;
        }
        TimeZone::system()
    }

    /// The beginning of what people mean by a WHEN.
    pub fn moment(&self, when: &When) -> Result<Timestamp> {
        when.resolve(self.now(), &self.zone())
            .map_err(|error| Failure::usage(error.to_string(), error.hint()))
    }

    /// The end of what people mean by a WHEN.
    pub fn moment_end(&self, when: &When) -> Result<Timestamp> {
        when.resolve_end(self.now(), &self.zone())
            .map_err(|error| Failure::usage(error.to_string(), error.hint()))
    }

    /// Whether somebody is there to answer a question.
    pub fn can_ask(&self) -> bool {
        !self.output.json
            && !in_ci()
            && std::io::stdin().is_terminal()
            && std::io::stderr().is_terminal()
    }

    /// Whether a person is there to answer a question that is not for an agent to answer.
    pub fn can_ask_a_person(&self) -> bool {
        self.can_ask() && !self.is_in_an_agents_shell()
    }

    /// Whether an agent started this process, as far as its environment says so.
    #[allow(clippy::unused_self, reason = "what the process says is asked of the context")]
    pub fn is_in_an_agents_shell(&self) -> bool {
        in_an_agents_shell()
    }

    /// Whether somebody is there to watch progress.
    pub fn can_watch(&self) -> bool {
        !self.output.quiet && !in_ci() && std::io::stderr().is_terminal()
    }
}

/// Variables that agents set for the programs that they run.
const AGENTS: [&str; 10] = [
    "CLAUDECODE",
    "CLAUDE_CODE_SESSION_ID",
    "AI_AGENT",
    "CODEX_SANDBOX",
    "CODEX_THREAD_ID",
    "GEMINI_CLI",
    "GEMINI_SESSION_ID",
    "OPENCODE",
    "OPENCODE_PID",
    "CURSOR_AGENT",
];

fn in_an_agents_shell() -> bool {
    AGENTS.iter().any(|name| variable(name).is_some())
}

/// What shows long answers to a person at a terminal. Programs, agents and tests that run on one
/// would wait for a key for ever.
pub fn pager(flags: &Flags) -> Option<Pager> {
    let terminal = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    let dumb = variable("TERM").is_none_or(|name| name == "dumb");
    if flags.no_pager || flags.json || !terminal || dumb || in_ci() || in_an_agents_shell() {
        return None;
    }
    match std::env::var_os("PAGER") {
        None => Some(Pager::default()),
        Some(empty) if empty.is_empty() => None,
        Some(command) => Some(Pager::new(&command, variable("LESS").is_none())),
    }
}

/// Says who is waited for. From any thread, so not through an [`Output`].
fn waiting(who: &str) {
    use std::io::Write;
    // Nobody is left to be told that stderr cannot be written.
    let _ = writeln!(std::io::stderr().lock(), "waiting for the store: {}", clean(who));
}

pub use rappel_hooks::words::quote;

/// The path of this program, as the user knows it: a package manager's link outlives the file that
/// it leads to.
pub fn program() -> Result<PathBuf> {
    let real = std::env::current_exe().and_then(std::fs::canonicalize).map_err(|error| {
        Failure::failed(format!("this program's own path cannot be found: {error}"))
    })?;
    let called = std::env::args_os().next().map(PathBuf::from).unwrap_or_default();
    let candidates = match called.components().count() {
        1 => path_folders().into_iter().map(|folder| folder.join(&called)).collect(),
        _ => Vec::from_iter(std::path::absolute(&called)),
    };
    let is_it = |path: &PathBuf| std::fs::canonicalize(path).is_ok_and(|found| found == real);
    Ok(candidates.into_iter().find(is_it).unwrap_or(real))
}

/// The folders in which a shell looks for programs.
pub fn path_folders() -> Vec<PathBuf> {
    let path = variable("PATH").unwrap_or_default();
    std::env::split_paths(&path).filter(|folder| folder.is_absolute()).collect()
}

/// Why a program could not be run, and the exit code that a shell has for that.
pub struct NotRun {
    pub failure: Failure,
    pub code: u8,
}

/// Becomes another program. Only comes back when that fails.
pub fn replace_by(command: &[String], folder: &Path) -> NotRun {
    use std::os::unix::process::CommandExt;
    let [program, arguments @ ..] = command else {
        return NotRun { failure: Failure::failed("no command"), code: 2 };
    };
    let error = std::process::Command::new(program).args(arguments).current_dir(folder).exec();
    let code = if error.kind() == std::io::ErrorKind::NotFound { 127 } else { 126 };
    NotRun { failure: Failure::failed(format!("cannot run {}: {error}", clean(program))), code }
}

/// Variables that lead git to a repository, or Rappel to a session or workspace, wherever a command
/// runs.
pub const LEADING_ELSEWHERE: [&str; 7] = [
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_COMMON_DIR",
    "GIT_PREFIX",
    "RAPPEL_SESSION",
];

/// The folder for what is needed for a while.
pub fn temporary() -> PathBuf {
    let folder = std::env::temp_dir();
    folder.canonicalize().unwrap_or(folder)
}

/// The agent that runs this hook, as its environment tells.
pub struct HookedAgent {
    /// The folder that it was started in.
    pub project: Option<PathBuf>,
    /// Its process.
    pub process: Option<u32>,
    /// It runs hooks that its user has not confirmed, as its command line says.
    pub is_unasked: bool,
}

/// Asks the environment for the agent whose hook this is. Nothing else of it is looked at, or kept.
pub fn hooked_agent(vendor: &Vendor) -> HookedAgent {
    HookedAgent {
        project: vendor.environment.project.and_then(absolute_variable),
        process: match vendor.environment.process {
            Process::Variable(name) => variable(name).and_then(|pid| pid.to_str()?.parse().ok()),
            Process::Above(is_agent) => ancestors::nearest(is_agent),
        },
        is_unasked: vendor
            .environment
            .unasked
            .is_some_and(|flag| ancestors::nearest(|words| words.contains(&flag)).is_some()),
    }
}

/// The session of the agent above this process, where that agent names none and has but one here.
fn session_above(vendor: &Vendor, rappel: &Rappel) -> Result<Option<SessionId>> {
    let Process::Above(is_agent) = vendor.environment.process else { return Ok(None) };
    let Some(process) = ancestors::nearest(is_agent).and_then(rappel::process_id) else {
        return Ok(None);
    };
    Ok(rappel.session_of_process(vendor.name, process)?)
}

/// The home that the environment names.
pub fn named_home() -> Option<PathBuf> {
    absolute_variable("RAPPEL_HOME")
}

/// What an agent calls its session, where it tells the programs in its shell.
pub fn named_by(vendor: &Vendor) -> Option<String> {
    variable(vendor.environment.session?).and_then(|name| name.into_string().ok())
}

/// What `RAPPEL_LOG` asks to be logged.
pub fn log_filter() -> Option<String> {
    variable("RAPPEL_LOG").map(|filter| filter.to_string_lossy().into_owned())
}

/// The variables that a command of ours finds, as far as they are text.
pub fn exported() -> HashMap<String, String> {
    let text = |(name, value): (OsString, OsString)| {
        Some((name.into_string().ok()?, value.into_string().ok()?))
    };
    std::env::vars_os().filter_map(text).collect()
}

/// An environment variable that says something.
pub fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

fn in_ci() -> bool {
    variable("CI").is_some_and(|value| value != "false" && value != "0")
}

fn absolute_variable(name: &str) -> Option<PathBuf> {
    variable(name).map(PathBuf::from).filter(|path| path.is_absolute())
}

/// Where the user's settings are.
pub fn user_config_folder() -> Option<PathBuf> {
    let user = || std::env::home_dir().filter(|home| home.is_absolute());
    absolute_variable("XDG_CONFIG_HOME").or_else(|| user().map(|home| home.join(".config")))
}

fn platform_home() -> Option<PathBuf> {
    let user = std::env::home_dir().filter(|home| home.is_absolute());
    if cfg!(target_os = "macos") {
        return user.map(|home| home.join("Library/Application Support/rappel"));
    }
    let data =
        absolute_variable("XDG_DATA_HOME").or_else(|| user.map(|home| home.join(".local/share")));
    data.map(|data| data.join("rappel"))
}

fn environment() -> Environment {
    let no_system = variable("GIT_CONFIG_NOSYSTEM")
        .is_some_and(|value| value != "0" && value != "false" && value != "no" && value != "off");
    let system = || {
        let named = variable("GIT_CONFIG_SYSTEM").map(PathBuf::from);
        named.unwrap_or_else(|| "/etc/gitconfig".into())
    };
    Environment {
        home: std::env::home_dir(),
        xdg_config_home: absolute_variable("XDG_CONFIG_HOME"),
        git_config_global: variable("GIT_CONFIG_GLOBAL").map(PathBuf::from),
        git_config_system: (!no_system).then(system),
    }
}

/// Where the user's agents keep their transcripts.
fn surroundings() -> Option<Surroundings> {
    let text = |name: &str| variable(name).and_then(|value| value.into_string().ok());
    Some(Surroundings {
        home: std::env::home_dir().filter(|home| home.is_absolute())?,
        claude_config_dir: absolute_variable("CLAUDE_CONFIG_DIR"),
        claude_project_dir_name: text("CLAUDE_CODE_PROJECT_DIR_NAME"),
        codex_home: absolute_variable("CODEX_HOME"),
        gemini_cli_home: absolute_variable("GEMINI_CLI_HOME"),
        data_home: absolute_variable("XDG_DATA_HOME"),
        opencode_db: variable("OPENCODE_DB").map(PathBuf::from),
    })
}

/// What tells this machine or container from others: evidence, not identity.
fn machine() -> String {
    let first_line = |path: &str| {
        let text = std::fs::read_to_string(path).ok()?;
        let line = text.lines().next()?.trim();
        (!line.is_empty() && line != "uninitialized").then(|| line.to_owned())
    };
    ["/etc/machine-id", "/proc/sys/kernel/hostname", "/etc/hostname"]
        .into_iter()
        .find_map(first_line)
        .or_else(|| variable("HOSTNAME").and_then(|name| name.into_string().ok()))
        .unwrap_or_default()
}

/// Where an agent keeps the user's own settings, if there is such a place.
pub fn user_folder(agent: &Vendor) -> Option<UserFolder> {
    let home = std::env::home_dir().filter(|home| home.is_absolute());
    (agent.user_folder)(&absolute_variable, home.as_deref())
}
