//! What MCP asks of a server: what it is, its tools, calls. Carries nothing out itself.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rmcp::handler::server::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData, Implementation,
    JsonObject, ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig,
    SubscriptionFilter, Tool,
};
use rmcp::service::{RequestContext, RoleServer, SubscriptionContext};
use subagent_protocol::Code;
use tokio::sync::watch;
use tokio::time::timeout;

use super::answers;
use super::arguments::Call;
use super::calls::Caller;
use super::changes::Changes;
use super::manager::{self, Commands};
use super::tools::{INSTRUCTIONS, tools};
use super::{Offer, prefix};
use crate::client::{Ask, Client, Query};
use crate::tasks::Giver;

/// How long the list of tools may be waited for. Clients leave a server that does not come up.
const LIST_LIMIT: Duration = Duration::from_secs(8);

/// How long a daemon is asked whether the client is a manager; together with [`LIST_LIMIT`] less than clients wait.
const PROBE_LIMIT: Duration = Duration::from_secs(1);

/// One server, for one client.
#[derive(Debug, Clone)]
pub(super) struct Server(Arc<Shared>);

/// What all calls have in common.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) giver: Giver,
    pub(super) changes: Changes,
    /// Whether the client has gone.
    pub(super) closed: watch::Receiver<bool>,
    /// Every call that is carried out listens to it.
    pub(super) busy: Arc<watch::Sender<()>>,
    /// The tools as they were listed last.
    listed: Mutex<Vec<Tool>>,
    offer: Offer,
}

impl Shared {
    /// The name by which the client calls a tool.
    pub(super) fn name(&self, tool: &str) -> String {
        if self.offer.prefix { prefix::with_prefix(tool) } else { tool.to_owned() }
    }

    /// What starts workers and talks to them; none below a worker.
    pub(super) fn commands(&self) -> Option<&dyn Commands> {
        self.offer.commands.as_deref().filter(|_| self.giver.token().is_none())
    }

    fn offers(&self, tool: &str) -> bool {
        self.offer.tools.is_empty() || self.offer.tools.iter().any(|name| name == tool)
    }
}

impl Server {
    pub(super) fn new(
        giver: Giver,
        offer: Offer,
        closed: watch::Receiver<bool>,
        busy: Arc<watch::Sender<()>>,
    ) -> Self {
        let listed = Mutex::default();
        Self(Arc::new(Shared { giver, changes: Changes::default(), closed, busy, listed, offer }))
    }

    /// The tools of now; those that were listed last where that is not known.
    async fn tools(&self, context: &RequestContext<RoleServer>) -> Vec<Tool> {
        let is_told = self.0.giver.token().is_some();
        let listed = || self.0.listed.lock().unwrap_or_else(PoisonError::into_inner);
        let found = timeout(LIST_LIMIT, self.0.changes.list(&self.0, &context.peer)).await;
        if let Ok(Ok(agents)) = found {
            let tools = self.named(tools(&agents, is_told), self.manages().await);
            *listed() = tools;
        } else {
            self.0.changes.missed(&self.0, &context.peer);
            if listed().is_empty() {
                // An answer with an error would be the end of this server for most clients.
                *listed() = self.named(tools(&[], is_told), false);
            }
        }
        listed().clone()
    }

    /// The tools that this server offers, by the names that its client sees.
    fn named(&self, mut tools: Vec<Tool>, manages: bool) -> Vec<Tool> {
        if manages {
            tools.extend(manager::tools());
        }
        tools.retain(|tool| self.0.offers(&tool.name));
        if self.0.offer.prefix { tools.into_iter().map(prefix::tool).collect() } else { tools }
    }

    /// Whether the client is a manager: not the agent of a worker, which a daemon that runs refuses. Starts no daemon.
    async fn manages(&self) -> bool {
        let Some(workspace) = self.0.commands().and_then(|_| self.0.giver.workspace().ok()) else {
            return false;
        };
        // The list is empty for an owner. A daemon that does not answer refuses nothing.
        let ask = Ask::get(Query::new("/v1/tasks").with("parent", Some("w_0000000000")));
        let mut client = Client::of_running(workspace.state_dir);
        let asked = timeout(PROBE_LIMIT, client.ask(&ask)).await;
        !matches!(asked, Ok(Err(failure)) if failure.is(Code::ForbiddenFromWorker))
    }

    /// Carries a call of a manager's tool out; `None` if it is not one.
    async fn manage(
        &self,
        tool: &str,
        arguments: &JsonObject,
        context: &RequestContext<RoleServer>,
    ) -> Option<CallToolResult> {
        let commands = self.0.commands()?;
        Some(match manager::Call::parse(tool, arguments.clone())? {
            Err(malformed) => CallToolResult::error(vec![ContentBlock::text(malformed)]),
            Ok(call) => Caller::new(self.0.clone(), context.clone()).manage(commands, call).await,
        })
    }
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().enable_tool_list_changed().build();
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
        match own.and_then(|name| Call::parse(name, arguments)) {
            None => {
                let message =
                    format!("there is no tool {:?}; tools/list has those that there are", request.name);
                Err(ErrorData::invalid_params(message, None))
            }
            // A model reads the results of its tools, and not the errors of the protocol.
            Some(Err(malformed)) => Ok(answers::malformed(&malformed).into()),
            Some(Ok(call)) => Ok(Box::pin(Caller::new(self.0.clone(), context).carry_out(call)).await.into()),
        }
    }

    fn accepted_subscription_filter(&self, _requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(SubscriptionFilter::builder().tools_list_changed().build())
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let mut closed = self.0.closed.clone();
        tokio::select! {
            () = context.cancelled() => {}
            _ = closed.wait_for(|closed| *closed) => {}
            () = self.0.changes.tell(context.sink()) => {}
        }
        Ok(())
    }
}
