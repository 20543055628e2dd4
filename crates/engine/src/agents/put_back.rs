//! Transcripts that are gone, cut or changed come back with a restore. They lie outside the workspace, in the agents' own
//! homes, so each is shown in the plan; and they are only ever added to, so one that merely grew is left alone, as is one that
//! its agent has moved.
//!
//! They are put back when everything else stands and is remembered, before the intent is closed. Doing it again changes
//! nothing, which is all that recovery needs. What was displaced is removed only if it is known to be held.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use rappel_capture::agents::follow::is_compressed;
use rappel_capture::agents::raw::{self, Decision, Planned, Why};
use rappel_capture::files::stamp;
use rappel_capture::restore::{IntentId, is_open_for_writing};
use rappel_store::beneath::{Kind, Root};
use rappel_store::{content, disk, held, tree};
use rappel_types::agents::AgentsPlan;
use rappel_types::plan::Conflict;
use rappel_types::{Advice, CheckpointId, Content, Node, ObjectId, RelPath};

use super::{AgentsPlanned, AgentsWish};
use crate::error::{Error, Result};
use crate::rappel::Rappel;

/// So much of a transcript's beginning is looked at for the name of its session.
const HEAD: u64 = 4 << 10;

/// Whether a transcript is a session's, or one of its subagents'. An agent names the file, or the
/// folder of its subagents, after the session. Some use a part of the name alone; their first line
/// has it whole.
fn is_of_session(one: &Planned, name: &str) -> bool {
    let path = one.path.to_string();
    // A file is called after its session, and so is the folder of its subagents.
    let is_called_so = |part: &str| {
        let stem = part.split(".jsonl").next().unwrap_or(part);
        stem.strip_suffix(name).is_some_and(|rest| rest.is_empty() || rest.ends_with('-'))
    };
    if path.split('/').any(is_called_so) {
        return true;
    }
    let short = name.split('-').next().filter(|short| short.len() >= 8);
    if !short.is_some_and(|short| path.contains(short)) {
        return false;
    }
    let mut head = Vec::new();
    let read = held::open(one.root.join(one.path.to_string()))
        .and_then(|file| (&*file).take(HEAD).read_to_end(&mut head));
    let text = String::from_utf8_lossy(&head);
    read.is_ok() && text.lines().next().is_some_and(|line| line.contains(name))
}

impl Rappel {
    /// What going to a tree of transcripts does, in the plan and in words.
    pub(super) fn plan_transcripts(
        &self,
        tree: &ObjectId,
        wish: &AgentsWish,
        planned: &mut AgentsPlanned,
    ) -> Result<()> {
        if self.options.agents.is_none() {
            return Ok(());
        }
        let plan = self.compare_transcripts(tree, wish.made.as_ref(), &wish.rewound)?;
        let (mut back, mut room) = (0, 0);
        for one in &plan.transcripts {
            let place = one.root.join(one.path.to_string());
            let line = match one.decision {
                Decision::Same => continue,
                Decision::LeaveItGrew => {
                    "not changed (it only grew since): the agent remembers all of it".to_owned()
                }
                Decision::LeaveItMoved => {
                    let to = one.moved.as_ref().map_or(&one.path, |(to, _)| to);
                    if is_compressed(to) && wish.rewound.iter().any(|it| is_of_session(one, it)) {
                        let reason = format!(
                            "its agent has compressed it ({to}): open the session with `codex \
                             resume`, leave it, and try again"
                        );
                        planned.conflicts.push(conflict(one, &reason));
                    }
                    let to = one.root.join(to.to_string());
                    format!("not changed (its agent keeps it at {} now)", to.display())
                }
                Decision::PutBack(_) if !is_replaceable(one) => {
                    let said = "cannot be put back: a link or folder stands there";
                    planned.warnings.push(format!("{} {said}", place.display()));
                    continue;
                }
                Decision::PutBack(why) => {
                    back += 1;
                    room += if let Node::File { size, .. } = &one.node { *size } else { 0 };
                    if let Some(reason) = barred(&place, room) {
                        planned.conflicts.push(conflict(one, &reason));
                    }
                    if wish.rewound.iter().any(|name| is_of_session(one, name))
                        && self.is_being_written(one)
                    {
                        let reason = "its agent still has it open, and lets go of it about a minute \
                                      after you have left";
                        planned.conflicts.push(conflict(one, reason).with(vec![Advice::TryAgain]));
                    }
                    format!("put back ({})", why.as_str())
                }
            };
            let provider = one.provider;
            planned.details.push(format!("{provider} transcript {}: {line}", place.display()));
        }
        for path in &plan.unknown {
            planned.warnings.push(format!("it is not known where the transcript {path} belongs"));
        }
        if back > 0 {
            planned.plan.transcripts = Some(*tree);
            planned.plan.made = wish.made;
            planned.plan.rewound.clone_from(&wish.rewound);
            planned.transcripts = back;
        }
        Ok(())
    }

    /// Whether a process has a transcript open for writing: it would go on with what was displaced.
    fn is_being_written(&self, one: &Planned) -> bool {
        let root = Root::open(&one.root, self.options.disk.clone());
        let stat = root.and_then(|root| root.stat(&one.path)).ok().flatten();
        stat.is_some_and(|meta| is_open_for_writing(meta.identity))
    }

    /// What of a tree stands where it did.
    fn compare_transcripts(
        &self,
        tree: &ObjectId,
        made: Option<&ObjectId>,
        rewound: &[String],
    ) -> Result<raw::Plan> {
        let Some(surroundings) = &self.options.agents else { return Ok(raw::Plan::default()) };
        let memo = self.raw_memo()?;
        let mut plan = raw::plan(self.source(), tree, surroundings, memo.as_ref())?;
        for one in &mut plan.transcripts {
            if !rewound.iter().any(|name| is_of_session(one, name)) {
                continue;
            }
            match (one.decision, one.moved.take()) {
                (Decision::LeaveItGrew, _) => one.decision = Decision::PutBack(Why::Changed),
                // It goes back where its agent looks for it.
                (Decision::LeaveItMoved, Some((to, now))) if !is_compressed(&to) => {
                    (one.path, one.now) = (to, Some(now));
                    one.decision = match self.holds(one) {
                        true => Decision::Same,
                        false => Decision::PutBack(Why::Changed),
                    };
                }
                (_, moved) => one.moved = moved,
            }
        }
        let Some(made) = made else { return Ok(plan) };
        for one in &mut plan.transcripts {
            let is_rewound = rewound.iter().any(|name| is_of_session(one, name));
            match (one.decision, self.stands_as(made, one)?) {
                (Decision::LeaveItGrew, Some(true)) => {
                    one.decision = Decision::PutBack(Why::Changed);
                }
                // It went on since the step that is taken back: no other step holds that.
                (Decision::PutBack(Why::Changed), Some(false)) if !is_rewound => {
                    one.decision = Decision::LeaveItGrew;
                }
                _ => {}
            }
        }
        Ok(plan)
    }

    /// Whether a transcript is as a tree has it; `None` where that cannot be told.
    fn stands_as(&self, tree: &ObjectId, one: &Planned) -> Result<Option<bool>> {
        let Some(node) = self.node_in(tree, one)? else { return Ok(None) };
        Ok(self.opened(one).map(|file| self.agrees(&file, &node) == Agreement::Whole))
    }

    /// Whether a transcript is as it was stored.
    fn holds(&self, one: &Planned) -> bool {
        self.opened(one).is_some_and(|file| self.agrees(&file, &one.node) == Agreement::Whole)
    }

    fn opened(&self, one: &Planned) -> Option<held::Handle> {
        let root = Root::open(&one.root, self.options.disk.clone());
        root.and_then(|root| root.open_file(&one.path)).ok()
    }

    fn node_in(&self, tree: &ObjectId, one: &Planned) -> Result<Option<Node>> {
        Ok(tree::lookup(self.source(), tree, &place_of(one)?)?)
    }

    /// The transcripts that a checkpoint holds.
    pub(crate) fn transcripts_of(&self, checkpoint: &CheckpointId) -> Result<Option<ObjectId>> {
        let Some(row) = self.store.checkpoint(checkpoint)? else { return Ok(None) };
        Ok(self.store.manifest(&row)?.agents.and_then(|agents| agents.transcripts))
    }

    /// Puts transcripts back. What stood in their place must be as one of the `held` trees has it, else it is kept beside
    /// it. What cannot be done is said, and everything else is done.
    pub(crate) fn put_back(
        &self,
        plan: &AgentsPlan,
        held: &[CheckpointId],
        intent: Option<IntentId>,
    ) -> Vec<Conflict> {
        if plan.transcripts.is_none() && plan.made.is_none() {
            return Vec::new();
        }
        let Some(intent) = intent else {
            return nowhere("no transcript was put back: the restore's intent is gone".into());
        };
        let look = || -> Result<(Vec<Planned>, Vec<ObjectId>)> {
            let mut all = Vec::new();
            // What is taken back may have been interrupted: first what that left is cleared away.
            if let Some(made) = &plan.made {
                all.extend(self.compare_transcripts(made, None, &[])?.transcripts);
                for one in &mut all {
                    one.decision = Decision::Same;
                }
            }
            if let Some(tree) = &plan.transcripts {
                let found = self.compare_transcripts(tree, plan.made.as_ref(), &plan.rewound)?;
                all.extend(found.transcripts);
            }
            let held = held.iter().map(|checkpoint| self.transcripts_of(checkpoint));
            Ok((all, held.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect()))
        };
        let (all, held) = match look() {
            Ok(found) => found,
            Err(error) => return nowhere(format!("no transcript was put back: {error}")),
        };
        let mut conflicts = Vec::new();
        for one in &all {
            match self.put_one_back(one, intent, &held) {
                Ok(None) => {}
                Ok(Some(reason)) => conflicts.push(conflict(one, &reason)),
                Err(error) => {
                    let reason = format!("it was not put back: {error}");
                    conflicts.push(conflict(one, &reason));
                }
            }
        }
        conflicts
    }

    /// Puts one back, and removes what stood there; says what is in the way.
    fn put_one_back(
        &self,
        one: &Planned,
        intent: IntentId,
        held: &[ObjectId],
    ) -> Result<Option<String>> {
        let disk = &self.options.disk;
        let back = matches!(one.decision, Decision::PutBack(_));
        if back && !is_replaceable(one) {
            return Ok(Some("a link or folder stands there; it is left as it is".into()));
        }
        if back {
            disk::create_dir(&**disk, &one.root)?;
        } else if !one.root.is_dir() {
            return Ok(None);
        }
        let root = Root::open(&one.root, disk.clone())?;
        let slot = slot_of(one, intent)?;
        let beside = |name: &str| match one.path.parent() {
            Some(folder) => folder.join(name.as_bytes()).map_err(bad_path),
            None => RelPath::new(name).map_err(bad_path),
        };
        let (slot, aside) = (beside(&slot)?, beside(&format!("{slot}.old"))?);
        // What an interrupted attempt left there.
        for left in [&slot, &aside] {
            if let Some(kept) = self.settle(&root, one, left, held)? {
                return Ok(Some(kept));
            }
        }
        if !back {
            return Ok(None);
        }
        let Node::File { mode, size, content } = &one.node else { return Ok(None) };
        Self::make_folders(&root, &one.path)?;
        let stands = root.stat(&one.path)?;
        let mut file = root.create_file(&slot, *mode)?;
        let written = content::write_to(self.source(), content, *size, &mut file);
        // The agent chose who may read it.
        let written = match &stands {
            Some(meta) => written.and_then(|()| file.set_mode(meta.mode)),
            None => written,
        };
        if let Err(error) = written.and_then(|()| file.sync()) {
            let _ = root.unlink(&slot);
            return Err(error.into());
        }
        match stands {
            Some(_) => drop(root.exchange(&slot, &one.path, &aside)?),
            None => root.rename_noreplace(&slot, &one.path)?,
        }
        let mut said = None;
        for left in [&slot, &aside] {
            said = said.or(self.settle(&root, one, left, held)?);
        }
        root.sync_dir(one.path.parent().as_ref())?;
        Ok(said)
    }

    /// Removes what was displaced, if that is held; else says where it is kept.
    fn settle(
        &self,
        root: &Root,
        one: &Planned,
        left: &RelPath,
        held: &[ObjectId],
    ) -> Result<Option<String>> {
        let Some(meta) = root.stat(left)? else { return Ok(None) };
        let kept = || {
            Some(format!(
                "what its agent wrote there is kept at {}",
                root.display(Some(left)).display()
            ))
        };
        if meta.kind != Kind::File {
            return Ok(kept());
        }
        let file = root.open_file(left)?;
        // The beginning of what is put back: an unfinished copy of it, or one that was cut.
        let mut is_held = self.agrees(&file, &one.node) != Agreement::No;
        for tree in held {
            let node = self.node_in(tree, one)?;
            is_held |= node.is_some_and(|node| self.agrees(&file, &node) == Agreement::Whole);
        }
        if !is_held || is_open_for_writing(meta.identity) {
            return Ok(kept());
        }
        root.unlink(left)?;
        Ok(None)
    }

    /// Whether a file is what was stored, or the beginning of it.
    fn agrees(&self, file: &File, node: &Node) -> Agreement {
        let Node::File { size, content, .. } = node else { return Agreement::No };
        let content: &Content = content;
        match raw::compare(self.source(), content, *size, file) {
            Ok(now) if now.agrees == now.size && now.size == *size => Agreement::Whole,
            Ok(now) if now.agrees == now.size => Agreement::Beginning,
            _ => Agreement::No,
        }
    }

    fn make_folders(root: &Root, path: &RelPath) -> Result<()> {
        for folder in path.ancestors() {
            if root.stat(&folder)?.is_none() {
                root.create_dir(&folder, 0o700)?;
                root.sync_dir(folder.parent().as_ref())?;
            }
        }
        Ok(())
    }
}

/// How much of a file is what was stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Agreement {
    Whole,
    Beginning,
    No,
}

/// Whether nothing or a file stands where a transcript was.
fn is_replaceable(one: &Planned) -> bool {
    one.now.is_none_or(|now| now.kind() == stamp::Kind::File)
}

/// Why nothing can be written at a place, or not so much: known before anything is changed.
fn barred(place: &Path, room: u64) -> Option<String> {
    let folder = place.ancestors().skip(1).find(|folder| folder.is_dir())?;
    if rustix::fs::access(folder, rustix::fs::Access::WRITE_OK).is_err() {
        return Some("its folder cannot be written to".into());
    }
    let free = rustix::fs::statvfs(folder).map(|disk| disk.f_bavail.saturating_mul(disk.f_frsize));
    match free {
        Ok(free) if free < room => Some("there is no room for it".into()),
        _ => None,
    }
}

/// Where a transcript lies in a tree.
fn place_of(one: &Planned) -> Result<RelPath> {
    let path = [one.provider.as_str().as_bytes(), b"/", one.path.as_bytes()].concat();
    RelPath::new(path).map_err(bad_path)
}

/// What is staged or displaced for a transcript is called so. The same for every tree that holds it.
fn slot_of(one: &Planned, intent: IntentId) -> Result<String> {
    let hash = blake3::hash(place_of(one)?.as_bytes());
    let number = hash.as_bytes()[..7].iter().fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte));
    Ok(format!(".rappel-{intent}-{number}"))
}

fn conflict(one: &Planned, reason: &str) -> Conflict {
    let place = one.root.join(one.path.to_string());
    let reason = format!("{}: {reason}", place.display());
    Conflict::of_agents(place_of(one).unwrap_or_else(|_| one.path.clone()), reason)
}

fn nowhere(reason: String) -> Vec<Conflict> {
    "transcripts".parse().ok().map(|path| Conflict::of_agents(path, reason)).into_iter().collect()
}

fn bad_path(error: impl std::fmt::Display) -> Error {
    Error::Damaged { message: format!("the place of a transcript: {error}") }
}
