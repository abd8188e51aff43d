//! Composes the worker of a task from the named definition and, for everything else, its parent.
//! All files are read here. The caller contributes only a name and overrides that narrow (M3). The
//! result is fixed: later changes of files do not affect it (M5).

mod ground;
mod launched;
mod modes;
mod narrow;
pub(crate) mod parent;

use serde_json::json;
use subagent_config::agents::{Definition, DefinitionSource};
use subagent_config::placements;
use subagent_config::policy::{LayerKind, Policy, RuleAction, ToolCallDescription, real_path};
use subagent_config::sandbox::Profile;
use subagent_config::start::agent::{self, DefinitionRequest, Resolved};
use subagent_config::start::{self, Composition, StartContext, hooks, policy as rules, sandbox, servers};
use subagent_config::worktrees::Isolation;
use subagent_protocol::api::{CallableAgent, ControllerChoice, RunTask, StartWorker, TaskMode, TaskPlace};
use subagent_protocol::definition::AgentSpec;
use subagent_protocol::delegation::{DelegationSpec, TaskLimits};
use subagent_protocol::mcp;
use subagent_protocol::policy::{PolicyLayer, PolicyRule, PolicySpec};
use subagent_protocol::task_terms::TaskTerms;
use subagent_protocol::{Code, Error, Result};

use ground::TaskConfig;
pub(crate) use parent::{Parent, TaskPurpose};

/// Level of an agent without a definition, which only the call describes.
const CALLER: &str = "caller";
/// Name of such an agent where one is required.
const UNNAMED: &str = "task";

/// A worker that can be started for a task.
pub(crate) struct Composed {
    /// The request for the worker. Its label is the name of the task, if it has one.
    pub(crate) request: StartWorker,
    /// The terms of the task.
    pub(crate) terms: TaskTerms,
    /// Whether the caller waits for the task.
    pub(crate) mode: TaskMode,
    /// Name of the definition, as spelled in its file.
    pub(crate) agent: Option<String>,
    /// Limits on tasks below the same root.
    pub(crate) limits: TaskLimits,
}

/// Composes a task of a worker.
///
/// # Errors
/// `AGENT_NOT_FOUND{agent,available}`, `AGENT_NOT_USABLE{agent,reason,key}`,
/// `AGENT_NOT_A_SUBAGENT{agent,mode}`, `TASK_NOT_PERMITTED{agent,rule}`, `INVALID_ARGUMENT{field}`
/// for what would widen, and those of a launcher and a config.
pub(crate) fn for_parent(parent: &Parent, request: &RunTask) -> Result<Composed> {
    let ground = parent.ground()?;
    let definition = match request.agent.as_deref() {
        Some(name) => Some(ground.definition(name, &parent.callable(&ground))?),
        None => None,
    };
    let name = definition.map(|definition| definition.name.as_str());
    let is_projects =
        definition.is_some_and(|definition| matches!(definition.source, DefinitionSource::Project(_)));
    if parent.gives == TaskPurpose::Title && is_projects {
        // The owner did not choose it: it is a file of the workspace.
        let message = "a definition of the project must not label workers";
        return Err(Error::new(Code::TaskNotPermitted, message).with("agent", name.map(str::to_owned)));
    }
    permitted(&parent.policy, name, parent.gives)?;
    let config = &ground.loaded.config;
    // The placements of launchers and of `defaults` are for workers that people start.
    let placement = definition.and_then(|one| one.placement.as_deref());
    let placement = placement.map(str::trim).filter(|name| !name.is_empty() && *name != placements::LOCAL);
    let remote = placement.map(|name| placements::by_name(config, name).cloned()).transpose()?;
    let launched = parent.launched(definition, &ground, remote.is_some())?;
    let at = (launched.spec.name.as_str(), &launched.launcher);
    let found =
        definition.map(|definition| agent::resolved(definition, at, config, &ground.workspace, &ground.env));
    let mut resolved = found.transpose()?.unwrap_or_else(unnamed);
    // The task gets the parent's servers anyway.
    let own = parent.own_servers(definition, &launched.launcher, config, resolved.servers);
    let own = servers::wired(own, &parent.cwd, &launched.env)?;
    let mut mcp_servers = parent.kept.mcp_servers.clone();
    let others = |server: &&serde_json::Value| {
        mcp_servers.0.iter().any(|kept| mcp::name(kept) == mcp::name(server) && kept != *server)
    };
    // Policies above the task that match the parent's server would match this one.
    if let (Some(definition), Some(server)) = (definition, own.0.iter().find(others)) {
        let name = mcp::name(server);
        let reason =
            format!("its MCP server `{name}` has the same name as another one of its caller; rename it");
        return Err(agent::lacks(definition, "mcpServers", reason).with("mcpServer", name));
    }
    mcp_servers.0.retain(|server| !own.names().iter().any(|name| name == mcp::name(server)));
    mcp_servers.0.extend(own.0);

    let (mut terms, mode) = narrow::terms(definition, request, &parent.delegation.limits)?;
    terms.ends_silently = parent.gives == TaskPurpose::Title;
    narrow::prompt(&mut resolved.spec, &request.overrides);
    narrow::model(&mut resolved.spec, &request.overrides, at);
    let layer = narrow::layer(resolved.layer, &request.overrides)?;
    let options = parent.options(&mut resolved.spec, &launched);
    modes::no_wider(definition, &options, &parent.spec.options, launched.is_parents)?;
    let layers = match definition {
        Some(_) => [layer.clone()]
            .into_iter()
            .chain(rules::of_config(&ground.loaded).into_iter().map(rules::wire))
            .collect(),
        // The parent's layers apply to everything below it.
        None => vec![layer.clone()],
    };
    let delegation = delegation(definition, &layer, &parent.delegation);
    let spec = &parent.spec;
    let wish = sandbox::SandboxRequest {
        name: None,
        kept: parent.sandbox(),
        narrower: [resolved.sandbox].into_iter().chain(narrow::files(&request.overrides)).collect(),
        preferred: resolved.preferred,
    };
    let mut roots = vec![parent.delegation.workspace.as_path(), &parent.cwd];
    roots.extend(spec.additional_directories.iter().map(std::path::PathBuf::as_path));
    let at = sandbox::Ground { cwd: &parent.cwd, roots: &roots, env: &launched.env };
    let has_own_files = resolved.isolation.is_some_and(|isolation| isolation != Isolation::None);
    let obstacle = match remote {
        Some(_) => Some(start::remote::NO_SANDBOX),
        None => sandbox::obstacle(request.worktree.is_some() || has_own_files, delegation.is_some()),
    };
    let plan = sandbox::plan(wish, &launched.launcher, config, at, obstacle)?;
    let sandbox = plan.required.map(|spec| sandbox::with_memory(spec, resolved.memory.as_deref()));
    let worktree = match (&request.worktree, resolved.isolation) {
        (None, None | Some(Isolation::None)) => None,
        // The defaults of launcher and config are for workers that people start. A task must see
        // its caller's files.
        (chosen, isolation) => {
            let copies = chosen.is_none() && isolation == Some(Isolation::Copy);
            let wanted = start::worktree::wanted(chosen.clone(), config, &ground.env)?;
            Some(start::worktree::copied(wanted, copies))
        }
    };
    let worktree = start::worktree::isolated(worktree, sandbox.as_ref(), config, &ground.env)?;
    terms.write_back &= worktree.is_some();
    let program = launched.spec.program.clone();
    let composed = StartWorker {
        choice: ControllerChoice {
            controller_id: Some(parent.row.controller_id.to_string()),
            hinted_controller_id: None,
            workspace_key: parent.delegation.workspace.to_string_lossy().into_owned(),
        },
        launcher: launched.spec,
        role: parent.row.agent.role.clone(),
        cwd: parent.cwd.clone(),
        name: None,
        label: label(request, definition),
        env: launched.variables,
        task_env: Vec::new(),
        umask: spec.umask,
        nofile: spec.nofile,
        debug_mode: false,
        detached: false,
        mcp_servers,
        // Those of this machine mean nothing on another one.
        additional_directories: match remote {
            Some(_) => Vec::new(),
            None => spec.additional_directories.clone(),
        },
        options,
        resume: None,
        idle_timeout_ms: None,
        on_rate_limit: launched.launcher.on_rate_limit,
        queue_limit: launched.launcher.queue_limit,
        tags: subagent_protocol::tags::Tags::default(),
        policy: Some(PolicySpec {
            workspace: parent.policy_workspace(),
            home: parent.delegation.home.clone(),
            layers,
            ancestors: PolicySpec::lineage(
                spec.policy.as_ref(),
                parent.name.clone(),
                parent.row.worker_id.clone(),
            ),
            pre_approved: pre_approved(&terms),
            is_task: true,
            memory: resolved.memory,
        }),
        answer_time: spec.answer_time,
        budget: start::budgets::of_config(&config.budgets.worker),
        agent: agent_spec(definition, resolved.spec),
        delegation,
        titles: None,
        hooks: hooks::of_task(&spec.hooks, resolved.hooks),
        worktree_of: None,
        worktree,
        sandbox,
        preferred_sandbox: plan.preferred,
        placement: None,
    };
    let request = match remote {
        Some(remote) => {
            let home = ground.env.home.as_deref();
            start::remote::placed(composed, remote, &launched.launcher, program, home)?
        }
        None => composed,
    };
    Ok(Composed {
        request,
        terms,
        mode,
        agent: definition.map(|definition| definition.name.clone()),
        limits: parent.delegation.limits,
    })
}

/// Composes a task of a manager: like a worker that the manager starts, with the terms of a task.
///
/// # Errors
/// As [`for_parent`], without a parent's policy.
pub(crate) fn for_manager(place: &TaskPlace, request: &RunTask) -> Result<Composed> {
    let ground = TaskConfig::of_manager(place)?;
    let definition = match request.agent.as_deref() {
        Some(name) => Some(ground.definition(name, &ground.callable())?),
        None => None,
    };
    let config = &ground.loaded.config;
    let named =
        definition.and_then(|definition| definition.launcher.as_deref()).or(place.launcher.as_deref());
    let role = subagent_config::role::choose_role(config, None);
    let found = start::launcher::choose(config, named, role, &ground.env.cwd, &ground.env)?;
    let placement = place.placement.as_deref().or(definition.and_then(|one| one.placement.as_deref()));
    let remote = placements::choose(config, placement, found.0)?;
    let (launcher, resolved_launcher) = match remote {
        Some(_) => start::launcher::runnable_there(found)?,
        None => start::launcher::runnable(found)?,
    };
    let at = (resolved_launcher.name.as_str(), launcher);
    let found =
        definition.map(|definition| agent::resolved(definition, at, config, &ground.workspace, &ground.env));
    let mut resolved = found.transpose()?.unwrap_or_else(unnamed);
    let limits = config.delegation.unwrap_or_default();
    let (mut terms, mode) = narrow::terms(definition, request, &limits)?;
    narrow::prompt(&mut resolved.spec, &request.overrides);
    narrow::model(&mut resolved.spec, &request.overrides, at);
    let layer = narrow::layer(resolved.layer.take(), &request.overrides)?;
    let own = DelegationSpec {
        workspace: ground.workspace.clone(),
        home: rules::home(&ground.env),
        config: ground.loaded.loaded.then(|| ground.loaded.path.clone()),
        user_config: ground.loaded.user_file().map(std::path::Path::to_owned),
        agents: place.agents.clone().filter(|text| !text.trim().is_empty()),
        limits,
        token_hash: None,
    };
    let delegation = delegation(definition, &layer, &own);
    let wanted = start::StartChoices {
        launcher: Some(resolved_launcher.name.clone()),
        label: label(request, definition),
        agent: DefinitionRequest::Kept(Box::new(Resolved { layer: Some(layer), ..resolved })),
        delegate: Some(false),
        worktree: request.worktree.clone(),
        sandbox: sandbox::SandboxRequest {
            name: place.sandbox.clone(),
            narrower: narrow::files(&request.overrides).into_iter().collect(),
            ..sandbox::SandboxRequest::default()
        },
        placement: placement.map(str::to_owned),
        ..start::StartChoices::default()
    };
    let place = StartContext {
        loaded: &ground.loaded,
        workspace: &ground.workspace,
        cwd: ground.env.cwd.clone(),
        env: &ground.env,
        choice: place.choice.clone(),
        umask: place.umask,
        nofile: place.nofile,
    };
    let mut request = Composition::of(wanted, place)?.request()?;
    terms.write_back &= request.worktree.is_some();
    request.agent = request.agent.and_then(|spec| agent_spec(definition, spec));
    if let Some(policy) = &mut request.policy {
        policy.pre_approved = pre_approved(&terms);
        policy.is_task = true;
    }
    if delegation.is_some() && remote.is_some() {
        request.task_env = start::environment(&ground.env, launcher, &ground.env.cwd);
    }
    request.delegation = delegation;
    let agent = definition.map(|definition| definition.name.clone());
    Ok(Composed { request, terms, mode, agent, limits })
}

/// Lists the agents to which a worker may give tasks.
///
/// # Errors
/// Those of a config that cannot be read.
pub(crate) fn callable(parent: &Parent) -> Result<Vec<CallableAgent>> {
    let ground = parent.ground()?;
    let found = parent.callable(&ground).into_iter().map(|definition| CallableAgent {
        name: definition.name.clone(),
        description: definition.description.clone(),
        background: definition.background,
    });
    Ok(found.collect())
}

/// Checks that the policies of the whole chain let its last node give a task to this agent. The
/// action `ask` passes, because the agent's call asks for it.
fn permitted(policy: &Policy, agent: Option<&str>, gives: TaskPurpose) -> Result<()> {
    let call = ToolCallDescription::of(&json!({"name": "Task", "rawInput": {"agent": agent}}));
    let verdict = policy.decide(&call, &real_path);
    if verdict.action != RuleAction::Deny {
        return Ok(());
    }
    let by = verdict.decisive();
    let rule = by.and_then(|part| part.by.as_ref()).map(|by| format!("{}: {}", by.rule, by.action));
    if rule.is_none() && gives == TaskPurpose::Title {
        // Agents need an explicit rule to give tasks. The title task belongs to the owner.
        return Ok(());
    }
    let whom = agent
        .map_or_else(|| "an agent without a definition".to_owned(), |name| format!("the agent `{name}`"));
    let why =
        rule.clone().map_or_else(|| "no rule allows it".to_owned(), |rule| format!("by the rule `{rule}`"));
    Err(Error::new(Code::TaskNotPermitted, format!("{whom} must not get tasks: {why}"))
        .with("agent", agent.map(str::to_owned))
        .with("rule", rule))
}

/// Returns the defaults for a task without a definition.
fn unnamed() -> Resolved {
    let deny = PolicyRule {
        rule: "task".to_owned(),
        action: RuleAction::Deny.as_str().to_owned(),
        line: None,
        column: None,
    };
    Resolved {
        spec: AgentSpec {
            name: UNNAMED.to_owned(),
            level: CALLER.to_owned(),
            source: None,
            prompt: String::new(),
            model: None,
            mode: None,
            not_honoured: Vec::new(),
        },
        layer: Some(PolicyLayer {
            layer: LayerKind::Definition.as_str().to_owned(),
            source: None,
            rules: vec![deny],
            tools: Vec::new(),
        }),
        servers: std::collections::BTreeMap::new(),
        hooks: Vec::new(),
        isolation: None,
        sandbox: Profile::default(),
        preferred: Profile::default(),
        memory: None,
    }
}

/// Returns the definition for the agent. A task without a definition has one only if it has
/// content.
fn agent_spec(definition: Option<&Definition>, spec: AgentSpec) -> Option<AgentSpec> {
    let says = !spec.prompt.is_empty() || spec.model.is_some() || !spec.not_honoured.is_empty();
    (definition.is_some() || says).then_some(spec)
}

/// Lets a task delegate only if its definition says so (M4).
fn delegation(
    definition: Option<&Definition>,
    layer: &PolicyLayer,
    parent: &DelegationSpec,
) -> Option<DelegationSpec> {
    definition.filter(|_| rules::lets_tasks(layer))?;
    Some(DelegationSpec { token_hash: None, ..parent.clone() })
}

fn pre_approved(terms: &TaskTerms) -> Option<Vec<PolicyRule>> {
    Some(terms.pre_approved.clone()).filter(|rules| !rules.is_empty())
}

fn label(request: &RunTask, definition: Option<&Definition>) -> String {
    let given = request.name.as_ref().or(request.description.as_ref()).filter(|text| !text.trim().is_empty());
    given.cloned().or_else(|| Some(definition?.name.clone())).unwrap_or_else(|| UNNAMED.to_owned())
}

#[cfg(test)]
mod tests;
