//! `worker start`: what is typed becomes a request to start a worker, and the daemon starts it.

pub(crate) mod answer_time;
pub(crate) mod notes;
pub(crate) mod options;

// The daemon never looks at its own PATH, config or environment for it. What is wrong with the
// controller is reported before what is wrong with the launcher, as the daemon alone knows
// controllers it is asked first.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use nix::sys::resource::{Resource, getrlimit};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use subagent_config::start::agent::DefinitionRequest;
use subagent_config::start::budgets::of_config;
use subagent_config::start::{self, Composition, StartContext, sandbox};
use subagent_config::{LoadedConfig, Workspace, controller_hint};
use subagent_protocol::Code;
use subagent_protocol::api::{ControllerChoice, StartWorker, UNLABELED};
use subagent_protocol::lenient;
use subagent_protocol::options::PATIENCE;
use subagent_protocol::tags::Tags;
use tokio::time::Instant;

use crate::client::{ApiRequest, DaemonClient, RequestPath, block_on};
use crate::command_line::flags::start::{RuleFlags, StartFlags};
use crate::command_line::flags::{JsonFlag, path};
use crate::commands::hook::untrusted;
use crate::commands::targets::contract_form::without_name;
use crate::commands::targets::selected::WorkerHead;
use crate::commands::{budget, worktree};
use crate::context::{CliContext, present, present_path};
use crate::controller::{self, resolve_path};
use crate::failure::{Failure, Result};
use crate::input::{InputField, InputObject, InputType, field};
use crate::output::{CliOutcome, text};
use crate::starting::StartLine;
use crate::umask::current_umask;

/// Start an agent as a worker
///
/// The agent inherits PATH, variables, file mode mask and descriptor limit of this command. It runs
/// until it is stopped, even if this command, its shell or the daemon ends.
///
/// If you are an agent in a sandbox, ask for outside-sandbox execution of this
/// command: the worker needs the network and files that its own agent needs.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent worker start
  subagent worker start codex --name auth
  subagent worker start --role reviewer --cwd ~/src/thing --json
  echo '{\"launcher\": \"codex\", \"label\": \"fixer\"}' |
      subagent worker start --input -")]
pub(crate) struct WorkerStartArgs {
    /// A launcher, or a definition of an agent
    #[arg(value_name = "AGENT", conflicts_with_all = ["launcher", "agent"])]
    pub(crate) launcher_or_agent: Option<String>,
    #[command(flatten)]
    pub(crate) start: StartFlags,
    /// Start no agent until a message needs one
    #[arg(long, overrides_with = "no_debug_mode")]
    pub(crate) debug_mode: bool,
    /// Start the agent (the default)
    #[arg(long, overrides_with = "debug_mode")]
    pub(crate) no_debug_mode: bool,
    /// Read launcher, role, cwd, label, ... from a JSON file, - for stdin
    #[arg(long, value_name = "PATH", value_parser = path())]
    pub(crate) input: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

/// The keys of `--input`, each with its flags.
pub(crate) const INPUT: &[InputField] = &[
    field("launcher", &["launcher"], InputType::Text),
    field("role", &["role"], InputType::Text),
    field("cwd", &["cwd"], InputType::Text),
    field("name", &["name"], InputType::Text),
    field("label", &["label"], InputType::Text),
    field("controllerId", &["controller_id"], InputType::Text),
    field("debugMode", &["debug_mode", "no_debug_mode"], InputType::Bool),
    field("mcpConfig", &["mcp_config"], InputType::Text),
    field("additionalDirectories", &["add_dir"], InputType::Texts),
    field("mode", &["mode"], InputType::Text),
    field("model", &["model"], InputType::Text),
    field("configOptions", &["set"], InputType::Options),
    field("resume", &["resume"], InputType::Text),
    field("idleTimeout", &["idle_timeout"], InputType::Text),
    field("onRateLimit", &["on_rate_limit"], InputType::Text),
    field("tags", &["tag"], InputType::Texts),
    field("allow", &["allow"], InputType::Texts),
    field("ask", &["ask"], InputType::Texts),
    field("deny", &["deny"], InputType::Texts),
    field("approvalTimeout", &["approval_timeout"], InputType::Text),
    field("onApprovalTimeout", &["on_approval_timeout"], InputType::Text),
    field(
        "budget",
        &["max_turns", "max_wall_time", "max_tokens", "max_cost", "on_budget", "on_unknown"],
        InputType::Object,
    ),
    field("agent", &["agent"], InputType::Text),
    field("delegate", &["delegate"], InputType::Bool),
    field("worktree", &["worktree", "base", "with_changes"], InputType::Object),
    field("sandbox", &["sandbox"], InputType::Text),
    field("placement", &["on"], InputType::Text),
];

/// How much longer than the agent itself the whole start may take.
const GRACE: Duration = Duration::from_secs(15);

/// What is to be started, where, and by whom.
pub(crate) struct WorkerStartRequest {
    pub(crate) cwd: Option<PathBuf>,
    pub(crate) controller_id: Option<String>,
    pub(crate) start: start::StartChoices,
}

impl WorkerStartRequest {
    /// What flags and `--input` say.
    pub(crate) fn of(args: StartFlags, input: &InputObject) -> Result<Self> {
        let either = |flag: Option<String>, key: &str| present(flag).or_else(|| input.text(key));
        let (approval_timeout_ms, on_approval_timeout) =
            answer_time::typed(args.approval_timeout, args.on_approval_timeout.clone(), input)?;
        let rules = |flags: Vec<String>, key: &str| if flags.is_empty() { input.texts(key) } else { flags };
        let delegate = if args.delegate { Some(true) } else { input.flag("delegate") };
        let agent = either(args.agent.agent, "agent");
        let agents = present(args.agent.agents);
        if agents.is_some() && agent.is_none() && delegate != Some(true) {
            let message = "nothing uses the definitions of --agents; add --agent NAME, or --delegate";
            return Err(Failure::argument(message).with("flag", "--agents"));
        }
        let start = start::StartChoices {
            launcher: either(args.launcher, "launcher"),
            launcher_or_agent: None,
            role: either(args.role, "role"),
            name: either(args.name, "name"),
            label: either(args.label, "label").unwrap_or_else(|| UNLABELED.to_owned()),
            debug_mode: false,
            detached: false,
            options: options::typed(args.options, input)?,
            mcp_config: present_path(args.mcp_config).or_else(|| input.text("mcpConfig").map(PathBuf::from)),
            add_dirs: match args.add_dir.is_empty() {
                true => input.texts("additionalDirectories").into_iter().map(PathBuf::from).collect(),
                false => args.add_dir,
            },
            resume: either(args.resume, "resume"),
            tags: match args.tag.is_empty() {
                true => Tags::parse(input.texts("tags").iter().map(String::as_str))?,
                false => Tags::parse(args.tag.iter().map(String::as_str))?,
            },
            rules: start::policy::Flags::from(RuleFlags {
                allow: rules(args.rules.allow, "allow"),
                ask: rules(args.rules.ask, "ask"),
                deny: rules(args.rules.deny, "deny"),
            }),
            budget: budget::typed(args.budget, input)?,
            inherited: Vec::new(),
            approval_timeout_ms,
            on_approval_timeout,
            agent: agent.map_or(DefinitionRequest::None, DefinitionRequest::Named),
            agents,
            delegate,
            worktree: worktree::typed(args.worktree, input)?,
            worktree_of: None,
            sandbox: sandbox::SandboxRequest {
                name: either(args.sandbox, "sandbox"),
                ..sandbox::SandboxRequest::default()
            },
            placement: either(args.on, "placement"),
        };
        Ok(Self {
            cwd: present_path(args.cwd).or_else(|| input.text("cwd").map(PathBuf::from)),
            controller_id: either(args.controller_id, "controllerId"),
            start,
        })
    }
}

impl WorkerStartRequest {
    /// The definition that was named.
    pub(crate) fn agent(&self) -> Option<String> {
        match &self.start.agent {
            DefinitionRequest::Named(name) => Some(name.clone()),
            _ => None,
        }
    }
}

pub(super) fn run(args: WorkerStartArgs, context: &CliContext) -> Result<CliOutcome> {
    let positional = args.launcher_or_agent.is_some();
    let input = InputObject::load(args.input.as_deref(), INPUT, &context.typed)
        .map_err(|error| error.wrong_usage_if(positional))?;
    let debug_mode = input.flag("debugMode").unwrap_or(args.debug_mode);
    let config = args.start.config.config.clone();
    let mut wanted = WorkerStartRequest::of(args.start, &input)?;
    wanted.start.debug_mode = debug_mode;
    // A person's form needs no controller before it.
    let makes_controller = args.launcher_or_agent.is_some() || wanted.start.name.is_some();
    wanted.start.launcher_or_agent = present(args.launcher_or_agent);
    let workspace = context.workspace(wanted.cwd.as_deref())?;
    let config = context.config(config.as_deref(), wanted.cwd.as_deref())?;
    let launcher = wanted.start.launcher.clone().or_else(|| config.config.defaults.launcher.clone());
    let cwd = wanted.cwd.clone();
    let mut client = DaemonClient::new(context, &workspace);
    let started = block_on(async move {
        if makes_controller {
            let budget = of_config(&config.config.budgets.controller);
            let named = wanted.controller_id.as_deref();
            controller::ensure(&mut client, &workspace.state_dir, named, &workspace, budget).await?;
        }
        let prepared = prepare(&mut client, wanted, &config, &workspace, context).await?;
        prepared.start(&mut client).await
    });
    let mut data = started.map_err(|failure| {
        match failure.is(Code::ControllerNotFound) && controller::none_was_named(&failure) {
            true => with_other_form(failure, launcher.as_deref(), cwd.as_deref()),
            false => failure,
        }
    })?;
    let shown = if makes_controller {
        text::fields(&data, &["name", "workerId", "controllerId", "state"])
    } else {
        without_name(&mut data, context);
        text::fields(&data, &["workerId", "controllerId", "state"])
    };
    let notes = notes::of(&data);
    Ok(CliOutcome::report("worker.started", data, shown).with_notes(&notes))
}

/// The error of a workspace without a controller, with the form that needs none before it.
fn with_other_form(failure: Failure, launcher: Option<&str>, cwd: Option<&Path>) -> Failure {
    let failure = failure.recommend(
        "name the launcher as an argument, which needs no controller; or make one with `subagent controller init`",
    );
    let Some(launcher) = launcher else {
        return failure.with("recommendedCommand", "subagent launcher list");
    };
    let place = cwd.map(|cwd| ["--cwd".to_owned(), cwd.to_string_lossy().into_owned()]);
    let words = ["subagent", "worker", "start", launcher].map(str::to_owned).into_iter();
    failure.with("recommendedCommand", shell_words::join(words.chain(place.into_iter().flatten())))
}

/// A start that nothing is known to be wrong with.
pub(crate) struct PreparedStart {
    request: StartWorker,
    limit: Duration,
    starting: Option<StartLine>,
}

impl PreparedStart {
    /// Asks the daemon whether the controller that was chosen may have the worker.
    pub(crate) async fn check_controller(&self, client: &mut DaemonClient) -> Result<()> {
        client.ask(&ApiRequest::get(resolve_path(&self.request.choice))).await.map(|_| ())
    }

    /// Starts the worker and gives the data of `worker.started`, with the files whose hooks do not run.
    ///
    /// # Errors
    /// The daemon's; `DAEMON_TOO_OLD`.
    pub(crate) async fn start(mut self, client: &mut DaemonClient) -> Result<Value> {
        let hooks = self.request.hooks.clone();
        let starting = self.starting.take();
        let mut data = StartLine::during(starting, Instant::now(), Box::pin(self.started(client))).await?;
        if hooks.is_empty() {
            return Ok(data);
        }
        let files = match untrusted::files(client, &hooks).await {
            Err(failure) if failure.is(Code::InvalidArgument) => {
                let worker = WorkerHead::of(&data).worker_id.unwrap_or_default();
                return Err(not_as_asked(client, worker, "run hooks").await);
            }
            files => files?,
        };
        if !files.is_empty() {
            data[untrusted::KEY] = files.into();
        }
        Ok(data)
    }

    async fn started(self, client: &mut DaemonClient) -> Result<Value> {
        let data =
            client.ask(&ApiRequest::change("/v1/workers", &self.request)?.within(Some(self.limit))).await?;
        let worker: StartedWorker<'_> = lenient::read(&data);
        let request = &self.request;
        let missing = [
            (
                request.resume.as_ref().is_some_and(|session| worker.session_id != session.as_str()),
                "resume a session",
            ),
            (
                request.agent.is_some() && worker.agent_definition.is_none(),
                "start one with the definition of an agent",
            ),
            (request.name.is_some() && worker.name.is_none(), "name a worker"),
            (!request.tags.is_empty() && worker.tags.is_none(), "tag a worker"),
            (request.delegation.is_some() && !worker.delegates, "let a worker give tasks to other agents"),
            (request.sandbox.is_some() && worker.sandbox.is_none(), "run an agent in a sandbox"),
            (request.placement.is_some() && worker.placement.is_none(), "run a worker on another machine"),
            (request.policy.is_some() && !worker.has_policy, "apply rules"),
            (request.worktree.is_some() && worker.worktree.is_none(), "give a worker a git worktree"),
            (request.answer_time.is_some() && worker.answer_time.is_none(), "limit how long questions wait"),
        ];
        let worker = worker.worker_id;
        if let Some((_, what)) = missing.into_iter().find(|(is_missing, _)| *is_missing) {
            return Err(not_as_asked(client, worker, what).await);
        }
        if self.request.budget.is_boundless() {
            return Ok(data);
        }
        let path = format!("/v1/workers/{worker}/budget");
        match client.ask(&ApiRequest::get(RequestPath::new(path))).await {
            Err(failure) if failure.is(Code::InvalidArgument) => {
                Err(not_as_asked(client, worker, "limit what a worker uses").await)
            }
            shown => shown.map(|_| data),
        }
    }
}

/// What a daemon says of a worker that it has started. An older one leaves out what it does not know.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct StartedWorker<'a> {
    #[serde(deserialize_with = "lenient::or_default")]
    worker_id: &'a str,
    #[serde(deserialize_with = "lenient::or_default")]
    session_id: &'a str,
    #[serde(deserialize_with = "lenient::or_default")]
    delegates: bool,
    #[serde(deserialize_with = "lenient::or_default")]
    has_policy: bool,
    agent_definition: Option<IgnoredAny>,
    name: Option<IgnoredAny>,
    tags: Option<IgnoredAny>,
    sandbox: Option<IgnoredAny>,
    placement: Option<IgnoredAny>,
    worktree: Option<IgnoredAny>,
    answer_time: Option<IgnoredAny>,
}

/// Stops a worker that was not started as requested. A daemon or a runtime older than this command
/// ignores parts of the request, such as the session to resume, tags or rules.
async fn not_as_asked(client: &mut DaemonClient, worker: &str, what: &str) -> Failure {
    let stopped = super::stop::stop(client, worker).await.is_ok();
    Failure::new(Code::DaemonTooOld, format!("the daemon is older than this command and cannot {what}"))
        .with("workerId", worker)
        .with("stopped", stopped)
        .recommend("restart the daemon with `subagent daemon restart`, then start the worker again")
}

/// Chooses and checks what a worker of this workspace is started with.
pub(crate) async fn prepare(
    client: &mut DaemonClient,
    wanted: WorkerStartRequest,
    loaded: &LoadedConfig,
    workspace: &Workspace,
    context: &CliContext,
) -> Result<PreparedStart> {
    let cwd = start::cwd(wanted.cwd.as_deref(), &context.env)?;
    // The daemon knows the handle, and takes the one that it names before that of the hint.
    let choice = ControllerChoice {
        controller_id: wanted.controller_id,
        hinted_controller_id: controller_hint::read_controller_id(&workspace.root),
        workspace_key: workspace.root.to_string_lossy().into_owned(),
    };
    let place = StartContext {
        loaded,
        workspace: &workspace.root,
        cwd,
        env: &context.env,
        choice: choice.clone(),
        umask: current_umask().bits(),
        nofile: getrlimit(Resource::RLIMIT_NOFILE).ok().map(|(soft, _)| soft),
    };
    let composition = match Composition::of(wanted.start, place) {
        Ok(composition) => composition,
        Err(error) => {
            client.ask(&ApiRequest::get(resolve_path(&choice))).await?;
            return Err(error.into());
        }
    };
    let name = composition.launcher().to_owned();
    let starting = StartLine::new(context, &name, || composition.fetch());
    let request = composition.request()?;
    let wishes = request.agent.as_ref().is_some_and(|agent| agent.model.is_some());
    let patience = request.options.patience() + if wishes { PATIENCE } else { Duration::ZERO };
    let making = if request.worktree.is_some() { worktree::COMMANDS_LIMIT } else { Duration::ZERO };
    let limit = Duration::from_millis(request.launcher.timeouts.startup_ms) + patience + making + GRACE;
    Ok(PreparedStart { request, limit, starting })
}
