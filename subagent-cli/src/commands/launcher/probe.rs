//! `launcher probe`: whether a launcher's command can be started here and now. Without `--handshake` nothing is started.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};
use subagent_config::{handshakes, launcher, state_dir};
use subagent_protocol::Code;
use subagent_protocol::ask::{AgentQueryResult, AgentQuestion};
use subagent_protocol::handshake::Handshake;

use super::handshake::{AgentReport, LauncherAgent, workspace_of};
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
    let path = found.resolved_path.as_deref().map_or(Value::Null, path_value);
    let mut lines = vec![
        format!("{}: {}", found.name, of.state),
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
    if let Some(package) = &of.package {
        lines.push(format!("package: {package} (npx fetches it at the first start)"));
    }
    installed::add(&mut data, &loaded, &args.name, launcher, context);
    if let Some(problem) = found.problem {
        lines.push(format!("problem: {problem}"));
        one_line::extend(&mut data, [("problem", problem.to_string().into())]);
    }
    if args.handshake {
        let agent = LauncherAgent::of(&loaded.config, &args.name, args.cwd.as_deref(), context)?;
        let (report, answer) = handshake(&agent, args)?;
        note(&agent, &report, context);
        lines.extend(shown(&report));
        let mut handshake = json!(report);
        let raw = json!({"initialize": answer.initialize, "session": answer.session});
        one_line::extend(&mut handshake, [("raw", raw)]);
        one_line::extend(&mut data, [("handshake", handshake)]);
    }
    Ok(CliOutcome::report("launcher.probed", data, lines.join("\n")))
}

/// What the agent says of itself. That it wants a login first is an answer, everything else that goes wrong is an error.
fn handshake(agent: &LauncherAgent<'_>, args: &LauncherProbeArgs) -> Result<(AgentReport, AgentQueryResult)> {
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
pub(crate) fn asked(agent: &LauncherAgent<'_>, limit: Duration, context: &CliContext) -> Result<AgentReport> {
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
fn note(agent: &LauncherAgent<'_>, report: &AgentReport, context: &CliContext) {
    /// `init` asks several agents at once. The first one makes the state dir.
    static WRITING: Mutex<()> = Mutex::new(());
    let Some(workspace) = workspace_of(context) else { return };
    let _writing = WRITING.lock().unwrap_or_else(PoisonError::into_inner);
    let kept = state_dir::prepare(&workspace.state_dir).map_err(|error| error.message()).and_then(|()| {
        handshakes::write(&workspace.state_dir, agent.name, agent.launcher, &json!(report))
            .map_err(|error| format!("{}: {error}", workspace.state_dir.join(handshakes::FOLDER).display()))
    });
    if let Err(why) = kept {
        complain(&format!("warning: what the agent said about itself is not stored: {why}"));
    }
}

/// The lines about a handshake.
fn shown(report: &AgentReport) -> Vec<String> {
    // What an agent calls itself must not look like another line.
    let plain = |text: &str| text.replace(char::is_control, " ");
    let word = |text: &Option<String>| text.as_deref().map(plain).unwrap_or_default();
    fn ids<'a>(ids: impl Iterator<Item = &'a String>) -> String {
        ids.map(|id| id.replace(char::is_control, " ")).collect::<Vec<_>>().join(", ")
    }
    let Handshake { agent, protocol_version, auth_methods, modes, models, config_options, .. } =
        &report.handshake;
    let agent = agent.clone().unwrap_or_default();
    let version = protocol_version.map_or_else(|| "null".to_owned(), |version| version.to_string());
    let modes = modes.iter().flat_map(|modes| &modes.available_modes);
    let models = models.iter().flat_map(|models| &models.available_models);
    let phases: Vec<_> =
        report.phases.iter().map(|phase| format!("{} {} ms", plain(&phase.phase), phase.millis)).collect();
    let code = report.error.as_ref().map_or("ok", |error| &*error.code);
    let mut lines = vec![
        format!("handshake: {code}"),
        format!("agent: {} {}", word(&agent.name), word(&agent.version)).trim_end().to_owned(),
        format!("protocolVersion: {version}"),
        format!("authMethods: {}", ids(auth_methods.iter().map(|method| &method.id))).trim_end().to_owned(),
        format!("modes: {}", ids(modes.map(|mode| &mode.id))).trim_end().to_owned(),
        format!("models: {}", ids(models.map(|model| &model.id))).trim_end().to_owned(),
        format!("configOptions: {}", ids(config_options.iter().map(|option| &option.id)))
            .trim_end()
            .to_owned(),
        format!("phases: {}", phases.join(", ")),
    ];
    if report.login_wanted {
        lines.push("loginWanted: true".to_owned());
    }
    let advised = report
        .error
        .as_ref()
        .and_then(|error| subagent_protocol::error::ErrorFacts::of(&error.details).recommended_command.0);
    if let Some(command) = advised {
        lines.push(format!("recommendedCommand: {command}"));
    }
    lines
}

#[cfg(test)]
mod tests {
    use subagent_protocol::time::Timestamp;

    use super::super::handshake::AgentRefusal;
    use super::*;

    #[test]
    fn what_an_agent_calls_itself_stays_on_its_line() {
        let initialize = json!({
            "agentInfo": {"name": "a\nhandshake: ok", "version": "\u{1b}[2J"}, "authMethods": [{"id": "x\ny"}],
        });
        let error = AgentRefusal {
            code: "AUTH_REQUIRED".into(),
            message: String::new(),
            details: serde_json::Map::default(),
        };
        let lines = shown(&AgentReport {
            handshake: Handshake::of(&initialize, None),
            at: Timestamp(0),
            phases: Vec::new(),
            login_wanted: false,
            error: Some(error),
        });
        assert_eq!(lines[..2], ["handshake: AUTH_REQUIRED", "agent: a handshake: ok  [2J"]);
        assert!(lines.contains(&"authMethods: x y".to_owned()), "{lines:?}");
        assert!(lines.iter().all(|line| !line.contains(char::is_control)), "{lines:?}");
    }
}
