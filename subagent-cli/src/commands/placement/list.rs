//! `placement list`: the placements of the user's config file.

use clap::Args;
use serde_json::{Value, json};
use subagent_protocol::placement::podman::ContainerEngine;
use subagent_protocol::placement::slurm::SlurmCluster;
use subagent_protocol::placement::{Engine, Placement};

use crate::command_line::flags::{ConfigFlag, JsonFlag};
use crate::context::CliContext;
use crate::failure::Result;
use crate::output::{CliOutcome, text};

/// List the machines, containers and clusters of your config file on which workers can run
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent placement list
  subagent placement list --json")]
pub(crate) struct PlacementListArgs {
    #[command(flatten)]
    pub(crate) config: ConfigFlag,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

pub(super) fn run(args: &PlacementListArgs, context: &CliContext) -> Result<CliOutcome> {
    let loaded = context.config(args.config.config.as_deref(), None)?;
    let items: Vec<Value> = loaded.config.placements.values().map(listed).collect();
    let data = json!({"count": items.len(), "items": items});
    let shown = text::rows(&data, &["name", "kind", "host", "image", "cwd"], "");
    Ok(CliOutcome::list("placement.listed", data, shown, "(no placements)"))
}

/// Returns all keys of a placement.
fn listed(one: &Placement) -> Value {
    let mut listed = json!({
        "name": one.name, "kind": one.engine.kind(), "cwd": one.cwd, "program": one.program,
    });
    let keys = match &one.engine {
        Engine::Ssh(host) => json!({"host": host.host, "args": host.args}),
        Engine::Podman(ContainerEngine { command, image, mounts, args }) => {
            json!({"image": image, "mounts": mounts, "args": args, "command": command})
        }
        Engine::Slurm(SlurmCluster { args, folder }) => json!({"args": args, "folder": folder}),
        Engine::Kubernetes(cluster) => {
            json!({
                "template": cluster.template, "container": cluster.container, "namespace": cluster.namespace, "context": cluster.context,
                "args": cluster.args, "folder": cluster.folder,
            })
        }
        Engine::Command(commands) => json!(commands),
        Engine::Loopback => json!({}),
    };
    if let (Value::Object(listed), Value::Object(keys)) = (&mut listed, keys) {
        listed.extend(keys);
    }
    listed
}
