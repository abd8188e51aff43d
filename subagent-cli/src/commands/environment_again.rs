//! A request that needs an agent whose environment is gone, as after a reboot: the daemon refuses it with
//! `ENV_REQUIRED`, and it is asked once more, under the same key, with what the agent would inherit from this caller.
//!
//! Must not show the values to anybody: they go to the daemon and nowhere else.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;
use serde_json::Value;
use subagent_config::start;
use subagent_protocol::Code;
use subagent_protocol::api::WorkerView;
use subagent_protocol::bytes64::Bytes64;
use subagent_protocol::mcp::McpServers;

use crate::client::{Ask, Client, segment};
use crate::context::Context;
use crate::failure::{Failure, Result};
use crate::output::{Format, complain};

/// The key in `data` that says that it was sent.
const SENT: &str = "environmentSent";

/// Whose agent it is, and where its launcher is looked up.
pub(super) struct Agent<'a> {
    pub(super) worker_id: &'a str,
    pub(super) config: Option<&'a Path>,
    pub(super) cwd: Option<&'a Path>,
    pub(super) context: &'a Context,
}

impl Agent<'_> {
    /// Asks, with the caller's environment if it is needed. `body` makes the request with it.
    pub(super) async fn ask<T: Serialize>(
        &self,
        client: &mut Client,
        ask: &Ask,
        body: impl FnOnce(Vec<(Bytes64, Bytes64)>, McpServers) -> T,
    ) -> Result<Value> {
        let required = match client.ask(ask).await {
            Err(failure) if failure.is(Code::EnvRequired) => failure,
            answer => return answer,
        };
        let (environment, servers) = self.environment(client, required).await?;
        let mut data = client.ask(&ask.once_more(&body(environment, servers))?).await?;
        data[SENT] = true.into();
        if self.context.format == Format::Text {
            complain("Note: the agent's environment was gone; it is that of this command now.");
        }
        Ok(data)
    }

    /// What the agent would inherit if its worker were started here.
    async fn environment(
        &self,
        client: &mut Client,
        required: Failure,
    ) -> Result<(Vec<(Bytes64, Bytes64)>, McpServers)> {
        let path = format!("/v1/workers/{}", segment(self.worker_id));
        let shown: WorkerView = serde_json::from_value(client.ask(&Ask::get(path)).await?)
            .map_err(|error| Failure::internal(format!("the daemon's answer lacks something: {error}")))?;
        let loaded = self.context.config(self.config, self.cwd)?;
        match loaded.config.launchers.get(&shown.launcher) {
            Some(launcher) => {
                let cwd = Path::new(&shown.cwd);
                let environment = start::environment(&self.context.env, launcher, cwd);
                let servers = start::servers::of(
                    &loaded.config,
                    launcher,
                    BTreeMap::new(),
                    None,
                    cwd,
                    &self.context.env,
                )?;
                Ok((environment, servers))
            }
            // Without it the agent might lack what its launcher sets.
            None => {
                let name = shown.launcher;
                let advice = format!(
                    "name the config file that has launcher {name} with --config, or start a new worker"
                );
                Err(required.with("launcher", name).recommend(advice))
            }
        }
    }
}
