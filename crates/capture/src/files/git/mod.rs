//! A git repository as far as it decides which files are taken: its exclude files, the ignore files
//! above the workspace, and its index. Read only, and without the `git` program.

pub(crate) mod config;
pub(crate) mod consulted;
pub(crate) mod tracked;

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use self::config::{Places, Settings};
use self::consulted::{Consulted, Reader};
use self::tracked::{Status, Tracked};
use super::Environment;
use super::patterns::{Patterns, lines};
use super::stamp::Trust;

/// The name of git's rule files.
pub(crate) const IGNORE: &[u8] = b".gitignore";

/// A rule file: what it says, and its text without comments, to be kept in the manifest.
#[derive(Debug, Clone, Default)]
pub(crate) struct Source {
    pub patterns: Patterns,
    pub text: Vec<u8>,
}

impl Source {
    /// Reads the bytes of a rule file.
    pub fn new(bytes: &[u8]) -> Self {
        let mut text = Vec::new();
        for line in lines(bytes) {
            text.extend_from_slice(line);
            text.push(b'\n');
        }
        Self { patterns: Patterns::parse(bytes), text }
    }
}

/// An ignore file in a folder above the workspace.
#[derive(Debug, Clone)]
pub(crate) struct Above {
    /// How much of a path in the repository its folder takes.
    pub base: usize,
    pub source: Source,
}

/// The rules of a repository that do not lie in the workspace.
#[derive(Debug, Clone, Default)]
pub(crate) struct RepoRules {
    /// The way from the repository's root to the workspace's, with a slash at the end; empty where
    /// the repository starts in the workspace.
    pub prefix: Vec<u8>,
    /// Ignore files above the workspace, the strongest first.
    pub above: Vec<Above>,
    /// `info/exclude`.
    pub private: Source,
    /// `core.excludesFile`.
    pub global: Source,
    /// Whether case does not count.
    pub fold: bool,
}

impl RepoRules {
    /// What these rules say of a path in the repository.
    pub fn verdict(&self, path: &[u8], is_dir: bool) -> Option<bool> {
        self.above
            .iter()
            .filter(|above| path.len() > above.base)
            .find_map(|above| above.source.patterns.verdict(&path[above.base..], is_dir, self.fold))
            .or_else(|| self.private.patterns.verdict(path, is_dir, self.fold))
            .or_else(|| self.global.patterns.verdict(path, is_dir, self.fold))
    }

    /// A hash of all that decides.
    fn digest(&self) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new();
        let mut add = |bytes: &[u8]| {
            hasher.update(&(bytes.len() as u64).to_le_bytes()).update(bytes);
        };
        add(&self.prefix);
        add(&[u8::from(self.fold)]);
        add(&self.private.text);
        add(&self.global.text);
        for above in &self.above {
            add(&above.base.to_le_bytes());
            add(&above.source.text);
        }
        *hasher.finalize().as_bytes()
    }

    /// Whether the repository ignores the workspace itself, or a folder above it.
    fn ignores_workspace(&self) -> bool {
        let whole = &self.prefix;
        let ends = (0..whole.len()).filter(|&at| whole[at] == b'/');
        ends.into_iter().any(|end| {
            // A folder is judged by the files above it, not by its own.
            let folder = &whole[..end];
            self.above
                .iter()
                .filter(|above| above.base < end)
                .find_map(|above| {
                    above.source.patterns.verdict(&folder[above.base..], true, self.fold)
                })
                .or_else(|| self.private.patterns.verdict(folder, true, self.fold))
                .or_else(|| self.global.patterns.verdict(folder, true, self.fold))
                == Some(true)
        })
    }
}

/// A repository that governs some folder of the workspace and what lies below it.
#[derive(Debug)]
pub(crate) struct Repo {
    /// How much of a path in the workspace the way to the repository takes, slash included.
    pub start: usize,
    rules: OnceLock<RepoRules>,
    tracked: OnceLock<Option<Tracked>>,
    live: Option<Live>,
}

/// Where a repository on the disk is looked for, and how.
#[derive(Debug, Clone)]
pub(crate) struct Live {
    /// The folder in which `.git` is expected.
    pub folder: PathBuf,
    /// See [`RepoRules::prefix`].
    pub prefix: Vec<u8>,
    pub environment: Arc<Environment>,
    pub trust: Trust,
}

/// Everything that was read of a repository, and from where.
#[derive(Debug)]
pub(crate) struct Loaded {
    /// `None` if there is no repository, or none that has a say here.
    pub rules: Option<RepoRules>,
    pub digest: [u8; 32],
    pub consulted: Vec<Consulted>,
}

/// The same for an index.
#[derive(Debug)]
pub(crate) struct LoadedIndex {
    pub tracked: Result<Tracked, String>,
    pub consulted: Vec<Consulted>,
}

impl Repo {
    /// A repository known from a manifest; its index is not known.
    pub fn recorded(start: usize, rules: RepoRules) -> Self {
        Self { start, rules: rules.into(), tracked: None.into(), live: None }
    }

    /// A repository on the disk, which is read when a path has to be judged.
    pub fn live(start: usize, live: Live) -> Self {
        Self { start, rules: OnceLock::new(), tracked: OnceLock::new(), live: Some(live) }
    }

    /// Gives what has been read already.
    pub fn set(&self, rules: Option<RepoRules>, tracked: Option<Tracked>) {
        if let Some(rules) = rules {
            let _ = self.rules.set(rules);
        }
        if tracked.is_some() {
            let _ = self.tracked.set(tracked);
        }
    }

    /// The rules that do not lie in the workspace.
    pub fn rules(&self) -> &RepoRules {
        self.rules.get_or_init(|| {
            self.live.as_ref().and_then(|live| live.load().rules).unwrap_or_default()
        })
    }

    /// Whether git's rules ignore `path`, given what the ignore files on the way to it say.
    pub fn verdict(&self, path: &[u8], is_dir: bool) -> Option<bool> {
        let rules = self.rules();
        if rules.prefix.is_empty() {
            return rules.verdict(&path[self.start..], is_dir);
        }
        rules.verdict(&[&rules.prefix, &path[self.start..]].concat(), is_dir)
    }

    /// What the index says of `path`.
    pub fn status(&self, path: &[u8]) -> Status {
        let tracked = self
            .tracked
            .get_or_init(|| self.live.as_ref().and_then(|live| live.load_index().tracked.ok()));
        let Some(tracked) = tracked else { return Status::Unknown };
        let prefix = self.live.as_ref().map_or(&[][..], |live| &live.prefix);
        tracked.status(&[prefix, &path[self.start..]].concat())
    }
}

impl Live {
    /// Reads the repository's rules.
    pub fn load(&self) -> Loaded {
        let mut reader = Reader::new(self.trust);
        let rules = self.rules(&mut reader).filter(|rules| !rules.ignores_workspace());
        let digest = rules.as_ref().map_or([0; 32], RepoRules::digest);
        Loaded { rules, digest, consulted: reader.seen }
    }

    /// Reads the repository's index.
    pub fn load_index(&self) -> LoadedIndex {
        let mut reader = Reader::new(self.trust);
        let tracked = match self.locate(&mut reader) {
            Some(place) => {
                let sha256 = self.settings(&place, &mut reader).sha256;
                Tracked::load(&place.git_dir.join("index"), sha256, &mut reader)
            }
            None => Err("git's folder cannot be read".to_owned()),
        };
        // What else was consulted on the way is covered by the rules' own list.
        let index: Vec<_> = reader.seen.pop().into_iter().collect();
        LoadedIndex { tracked, consulted: index }
    }

    fn rules(&self, reader: &mut Reader) -> Option<RepoRules> {
        let place = self.locate(reader)?;
        let settings = self.settings(&place, reader);
        let places = Places { environment: &self.environment, git_dir: &place.git_dir };
        let global = match &settings.excludes_file {
            Some(path) => places.expand(path, &self.folder),
            None => places.xdg().map(|folder| folder.join("git/ignore")),
        };
        let mut source = |path: &Path| Source::new(&reader.read(path).unwrap_or_default());
        let global = global.as_deref().map(&mut source).unwrap_or_default();
        let private = source(&place.common_dir.join("info/exclude"));
        let mut above = Vec::new();
        // The folders from the repository's root to the one that holds the workspace.
        let ends = (0..self.prefix.len()).filter(|&at| self.prefix[at] == b'/').map(|at| at + 1);
        for base in std::iter::once(0).chain(ends).filter(|&base| base < self.prefix.len()) {
            let folder = self.folder.join(std::ffi::OsStr::from_bytes(&self.prefix[..base]));
            let file = source(&folder.join(std::ffi::OsStr::from_bytes(IGNORE)));
            if !file.patterns.is_empty() {
                above.insert(0, Above { base, source: file });
            }
        }
        let fold = settings.ignore_case;
        Some(RepoRules { prefix: self.prefix.clone(), above, private, global, fold })
    }

    fn settings(&self, place: &Place, reader: &mut Reader) -> Settings {
        let places = Places { environment: &self.environment, git_dir: &place.git_dir };
        let mut settings = Settings::default();
        for file in places.shared() {
            settings.add(&file, places, reader);
        }
        settings.add(&place.common_dir.join("config"), places, reader);
        if settings.worktree_config {
            settings.add(&place.git_dir.join("config.worktree"), places, reader);
        }
        settings
    }

    fn locate(&self, reader: &mut Reader) -> Option<Place> {
        locate(&self.folder, reader)
    }
}

/// Where a work tree's repository is.
#[derive(Debug)]
pub(crate) struct Place {
    /// What belongs to this work tree: HEAD and the index.
    pub git_dir: PathBuf,
    /// What all work trees of the repository share.
    pub common_dir: PathBuf,
}

/// The repository whose work tree starts at `folder`. One that git does not take for one any more,
/// because a part of it is lost, still counts: otherwise nothing of it would be kept.
pub(crate) fn locate(folder: &Path, reader: &mut Reader) -> Option<Place> {
    let path_in = |bytes: &[u8], base: &Path| {
        let end = bytes.iter().rposition(|b| !matches!(b, b'\n' | b'\r')).map_or(0, |at| at + 1);
        (end > 0).then(|| base.join(std::ffi::OsStr::from_bytes(&bytes[..end])))
    };
    let dot_git = folder.join(".git");
    let git_dir = if dot_git.is_dir() {
        reader.exists(&dot_git);
        dot_git
    } else {
        path_in(reader.read(&dot_git)?.strip_prefix(b"gitdir: ")?, folder)?
    };
    let said = match reader.read(&git_dir.join("commondir")) {
        Some(bytes) => path_in(&bytes, &git_dir),
        None => Some(git_dir.clone()),
    };
    let common_dir = match said.filter(|at| reader.exists(&at.join("objects"))) {
        Some(common_dir) => common_dir,
        // Git's folder of a linked work tree lies in the common one, whatever became of the file
        // that says so.
        None => match git_dir.parent().filter(|above| above.ends_with("worktrees")) {
            Some(above) => above.parent()?.to_owned(),
            None => git_dir.clone(),
        },
    };
    let parts = [git_dir.join("HEAD"), common_dir.join("objects"), common_dir.join("refs")];
    let there = parts.iter().filter(|part| reader.exists(part)).count();
    (there >= 2).then_some(Place { git_dir, common_dir })
}

/// The nearest folder above `root` (an absolute path without links) that has a `.git`, and the way
/// from there to the root.
pub(crate) fn above(root: &Path) -> Option<(PathBuf, Vec<u8>)> {
    let folder = root.ancestors().skip(1).find(|folder| folder.join(".git").exists())?;
    let mut prefix = root.strip_prefix(folder).ok()?.as_os_str().as_bytes().to_vec();
    prefix.push(b'/');
    Some((folder.to_owned(), prefix))
}
