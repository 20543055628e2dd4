//! `rappel cat`.

use std::path::Path;

use rappel_types::{PathError, Reference, RelPath};
use serde_json::{Value, json};

use crate::errors::{Exit, Failure, Result};
use crate::process::Context;
use crate::values;

/// Print a file as a checkpoint holds it
///
/// The path is relative to the workspace's root, or to the present folder if it begins with ./ or ../
/// A symbolic link prints where it points; a SQLite database is printed as one file. With --json,
/// content that is not UTF-8 is given in base 64.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "\
Examples:
  rappel cat latest:src/main.rs
  rappel cat latest:./main.rs
  rappel cat \"@{yesterday 14:00}:notes.md\" > notes-then.md
  rappel cat latest~3:Cargo.toml | diff - Cargo.toml
  rappel cat latest:data/app.db > /tmp/app.db")]
pub struct Args {
    /// Which checkpoint, and which file in it
    #[arg(value_name = "REF:PATH", value_parser = values::reference_and_path)]
    pub place: (Reference, String),
}

pub fn run(args: &Args, context: &Context) -> Result {
    let (reference, given) = &args.place;
    let rappel = context.open()?;
    let path = path(given, rappel.root(), context)?;
    if context.output.json {
        let mut bytes = Vec::new();
        rappel.cat(reference, &path, &mut bytes)?;
        context.output.answer_json(&document(&path, bytes))?;
        return Ok(Exit::Done);
    }
    context.output.answer(|out| Ok(rappel.cat(reference, &path, out)?))?;
    Ok(Exit::Done)
}

/// The path of `REF:PATH`: counted from the root, or with `./` and `../` from the present folder.
fn path(given: &str, root: &Path, context: &Context) -> Result<RelPath> {
    if given.starts_with("./") || given.starts_with("../") {
        let found = context.paths(root, [&given.into()])?.pop();
        return found.ok_or_else(|| {
            Failure::usage("that is the whole workspace", "rappel show REF --files lists it")
        });
    }
    given.parse().map_err(|error: PathError| {
        let hint =
            "the path is relative to the workspace's root; `./` begins at the present folder";
        Failure::usage(error.to_string(), hint)
    })
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
