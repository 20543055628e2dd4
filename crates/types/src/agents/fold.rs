//! Taking one event more: which are legal, and what they change.
//!
//! [`SessionState::check`] stands at the border, under the lock of the journal. [`SessionState::apply`] never
//! fails: what is illegal all the same (a journal that two versions wrote) is passed over and counted.

use std::sync::Arc;

use super::event::{Body, Event, payload};
use super::session::SessionStatus;
use super::state::{
    Belief, BeliefDependency, Branch, Contradiction, Evidence, ExecutedCommand, Gap, Hypothesis,
    HypothesisStatus, MAIN_BRANCH, Note, SessionState, Thought, TokenCount, ToolCall, Verification,
};
use crate::Timestamp;

/// Counts of this many requests can still be replaced by a later one.
const COUNTED_MAX: usize = 16;
/// What a transcript tells of so many milliseconds behind a session's end still belongs to it: agents write their
/// last lines after they said that they end.
const LATE_MS: i64 = 60_000;
/// Files that are remembered as touched.
const FILES_MAX: usize = 500;

/// Why an event cannot be taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Illegal {
    /// It is about something that is not there.
    #[error("there is no {what} {id:?} in this session")]
    Unknown {
        /// What it should have been.
        what: &'static str,
        /// Its id.
        id: String,
    },
    /// It makes something that is there.
    #[error("there is a {what} {id:?} already")]
    Taken {
        /// What it is.
        what: &'static str,
        /// Its id.
        id: String,
    },
    /// A tool call ends twice, or never began.
    #[error("the tool call {0:?} is not running: it was finished before, or never started")]
    NotRunning(String),
    /// A gap is filled twice.
    #[error("the gap {0:?} was filled before")]
    Filled(String),
    /// A belief depends on itself.
    #[error("a belief cannot depend on itself ({0:?})")]
    Itself(String),
    /// A branch is merged into itself.
    #[error("a branch cannot be merged into itself ({0:?})")]
    MergeItself(String),
    /// The session is over.
    #[error("the session has ended ({0})")]
    Ended(SessionStatus),
    /// Nothing would change.
    #[error("the event changes nothing: give a text, a status or a confidence")]
    Nothing,
    /// A session begins once.
    #[error("the session has begun already")]
    Begun,
}

fn exists(found: bool, what: &'static str, id: &str) -> Result<(), Illegal> {
    if found { Ok(()) } else { Err(Illegal::Unknown { what, id: id.into() }) }
}

fn free(found: bool, what: &'static str, id: &str) -> Result<(), Illegal> {
    if found { Err(Illegal::Taken { what, id: id.into() }) } else { Ok(()) }
}

impl SessionState {
    /// Whether an event may be taken. `id` is what the thing it makes would be called.
    pub fn check(&self, id: Option<&str>, body: &Body) -> Result<(), Illegal> {
        let goes_on = match body {
            Body::SessionStarted(_)
            | Body::Restored(_)
            | Body::Checkpoint(_)
            | Body::Transcript(_)
            | Body::TakenOver(_)
            | Body::Unknown { .. } => true,
            Body::SessionResumed(resumed) => resumed.from_transcript,
            _ => false,
        };
        if !self.status.is_live() && !goes_on {
            return Err(Illegal::Ended(self.status));
        }
        self.fits(id, body)
    }

    /// The same for something that may be told after the fact: a session's end does not bar what transcripts tell of
    /// before it.
    pub fn check_late(&self, id: Option<&str>, at: Timestamp, body: &Body) -> Result<(), Illegal> {
        let told_late = matches!(
            body,
            Body::Prompt(_)
                | Body::Thought(_)
                | Body::ToolStarted(_)
                | Body::ToolFinished(_)
                | Body::Command(_)
                | Body::Code(_)
                | Body::Tokens(_)
                | Body::Compaction(_)
        );
        match told_late && !self.is_over(at) {
            true => self.fits(id, body),
            false => self.check(id, body),
        }
    }

    /// Whether the session had ended by then.
    pub fn is_over(&self, at: Timestamp) -> bool {
        let after = |end: Timestamp| at.millis_since(end) > LATE_MS;
        !self.status.is_live() && self.ended_at.is_none_or(after)
    }

    /// Whether an event goes with what is there.
    fn fits(&self, id: Option<&str>, body: &Body) -> Result<(), Illegal> {
        let id = id.unwrap_or_default();
        if self.event > 0 && matches!(body, Body::SessionStarted(_)) {
            return Err(Illegal::Begun);
        }
        match body {
            Body::Hypothesis(_) => free(self.hypotheses.get(id).is_some(), "hypothesis", id),
            Body::HypothesisUpdated(update) => {
                exists(self.hypotheses.get(&update.of).is_some(), "hypothesis", &update.of)?;
                if update.text.is_none() && update.confidence.is_none() && update.status.is_none() {
                    return Err(Illegal::Nothing);
                }
                Ok(())
            }
            Body::Evidence(evidence) => {
                let of = &evidence.hypothesis;
                exists(self.hypotheses.get(of).is_some(), "hypothesis", of)
            }
            Body::Verification(payload::Verification { hypothesis: Some(of), .. }) => {
                exists(self.hypotheses.get(of).is_some(), "hypothesis", of)
            }
            Body::Belief(_) => free(self.beliefs.get(id).is_some(), "belief", id),
            Body::BeliefUpdated(update) => {
                exists(self.beliefs.get(&update.of).is_some(), "belief", &update.of)?;
                if update.text.is_none() && update.confidence.is_none() {
                    return Err(Illegal::Nothing);
                }
                Ok(())
            }
            Body::BeliefDependency(link) => {
                exists(self.beliefs.get(&link.of).is_some(), "belief", &link.of)?;
                exists(self.beliefs.get(&link.on).is_some(), "belief", &link.on)?;
                if link.of == link.on { Err(Illegal::Itself(link.of.clone())) } else { Ok(()) }
            }
            Body::Gap(_) => free(self.gaps.get(id).is_some(), "gap", id),
            Body::GapFilled(filled) => match self.gaps.get(&filled.of) {
                None => exists(false, "gap", &filled.of),
                Some(gap) if gap.filled => Err(Illegal::Filled(filled.of.clone())),
                Some(_) => Ok(()),
            },
            Body::ToolStarted(_) | Body::Tool(_) => {
                free(self.tool_state.running.get(id).is_some(), "tool call", id)
            }
            Body::ToolFinished(done) => match self.tool_state.running.get(&done.of) {
                Some(_) => Ok(()),
                None if !done.presumed && self.presumed_end(&done.of).is_some() => Ok(()),
                None => Err(Illegal::NotRunning(done.of.clone())),
            },
            Body::BranchCreated(branch) => {
                free(!branch.switch && self.has_branch(&branch.name), "branch", &branch.name)
            }
            Body::BranchSwitched(branch) => self.check_branch(&branch.name),
            Body::BranchMerged(merge) => {
                self.check_branch(&merge.name)?;
                self.check_branch(&merge.into)?;
                let itself = merge.name == merge.into;
                if itself { Err(Illegal::MergeItself(merge.name.clone())) } else { Ok(()) }
            }
            Body::ContextUnset(unset) => {
                let known = self.context.variables.contains_key(&unset.key);
                exists(known, "context variable", &unset.key)
            }
            Body::ContextStateUnset(unset) => {
                let known = self.context.state.contains_key(&unset.key);
                exists(known, "entry of the context's state called", &unset.key)
            }
            Body::SessionStarted(_)
            | Body::SessionPaused(_)
            | Body::SessionResumed(_)
            | Body::SessionEnded(_)
            | Body::Restored(_)
            | Body::Prompt(_)
            | Body::Thought(_)
            | Body::Verification(_)
            | Body::Note(_)
            | Body::Command(_)
            | Body::ContextSet(_)
            | Body::ContextStateSet(_)
            | Body::Progress(_)
            | Body::Tokens(_)
            | Body::Compaction(_)
            | Body::Code(_)
            | Body::Contradiction(_)
            | Body::ContradictionCleared(_)
            | Body::Checkpoint(_)
            | Body::Transcript(_)
            | Body::TakenOver(_)
            | Body::Unknown { .. } => Ok(()),
        }
    }

    fn check_branch(&self, name: &str) -> Result<(), Illegal> {
        exists(self.has_branch(name), "branch", name)
    }

    fn has_branch(&self, name: &str) -> bool {
        name == MAIN_BRANCH || self.branches.get(name).is_some()
    }

    /// Takes one event more.
    pub fn apply(&mut self, event: &Event) {
        // As precise as the journal is, so that a state is the same whether it was stored in between or not.
        let at = Timestamp::from_millis(event.at.as_millis());
        self.count_time(at, &event.body);
        if let Body::Unknown { .. } = event.body {
            self.unknown += 1;
        } else if self.check_late(event.id.as_deref(), event.at, &event.body).is_err() {
            self.ignored += 1;
        } else {
            self.take(event.id.clone().unwrap_or_default(), at, event.number, &event.body);
        }
        self.fork = event.fork;
        self.event = event.number;
        self.latest_at = self.latest_at.max(Some(at));
    }

    /// Time in which the session ran, told by its events alone. A session that was paused, or set back, did not run.
    fn count_time(&mut self, at: Timestamp, body: &Body) {
        let idle = matches!(body, Body::SessionResumed(_) | Body::Restored(_));
        if let Some(before) = self.latest_at
            && self.status == SessionStatus::Running
            && !idle
            && at > before
        {
            self.metrics.time_in_debugging += at.millis_since(before) as u64;
        }
    }

    fn take(&mut self, id: String, at: Timestamp, number: u64, body: &Body) {
        match body {
            Body::SessionStarted(start) => {
                self.workspace = start.workspace;
                self.provider.clone_from(&start.provider);
                self.task.clone_from(&start.task);
                self.conversation_id.clone_from(&start.conversation_id);
                self.assistant_session_id.clone_from(&start.assistant_session_id);
                self.parent.clone_from(&start.parent);
                self.process = start.process;
                self.from_transcript = start.from_transcript;
                self.started_at = Some(at);
            }
            Body::SessionPaused(_) => self.status = SessionStatus::Paused,
            Body::SessionResumed(resumed) => {
                self.status = SessionStatus::Running;
                self.ended_at = None;
                self.process = resumed.process.or(self.process);
            }
            Body::SessionEnded(end) => {
                self.status = end.status;
                self.ended_at = Some(at);
            }
            Body::Restored(restored) => {
                self.status = restored.status;
                // One that is taken back to after its end ended when it did.
                self.ended_at = self.ended_at.filter(|_| !restored.status.is_live());
                // Whoever takes something back is where it was, set back to something or not.
                if !restored.taken_back {
                    self.restored_to = Some(restored.checkpoint.clone());
                }
            }
            Body::Prompt(prompt) => {
                if self.task.is_none() {
                    self.task = Some(prompt.text.clone());
                }
                self.prompts.push(Note { id, text: prompt.text.clone(), created_at: at });
            }
            Body::Thought(thought) => {
                self.progress.total_thoughts += 1;
                self.thought_chain.push(Thought {
                    id,
                    kind: thought.kind.clone(),
                    content: thought.content.clone(),
                    confidence: thought.confidence,
                    parent: thought.parent.clone(),
                    created_at: at,
                });
            }
            Body::Tool(_) | Body::ToolStarted(_) | Body::ToolFinished(_) => {
                self.take_tool(id, at, body);
            }
            Body::Hypothesis(_) | Body::HypothesisUpdated(_) | Body::Evidence(_) => {
                self.take_hypothesis(id, at, body);
            }
            Body::Belief(belief) => self.beliefs.add(Belief {
                id,
                text: belief.text.clone(),
                confidence: belief.confidence.unwrap_or_default(),
                created_at: at,
                updated_at: at,
            }),
            Body::BeliefUpdated(update) => {
                if let Some(belief) = self.beliefs.get_mut(&update.of) {
                    belief.text = update.text.clone().unwrap_or_else(|| belief.text.clone());
                    belief.confidence = update.confidence.unwrap_or(belief.confidence);
                    belief.updated_at = at;
                }
            }
            Body::BeliefDependency(link) => {
                let dependency = BeliefDependency {
                    from: link.of.clone(),
                    to: link.on.clone(),
                    kind: link.kind,
                };
                if !self.belief_dependencies.contains(&dependency) {
                    self.belief_dependencies.push(dependency);
                }
            }
            Body::Gap(gap) => self.gaps.add(Gap {
                id,
                text: gap.text.clone(),
                filled: false,
                answer: None,
                created_at: at,
                filled_at: None,
            }),
            Body::GapFilled(filled) => {
                self.metrics.gaps_filled += 1;
                if let Some(gap) = self.gaps.get_mut(&filled.of) {
                    gap.filled = true;
                    gap.answer = Some(filled.answer.clone());
                    gap.filled_at = Some(at);
                }
            }
            Body::Verification(verification) => {
                self.metrics.verifications_run += 1;
                self.verification_results.push(Verification {
                    id,
                    text: verification.text.clone(),
                    passed: verification.passed,
                    hypothesis: verification.hypothesis.clone(),
                    output: verification.output.clone(),
                    created_at: at,
                });
            }
            Body::BranchCreated(branch) => {
                if !self.has_branch(&branch.name) {
                    self.branches.add(Branch {
                        name: branch.name.clone(),
                        from: Some(self.current_branch.clone()),
                        created_at: at,
                        merged_into: None,
                    });
                }
                if branch.switch {
                    self.current_branch.clone_from(&branch.name);
                }
            }
            Body::BranchSwitched(branch) => self.current_branch.clone_from(&branch.name),
            Body::BranchMerged(merge) => {
                if let Some(branch) = self.branches.get_mut(&merge.name) {
                    branch.merged_into = Some(merge.into.clone());
                }
                if self.current_branch == merge.name {
                    self.current_branch.clone_from(&merge.into);
                }
            }
            Body::Note(note) => {
                self.notes.push(Note { id, text: note.text.clone(), created_at: at });
            }
            Body::Command(command) => self.command_history.push(ExecutedCommand {
                id,
                timestamp: at,
                command: command.command.clone(),
                working_dir: command.working_dir.clone(),
                exit_code: command.exit_code,
                stdout_preview: command.stdout_preview.clone(),
                stderr_preview: command.stderr_preview.clone(),
            }),
            Body::ContextSet(set) => {
                self.context.variables.insert(set.key.clone(), set.value.clone());
            }
            Body::ContextUnset(unset) => {
                self.context.variables.remove(&unset.key);
            }
            Body::ContextStateSet(set) => {
                self.context.state.insert(set.key.clone(), set.value.clone());
            }
            Body::ContextStateUnset(unset) => {
                self.context.state.remove(&unset.key);
            }
            Body::Progress(progress) => {
                let next = self.progress.step_number.saturating_add(1);
                self.progress.step_number = progress.step_number.unwrap_or(next);
                if progress.text.is_some() {
                    self.progress.text.clone_from(&progress.text);
                }
            }
            Body::Tokens(tokens) => self.count_tokens(tokens),
            Body::Code(code) => self.touch(code.paths.iter().map(String::as_str)),
            Body::Contradiction(what) => {
                if !self.contradictions.iter().any(|known| known.what == *what) {
                    self.contradictions.push(Contradiction { what: what.clone(), event: number });
                }
            }
            Body::ContradictionCleared(cleared) => self.contradictions.retain(|known| {
                (known.what.rule, &known.what.first, &known.what.second)
                    != (cleared.rule, &cleared.first, &cleared.second)
            }),
            Body::Checkpoint(checkpoint) => {
                self.metrics.checkpoints_created += 1;
                self.last_checkpoint = Some(checkpoint.checkpoint.clone());
            }
            Body::Transcript(transcript) => {
                self.transcripts.insert(transcript.path.clone(), transcript.reader.clone());
            }
            Body::TakenOver(facts) => self.take_over(facts),
            Body::Compaction(_) | Body::Unknown { .. } => {}
        }
    }

    fn take_over(&mut self, facts: &payload::Facts) {
        self.status = facts.status;
        self.provider.clone_from(&facts.provider);
        self.task.clone_from(&facts.task);
        self.conversation_id.clone_from(&facts.conversation_id);
        self.assistant_session_id.clone_from(&facts.assistant_session_id);
        (self.started_at, self.ended_at) = (facts.started_at, facts.ended_at);
        self.restored_to.clone_from(&facts.restored_to);
        self.metrics.clone_from(&facts.metrics);
        self.progress.clone_from(&facts.progress);
        if let Some(paths) = &facts.files_touched {
            self.files_touched.clear();
            self.touch(paths.iter().map(String::as_str));
        }
        (self.ignored, self.unknown) = (facts.ignored, facts.unknown);
    }

    fn take_hypothesis(&mut self, id: String, at: Timestamp, body: &Body) {
        match body {
            Body::Hypothesis(hypothesis) => self.hypotheses.add(Hypothesis {
                id,
                text: hypothesis.text.clone(),
                status: hypothesis.status,
                confidence: hypothesis.confidence.unwrap_or_default(),
                created_at: at,
                updated_at: at,
                reason: None,
                supported_by: None,
                refuted_by: None,
            }),
            Body::HypothesisUpdated(update) => {
                let Some(hypothesis) = self.hypotheses.get_mut(&update.of) else { return };
                let decided = |status: HypothesisStatus| !status.is_open();
                if let Some(status) = update.status {
                    if decided(status) && !decided(hypothesis.status) {
                        self.metrics.hypotheses_tested += 1;
                    }
                    hypothesis.status = status;
                    hypothesis.reason.clone_from(&update.reason);
                }
                hypothesis.text = update.text.clone().unwrap_or_else(|| hypothesis.text.clone());
                hypothesis.confidence = update.confidence.unwrap_or(hypothesis.confidence);
                hypothesis.updated_at = at;
            }
            Body::Evidence(evidence) => {
                if let Some(hypothesis) = self.hypotheses.get_mut(&evidence.hypothesis) {
                    let strongest = match evidence.supports {
                        true => &mut hypothesis.supported_by,
                        false => &mut hypothesis.refuted_by,
                    };
                    if strongest.as_ref().is_none_or(|(_, weight)| *weight < evidence.weight) {
                        *strongest = Some((id.clone(), evidence.weight));
                    }
                }
                self.evidence.push(Evidence {
                    id,
                    text: evidence.text.clone(),
                    hypothesis: evidence.hypothesis.clone(),
                    supports: evidence.supports,
                    weight: evidence.weight,
                    created_at: at,
                });
            }
            _ => {}
        }
    }

    fn take_tool(&mut self, id: String, at: Timestamp, body: &Body) {
        match body {
            Body::ToolStarted(start) => {
                self.progress.total_tool_calls += 1;
                self.tool_state.running.add(ToolCall {
                    id,
                    tool: start.tool.clone(),
                    arguments: start.arguments.clone(),
                    result: serde_json::Value::Null,
                    success: None,
                    error: None,
                    started_at: at,
                    completed_at: None,
                    background: start.background,
                    presumed: false,
                });
            }
            Body::Tool(tool) => {
                self.progress.total_tool_calls += 1;
                self.finish(ToolCall {
                    id,
                    tool: tool.tool.clone(),
                    arguments: tool.arguments.clone(),
                    result: tool.result.clone(),
                    success: Some(tool.success),
                    error: tool.error.clone(),
                    started_at: tool.started_at.unwrap_or(at),
                    completed_at: Some(at),
                    background: false,
                    presumed: false,
                });
            }
            Body::ToolFinished(done) => {
                let running = self.tool_state.running.remove(&done.of);
                if let Some(call) = running.or_else(|| self.take_presumed(&done.of)) {
                    let mut call = Arc::unwrap_or_clone(call);
                    call.result = done.result.clone();
                    call.success = Some(done.success);
                    call.error.clone_from(&done.error);
                    call.completed_at = Some(at);
                    call.presumed = done.presumed;
                    self.finish(call);
                }
            }
            _ => {}
        }
    }

    /// Where a call stands whose end was only concluded, unless that is long ago.
    fn presumed_end(&self, id: &str) -> Option<usize> {
        let done = &self.tool_state.done.recent;
        done.iter().rposition(|call| call.id == id && call.presumed)
    }

    /// Takes such a call back: its real end is told after all.
    fn take_presumed(&mut self, id: &str) -> Option<Arc<ToolCall>> {
        let place = self.presumed_end(id)?;
        let call = self.tool_state.done.recent.remove(place);
        if call.success == Some(false) {
            let failed = &mut self.progress.failed_tool_calls;
            *failed = failed.saturating_sub(1);
        }
        Some(call)
    }

    fn finish(&mut self, call: ToolCall) {
        if call.success == Some(false) {
            self.progress.failed_tool_calls += 1;
        } else if let Some(path) = super::raised::edited(&call.tool, &call.arguments) {
            let path = path.to_owned();
            self.touch([path.as_str()]);
        }
        self.tool_state.done.push(call);
    }

    fn touch<'a>(&mut self, paths: impl IntoIterator<Item = &'a str>) {
        for path in paths {
            self.files_touched.retain(|known| known != path);
            self.files_touched.push(path.to_owned());
        }
        let excess = self.files_touched.len().saturating_sub(FILES_MAX);
        self.files_touched.drain(..excess);
    }

    fn count_tokens(&mut self, tokens: &payload::Tokens) {
        let count = TokenCount {
            input: tokens.input,
            output: tokens.output,
            cache_read: tokens.cache_read,
            cache_write: tokens.cache_write,
        };
        let total = &mut self.progress.tokens;
        if let Some(message) = &tokens.message {
            let place = self.counted.iter().position(|(known, _)| known == message);
            if let Some((_, before)) = place.map(|place| self.counted.remove(place)) {
                if before.output >= count.output {
                    self.counted.push((message.clone(), before));
                    return;
                }
                total.input = total.input.saturating_sub(before.input);
                total.output = total.output.saturating_sub(before.output);
                total.cache_read = total.cache_read.saturating_sub(before.cache_read);
                total.cache_write = total.cache_write.saturating_sub(before.cache_write);
            }
            self.counted.push((message.clone(), count));
            if self.counted.len() > COUNTED_MAX {
                self.counted.remove(0);
            }
        }
        total.input = total.input.saturating_add(count.input);
        total.output = total.output.saturating_add(count.output);
        total.cache_read = total.cache_read.saturating_add(count.cache_read);
        total.cache_write = total.cache_write.saturating_add(count.cache_write);
    }
}
