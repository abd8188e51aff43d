//! The definition that a worker is started with: found by its name, or that of a worker from which it goes on, and resolved
//! for its launcher. What is resolved here never changes for that worker.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};
use subagent_config::agents::{self, Catalog, Definition, Found, McpWish, Mode, Problem, Source, Tier};
use subagent_config::mcp::McpServer;
use subagent_config::model::{Config, Launcher};
use subagent_config::policy::{LayerKind, Rule};
use subagent_protocol::Code;
use subagent_protocol::definition::{AgentSpec, NotHonoured};
use subagent_protocol::policy::{PolicyLayer, PolicyRule};

use super::agent_data;
use crate::args::definitions::AgentFlags;
use crate::context::{Context, path_value, present};
use crate::failure::{Failure, Result};
use crate::input::Input;

/// Which definition is wanted.
#[derive(Debug, Clone, Default)]
pub(super) enum Wish {
    /// None.
    #[default]
    None,
    /// That of this name, out of files and of `--agents`.
    Named { name: String, agents: Option<String> },
    /// That of another worker, as it was resolved for it.
    Kept(Box<Resolved>),
}

impl Wish {
    /// What flags and `--input` say.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT{flag}` for `--agents` without the name of an agent.
    pub(super) fn of(flags: AgentFlags, input: &Input) -> Result<Self> {
        match present(flags.agent).or_else(|| input.text("agent")) {
            Some(name) => Ok(Self::Named { name, agents: flags.agents }),
            None if present(flags.agents).is_some() => {
                Err(Failure::argument("--agents gives definitions, and none is named; add --agent NAME")
                    .with("flag", "--agents"))
            }
            None => Ok(Self::None),
        }
    }
}

/// A definition for one launcher.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Resolved {
    pub(super) spec: AgentSpec,
    /// Its rules.
    pub(super) layer: Option<PolicyLayer>,
    /// MCP servers of its own.
    pub(super) servers: BTreeMap<String, McpServer>,
}

/// What was found, before there is a launcher.
pub(super) enum Chosen {
    None,
    Definition(Box<Definition>),
    Kept(Box<Resolved>),
}

impl Chosen {
    /// Finds what is wanted.
    ///
    /// # Errors
    /// `AGENT_NOT_FOUND{agent,available}`, `AGENT_NOT_USABLE{agent,reason,source,line,column,key}`, `AGENT_NOT_PRIMARY{agent,mode}`.
    pub(super) fn find(wish: Wish, workspace: &Path, context: &Context) -> Result<Self> {
        let (name, agents) = match wish {
            Wish::None => return Ok(Self::None),
            Wish::Kept(resolved) => return Ok(Self::Kept(resolved)),
            Wish::Named { name, agents } => (name, agents),
        };
        let catalog = Catalog::find(&agent_data::given(agents.as_deref())?, workspace, &context.env);
        let definition = &named(&catalog, &name)?.definition;
        if let Some(problem) = definition.refusals.first() {
            return Err(not_usable(&definition.name, &definition.source, problem));
        }
        if definition.mode == Mode::Subagent {
            let message = format!(
                "the agent `{}` is for tasks of other agents alone (`mode: subagent`)",
                definition.name
            );
            return Err(Failure::new(Code::AgentNotPrimary, message)
                .with("agent", definition.name.as_str())
                .with("mode", definition.mode.as_str())
                .recommend("name one whose mode is primary or all; `subagent agent list` shows them"));
        }
        Ok(Self::Definition(Box::new(definition.clone())))
    }

    /// The launcher that it wants.
    pub(super) fn launcher(&self) -> Option<&str> {
        match self {
            Self::Definition(definition) => definition.launcher.as_deref(),
            Self::None | Self::Kept(_) => None,
        }
    }

    /// Resolves it for a launcher. With a `chosen` model it wishes for none.
    ///
    /// # Errors
    /// `AGENT_NOT_USABLE` for a skill or MCP server that there is not, and for one of its own that the config has too.
    pub(super) fn resolve(
        self,
        (launcher_name, launcher): (&str, &Launcher),
        config: &Config,
        workspace: &Path,
        context: &Context,
        chosen: bool,
    ) -> Result<Option<Resolved>> {
        let mut resolved = match self {
            Self::None => return Ok(None),
            Self::Kept(resolved) => *resolved,
            Self::Definition(definition) => {
                let definition = *definition;
                let mut not_honoured = not_honoured(&definition);
                let model = model(&definition, launcher_name, launcher, &mut not_honoured);
                let servers = servers(&definition, config, launcher)?;
                let spec = AgentSpec {
                    name: definition.name.clone(),
                    level: definition.source.level().to_owned(),
                    source: definition.source.path().map(|path| path.to_string_lossy().into_owned()),
                    prompt: prompt(&definition, workspace, context)?,
                    model,
                    mode: definition.permission_mode.clone(),
                    not_honoured,
                };
                Resolved { spec, layer: Some(layer(&definition)), servers }
            }
        };
        if chosen {
            resolved.spec.model = None;
        }
        Ok(Some(resolved))
    }
}

/// The definition of this name.
///
/// # Errors
/// `AGENT_NOT_FOUND{agent,available}`, `AGENT_NOT_USABLE`.
pub(super) fn named<'a>(catalog: &'a Catalog, name: &str) -> Result<&'a Found> {
    catalog.named(name).map_err(|refused| match refused {
        Some(refused) => not_usable(&refused.name, &refused.source, &refused.problem),
        None => {
            let available = catalog.names();
            Failure::new(Code::AgentNotFound, format!("there is no agent `{name}`; there are: {}", available.join(", ")))
                .with("agent", name)
                .with("available", available)
                .recommend("`subagent agent list` shows where each is from, `subagent agent validate` what could not be read")
        }
    })
}

fn not_usable(name: &str, source: &Source, problem: &Problem) -> Failure {
    let message = format!("the agent `{name}` cannot be started: {}: {}", source.text(), problem);
    let mut failure = Failure::new(Code::AgentNotUsable, message)
        .with("agent", name)
        .with("reason", problem.message.as_str())
        .recommend(
            "correct its definition; `subagent agent validate` says what is wrong with the files of agents",
        );
    if let Some(path) = source.path() {
        failure = failure.with("source", path_value(path));
    }
    if let Some(at) = problem.at {
        failure = failure.with("line", at.line).with("column", at.column);
    }
    match &problem.key {
        Some(key) => failure.with("key", key.as_str()),
        None => failure,
    }
}

fn lacks(definition: &Definition, key: &str, reason: String) -> Failure {
    let message = format!("the agent `{}` cannot be started: {reason}", definition.name);
    Failure::new(Code::AgentNotUsable, message)
        .with("agent", definition.name.as_str())
        .with("key", key)
        .with("reason", reason)
}

/// What counts for tasks of agents alone, and what no agent takes over ACP.
fn not_honoured(definition: &Definition) -> Vec<NotHonoured> {
    let for_tasks = "it counts for tasks of other agents";
    let rules = |rules: &[Rule]| json!(rules.iter().map(Rule::text).collect::<Vec<_>>());
    let set = |wanted: bool, value: Value| if wanted { value } else { Value::Null };
    let mut keys = vec![
        ("maxSteps", json!(definition.max_steps), for_tasks),
        ("timeoutSeconds", json!(definition.timeout_seconds), for_tasks),
        ("preApproved", set(!definition.pre_approved.is_empty(), rules(&definition.pre_approved)), for_tasks),
        ("background", set(definition.background, json!(true)), for_tasks),
        ("inspectable", set(!definition.inspectable, json!(false)), for_tasks),
        ("resultSchema", json!(definition.result_schema), for_tasks),
        ("resultMaxTokens", json!(definition.result_max_tokens), for_tasks),
    ];
    for key in ["temperature", "top_p", "topP", "effort", "reasoningEffort"] {
        let value = definition.unknown.get(key).cloned().unwrap_or_default();
        keys.push((key, value, "agents do not take it from their client"));
    }
    let told = keys.into_iter().filter(|(_, value, _)| !value.is_null());
    told.map(|(key, value, reason)| NotHonoured { key: key.to_owned(), value, reason: reason.to_owned() })
        .collect()
}

/// The model to wish for: an id or a name as it is written, or what the config has for its tier.
fn model(
    definition: &Definition,
    launcher_name: &str,
    launcher: &Launcher,
    not_honoured: &mut Vec<NotHonoured>,
) -> Option<String> {
    let word = definition.model.as_ref()?;
    let Some(tier) = Tier::of_definition(word) else { return Some(word.clone()) };
    if let Some(model) = launcher.tiers.get(&tier) {
        return Some(model.clone());
    }
    match word.as_str() {
        // An agent has it without being asked.
        "default" => None,
        "fast" | "strong" => {
            let reason =
                format!("the config names no model of this tier (launchers.{launcher_name}.tiers.{word})");
            not_honoured.push(NotHonoured { key: "model".to_owned(), value: word.as_str().into(), reason });
            None
        }
        // Some agents call their models so.
        _ => Some(word.clone()),
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
            // After a reboot the servers are those of the config, by their names: it would go on with another one.
            McpWish::Inline(name, _) if has(name) => (
                name,
                format!("its own MCP server `{name}` has the name of one of the config; give it another"),
            ),
            McpWish::Named(name) if !has(name) => (name, format!("the config has no MCP server `{name}`")),
            McpWish::Inline(name, server) => {
                own.insert(name.clone(), server.clone());
                continue;
            }
            McpWish::Named(_) => continue,
        };
        return Err(lacks(definition, "mcpServers", reason).with("mcpServer", name.as_str()));
    }
    Ok(own)
}

/// Its prompt, what it says of its caller, and its skills.
fn prompt(definition: &Definition, workspace: &Path, context: &Context) -> Result<String> {
    let skills = agents::skills::load(definition, workspace, &context.env)
        .map_err(|reason| lacks(definition, "skills", reason))?;
    let mut parts = vec![definition.prompt.clone()];
    if definition.caller_is_agent {
        parts.push("Your caller is another agent; return structured output.".to_owned());
    }
    for skill in skills {
        let folder = skill.folder.to_string_lossy();
        parts.push(format!("<skill name=\"{}\" folder=\"{folder}\">\n{}\n</skill>", skill.name, skill.text));
    }
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

/// A rule as it travels.
pub(super) fn travels(rule: &Rule) -> PolicyRule {
    PolicyRule {
        rule: rule.text(),
        action: rule.action.as_str().to_owned(),
        line: rule.at.map(|at| at.line),
        column: rule.at.map(|at| at.column),
    }
}
