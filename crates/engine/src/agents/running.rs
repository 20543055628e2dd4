//! Tool calls that are running: a save by hand waits for them a little, and names those that go on.

use std::time::{Duration, Instant};

use rappel_types::agents::{SessionId, ToolCall};

use crate::error::Result;
use crate::rappel::Rappel;

/// How often it is looked whether they are done.
const LOOK_AGAIN: Duration = Duration::from_millis(25);

impl Rappel {
    /// The calls that are running in this workspace's sessions, but for those of `own`, and those that run in the background.
    /// What is known from transcripts alone is as old as the last save, and not waited for.
    pub(crate) fn running_calls(&self, own: Option<&str>) -> Result<Vec<(SessionId, ToolCall)>> {
        let Some(workspace) = self.workspace_id() else { return Ok(Vec::new()) };
        let ids = self.store.look_up(|index| index.live_sessions(&workspace.to_string()))?;
        let mut found = Vec::new();
        for id in ids.iter().filter(|id| Some(id.as_str()) != own) {
            let Ok(session) = id.parse::<SessionId>() else { continue };
            let state = self.load_live(&session)?.state;
            if state.from_transcript {
                continue;
            }
            let calls = state.tool_state.running.iter().filter(|call| !is_background(call));
            found.extend(calls.map(|call| (session.clone(), call.clone())));
        }
        Ok(found)
    }

    /// Waits until no such call is running, at most so long. What still runs is named.
    pub(crate) fn wait_for_calls(&self, own: Option<&str>, limit: Duration) -> Result<Vec<String>> {
        let start = Instant::now();
        loop {
            let calls = self.running_calls(own)?;
            if calls.is_empty() || start.elapsed() >= limit || self.is_cancelled() {
                let name = |(session, call): &(SessionId, ToolCall)| {
                    format!("{} ({} in session {session})", call.tool, call.id)
                };
                return Ok(calls.iter().map(name).collect());
            }
            std::thread::sleep(LOOK_AGAIN.min(limit.saturating_sub(start.elapsed())));
            self.store.refresh()?;
        }
    }

    fn is_cancelled(&self) -> bool {
        self.options.cancel.load(std::sync::atomic::Ordering::Relaxed)
    }
}

fn is_background(call: &ToolCall) -> bool {
    call.background || call.arguments.get("run_in_background") == Some(&true.into())
}

/// When a process began, in the kernel's ticks since boot; `None` if there is none, or it cannot be told.
pub fn process_started(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold anything.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    // One that nobody has taken leave of yet is gone all the same.
    if matches!(fields.next()?, "Z" | "X") {
        return None;
    }
    fields.nth(18)?.parse().ok()
}
