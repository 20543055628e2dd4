//! Merges: the main branch moved to commits that came from upstream. The capture that sees it marks
//! the moment with a checkpoint of its own, over the same trees ([`crate::save`]).
//!
//! Nothing is asked unless the main branch is elsewhere than in the checkpoint before. Then the
//! repository itself knows what came from upstream: remote-tracking branches move by a fetch or by
//! a push, and their reflogs tell which. No network is used.

use rappel_capture::git::Place;
use rappel_capture::git::program::Git;
use rappel_capture::git::refs::{self, Refs, Target};
use rappel_store::sink::Source;
use rappel_store::{content, tree};
use rappel_types::{Manifest, Node, ObjectId, RelPath, Trigger, redact};

use super::CapturedGit;
use crate::rappel::Rappel;

/// No list of refs is longer than this.
const REFS_MAX: u64 = 64 << 20;
/// So much of a reflog is read, from its end.
const REFLOG: &str = "-n200";
/// Among so many of the last merges it is looked whether one was marked already.
const MARKED: usize = 100;
/// A merge is described by so many characters.
const SUBJECT_MAX: usize = 120;
/// Where a manifest says which commit came from upstream.
const COMMIT: &str = "merged_commit";
/// The setting of git's that names the main branch.
const CONFIGURED: &str = "rappel.mainBranch";
/// What the reflog of a remote-tracking branch says of a push.
const PUSHED: &str = "update by push";

/// A merge that a capture found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Merge {
    /// The main branch.
    pub branch: String,
    /// The newest commit that came from upstream.
    pub commit: String,
    /// Its subject.
    pub subject: String,
}

impl Merge {
    /// Makes a manifest the mark of this merge.
    pub fn mark(&self, manifest: &mut Manifest) {
        manifest.trigger = Trigger::PrMerged;
        manifest.description = Some(self.subject.clone());
        manifest.tags = Trigger::PrMerged.automatic_tags();
        manifest.session_id = None;
        manifest.metadata.clear();
        manifest.metadata.insert("branch".into(), self.branch.as_str().into());
        manifest.metadata.insert(COMMIT.into(), self.commit.as_str().into());
    }
}

impl Rappel {
    /// The merge that a look at git found; nothing where it was marked before.
    pub(crate) fn merge_in(&self, git: &CapturedGit, source: &dyn Source) -> Option<Merge> {
        let now = git.captured.fresh.iter().find(|state| state.path.is_none())?;
        let before = refs_in(source, git.before.as_ref()?)?;
        if !has_news(&before, &now.refs) {
            return None;
        }
        let place = Place::find(&self.root, &self.options.environment)?;
        let git = Git::at(&place.git_dir);
        let branch = main_branch(&now.refs, || words(&git, &["config", "--get", CONFIGURED]))?;
        let merge = Moved::of(&before, &now.refs, branch)?.ask(&git)?;
        (!self.is_marked(&merge)).then_some(merge)
    }

    /// Whether a checkpoint marks the merge already: a restore, or a reset, may bring it back.
    fn is_marked(&self, merge: &Merge) -> bool {
        let rows = self.rows().unwrap_or_default();
        let marks = rows.iter().rev().filter(|row| row.trigger == Trigger::PrMerged.as_str());
        marks.take(MARKED).any(|row| {
            let manifest = self.store.manifest(row).ok();
            manifest.is_some_and(|manifest| {
                manifest.metadata.get(COMMIT).and_then(|value| value.as_str())
                    == Some(&*merge.commit)
            })
        })
    }
}

/// The refs of the repository at the root, as a checkpoint holds them.
fn refs_in(source: &dyn Source, tree: &ObjectId) -> Option<Refs> {
    let path = RelPath::new("root/refs").ok()?;
    let Node::File { size, content, .. } = tree::lookup(source, tree, &path).ok()?? else {
        return None;
    };
    Some(refs::decode(&content::read(source, &content, size, REFS_MAX).ok()?))
}

/// That the main branch is not where it was.
struct Moved {
    branch: String,
    from: String,
    to: String,
    /// The remote-tracking branches of the same name, and where they were.
    upstream: Vec<(String, Option<String>)>,
}

impl Moved {
    fn of(before: &Refs, now: &Refs, branch: String) -> Option<Self> {
        let local = RelPath::new(format!("refs/heads/{branch}")).ok()?;
        let (from, to) = (refs::resolve(before, &local)?, refs::resolve(now, &local)?);
        if from == to {
            return None;
        }
        let upstream: Vec<_> = upstream_of(now, &branch)
            .map(|name| {
                let was = RelPath::new(name).ok();
                let was =
                    was.and_then(|name| refs::resolve(before, &name).map(ToString::to_string));
                (name.to_owned(), was)
            })
            .collect();
        let (from, to) = (from.to_string(), to.to_string());
        (!upstream.is_empty()).then_some(Self { branch, from, to, upstream })
    }

    /// The newest commit that came from upstream, if one did.
    fn ask(&self, git: &Git<'_>) -> Option<Merge> {
        for (name, was) in &self.upstream {
            let mut tips: Vec<String> = was.iter().cloned().collect();
            tips.extend(fetched(git, name, was.as_deref()));
            tips.dedup();
            // What both have is what was taken over; what the branch had before is no news.
            for tip in tips.iter().rev() {
                let Some(shared) = words(git, &["merge-base", "--all", tip, &self.to]) else {
                    continue;
                };
                let mut question = vec!["log", "-1", "--format=%H %s"];
                question.extend(shared.split_whitespace());
                question.extend(["--not", &self.from, "--"]);
                let Some(answer) = words(git, &question) else { continue };
                let Some((commit, subject)) = answer.trim_end().split_once(' ') else { continue };
                let subject = redact::text(subject).chars().take(SUBJECT_MAX).collect();
                let (branch, commit) = (self.branch.clone(), commit.to_owned());
                return Some(Merge { branch, commit, subject });
            }
        }
        None
    }
}

/// Where a fetch has last moved a remote-tracking branch since it was at `was`.
fn fetched(git: &Git<'_>, name: &str, was: Option<&str>) -> Option<String> {
    let log = words(git, &["log", "-g", REFLOG, "--format=%H %gs", name, "--"])?;
    let since = log.lines().filter_map(|line| line.split_once(' '));
    let mut since = since.take_while(|(commit, _)| Some(*commit) != was);
    since.find(|(_, how)| *how != PUSHED).map(|(commit, _)| commit.to_owned())
}

/// What git answers; nothing if it fails or says nothing.
fn words(git: &Git<'_>, question: &[&str]) -> Option<String> {
    let answer = git.ask(question, b"").ok()?;
    let answer = String::from_utf8_lossy(&answer).into_owned();
    (!answer.trim().is_empty()).then_some(answer)
}

/// The remote-tracking branches that are called like a branch.
fn upstream_of<'a>(refs: &'a Refs, branch: &str) -> impl Iterator<Item = &'a str> {
    let end = format!("/{branch}");
    refs.keys().filter_map(|name| std::str::from_utf8(name.as_bytes()).ok()).filter(move |name| {
        let rest = name.strip_prefix("refs/remotes/").and_then(|rest| rest.strip_suffix(&*end));
        rest.is_some_and(|remote| !remote.is_empty() && !remote.contains('/'))
    })
}

/// Whether a branch moved that is called like a remote-tracking one. Otherwise git is not asked.
fn has_news(before: &Refs, now: &Refs) -> bool {
    now.iter().any(|(name, target)| {
        let branch = name.as_bytes().strip_prefix(b"refs/heads/");
        let branch = branch.and_then(|name| std::str::from_utf8(name).ok());
        branch.is_some_and(|branch| {
            before.get(name).is_some_and(|was| was != target)
                && upstream_of(now, branch).next().is_some()
        })
    })
}

/// The main branch: the one that `origin/HEAD` names, else the configured one, else `main` or
/// `master`.
fn main_branch(refs: &Refs, configured: impl Fn() -> Option<String>) -> Option<String> {
    let head = RelPath::new("refs/remotes/origin/HEAD").ok()?;
    if let Some(Target::Symbolic(target)) = refs.get(&head)
        && let Some(name) = target.strip_prefix(b"refs/remotes/origin/")
    {
        return String::from_utf8(name.to_vec()).ok();
    }
    if let Some(configured) = configured() {
        return Some(configured.trim().to_owned());
    }
    let is_there = |name: &&&str| {
        RelPath::new(format!("refs/heads/{name}")).is_ok_and(|path| refs.contains_key(&path))
    };
    ["main", "master"].iter().find(is_there).map(|name| (*name).to_owned())
}
