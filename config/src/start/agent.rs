//! Finds the definition of a new worker by name, or takes that of the worker that it continues, and
//! resolves it for a launcher. A resolved definition never changes for its worker or task.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use subagent_protocol::api::TASK_SERVER;
use subagent_protocol::definition::{AgentChange, AgentSpec, NotHonoured};
use subagent_protocol::hook::Hook;
use subagent_protocol::options::Options;
use subagent_protocol::policy::{PolicyLayer, PolicyRule};
use subagent_protocol::{Code, Error, Result};

use super::hooks;
use super::policy::travels;
use super::wire::{argument, path_value};
use crate::agents::{
    self, AgentMode, Catalog, CatalogEntry, Definition, DefinitionProblem, DefinitionSource, GivenAgents,
    McpServerRef, Tier,
};
use crate::environment::Environment;
use crate::mcp::McpServer;
use crate::memory::{Folder, Notes};
use crate::model::{Config, Launcher};
use crate::policy::{LayerKind, Rule, RuleAction};
use crate::sandbox::Profile;
use crate::worktrees::Isolation;

/// The definition that the caller requests.
#[derive(Debug, Clone, Default)]
pub enum DefinitionRequest {
    /// No definition is requested.
    #[default]
    None,
    /// The definition of this name, from files or `--agents`.
    Named(String),
    /// The resolved definition of another worker.
    Kept(Box<Resolved>),
}

/// Parses the value of `--agents`.
///
/// # Errors
/// `INVALID_ARGUMENT{flag}`.
pub fn given(text: Option<&str>) -> Result<GivenAgents> {
    match text.filter(|text| !text.trim().is_empty()) {
        None => Ok(GivenAgents::default()),
        Some(text) => GivenAgents::parse(text).map_err(|problem| {
            argument(format!("--agents is not a JSON object of definitions: {problem}"))
                .with("flag", "--agents")
        }),
    }
}

/// A definition, resolved for one launcher.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolved {
    /// The part that the agent receives.
    pub spec: AgentSpec,
    /// The permission rules of the definition.
    pub layer: Option<PolicyLayer>,
    /// The MCP servers that the definition declares.
    pub servers: BTreeMap<String, McpServer>,
    /// The hooks of the definition.
    pub hooks: Vec<Hook>,
    /// The working folder: shared, or a worktree.
    pub isolation: Option<Isolation>,
    /// The limits that it adds to the worker's sandbox.
    pub sandbox: Profile,
    /// The sandbox of a built-in definition, which applies where possible.
    pub preferred: Profile,
    /// The memory folder, which exists.
    pub memory: Option<PathBuf>,
}

/// The definition before a launcher is selected.
#[derive(Debug)]
pub enum SelectedDefinition {
    /// No definition is requested.
    None,
    /// A definition from files or `--agents`.
    Definition(Box<Definition>),
    /// The resolved definition of another worker.
    Kept(Box<Resolved>),
}

impl SelectedDefinition {
    /// Finds the requested definition.
    ///
    /// # Errors
    /// `AGENT_NOT_FOUND{agent,available}`, `AGENT_NOT_USABLE{agent,reason,source,line,column,key}`,
    /// `AGENT_NOT_PRIMARY{agent,mode}`.
    pub fn find(
        wish: DefinitionRequest,
        agents: Option<&str>,
        workspace: &Path,
        env: &Environment,
    ) -> Result<Self> {
        let name = match wish {
            DefinitionRequest::None => return Ok(Self::None),
            DefinitionRequest::Kept(resolved) => return Ok(Self::Kept(resolved)),
            DefinitionRequest::Named(name) => name,
        };
        let catalog = Catalog::find(&given(agents)?, workspace, env);
        let definition = usable(&catalog, &name)?;
        if definition.mode == AgentMode::Subagent {
            let message = format!(
                "the agent `{}` is only for tasks of other agents (`mode: subagent`)",
                definition.name
            );
            return Err(Error::new(Code::AgentNotPrimary, message)
                .with("agent", definition.name.as_str())
                .with("mode", definition.mode.as_str())
                .recommend("name one whose mode is primary or all; `subagent agent list` shows them"));
        }
        Ok(Self::Definition(Box::new(definition.clone())))
    }

    /// Returns the launcher that the definition requests.
    #[must_use]
    pub fn launcher(&self) -> Option<&str> {
        match self {
            Self::Definition(definition) => definition.launcher.as_deref(),
            Self::None | Self::Kept(_) => None,
        }
    }

    /// Returns the placement that the definition requests.
    #[must_use]
    pub fn placement(&self) -> Option<&str> {
        match self {
            Self::Definition(definition) => definition.placement.as_deref(),
            Self::None | Self::Kept(_) => None,
        }
    }

    /// Whether the definition has a memory.
    fn remembers(&self) -> bool {
        match self {
            Self::Definition(definition) => definition.memory.is_some(),
            Self::Kept(resolved) => resolved.memory.is_some(),
            Self::None => false,
        }
    }

    /// Resolves it for a launcher. A `chosen` model overrides the one of the definition.
    ///
    /// # Errors
    /// `AGENT_NOT_USABLE` for a missing skill or MCP server, and for an inline server with a name of the
    /// config.
    pub fn resolve(
        self,
        at: (&str, &Launcher),
        config: &Config,
        workspace: &Path,
        env: &Environment,
        chosen: bool,
    ) -> Result<Option<Resolved>> {
        let mut resolved = match self {
            Self::None => return Ok(None),
            Self::Kept(resolved) => *resolved,
            Self::Definition(definition) => {
                let mut resolved = resolved(&definition, at, config, workspace, env)?;
                resolved.spec.not_honoured.splice(0..0, of_tasks(&definition));
                resolved
            }
        };
        if chosen {
            resolved.spec.model = None;
        }
        Ok(Some(resolved))
    }
}

/// A worker that gets another definition.
#[derive(Debug, Clone, Copy)]
pub struct RunningWorker<'a> {
    /// The launcher of the worker.
    pub launcher: (&'a str, &'a Launcher),
    /// Whether its agent may delegate tasks.
    pub delegates: bool,
}

/// Finds the definition of this name for a worker with a session.
///
/// # Errors
/// Those of [`SelectedDefinition`]; `AGENT_NOT_USABLE{agent,key,reason}` for a definition that changes what a session
/// fixes at its start: launcher, memory, MCP servers, hooks, or delegation.
pub fn change(
    name: &str,
    agents: Option<&str>,
    running: RunningWorker<'_>,
    config: &Config,
    workspace: &Path,
    env: &Environment,
) -> Result<AgentChange> {
    let RunningWorker { launcher: at, delegates } = running;
    let chosen = SelectedDefinition::find(DefinitionRequest::Named(name.to_owned()), agents, workspace, env)?;
    let cannot = |key: &str, reason: String| {
        let message = format!("the agent `{name}` cannot continue a session that has begun: {reason}");
        Err(Error::new(Code::AgentNotUsable, message)
            .with("agent", name)
            .with("key", key)
            .with("reason", reason)
            .recommend("start a fresh worker with it: `subagent worker start --agent NAME`, or `subagent worker continue --from-worker ID` to hand the work over"))
    };
    if let Some(other) = chosen.launcher().filter(|other| *other != at.0) {
        return cannot("launcher", format!("it needs the launcher `{other}`, and the worker has `{}`", at.0));
    }
    if chosen.placement().is_some() {
        return cannot(
            "placement",
            "it has a placement, which applies from the start of a worker".to_owned(),
        );
    }
    if chosen.remembers() {
        return cannot("memory", "it has a memory, which its session may write from its start on".to_owned());
    }
    let Some(Resolved { spec, layer, servers, hooks, isolation, sandbox, .. }) =
        chosen.resolve(at, config, workspace, env, false)?
    else {
        return cannot("name", "it is not a definition".to_owned());
    };
    if !servers.is_empty() {
        let names: Vec<&str> = servers.keys().map(String::as_str).collect();
        return cannot("mcpServers", format!("it needs MCP servers of its own ({})", names.join(", ")));
    }
    if !hooks.is_empty() {
        return cannot("hooks", "it has hooks, which apply from the start of a worker".to_owned());
    }
    if isolation.is_some_and(|isolation| isolation != Isolation::None) {
        return cannot("isolation", "it works in a worktree or a copy of its own".to_owned());
    }
    if sandbox.confines() {
        return cannot("sandbox", "it has a sandbox, which applies from the start of a worker".to_owned());
    }
    let lets = layer.as_ref().is_some_and(super::policy::lets_tasks);
    if lets && !delegates {
        let reason = "it gives tasks to other agents, and the worker was started without delegation";
        return cannot("permission", reason.to_owned());
    }
    let layer = layer.map(|mut layer| {
        if !lets {
            // The permission for tasks at the start was for the previous definition.
            let (rule, action) = ("task".to_owned(), RuleAction::Deny.as_str().to_owned());
            layer.rules.push(PolicyRule { rule, action, line: None, column: None });
        }
        layer
    });
    let configured = &at.1.options;
    let (mode, model) = (configured.mode.clone(), configured.model.clone());
    Ok(AgentChange {
        agent: spec,
        layer,
        configured: Options { mode, model, ..Options::default() },
        workspace: workspace.to_owned(),
        home: super::policy::home(env),
    })
}

/// Resolves a definition for one launcher, for a worker or a task.
///
/// # Errors
/// `AGENT_NOT_USABLE` for a missing skill or MCP server, and for an inline server with a name of the
/// config.
pub fn resolved(
    definition: &Definition,
    (launcher_name, launcher): (&str, &Launcher),
    config: &Config,
    workspace: &Path,
    env: &Environment,
) -> Result<Resolved> {
    let mut not_honoured = never_honoured(definition);
    let model = model(definition.model.as_deref(), launcher_name, launcher, &mut not_honoured);
    let servers = servers(definition, config, launcher)?;
    let memory = memory(definition, workspace, env)?;
    let spec = AgentSpec {
        name: definition.name.clone(),
        level: definition.source.level().to_owned(),
        source: definition.source.path().map(|path| path.to_string_lossy().into_owned()),
        prompt: prompt(definition, memory.as_ref(), workspace, env)?,
        model,
        mode: definition.permission_mode.clone(),
        not_honoured,
    };
    let hooks = hooks::of_definition(definition).hooks().collect();
    let isolation = definition.isolation;
    let (sandbox, preferred) = match definition.source {
        DefinitionSource::BuiltIn => (Profile::default(), definition.sandbox.clone()),
        _ => (definition.sandbox.clone(), Profile::default()),
    };
    let memory = memory.map(|(folder, _)| folder.path());
    let layer = Some(layer(definition));
    Ok(Resolved { spec, layer, servers, hooks, isolation, sandbox, preferred, memory })
}

/// Returns the definition of this name, if it can be started.
///
/// # Errors
/// Those of [`named`], and `AGENT_NOT_USABLE` for a definition with refusals.
pub fn usable<'a>(catalog: &'a Catalog, name: &str) -> Result<&'a Definition> {
    let definition = &named(catalog, name)?.definition;
    match definition.refusals.first() {
        Some(problem) => Err(not_usable(&definition.name, &definition.source, problem)),
        None => Ok(definition),
    }
}

/// Returns the definition of this name.
///
/// # Errors
/// `AGENT_NOT_FOUND{agent,available}`, `AGENT_NOT_USABLE`.
pub fn named<'a>(catalog: &'a Catalog, name: &str) -> Result<&'a CatalogEntry> {
    catalog.named(name).map_err(|refused| match refused {
        Some(refused) => not_usable(&refused.name, &refused.source, &refused.problem),
        None => {
            let available = catalog.names();
            Error::new(Code::AgentNotFound, format!("there is no agent `{name}`; there are: {}", available.join(", ")))
                .with("agent", name)
                .with("available", available)
                .recommend("`subagent agent list` shows where each is from, `subagent agent validate` what could not be read")
        }
    })
}

fn not_usable(name: &str, source: &DefinitionSource, problem: &DefinitionProblem) -> Error {
    let message = format!("the agent `{name}` cannot be started: {}: {}", source.text(), problem);
    let mut error = Error::new(Code::AgentNotUsable, message)
        .with("agent", name)
        .with("reason", problem.message.as_str())
        .recommend(
            "correct its definition; `subagent agent validate` says what is wrong with the files of agents",
        );
    if let Some(path) = source.path() {
        error = error.with("source", path_value(path));
    }
    if let Some(at) = problem.at {
        error = error.with("line", at.line).with("column", at.column);
    }
    match &problem.key {
        Some(key) => error.with("key", key.as_str()),
        None => error,
    }
}

/// Returns the error for a definition that requires something unavailable, with its key.
#[must_use]
pub fn lacks(definition: &Definition, key: &str, reason: String) -> Error {
    let message = format!("the agent `{}` cannot be started: {reason}", definition.name);
    Error::new(Code::AgentNotUsable, message)
        .with("agent", definition.name.as_str())
        .with("key", key)
        .with("reason", reason)
}

/// Returns the keys that apply only to tasks of other agents.
fn of_tasks(definition: &Definition) -> Vec<NotHonoured> {
    let for_tasks = "it counts for tasks of other agents";
    let rules = |rules: &[Rule]| json!(rules.iter().map(Rule::text).collect::<Vec<_>>());
    let set = |wanted: bool, value: Value| if wanted { value } else { Value::Null };
    let keys = vec![
        ("maxSteps", json!(definition.max_steps), for_tasks),
        ("timeoutSeconds", json!(definition.timeout_seconds), for_tasks),
        ("preApproved", set(!definition.pre_approved.is_empty(), rules(&definition.pre_approved)), for_tasks),
        ("background", set(definition.background, json!(true)), for_tasks),
        ("inspectable", set(!definition.inspectable, json!(false)), for_tasks),
        ("resultSchema", json!(definition.result_schema), for_tasks),
        ("resultMaxTokens", json!(definition.result_max_tokens), for_tasks),
    ];
    ignored_keys(keys)
}

/// Returns the keys that no agent accepts over ACP.
fn never_honoured(definition: &Definition) -> Vec<NotHonoured> {
    let value = |key: &str| definition.unknown.get(key).cloned().unwrap_or_default();
    let keys = ["temperature", "top_p", "topP", "effort", "reasoningEffort", "maxOutputTokens"];
    let mut keys = keys.map(|key| (key, value(key), "agents do not take it from their client")).to_vec();
    if !definition.required_servers.is_empty() {
        let why = "only the agent knows whether a server starts";
        keys.push(("mcpServers.required", json!(definition.required_servers), why));
    }
    let mut ignored_keys = ignored_keys(keys);
    let hooks = &definition.hooks;
    ignored_keys.extend(hooks.ignored.iter().map(|ignored| NotHonoured {
        key: ignored.key.clone(),
        value: ignored.value.clone(),
        reason: ignored.reason.clone(),
    }));
    ignored_keys
}

fn ignored_keys(keys: Vec<(&str, Value, &str)>) -> Vec<NotHonoured> {
    let ignored_keys = keys.into_iter().filter(|(_, value, _)| !value.is_null());
    ignored_keys
        .map(|(key, value, reason)| NotHonoured { key: key.to_owned(), value, reason: reason.to_owned() })
        .collect()
}

/// Returns the model to request: an id or name as written, or the launcher's model for the tier.
#[must_use]
pub fn model(
    word: Option<&str>,
    launcher_name: &str,
    launcher: &Launcher,
    not_honoured: &mut Vec<NotHonoured>,
) -> Option<String> {
    let word = word?;
    let Some(tier) = Tier::of_definition(word) else { return Some(word.to_owned()) };
    if let Some(model) = launcher.tiers.get(&tier) {
        return Some(model.clone());
    }
    match word {
        // `default` means the agent's own model.
        "default" => None,
        "fast" | "strong" => {
            let reason =
                format!("the config names no model of this tier (launchers.{launcher_name}.tiers.{word})");
            not_honoured.push(NotHonoured { key: "model".to_owned(), value: word.into(), reason });
            None
        }
        // Some agents have models with these names.
        _ => Some(word.to_owned()),
    }
}

fn servers(
    definition: &Definition,
    config: &Config,
    launcher: &Launcher,
) -> Result<BTreeMap<String, McpServer>> {
    let mut own = BTreeMap::new();
    let has = |name: &str| config.mcp_servers.contains_key(name) || launcher.mcp_servers.contains_key(name);
    for wish in &definition.mcp_servers {
        let (name, reason) = match wish {
            // Rules for tasks would allow its tools.
            McpServerRef::Inline(name, _) | McpServerRef::Named(name) if name == TASK_SERVER => (
                name,
                format!(
                    "`{TASK_SERVER}` is the name of the MCP server with which agents give tasks; a definition cannot use it"
                ),
            ),
            // After a reboot the servers come from the config by name, so the worker would get the other
            // server.
            McpServerRef::Inline(name, _) if has(name) => {
                (name, format!("its MCP server `{name}` has the same name as one of the config; rename it"))
            }
            McpServerRef::Named(name) if !has(name) => {
                (name, format!("the config has no MCP server `{name}`"))
            }
            McpServerRef::Inline(name, server) => {
                own.insert(name.clone(), server.clone());
                continue;
            }
            McpServerRef::Named(_) => continue,
        };
        return Err(lacks(definition, "mcpServers", reason).with("mcpServer", name.as_str()));
    }
    Ok(own)
}

/// Returns the memory of a definition with its notes. Creates the folder.
fn memory(definition: &Definition, workspace: &Path, env: &Environment) -> Result<Option<(Folder, Notes)>> {
    let Some(memory) = definition.memory else { return Ok(None) };
    let open = || {
        let folder = Folder::of(memory.scope, &definition.name, workspace, env)?;
        folder.make()?;
        let notes = folder.notes(memory.lines)?;
        Ok(Some((folder, notes)))
    };
    open().map_err(|reason| {
        lacks(definition, "memory", reason)
            .recommend("`subagent memory list` shows where memories are; move what is in the way")
    })
}

/// Returns the prompt: body, statement about the caller, skills and notes.
fn prompt(
    definition: &Definition,
    memory: Option<&(Folder, Notes)>,
    workspace: &Path,
    env: &Environment,
) -> Result<String> {
    let skills = agents::skills::load(definition, workspace, env)
        .map_err(|reason| lacks(definition, "skills", reason))?;
    let mut parts = vec![definition.prompt.clone()];
    if definition.caller_is_agent {
        parts.push("Your caller is another agent; return structured output.".to_owned());
    }
    for skill in skills {
        let folder = skill.folder.to_string_lossy();
        parts.push(format!("<skill name=\"{}\" folder=\"{folder}\">\n{}\n</skill>", skill.name, skill.text));
    }
    parts.extend(memory.map(|(folder, notes)| notes.block(&folder.path())));
    parts.retain(|part| !part.is_empty());
    Ok(parts.join("\n\n"))
}

fn layer(definition: &Definition) -> PolicyLayer {
    PolicyLayer {
        layer: LayerKind::Definition.as_str().to_owned(),
        source: definition.source.path().map(|path| path.to_string_lossy().into_owned()),
        rules: definition.rules.iter().map(travels).collect(),
        tools: definition.tools.iter().map(Rule::text).collect(),
    }
}
