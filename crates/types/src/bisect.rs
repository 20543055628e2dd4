//! Finding the first bad one of a row of candidates: which to test next, from the answers so far.
//!
//! Pure: the answers are a list in the order in which they were given, and the same list always
//! leads to the same next step. So a search that was interrupted goes on where it was.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What testing a candidate said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "BisectAnswer")]
pub enum Answer {
    /// The command succeeded.
    Good,
    /// It failed.
    Bad,
    /// The candidate cannot be tested.
    Skip,
}

/// What to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// Test this candidate.
    Test(usize),
    /// The search is over: `last_good` passes, `first_bad` fails, and what lies between them cannot
    /// be tested.
    Found {
        /// The last one that passes.
        last_good: usize,
        /// The first one that fails.
        first_bad: usize,
    },
    /// The answers contradict each other, or what was said of the first and the last one.
    Contradiction(Contradiction),
}

/// Why there is nothing to be found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Contradiction {
    /// The first one, which was said to be good, fails.
    GoodFails,
    /// The last one, which was said to be bad, passes.
    BadPasses,
    /// The first or the last one cannot be tested.
    EndSkipped(usize),
    /// The same one passed and failed.
    Flaky(usize),
}

/// The next step among `count` candidates, the first of which is said to be good and the last bad.
/// Both are tested before anything else; the two that the search ends at are tested twice.
pub fn next(count: usize, answers: &[(usize, Answer)]) -> Next {
    let of = |at: usize, answer: Answer| answers.contains(&(at, answer));
    let runs = |at: usize| answers.iter().filter(|(tested, _)| *tested == at).count();
    let last = count.saturating_sub(1);
    for at in 0..count {
        if of(at, Answer::Good) && of(at, Answer::Bad) {
            return Next::Contradiction(Contradiction::Flaky(at));
        }
    }
    for (end, expected) in [(0, Answer::Good), (last, Answer::Bad)] {
        if !of(end, expected) {
            return match (runs(end), expected) {
                (0, _) => Next::Test(end),
                _ if of(end, Answer::Skip) => Next::Contradiction(Contradiction::EndSkipped(end)),
                (_, Answer::Good) => Next::Contradiction(Contradiction::GoodFails),
                _ => Next::Contradiction(Contradiction::BadPasses),
            };
        }
    }
    // Halving keeps every good one before every bad one.
    let last_good = (0..count).rev().find(|&at| of(at, Answer::Good)).unwrap_or(0);
    let first_bad = (last_good + 1..count).find(|&at| of(at, Answer::Bad)).unwrap_or(last);
    let middle = usize::midpoint(last_good, first_bad);
    let untested = (last_good + 1..first_bad).filter(|&at| runs(at) == 0);
    if let Some(nearest) = untested.min_by_key(|&at| at.abs_diff(middle)) {
        return Next::Test(nearest);
    }
    // A command that answers by chance would name an innocent one.
    for at in [last_good, first_bad] {
        if runs(at) < 2 {
            return Next::Test(at);
        }
    }
    Next::Found { last_good, first_bad }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Searches with a command, and says how often it ran.
    fn search(count: usize, test: impl Fn(usize, usize) -> Answer) -> (Next, usize) {
        let mut answers = Vec::new();
        loop {
            match next(count, &answers) {
                Next::Test(at) => {
                    let before = answers.iter().filter(|(tested, _)| *tested == at).count();
                    answers.push((at, test(at, before)));
                    assert!(answers.len() < 4 * count + 10, "it does not end: {answers:?}");
                }
                end => return (end, answers.len()),
            }
        }
    }

    fn from(first_bad: usize) -> impl Fn(usize, usize) -> Answer {
        move |at, _| if at < first_bad { Answer::Good } else { Answer::Bad }
    }

    #[test]
    fn every_first_bad_one_is_found_by_halving() {
        for count in 2..70 {
            for first_bad in 1..count {
                let (found, runs) = search(count, from(first_bad));
                assert_eq!(found, Next::Found { last_good: first_bad - 1, first_bad });
                let halvings = (usize::BITS - count.leading_zeros()) as usize;
                assert!(runs <= halvings + 4, "{count} {first_bad}: {runs}");
            }
        }
    }

    #[test]
    fn what_cannot_be_tested_is_passed_over() {
        let skips = |at: usize, _| match at {
            40..=60 => Answer::Skip,
            at if at < 50 => Answer::Good,
            _ => Answer::Bad,
        };
        assert_eq!(search(100, skips).0, Next::Found { last_good: 39, first_bad: 61 });
        let one = |at: usize, _| match at {
            49 => Answer::Skip,
            at if at < 70 => Answer::Good,
            _ => Answer::Bad,
        };
        assert_eq!(search(100, one).0, Next::Found { last_good: 69, first_bad: 70 });
    }

    #[test]
    fn contradictions_are_noticed() {
        let ends = |first: Answer, last: Answer| {
            let test = move |at: usize, _| if at == 0 { first } else { last };
            search(9, test).0
        };
        let said = |why| Next::Contradiction(why);
        assert_eq!(ends(Answer::Bad, Answer::Bad), said(Contradiction::GoodFails));
        assert_eq!(ends(Answer::Good, Answer::Good), said(Contradiction::BadPasses));
        assert_eq!(ends(Answer::Skip, Answer::Bad), said(Contradiction::EndSkipped(0)));
        assert_eq!(ends(Answer::Good, Answer::Skip), said(Contradiction::EndSkipped(8)));
        // It fails at 5 by chance: the second time it passes there.
        let flaky = |at: usize, before: usize| match (at, before) {
            (8, _) | (4, 0) => Answer::Bad,
            _ => Answer::Good,
        };
        assert_eq!(search(9, flaky).0, said(Contradiction::Flaky(4)));
    }
}
