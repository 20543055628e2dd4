//! Carrying out a plan for repositories, in either direction.
//!
//! Objects come first: they only add. Then refs move in one transaction of git's own, with their old
//! values checked; then HEADs, indexes and unfinished operations, by the same steps as files, under
//! `index.lock`; then reflogs. Like everything of a restore, each step is judged by what stands
//! there, so that it can be driven again after a crash, either way.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use gix_index::hash::ObjectId as Oid;
use rappel_store::Error as StoreError;
use rappel_store::beneath::Root;
use rappel_store::content;
use rappel_types::git::{GitPlan, RefMove, RepositoryPlan, WorktreePlan};
use rappel_types::path::unescape;
use rappel_types::plan::Conflict;
use rappel_types::{Action, Node, RelPath};

use super::bundles::{Known, bytes_of};
use super::create;
use super::folder::split;
use super::live;
use super::plan::value;
use super::program::{Git, Trouble};
use super::state::State;
use crate::restore::drive::Drive;
use crate::restore::intent::{Header, IntentId, OpenIntent};
use crate::restore::steps::Way;
use crate::restore::{Error, Job, Outcome, Result};

/// The words in a reflog that tell our own entries.
const OURS: &[u8] = b"rappel <rappel@localhost>";

/// Repositories under way. Its locks are let go when it is dropped.
pub struct GitDrive<'a> {
    job: Job<'a>,
    plan: GitPlan,
    header: Header,
    way: Way,
    /// Whether everything is taken to be as the plan has it; otherwise it is looked at.
    fresh: bool,
    /// The state that is gone to.
    states: Vec<State>,
    locks: Vec<PathBuf>,
    /// What was left as it is because somebody changed it.
    pub conflicts: Vec<Conflict>,
    /// What people should know.
    pub warnings: Vec<String>,
}

/// A path as plans have it.
pub fn path_of(text: &str) -> PathBuf {
    let bytes = unescape(text).unwrap_or_else(|| text.as_bytes().to_vec());
    PathBuf::from(std::ffi::OsString::from_vec(bytes))
}

fn trouble(trouble: &Trouble) -> Error {
    let source = std::io::Error::other(trouble.to_string());
    Error::Store(StoreError::Io { action: "restore", path: "the repository".into(), source })
}

impl<'a> GitDrive<'a> {
    /// The repositories of an intent; nothing is done yet.
    pub fn new(job: Job<'a>, intent: &OpenIntent, way: Way, fresh: bool) -> Result<Self> {
        let header = intent.header().clone();
        let plan = header.git.clone();
        let checkpoint = match way {
            Way::Forward => &header.target,
            Way::Backward => &header.safety,
        };
        let states = match plan.is_empty() {
            true => Vec::new(),
            false => (job.states)(checkpoint)?,
        };
        Ok(Self {
            job,
            plan,
            header,
            way,
            fresh,
            states,
            locks: Vec::new(),
            conflicts: Vec::new(),
            warnings: Vec::new(),
        })
    }

    /// Does all of it.
    pub fn run(&mut self, intent: &mut OpenIntent) -> Result<()> {
        let mut plans = self.plan.repositories.clone();
        if self.way == Way::Backward {
            plans.reverse();
        }
        for plan in plans.iter().filter(|plan| !plan.is_empty()) {
            if self.fresh {
                self.job.check_cancelled()?;
            }
            if plan.relink {
                self.relink(plan)?;
                continue;
            }
            match (plan.create, self.way) {
                (true, Way::Forward) => self.create(plan)?,
                (true, Way::Backward) => self.discard(plan)?,
                (false, _) => self.repository(plan, intent)?,
            }
            for worktree in &plan.worktrees {
                self.worktree(plan, worktree, intent)?;
            }
        }
        Ok(())
    }

    fn state_of(&self, plan: &RepositoryPlan) -> Option<&State> {
        self.states.iter().find(|state| state.path == plan.path)
    }

    fn repository(&mut self, plan: &RepositoryPlan, intent: &mut OpenIntent) -> Result<()> {
        let common = path_of(&plan.common_dir);
        if !common.join("HEAD").exists() {
            return self.conflict(plan, "its git folder is gone meanwhile");
        }
        if let Some(state) = self.state_of(plan)
            && !(plan.refs.is_empty() && plan.files.is_empty())
        {
            bring_objects(&common, state, self.job.source)?;
        }
        // What was never begun, because somebody else has the lock, needs no lock to be taken back.
        let stands = !self.fresh && self.stands(plan, &common)?;
        self.lock(plan, &common, stands)?;
        self.refs(plan, &common)?;
        if !plan.files.is_empty() {
            let root = Root::open(&common, self.job.root.disk().clone())?;
            self.drive(&root, &plan.files, intent)?;
            for action in &plan.files {
                create::distrust_index(&common, action.path.as_bytes());
            }
        }
        for log in &plan.logs {
            if let Some(conflict) = self.log(&common, log)? {
                self.conflicts.push(conflict);
            }
        }
        self.unlog(plan, &common)
    }

    /// Takes back what git logged for our moves where the plan does not bring a log along.
    fn unlog(&self, plan: &RepositoryPlan, common: &Path) -> Result<()> {
        let Some(state) = self.state_of(plan) else { return Ok(()) };
        let mut names: BTreeSet<RelPath> = plan.refs.iter().map(|step| step.name.clone()).collect();
        // A move of the branch that HEAD names is logged for both.
        names.extend(plan.refs.iter().filter_map(|step| {
            let (worktree, _) = split(step.name.as_bytes());
            let own = worktree.map_or(Vec::new(), |name| [b"worktrees/", name, b"/"].concat());
            RelPath::new([&*own, b"HEAD"].concat()).ok()
        }));
        for name in names {
            let (_, rest) = split(name.as_bytes());
            let own = &name.as_bytes()[..name.as_bytes().len() - rest.len()];
            let Ok(log) = RelPath::new([own, b"logs/", rest].concat()) else { continue };
            let full = common.join(std::ffi::OsStr::from_bytes(log.as_bytes()));
            let Ok(bytes) = std::fs::read(&full) else { continue };
            let mut kept = bytes.as_slice();
            while let Some(rest) = without_own_entry(kept) {
                kept = rest;
            }
            if kept.len() == bytes.len() {
                continue;
            }
            let root = Root::open(common, self.job.root.disk().clone())?;
            if kept.is_empty() && !state.files.contains_key(&log) {
                root.unlink(&log)?;
            } else {
                let open = std::fs::File::options().write(true).open(&full);
                let cut = open.and_then(|file| file.set_len(kept.len() as u64));
                cut.map_err(StoreError::io("write", &full))?;
            }
        }
        Ok(())
    }

    /// Whether refs and files are already as they will be.
    fn stands(&self, plan: &RepositoryPlan, common: &Path) -> Result<bool> {
        let forward = self.way == Way::Forward;
        if !plan.refs.is_empty() {
            let now = current(common, plan)?;
            let wanted = |step: &RefMove| {
                let value = if forward { &step.new } else { &step.old };
                now.get(&step.name) == value.as_ref()
            };
            if !plan.refs.iter().all(wanted) {
                return Ok(false);
            }
        }
        let root = Root::open(common, self.job.root.disk().clone())?;
        for action in &plan.files {
            let stands = match if forward { &action.new } else { &action.old } {
                Some(node) => crate::restore::is_at(&root, self.job.source, &action.path, node)?,
                None => root.stat(&action.path)?.is_none(),
            };
            if !stands {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Something is not as it was: the restore stops, or goes on without it after a crash.
    fn conflict(&mut self, plan: &RepositoryPlan, reason: &str) -> Result<()> {
        let path = plan.path.clone().map_or_else(|| RelPath::new(".git"), |at| at.join(b".git"));
        let Ok(path) = path else { return Ok(()) };
        if self.fresh {
            return Err(Error::conflict(&path, reason));
        }
        self.conflicts.push(Conflict { path, reason: reason.to_owned() });
        Ok(())
    }

    /// Takes `index.lock` of every work tree whose index changes, as git does. If `own` is set, only
    /// what this very restore left behind when it was interrupted.
    fn lock(&mut self, plan: &RepositoryPlan, common: &Path, own: bool) -> Result<()> {
        let mut folders: BTreeSet<PathBuf> = BTreeSet::from([path_of(&plan.git_dir)]);
        for action in &plan.files {
            if let (Some(name), _) = split(action.path.as_bytes())
                && !comes_or_goes(plan, name)
            {
                folders.insert(common.join("worktrees").join(std::ffi::OsStr::from_bytes(name)));
            }
        }
        let mark = lock_mark(self.header.id);
        for folder in folders.into_iter().filter(|folder| folder.is_dir()) {
            let path = folder.join("index.lock");
            // It says whose it is from the moment it is there.
            let staged = folder.join(format!(".rappel-{}-0.lock", self.header.id));
            let made = match own {
                true => Err(std::io::ErrorKind::AlreadyExists.into()),
                false => {
                    std::fs::write(&staged, &mark).and_then(|()| std::fs::hard_link(&staged, &path))
                }
            };
            let _ = std::fs::remove_file(&staged);
            match made {
                Ok(()) => self.locks.push(path),
                Err(_) if std::fs::read(&path).is_ok_and(|found| found == mark.as_bytes()) => {
                    self.locks.push(path);
                }
                Err(_) if own => {}
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                    let holder = format!("{} is held by a git command", path.display());
                    return Err(StoreError::Busy { holder, waited_ms: 0 }.into());
                }
                Err(error) => return Err(StoreError::io("create", &path)(error).into()),
            }
        }
        Ok(())
    }

    /// Moves the refs: all of them, or none.
    fn refs(&mut self, plan: &RepositoryPlan, common: &Path) -> Result<()> {
        let mut moves: Vec<RefMove> = plan.refs.clone();
        if self.way == Way::Backward {
            for step in &mut moves {
                std::mem::swap(&mut step.old, &mut step.new);
            }
        }
        if moves.is_empty() {
            return Ok(());
        }
        let now = current(common, plan)?;
        let mut wrong = Vec::new();
        moves.retain(|step| {
            let found = now.get(&step.name);
            if found != step.old.as_ref() && found != step.new.as_ref() {
                wrong.push(Conflict {
                    path: step.name.clone(),
                    reason: "it moved meanwhile; it is left as it is".into(),
                });
                return false;
            }
            found != step.new.as_ref()
        });
        if self.fresh && !wrong.is_empty() {
            return Err(Error::Conflicts(wrong));
        }
        self.conflicts.extend(wrong);
        // Git does not take a ref away and make one in its place (`a`, `a/b`) in one transaction.
        let in_the_way = |gone: &RefMove| {
            let collides = |made: &RefMove| {
                made.old.is_none()
                    && (made.name.is_within(&gone.name) || gone.name.is_within(&made.name))
            };
            gone.new.is_none() && moves.iter().any(|made| made.name != gone.name && collides(made))
        };
        let (first, rest): (Vec<RefMove>, Vec<RefMove>) =
            moves.clone().into_iter().partition(in_the_way);
        transact(common, &first)?;
        transact(common, &rest)
    }

    /// Brings files of a folder to the other state, by the steps that all files go through.
    fn drive(&mut self, root: &Root, actions: &[Action], intent: &mut OpenIntent) -> Result<()> {
        let header =
            Header { actions: actions.to_vec(), closed: Vec::new(), ..self.header.clone() };
        let job = Job { root, ..self.job };
        let drive = Drive::new(job, header, self.way, self.fresh)?;
        let outcome: Outcome = drive.run(intent, &mut |_| Ok(()))?;
        self.conflicts.extend(outcome.conflicts);
        self.warnings.extend(outcome.warnings);
        Ok(())
    }

    /// Gives a reflog its other content. What git added to it for our own moves goes; anything
    /// that somebody else added stays, and the log with it.
    fn log(&self, common: &Path, action: &Action) -> Result<Option<Conflict>> {
        use std::io::ErrorKind::{IsADirectory, NotADirectory, NotFound};
        let path = common.join(std::ffi::OsStr::from_bytes(action.path.as_bytes()));
        let bytes = |node: &Option<Node>| -> Result<Option<Vec<u8>>> {
            let Some(node) = node else { return Ok(None) };
            let Node::File { size, content, .. } = node else { return Ok(None) };
            Ok(Some(content::read(self.job.source, content, *size, *size)?))
        };
        let staged = staged_log(&action.path, self.header.id)?;
        // Left by this very restore before it was interrupted.
        let _ = std::fs::remove_file(common.join(std::ffi::OsStr::from_bytes(staged.as_bytes())));
        let (from, to) = match self.way {
            Way::Forward => (bytes(&action.old)?, bytes(&action.new)?),
            Way::Backward => (bytes(&action.new)?, bytes(&action.old)?),
        };
        let now = match std::fs::read(&path) {
            // Where `a` was and `a/b` is, or the other way round, there is a folder or a file instead.
            Err(error) if matches!(error.kind(), NotFound | NotADirectory | IsADirectory) => None,
            other => Some(other.map_err(StoreError::io("read", &path))?),
        };
        let grew_from = |before: &Option<Vec<u8>>| {
            let before = before.as_deref().unwrap_or_default();
            let rest = now.as_deref().unwrap_or_default().strip_prefix(before);
            rest.is_some_and(|rest| {
                let mut lines = rest.split(|&b| b == b'\n').filter(|line| !line.is_empty());
                lines.all(|line| line.windows(OURS.len()).any(|words| words == OURS))
            })
        };
        if now == to {
            return Ok(None);
        }
        if now.is_some() && !grew_from(&from) && !grew_from(&to) {
            let reason = "it was written to meanwhile; it is left as it is".into();
            return Ok(Some(Conflict { path: action.path.clone(), reason }));
        }
        let root = Root::open(common, self.job.root.disk().clone())?;
        let Some(to) = to else {
            root.unlink(&action.path)?;
            root.sync_dir(action.path.parent().as_ref())?;
            return Ok(None);
        };
        for folder in action.path.ancestors() {
            if root.stat(&folder)?.is_none() {
                root.create_dir(&folder, 0o755)?;
            }
        }
        // Folders without logs are left by refs that are gone.
        remove_empty_folders(&path);
        let mut file = root.create_file(&staged, 0o644)?;
        file.write_all(&to).map_err(StoreError::io("write", &path))?;
        file.sync()?;
        root.rename(&staged, &action.path)?;
        root.sync_dir(action.path.parent().as_ref())?;
        Ok(None)
    }

    /// Makes a repository that is gone.
    fn create(&mut self, plan: &RepositoryPlan) -> Result<()> {
        let common = path_of(&plan.common_dir);
        if common.exists() {
            return match create::is_ours(&common, self.header.id) {
                true => Ok(()),
                false => self.conflict(plan, "another repository appeared there meanwhile"),
            };
        }
        let Some(state) = self.state_of(plan) else {
            return self.conflict(plan, "the checkpoint does not hold it");
        };
        let (disk, source) = (self.job.root.disk(), self.job.source);
        create::repository(&common, state, self.header.id, disk, source, self.job.cancel)?;
        let work_tree = live::folder_of(self.job.root.path(), plan.path.as_ref());
        create::gitfile(&work_tree, state, source)
    }

    /// Links a folder to its repository, which is still there, or takes that back.
    fn relink(&mut self, plan: &RepositoryPlan) -> Result<()> {
        let work_tree = live::folder_of(self.job.root.path(), plan.path.as_ref());
        match (self.way, self.state_of(plan)) {
            (Way::Forward, Some(state)) => create::gitfile(&work_tree, state, self.job.source),
            (Way::Forward, None) => self.conflict(plan, "the checkpoint does not hold it"),
            (Way::Backward, _) => {
                let link = work_tree.join(".git");
                if link.symlink_metadata().is_ok_and(|meta| meta.is_file()) {
                    std::fs::remove_file(&link).map_err(StoreError::io("remove", &link))?;
                }
                Ok(())
            }
        }
    }

    /// Takes a repository away again that was not there before.
    fn discard(&mut self, plan: &RepositoryPlan) -> Result<()> {
        let common = path_of(&plan.common_dir);
        create::discard_staged(&common, self.header.id)?;
        if !common.exists() {
            return Ok(());
        }
        if !create::is_ours(&common, self.header.id) {
            return self.conflict(plan, "another repository appeared there meanwhile");
        }
        create::discard(&common, self.header.id)
    }

    /// Brings back another work tree, or takes that back.
    fn worktree(
        &mut self,
        plan: &RepositoryPlan,
        worktree: &WorktreePlan,
        intent: &mut OpenIntent,
    ) -> Result<()> {
        let folder = path_of(&worktree.path);
        if !worktree.create {
            if worktree.actions.is_empty() {
                return Ok(());
            }
            let root = Root::open(&folder, self.job.root.disk().clone())?;
            return self.drive(&root, &worktree.actions, intent);
        }
        let admin = path_of(&plan.common_dir).join("worktrees").join(path_of(&worktree.name));
        let job = &self.job;
        match self.way {
            Way::Forward => create::worktree(&folder, &admin, &worktree.tree, self.header.id, job),
            Way::Backward => {
                if let Some(reason) =
                    create::discard_worktree(&folder, &worktree.tree, self.header.id, job)?
                {
                    self.warnings.push(reason);
                }
                Ok(())
            }
        }
    }

    /// Everything stands, and the marks of what was made anew are not needed any more.
    pub fn settle(&self) {
        for plan in self.plan.repositories.iter().filter(|plan| plan.create) {
            create::forget(&path_of(&plan.common_dir), self.header.id);
        }
    }
}

impl Drop for GitDrive<'_> {
    fn drop(&mut self) {
        for path in &self.locks {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// A log without its last entry, if that is ours.
fn without_own_entry(log: &[u8]) -> Option<&[u8]> {
    let lines = log.strip_suffix(b"\n")?;
    let start = lines.iter().rposition(|&b| b == b'\n').map_or(0, |at| at + 1);
    let is_ours = lines[start..].windows(OURS.len()).any(|words| words == OURS);
    is_ours.then_some(&log[..start])
}

/// Removes a folder that holds nothing but folders; anything else stays.
fn remove_empty_folders(path: &Path) {
    if !path.symlink_metadata().is_ok_and(|meta| meta.is_dir()) {
        return;
    }
    for entry in std::fs::read_dir(path).into_iter().flatten().flatten() {
        remove_empty_folders(&entry.path());
    }
    let _ = std::fs::remove_dir(path);
}

/// Whether git's folder of a linked work tree is made or taken away: nobody is at work in it, and a
/// lock would keep it from going.
fn comes_or_goes(plan: &RepositoryPlan, worktree: &[u8]) -> bool {
    let folder = [b"worktrees/", worktree].concat();
    let mut own = plan.files.iter().filter(|action| action.path.as_bytes() == folder);
    own.any(|action| action.old.is_none() || action.new.is_none())
}

fn lock_mark(id: IntentId) -> String {
    format!("rappel {id}\n")
}

fn staged_log(path: &RelPath, id: IntentId) -> Result<RelPath> {
    let name = format!(".rappel-{id}-0.log");
    let staged = match path.parent() {
        Some(folder) => folder.join(name.as_bytes()),
        None => RelPath::new(name),
    };
    Ok(staged.map_err(|error| StoreError::Damaged(error.to_string()))?)
}

/// What every ref is now, as plans have it.
fn current(common: &Path, plan: &RepositoryPlan) -> Result<BTreeMap<RelPath, String>> {
    let git_dir = path_of(&plan.git_dir);
    let refs = live::current_refs(&git_dir, common).map_err(|failure| match failure {
        super::bundles::Failure::Git(words) => trouble(&words),
        super::bundles::Failure::Other(error) => {
            let source = std::io::Error::other(error.to_string());
            Error::Store(StoreError::Io { action: "read", path: common.to_owned(), source })
        }
    })?;
    Ok(refs.iter().map(|(name, target)| (name.clone(), value(target))).collect())
}

/// Moves refs in one transaction of git's. Symbolic ones, which old versions of git cannot take into
/// one, follow.
fn transact(common: &Path, moves: &[RefMove]) -> Result<()> {
    let git = Git::at(common);
    let symbolic =
        |text: &Option<String>| text.as_ref().is_some_and(|text| text.starts_with("ref: "));
    let zero = |like: &str| "0".repeat(like.len());
    let mut input = Vec::new();
    let mut any = false;
    let mut line = |words: &[&[u8]]| {
        input.extend_from_slice(&words.join(&b' '));
        input.push(b'\n');
    };
    line(&[b"start"]);
    // What goes makes room for what comes.
    let mut ordered: Vec<&RefMove> = moves.iter().collect();
    ordered.sort_by_key(|step| step.new.is_some());
    for step in ordered {
        if symbolic(&step.new) || (symbolic(&step.old) && step.new.is_none()) {
            continue;
        }
        any = true;
        let name = step.name.as_bytes();
        line(&[b"option", b"no-deref"]);
        match (&step.old, &step.new) {
            (Some(_), Some(new)) if symbolic(&step.old) => line(&[b"update", name, new.as_bytes()]),
            (Some(old), Some(new)) => line(&[b"update", name, new.as_bytes(), old.as_bytes()]),
            (None, Some(new)) => line(&[b"update", name, new.as_bytes(), zero(new).as_bytes()]),
            (Some(old), None) => line(&[b"delete", name, old.as_bytes()]),
            (None, None) => {}
        }
    }
    line(&[b"prepare"]);
    line(&[b"commit"]);
    if any {
        let (status, _, words) =
            git.try_ask(&["update-ref", "--stdin"], &input).map_err(|words| trouble(&words))?;
        if !status.success() {
            if is_locked(&words) {
                return Err(StoreError::Busy { holder: words, waited_ms: 0 }.into());
            }
            let path =
                moves.first().map_or_else(|| RelPath::new("refs"), |step| Ok(step.name.clone()));
            let path = path.map_err(|error| StoreError::Damaged(error.to_string()))?;
            return Err(Error::conflict(&path, words));
        }
    }
    for step in moves {
        let (worktree, rest) = split(step.name.as_bytes());
        let dir = match worktree {
            Some(name) => common.join("worktrees").join(std::ffi::OsStr::from_bytes(name)),
            None => common.to_owned(),
        };
        let name = std::ffi::OsStr::from_bytes(rest);
        let git = Git::at(&dir);
        let answer = match &step.new {
            Some(new) if symbolic(&step.new) => {
                let target = path_of(new.strip_prefix("ref: ").unwrap_or(new));
                git.ask(&["symbolic-ref".as_ref(), name, target.as_os_str()], b"")
            }
            None if symbolic(&step.old) => {
                git.ask(&["symbolic-ref".as_ref(), "--delete".as_ref(), name], b"")
            }
            _ => continue,
        };
        answer.map_err(|words| match words {
            Trouble::Failed(holder) if is_locked(&holder) => {
                StoreError::Busy { holder, waited_ms: 0 }.into()
            }
            other => trouble(&other),
        })?;
    }
    Ok(())
}

/// Whether git's words say that another git holds a lock.
fn is_locked(words: &str) -> bool {
    words.contains(".lock") && words.contains("File exists")
}

/// Brings back what the repository lacks of a state's objects.
pub fn bring_objects(
    git_dir: &Path,
    state: &State,
    source: &dyn rappel_store::sink::Source,
) -> Result<()> {
    let git = Git::at(git_dir);
    // A bundle's name is a hash of the kind that names its objects.
    let Some(width) = state.bundles.first().map(|bundle| bundle.name.len() / 2) else {
        return Ok(());
    };
    let mut input = Vec::new();
    for bundle in &state.bundles {
        let list = bytes_of(source, &bundle.ids).unwrap_or_default();
        for name in list.chunks_exact(width).filter_map(|name| Oid::try_from(name).ok()) {
            input.extend_from_slice(name.to_string().as_bytes());
            input.push(b'\n');
        }
    }
    let args = ["cat-file", "--buffer", "--batch-check=%(objectname)"];
    let answer = git.ask(&args, &input).map_err(|words| trouble(&words))?;
    let lines = answer.split(|&b| b == b'\n');
    let missing: BTreeSet<Oid> = lines
        .filter_map(|line| line.strip_suffix(b" missing"))
        .filter_map(|hex| Oid::from_hex(hex).ok())
        .collect();
    let known = Known::of(&state.bundles, width, source);
    let wanted: BTreeSet<usize> = missing.iter().filter_map(|oid| known.find(oid)).collect();
    let promised = !wanted.is_empty() && create::is_partial_clone(&git);
    for at in wanted {
        create::unpack(&git, &state.bundles[at], promised, source)?;
    }
    Ok(())
}
