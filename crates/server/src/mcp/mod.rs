//! `rappel mcp`: the engine for agents, over the Model Context Protocol on stdin and stdout.
//!
//! A face like the command line and HTTP: a tool reads its arguments, asks the engine, and answers
//! with the engine's type as `structuredContent` and a short text for the model. Every rule lives
//! in the engine. Each call opens the workspace anew, as a new process would.

mod advice;
mod answer;
mod caller;
mod changing;
mod input;
mod looking;
mod prompt;
mod server;
mod tools;

use std::io;
use std::pin::pin;
use std::time::Duration;

use rappel::OpenOptions;
use rappel::types::agents::SessionId;
use rmcp::ServiceExt;

use crate::serve::asked_to_end;

pub use tools::all as tools;

/// What a server is started with.
#[derive(Clone)]
pub struct McpOptions {
    /// How workspaces are opened. Its root is the workspace of a client that names none.
    pub open: OpenOptions,
    /// The user named the workspace: what the client calls its roots does not count.
    pub is_fixed: bool,
    /// The session that the environment names.
    pub session: Option<SessionId>,
    /// Agents that started this process: their names, and what they call their session.
    pub agents: Vec<(String, String)>,
}

/// Serves one client on stdin and stdout until it hangs up.
pub fn serve(options: McpOptions) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let server = server::Server::new(options);
    let calls = server.calls();
    let ending = calls.clone();
    let served = runtime.block_on(async move {
        let mut asked = pin!(asked_to_end());
        let running = match server.serve(rmcp::transport::stdio()).await {
            Ok(running) => running,
            // A client that hangs up before it said anything wanted nothing.
            Err(rmcp::service::ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
            Err(error) => return Err(io::Error::other(error)),
        };
        let mut is_asked = false;
        let served = tokio::select! {
            ended = running.waiting() => ended.map(drop).map_err(io::Error::other),
            () = &mut asked => {
                is_asked = true;
                Ok(())
            }
        };
        // Work that was begun is finished before the process ends. If the process is asked to end
        // at once, it is rolled back.
        loop {
            if is_asked {
                ending.cancel_all();
            }
            if ending.are_done() {
                return served;
            }
            tokio::select! {
                () = &mut asked, if !is_asked => is_asked = true,
                () = tokio::time::sleep(Duration::from_millis(10)) => {}
            }
        }
    });
    // A thread may still wait for the client's next line.
    runtime.shutdown_background();
    calls.end_sessions();
    served
}
