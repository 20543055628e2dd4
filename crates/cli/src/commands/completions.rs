//! `rappel completions`.

use clap::CommandFactory;
use clap_complete::Shell;

use crate::args::Cli;
use crate::errors::{Exit, Failure, Result};
use crate::process::Context;

/// Print completions for a shell
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "\
Examples:
  rappel completions bash > ~/.local/share/bash-completion/completions/rappel
  rappel completions zsh > ~/.zfunc/_rappel
  rappel completions fish > ~/.config/fish/completions/rappel.fish")]
pub struct Args {
    /// Which shell
    #[arg(value_enum)]
    pub shell: Shell,
}

pub fn run(args: &Args, context: &Context) -> Result {
    if context.output.json {
        return Err(Failure::usage("completions have no JSON form", "leave out --json"));
    }
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "rappel", &mut script);
    context.output.answer(|out| Ok(out.write_all(&script)?))?;
    Ok(Exit::Done)
}
