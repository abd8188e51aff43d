//! Whether a worker may delegate, and the settings of its tasks.

use std::path::Path;

use subagent_protocol::delegation::DelegationSpec;
use subagent_protocol::policy::PolicyLayer;

use super::{StartContext, policy};

/// Returns the delegation settings of a worker that may delegate. `said` overrides config and definition.
#[must_use]
pub fn spec(
    said: Option<bool>,
    agents: Option<String>,
    definition: Option<&PolicyLayer>,
    place: &StartContext<'_>,
) -> Option<DelegationSpec> {
    let config = &place.loaded.config.delegation;
    let delegates = said.unwrap_or_else(|| config.is_some() || definition.is_some_and(policy::lets_tasks));
    delegates.then(|| of_place(agents, place))
}

/// Returns the settings of tasks of a worker that is started here.
#[must_use]
pub fn of_place(agents: Option<String>, place: &StartContext<'_>) -> DelegationSpec {
    DelegationSpec {
        workspace: place.workspace.to_owned(),
        home: policy::home(place.env),
        config: place.loaded.loaded.then(|| place.loaded.path.clone()),
        user_config: place.loaded.user_file().map(Path::to_owned),
        agents: agents.filter(|text| !text.trim().is_empty()),
        limits: place.loaded.config.delegation.unwrap_or_default(),
        token_hash: None,
    }
}
