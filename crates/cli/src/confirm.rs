//! Asking before something is changed.

use std::io::{self, BufRead, Write};

use rappel::ErrorKind;

use crate::errors::{Exit, Failure, Result};
use crate::process::Context;

/// Whether to go on: asks on a terminal, and elsewhere stops with the command that would have gone
/// on. Where the answer is no, that is told here.
pub fn require(context: &Context, question: &str, confirm_with: &str) -> Result<bool> {
    if !context.can_ask() {
        return Err(Failure::unconfirmed(
            "this needs a confirmation, and there is no terminal to ask on",
            confirm_with,
        ));
    }
    let confirmed = ask(question)?;
    if !confirmed {
        context.output.tell("Nothing changed.");
    }
    Ok(confirmed)
}

/// How a command ends that was not confirmed.
pub const DECLINED: Exit = Exit::Bad(ErrorKind::Confirmation);

/// Asks something that is not needed to go on.
pub fn ask(question: &str) -> Result<bool> {
    let mut stderr = io::stderr().lock();
    // A question that cannot be shown will not be answered with yes either.
    let _ = write!(stderr, "{question} [y/N] ").and_then(|()| stderr.flush());
    let mut answer = String::new();
    io::stdin()
        .lock()
        .read_line(&mut answer)
        .map_err(|error| Failure::failed(format!("cannot read the answer: {error}")))?;
    Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}
