//! Delegation: the MCP server and the token with which a worker's agent creates tasks. The token is
//! stored only with the agent's environment; the database holds its hash. A token is accepted only
//! from processes of the worker.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::json;
use sha2::{Digest as _, Sha256};
use subagent_config::start::agent::given;
use subagent_protocol::api::{StartWorker, TASK_SERVER, TASK_TOKEN};
use subagent_protocol::ids::hex;
use subagent_protocol::mcp::{McpServers, TASK_SERVER_PROGRAM, complete_task_server};
use subagent_protocol::{Code, Error, Result};

use super::environment::AgentEnvironment;
use super::spec::Spec;
use crate::supervisor::entropy;
use crate::supervisor::shared::DaemonSettings;

/// The secret with which one worker creates tasks.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct TaskToken(String);

impl TaskToken {
    fn random() -> Result<Self> {
        Ok(Self(hex(&entropy::random::<32>()?)))
    }

    /// Returns the hash of a token, as the database stores it.
    pub(crate) fn hash(token: &str) -> String {
        hex(&Sha256::digest(token.as_bytes()))
    }
}

impl fmt::Debug for TaskToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(a token)")
    }
}

/// Validates the delegation of a new worker.
///
/// # Errors
/// `INVALID_INPUT{field}`, `INVALID_ARGUMENT{field}`. `INVALID_ARGUMENT{mcpServer}` if a server has
/// the name of the task server.
pub(crate) fn check(request: &StartWorker) -> Result<()> {
    let Some(delegation) = &request.delegation else { return Ok(()) };
    let paths = [Some(&delegation.workspace), delegation.home.as_ref(), delegation.config.as_ref()];
    if paths.into_iter().flatten().any(|path| !path.is_absolute()) {
        let message = "workspace, home and config of a delegation are absolute paths";
        return Err(Error::new(Code::InvalidInput, message).with("field", "delegation"));
    }
    delegation.limits.check()?;
    let _ = given(delegation.agents.as_deref())?;
    if request.mcp_servers.names().iter().any(|name| name == TASK_SERVER) {
        let message = format!(
            "an MCP server is named `{TASK_SERVER}`, which is reserved for the server that gives tasks"
        );
        return Err(Error::new(Code::InvalidArgument, message)
            .with("mcpServer", TASK_SERVER)
            .recommend("give the server another name, or start the worker without delegation"));
    }
    Ok(())
}

/// Returns the spec of a new worker and the environment for its agent.
///
/// # Errors
/// `INTERNAL_ERROR` without random bytes.
pub(crate) fn parts(request: &StartWorker) -> Result<(Spec, AgentEnvironment)> {
    let task_variables = Some(request.task_env.clone()).filter(|variables| !variables.is_empty());
    let (variables, mcp_servers) = (request.env.clone(), request.mcp_servers.clone());
    issued(Spec::of(request), AgentEnvironment { variables, mcp_servers, task_variables, task_token: None })
}

/// Like [`parts`], for an existing worker whose environment was lost.
///
/// # Errors
/// `INTERNAL_ERROR` without random bytes.
pub(crate) fn again(spec: &Spec, kept: AgentEnvironment) -> Result<(Spec, AgentEnvironment)> {
    issued(spec.with_environment(&kept.variables), kept)
}

fn issued(mut spec: Spec, mut kept: AgentEnvironment) -> Result<(Spec, AgentEnvironment)> {
    if let Some(delegation) = &mut spec.delegation {
        let token = TaskToken::random()?;
        delegation.token_hash = Some(TaskToken::hash(&token.0));
        kept.task_token = Some(token);
    }
    Ok((spec, kept))
}

/// Returns the MCP servers for a session of the worker's agent. With `prefix`, the names of the
/// task tools have a prefix. Without `setup` the worker is on another machine, where `submit`
/// completes the task server.
pub(crate) fn servers(kept: &AgentEnvironment, prefix: bool, setup: Option<&DaemonSettings>) -> McpServers {
    let args = if prefix { json!(["mcp", "--prefix"]) } else { json!(["mcp"]) };
    let mut servers = kept.mcp_servers.clone();
    servers.0.extend(kept.task_token.as_ref().map(|TaskToken(token)| {
        let mut server = json!({
            "name": TASK_SERVER, "args": args, "env": [{"name": TASK_TOKEN, "value": token}],
        });
        if let Some(setup) = setup {
            let program = setup.runtime_program.with_file_name(TASK_SERVER_PROGRAM);
            complete_task_server(&mut server, &program, &setup.state_dir);
        }
        server
    }));
    servers
}
