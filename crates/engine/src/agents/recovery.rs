//! Recovery points: what a person or a program would do to get back to a checkpoint. And sessions whose agent is gone.

use std::collections::BTreeMap;

use rappel_types::agents::SessionId;
use rappel_types::{CheckpointId, Reference, Timestamp};
use serde::Serialize;

use super::{SessionView, resume_command};
use crate::error::Result;
use crate::rappel::Rappel;

/// How to get back to a checkpoint.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RecoveryPoint {
    /// Which.
    pub checkpoint_id: CheckpointId,
    /// In this order.
    pub recovery_instructions: Vec<RecoveryStep>,
}

/// One thing to do.
#[derive(Debug, Clone, PartialEq, Serialize)]
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

/// A session whose agent ended without saying so.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CrashedSession {
    /// Which.
    pub id: SessionId,
    /// What it was doing.
    pub task: Option<String>,
    /// When it began.
    pub started_at: Option<Timestamp>,
    /// The command that takes it up again, where it is known.
    pub resume: Option<String>,
}

impl Rappel {
    /// What there is to do to get back to a checkpoint.
    pub fn create_recovery_point(&self, reference: &Reference) -> Result<RecoveryPoint> {
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
        let command = format!("rappel restore {} --confirm", manifest.id);
        steps.push(RecoveryStep::ReplayCommand { command });
        for part in manifest.agents.iter().flat_map(|agents| &agents.sessions) {
            match self.session(&part.id).ok().as_ref().and_then(resume_command) {
                Some(command) => {
                    steps.push(RecoveryStep::ReplayCommand { command: command.join(" ") });
                }
                None => steps.push(RecoveryStep::ManualInstruction {
                    instruction: format!(
                        "start the agent of session {} again and give it what `rappel recall --session {}` says",
                        part.id, part.id
                    ),
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
        let told = crashed.into_iter().map(|view| CrashedSession {
            resume: resume_command(&view).map(|command| command.join(" ")),
            id: view.id,
            task: view.task,
            started_at: view.started_at,
        });
        Ok(told.collect())
    }
}
