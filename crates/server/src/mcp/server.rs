//! The protocol: what the client asks, given to tools on threads of their own.

use std::borrow::Cow;
use std::sync::Arc;

use rappel::Operation;
use rmcp::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, ErrorCode, ErrorData, GetPromptRequestParams,
    GetPromptResponse, Implementation, ListPromptsResult, ListToolsResult, PaginatedRequestParams,
    ProtocolVersion, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::{RequestContext, RoleServer};

use super::McpOptions;
use super::caller::{Call, Calls};
use super::prompt;
use super::tools::{self, Entry};

const INSTRUCTIONS: &str = "Rappel keeps save states of this workspace: files, git, databases, and what you know. \
    Save before anything risky and when a step works. To go back: `list` or `find`, `diff`, then `restore` for a plan \
    and `restore` with its hash. After a compaction call `recall` first. Record hypotheses and what became of them.";

/// A server for one client.
pub struct Server {
    calls: Arc<Calls>,
    entries: Arc<Vec<Entry>>,
}

impl Server {
    pub fn new(options: McpOptions) -> Self {
        Self { calls: Arc::new(Calls::new(options)), entries: Arc::new(tools::all()) }
    }

    /// What outlives the conversation.
    pub fn calls(&self) -> Arc<Calls> {
        self.calls.clone()
    }

    /// Does work of the engine on a thread of its own. A client that cancels stops it.
    async fn work<T: Send + 'static>(
        &self,
        context: &RequestContext<RoleServer>,
        work: impl FnOnce(&Call) -> T + Send + 'static,
    ) -> Result<T, ErrorData> {
        let root = self.calls.root(&context.peer).await?;
        let client = context.peer.peer_info().map(|info| info.client_info.name.clone());
        let operation = Operation::default();
        let call = Call::new(self.calls.clone(), root, client, &context.meta, operation.clone());
        let under_way = self.calls.begin(&operation);
        let mut done = tokio::task::spawn_blocking(move || {
            let _under_way = under_way;
            work(&call)
        });
        let broken = |error: tokio::task::JoinError| {
            ErrorData::internal_error(format!("the work ended unexpectedly: {error}"), None)
        };
        tokio::select! {
            done = &mut done => return done.map_err(broken),
            () = context.ct.cancelled() => operation.cancel.cancel(),
        }
        done.await.map_err(broken)
    }
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().enable_prompts().build();
        let mut config = ServerConfig::new(capabilities);
        config.server_info =
            Implementation::new("rappel", env!("CARGO_PKG_VERSION")).with_title("Rappel");
        config.instructions = Some(INSTRUCTIONS.to_owned());
        config
    }

    /// Up to the last version in which a server may ask the client for its folders.
    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Cow::Borrowed(ProtocolVersion::known_up_to(&ProtocolVersion::V_2025_11_25))
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tools = self.entries.iter().map(|entry| entry.tool.clone()).collect();
        Ok(ListToolsResult::with_all_items(tools))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.entries.iter().find(|entry| entry.tool.name == name).map(|entry| entry.tool.clone())
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(place) = self.entries.iter().position(|entry| entry.tool.name == request.name)
        else {
            let message = format!("there is no tool {:?}", request.name);
            return Err(ErrorData::new(ErrorCode::INVALID_PARAMS, message, None));
        };
        let (entries, arguments) = (self.entries.clone(), request.arguments.unwrap_or_default());
        let replied = self.work(&context, move |call| entries[place].run(arguments, call)).await?;
        let result = match replied {
            Ok(reply) => reply.into_result(),
            Err(refused) => refused.into_result(),
        };
        Ok(result.into())
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        Ok(ListPromptsResult::with_all_items(prompt::all()))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        if request.name != prompt::NAME {
            let message = format!("there is no prompt {:?}", request.name);
            return Err(ErrorData::new(ErrorCode::INVALID_PARAMS, message, None));
        }
        let found = self.work(&context, prompt::recover).await?;
        found
            .map(Into::into)
            .map_err(|refused| ErrorData::new(ErrorCode::INVALID_PARAMS, refused.to_string(), None))
    }
}
