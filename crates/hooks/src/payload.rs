//! What every vendor's payload is read for: whose event it is, which tool a call is of, and what a
//! command is about to destroy. What happened is each vendor's own.

use std::path::Path;

use rappel::DestructiveCommand;
use rappel::hook::{CallKind, Event, Moment, Subagent};
use rappel_types::agents::ProcessId;

use crate::PayloadError;
use crate::shell::verdict;

/// Whose event it is.
#[derive(Debug)]
pub struct Told {
    pub provider: &'static str,
    pub session: String,
    /// The subagent's id, and its kind where that is told.
    pub subagent: Option<(String, Option<String>)>,
    pub folder: Option<String>,
    /// Whether the vendor sums up a context without telling.
    pub silent_compaction: bool,
}

impl Told {
    /// The event; an error where it belongs to no session.
    pub fn event(
        self,
        process: Option<ProcessId>,
        carries_context: bool,
        moment: Moment,
    ) -> Result<Event, PayloadError> {
        if self.session.is_empty() {
            return Err(PayloadError::Malformed("it names no session".into()));
        }
        let subagent = self.subagent.map(|(id, kind)| {
            let kind = kind.filter(|kind| !kind.is_empty());
            Subagent { id, kind }
        });
        Ok(Event {
            provider: self.provider.into(),
            session: self.session,
            subagent,
            process,
            folder: self.folder,
            at: None,
            carries_context,
            silent_compaction: self.silent_compaction,
            moment,
        })
    }
}

/// The tool that was called. Those of our own server, which begin with `own`, record what they do
/// themselves.
pub fn tool(name: Option<&str>, own: Option<&str>) -> Result<String, PayloadError> {
    let Some(name) = name else {
        return Err(PayloadError::Malformed("it names no tool".into()));
    };
    match own.is_some_and(|own| name.starts_with(own)) {
        true => Err(PayloadError::Nothing),
        false => Ok(name.to_owned()),
    }
}

/// What a command of the shell is about to destroy. It runs in `folder`, or in `within` below that.
pub fn operation(
    is_before: bool,
    kind: &CallKind,
    folder: Option<&str>,
    within: Option<&str>,
) -> Option<DestructiveCommand> {
    let (CallKind::Shell(command), Some(folder), true) = (kind, folder, is_before) else {
        return None;
    };
    verdict(command, &Path::new(folder).join(within.unwrap_or_default())).operation()
}
