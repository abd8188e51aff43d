//! `launcher probe`: whether a launcher's command can be started here and now. Nothing is started.

use serde_json::{Value, json};
use subagent_config::launcher;

use crate::args::local::LauncherName;
use crate::context::{Context, path_value};
use crate::failure::Result;
use crate::output::{Outcome, json as one_line};

pub(super) fn run(args: &LauncherName, context: &Context) -> Result<Outcome> {
    let loaded = context.config(args.config.config.as_deref(), None)?;
    let launcher = loaded.config.launcher(&args.name)?;
    let found = launcher::resolve(&args.name, launcher, &context.env.cwd, &context.env);
    let path = found.resolved_path.as_deref().map_or(Value::Null, path_value);
    let mut lines = vec![
        format!("{}: {}", found.name, if found.available { "available" } else { "missing" }),
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
    if let Some(problem) = found.problem {
        lines.push(format!("problem: {problem}"));
        data["problem"] = problem.to_string().into();
    }
    Ok(Outcome::report("launcher.probed", data, lines.join("\n")))
}
