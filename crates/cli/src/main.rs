//! The `rappel` command: reads the command line, has the engine do the work, shows what came of it.

mod ancestors;
mod args;
mod commands;
mod confirm;
mod detached;
mod errors;
mod face;
mod logging;
mod output;
mod pager;
mod payload;
mod process;
mod progress;
#[cfg(test)]
#[path = "../tests/support/pty.rs"]
mod pty;
mod screen;
mod signals;
mod streams;
mod supervise;
mod typed;
mod values;
mod waiting;
mod worker;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;

use crate::args::{Cli, Glance};
use crate::errors::{Failure, Result};
use crate::output::Output;
use crate::process::Context;

fn main() -> ExitCode {
    let arguments = match typed::expand(std::env::args_os().collect()) {
        Ok(arguments) => arguments,
        Err(failure) => {
            return finish(Err(failure), &Output::new(false, false, args::Colour::Auto.into()));
        }
    };
    match Cli::try_parse_from(&arguments) {
        Ok(cli) => {
            let flags = &cli.flags;
            let mut output = Output::new(flags.json, flags.quiet, flags.color.into());
            output.pager = process::pager(flags);
            logging::start(&output);
            let is_hook = matches!(cli.command, Some(args::Command::Hook(_)));
            if is_hook && std::env::current_dir().is_err() {
                // Its folder is gone; the agent's variable says where it works.
                let _ = std::env::set_current_dir("/");
            }
            let result = Context::new(flags, &output).and_then(|context| run(&cli, &context));
            finish(result, &output)
        }
        Err(error) => explain(&error, arguments.get(1..).unwrap_or_default()),
    }
}

fn run(cli: &Cli, context: &Context) -> Result {
    match &cli.command {
        Some(command) => command.run(context),
        None => commands::help::short(context.output),
    }
}

/// The exit code of what came of a command; a failure is told first. That nobody reads the answer
/// any more is no failure.
fn finish(result: Result, output: &Output) -> ExitCode {
    match result {
        Ok(exit @ errors::Exit::Passed(_)) => exit.exit_code(),
        _ if output.is_closed() => ExitCode::SUCCESS,
        Ok(exit) => exit.exit_code(),
        Err(failure) => {
            failure.show(output);
            failure.exit_code()
        }
    }
}

/// What clap answered instead of a command: help and version that were asked for, or a mistake.
fn explain(error: &clap::Error, arguments: &[OsString]) -> ExitCode {
    let glance = Glance::over(arguments);
    let output = Output::new(glance.json, false, args::Colour::Auto.into());
    // The agent would take our exit code for a refusal of what it is about to do.
    if glance.command == Some("hook") && error.use_stderr() {
        Failure::from_clap(error, glance.command).show(&output);
        return ExitCode::SUCCESS;
    }
    let result = match error.kind() {
        ErrorKind::DisplayHelp if glance.command.is_none() => commands::help::short(&output),
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            let text = error.render();
            let text = match output.paint().is_on() {
                true => text.ansi().to_string(),
                false => text.to_string(),
            };
            output.answer(|out| Ok(out.write_all(text.as_bytes())?)).map(|()| errors::Exit::Done)
        }
        _ => Err(Failure::from_clap(error, glance.command)),
    };
    finish(result, &output)
}
