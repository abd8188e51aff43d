//! Replaces a worker's agent definition. The new one comes with a message of the owner and applies
//! from the turn of that message on. Must not loosen other layers of the policy: only the layer of
//! the previous definition is replaced.

use std::path::Path;

use subagent_config::policy::LayerKind;
use subagent_core::model::{Fact, Worker};
use subagent_protocol::data::EventData;
use subagent_protocol::data::definitions::AgentChanged;
use subagent_protocol::definition::AgentChange;
use subagent_protocol::frame::DefinitionChange;
use subagent_protocol::options::Options;
use subagent_protocol::policy::PolicySpec;
use subagent_protocol::start::ClientRules;
use subagent_protocol::time::Timestamp;
use subagent_protocol::{Code, Error, Result};

use crate::store::questions::owner_rules;
use crate::store::turns::queue;
use crate::store::{RowId, Tx, facts, workers};
use crate::supervisor::policy::{self, PolicyTracker};
use crate::supervisor::start::definition;
use crate::supervisor::start::spec::Spec;

/// The spec and the policy of a worker after a change of its definition.
pub(crate) struct Changed {
    pub(crate) spec: Box<Spec>,
    pub(in crate::supervisor) watch: Option<PolicyTracker>,
    /// Whether the worker has owner rules.
    pub(crate) any: bool,
}

/// Applies the definition that came with the turn opened by this transaction. Returns `None` if the
/// turn brought none.
pub(crate) fn changed(
    tx: &mut Tx<'_>,
    id: RowId,
    worker: &Worker,
    cwd: &Path,
    now: Timestamp,
) -> Result<Option<Changed>> {
    let Some(spec) = apply(tx, id, worker.turn().map(|turn| turn.no), now)? else { return Ok(None) };
    let added = policy::added(tx.connection(), id, spec.policy.as_ref())?;
    let workspace = owner_rules::workspace_of(tx.connection(), id)?;
    let watch = PolicyTracker::of(spec.policy.as_ref(), &added, &workspace, cwd);
    Ok(Some(Changed { spec, watch, any: added.any() }))
}

/// Stores the definition that came with the turn opened by this transaction. Returns the new spec,
/// or `None` if the turn brought none.
fn apply(tx: &mut Tx<'_>, id: RowId, turn: Option<u64>, now: Timestamp) -> Result<Option<Box<Spec>>> {
    let Some(text) = queue::take_agent(tx) else { return Ok(None) };
    let damaged = |error: serde_json::Error| {
        Error::new(Code::StorageError, format!("the definition that came with a message is damaged: {error}"))
    };
    let change: AgentChange = serde_json::from_str(&text).map_err(damaged)?;
    let mut spec: Box<Spec> = serde_json::from_str(&workers::spec(tx, id)?).map_err(damaged)?;
    let changed = AgentChanged {
        agent: change.agent.name.clone(),
        level: change.agent.level.clone(),
        source: change.agent.source.clone(),
        previous: spec.agent.as_ref().map(|previous| previous.name.clone()),
        by: "owner".to_owned(),
        not_honoured: change.agent.not_honoured.clone(),
    };
    spec.take_agent(change, turn);
    workers::update_spec(tx, id, &serde_json::to_string(&spec).map_err(damaged)?)?;
    workers::update_instructed(tx, id, false)?;
    let event = Fact::Event { data: EventData::AgentChanged(changed), turn };
    facts::store(tx, id, &[event], None, now)?;
    Ok(Some(spec))
}

impl Spec {
    /// Replaces the agent definition. Mode and model that were chosen for the worker itself apply
    /// again when the new definition does not set them.
    pub(crate) fn take_agent(&mut self, change: AgentChange, turn: Option<u64>) {
        let AgentChange { agent, layer, configured, workspace, home } = change;
        let of_definition = self.agent.as_ref().and_then(|before| before.mode.as_ref());
        if self.options.mode.is_some() && self.options.mode.as_ref() != of_definition {
            self.own.mode.clone_from(&self.options.mode);
        }
        if self.options.model.is_some() {
            self.own.model.clone_from(&self.options.model);
        }
        self.options.mode = agent.mode.clone().or_else(|| self.own.mode.clone()).or(configured.mode);
        self.options.model = match &agent.model {
            // The model of a definition is only a preference. An agent without that model keeps its
            // own.
            Some(_) => None,
            None => self.own.model.clone().or(configured.model),
        };
        let definition = LayerKind::Definition.as_str();
        let layer = layer.map(|mut layer| {
            layer.layer = definition.to_owned();
            layer
        });
        match (&mut self.policy, layer) {
            (Some(policy), layer) => {
                policy.layers.retain(|layer| layer.layer != definition);
                policy.layers.splice(0..0, layer);
                let notes = policy.memory.take();
                if let (Some(notes), Some(sandbox)) = (notes, &mut self.sandbox) {
                    sandbox.spec.write.retain(|path| *path != notes);
                }
            }
            (none, Some(layer)) => *none = Some(PolicySpec::own(workspace, home, vec![layer])),
            (None, None) => {}
        }
        self.agent = Some(agent);
        self.agent_since = turn;
    }

    /// Returns the change for the runtime that goes along with the prompt. Mode and model that
    /// neither the definition nor the owner sets return to the values at the start of the session.
    pub(crate) fn change(&self, client_rules: Option<ClientRules>) -> Option<DefinitionChange> {
        let agent = self.agent.as_ref()?;
        let model = || self.options.model.clone().or_else(|| self.began.model.clone());
        let options = Options {
            mode: self.options.mode.clone().or_else(|| self.began.mode.clone()),
            model: if agent.model.is_some() { self.options.model.clone() } else { model() },
            ..Options::default()
        };
        let instructions = definition::instructions(agent, false, true);
        Some(DefinitionChange { instructions, options, client_rules })
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use subagent_protocol::sandbox::{FileSystem, Layers, Network, Sandbox, SandboxSpec};

    use serde_json::json;

    use super::*;
    use crate::supervisor::start::tests::request;

    #[test]
    fn notes_of_the_definition_before_are_no_longer_written() {
        let dir = tempfile::tempdir().unwrap();
        let (notes, target) = (PathBuf::from("/ws/.agents/agent-memory/noter"), PathBuf::from("/ws/target"));
        let mut spec = Spec::of(&request(dir.path()));
        let policy = PolicySpec::own("/ws".into(), None, Vec::new());
        spec.policy = Some(PolicySpec { memory: Some(notes.clone()), ..policy });
        let sandbox = SandboxSpec {
            name: None,
            filesystem: FileSystem::SharedRo,
            write: vec![notes, target.clone()],
            read: None,
            hide: Vec::new(),
            network: Network::All,
            hosts: Vec::new(),
        };
        spec.sandbox = Some(Sandbox { spec: sandbox, layers: Layers::default() });
        let change = json!({
            "agent": {"name": "other", "level": "user", "prompt": ""}, "configured": {}, "workspace": "/ws",
        });
        spec.take_agent(serde_json::from_value(change).unwrap(), Some(1));
        assert_eq!(spec.sandbox.unwrap().spec.write, [target]);
        assert_eq!(spec.policy.unwrap().memory, None);
    }
}
