//! Which transcripts belong to a workspace. Read-only, and bounded: of a transcript no more than its
//! beginning is read, once.

mod claude;
mod codex;
mod gemini;
mod memo;

use std::io;
use std::path::{Component, Path, PathBuf};

use rappel_store::held::Handle;
use rappel_types::RelPath;
use rustix::io::Errno;
use serde_json::Value;

use super::Provider;
use super::follow::{self, read_at};
use super::home::Home;
use crate::files::stamp::{Kind, Stamp};

pub(super) use codex::rollouts as codex_rollouts;
pub use memo::Memo;

/// How much of a transcript is read to learn where its session worked: a little, which mostly does,
/// and if it does not, more.
const BEGINNINGS: [usize; 2] = [64 << 10, 1 << 20];

/// What of the user's surroundings decides where agents keep their things. Variables that are set
/// and empty count as not set.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Surroundings {
    /// The user's home.
    pub home: PathBuf,
    /// `CLAUDE_CONFIG_DIR`.
    pub claude_config_dir: Option<PathBuf>,
    /// `CLAUDE_CODE_PROJECT_DIR_NAME`: what Claude calls this project's folder.
    pub claude_project_dir_name: Option<String>,
    /// `CODEX_HOME`.
    pub codex_home: Option<PathBuf>,
    /// `GEMINI_CLI_HOME`: what Gemini CLI takes for the user's home.
    pub gemini_cli_home: Option<PathBuf>,
    /// `XDG_DATA_HOME`, below which opencode keeps its database.
    pub data_home: Option<PathBuf>,
    /// `OPENCODE_DB`: what opencode calls its database.
    pub opencode_db: Option<PathBuf>,
}

impl Surroundings {
    /// Those of a user who has set nothing.
    pub fn of(home: impl Into<PathBuf>) -> Self {
        Self { home: home.into(), ..Self::default() }
    }

    /// The database of opencode. Nothing says that it is there.
    pub fn opencode_database(&self) -> PathBuf {
        let set = |path: &Option<PathBuf>| path.clone().filter(|path| !path.as_os_str().is_empty());
        let data = set(&self.data_home).unwrap_or_else(|| self.home.join(".local/share"));
        let name = set(&self.opencode_db).unwrap_or_else(|| "opencode.db".into());
        data.join("opencode").join(name)
    }

    /// The agent's home. Nothing says that it is there.
    pub fn root(&self, provider: Provider) -> PathBuf {
        let set = |path: &Option<PathBuf>| path.clone().filter(|path| !path.as_os_str().is_empty());
        match provider {
            Provider::Claude => {
                set(&self.claude_config_dir).unwrap_or_else(|| self.home.join(".claude"))
            }
            Provider::Codex => set(&self.codex_home).unwrap_or_else(|| self.home.join(".codex")),
            Provider::Gemini => {
                set(&self.gemini_cli_home).unwrap_or_else(|| self.home.clone()).join(".gemini")
            }
        }
    }
}

/// What a file of an agent is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The transcript of a session.
    Session,
    /// The transcript of a subagent.
    Subagent,
    /// The output of a tool that was too large for the transcript. Not to be parsed.
    Output,
}

/// A file of an agent that belongs to the workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transcript {
    /// Whose.
    pub provider: Provider,
    /// The agent's home.
    pub root: PathBuf,
    /// Where, below that.
    pub path: RelPath,
    /// What it is.
    pub role: Role,
    /// What stat said of it.
    pub stamp: Stamp,
}

impl Transcript {
    /// Its length in bytes.
    pub fn size(&self) -> u64 {
        self.stamp.size
    }

    /// Opens it to read it; no link is followed below the agent's home.
    pub fn open(&self) -> io::Result<Handle> {
        let home = Home::open(&self.root).map_err(io::Error::other)?;
        let file = home.open_file(&self.path)?;
        if Stamp::of(&rustix::fs::fstat(&file)?).kind() != Kind::File {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file"));
        }
        Ok(file)
    }

    /// A name that stays the same when the agent compresses or archives it; what is remembered of a
    /// transcript is filed under it.
    pub fn key(&self) -> String {
        match self.provider {
            Provider::Codex => {
                let name = self.path.name();
                let name = name.strip_suffix(b".zst").unwrap_or(name);
                format!("{}/{}", self.provider, rappel_types::path::escape(name))
            }
            _ => format!("{}/{}", self.provider, self.path),
        }
    }
}

/// What was found.
#[derive(Debug, Clone, Default)]
pub struct Located {
    /// By provider and path.
    pub transcripts: Vec<Transcript>,
    /// What could not be looked at, for people.
    pub troubles: Vec<String>,
}

/// Finds the transcripts of a workspace. `workspace` is its root by all the paths that it has: as the
/// user gives it and without links, and those of its linked work trees, if they count. `memo` is what the last
/// search learned; a search without it finds the same.
///
/// Not found: sessions that began elsewhere and came here later, which hooks name ([`named`]), and
/// rollouts whose beginning does not say where they worked.
pub fn locate(surroundings: &Surroundings, workspace: &[&Path], memo: &mut Memo) -> Located {
    let mut located = Located::default();
    let old = std::mem::take(memo).for_workspace(workspace);
    *memo = Memo::new(workspace);
    for provider in Provider::ALL {
        let root = surroundings.root(provider);
        if !root.is_dir() {
            continue;
        }
        let home = match Home::open(&root) {
            Ok(home) => home,
            Err(error) => {
                located.troubles.push(error.to_string());
                continue;
            }
        };
        let mut search =
            Search { provider, home, workspace, old: &old, new: memo, located: &mut located };
        match provider {
            Provider::Claude => {
                search.claude(surroundings.claude_project_dir_name.as_deref());
            }
            Provider::Codex => search.codex(),
            Provider::Gemini => search.gemini(),
        }
    }
    located.transcripts.sort_by(|a, b| (a.provider, &a.path).cmp(&(b.provider, &b.path)));
    located
}

/// The transcript at a path that an agent named itself; `None` if it lies in no agent's home, or is
/// not there.
pub fn named(surroundings: &Surroundings, path: &Path) -> Option<Transcript> {
    use std::os::unix::ffi::OsStrExt;
    Provider::ALL.into_iter().find_map(|provider| {
        let root = surroundings.root(provider);
        let real = root.canonicalize().ok()?;
        let below = path.strip_prefix(&root).or_else(|_| path.strip_prefix(&real)).ok()?;
        let below = RelPath::new(below.as_os_str().as_bytes()).ok()?;
        let stamp = Home::open(&root).ok()?.look(&below).ok()?;
        let role = role_of(provider, &below);
        (stamp.kind() == Kind::File).then_some(Transcript {
            provider,
            root,
            path: below,
            role,
            stamp,
        })
    })
}

fn role_of(provider: Provider, path: &RelPath) -> Role {
    let folders: Vec<&[u8]> = path.components().rev().skip(1).collect();
    match provider {
        Provider::Claude if folders.contains(&&b"tool-results"[..]) => Role::Output,
        Provider::Claude if folders.contains(&&b"subagents"[..]) => Role::Subagent,
        Provider::Gemini if folders.first() != Some(&&b"chats"[..]) => Role::Subagent,
        _ => Role::Session,
    }
}

/// A search in one agent's home.
struct Search<'a> {
    provider: Provider,
    home: Home,
    workspace: &'a [&'a Path],
    old: &'a Memo,
    new: &'a mut Memo,
    located: &'a mut Located,
}

impl Search<'_> {
    /// What a folder holds; what cannot be listed is noted and holds nothing.
    fn list(&mut self, folder: &RelPath) -> Vec<(RelPath, Stamp)> {
        match self.home.list(folder) {
            Ok(found) => found,
            Err(error) => {
                self.trouble(folder, error);
                Vec::new()
            }
        }
    }

    fn trouble(&mut self, path: &RelPath, error: Errno) {
        let reason = match error {
            Errno::LOOP => "it is reached through a link, which is not followed".to_owned(),
            error => io::Error::from(error).to_string(),
        };
        let path = self.home.display(path);
        self.located.troubles.push(format!("cannot look at {}: {reason}", path.display()));
    }

    fn add(&mut self, path: RelPath, stamp: Stamp) {
        let (provider, root) = (self.provider, self.home.path().to_owned());
        let role = role_of(provider, &path);
        self.located.transcripts.push(Transcript { provider, root, path, role, stamp });
    }

    /// Whether the session of a transcript worked in the workspace; `None` if its beginning does not
    /// say. `cwd_of` finds that in a line.
    fn belongs(
        &mut self,
        path: &RelPath,
        stamp: &Stamp,
        cwd_of: fn(&Value) -> Option<&str>,
    ) -> Option<bool> {
        if let Some(known) = self.old.answer(self.provider, path, stamp) {
            self.new.remember(self.provider, path, stamp, known);
            return Some(known);
        }
        for length in BEGINNINGS {
            let beginning = self.beginning(path, length)?;
            let mut lines = beginning.split_inclusive(|byte| *byte == b'\n');
            let answer = lines.find_map(|line| {
                let value: Value = serde_json::from_slice(line.strip_suffix(b"\n")?).ok()?;
                cwd_of(&value).map(|cwd| self.holds(Path::new(cwd)))
            });
            if let Some(answer) = answer {
                self.new.remember(self.provider, path, stamp, answer);
                return Some(answer);
            }
            if beginning.len() < length {
                break;
            }
        }
        None
    }

    /// Whether a path is the workspace or lies in it.
    fn holds(&self, path: &Path) -> bool {
        let plain = path.components().all(|part| !matches!(part, Component::ParentDir));
        plain && self.workspace.iter().any(|root| path.starts_with(root))
    }

    /// The first bytes of a transcript.
    fn beginning(&mut self, path: &RelPath, length: usize) -> Option<Vec<u8>> {
        let read = || -> Result<Vec<u8>, Errno> {
            let file = self.home.open_file(path)?;
            if Stamp::of(&rustix::fs::fstat(&file)?).kind() != Kind::File {
                return Ok(Vec::new());
            }
            let mut buffer = vec![0; length];
            let read = match follow::is_compressed(path) {
                false => read_at(&file, &mut buffer, 0)
                    .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?,
                // One that cannot be unpacked says nothing.
                true => follow::unpack(&file)
                    .and_then(|mut unpacked| follow::fill(&mut unpacked, &mut buffer))
                    .unwrap_or(0),
            };
            buffer.truncate(read);
            Ok(buffer)
        };
        match read() {
            Ok(bytes) => Some(bytes),
            Err(Errno::NOENT) => None,
            Err(error) => {
                self.trouble(path, error);
                None
            }
        }
    }
}

/// A path of our own making.
fn fixed(text: &str) -> Option<RelPath> {
    RelPath::new(text).ok()
}
