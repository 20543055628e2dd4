//! The conversation of a session, which a restore sets back where that is asked for: whether a
//! checkpoint holds it, and whether its agent still has it in memory.

use rappel_types::agents::SessionId;
use rappel_types::{Advice, Reference};

use super::SessionView;
use crate::error::{Error, Result};
use crate::rappel::Rappel;
use crate::restore::RestoreOptions;

impl Rappel {
    /// Whether an agent has the conversation of a session in its memory. It would write that over
    /// whatever is put back.
    ///
    /// Where its process is not known, a session that its hooks tell of has it until it ends. One
    /// that was killed there is freed by `session end`, or by a day of silence.
    pub fn is_in_conversation(&self, view: &SessionView) -> Result<bool> {
        let (Some(provider), Some(name)) = (&view.provider, &view.assistant_session_id) else {
            return Ok(false);
        };
        let Some(run) = self.session_called(provider, name)? else { return Ok(false) };
        let run = self.session(&run)?;
        let waits = run.set_back_to.is_some();
        Ok(run.status.is_live() && !run.process_gone && !run.from_transcript && !waits)
    }

    /// Refuses a checkpoint that does not hold a session: its restore would set back others alone.
    /// Any run of the agent's session will do, since they share one conversation.
    pub fn require_conversation(
        &self,
        reference: &Reference,
        session: &SessionId,
        options: &RestoreOptions,
    ) -> Result<()> {
        let target = self.own_target(reference, options)?.manifest;
        let runs = self.runs_of(session)?;
        let held = target.agents.iter().flat_map(|agents| &agents.sessions);
        if held.into_iter().any(|part| runs.iter().any(|run| run.id == part.id)) {
            return Ok(());
        }
        for run in runs.iter().rev() {
            let Some(checkpoint) = self.newest_holding(&run.id)? else { continue };
            let message = format!(
                "{} does not hold session {session}; the newest checkpoint that does is {checkpoint}",
                target.id
            );
            let advice = Advice::ShowState { checkpoint: checkpoint.to_string() };
            return Err(Error::NotThere { message, advice });
        }
        let message = format!("no checkpoint holds session {session}");
        Err(Error::NotThere { message, advice: Advice::ListSessions })
    }
}
