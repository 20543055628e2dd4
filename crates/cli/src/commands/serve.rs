//! `rappel serve`.

use std::net::IpAddr;
use std::process::{Command, Stdio};
use std::sync::Arc;

use rappel::{ErrorKind, Home, Rappel};
use rappel_server::{Bound, ServeError, ServeOptions, Server};

use super::integrate::installed_for;
use crate::errors::{Exit, Failure, Result};
use crate::process::Context;

/// Serve the HTTP API and the dashboard
///
/// Programs of yours on this machine may call it without a token; any other caller needs the one in
/// the home's file `token`. The first line on stdout is the URL. If a server of the same home has the
/// port already, this prints its URL and ends.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "\
Examples:
  rappel serve
  rappel serve --port 0
  rappel serve --open
  rappel serve --host 0.0.0.0 --allow-host box.example
  curl http://localhost:57374/api/checkpoints")]
pub struct Args {
    /// The port; 0 is a free one
    #[arg(long, value_name = "PORT", default_value_t = 57374)]
    port: u16,
    /// Listen on this address instead of this machine alone
    #[arg(long, value_name = "ADDRESS")]
    host: Option<IpAddr>,
    /// Also answer requests for this name; repeatable
    #[arg(long, value_name = "NAME")]
    allow_host: Vec<String>,
    /// Open the page in a browser
    #[arg(long)]
    open: bool,
}

pub fn run(args: &Args, context: &Context) -> Result {
    let home = Home::new(context.options()?);
    let options =
        ServeOptions { host: args.host, port: args.port, allow_hosts: args.allow_host.clone() };
    let folder = context.home()?;
    let installed = Arc::new(move |rappel: &Rappel| installed_for(rappel, &folder));
    let server = match Server::bind(home, installed, &options).map_err(failure)? {
        Bound::Already(address) => {
            let url = format!("http://{address}");
            tell(&url, context)?;
            context.output.note("a server of this home is running already");
            open(args, &url, context);
            return Ok(Exit::Done);
        }
        Bound::Here(server) => server,
    };
    let address = server.address();
    let url = match address.ip().is_loopback() {
        true => format!("http://{address}"),
        // Whoever comes from elsewhere needs the token.
        false => format!("http://{address}/#token={}", server.token()),
    };
    tell(&url, context)?;
    open(args, &url, context);
    server.run().map_err(failure)?;
    Ok(Exit::Done)
}

fn tell(url: &str, context: &Context) -> Result<()> {
    context.output.answer(|out| Ok(writeln!(out, "{url}")?))
}

/// Opens a browser, if that is asked for. The server serves all the same where there is none.
fn open(args: &Args, url: &str, context: &Context) {
    if !args.open {
        return;
    }
    let program = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let mut command = Command::new(program);
    command.arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    match command.spawn() {
        // Nobody waits for it, but its end has to be taken in.
        Ok(mut browser) => drop(std::thread::spawn(move || browser.wait())),
        Err(error) => {
            context
                .output
                .note(&format!("cannot start {program} ({error}); open the URL yourself"));
        }
    }
}

fn failure(error: ServeError) -> Failure {
    match error {
        ServeError::Home(error) => error.into(),
        ServeError::Taken { .. } => Failure {
            kind: ErrorKind::Failed,
            message: error.to_string(),
            hint: Some("rappel serve --port 0 takes a free one".into()),
        },
        other => Failure::failed(other.to_string()),
    }
}
