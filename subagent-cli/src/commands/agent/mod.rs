//! Definitions of agents as data for `agent list`, `agent show` and `agent validate`, and where they are looked for.

mod list;
mod show;
mod validate;

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde::Serialize;
use serde_json::{Value, json};
use subagent_config::agents::{Catalog, CatalogEntry, DefinitionProblem, DefinitionSource, McpServerRef};
use subagent_config::policy::Rule;
use subagent_config::start::agent::given;
use subagent_config::workspace;

use crate::command_line::flags::{JsonFlag, path};
use crate::context::CliContext;
use crate::failure::Result;
use crate::output::CliOutcome;

/// `subagent agent ...`
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum AgentCommand {
    List(list::AgentListArgs),
    Show(show::AgentShowArgs),
    Validate(validate::AgentValidateArgs),
}

impl AgentCommand {
    pub(crate) fn run(self, context: &CliContext) -> Result<CliOutcome> {
        match self {
            Self::List(args) => list::run(&args, context),
            Self::Show(args) => show::run(&args, context),
            Self::Validate(args) => validate::run(&args, context),
        }
    }
}

/// Where definitions are looked for.
#[derive(Debug, Clone, Args)]
pub(crate) struct DefinitionPlace {
    /// More definitions: a JSON object of names and definitions with a `prompt`
    #[arg(long, value_name = "JSON")]
    pub(crate) agents: Option<String>,
    /// A folder of the workspace whose definitions count [default: .]
    #[arg(long, value_name = "PATH", value_parser = path())]
    pub(crate) cwd: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

/// All definitions that count there, and the folder whose files they are. Outside of a workspace that is the folder itself.
pub(crate) fn catalog(place: &DefinitionPlace, context: &CliContext) -> Result<(Catalog, PathBuf)> {
    let root = workspace_of(place.cwd.as_deref(), context)?;
    let given = given(place.agents.as_deref())?;
    Ok((Catalog::find(&given, &root, &context.env), root))
}

/// The workspace, or the folder outside of one.
pub(crate) fn workspace_of(typed_cwd: Option<&Path>, context: &CliContext) -> Result<PathBuf> {
    let cwd = workspace::resolve_cwd(typed_cwd, &context.env)?;
    Ok(context.workspace(typed_cwd).map_or(cwd, |workspace| workspace.root))
}

/// One definition, in short.
pub(crate) fn brief(found: &CatalogEntry) -> Value {
    let definition = &found.definition;
    json!({
        "name": definition.name,
        "description": definition.description,
        "mode": definition.mode.as_str(),
        "level": definition.source.level(),
        "source": source(&definition.source),
        "launcher": definition.launcher,
        "model": definition.model,
        "startable": is_startable(found),
        "hides": found.hides.iter().map(|hidden| {
            json!({"name": hidden.name, "level": hidden.source.level(), "source": source(&hidden.source)})
        }).collect::<Vec<_>>(),
    })
}

/// Whether the definition can be started, and no other one hides it.
pub(crate) fn is_startable(found: &CatalogEntry) -> bool {
    found.definition.refusals.is_empty() && found.behind.is_none()
}

/// All of one definition.
pub(crate) fn whole(found: &CatalogEntry) -> Value {
    let definition = &found.definition;
    let mut data = brief(found);
    let tools: Vec<String> = definition.tools.iter().map(Rule::text).collect();
    let servers = definition.mcp_servers.iter().map(|wish| match wish {
        // What is in it may be secret.
        McpServerRef::Named(name) => json!({"name": name, "inline": false}),
        McpServerRef::Inline(name, _) => json!({"name": name, "inline": true}),
    });
    let more = json!({
        "permission": definition.rules.iter().map(rule).collect::<Vec<_>>(),
        "tools": tools,
        "permissionMode": definition.permission_mode,
        "maxSteps": definition.max_steps,
        "timeoutSeconds": definition.timeout_seconds,
        "preApproved": definition.pre_approved.iter().map(Rule::text).collect::<Vec<_>>(),
        "skills": definition.skills,
        "memory": definition.memory.map(|memory| memory.scope.as_str()),
        "memoryLines": definition.memory.map(|memory| memory.lines),
        "mcpServers": servers.collect::<Vec<_>>(),
        "background": definition.background,
        "inspectable": definition.inspectable,
        "caller": if definition.caller_is_agent { "agent" } else { "user" },
        "resultSchema": definition.result_schema,
        "resultMaxTokens": definition.result_max_tokens,
        "unknown": definition.unknown,
        "prompt": definition.prompt,
        "problems": problems_of(found),
    });
    if let (Value::Object(data), Value::Object(more)) = (&mut data, more) {
        data.extend(more);
    }
    data
}

fn rule(rule: &Rule) -> Value {
    json!({
        "rule": rule.text(), "action": rule.action.as_str(),
        "line": rule.at.map(|at| at.line), "column": rule.at.map(|at| at.column),
    })
}

/// Where a definition is from: its file, if it is one.
pub(crate) fn source(source: &DefinitionSource) -> Value {
    source.path().map_or(Value::Null, |path| crate::context::path_value(path))
}

/// A problem of a definition, as it is listed.
#[derive(Debug, Serialize)]
pub(crate) struct ListedProblem {
    severity: &'static str,
    agent: Option<String>,
    level: &'static str,
    source: Value,
    line: Option<u64>,
    column: Option<u64>,
    key: Option<String>,
    message: String,
}

impl ListedProblem {
    /// Whether the definition cannot be started.
    pub(crate) fn is_error(&self) -> bool {
        self.severity == "error"
    }

    /// A problem on one line: `file:line:column: severity: message`.
    pub(crate) fn text(&self) -> String {
        let Self { severity, agent, level, source, line, column, message, .. } = self;
        let from = source.as_str().unwrap_or(level);
        let place = match (line, column) {
            (Some(line), Some(column)) => format!("{from}:{line}:{column}"),
            _ => from.to_owned(),
        };
        let agent = agent.as_ref().filter(|_| source.is_null()).map(|name| format!(" ({name})"));
        format!("{place}{}: {severity}: {message}", agent.unwrap_or_default()).replace(char::is_control, " ")
    }
}

fn problem(agent: Option<&str>, from: &DefinitionSource, problem: &DefinitionProblem) -> ListedProblem {
    ListedProblem {
        severity: problem.severity.as_str(),
        agent: agent.map(str::to_owned),
        level: from.level(),
        source: source(from),
        line: problem.at.map(|at| at.line),
        column: problem.at.map(|at| at.column),
        key: problem.key.clone(),
        message: problem.message.clone(),
    }
}

pub(crate) fn problems_of(found: &CatalogEntry) -> Vec<ListedProblem> {
    let definition = &found.definition;
    let all = definition.refusals.iter().chain(&definition.notes);
    all.map(|one| problem(Some(&definition.name), &definition.source, one)).collect()
}

/// Everything that there is to say of all of them: first what cannot be started.
pub(crate) fn problems(catalog: &Catalog) -> Vec<ListedProblem> {
    let refused = catalog.refused.iter();
    let mut all: Vec<ListedProblem> =
        refused.map(|one| problem(Some(&one.name), &one.source, &one.problem)).collect();
    all.extend(catalog.others.iter().map(|(source, one)| problem(None, source, one)));
    all.extend(catalog.found.iter().flat_map(problems_of));
    all.sort_by_key(|problem| !problem.is_error());
    all
}

/// The path of a workspace as data.
pub(crate) fn root(path: &Path) -> Value {
    crate::context::path_value(path)
}
