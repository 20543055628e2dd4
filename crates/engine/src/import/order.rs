//! The order in which checkpoints are taken in: by time, but each after the one that it follows.

use std::collections::{HashMap, HashSet};

use rappel_formats::Portable;
use rappel_formats::form::Skipped;
use rappel_types::path::escape_bytes;

/// The checkpoints in that order. Of several with one id the first counts; the others, and those
/// without an id, are skipped.
pub(super) fn in_order<'p>(
    checkpoints: &'p [Portable],
    skipped: &mut Vec<Skipped>,
) -> Vec<&'p Portable> {
    let mut places: HashMap<&str, usize> = HashMap::new();
    let mut by_time: Vec<usize> = Vec::new();
    for (place, portable) in checkpoints.iter().enumerate() {
        let reason = match portable.id.as_str() {
            "" => "it has no id",
            id if places.contains_key(id) => "another checkpoint of this import has its id",
            id => {
                places.insert(id, place);
                by_time.push(place);
                continue;
            }
        };
        let path = escape_bytes(portable.id.as_bytes());
        skipped.push(Skipped { path, reason: reason.into() });
    }
    by_time.sort_by_key(|place| checkpoints[*place].created_at);
    let parent = |place: usize| {
        let parent = checkpoints[place].parent.as_deref()?;
        places.get(parent).copied()
    };
    let mut ordered = Vec::with_capacity(by_time.len());
    let mut done: HashSet<usize> = HashSet::new();
    for place in by_time {
        // Ancestors that are still to come go first. A circle of parents ends where it closes.
        let mut waiting = Vec::new();
        let mut next = Some(place);
        while let Some(at) = next.filter(|at| done.insert(*at)) {
            waiting.push(at);
            next = parent(at);
        }
        ordered.extend(waiting.into_iter().rev().map(|at| &checkpoints[at]));
    }
    ordered
}

/// The checkpoints that another one follows than the next, by their ids.
pub(super) fn forked(ordered: &[&Portable]) -> HashSet<String> {
    let next = |(before, one): (Option<&&Portable>, &&Portable)| {
        let parent = one.parent.clone()?;
        (before.map(|before| &before.id) != Some(&parent)).then_some(parent)
    };
    let before = std::iter::once(None).chain(ordered.iter().map(Some));
    before.zip(ordered).filter_map(next).collect()
}

#[cfg(test)]
mod tests {
    use rappel_types::{Timestamp, Trigger};

    use super::*;

    fn made(id: &str, parent: Option<&str>, at: i64) -> Portable {
        let mut one = Portable::new(id, Timestamp::from_millis(at), Trigger::Manual);
        one.parent = parent.map(str::to_owned);
        one
    }

    fn ordered(all: &[Portable]) -> (Vec<&str>, usize) {
        let mut skipped = Vec::new();
        let found = in_order(all, &mut skipped);
        (found.into_iter().map(|one| one.id.as_str()).collect(), skipped.len())
    }

    #[test]
    fn time_decides_and_of_one_time_the_order_in_which_they_came() {
        let all = [made("b", None, 2), made("c", None, 2), made("a", None, 1)];
        assert_eq!(ordered(&all), (vec!["a", "b", "c"], 0));
    }

    #[test]
    fn a_parent_comes_first_even_if_its_clock_was_ahead() {
        let all = [made("child", Some("parent"), 1), made("parent", None, 9)];
        assert_eq!(ordered(&all), (vec!["parent", "child"], 0));
    }

    #[test]
    fn circles_and_unknown_parents_end() {
        let all = [made("a", Some("b"), 1), made("b", Some("a"), 2), made("c", Some("c"), 3)];
        assert_eq!(ordered(&all), (vec!["b", "a", "c"], 0));
        assert_eq!(ordered(&[made("a", Some("gone"), 1)]), (vec!["a"], 0));
    }

    #[test]
    fn the_first_of_one_id_counts() {
        let all = [made("a", None, 5), made("a", None, 1), made("", None, 1)];
        assert_eq!(ordered(&all), (vec!["a"], 2));
    }
}
