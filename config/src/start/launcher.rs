//! The launcher of a worker in the form that the daemon stores, and the environment of its agent.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::Path;

use subagent_protocol::api::LauncherSpec;
use subagent_protocol::bytes64::Bytes64;
use subagent_protocol::start::Timeouts;
use subagent_protocol::{Code, Error, Result};

use super::wire::millis;
use crate::environment::{Environment, inherited_environment};
use crate::model::{self, ACP_STDIO};
use crate::{ConfigError, ResolvedLauncher, installed, launcher, role};

/// Returns the launcher with its resolved command. Without a name, the only installed launcher is selected.
///
/// # Errors
/// `LAUNCHER_NOT_FOUND`.
pub fn choose<'a>(
    config: &'a model::Config,
    named: Option<&str>,
    role: &str,
    cwd: &Path,
    env: &Environment,
) -> Result<(&'a model::Launcher, ResolvedLauncher)> {
    let name = match role::choose_launcher(config, named, role) {
        Ok((name, _)) => name,
        Err(ConfigError::LauncherNotChosen { .. }) => installed::only(config, cwd, env)?,
        Err(error) => return Err(error.into()),
    };
    let launcher = config.launcher(name)?;
    Ok((launcher, launcher::resolve(name, launcher, cwd, env)))
}

/// Returns the launcher if its program can be started.
///
/// # Errors
/// `BACKEND_LAUNCHER`.
pub fn runnable(
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

/// Returns the launcher if it can be started on another machine, where its program is looked up.
///
/// # Errors
/// `BACKEND_LAUNCHER`.
pub fn runnable_there(
    (launcher, resolved): (&model::Launcher, ResolvedLauncher),
) -> Result<(&model::Launcher, ResolvedLauncher)> {
    let command = resolved.effective_command.clone();
    let known = ResolvedLauncher { problem: None, exec_path: Some(command.into()), ..resolved };
    runnable((launcher, known))
}

fn unusable(message: String, advice: String) -> Error {
    Error::new(Code::BackendLauncher, message).with("reasonCategory", "launcher").recommend(advice)
}

/// Returns what the daemon stores for starts and restarts.
///
/// # Errors
/// `BACKEND_LAUNCHER` for a program path that is not UTF-8.
pub fn spec(launcher: &model::Launcher, resolved: ResolvedLauncher) -> Result<LauncherSpec> {
    let program = match &resolved.exec_path {
        // In debug mode only. The daemon searches the program when it starts an agent.
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
        prefix_tools: launcher.prefix_tools,
    })
}

/// Returns the environment that an agent of this launcher inherits from the caller.
#[must_use]
pub fn environment(env: &Environment, launcher: &model::Launcher, cwd: &Path) -> Vec<(Bytes64, Bytes64)> {
    let bytes = |text: OsString| Bytes64(text.into_vec());
    inherited_environment(env.vars.clone(), &launcher.env, cwd)
        .into_iter()
        .map(|(name, value)| (bytes(name), bytes(value)))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::{Value, json};

    use super::*;

    fn env(vars: &[(&str, &str)]) -> Environment {
        Environment::new(vars.iter().map(|(name, value)| ((*name).into(), (*value).into())), "/")
    }

    fn config(launcher: model::Launcher) -> model::Config {
        let mut config = model::Config::default();
        config.launchers.insert("one".to_owned(), launcher);
        config
    }

    #[test]
    fn a_foreign_backend_and_a_missing_program_are_distinguished() {
        let env = env(&[("PATH", "/nonexistent")]);
        let mut foreign = model::Launcher::new("x");
        foreign.backend_kind = "telepathy".to_owned();
        let foreign = config(foreign);
        let chosen = choose(&foreign, Some("one"), "r", Path::new("/"), &env).unwrap();
        let error = runnable(chosen).unwrap_err();
        assert_eq!((error.code, &error.details["backendKind"]), (Code::BackendLauncher, &json!("telepathy")));
        let missing = config(model::Launcher::new("no-such-agent --acp"));
        let chosen = choose(&missing, Some("one"), "r", Path::new("/"), &env).unwrap();
        let program = spec(chosen.0, chosen.1.clone()).unwrap().program;
        assert_eq!(program, "no-such-agent", "in debug mode it is left to the daemon");
        let details = Value::Object(runnable(chosen).unwrap_err().details);
        assert_eq!(
            (&details["effectiveCommand"], &details["reasonCategory"]),
            (&json!("no-such-agent"), &json!("launcher"))
        );
        assert_eq!(details["effectiveArgs"], json!(["--acp"]));
    }

    #[test]
    fn what_is_sent_is_what_was_found() {
        let env = env(&[("PATH", "/nonexistent"), ("SUBAGENT_CTL_TOKEN", "t"), ("KEY", "k")]);
        let mut launcher = model::Launcher::new("/bin/sh -c");
        launcher.args = vec!["exit".to_owned()];
        launcher.timeouts.turn = Some(Duration::from_secs(2));
        let config = config(launcher);
        let (launcher, resolved) = choose(&config, Some("one"), "r", Path::new("/"), &env).unwrap();
        let spec = spec(launcher, resolved).unwrap();
        assert_eq!((spec.program.as_str(), spec.args), ("/bin/sh", vec!["-c".to_owned(), "exit".to_owned()]));
        assert_eq!((spec.timeouts.startup_ms, spec.timeouts.turn_ms), (60_000, Some(2_000)));
        let names: Vec<_> = environment(&env, launcher, Path::new("/"))
            .into_iter()
            .map(|(name, _)| String::from_utf8(name.0).unwrap())
            .collect();
        assert_eq!(names, ["KEY", "PATH", "PWD"]);
    }
}
