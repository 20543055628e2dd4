//! `rappel import`.

use std::path::PathBuf;

use rappel::formats::Form;
use rappel::{ErrorKind, ImportOptions, Imported};

use crate::errors::{Exit, Failure, Result};
use crate::output::clean;
use crate::process::Context;
use crate::{face, progress};

/// How many of the things that could not be imported are named.
const NAMED: usize = 10;

/// Bring in checkpoints that another tool made
///
/// They become a lineage of the workspace: a history of its own beside the workspace's. Lists show
/// both, and FORMAT:ID names one of them. Nothing in the workspace changes, and importing the same
/// thing again adds nothing.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "\
Examples:
  rappel import ~/.lugh/checkpoints
  rappel import .loki
  rappel import session.json --format forge
  rappel import .aiwg/ralph-external/iterations/001
  rappel import checkpoints --json | jq .imported")]
pub struct Args {
    /// The folder or file with the checkpoints
    #[arg(value_name = "PATH", value_hint = clap::ValueHint::AnyPath)]
    pub path: PathBuf,
    /// Their form: rappel, lugh, loki, forge, caf or aiwg; found out if not given
    #[arg(long, value_name = "FORMAT", value_parser = format())]
    pub format: Option<Form>,
}

/// The forms by their names, which completion knows too.
fn format() -> impl clap::builder::TypedValueParser<Value = Form> {
    use clap::builder::{PossibleValuesParser, TypedValueParser};
    PossibleValuesParser::new(Form::ALL.map(Form::as_str)).try_map(|name| name.parse::<Form>())
}

pub fn run(args: &Args, context: &Context) -> Result {
    let rappel = context.open()?;
    let options = ImportOptions { path: context.absolute(&args.path), form: args.format };
    context.stop_cleanly();
    let imported = progress::watch(context, "Reading checkpoints", || rappel.import(&options))?;
    let output = context.output;
    let (skipped, more) = imported.skipped.split_at(imported.skipped.len().min(NAMED));
    if !output.json {
        for one in skipped {
            output.warning(&format!("not imported: {}: {}", clean(&one.path), clean(&one.reason)));
        }
        if !more.is_empty() {
            output.warning(&format!("and {} more were not imported", more.len()));
        }
    }
    // Nothing of it is here: whoever asked for it has to know.
    let failed = imported.imported == 0 && imported.known == 0 && !imported.skipped.is_empty();
    if output.json {
        output.answer_json(&imported)?;
    } else if !output.quiet && !failed {
        let text = told(&imported, context);
        output.answer(|out| Ok(out.write_all(text.as_bytes())?))?;
    }
    match failed {
        true if output.json => Ok(Exit::Bad(ErrorKind::Failed)),
        true => Err(Failure::failed("nothing was imported")),
        false => Ok(Exit::Done),
    }
}

fn told(imported: &Imported, context: &Context) -> String {
    let Imported { imported: new, known, lineage, .. } = imported;
    let Some(lineage) = lineage else { return "There is no checkpoint to import.\n".into() };
    let from = format!("{} ({})", clean(&lineage.place), lineage.format);
    let already = match known {
        0 => String::new(),
        known => format!(", {} imported before", face::count(*known, "was", "were")),
    };
    let many = face::count(*new, "checkpoint", "checkpoints");
    let show = context.suggest("list");
    let prune = context.suggest(&format!("--workspace {} list", lineage.workspace));
    format!(
        "Imported {many} from {from}{already}\n\
         See them with:      {show}\n\
         Only them:          {prune}\n"
    )
}
