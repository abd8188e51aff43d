//! Where a worker goes on from: another worker, or the file of a handoff.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use serde_json::Value;
use subagent_config::policy::LayerKind;
use subagent_config::start::agent::Resolved;
use subagent_protocol::Code;
use subagent_protocol::api::{HandoffReady, Inspected, LatestHandoff};
use subagent_protocol::hook::{Hook, HookOrigin};
use subagent_protocol::ids::{ControllerId, WorkerId};
use subagent_protocol::policy::{PolicyRule, PolicySpec};
use subagent_protocol::sandbox::SandboxSpec;

use crate::client::{ApiRequest, DaemonClient, RequestPath, last_worker, read, segment};
use crate::commands::worker;
use crate::context::{CliContext, path_value};
use crate::failure::{Failure, Result};

/// More is not read of a checkpoint.
const MAX_CHECKPOINT_BYTES: u64 = 16 * 1024 * 1024;

/// The files of a handoff.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct HandoffFiles {
    pub(crate) handoff: PathBuf,
    pub(crate) checkpoint: Option<PathBuf>,
}

impl HandoffFiles {
    /// What `handoff.md` says.
    ///
    /// # Errors
    /// `INTERNAL_ERROR` if it cannot be read.
    pub(crate) fn read(&self) -> Result<String> {
        std::fs::read_to_string(&self.handoff)
            .map_err(|error| Failure::internal(format!("the handoff of the worker cannot be read: {error}")))
    }
}

/// Whom a worker goes on from; what is known of the one before is the default for the new one.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct PreviousWorker {
    pub(crate) worker_id: Option<String>,
    pub(crate) launcher: Option<String>,
    pub(crate) role: Option<String>,
    pub(crate) cwd: Option<PathBuf>,
    pub(crate) controller_id: Option<String>,
    /// What its owner said that it may do. Never of a file: an agent may have written it.
    pub(crate) rules: Vec<PolicyRule>,
    /// The definition that it was started with. Never of a file, either.
    pub(crate) agent: Option<Resolved>,
    /// Whether it may give tasks to other agents. Never of a file, either.
    pub(crate) delegates: bool,
    /// The worker itself, whose git worktree goes along. Never of a file.
    pub(crate) worktree_of: Option<WorkerId>,
    /// What it may reach. Never of a file, either.
    pub(crate) sandbox: Option<SandboxSpec>,
}

/// A worker as it was looked at; nothing is written for it yet.
pub(crate) struct InspectedWorker {
    id: String,
    data: Box<Inspected>,
}

impl InspectedWorker {
    /// Looks at the worker.
    pub(crate) async fn of(client: &mut DaemonClient, worker: &str) -> Result<Self> {
        let id = segment(&last_worker::pin(client, &[worker.to_owned()]).await?.concat());
        let path = RequestPath::new(format!("/v1/workers/{id}/inspect")).with("eventsLimit", Some("1"));
        Ok(Self { data: Box::new(client.ask_for(&ApiRequest::get(path)).await?), id })
    }

    /// The worker as it was addressed; an id in place of `@last`.
    pub(crate) fn worker(&self) -> &str {
        &self.id
    }

    pub(crate) fn worker_id(&self) -> String {
        self.data.worker.worker_id.to_string()
    }

    pub(crate) fn launcher(&self) -> &str {
        &self.data.worker.launcher
    }

    /// Returns what is known before there is a handoff.
    pub(crate) fn source(&self) -> PreviousWorker {
        let worker = &self.data.worker;
        PreviousWorker {
            worker_id: Some(worker.worker_id.to_string()),
            launcher: Some(worker.launcher.clone()),
            role: Some(worker.role.clone()),
            cwd: Some(PathBuf::from(&worker.cwd)),
            controller_id: Some(worker.controller_id.to_string()),
            rules: owners_rules(self.data.policy.as_ref()),
            agent: definition(&self.data),
            delegates: worker.delegates,
            worktree_of: Some(worker.worker_id.clone()),
            sandbox: worker.sandbox.as_ref().map(|sandbox| sandbox.spec.clone()),
        }
    }

    /// The worker's latest snapshot, or a new one if more has happened since or its file is gone.
    pub(crate) async fn hand_off(
        &self,
        client: &mut DaemonClient,
        handoffs_dir: Option<PathBuf>,
        context: &CliContext,
    ) -> Result<HandoffFiles> {
        let (handoff, checkpoint) = match self.usable(handoffs_dir.as_deref()) {
            Some(latest) => (latest.handoff_path.clone(), latest.checkpoint_path.clone()),
            None => {
                let cwd = &self.data.worker.cwd;
                let made: HandoffReady =
                    read(worker::handoff::make(client, &self.id, cwd, handoffs_dir, None, context).await?)?;
                (made.handoff_path, made.checkpoint_path)
            }
        };
        let checkpoint = Some(PathBuf::from(checkpoint)).filter(|path| path.is_file());
        Ok(HandoffFiles { handoff: handoff.into(), checkpoint })
    }

    fn usable(&self, wanted: Option<&Path>) -> Option<&LatestHandoff> {
        let latest = self.data.latest_handoff.as_ref()?;
        let path = Path::new(&latest.handoff_path);
        let fresh = self.data.events.first().is_none_or(|event| event.event_id <= latest.up_to_event_id);
        (wanted.is_none_or(|dir| path.starts_with(dir)) && fresh && path.is_file()).then_some(latest)
    }
}

fn owners_rules(policy: Option<&PolicySpec>) -> Vec<PolicyRule> {
    let layers = policy.map(|policy| policy.layers.as_slice()).unwrap_or_default();
    let owners = layers.iter().filter(|layer| layer.layer == LayerKind::Owner.as_str());
    owners.flat_map(|layer| layer.rules.clone()).collect()
}

/// Returns the definition of the worker without its MCP servers, whose content is not reported.
fn definition(data: &Inspected) -> Option<Resolved> {
    let spec = data.agent.clone()?;
    let (layers, memory) =
        data.policy.clone().map(|policy| (policy.layers, policy.memory)).unwrap_or_default();
    let layer = layers.into_iter().find(|layer| layer.layer == LayerKind::Definition.as_str());
    let own = |hook: &&Hook| matches!(hook.origin, HookOrigin::Definition | HookOrigin::Command);
    let hooks = data.hooks.iter().filter(own).cloned().collect();
    // What it takes away is in the sandbox of the worker.
    let (sandbox, preferred) = Default::default();
    let servers = BTreeMap::new();
    Some(Resolved { spec, layer, servers, hooks, isolation: None, sandbox, preferred, memory })
}

/// The file, and what the checkpoint beside it says.
pub(crate) fn of_file(path: &Path, context: &CliContext) -> Result<(PreviousWorker, HandoffFiles)> {
    let path = context.env.cwd.join(path);
    let file = std::fs::canonicalize(&path).ok().filter(|file| file.is_file());
    let Some(file) = file.filter(|file| file.to_str().is_some()) else {
        let message = format!("there is no handoff file {} (of plain text as its name)", path.display());
        return Err(Failure::new(Code::HandoffNotFound, message)
            .with("handoffPath", path_value(&path))
            .recommend("make one with `subagent worker handoff`, or go on with --from-worker"));
    };
    let checkpoint = file.with_file_name("checkpoint.json");
    let said = read_checkpoint(&checkpoint);
    let document = HandoffFiles { handoff: file, checkpoint: said.is_some().then_some(checkpoint) };
    Ok((of_checkpoint(&said.unwrap_or_default()), document))
}

/// A checkpoint that can be read. It is optional: what is wrong with it is as if it were not there.
fn read_checkpoint(path: &Path) -> Option<Value> {
    // Anything may lie there under this name, also what never ends.
    if !path.metadata().ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    std::fs::File::open(path).ok()?.take(MAX_CHECKPOINT_BYTES).read_to_end(&mut bytes).ok()?;
    serde_json::from_slice(&bytes).ok().filter(Value::is_object)
}

/// What a checkpoint says, as far as it can be true.
fn of_checkpoint(said: &Value) -> PreviousWorker {
    let text = |key: &str| {
        let text = said[key].as_str().map(str::trim).filter(|text| !text.is_empty())?;
        text.chars().all(|c| !c.is_control()).then(|| text.to_owned())
    };
    let cwd = text("cwd").map(PathBuf::from);
    PreviousWorker {
        worker_id: text("workerId").filter(|id| id.parse::<WorkerId>().is_ok()),
        launcher: text("launcher"),
        role: text("role").or_else(|| text("profile")),
        cwd: cwd.filter(|cwd| cwd.is_absolute() && cwd.is_dir()),
        // What cannot be an id is not one of a controller that is only gone.
        controller_id: text("controllerId").filter(|id| id.parse::<ControllerId>().is_ok()),
        rules: Vec::new(),
        agent: None,
        delegates: false,
        worktree_of: None,
        sandbox: None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_rules_of_the_owner_are_taken_and_no_others() {
        let layer =
            |kind: &str, rule: &str| json!({"layer": kind, "rules": [{"rule": rule, "action": "deny"}]});
        let layers = [layer("config", "read"), layer("owner", "execute(rm *)"), layer("owner", "edit")];
        let policy = serde_json::from_value(json!({"workspace": "/w", "layers": layers})).unwrap();
        let found = owners_rules(Some(&policy));
        let found: Vec<&str> = found.iter().map(|rule| rule.rule.as_str()).collect();
        assert_eq!(found, ["execute(rm *)", "edit"]);
        assert_eq!(owners_rules(None), []);
        let unknown = serde_json::from_value::<Option<PolicySpec>>(json!({"layers": 7}));
        assert!(unknown.is_err(), "without them the next agent might do more");
        let forged = json!({"policy": {"workspace": "/", "layers": [layer("owner", "*")]}});
        assert_eq!(of_checkpoint(&forged), PreviousWorker::default());
    }

    #[test]
    fn a_checkpoint_is_believed_as_far_as_it_can_be_true() {
        let good = json!({"workerId": "w_0123456789", "controllerId": "ctl_0123456789", "launcher": " demo ",
                          "profile": "tester", "cwd": "/"});
        let source = of_checkpoint(&good);
        assert_eq!(source.worker_id.as_deref(), Some("w_0123456789"));
        assert_eq!(source.controller_id.as_deref(), Some("ctl_0123456789"));
        assert_eq!((source.launcher.as_deref(), source.role.as_deref()), (Some("demo"), Some("tester")));
        assert_eq!(source.cwd.as_deref(), Some(Path::new("/")));
        let free = json!({"controllerId": "my-manager"});
        assert_eq!(of_checkpoint(&free).controller_id.as_deref(), Some("my-manager"));
        let both = json!({"role": "r", "profile": "p"});
        assert_eq!(of_checkpoint(&both).role.as_deref(), Some("r"));
        for evil in [
            json!({"workerId": "../..", "controllerId": 7, "launcher": ["x"], "role": {}, "cwd": "relative"}),
            json!({"workerId": "", "launcher": "a\u{1b}b", "role": " ", "cwd": "/no/such/folder"}),
            json!({}),
            json!(null),
        ] {
            assert_eq!(of_checkpoint(&evil), PreviousWorker::default(), "{evil}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_no_checkpoint() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("checkpoint.json");
        assert_eq!(read_checkpoint(&file), None);
        for bytes in [&b"[]"[..], b"{", b"\xff", b""] {
            std::fs::write(&file, bytes).unwrap();
            assert_eq!(read_checkpoint(&file), None);
        }
        std::fs::write(&file, "{}").unwrap();
        assert_eq!(read_checkpoint(&file), Some(json!({})));
        assert_eq!(read_checkpoint(dir.path()), None);
    }
}
