//! Why a checkpoint was made, in the words of each form. The table is in `docs/formats.md`, and a
//! test compares both.

use rappel_types::Trigger;
use serde_json::{Value, json};

/// CAF's `checkpoint_reason`: our word with its spelling.
pub fn to_caf(trigger: Trigger) -> String {
    trigger.as_str().replace('-', "_")
}

/// What a `checkpoint_reason` of CAF means.
pub fn from_caf(reason: &str) -> Trigger {
    match reason {
        "thought" | "thought.created" | "thought_created" => Trigger::ThoughtCompleted,
        "tool" | "tool_completed" | "tool_execution" | "tool_call" => Trigger::ToolExecuted,
        "pause" | "human_in_the_loop" => Trigger::Paused,
        "manual_request" | "user_request" | "requested" => Trigger::Manual,
        "completed" | "completion" | "finished" => Trigger::ExecutionCompleted,
        other => other.replace('_', "-").parse().unwrap_or(Trigger::Imported),
    }
}

/// Forge's eight automatic triggers.
const AUTOMATIC: [(Trigger, &str); 8] = [
    (Trigger::HypothesisStatusChange, "HypothesisStatusChange"),
    (Trigger::ContradictionDetected, "NewContradictionDetected"),
    (Trigger::VerificationComplete, "VerificationComplete"),
    (Trigger::BranchSwitch, "BranchSwitch"),
    (Trigger::GapFilled, "GapFilled"),
    (Trigger::CodeModified, "CodeModified"),
    (Trigger::TimePassed, "SignificantTimePassed"),
    (Trigger::ContextCompaction, "ContextCompactionWarning"),
];

/// Forge's `trigger`. Where forge has no such word, it is the nearest; see [`is_exact_in_forge`].
pub fn to_forge(trigger: Trigger) -> Value {
    let automatic = |name: &str| json!({"Automatic": name});
    let known = AUTOMATIC.iter().find(|(ours, _)| *ours == trigger);
    match (trigger, known) {
        (_, Some((_, name))) => automatic(name),
        (Trigger::Manual, _) => "Manual".into(),
        (Trigger::BranchMerged, _) => automatic("BranchSwitch"),
        (Trigger::PreOperation | Trigger::PreRestore | Trigger::PrMerged, _) => {
            automatic("CodeModified")
        }
        (Trigger::SessionEnd, _) => automatic("ContextCompactionWarning"),
        _ => "Scheduled".into(),
    }
}

/// Whether forge's word for a trigger leads back to it.
pub fn is_exact_in_forge(trigger: Trigger) -> bool {
    from_forge(&to_forge(trigger)) == trigger
}

/// What a `trigger` of forge means.
pub fn from_forge(trigger: &Value) -> Trigger {
    match trigger {
        Value::String(name) if name == "Manual" => Trigger::Manual,
        Value::String(name) if name == "Scheduled" => Trigger::Scheduled,
        other => {
            let name = other.get("Automatic").and_then(Value::as_str).unwrap_or_default();
            let known = AUTOMATIC.iter().find(|(_, theirs)| *theirs == name);
            known.map_or(Trigger::Imported, |(ours, _)| *ours)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_trigger_has_a_word_and_leads_back() {
        for trigger in Trigger::ALL {
            assert_eq!(from_caf(&to_caf(*trigger)), *trigger);
            let exact = [Trigger::Manual, Trigger::Scheduled].contains(trigger)
                || AUTOMATIC.iter().any(|(ours, _)| ours == trigger);
            assert_eq!(is_exact_in_forge(*trigger), exact, "{trigger}");
        }
        assert_eq!(from_caf("thought_completed"), Trigger::ThoughtCompleted);
        assert_eq!(from_caf("something else"), Trigger::Imported);
        assert_eq!(from_forge(&json!({"Automatic": "Unheard"})), Trigger::Imported);
        assert_eq!(from_forge(&Value::Null), Trigger::Imported);
    }
}
