//! `launcher probe`: whether a launcher's command can be started here and now. Without `--handshake` nothing is started.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};
use subagent_config::{handshakes, launcher, state_dir};
use subagent_protocol::Code;
use subagent_protocol::ask::{AgentQueryResult, AgentQuestion};

use super::handshake::{LauncherAgent, workspace_of};
use super::installed;
use crate::ask::{AgentFolder, Patience};
use crate::command_line::flags::{ConfigFlag, JsonFlag, path};
use crate::command_line::numbers::time_or_seconds;
use crate::context::{CliContext, path_value, present_path};
use crate::failure::{Failure, Result};
use crate::output::{CliOutcome, complain, json as one_line};

/// Find out whether a launcher's command is installed, and what its agent is
///
/// Without --handshake nothing is started. With it the agent is started, makes a session in an empty folder, closes it
/// and ends; what it said of itself is kept, and shown by launcher list and launcher show.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent launcher probe codex --json
  subagent launcher probe codex --handshake
  subagent launcher probe gemini --handshake --timeout 2m --json")]
pub(crate) struct LauncherProbeArgs {
    /// Its name in the config file
    pub(crate) name: String,
    /// Start the agent and ask what it is and offers
    #[arg(long)]
    pub(crate) handshake: bool,
    /// How long each phase of the handshake may take, as 90s, 2m
    /// [default: the launcher's]
    #[arg(
        long,
        alias = "timeout-seconds",
        value_name = "TIME",
        requires = "handshake",
        value_parser = time_or_seconds
    )]
    pub(crate) timeout: Option<f64>,
    /// Where the agent makes its session [default: an empty folder]
    #[arg(long, value_name = "PATH", requires = "handshake", value_parser = path())]
    pub(crate) cwd: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) config: ConfigFlag,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

pub(super) fn run(args: &LauncherProbeArgs, context: &CliContext) -> Result<CliOutcome> {
    let loaded = context.config(args.config.config.as_deref(), None)?;
    let launcher = loaded.config.launcher(&args.name)?;
    let found = launcher::resolve(&args.name, launcher, &context.env.cwd, &context.env);
    let of = installed::found(&loaded, &args.name, launcher, context);
    let state = of.get("state").and_then(Value::as_str).unwrap_or_default();
    let path = found.resolved_path.as_deref().map_or(Value::Null, path_value);
    let mut lines = vec![
        format!("{}: {state}", found.name),
        format!("command: {}", found.command),
        format!("effectiveCommand: {}", found.effective_command),
        format!("effectiveArgs: {}", one_line::line(found.effective_args.clone().into())),
        format!("resolvedPath: {}", path.as_str().unwrap_or_default()).trim_end().to_owned(),
    ];
    let mut data = json!({
        "name": found.name,
        "backendKind": found.backend_kind,
        "command": found.command,
        "args": found.args,
        "effectiveCommand": found.effective_command,
        "effectiveArgs": found.effective_args,
        "commandWasTokenized": found.command_was_tokenized,
        "available": found.available,
        "resolvedCommandPath": path,
        "envKeys": found.env_keys,
    });
    if let Some(package) = of.get("package").and_then(Value::as_str) {
        lines.push(format!("package: {package} (npx fetches it at the first start)"));
    }
    installed::add(&mut data, &loaded, &args.name, launcher, context);
    if let Some(problem) = found.problem {
        lines.push(format!("problem: {problem}"));
        data["problem"] = problem.to_string().into();
    }
    if args.handshake {
        let agent = LauncherAgent::of(&loaded.config, &args.name, args.cwd.as_deref(), context)?;
        let (report, answer) = handshake(&agent, args)?;
        note(&agent, &report, context);
        lines.extend(shown(&report));
        data["handshake"] = report;
        data["handshake"]["raw"] = json!({"initialize": answer.initialize, "session": answer.session});
    }
    Ok(CliOutcome::report("launcher.probed", data, lines.join("\n")))
}

/// What the agent says of itself. That it wants a login first is an answer, everything else that goes wrong is an error.
fn handshake(agent: &LauncherAgent<'_>, args: &LauncherProbeArgs) -> Result<(Value, AgentQueryResult)> {
    let place = match present_path(args.cwd.clone()) {
        Some(_) => AgentFolder::Folder(agent.cwd().to_owned()),
        None => AgentFolder::Empty,
    };
    let all = args.timeout.map(patience).transpose()?;
    let answer = agent.ask_in(place, AgentQuestion::Handshake, Patience::of(agent.launcher, all))?;
    match &answer.error {
        Some(error) if error.code != Code::AuthRequired => Err(agent.failure(answer)),
        _ => Ok((agent.report(&answer), answer)),
    }
}

/// How long an agent that was only asked may take for each step of its end. Its session is closed: nothing is lost.
const STOP_GRACE: Duration = Duration::from_millis(300);

/// Returns the handshake of an agent in an empty folder, and stores it for later commands. `limit` applies to each
/// request where the launcher's own limit is longer.
///
/// # Errors
/// All except `AUTH_REQUIRED`, which is part of the handshake.
pub(crate) fn asked(agent: &LauncherAgent<'_>, limit: Duration, context: &CliContext) -> Result<Value> {
    let patience = Patience::of(agent.launcher, None).at_most(limit, STOP_GRACE);
    let answer = agent.ask_in(AgentFolder::Empty, AgentQuestion::Handshake, patience)?;
    match &answer.error {
        Some(error) if error.code != Code::AuthRequired => Err(agent.failure(answer)),
        _ => {
            let report = agent.report(&answer);
            note(agent, &report, context);
            Ok(report)
        }
    }
}

/// A time that was typed.
pub(crate) fn patience(seconds: f64) -> Result<Duration> {
    let time = Duration::try_from_secs_f64(seconds).ok().filter(|time| !time.is_zero());
    time.ok_or_else(|| Failure::argument("--timeout must be more than 0, and a time that can come"))
}

/// Stores the handshake for later commands. An error is only a warning: the caller still shows it.
fn note(agent: &LauncherAgent<'_>, report: &Value, context: &CliContext) {
    /// `init` asks several agents at once. The first one makes the state dir.
    static WRITING: Mutex<()> = Mutex::new(());
    let Some(workspace) = workspace_of(context) else { return };
    let _writing = WRITING.lock().unwrap_or_else(PoisonError::into_inner);
    let kept = state_dir::prepare(&workspace.state_dir).map_err(|error| error.message()).and_then(|()| {
        handshakes::write(&workspace.state_dir, agent.name, agent.launcher, report)
            .map_err(|error| format!("{}: {error}", workspace.state_dir.join(handshakes::FOLDER).display()))
    });
    if let Err(why) = kept {
        complain(&format!("warning: what the agent said about itself is not stored: {why}"));
    }
}

/// The lines about a handshake.
fn shown(report: &Value) -> Vec<String> {
    // What an agent calls itself must not look like another line.
    let plain = |text: &str| text.replace(char::is_control, " ");
    let word = |value: &Value| value.as_str().map(plain).unwrap_or_default();
    let ids = |value: &Value| {
        let ids = value.as_array().into_iter().flatten().filter_map(|entry| entry["id"].as_str());
        ids.map(plain).collect::<Vec<_>>().join(", ")
    };
    let phases = report["phases"].as_array().into_iter().flatten();
    let phases: Vec<_> =
        phases.map(|phase| format!("{} {} ms", word(&phase["phase"]), phase["millis"])).collect();
    let code = report["error"]["code"].as_str().unwrap_or("ok");
    let mut lines = vec![
        format!("handshake: {code}"),
        format!("agent: {} {}", word(&report["agent"]["name"]), word(&report["agent"]["version"]))
            .trim_end()
            .to_owned(),
        format!("protocolVersion: {}", report["protocolVersion"]),
        format!("authMethods: {}", ids(&report["authMethods"])).trim_end().to_owned(),
        format!("modes: {}", ids(&report["modes"]["availableModes"])).trim_end().to_owned(),
        format!("models: {}", ids(&report["models"]["availableModels"])).trim_end().to_owned(),
        format!("configOptions: {}", ids(&report["configOptions"])).trim_end().to_owned(),
        format!("phases: {}", phases.join(", ")),
    ];
    if report["loginWanted"] == true {
        lines.push("loginWanted: true".to_owned());
    }
    if let Some(command) = report["error"]["details"]["recommendedCommand"].as_str() {
        lines.push(format!("recommendedCommand: {command}"));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_agent_calls_itself_stays_on_its_line() {
        let report = json!({
            "agent": {"name": "a\nhandshake: ok", "version": "\u{1b}[2J"}, "authMethods": [{"id": "x\ny"}],
            "error": {"code": "AUTH_REQUIRED"},
        });
        let lines = shown(&report);
        assert_eq!(lines[..2], ["handshake: AUTH_REQUIRED", "agent: a handshake: ok  [2J"]);
        assert!(lines.contains(&"authMethods: x y".to_owned()), "{lines:?}");
        assert!(lines.iter().all(|line| !line.contains(char::is_control)), "{lines:?}");
    }
}
