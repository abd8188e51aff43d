//! `worker start`: resolves role and launcher in the caller's environment and has the daemon start the agent.
//!
//! The daemon never looks at its own PATH, config or environment for it. What is wrong with the controller is reported
//! before what is wrong with the launcher, as the daemon alone knows controllers it is asked first.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::resource::{Resource, getrlimit};
use nix::sys::stat::{Mode, umask};
use serde_json::Value;
use subagent_config::launcher::{self, ResolvedLauncher};
use subagent_config::model::{self, ACP_STDIO};
use subagent_config::{LoadedConfig, Workspace, controller_hint, inherited_environment, role, workspace};
use subagent_protocol::Code;
use subagent_protocol::api::{ControllerChoice, LauncherSpec, OnTimeout, SetOptions, StartWorker};
use subagent_protocol::budget::LimitsChange;
use subagent_protocol::bytes64::Bytes64;
use subagent_protocol::options::PATIENCE;
use subagent_protocol::policy::PolicyRule;
use subagent_protocol::start::Timeouts;
use subagent_protocol::tags::Tags;

use super::chosen_agent::{Chosen, Wish};
use super::{answer_time, budgets, chosen_options, mcp_servers, policy};
use crate::args::policy::RuleFlags;
use crate::args::workers::{StartFlags, WorkerStart};
use crate::client::{Ask, Client, Query, block_on};
use crate::context::{Context, path_value, present, present_path};
use crate::failure::{Failure, Result};
use crate::input::{self, Input};
use crate::output::{Outcome, text};

/// How much longer than the agent itself the whole start may take.
const GRACE: Duration = Duration::from_secs(15);

/// What is to be started; what is absent is chosen by config and workspace.
pub(super) struct Wanted {
    pub(super) launcher: Option<String>,
    pub(super) role: Option<String>,
    pub(super) cwd: Option<PathBuf>,
    pub(super) label: String,
    pub(super) controller_id: Option<String>,
    pub(super) debug_mode: bool,
    pub(super) options: SetOptions,
    /// A file of MCP servers.
    pub(super) mcp_config: Option<PathBuf>,
    pub(super) add_dirs: Vec<PathBuf>,
    /// The session to take up.
    pub(super) resume: Option<String>,
    pub(super) tags: Tags,
    /// What the agent may do, besides what the config says.
    pub(super) rules: RuleFlags,
    /// What it may use; what is not named is the config's.
    pub(super) budget: LimitsChange,
    /// The same, of the worker that this one goes on from.
    pub(super) inherited: Vec<PolicyRule>,
    /// How long its questions wait; 0 for ever.
    pub(super) approval_timeout_ms: Option<u64>,
    pub(super) on_approval_timeout: Option<OnTimeout>,
    /// Which definition it has.
    pub(super) agent: Wish,
}

impl Wanted {
    /// What flags and `--input` say.
    pub(super) fn of(args: StartFlags, input: &Input) -> Result<Self> {
        let either = |flag: Option<String>, key: &str| present(flag).or_else(|| input.text(key));
        let (approval_timeout_ms, on_approval_timeout) =
            answer_time::typed(args.approval_timeout, args.on_approval_timeout.clone(), input)?;
        let rules = |flags: Vec<String>, key: &str| if flags.is_empty() { input.texts(key) } else { flags };
        Ok(Self {
            launcher: either(args.launcher, "launcher"),
            role: either(args.role, "role"),
            cwd: present_path(args.cwd).or_else(|| input.text("cwd").map(PathBuf::from)),
            label: either(args.label, "label").unwrap_or_else(|| "worker".to_owned()),
            controller_id: either(args.controller_id, "controllerId"),
            debug_mode: false,
            options: chosen_options::typed(args.options, input)?,
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
            rules: RuleFlags {
                allow: rules(args.rules.allow, "allow"),
                ask: rules(args.rules.ask, "ask"),
                deny: rules(args.rules.deny, "deny"),
            },
            budget: budgets::typed(args.budget, input)?,
            inherited: Vec::new(),
            approval_timeout_ms,
            on_approval_timeout,
            agent: Wish::of(args.agent, input)?,
        })
    }
}

pub(super) fn run(args: WorkerStart, context: &Context) -> Result<Outcome> {
    let input = Input::load(args.input.as_deref(), input::WORKER_START, &context.typed)?;
    let debug_mode = input.flag("debugMode").unwrap_or(args.debug_mode);
    let config = args.start.config.config.clone();
    let wanted = Wanted { debug_mode, ..Wanted::of(args.start, &input)? };
    let workspace = context.workspace(wanted.cwd.as_deref())?;
    let config = context.config(config.as_deref(), wanted.cwd.as_deref())?;
    let mut client = Client::new(context, &workspace);
    let data = block_on(async move {
        let prepared = prepare(&mut client, wanted, &config, &workspace, context).await?;
        prepared.start(&mut client).await
    })?;
    let shown = text::fields(&data, &["workerId", "controllerId", "state"]);
    Ok(Outcome::report("worker.started", data, shown))
}

/// A start that nothing is known to be wrong with.
pub(super) struct Prepared {
    request: StartWorker,
    limit: Duration,
}

impl Prepared {
    /// Asks the daemon whether the controller that was chosen may have the worker.
    pub(super) async fn check_controller(&self, client: &mut Client) -> Result<()> {
        client.ask(&Ask::get(resolve_path(&self.request.choice))).await.map(|_| ())
    }

    /// Starts the worker and gives the data of `worker.started`.
    pub(super) async fn start(self, client: &mut Client) -> Result<Value> {
        let data = client.ask(&Ask::change("/v1/workers", &self.request)?.within(Some(self.limit))).await?;
        match &self.request.resume {
            Some(session) if data["sessionId"] != *session => {
                Err(not_as_asked(client, &data, "take up a session").await)
            }
            _ if self.request.agent.is_some() && data.get("agentDefinition").is_none() => {
                Err(not_as_asked(client, &data, "start one with the definition of an agent").await)
            }
            _ if !self.request.tags.is_empty() && data.get("tags").is_none() => {
                Err(not_as_asked(client, &data, "tag a worker").await)
            }
            _ if self.request.policy.is_some() && data["hasPolicy"] != true => {
                Err(not_as_asked(client, &data, "apply rules").await)
            }
            _ if self.request.answer_time.is_some() && data.get("answerTime").is_none() => {
                Err(not_as_asked(client, &data, "limit how long questions wait").await)
            }
            _ if !self.request.budget.is_boundless() => {
                let worker = data["workerId"].as_str().unwrap_or_default();
                let path = format!("/v1/workers/{worker}/budget");
                match client.ask(&Ask::get(Query::new(path))).await {
                    Err(failure) if failure.is(Code::InvalidArgument) => {
                        Err(not_as_asked(client, &data, "limit what a worker uses").await)
                    }
                    shown => shown.map(|_| data),
                }
            }
            _ => Ok(data),
        }
    }
}

/// A daemon or a runtime that is older than this command knows nothing of a session to take up, and has begun a new one,
/// or nothing of tags or rules: nobody has asked for such a worker.
async fn not_as_asked(client: &mut Client, data: &Value, what: &str) -> Failure {
    let worker = data["workerId"].as_str().unwrap_or_default();
    let stopped = match Ask::change(format!("/v1/workers/{worker}/stop"), &serde_json::json!({})) {
        Ok(stop) => client.ask(&stop).await.is_ok(),
        Err(_) => false,
    };
    Failure::new(Code::DaemonTooOld, format!("the daemon is older than this command and cannot {what}"))
        .with("workerId", worker)
        .with("stopped", stopped)
        .recommend("restart the daemon with `subagent daemon restart`, then start the worker again")
}

/// Chooses and checks what a worker of this workspace is started with.
pub(super) async fn prepare(
    client: &mut Client,
    wanted: Wanted,
    loaded: &LoadedConfig,
    workspace: &Workspace,
    context: &Context,
) -> Result<Prepared> {
    let config = &loaded.config;
    let cwd = workspace::resolve_cwd(wanted.cwd.as_deref(), &context.env)?;
    if cwd.to_str().is_none() {
        // It is part of JSON documents and of the agent's protocol, which are text.
        return Err(Failure::argument(format!("{} is not UTF-8; rename the folder", cwd.display()))
            .with("cwd", path_value(&cwd)));
    }
    // The daemon knows the handle, and takes the one that it names before that of the hint.
    let choice = ControllerChoice {
        controller_id: wanted.controller_id,
        hinted_controller_id: controller_hint::read_controller_id(&workspace.root),
        workspace_key: workspace.root.to_string_lossy().into_owned(),
    };
    let role = role::choose_role(config, wanted.role.as_deref()).to_owned();
    let chosen = Chosen::find(wanted.agent, &workspace.root, context).and_then(|agent| {
        let named = wanted.launcher.as_deref().or(agent.launcher());
        let found = choose(config, named, &role, &cwd, context)?;
        let found = if wanted.debug_mode { found } else { runnable(found)? };
        let has_model = wanted.options.options.model.is_some();
        let named = (found.1.name.as_str(), found.0);
        let agent = agent.resolve(named, config, &workspace.root, context, has_model)?;
        Ok((agent, found.0, found.1))
    });
    let (agent, launcher, resolved) = match chosen {
        Ok(chosen) => chosen,
        Err(failure) => {
            client.ask(&Ask::get(resolve_path(&choice))).await?;
            return Err(failure);
        }
    };
    let own = agent.as_ref().map(|agent| agent.servers.clone()).unwrap_or_default();
    let mcp_config = wanted.mcp_config.as_deref();
    let mcp_servers = mcp_servers::of(config, launcher, own, mcp_config, &cwd, &context.env)?;
    let (agent, layer) = agent.map(|agent| (agent.spec, agent.layer)).unzip();
    let mut configured = launcher.options.clone();
    if let Some(agent) = &agent {
        configured.mode = agent.mode.clone().or(configured.mode);
        configured.model = configured.model.filter(|_| agent.model.is_none());
    }
    let additional_directories = additional_directories(&wanted.add_dirs, context)?;
    let request = StartWorker {
        mcp_servers,
        additional_directories,
        choice,
        env: environment(context, launcher, &cwd),
        launcher: spec(launcher, resolved)?,
        role,
        cwd,
        label: wanted.label,
        umask: current_umask().bits(),
        nofile: getrlimit(Resource::RLIMIT_NOFILE).ok().map(|(soft, _)| soft),
        debug_mode: wanted.debug_mode,
        idle_timeout_ms: wanted.options.idle_timeout_ms.or(launcher.idle_timeout.map(millis)),
        queue_limit: launcher.queue_limit,
        options: chosen_options::of_start(wanted.options, &configured),
        resume: wanted.resume,
        tags: wanted.tags,
        budget: wanted.budget.over(&budgets::of_config(&config.budgets.worker)),
        policy: policy::spec(
            loaded,
            &wanted.rules,
            wanted.inherited,
            layer.flatten(),
            &workspace.root,
            context,
        )?,
        answer_time: answer_time::of(
            &config.approvals,
            wanted.approval_timeout_ms,
            wanted.on_approval_timeout,
        )?,
        agent,
    };
    let wishes = request.agent.as_ref().is_some_and(|agent| agent.model.is_some());
    let patience = request.options.patience() + if wishes { PATIENCE } else { Duration::ZERO };
    let limit = launcher.timeouts.startup + patience + GRACE;
    Ok(Prepared { request, limit })
}

/// Folders, by their absolute paths.
fn additional_directories(wanted: &[PathBuf], context: &Context) -> Result<Vec<PathBuf>> {
    let absolute = |path: &PathBuf| {
        let problem = match context.env.cwd.join(path).canonicalize() {
            Ok(path) if path.is_dir() && path.to_str().is_some() => return Ok(path),
            Ok(_) => "it is no folder, or its path is not UTF-8".to_owned(),
            Err(error) => error.to_string(),
        };
        let message = format!("--add-dir {} cannot be used: {problem}", path.display());
        Err(Failure::argument(message).with("additionalDirectory", path_value(path)))
    };
    wanted.iter().map(absolute).collect()
}

pub(super) fn resolve_path(choice: &ControllerChoice) -> Query {
    Query::new("/v1/controllers/resolve")
        .with("controllerId", choice.controller_id.as_deref())
        .with("hintedControllerId", choice.hinted_controller_id.as_deref())
        .with("workspaceKey", Some(&choice.workspace_key))
}

/// The launcher, and what its command means here.
fn choose<'a>(
    config: &'a model::Config,
    named: Option<&str>,
    role: &str,
    cwd: &Path,
    context: &Context,
) -> Result<(&'a model::Launcher, ResolvedLauncher)> {
    let (name, _) = role::choose_launcher(config, named, role)?;
    let launcher = config.launcher(name)?;
    Ok((launcher, launcher::resolve(name, launcher, cwd, &context.env)))
}

/// The same, if it can be started here.
pub(super) fn runnable(
    (launcher, resolved): (&model::Launcher, ResolvedLauncher),
) -> Result<(&model::Launcher, ResolvedLauncher)> {
    let name = &resolved.name;
    if launcher.backend_kind != ACP_STDIO {
        return Err(unusable(
            format!(
                "launcher `{name}` has the backend kind `{}`; only `{ACP_STDIO}` can be started",
                launcher.backend_kind
            ),
            format!(
                "set launchers.{name}.backend.kind to {ACP_STDIO} in the config file, or use another launcher"
            ),
        )
        .with("launcher", name.as_str())
        .with("backendKind", launcher.backend_kind.as_str()));
    }
    if let Some(problem) = &resolved.problem {
        return Err(unusable(
            format!("launcher `{name}` cannot be started: {problem}"),
            format!("install it, or correct launchers.{name}.command; `subagent launcher probe {name}` shows what is looked for"),
        )
        .with("launcher", name.as_str())
        .with("command", launcher.command.as_str())
        .with("effectiveCommand", resolved.effective_command.as_str())
        .with("effectiveArgs", resolved.effective_args.clone()));
    }
    Ok((launcher, resolved))
}

fn unusable(message: String, advice: String) -> Failure {
    Failure::new(Code::BackendLauncher, message).with("reasonCategory", "launcher").recommend(advice)
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// What the daemon stores and starts, now and again after a loss.
fn spec(launcher: &model::Launcher, resolved: ResolvedLauncher) -> Result<LauncherSpec> {
    let program = match &resolved.exec_path {
        // In debug mode only: the daemon looks for it when an agent is to be started.
        None => resolved.effective_command,
        Some(path) => path.to_str().map(str::to_owned).ok_or_else(|| {
            unusable(
                format!(
                    "launcher `{}` cannot be started: its path is not UTF-8 ({})",
                    resolved.name,
                    path.display()
                ),
                "move the program to a path of plain text".to_owned(),
            )
            .with("launcher", resolved.name.as_str())
        })?,
    };
    let timeouts = Timeouts {
        startup_ms: millis(launcher.timeouts.startup),
        initialize_ms: launcher.timeouts.initialize.map(millis),
        session_ms: launcher.timeouts.session.map(millis),
        turn_ms: launcher.timeouts.turn.map(millis),
        cancel_grace_ms: millis(launcher.timeouts.cancel_grace),
        ..Timeouts::default()
    };
    Ok(LauncherSpec {
        name: resolved.name,
        backend_kind: resolved.backend_kind,
        program,
        command: resolved.command,
        args: resolved.effective_args,
        timeouts,
        auth_method: launcher.auth_method.clone(),
    })
}

/// What an agent of this launcher inherits from the caller.
pub(crate) fn environment(
    context: &Context,
    launcher: &model::Launcher,
    cwd: &Path,
) -> Vec<(Bytes64, Bytes64)> {
    let bytes = |text: OsString| Bytes64(text.into_vec());
    inherited_environment(context.env.vars.clone(), &launcher.env, cwd)
        .into_iter()
        .map(|(name, value)| (bytes(name), bytes(value)))
        .collect()
}

/// The file mode creation mask. It can only be read by setting it; nothing else runs here that makes files meanwhile.
pub(crate) fn current_umask() -> Mode {
    let mask = umask(Mode::from_bits_truncate(0o077));
    umask(mask);
    mask
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use subagent_config::Environment;

    use super::*;
    use crate::args::Typed;
    use crate::output::Format;

    fn context(vars: &[(&str, &str)]) -> Context {
        let vars = vars.iter().map(|(name, value)| ((*name).into(), (*value).into()));
        Context { env: Environment::new(vars, "/"), format: Format::Json, typed: Typed::default() }
    }

    fn config(launcher: model::Launcher) -> model::Config {
        let mut config = model::Config::default();
        config.launchers.insert("one".to_owned(), launcher);
        config
    }

    #[test]
    fn a_foreign_backend_and_a_missing_program_are_told_apart() {
        let context = context(&[("PATH", "/nonexistent")]);
        let mut foreign = model::Launcher::new("x");
        foreign.backend_kind = "telepathy".to_owned();
        let foreign = config(foreign);
        let chosen = choose(&foreign, Some("one"), "r", Path::new("/"), &context).unwrap();
        let failure = runnable(chosen).unwrap_err();
        assert!(failure.is(Code::BackendLauncher));
        assert_eq!(failure.details["backendKind"], "telepathy");
        let missing = config(model::Launcher::new("no-such-agent --acp"));
        let chosen = choose(&missing, Some("one"), "r", Path::new("/"), &context).unwrap();
        let program = spec(chosen.0, chosen.1.clone()).unwrap().program;
        assert_eq!(program, "no-such-agent", "in debug mode it is left to the daemon");
        let failure = runnable(chosen).unwrap_err();
        let details = Value::Object(failure.details);
        assert_eq!(
            (&details["effectiveCommand"], &details["reasonCategory"]),
            (&json!("no-such-agent"), &json!("launcher"))
        );
        assert_eq!(details["effectiveArgs"], json!(["--acp"]));
    }

    #[test]
    fn what_is_sent_is_what_was_found() {
        let context = context(&[("PATH", "/nonexistent"), ("SUBAGENT_CTL_TOKEN", "t"), ("KEY", "k")]);
        let mut launcher = model::Launcher::new("/bin/sh -c");
        launcher.args = vec!["exit".to_owned()];
        launcher.timeouts.turn = Some(Duration::from_secs(2));
        let config = config(launcher);
        let (launcher, resolved) = choose(&config, None, "r", Path::new("/"), &context)
            .or_else(|_| choose(&config, Some("one"), "r", Path::new("/"), &context))
            .unwrap();
        let spec = spec(launcher, resolved).unwrap();
        assert_eq!((spec.program.as_str(), spec.args), ("/bin/sh", vec!["-c".to_owned(), "exit".to_owned()]));
        assert_eq!((spec.timeouts.startup_ms, spec.timeouts.turn_ms), (60_000, Some(2_000)));
        let names: Vec<_> = environment(&context, launcher, Path::new("/"))
            .into_iter()
            .map(|(name, _)| String::from_utf8(name.0).unwrap())
            .collect();
        assert_eq!(names, ["KEY", "PATH", "PWD"]);
    }

    #[test]
    fn the_mask_is_read_and_stays() {
        let mask = current_umask();
        assert_eq!(current_umask(), mask);
    }
}
