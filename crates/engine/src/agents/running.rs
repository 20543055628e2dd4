//! Tool calls that are running: a save by hand waits for them a little, and names those that go on.

use std::time::{Duration, Instant};

use rappel_store::held;
use rappel_types::agents::{ProcessId, SessionId, SessionState, ToolCall};

use super::restore::is_gone;
use crate::error::Result;
use crate::rappel::Rappel;

/// How often it is looked whether they are done.
const LOOK_AGAIN: Duration = Duration::from_millis(25);
/// A call that began longer ago was forgotten, or goes on for longer than anybody waits.
const FORGOTTEN_MS: i64 = 60 * 60 * 1000;

/// The calls that run while a checkpoint is made.
#[derive(Debug, Default)]
pub(crate) struct Running {
    /// In words.
    pub named: Vec<String>,
    /// Whether one of them may end soon, so that it is worth waiting.
    worth_waiting: bool,
    /// How long it was waited for them.
    pub waited: Duration,
}

impl Rappel {
    /// The calls that are running in this workspace's sessions, but for those of `own`, and those that run in the background.
    fn running_calls(&self, own: Option<&str>) -> Result<Running> {
        let mut running = Running::default();
        for id in self.live_session_ids()?.iter().filter(|id| Some(id.as_str()) != own) {
            let Ok(session) = id.parse::<SessionId>() else { continue };
            let state = self.load_live(&session)?.state;
            for call in state.tool_state.running.iter().filter(|call| !is_background(call)) {
                running.worth_waiting |= self.may_end_soon(&state, call);
                running.named.push(format!("{} ({} in session {session})", call.tool, call.id));
            }
        }
        Ok(running)
    }

    /// Not if its agent is gone, or it began long ago. Nor if nobody records the session: its transcript is not read
    /// while a save waits.
    fn may_end_soon(&self, state: &SessionState, call: &ToolCall) -> bool {
        let forgotten = self.now().millis_since(call.started_at) > FORGOTTEN_MS;
        !state.from_transcript && !forgotten && !state.process.is_some_and(is_gone)
    }

    /// Waits until no such call is running, at most so long. What still runs is named.
    pub(crate) fn wait_for_calls(&self, own: Option<&str>, limit: Duration) -> Result<Running> {
        let start = Instant::now();
        let mut waited = Duration::ZERO;
        loop {
            let running = self.running_calls(own)?;
            if !running.worth_waiting || waited >= limit || self.is_cancelled() {
                return Ok(Running { waited, ..running });
            }
            std::thread::sleep(LOOK_AGAIN.min(limit.saturating_sub(waited)));
            waited = start.elapsed();
            self.store.refresh()?;
        }
    }

    pub(super) fn is_cancelled(&self) -> bool {
        self.cancel().is_cancelled()
    }
}

fn is_background(call: &ToolCall) -> bool {
    call.background || call.arguments.get("run_in_background") == Some(&true.into())
}

/// A process that is there, with what tells it from others of its number.
pub fn process_id(pid: u32) -> Option<ProcessId> {
    Some(ProcessId { pid, started: process_started(pid)?, boot: boot() })
}

/// Which start of the machine this is; 0 where that cannot be told.
pub(super) fn boot() -> u64 {
    let id = held::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    match id.trim() {
        "" => 0,
        id => blake3::hash(id.as_bytes()).as_bytes()[..7]
            .iter()
            .fold(0, |number, byte| number << 8 | u64::from(*byte)),
    }
}

/// When a process began, in the kernel's ticks since boot; `None` if there is none, or it cannot be told.
pub fn process_started(pid: u32) -> Option<u64> {
    let stat = held::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold anything.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    // One that nobody has taken leave of yet is gone all the same.
    if matches!(fields.next()?, "Z" | "X") {
        return None;
    }
    fields.nth(18)?.parse().ok()
}
