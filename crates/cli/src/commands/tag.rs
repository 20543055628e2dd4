//! `rappel tag`.

use rappel::Label;
use rappel_types::Reference;
use serde_json::Value;

use crate::errors::{Exit, Result};
use crate::output::clean;
use crate::process::Context;
use crate::values;

/// Give tags to a checkpoint, or take them away
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "\
Examples:
  rappel tag latest green
  rappel tag 42 release,reviewed
  rappel tag 42 --remove green
  rappel tag latest --meta step_number=3
  rappel tag latest --meta step_number=")]
pub struct Args {
    /// Which checkpoint
    #[arg(value_name = "REF", value_parser = values::reference)]
    pub reference: Reference,
    /// The tags, by commas or spaces
    #[arg(value_name = "TAG", value_delimiter = ',', value_parser = values::tag)]
    #[arg(required_unless_present_any = ["remove", "meta"])]
    pub tags: Vec<String>,
    /// A tag to take away, by commas or repeated
    #[arg(long, value_name = "TAG", value_delimiter = ',', value_parser = values::tag)]
    pub remove: Vec<String>,
    /// A value to keep with it; repeatable. `KEY=` takes a value away
    #[arg(long, value_name = "KEY=VALUE", value_parser = values::key_value)]
    pub meta: Vec<(String, Value)>,
}

pub fn run(args: &Args, context: &Context) -> Result {
    let taken = |value: &Value| value.as_str().is_some_and(str::is_empty);
    let value = |value: &Value| if taken(value) { Value::Null } else { value.clone() };
    let metadata = args.meta.iter().map(|(key, it)| (key.clone(), value(it))).collect();
    let rappel = context.open()?;
    let (add, remove) = (args.tags.clone(), args.remove.clone());
    let label = Label { add, remove, metadata, ..Label::default() };
    let checkpoint = rappel.relabel(&args.reference, &label)?;
    let output = context.output;
    if output.json {
        output.answer_json(&checkpoint)?;
    } else if !output.quiet {
        let id = output.paint().id(checkpoint.manifest.id.as_str());
        let said = match &checkpoint.manifest.tags[..] {
            [] => format!("{id} has no tags"),
            tags => format!("Tagged {id}: {}", clean(&tags.join(", "))),
        };
        output.answer(|out| Ok(writeln!(out, "{said}")?))?;
    }
    Ok(Exit::Done)
}
