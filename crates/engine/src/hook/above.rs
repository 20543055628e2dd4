//! Which session a process belongs to that an agent started, where nothing names it.

use rappel_store::held;
use rappel_types::agents::SessionId;

use crate::error::Result;
use crate::rappel::Rappel;

/// A chain of processes has an end; one that goes on for longer is not followed.
const STEPS_MAX: usize = 64;

impl Rappel {
    /// The session of this workspace whose agent started this process, directly or through others.
    /// None where that agent has several sessions: its process does not tell which one is meant.
    pub fn session_above(&self, pid: u32) -> Result<Option<SessionId>> {
        let mut agents = Vec::new();
        for id in self.live_session_ids()? {
            let Ok(id) = id.parse::<SessionId>() else { continue };
            let view = self.session_as_it_stands(&id)?;
            agents.extend(view.process.map(|process| (process.pid, id)));
        }
        for above in ancestors(pid) {
            let of_it: Vec<_> = agents.iter().filter(|(agent, _)| *agent == above).collect();
            match of_it[..] {
                [] => {}
                [(_, id)] => return Ok(Some(id.clone())),
                _ => return Ok(None),
            }
        }
        Ok(None)
    }
}

/// The processes above a process, the nearest first.
fn ancestors(pid: u32) -> impl Iterator<Item = u32> {
    std::iter::successors(parent(pid), |pid| parent(*pid)).take(STEPS_MAX)
}

fn parent(pid: u32) -> Option<u32> {
    let stat = held::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold anything.
    let parent = stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()?;
    (parent > 0).then_some(parent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_processes_above_this_one_end_with_the_first_of_the_machine() {
        let above: Vec<u32> = ancestors(std::process::id()).collect();
        assert_eq!(above.first().copied(), Some(std::os::unix::process::parent_id()));
        assert!(above.len() < STEPS_MAX && parent(u32::MAX).is_none());
    }
}
