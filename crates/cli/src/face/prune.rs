//! What `prune` would delete, and why.

use std::collections::BTreeMap;

use rappel::PruneReport;
use rappel_types::CheckpointId;
use rappel_types::size::format_size;

use super::{count, thousands};
use crate::output::Paint;

/// How many checkpoints that go are named.
const NAMED: usize = 20;

/// The plan: what goes, and how many stay for which reason. `title` describes a checkpoint.
pub fn plan(plan: &PruneReport, title: impl Fn(&CheckpointId) -> String, paint: Paint) -> String {
    let mut text = String::new();
    let going: Vec<_> = plan.decisions.iter().filter(|decision| !decision.keep).collect();
    for decision in going.iter().take(NAMED) {
        let (id, title) = (paint.id(decision.id.as_str()), title(&decision.id));
        text.push_str(&format!("  {id}{title}: {}\n", decision.reason));
    }
    if going.len() > NAMED {
        text.push_str(&format!("  and {} more\n", thousands((going.len() - NAMED) as u64)));
    }
    text.push_str(&match going.len() {
        0 => "Nothing to delete".to_owned(),
        many => {
            let number = count(many as u64, "checkpoint goes", "checkpoints go");
            format!("{number}, {} comes back", format_size(plan.freed_bytes))
        }
    });
    text.push_str(&format!("; {} stay", thousands(plan.kept as u64)));
    let mut reasons: BTreeMap<String, u64> = BTreeMap::new();
    for decision in plan.decisions.iter().filter(|decision| decision.keep) {
        *reasons.entry(decision.reason.to_string()).or_default() += 1;
    }
    if !plan.unreadable.is_empty() {
        reasons.insert("cannot be read".into(), plan.unreadable.len() as u64);
    }
    if !reasons.is_empty() {
        let each = reasons.iter().map(|(why, number)| format!("{why}: {}", thousands(*number)));
        text.push_str(&format!(" ({})", each.collect::<Vec<_>>().join(", ")));
    }
    text.push('\n');
    text.push_str(&sessions(plan, paint));
    text
}

/// The sessions that go; nothing if none does.
fn sessions(plan: &PruneReport, paint: Paint) -> String {
    let going: Vec<_> = plan.sessions.iter().filter(|decision| !decision.keep).collect();
    if going.is_empty() {
        return String::new();
    }
    let mut text = String::new();
    for decision in going.iter().take(NAMED) {
        text.push_str(&format!("  {}: {}\n", paint.id(decision.id.as_str()), decision.reason));
    }
    if going.len() > NAMED {
        text.push_str(&format!("  and {} more\n", thousands((going.len() - NAMED) as u64)));
    }
    let number = count(going.len() as u64, "session goes", "sessions go");
    let stay = thousands((plan.sessions.len() - going.len()) as u64);
    text.push_str(&format!("{number}; {stay} stay\n"));
    text
}
