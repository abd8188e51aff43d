//! What the agent of a worker gets that may give tasks: an MCP server more, with a token that says whose tasks they are.
//!
//! The token is kept where the environment of the agent is kept, and nowhere else; of it the database has a hash. It is worth
//! nothing outside of the worker's own processes, which whoever takes it looks at too.

use std::fmt;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::json;
use sha2::{Digest as _, Sha256};
use subagent_config::start::agent::given;
use subagent_protocol::api::{StartWorker, TASK_SERVER, TASK_TOKEN};
use subagent_protocol::mcp::McpServers;
use subagent_protocol::{Code, Error, Result};

use super::entropy;
use super::environment::{Kept, Variables};
use super::shared::Setup;
use super::spec::Spec;

/// The program of the task server, beside the other ones.
const PROGRAM: &str = "subagent";

/// The token of one worker.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct TaskToken(String);

impl TaskToken {
    fn random() -> Result<Self> {
        Ok(Self(hex(&entropy::random::<32>()?)))
    }

    /// What is stored of a token that somebody has.
    pub(super) fn hash(token: &str) -> String {
        hex(&Sha256::digest(token.as_bytes()))
    }
}

impl fmt::Debug for TaskToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(a token)")
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Whether a worker can be started so that it delegates.
///
/// # Errors
/// `INVALID_INPUT{field}`, `INVALID_ARGUMENT{field}`; `INVALID_ARGUMENT{mcpServer}` if a server has the name of the task server.
pub(super) fn check(request: &StartWorker) -> Result<()> {
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
            "an MCP server is called `{TASK_SERVER}`, which is the name of the one with which a worker gives tasks"
        );
        return Err(Error::new(Code::InvalidArgument, message)
            .with("mcpServer", TASK_SERVER)
            .recommend("give the server another name, or start the worker without delegation"));
    }
    Ok(())
}

/// What is stored of a worker that is to be started, and what is kept for its agent.
///
/// # Errors
/// `INTERNAL_ERROR` without random bytes.
pub(super) fn parts(request: &StartWorker) -> Result<(Spec, Kept)> {
    issued(Spec::of(request), request.env.clone(), request.mcp_servers.clone())
}

/// The same for a worker that is there, with an environment in place of one that is gone.
///
/// # Errors
/// `INTERNAL_ERROR` without random bytes.
pub(super) fn again(spec: &Spec, variables: Variables, servers: McpServers) -> Result<(Spec, Kept)> {
    issued(spec.with_environment(&variables), variables, servers)
}

fn issued(mut spec: Spec, variables: Variables, mcp_servers: McpServers) -> Result<(Spec, Kept)> {
    let mut kept = Kept { variables, mcp_servers, task_token: None };
    if let Some(delegation) = &mut spec.delegation {
        let token = TaskToken::random()?;
        delegation.token_hash = Some(TaskToken::hash(&token.0));
        kept.task_token = Some(token);
    }
    Ok((spec, kept))
}

/// The servers for a session of the worker's agent, the tools for tasks with a prefix if its launcher wants that.
pub(super) fn servers(kept: &Kept, prefix: bool, setup: &Setup) -> McpServers {
    let args = if prefix { json!(["mcp", "--prefix"]) } else { json!(["mcp"]) };
    let mut servers = kept.mcp_servers.clone();
    servers.0.extend(kept.task_token.as_ref().map(|TaskToken(token)| {
        let text = |path: &Path| path.to_string_lossy().into_owned();
        let state_dir = text(&setup.state_dir);
        json!({
            "name": TASK_SERVER,
            "command": text(&setup.runtime_program.with_file_name(PROGRAM)),
            "args": args,
            "env": [{"name": TASK_TOKEN, "value": token}, {"name": "SUBAGENT_STATE_DIR", "value": state_dir}],
        })
    }));
    servers
}
