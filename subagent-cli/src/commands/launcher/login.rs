//! `launcher login`: the agent's own ways, or what to do where it has none.

use std::io::{IsTerminal as _, stdin, stdout};
use std::path::PathBuf;
use std::process::Command;

use clap::Args;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use subagent_config::launcher::find_program;
use subagent_config::start::environment;
use subagent_protocol::ask::{AgentQuestion, LoginKind, terminal_command};
use subagent_protocol::clean::one_line;
use subagent_protocol::lenient::{self, Lenient};
use subagent_protocol::{Code, json};

use super::handshake::LauncherAgent;
use super::probe::patience;
use crate::ask::Patience;
use crate::command_line::flags::{ConfigFlag, JsonFlag};
use crate::command_line::numbers::time_or_seconds;
use crate::context::{CliContext, present};
use crate::failure::{Failure, Result};
use crate::output::{CliOutcome, text};

/// Log in to the agent of a launcher, in the way that the agent offers
///
/// Some agents open a browser, some ask at the terminal, some want a variable to be set. What the agent writes on its
/// standard error is shown.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent launcher login codex
  subagent launcher login gemini --method oauth-personal")]
pub(crate) struct LauncherLoginArgs {
    /// Its name in the config file
    pub(crate) name: String,
    /// Which way, by its id [default: the only one]
    #[arg(long, value_name = "ID")]
    pub(crate) method: Option<String>,
    /// How long it may take, as 90s, 10m
    #[arg(
        long,
        alias = "timeout-seconds",
        value_name = "TIME",
        default_value = "10m",
        value_parser = time_or_seconds
    )]
    pub(crate) timeout: f64,
    #[command(flatten)]
    pub(crate) config: ConfigFlag,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

pub(crate) fn run(args: &LauncherLoginArgs, context: &CliContext) -> Result<CliOutcome> {
    let loaded = context.config(args.config.config.as_deref(), None)?;
    let agent = LauncherAgent::of(&loaded.config, &args.name, None, context)?;
    let time = patience(args.timeout)?;
    let method = present(args.method.clone()).or_else(|| agent.launcher.auth_method.clone());
    let question = AgentQuestion::Login { method };
    let patience = Patience { request: time, ..Patience::of(agent.launcher, None) };
    let answer = agent.ask(question, patience).map_err(|failure| to_choose(failure, &args.name))?;
    let method = answer.method.unwrap_or_default();
    let kind = LoginKind::of(&method);
    let by_variables = kind == Some(LoginKind::EnvVar);
    if kind == Some(LoginKind::Terminal) {
        at_terminal(&agent, &method, context)?;
    }
    agent.forget();
    let OfferedMethod { id, name, link, vars } = lenient::read(&method);
    let mut data = json!({
        "name": args.name, "method": id, "methodName": name, "loggedIn": !by_variables,
    });
    let mut keys = vec!["name", "method", "loggedIn"];
    if by_variables {
        let action = format!(
            "set these variables in the shell that starts workers, or in launchers.{}.env of the config file",
            args.name
        );
        let variables = [
            ("variables", variables(&vars)),
            ("link", link.unwrap_or_default()),
            ("recommendedAction", action.into()),
        ];
        json::extend(&mut data, variables);
        keys.extend(["variables", "link", "recommendedAction"]);
    }
    let shown = text::fields(&data, &keys);
    Ok(CliOutcome::report("launcher.login", data, shown))
}

/// Lists the ways to log in where one has to be chosen, and the command that does.
fn to_choose(mut failure: Failure, launcher: &str) -> Failure {
    let OfferedMethods { auth_methods } = OfferedMethods::deserialize(&failure.details).unwrap_or_default();
    let described: Vec<(String, String)> = auth_methods
        .into_iter()
        .filter_map(|OfferedMethod { id, name, .. }| {
            let word = |word: Option<Value>| word.as_ref().and_then(Value::as_str).map(one_line);
            Some((word(id)?, word(name).unwrap_or_default()))
        })
        .collect();
    let Some((first, _)) = described.first().filter(|_| failure.is(Code::InvalidArgument)) else {
        return failure;
    };
    let line = |(id, name): &(String, String)| match name.is_empty() {
        true => id.clone(),
        false => format!("{id} ({name})"),
    };
    let words = ["subagent", "launcher", "login", launcher, "--method", first];
    let command = shell_words::join(words);
    let lines: Vec<String> = described.iter().map(line).collect();
    failure.message = format!("{}: {}", failure.message, lines.join(", "));
    failure.with("recommendedCommand", command)
}

/// The details of an error that lists the ways to log in.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct OfferedMethods {
    #[serde(deserialize_with = "lenient::objects")]
    auth_methods: Vec<OfferedMethod>,
}

/// A way to log in, as an agent describes it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct OfferedMethod {
    id: Option<Value>,
    name: Option<Value>,
    link: Option<Value>,
    #[serde(deserialize_with = "lenient::or_default")]
    vars: Vec<Lenient<LoginVariable>>,
}

/// A variable that a method wants.
#[derive(Debug, Deserialize)]
struct LoginVariable {
    name: String,
    label: Option<Value>,
    #[serde(default)]
    optional: Lenient<bool>,
}

/// The names of the variables that a method wants, and whether it can do without.
fn variables(vars: &[Lenient<LoginVariable>]) -> Value {
    let named = vars.iter().filter_map(|var| var.0.as_ref());
    named
        .map(|LoginVariable { name, label, optional }| {
            json!({"name": name, "label": label, "optional": optional.0 == Some(true)})
        })
        .collect()
}

/// The program of a method at a terminal, and what it adds to the agent's own.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct TerminalProgram {
    command: Lenient<String>,
    #[serde(deserialize_with = "lenient::or_default")]
    args: Vec<Lenient<String>>,
    #[serde(deserialize_with = "lenient::or_default")]
    env: Map<String, Value>,
}

/// Runs the agent's program with what the method adds, or the command that it names, at the caller's terminal.
fn at_terminal(agent: &LauncherAgent<'_>, method: &Value, context: &CliContext) -> Result<()> {
    let named = terminal_command(method);
    let TerminalProgram { command, args, env } = lenient::read(named.unwrap_or(method));
    let id = lenient::read::<OfferedMethod>(method).id.unwrap_or_default();
    let added = args.into_iter().filter_map(|arg| arg.0);
    let (program, args): (PathBuf, Vec<String>) = match (named, &agent.resolved.exec_path) {
        (Some(_), _) => {
            let word = command.0.unwrap_or_default();
            let found = find_program(&word, agent.cwd(), &context.env);
            (found.unwrap_or_else(|_| word.into()), added.collect())
        }
        (None, found) => {
            let program = found.clone().unwrap_or_else(|| agent.resolved.effective_command.clone().into());
            (program, agent.resolved.effective_args.iter().cloned().chain(added).collect())
        }
    };
    if !stdin().is_terminal() || !stdout().is_terminal() {
        let words = std::iter::once(program.to_string_lossy().into_owned()).chain(args);
        let words: Vec<String> = words.collect();
        return Err(Failure::new(
            Code::TerminalRequired,
            "this login method needs a terminal, and there is none",
        )
        .with("launcher", agent.name)
        .with("method", id)
        .with("command", shell_words::join(&words))
        .recommend("run the same command in a terminal"));
    }
    let named = env.iter().filter_map(|(name, value)| Some((name.as_str(), value.as_str()?)));
    let may = |name: &str| !name.is_empty() && !name.contains(['=', '\0']);
    let inherited = environment(&context.env, agent.launcher, agent.cwd());
    let bytes = |bytes: Vec<u8>| <std::ffi::OsString as std::os::unix::ffi::OsStringExt>::from_vec(bytes);
    let status = Command::new(&program)
        .args(args)
        .env_clear()
        .envs(inherited.into_iter().map(|(name, value)| (bytes(name.0), bytes(value.0))))
        .envs(named.filter(|(name, value)| may(name) && !value.contains('\0')))
        .current_dir(agent.cwd())
        .status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => {
            Err(Failure::new(Code::BackendUnavailable, format!("the login did not succeed ({status})"))
                .with("launcher", agent.name)
                .with("method", id)
                .with("exitCode", status.code())
                .recommend("repeat it, or log in with the agent's own command"))
        }
        Err(error) => {
            Err(Failure::new(Code::BackendLauncher, format!("the login cannot be started: {error}"))
                .with("launcher", agent.name)
                .with("error", error.to_string()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_named_variables_are_reported() {
        let method =
            json!({"vars": [{"name": "KEY"}, {"name": "ORG", "optional": true, "label": "L"}, {"x": 1}, 7]});
        let expected = json!([
            {"name": "KEY", "label": null, "optional": false}, {"name": "ORG", "label": "L", "optional": true},
        ]);
        let vars = |method: &Value| variables(&lenient::read::<OfferedMethod>(method).vars);
        assert_eq!(vars(&method), expected);
        assert_eq!(vars(&Value::Null), json!([]));
    }

    #[test]
    fn a_time_must_be_one() {
        assert_eq!(patience(600.0).unwrap().as_secs(), 600);
        for seconds in [0.0, 1e300] {
            assert!(patience(seconds).is_err(), "{seconds}");
        }
    }
}
