//! Implements the methods of an MCP server: initialization, tool lists, calls. Other modules execute the
//! calls.

#![allow(deprecated, reason = "messages and subscriptions of the revisions of MCP that clients speak now")]

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rmcp::handler::server::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData, Implementation,
    JsonObject, ListResourcesResult, ListToolsResult, PaginatedRequestParams, ReadResourceRequestParams,
    ReadResourceResponse, ReadResourceResult, Resource, ResourceContents, ServerCapabilities, ServerConfig,
    SetLevelRequestParams, SubscribeRequestParams, SubscriptionFilter, Tool, UnsubscribeRequestParams,
};
use rmcp::service::{RequestContext, RoleServer, SubscriptionContext};
use subagent_protocol::Code;
use tokio::sync::watch;
use tokio::time::timeout;

use super::answers;
use super::arguments::TaskToolCall;
use super::calls::{ToolCallHandler, own_tasks};
use super::changes::AgentListNotifier;
use super::ends::{EndNotifier, TASKS};
use super::manager::{self, Commands};
use super::tools::{INSTRUCTIONS, tools};
use super::{ToolOffer, prefix};
use crate::client::{ApiRequest, DaemonClient, RequestPath};
use crate::failure::Failure;
use crate::tasks::TaskSubmitter;

/// Timeout of the tool list. Clients drop a server that starts too slowly.
const LIST_LIMIT: Duration = Duration::from_secs(8);

/// Timeout of the question whether the client is a manager. Together with [`LIST_LIMIT`] it is less than
/// clients wait.
const PROBE_LIMIT: Duration = Duration::from_secs(1);

/// The server for one client.
#[derive(Debug, Clone)]
pub(super) struct ToolServer(Arc<ToolServerState>);

/// The state that all calls share.
#[derive(Debug)]
pub(super) struct ToolServerState {
    pub(super) submitter: Arc<TaskSubmitter>,
    pub(super) changes: AgentListNotifier,
    pub(super) ends: EndNotifier,
    /// Whether the client has disconnected.
    pub(super) closed: watch::Receiver<bool>,
    /// Counts running calls: each holds a receiver.
    pub(super) busy: Arc<watch::Sender<()>>,
    /// The tools in the last list.
    listed: Mutex<Vec<Tool>>,
    offer: ToolOffer,
}

impl ToolServerState {
    /// Returns the name of a tool as the client sees it.
    pub(super) fn name(&self, tool: &str) -> String {
        if self.offer.prefix { prefix::with_prefix(tool) } else { tool.to_owned() }
    }

    /// Returns the commands for a manager; `None` for a worker's agent.
    pub(super) fn commands(&self) -> Option<&dyn Commands> {
        self.offer.commands.as_deref().filter(|_| self.submitter.token().is_none())
    }

    fn offers(&self, tool: &str) -> bool {
        self.offer.tools.is_empty() || self.offer.tools.iter().any(|name| name == tool)
    }
}

impl ToolServer {
    pub(super) fn new(
        submitter: TaskSubmitter,
        offer: ToolOffer,
        closed: watch::Receiver<bool>,
        busy: Arc<watch::Sender<()>>,
    ) -> Self {
        let submitter = Arc::new(submitter);
        let (changes, ends) =
            (AgentListNotifier::default(), EndNotifier::new(submitter.clone(), closed.clone()));
        Self(Arc::new(ToolServerState {
            submitter,
            changes,
            ends,
            closed,
            busy,
            listed: Mutex::default(),
            offer,
        }))
    }

    /// Returns the current tools, or those of the last list if they cannot be determined.
    async fn tools(&self, context: &RequestContext<RoleServer>) -> Vec<Tool> {
        let is_notified = self.0.submitter.token().is_some();
        let listed = || self.0.listed.lock().unwrap_or_else(PoisonError::into_inner);
        let found = timeout(LIST_LIMIT, self.0.changes.list(&self.0, &context.peer)).await;
        if let Ok(Ok(agents)) = found {
            let tools = self.named(tools(&agents, is_notified), self.manages().await);
            *listed() = tools;
        } else {
            self.0.changes.missed(&self.0, &context.peer);
            if listed().is_empty() {
                // With an error response most clients would drop this server.
                *listed() = self.named(tools(&[], is_notified), false);
            }
        }
        listed().clone()
    }

    /// Returns the offered tools with the names that the client sees.
    fn named(&self, mut tools: Vec<Tool>, manages: bool) -> Vec<Tool> {
        if manages {
            tools.extend(manager::tools());
        }
        tools.retain(|tool| self.0.offers(&tool.name));
        if self.0.offer.prefix { tools.into_iter().map(prefix::tool).collect() } else { tools }
    }

    /// Whether the client is a manager, not a worker's agent: a running daemon refuses agents. Starts no
    /// daemon.
    async fn manages(&self) -> bool {
        let Some(workspace) = self.0.commands().and_then(|_| self.0.submitter.workspace().ok()) else {
            return false;
        };
        // The list is empty for an owner. An unresponsive daemon refuses nothing.
        let ask = ApiRequest::get(RequestPath::new("/v1/tasks").with("parent", Some("w_0000000000")));
        let mut client = DaemonClient::of_running(workspace.state_dir);
        let asked = timeout(PROBE_LIMIT, client.ask(&ask)).await;
        !matches!(asked, Ok(Err(failure)) if failure.is(Code::ForbiddenFromWorker))
    }

    /// Checks that the client has this resource.
    fn has(&self, uri: &str) -> Result<(), ErrorData> {
        if uri == TASKS && self.0.ends.is_notified() {
            return Ok(());
        }
        let message = format!("there is no resource {uri:?}; resources/list has those that there are");
        Err(ErrorData::resource_not_found(message, None))
    }

    /// Returns the tasks of a manager. If the client wants their ends, running background tasks are watched
    /// from now on. Starts no daemon, since without one no task changes.
    async fn tasks(
        &self,
        context: &RequestContext<RoleServer>,
        watch: bool,
    ) -> std::result::Result<String, Failure> {
        let mut client = DaemonClient::of_running(self.0.submitter.workspace()?.state_dir);
        let tasks = match own_tasks(&self.0, &mut client).await {
            Err(failure) if failure.is(Code::DaemonNotRunning) => Vec::new(),
            tasks => tasks?,
        };
        if watch {
            tasks.iter().for_each(|task| self.0.ends.watch(&context.peer, task));
        }
        Ok(answers::listed(&tasks).to_string())
    }

    /// Executes a call of a manager's tool; `None` if it is not one.
    async fn manage(
        &self,
        tool: &str,
        arguments: &JsonObject,
        context: &RequestContext<RoleServer>,
    ) -> Option<CallToolResult> {
        let commands = self.0.commands()?;
        Some(match manager::ManagerToolCall::parse(tool, arguments.clone())? {
            Err(malformed) => CallToolResult::error(vec![ContentBlock::text(malformed)]),
            Ok(call) => ToolCallHandler::new(self.0.clone(), context.clone()).manage(commands, call).await,
        })
    }
}

impl ServerHandler for ToolServer {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().enable_tool_list_changed();
        let capabilities = if self.0.ends.is_notified() {
            capabilities.enable_logging().enable_resources().enable_resources_subscribe().build()
        } else {
            capabilities.build()
        };
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("subagent", env!("CARGO_PKG_VERSION")))
            .with_instructions(if self.0.offer.prefix {
                prefix::text(INSTRUCTIONS)
            } else {
                INSTRUCTIONS.to_owned()
            })
    }

    async fn list_tools(
        &self,
        _page: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.tools(&context).await))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        self.0.changes.called(&self.0, &context.peer).await;
        let arguments = request.arguments.unwrap_or_default();
        let own = if self.0.offer.prefix { prefix::own(&request.name) } else { Some(&*request.name) };
        let own = own.filter(|name| self.0.offers(name));
        if let Some(name) = own
            && let Some(answer) = Box::pin(self.manage(name, &arguments, &context)).await
        {
            return Ok(answer.into());
        }
        match own.and_then(|name| TaskToolCall::parse(name, arguments)) {
            None => {
                let message =
                    format!("there is no tool {:?}; tools/list has those that there are", request.name);
                Err(ErrorData::invalid_params(message, None))
            }
            // A model reads tool results, but not protocol errors.
            Some(Err(malformed)) => Ok(answers::malformed(&malformed).into()),
            Some(Ok(call)) => {
                Ok(Box::pin(ToolCallHandler::new(self.0.clone(), context).carry_out(call)).await.into())
            }
        }
    }

    async fn list_resources(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let tasks = Resource::new(TASKS, "tasks")
            .with_title("Tasks")
            .with_description(
                "The tasks that were given from this workspace; changes when one in the background ends",
            )
            .with_mime_type("application/json");
        Ok(ListResourcesResult::with_all_items(
            self.0.ends.is_notified().then_some(tasks).into_iter().collect(),
        ))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        self.has(&request.uri)?;
        let text = self.tasks(&context, false).await.map_err(unreadable)?;
        let content = ResourceContents::text(text, TASKS).with_mime_type("application/json");
        Ok(ReadResourceResult::new(vec![content]).into())
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.has(&request.uri)?;
        self.0.ends.subscribe(true);
        self.tasks(&context, true).await.map(drop).map_err(unreadable)
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.has(&request.uri)?;
        self.0.ends.subscribe(false);
        Ok(())
    }

    async fn set_level(
        &self,
        request: SetLevelRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.0.ends.set_level(request.level);
        Ok(())
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        let mut accepted = SubscriptionFilter::builder().tools_list_changed().build();
        if self.0.ends.is_notified() {
            accepted.resource_subscriptions =
                requested.resource_subscriptions.as_ref().map(|_| vec![TASKS.to_owned()]);
        }
        Some(accepted)
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let mut closed = self.0.closed.clone();
        let tools = context.accepted().tools_list_changed == Some(true);
        if context.accepted().resource_subscriptions.is_some() {
            self.tasks(context.request_context(), true).await.map_err(unreadable)?;
        }
        tokio::select! {
            () = context.cancelled() => {}
            _ = closed.wait_for(|closed| *closed) => {}
            () = self.0.changes.notify(context.sink()), if tools => {}
            () = self.0.ends.notify(context.sink()) => {}
        }
        Ok(())
    }
}

fn unreadable(failure: Failure) -> ErrorData {
    ErrorData::internal_error(format!("{}: {}", failure.code, failure.message), None)
}
