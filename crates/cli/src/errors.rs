//! How a command fails: what is told on stderr, and the exit code.
//!
//! Everything that stops a command becomes a [`Failure`] and is shown once, by `main`.

use std::io;
use std::path::Path;
use std::process::ExitCode;

use rappel::ErrorKind;
use serde::Serialize;

use crate::output::{Output, clean_lines};
use crate::process::quote;

/// What a command came to.
pub type Result<T = Exit, E = Failure> = std::result::Result<T, E>;

/// How a command that has given its answer ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// As asked.
    Done,
    /// The answer itself is bad news, and has been told: not protected, damaged, in conflict.
    Bad(ErrorKind),
    /// With the exit code of a command that was run, or what a shell says where it cannot be run.
    Passed(u8),
}

/// Why a command stopped.
#[derive(Debug)]
pub struct Failure {
    /// What the caller should do about it.
    pub kind: ErrorKind,
    /// What went wrong.
    pub message: String,
    /// The next step, if there is one.
    pub hint: Option<String>,
}

/// How programs are told.
#[derive(Serialize)]
struct Document<'a> {
    error: Told<'a>,
}

#[derive(Serialize)]
struct Told<'a> {
    kind: &'a str,
    message: &'a str,
    hint: &'a Option<String>,
}

impl Failure {
    /// The request makes no sense.
    pub fn usage(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { kind: ErrorKind::Usage, message: message.into(), hint: Some(hint.into()) }
    }

    /// It did not work, and there is nothing to advise.
    pub fn failed(message: impl Into<String>) -> Self {
        Self { kind: ErrorKind::Failed, message: message.into(), hint: None }
    }

    /// The user has to say yes first.
    pub fn unconfirmed(message: impl Into<String>, confirm_with: impl Into<String>) -> Self {
        Self {
            kind: ErrorKind::Confirmation,
            message: message.into(),
            hint: Some(confirm_with.into()),
        }
    }

    /// Tells it on stderr: for people, or as JSON for programs.
    pub fn show(&self, output: &Output) {
        if output.json {
            let error = Told { kind: self.kind.as_str(), message: &self.message, hint: &self.hint };
            // A value of texts alone cannot fail to become JSON.
            output.tell(&serde_json::to_string(&Document { error }).unwrap_or_default());
            return;
        }
        let paint = output.paint_stderr();
        let mut text = format!("{} {}", paint.error("error:"), clean_lines(&self.message));
        if let Some(hint) = &self.hint {
            text.push_str(&format!("\n{} {}", paint.hint("hint:"), clean_lines(hint)));
        }
        output.tell(&text);
    }

    /// The exit code that belongs to it.
    pub fn exit_code(&self) -> ExitCode {
        ExitCode::from(code(self.kind))
    }
}

impl Exit {
    /// The exit code that belongs to it.
    pub fn exit_code(self) -> ExitCode {
        match self {
            Self::Done => ExitCode::SUCCESS,
            Self::Bad(kind) => ExitCode::from(code(kind)),
            Self::Passed(code) => ExitCode::from(code),
        }
    }
}

/// The exit codes of the contract.
fn code(kind: ErrorKind) -> u8 {
    match kind {
        ErrorKind::Failed | ErrorKind::Cancelled => 1,
        ErrorKind::Usage => 2,
        ErrorKind::NotFound => 3,
        ErrorKind::Confirmation => 4,
        ErrorKind::Busy => 5,
        ErrorKind::Damage => 6,
        ErrorKind::Conflict => 7,
    }
}

impl From<rappel::Error> for Failure {
    fn from(error: rappel::Error) -> Self {
        let hint = crate::face::advice::hint(&error.advice());
        Self { kind: error.kind(), message: error.to_string(), hint }
    }
}

/// Only writing to stdout fails with a bare I/O error; a closed pipe among them is noticed by
/// [`Output`] and is no failure at all.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::failed(format!("cannot write the answer: {error}"))
    }
}

impl Failure {
    /// What clap refuses, in our words: its first paragraph says what is wrong, and what it calls
    /// a tip is a hint. `command` is the command that was meant, if one was named.
    pub fn from_clap(error: &clap::Error, command: Option<&str>) -> Self {
        let text = error.render().to_string();
        let mut paragraphs = text.split("\n\n");
        let first = paragraphs.next().unwrap_or_default();
        let message = match error.kind() {
            // What clap answers then is the help text.
            clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
                "a subcommand is required"
            }
            _ => first.strip_prefix("error: ").unwrap_or(first),
        };
        let tip = paragraphs
            .find_map(|paragraph| paragraph.trim().strip_prefix("tip: "))
            // That a mistyped flag could be a value is hardly ever what was meant.
            .filter(|tip| !tip.starts_with("to pass "));
        Self {
            kind: ErrorKind::Usage,
            message: message.split_whitespace().collect::<Vec<_>>().join(" "),
            hint: Some(
                path_without_dashes(error, command)
                    .or_else(|| hint_of_value(error))
                    .or_else(|| unquoted_message(error, command))
                    .or_else(|| nearest_command(error))
                    .or_else(|| tip.map(in_our_words))
                    .unwrap_or_else(|| match command {
                        Some(name) if !is_unknown(error, name) => format!("rappel help {name}"),
                        _ => "rappel help".into(),
                    }),
            ),
        }
    }
}

/// `a similar value exists: 'zsh'` as `did you mean 'zsh'?`.
fn in_our_words(tip: &str) -> String {
    match tip.split_once(": ") {
        Some((words, names)) if words.contains("similar") => format!("did you mean {names}?"),
        _ => tip.to_owned(),
    }
}

/// Whether the command itself is what clap does not know.
fn is_unknown(error: &clap::Error, command: &str) -> bool {
    use clap::error::{ContextKind, ContextValue};
    matches!(error.get(ContextKind::InvalidSubcommand), Some(ContextValue::String(word)) if word == command)
}

/// What one of our own parsers advised.
fn hint_of_value(error: &clap::Error) -> Option<String> {
    let source = std::error::Error::source(error)?;
    source.downcast_ref::<crate::values::BadValue>()?.hint.clone()
}

/// A message of several words without quotes is what people write first.
fn unquoted_message(error: &clap::Error, command: Option<&str>) -> Option<String> {
    use clap::error::{ContextKind, ContextValue, ErrorKind};
    let hint = || Some("put a message of several words in quotes".into());
    match (error.kind(), error.get(ContextKind::InvalidArg)) {
        _ if command != Some("save") => None,
        // `-m Before adding Stripe`: the second word is the message in another place.
        (ErrorKind::ArgumentConflict, Some(ContextValue::String(argument)))
            if argument.contains("MESSAGE") =>
        {
            hint()
        }
        (ErrorKind::UnknownArgument, Some(ContextValue::String(word)))
            if !word.starts_with('-') =>
        {
            hint()
        }
        _ => None,
    }
}

/// A path without `--` before it is what people write first, too.
fn path_without_dashes(error: &clap::Error, command: Option<&str>) -> Option<String> {
    use clap::error::{ContextKind, ContextValue, ErrorKind};
    let before = match command? {
        "diff" => "diff",
        "restore" => "restore latest",
        _ => return None,
    };
    let given = match error.kind() {
        ErrorKind::ValueValidation => error.get(ContextKind::InvalidValue),
        ErrorKind::UnknownArgument => error.get(ContextKind::InvalidArg),
        _ => None,
    };
    match given {
        Some(ContextValue::String(path))
            if !path.starts_with('-') && (path.contains('/') || Path::new(path).exists()) =>
        {
            Some(format!("paths come after `--`: rappel {before} -- {}", quote(path)))
        }
        _ => None,
    }
}

/// The command that a word is a slip of.
fn nearest_command(error: &clap::Error) -> Option<String> {
    use clap::error::{ContextKind, ContextValue};
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) else {
        return None;
    };
    let usage = error.get(ContextKind::Usage).map(ToString::to_string).unwrap_or_default();
    // The usage names the command whose verb it would have been.
    let above: Vec<&str> = usage
        .split_whitespace()
        .skip_while(|word| *word != "rappel")
        .skip(1)
        .take_while(|word| word.chars().all(|c| c.is_ascii_lowercase()))
        .collect();
    let words = above.iter().copied().chain([word.as_str()]).collect::<Vec<_>>();
    crate::commands::help::did_you_mean(&words)
}
