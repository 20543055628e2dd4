//! Forks: after a restore a session's journal goes on from an earlier event.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A fork of a session's journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Fork {
    /// Its number; 0 is the beginning.
    pub fork: u32,
    /// The event that began it (`restored`).
    pub begins: u64,
    /// The fork it came from.
    pub of: u32,
    /// The last event of that fork that it knows.
    pub to: u64,
}

/// All forks of a session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lineage {
    forks: Vec<Fork>,
}

impl Lineage {
    /// The lineage of these forks, in any order.
    pub fn new(mut forks: Vec<Fork>) -> Self {
        forks.sort_by_key(|fork| fork.fork);
        forks.dedup_by_key(|fork| fork.fork);
        Self { forks }
    }

    /// The forks, without the beginning.
    pub fn forks(&self) -> &[Fork] {
        &self.forks
    }

    /// The newest fork.
    pub fn current(&self) -> u32 {
        self.forks.last().map_or(0, |fork| fork.fork)
    }

    /// What a fork knows, newest part first: for each fork it comes from, the last event that counts.
    /// The first of them is the fork itself, up to `to`.
    pub fn parts(&self, fork: u32, to: u64) -> Vec<(u32, u64)> {
        let (mut fork, mut to) = (fork, to);
        let mut parts = vec![(fork, to)];
        // A fork comes from an older one, or the journal was tampered with.
        while let Some(known) = self.forks.iter().find(|known| known.fork == fork) {
            if known.of >= fork {
                break;
            }
            // Set back below what it came from itself, it knows no more than that.
            to = known.to.min(to);
            fork = known.of;
            parts.push((fork, to));
        }
        parts
    }

    /// Whether the event `number` of `fork` is known at `to` on the fork `on`.
    pub fn knows(&self, on: u32, to: u64, fork: u32, number: u64) -> bool {
        self.parts(on, to).iter().any(|(part, last)| *part == fork && number <= *last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forks_never_see_each_others_later_events() {
        // 1 2 3 4 5 | restored(6) to 3, 7 8 | restored(9) to 7 of fork 1, 10
        let lineage = Lineage::new(vec![
            Fork { fork: 2, begins: 9, of: 1, to: 7 },
            Fork { fork: 1, begins: 6, of: 0, to: 3 },
        ]);
        assert_eq!(lineage.parts(2, 10), [(2, 10), (1, 7), (0, 3)]);
        assert!(lineage.knows(2, 10, 1, 7) && !lineage.knows(2, 10, 1, 8));
        assert!(lineage.knows(2, 10, 0, 3) && !lineage.knows(2, 10, 0, 4));
        assert!(!lineage.knows(1, 8, 2, 10));
    }

    #[test]
    fn going_back_below_a_fork_knows_no_more_than_that() {
        // Fork 2 goes back to 2, which is an event of fork 0, through fork 1.
        let lineage = Lineage::new(vec![
            Fork { fork: 1, begins: 6, of: 0, to: 5 },
            Fork { fork: 2, begins: 9, of: 1, to: 2 },
        ]);
        assert_eq!(lineage.parts(2, 9), [(2, 9), (1, 2), (0, 2)]);
    }
}
