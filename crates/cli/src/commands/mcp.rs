//! `rappel mcp`.

use rappel_hooks::VENDORS;
use rappel_server::mcp::{self, McpOptions};

use crate::errors::{Exit, Result};
use crate::process::{self, Context};

/// Serve an agent over MCP, on stdin and stdout
///
/// The agent gets tools to save, list, show, compare, restore and undo, and to record and recall
/// what it knows. The workspace is the folder that the agent names as its first root, else this one;
/// -C and --workspace name another. Nothing is printed but the protocol.
///
/// `rappel integrate AGENT --mcp` registers it.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "\
Examples:
  rappel mcp
  rappel -C ~/my-app mcp
  rappel integrate claude --mcp
  rappel integrate codex --mcp")]
pub struct Args {}

pub fn run(_: &Args, context: &Context) -> Result {
    // What an agent calls its session, where it says so in the environment.
    let named =
        |vendor: &&rappel_hooks::Vendor| Some((vendor.name.to_owned(), process::named_by(vendor)?));
    mcp::serve(McpOptions {
        open: context.options()?,
        is_fixed: context.names_workspace(),
        session: context.named_session(None)?,
        agents: VENDORS.iter().filter_map(named).collect(),
    })?;
    Ok(Exit::Done)
}
