//! `rappel VERB --typed NAME`: what the user typed after `/rappel:NAME` comes on stdin, byte for byte.
//!
//! The shell blocks of the command files that `rappel integrate` writes call this, where no hook
//! answered before them. It is looked for before the command line is read, because what is on stdin
//! is a part of that line.

use std::ffi::OsString;
use std::io::Read;

use rappel_hooks::typed;

use crate::errors::{Failure, Result};

const FLAG: &str = "--typed";
/// Longer lines are not typed.
const MAX: u64 = 1 << 20;

/// The arguments with those from stdin in their place. All others are left as they are.
pub fn expand(arguments: Vec<OsString>) -> Result<Vec<OsString>> {
    let [_, verb, flag, name, ..] = &arguments[..] else { return Ok(arguments) };
    if flag != FLAG {
        return Ok(arguments);
    }
    let (verb, name) = (verb.to_string_lossy(), name.to_string_lossy());
    let mut words = String::new();
    let read = std::io::stdin().lock().take(MAX).read_to_string(&mut words);
    read.map_err(|error| Failure::failed(format!("cannot read what was typed: {error}")))?;
    let line = typed::command_line(&name, &words)
        .map_err(|message| Failure::usage(message, "put words that belong together in quotes"))?;
    if line.first().is_none_or(|first| *first != verb) {
        let message = format!("/rappel:{name} is not `rappel {verb}`");
        return Err(Failure::usage(message, "rappel integrate claude"));
    }
    // Flags for every command come first, so that a `--` that was typed does not hide them.
    let mut expanded: Vec<OsString> = arguments.iter().take(1).cloned().collect();
    expanded.extend(arguments.iter().skip(4).cloned());
    expanded.extend(line.into_iter().map(OsString::from));
    Ok(expanded)
}
