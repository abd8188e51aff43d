//! The MCP servers of a worker's agent in ACP's form: from the config and `--mcp-config`, with the
//! caller's variables expanded. The values may be secrets. They go to the daemon and must not
//! appear elsewhere.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};
use subagent_protocol::Result;
use subagent_protocol::mcp::McpServers;

use super::wire::argument;
use crate::check::refuse;
use crate::environment::{Environment, passes_on};
use crate::error::{ConfigError, FieldPath};
use crate::file::load_with;
use crate::launcher;
use crate::mcp::{self, McpServer};
use crate::model::{Config, Launcher};
use crate::section::Section;

/// Returns all servers by name. Of servers with the same name, the one nearest to the worker counts.
///
/// # Errors
/// `CONFIG_PARSE_ERROR` for an invalid file, `INVALID_ARGUMENT{mcpServer,variable}` for an unset variable.
pub fn of(
    config: &Config,
    launcher: &Launcher,
    own: BTreeMap<String, McpServer>,
    file: Option<&Path>,
    cwd: &Path,
    env: &Environment,
) -> Result<McpServers> {
    let mut all: BTreeMap<String, McpServer> = config.mcp_servers.clone();
    all.extend(launcher.mcp_servers.clone());
    all.extend(own);
    if let Some(file) = file {
        all.extend(load(&env.cwd.join(file))?);
    }
    wired(all, cwd, env)
}

/// Reads a file with the key `mcpServers`.
fn load(path: &Path) -> Result<BTreeMap<String, McpServer>, ConfigError> {
    load_with(path, |document| match document.as_object().filter(|root| root.contains_key("mcpServers")) {
        None => refuse(FieldPath::Field("mcpServers".to_owned()), "is missing"),
        Some(root) => mcp::servers(&Section::root(root)),
    })
}

/// Converts servers to ACP's form.
///
/// # Errors
/// `INVALID_ARGUMENT{mcpServer,variable}` for an unset variable.
pub fn wired(all: BTreeMap<String, McpServer>, cwd: &Path, env: &Environment) -> Result<McpServers> {
    // A project's file must not read a handle of an owner, or a secret that is the daemon's own.
    let lookup = |name: &str| {
        let name = std::ffi::OsStr::new(name);
        env.vars.get(name).filter(|_| passes_on(name))?.to_str().map(str::to_owned)
    };
    let servers = all.into_iter().map(|(name, server)| {
        let server = server.expanded(&lookup).map_err(|variable| {
            let message = format!("MCP server {name} needs the variable {variable}, which is not set");
            argument(message)
                .with("mcpServer", name.as_str())
                .with("variable", variable.as_str())
                .recommend(format!("set {variable}, or give a default: ${{{variable}:-...}}"))
        })?;
        Ok(wire(&name, server, cwd, env))
    });
    servers.collect::<Result<_>>().map(McpServers)
}

fn wire(name: &str, server: McpServer, cwd: &Path, env: &Environment) -> Value {
    let pairs = |map: BTreeMap<String, String>| -> Vec<Value> {
        map.into_iter().map(|(name, value)| json!({"name": name, "value": value})).collect()
    };
    match server {
        McpServer::Stdio { command, args, env: variables } => {
            // The agent may find a program that is not found here.
            let found = launcher::find_program(&command, cwd, env).ok();
            let command = found.and_then(|path| path.into_os_string().into_string().ok()).unwrap_or(command);
            json!({"name": name, "command": command, "args": args, "env": pairs(variables)})
        }
        McpServer::Remote { transport, url, headers } => {
            json!({"type": transport, "name": name, "url": url, "headers": pairs(headers)})
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_of_the_daemon_or_an_owner_is_not_set() {
        let vars = [("KEY", "k"), ("SUBAGENT_WEBHOOK_SECRET", "s"), ("SUBAGENT_CTL_TOKEN", "t")];
        let env = Environment::new(vars.map(|(name, value)| (name.into(), value.into())), "/");
        let wired = |value: &str| {
            let server = json!({"mcpServers": {"x": {"command": "true", "env": {"A": value}}}});
            wired(mcp::servers(&Section::root(server.as_object().unwrap())).unwrap(), Path::new("/"), &env)
        };
        assert_eq!(wired("${KEY}").unwrap().0[0]["env"][0]["value"], "k");
        for name in ["SUBAGENT_WEBHOOK_SECRET", "SUBAGENT_CTL_TOKEN"] {
            let error = wired(&format!("${{{name}}}")).unwrap_err();
            assert_eq!(error.details["variable"], name, "{error}");
        }
    }
}
