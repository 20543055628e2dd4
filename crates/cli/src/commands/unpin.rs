//! `rappel unpin`.

use rappel_types::Reference;

use crate::errors::Result;
use crate::process::Context;
use crate::values;

/// Unpin a checkpoint
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "\
Examples:
  rappel unpin 42")]
pub struct Args {
    /// Which checkpoint
    #[arg(value_name = "REF", value_parser = values::reference)]
    pub reference: Reference,
}

pub fn run(args: &Args, context: &Context) -> Result {
    super::pin::set(&args.reference, false, context)
}
