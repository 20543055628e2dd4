//! `rappel log`.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rappel::ErrorKind;
use rappel_types::RelPath;

use crate::args::Limit;
use crate::errors::{Exit, Failure, Result};
use crate::face;
use crate::process::Context;

/// Show who changed a file when: checkpoint, session, tool call
///
/// What agents did is shown where it names the file and happened before that checkpoint and after
/// the one before.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "\
Examples:
  rappel log src/main.rs
  rappel log src -n 50
  rappel log src/main.rs --json | jq '.changes[0].events'")]
pub struct Args {
    /// The file or folder
    #[arg(value_name = "PATH")]
    path: Option<OsString>,
    #[command(flatten)]
    limit: Limit,
}

pub fn run(args: &Args, context: &Context) -> Result {
    let rappel = context.open()?;
    let Some(given) = &args.path else {
        return Err(Failure::usage(
            "log shows who changed a file or folder; name one",
            format!(
                "{}; {} shows the checkpoints",
                context.suggest("log src/main.rs"),
                context.suggest("list")
            ),
        ));
    };
    let Some(path) = context.paths(rappel.root(), [given])?.pop() else {
        return Err(Failure::usage("that is the whole workspace", "rappel list"));
    };
    let log = rappel.log(&path, Some(args.limit.most()))?;
    if log.total == 0 && log.unreadable.is_empty() && !is_there(rappel.root(), &path) {
        return Err(Failure {
            kind: ErrorKind::NotFound,
            message: format!("there is no {path}, and no checkpoint has it"),
            hint: Some("rappel show latest --files lists what a checkpoint holds".into()),
        });
    }
    let output = context.output;
    face::checkpoint::warn_unreadable(&log.unreadable, output);
    if output.json {
        output.answer_json(&log)?;
    } else {
        let text = face::found::log(&log, context.now(), output.paint());
        output.page(|out| Ok(out.write_all(text.as_bytes())?))?;
    }
    Ok(Exit::Done)
}

fn is_there(root: &Path, path: &RelPath) -> bool {
    root.join(OsStr::from_bytes(path.as_bytes())).symlink_metadata().is_ok()
}
