//! `rappel VERB --typed NAME`: what the user typed after `/rappel:NAME` comes on stdin, byte for byte.
//! `rappel VERB --typed=NAME … WORDS`: it is the last argument, where an agent quotes it for the shell.
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
    let [_, verb, flag, rest @ ..] = &arguments[..] else { return Ok(arguments) };
    let (verb, flag) = (verb.to_string_lossy(), flag.to_string_lossy());
    let (name, words, flags) = match (flag.strip_prefix(FLAG), rest) {
        (Some(""), [name, flags @ ..]) => (name.to_string_lossy(), from_stdin()?, flags),
        (Some(name), rest) if name.starts_with('=') => {
            let (flags, words) = words_of(rest);
            (name[1..].to_owned().into(), words, flags)
        }
        _ => return Ok(arguments),
    };
    let line = typed::command_line(&name, &words)
        .map_err(|message| Failure::usage(message, "put words that belong together in quotes"))?;
    if line.first().is_none_or(|first| *first != verb) {
        let message = format!("/rappel:{name} is not `rappel {verb}`");
        return Err(Failure::usage(message, "rappel integrate claude"));
    }
    // Flags for every command come first, so that a `--` that was typed does not hide them.
    let mut expanded: Vec<OsString> = arguments.iter().take(1).cloned().collect();
    expanded.extend(flags.iter().cloned());
    expanded.extend(line.into_iter().map(OsString::from));
    Ok(expanded)
}

fn from_stdin() -> Result<String> {
    let mut words = String::new();
    let read = std::io::stdin().lock().take(MAX).read_to_string(&mut words);
    read.map_err(|error| Failure::failed(format!("cannot read what was typed: {error}")))?;
    Ok(words)
}

/// The flags that the command file has, and what the user typed, which is one word or none.
fn words_of(rest: &[OsString]) -> (&[OsString], String) {
    let flags = match rest {
        [home, _, ..] if home == "--home" => 2,
        _ => 0,
    };
    let (flags, words) = rest.split_at(flags);
    let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
    (flags, words.join(" "))
}
