//! Checkpoints that hold what changed since another one, folded onto that.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::rc::Rc;

use rappel_types::Timestamp;

use super::document::{BeliefChange, Delta, HypothesisChange, Record, Snapshot};
use super::state::status;
use crate::{Error, Result};

/// A file whose states hold more items together is not read: a few small changes to a large state
/// are many large states.
const ITEMS_MAX: usize = 10_000_000;

/// The snapshot of each record in turn, told to `each`. A record that builds on one which is not
/// there is refused.
pub(super) fn fold(
    records: &[Record],
    path: &Path,
    mut each: impl FnMut(usize, &Snapshot) -> Result<()>,
) -> Result<()> {
    let refused = |reason: String| Error::Refused { path: path.to_owned(), reason };
    let places: HashMap<&str, usize> =
        records.iter().enumerate().map(|(place, one)| (one.head().id.as_str(), place)).collect();
    // How many records still build on each.
    let mut needed = vec![0_usize; records.len()];
    for record in records {
        if let Record::Delta(changed) = record {
            let base = places.get(changed.from.as_str()).ok_or_else(|| {
                refused(format!(
                    "the checkpoint {:?} holds what changed since {:?}, which is not in the file",
                    changed.head.id, changed.from
                ))
            })?;
            needed[*base] += 1;
        }
    }
    let mut known: HashMap<usize, Rc<Snapshot>> = HashMap::new();
    let mut items = 0_usize;
    let mut told = vec![false; records.len()];
    for place in 0..records.len() {
        // From here back to a state that is known, then forward again.
        let (mut chain, mut seen) = (vec![place], HashSet::from([place]));
        while let Some(Record::Delta(changed)) = chain.last().map(|last| &records[*last]) {
            let base = places[changed.from.as_str()];
            if known.contains_key(&base) {
                break;
            }
            if !seen.insert(base) {
                let id = &changed.head.id;
                return Err(refused(format!("the checkpoint {id:?} builds on itself")));
            }
            chain.push(base);
        }
        for place in chain.into_iter().rev() {
            if told[place] {
                continue;
            }
            let snapshot = match &records[place] {
                Record::Full(full) => Rc::new(full.state.clone()),
                Record::Delta(changed) => {
                    let base = places[changed.from.as_str()];
                    let snapshot = known
                        .get(&base)
                        .map(|base| apply(base, &changed.delta, changed.head.timestamp));
                    needed[base] -= 1;
                    if needed[base] == 0 {
                        known.remove(&base);
                    }
                    Rc::new(snapshot.unwrap_or_default())
                }
            };
            items = items.saturating_add(count(&snapshot));
            if items > ITEMS_MAX {
                return Err(refused(format!("its states hold more than {ITEMS_MAX} items")));
            }
            each(place, &snapshot)?;
            told[place] = true;
            if needed[place] > 0 {
                known.insert(place, snapshot);
            }
        }
    }
    Ok(())
}

fn count(of: &Snapshot) -> usize {
    let reasoning = of.hypotheses.len() + of.evidence.len() + of.beliefs.len();
    let checks = of.belief_dependencies.len() + of.gaps.len() + of.verification_results.len();
    1 + reasoning + checks + of.branches.len() + of.notes.len() + of.command_history.len()
}

/// A snapshot after a change that a checkpoint of `at` holds. What a change does not tell stays.
pub fn apply(base: &Snapshot, delta: &Delta, at: Timestamp) -> Snapshot {
    let mut new = base.clone();
    for change in &delta.hypothesis_changes {
        apply_hypothesis(&mut new, change, at);
    }
    for change in &delta.belief_changes {
        apply_belief(&mut new, change, at);
    }
    new.evidence.extend(delta.new_evidence.iter().cloned());
    new.verification_results.extend(delta.new_verifications.iter().cloned());
    let run = &mut new.metrics.verifications_run;
    *run = run.saturating_add(delta.new_verifications.len() as u64);
    new
}

fn apply_hypothesis(of: &mut Snapshot, change: &HypothesisChange, at: Timestamp) {
    let id = match change {
        HypothesisChange::Added(new) => {
            let mut new = new.clone();
            new.created_at = new.created_at.or(Some(at));
            of.hypotheses.push(new);
            return;
        }
        HypothesisChange::Updated { id, .. }
        | HypothesisChange::StatusChanged { id, .. }
        | HypothesisChange::ConfidenceChanged { id, .. } => id,
    };
    let Some(one) = of.hypotheses.iter_mut().find(|one| one.id == *id) else { return };
    let before = status(&one.status);
    match change {
        HypothesisChange::Added(_) => {}
        HypothesisChange::Updated { field, new, .. } => match field.as_str() {
            "status" => one.status.clone_from(new),
            "confidence" => one.confidence = new.parse().ok().or(one.confidence),
            "reason" => one.reason = Some(new.clone()),
            "text" | "statement" | "description" | "content" => one.text.clone_from(new),
            other => _ = one.extra.insert(other.to_owned(), new.clone().into()),
        },
        HypothesisChange::StatusChanged { new, .. } => one.status.clone_from(new),
        HypothesisChange::ConfidenceChanged { new, .. } => one.confidence = Some(*new),
    }
    one.updated_at = Some(at);
    if before.is_open() && !status(&one.status).is_open() {
        of.metrics.hypotheses_tested = of.metrics.hypotheses_tested.saturating_add(1);
    }
}

fn apply_belief(of: &mut Snapshot, change: &BeliefChange, at: Timestamp) {
    let id = match change {
        BeliefChange::Added(new) => {
            let mut new = new.clone();
            new.created_at = new.created_at.or(Some(at));
            of.beliefs.push(new);
            return;
        }
        BeliefChange::Updated { id, .. } | BeliefChange::ConfidenceChanged { id, .. } => id,
    };
    let Some(one) = of.beliefs.iter_mut().find(|one| one.id == *id) else { return };
    match change {
        BeliefChange::Added(_) => {}
        BeliefChange::Updated { field, new, .. } => match field.as_str() {
            "confidence" => one.confidence = new.parse().ok().or(one.confidence),
            "text" | "statement" | "description" | "content" => one.text.clone_from(new),
            other => _ = one.extra.insert(other.to_owned(), new.clone().into()),
        },
        BeliefChange::ConfidenceChanged { new, .. } => one.confidence = Some(*new),
    }
    one.updated_at = Some(at);
}
