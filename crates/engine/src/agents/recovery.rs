//! Recovery points: what a person or a program would do to get back to a checkpoint. And sessions whose agent is gone.

use std::collections::{BTreeMap, BTreeSet};

use rappel_types::Advice;
use rappel_types::agents::{Body, SessionId};
use rappel_types::{CheckpointId, Reference, Timestamp};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::{SessionView, parse_event, resume_command};
use crate::error::Result;
use crate::rappel::Rappel;
use crate::run::RunLock;

/// How to get back to a checkpoint.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct RecoveryPoint {
    /// Which.
    pub checkpoint_id: CheckpointId,
    /// In this order.
    pub recovery_instructions: Vec<RecoveryStep>,
}

/// One thing to do.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
#[serde(tag = "step", rename_all = "snake_case")]
pub enum RecoveryStep {
    /// The code: a commit, and the files that differed from it.
    RestoreCodeState {
        /// The commit.
        commit_hash: Option<String>,
        /// What differs from it, untracked files included: unified diffs, binary ones in git's
        /// form. `git apply` takes each, in this order, and all of them as one text.
        patches: Vec<String>,
    },
    /// The environment.
    RestoreEnvironment {
        /// Its variables.
        env_vars: BTreeMap<String, String>,
    },
    /// A command to run.
    ReplayCommand {
        /// As a shell takes it.
        command: String,
    },
    /// Something that only a person can do.
    ManualInstruction {
        /// What.
        instruction: String,
    },
}

/// A session whose agent, or whose supervisor, ended without saying so.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct CrashedSession {
    /// Which.
    pub id: SessionId,
    /// What it was doing.
    pub task: Option<String>,
    /// When it began.
    pub started_at: Option<Timestamp>,
    /// The newest checkpoint with files of it, or of the sessions below it.
    pub last_checkpoint: Option<CheckpointId>,
    /// How old that is.
    pub age_ms: Option<u64>,
    /// The tool call that was running when it was last heard of.
    pub unfinished_call: Option<UnfinishedCall>,
    /// Every file that it, or a session below it, modified.
    pub files_modified: Vec<String>,
    /// From its beginning to the last that was heard of it.
    pub duration_ms: Option<u64>,
    /// The one command that takes it up again, where it is known. Where [`CrashedSession::supervised`]
    /// is set, a face puts it below a supervised run.
    pub resume: Option<String>,
    /// Whether it was supervised, so that it is taken up again in the same way.
    pub supervised: bool,
    /// The process of its command, if only `rappel run` is gone: the command goes on, and nobody
    /// saves it.
    pub still_running: Option<u32>,
}

/// A tool call whose end nobody told.
#[derive(Debug, Clone, PartialEq, JsonSchema, Serialize)]
pub struct UnfinishedCall {
    /// Its id.
    pub id: String,
    /// The tool.
    pub tool: String,
    /// When it was called.
    pub started_at: Timestamp,
    /// What it was given.
    pub arguments: Value,
}

impl Rappel {
    /// What there is to do to get back to a checkpoint; `words` are those of a face.
    pub fn create_recovery_point(
        &self,
        reference: &Reference,
        words: &dyn Fn(&Advice) -> String,
    ) -> Result<RecoveryPoint> {
        let manifest = self.show(reference)?.manifest;
        let mut steps = Vec::new();
        let mut missing = None;
        if let Some(git) = &manifest.git {
            let commit_hash = git.root.commit.clone();
            let (patches, without) = match &commit_hash {
                Some(commit) => self.patches(&manifest, &git.root, commit)?,
                None => Default::default(),
            };
            missing = without;
            steps.push(RecoveryStep::RestoreCodeState { commit_hash, patches });
        } else if manifest.holds_files() {
            steps.push(RecoveryStep::RestoreCodeState { commit_hash: None, patches: Vec::new() });
        }
        if !manifest.variables.is_empty() {
            let env_vars = manifest.variables.clone();
            steps.push(RecoveryStep::RestoreEnvironment { env_vars });
        }
        steps.extend(missing.map(|instruction| RecoveryStep::ManualInstruction { instruction }));
        let restore = Advice::ConfirmRestore { checkpoint: manifest.id.to_string() };
        steps.push(RecoveryStep::ReplayCommand { command: words(&restore) });
        for part in manifest.agents.iter().flat_map(|agents| &agents.sessions) {
            match self.session(&part.id).ok().as_ref().and_then(resume_command) {
                Some(command) => {
                    steps.push(RecoveryStep::ReplayCommand { command: command.join(" ") });
                }
                None => steps.push(RecoveryStep::ManualInstruction {
                    instruction: words(&Advice::RecallSession { session: part.id.to_string() }),
                }),
            }
        }
        for call in &manifest.mid_operation {
            steps.push(RecoveryStep::ManualInstruction {
                instruction: format!("{call} was running; see what it left"),
            });
        }
        if manifest.partial {
            let missing: Vec<String> = manifest
                .partial_reasons
                .iter()
                .map(|one| match &one.path {
                    Some(path) => format!("{path} ({})", one.reason),
                    None => format!("{} ({})", one.facet, one.reason),
                })
                .collect();
            steps.push(RecoveryStep::ManualInstruction {
                instruction: format!("the checkpoint lacks {}", missing.join(", ")),
            });
        }
        Ok(RecoveryPoint { checkpoint_id: manifest.id, recovery_instructions: steps })
    }

    /// Sessions of this workspace that run, as far as the journal knows, while their process is gone.
    pub(crate) fn crashed_sessions(&self) -> Result<Vec<CrashedSession>> {
        let ids = self.live_session_ids()?;
        let live = ids.iter().filter_map(|id| id.parse().ok()).map(|id| self.session(&id));
        let mut crashed = live.collect::<Result<Vec<SessionView>>>()?;
        crashed.retain(|view| view.process_gone);
        crashed.sort_by_key(|view| std::cmp::Reverse(view.started_at));
        crashed.into_iter().map(|view| self.crashed(view)).collect()
    }

    fn crashed(&self, view: SessionView) -> Result<CrashedSession> {
        let family = self.with_those_below(&view)?;
        let (mut modified, mut heard_at, mut call) = (BTreeSet::new(), None, None);
        for one in &family {
            let state = self.load_live(&one.id)?.state;
            modified.extend(self.files_modified(&one.id)?);
            heard_at = heard_at.max(state.latest_at);
            let running = state.tool_state.running.iter().rev().find(|call| !call.background);
            call = call.or_else(|| running.cloned());
        }
        let last = self.last_checkpoint_of(&family)?;
        let millis = |millis: i64| u64::try_from(millis).unwrap_or_default();
        let lasted = heard_at.zip(view.started_at).map(|(to, from)| to.millis_since(from));
        Ok(CrashedSession {
            supervised: self.run_lock(&view.id) != RunLock::None,
            resume: self.resume_of(&view, &family),
            still_running: self.command_left_running(&view.id),
            age_ms: last.as_ref().map(|(_, at)| millis(self.now().millis_since(*at))),
            last_checkpoint: last.map(|(id, _)| id),
            unfinished_call: call.map(|call| UnfinishedCall {
                id: call.id,
                tool: call.tool,
                started_at: call.started_at,
                arguments: call.arguments,
            }),
            files_modified: modified.into_iter().collect(),
            duration_ms: lasted.map(millis),
            id: view.id,
            task: view.task,
            started_at: view.started_at,
        })
    }

    /// A session and all that began below it.
    pub(crate) fn with_those_below(&self, view: &SessionView) -> Result<Vec<SessionView>> {
        let mut family = vec![view.clone()];
        // They come newest first, and a child begins after its parent.
        for one in self.sessions()?.into_iter().rev() {
            let is_below = family.iter().any(|known| one.parent.as_ref() == Some(&known.id));
            if is_below && !family.iter().any(|known| known.id == one.id) {
                family.push(one);
            }
        }
        Ok(family)
    }

    /// The newest checkpoint with files that was made for one of these sessions.
    fn last_checkpoint_of(
        &self,
        family: &[SessionView],
    ) -> Result<Option<(CheckpointId, Timestamp)>> {
        let mut newest: Option<(CheckpointId, Timestamp, u64)> = None;
        for one in family {
            for hit in self.store.look_up(|index| index.held(one.id.as_str()))? {
                let Ok(id) = hit.checkpoint.parse::<CheckpointId>() else { continue };
                let Some(row) = self.store.checkpoint(&id)?.filter(|row| row.holds_files) else {
                    continue;
                };
                if newest.as_ref().is_none_or(|(.., sequence)| *sequence < row.sequence) {
                    newest = Some((id, Timestamp::from_millis(row.created_at), row.sequence));
                }
            }
        }
        Ok(newest.map(|(id, at, _)| (id, at)))
    }

    /// The command that takes a session up again. A supervised one goes on with its agent's own command where that is
    /// known.
    fn resume_of(&self, view: &SessionView, family: &[SessionView]) -> Option<String> {
        if self.run_lock(&view.id) == RunLock::None {
            return resume_command(view).map(|command| command.join(" "));
        }
        let agents = family.iter().rev().find_map(resume_command);
        agents.map(|command| command.join(" ")).or_else(|| view.task.clone())
    }

    /// Every file that a session modified, as its journal has it: each once, relative to the workspace, sorted.
    pub fn files_modified(&self, session: &SessionId) -> Result<Vec<String>> {
        let mut modified: Vec<String> = Vec::new();
        let mut after = 0;
        loop {
            let rows =
                self.store.look_up(|index| index.some_events(session.as_str(), after, 1000))?;
            let Some(last) = rows.last() else { break };
            after = last.number;
            for row in rows.iter().filter(|row| row.kind == "code") {
                if let Ok(Body::Code(code)) = parse_event(row).map(|event| event.body) {
                    modified.extend(code.paths);
                }
            }
        }
        modified.extend(self.load_live(session)?.state.files_touched);
        self.make_relative(&mut modified);
        modified.sort();
        modified.dedup();
        Ok(modified)
    }
}
