//! `rappel cat`.

use rappel_types::{Reference, RelPath};
use serde_json::{Value, json};

use crate::errors::{Exit, Result};
use crate::process::Context;
use crate::values;

/// Print a file as a checkpoint holds it
///
/// The path is relative to the workspace's root. A symbolic link prints where it points. With
/// --json, content that is not UTF-8 is given in base 64.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "\
Examples:
  rappel cat latest:src/main.rs
  rappel cat \"@{yesterday 14:00}:notes.md\" > notes-then.md
  rappel cat latest~3:Cargo.toml | diff - Cargo.toml")]
pub struct Args {
    /// Which checkpoint, and which file in it
    #[arg(value_name = "REF:PATH", value_parser = values::reference_and_path)]
    pub place: (Reference, RelPath),
}

pub fn run(args: &Args, context: &Context) -> Result {
    let (reference, path) = &args.place;
    let rappel = context.open()?;
    if context.output.json {
        let mut bytes = Vec::new();
        rappel.cat(reference, path, &mut bytes)?;
        context.output.answer_json(&document(path, bytes))?;
        return Ok(Exit::Done);
    }
    context.output.answer(|out| Ok(rappel.cat(reference, path, out)?))?;
    Ok(Exit::Done)
}

/// The file as one JSON document: text as it is, anything else in base 64.
fn document(path: &RelPath, bytes: Vec<u8>) -> Value {
    let length = bytes.len();
    match String::from_utf8(bytes) {
        Ok(text) => json!({"path": path, "bytes": length, "content": text}),
        Err(error) => {
            let encoded = base64(error.as_bytes());
            json!({"path": path, "bytes": length, "content_base64": encoded})
        }
    }
}

/// Base 64 as RFC 4648 has it, with padding.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let byte = |place: usize| u32::from(group.get(place).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for place in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * place) & 63) as usize];
            text.push(if place > group.len() { '=' } else { char::from(digit) });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_that_of_the_standard() {
        for (bytes, text) in [
            (&b""[..], ""),
            (b"f", "Zg=="),
            (b"fo", "Zm8="),
            (b"foo", "Zm9v"),
            (b"foobar", "Zm9vYmFy"),
            (b"\xff\xfe\xfd", "//79"),
        ] {
            assert_eq!(base64(bytes), text);
        }
    }
}
