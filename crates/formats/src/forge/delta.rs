//! Checkpoints that hold what changed since another one, folded onto that.

use std::collections::HashMap;
use std::path::Path;
use std::rc::Rc;

use rappel_types::Timestamp;

use super::document::{BeliefChange, Delta, HypothesisChange, Record, Snapshot};
use super::state::status;
use crate::{Error, Result};

/// A file whose states hold more items together is not read: a few small changes to a large state
/// are many large states.
const ITEMS_MAX: usize = 10_000_000;
/// A state with more links between beliefs is not read: each is compared with all others.
const LINKS_MAX: usize = 20_000;

/// The snapshot of each record in turn, told to `each`. A record that builds on one which is not
/// there is refused.
pub(super) fn fold(
    records: &[Record],
    path: &Path,
    mut each: impl FnMut(usize, &Snapshot) -> Result<()>,
) -> Result<()> {
    let refused = |reason: String| Error::Refused { path: path.to_owned(), reason };
    let bases = bases(records).map_err(refused)?;
    let order = in_order(records, &bases).map_err(refused)?;
    within_limits(records, &bases, &order).map_err(refused)?;
    // How many records still build on each.
    let mut needed = vec![0_usize; records.len()];
    for base in bases.iter().flatten() {
        needed[*base] += 1;
    }
    let mut known: HashMap<usize, Rc<Snapshot>> = HashMap::new();
    for place in order {
        let snapshot = match (&records[place], bases[place]) {
            (Record::Delta(changed), Some(base)) => {
                needed[base] -= 1;
                let from = match needed[base] {
                    0 => known.remove(&base),
                    _ => known.get(&base).cloned(),
                };
                apply(&from.unwrap_or_default(), &changed.delta, changed.head.timestamp)
            }
            (Record::Full(full), _) => full.state.clone(),
            (Record::Delta(_), None) => Snapshot::default(),
        };
        each(place, &snapshot)?;
        if needed[place] > 0 {
            known.insert(place, Rc::new(snapshot));
        }
    }
    Ok(())
}

/// Where the record is that each builds on.
fn bases(records: &[Record]) -> Result<Vec<Option<usize>>, String> {
    let places: HashMap<&str, usize> =
        records.iter().enumerate().map(|(place, one)| (one.head().id.as_str(), place)).collect();
    let base = |record: &Record| {
        let Record::Delta(changed) = record else { return Ok(None) };
        let base = places.get(changed.from.as_str()).copied();
        let hole = || {
            let (id, from) = (&changed.head.id, &changed.from);
            format!(
                "the checkpoint {id:?} holds what changed since {from:?}, which is not in the file"
            )
        };
        base.map(Some).ok_or_else(hole)
    };
    records.iter().map(base).collect()
}

/// An order in which each comes after its base.
fn in_order(records: &[Record], bases: &[Option<usize>]) -> Result<Vec<usize>, String> {
    let mut order = Vec::with_capacity(records.len());
    let mut placed = vec![false; records.len()];
    for place in 0..records.len() {
        let mut chain = Vec::new();
        let mut next = Some(place);
        while let Some(place) = next.filter(|place| !placed[*place]) {
            // Placed once the chain is whole; met again before that, it is a circle.
            if chain.len() > records.len() {
                let id = &records[place].head().id;
                return Err(format!("the checkpoint {id:?} builds on itself"));
            }
            chain.push(place);
            next = bases[place];
        }
        for place in chain.into_iter().rev() {
            placed[place] = true;
            order.push(place);
        }
    }
    Ok(order)
}

/// Counts what the states would hold, before any of them is made.
fn within_limits(
    records: &[Record],
    bases: &[Option<usize>],
    order: &[usize],
) -> Result<(), String> {
    let mut counts = vec![0_usize; records.len()];
    let mut items = 0_usize;
    for place in order {
        counts[*place] = match &records[*place] {
            Record::Full(full) => {
                if full.state.belief_dependencies.len() > LINKS_MAX {
                    return Err(format!("it has more than {LINKS_MAX} links between beliefs"));
                }
                count(&full.state)
            }
            Record::Delta(changed) => {
                let delta = &changed.delta;
                let changes = delta.hypothesis_changes.len() + delta.belief_changes.len();
                let new = delta.new_evidence.len() + delta.new_verifications.len();
                bases[*place].map_or(0, |base| counts[base]) + changes + new
            }
        };
        items = items.saturating_add(counts[*place]);
        if items > ITEMS_MAX {
            return Err(format!("its states hold more than {ITEMS_MAX} items"));
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
    let hypotheses = new.hypotheses.iter().enumerate();
    let mut places: HashMap<String, usize> =
        hypotheses.map(|(place, one)| (one.id.clone(), place)).collect();
    for change in &delta.hypothesis_changes {
        apply_hypothesis(&mut new, change, at, &mut places);
    }
    let beliefs = new.beliefs.iter().enumerate();
    let mut places: HashMap<String, usize> =
        beliefs.map(|(place, one)| (one.id.clone(), place)).collect();
    for change in &delta.belief_changes {
        apply_belief(&mut new, change, at, &mut places);
    }
    new.evidence.extend(delta.new_evidence.iter().cloned());
    new.verification_results.extend(delta.new_verifications.iter().cloned());
    let run = &mut new.metrics.verifications_run;
    *run = run.saturating_add(delta.new_verifications.len() as u64);
    new
}

fn apply_hypothesis(
    of: &mut Snapshot,
    change: &HypothesisChange,
    at: Timestamp,
    places: &mut HashMap<String, usize>,
) {
    let id = match change {
        HypothesisChange::Added(new) => {
            let mut new = new.clone();
            new.created_at = new.created_at.or(Some(at));
            places.insert(new.id.clone(), of.hypotheses.len());
            of.hypotheses.push(new);
            return;
        }
        HypothesisChange::Updated { id, .. }
        | HypothesisChange::StatusChanged { id, .. }
        | HypothesisChange::ConfidenceChanged { id, .. } => id,
    };
    let Some(one) = places.get(id).map(|place| &mut of.hypotheses[*place]) else { return };
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

fn apply_belief(
    of: &mut Snapshot,
    change: &BeliefChange,
    at: Timestamp,
    places: &mut HashMap<String, usize>,
) {
    let id = match change {
        BeliefChange::Added(new) => {
            let mut new = new.clone();
            new.created_at = new.created_at.or(Some(at));
            places.insert(new.id.clone(), of.beliefs.len());
            of.beliefs.push(new);
            return;
        }
        BeliefChange::Updated { id, .. } | BeliefChange::ConfidenceChanged { id, .. } => id,
    };
    let Some(one) = places.get(id).map(|place| &mut of.beliefs[*place]) else { return };
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
