//! Which session a process belongs to that an agent started, where nothing names it.

use rappel_store::held;
use rappel_types::agents::{ProcessId, SessionId};

use crate::agents::{SessionView, process_id};
use crate::error::Result;
use crate::rappel::Rappel;

/// A chain of processes has an end; one that goes on for longer is not followed.
const STEPS_MAX: usize = 64;

impl Rappel {
    /// The session of this workspace whose agent started this process, directly or through others.
    /// None where that agent has several sessions: its process does not tell which one is meant.
    pub fn session_above(&self, pid: u32) -> Result<Option<SessionId>> {
        let live = self.with_processes()?;
        let nearest = ancestors(pid)
            .filter_map(process_id)
            .find(|process| live.iter().any(|view| view.process == Some(*process)));
        Ok(nearest.and_then(|process| only_one(&live, process)))
    }

    /// The session of an agent's process, where it has but one here.
    pub fn session_of_process(
        &self,
        provider: &str,
        process: ProcessId,
    ) -> Result<Option<SessionId>> {
        let mut live = self.with_processes()?;
        live.retain(|view| view.provider.as_deref() == Some(provider));
        Ok(only_one(&live, process))
    }

    /// The sessions that go on and whose process is known.
    fn with_processes(&self) -> Result<Vec<SessionView>> {
        let mut live = Vec::new();
        for id in self.live_session_ids()? {
            let Ok(id) = id.parse::<SessionId>() else { continue };
            live.push(self.session_as_it_stands(&id)?);
        }
        live.retain(|view| view.process.is_some());
        Ok(live)
    }
}

/// The session of a process, unless it has several. Its subagents are in the same process.
fn only_one(live: &[SessionView], process: ProcessId) -> Option<SessionId> {
    let its: Vec<_> = live.iter().filter(|view| view.process == Some(process)).collect();
    let is_below = |view: &SessionView| its.iter().any(|one| view.parent.as_ref() == Some(&one.id));
    match its.iter().filter(|view| !is_below(view)).collect::<Vec<_>>()[..] {
        [one] => Some(one.id.clone()),
        _ => None,
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
