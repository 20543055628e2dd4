//! Which checkpoints an event asks for by itself.

use serde_json::Value;

use super::event::{Body, Event};
use super::session::SessionStatus;
use super::state::HypothesisStatus;
use crate::Trigger;

/// Tools that change files, as agents call them, and where their arguments say which.
const EDITORS: [(&str, &str); 9] = [
    ("Edit", "file_path"),
    ("Write", "file_path"),
    ("MultiEdit", "file_path"),
    ("NotebookEdit", "notebook_path"),
    ("apply_patch", ""),
    ("write_file", "file_path"),
    ("replace", "file_path"),
    ("edit", "filePath"),
    ("write", "filePath"),
];

/// A checkpoint that an event asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Raised {
    /// Why.
    pub trigger: Trigger,
    /// A tag that marks what must be kept.
    pub tag: Option<&'static str>,
}

/// The checkpoint that this event asks for. A tool call that ends knows its tool by `tool`.
pub fn by(event: &Event, tool: Option<(&str, &Value)>) -> Vec<Raised> {
    let one = |trigger, tag| vec![Raised { trigger, tag }];
    match &event.body {
        Body::SessionStarted(_) => one(Trigger::SessionStart, None),
        Body::SessionPaused(_) => one(Trigger::Paused, None),
        Body::SessionEnded(end) if end.status == SessionStatus::Completed => {
            one(Trigger::ExecutionCompleted, None)
        }
        Body::SessionEnded(_) => one(Trigger::SessionEnd, None),
        Body::HypothesisUpdated(update) => match update.status {
            None => Vec::new(),
            Some(status) => one(
                Trigger::HypothesisStatusChange,
                match status {
                    HypothesisStatus::Confirmed => Some("hypothesis_confirmed"),
                    HypothesisStatus::Rejected => Some("hypothesis_rejected"),
                    HypothesisStatus::Open | HypothesisStatus::Testing => None,
                },
            ),
        },
        Body::Contradiction(_) => {
            one(Trigger::ContradictionDetected, Some("contradiction_detected"))
        }
        Body::Verification(_) => one(Trigger::VerificationComplete, None),
        Body::BranchSwitched(_) => one(Trigger::BranchSwitch, None),
        Body::BranchCreated(branch) if branch.switch => one(Trigger::BranchSwitch, None),
        Body::BranchMerged(_) => one(Trigger::BranchMerged, Some("branch_merged")),
        Body::GapFilled(_) => one(Trigger::GapFilled, None),
        Body::Code(_) => one(Trigger::CodeModified, None),
        Body::Compaction(_) => one(Trigger::ContextCompaction, None),
        Body::Thought(_) => one(Trigger::ThoughtCompleted, None),
        Body::Tool(call) => executed(call.success, &call.tool),
        Body::ToolFinished(done) => executed(done.success, tool.map_or("", |(tool, _)| tool)),
        _ => Vec::new(),
    }
}

fn executed(success: bool, tool: &str) -> Vec<Raised> {
    let mut raised = vec![Raised { trigger: Trigger::ToolExecuted, tag: None }];
    if success && EDITORS.iter().any(|(editor, _)| *editor == tool) {
        raised.push(Raised { trigger: Trigger::CodeModified, tag: None });
    }
    raised
}

/// The file that a call of this tool changes, where its arguments say it.
pub(super) fn edited<'a>(tool: &str, arguments: &'a Value) -> Option<&'a str> {
    let (_, key) = EDITORS.iter().find(|(editor, _)| *editor == tool)?;
    arguments.get(*key).and_then(Value::as_str)
}
