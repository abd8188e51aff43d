//! `config check`: all that is wrong with the config files. No daemon is involved.

use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};
use subagent_config::discovery;
use subagent_config::problems::{self, ConfigProblem};
use subagentd::check_declared;

use crate::command_line::flags::{ConfigFlag, JsonFlag, path};
use crate::context::{CliContext, path_value};
use crate::failure::Result;
use crate::output::CliOutcome;

/// Check the config files; name each problem with file and line
///
/// Exits with 1 if a file cannot be used. Unknown keys are warnings.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent config check
  subagent config check --config team.yaml --json")]
pub(crate) struct ConfigCheckArgs {
    /// The folder from which the project's file is searched [default: .]
    #[arg(long, value_name = "PATH", value_parser = path())]
    pub(crate) cwd: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) config: ConfigFlag,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

pub(super) fn run(args: &ConfigCheckArgs, context: &CliContext) -> Result<CliOutcome> {
    let (config, cwd) = (args.config.config.as_deref(), args.cwd.as_deref());
    let mut found = problems::of_command(config, cwd, &context.env)?;
    // Without a config that can be used, the problems are known by now.
    if let Ok(loaded) = discovery::load(config, cwd, &context.env) {
        let file = loaded.user_file().unwrap_or(&loaded.path);
        let declared = check_declared(&loaded.config, &context.env).into_iter();
        found.problems.extend(declared.map(|(line, message)| ConfigProblem {
            file: file.to_owned(),
            line,
            message,
        }));
    }
    let of_unknown = found.unknown.iter().map(|key| ConfigProblem {
        file: key.file.clone(),
        line: key.line,
        message: key.problem(),
    });
    let warnings: Vec<ConfigProblem> = of_unknown.chain(found.dangling).collect();
    let files: Vec<Value> = found
        .files
        .iter()
        .map(|(path, source)| json!({"path": path_value(path), "origin": source.as_str()}))
        .collect();
    let data = json!({
        "ok": found.problems.is_empty(),
        "files": files,
        "problems": found.problems.iter().map(item).collect::<Vec<_>>(),
        "warnings": warnings.iter().map(item).collect::<Vec<_>>(),
    });
    let lines = found.problems.iter().map(|problem| line("problem", problem));
    let mut lines: Vec<String> =
        lines.chain(warnings.iter().map(|warning| line("warning", warning))).collect();
    if lines.is_empty() {
        lines.push(match found.files.as_slice() {
            [] => "ok: there is no config file".to_owned(),
            files => {
                let files: Vec<String> = files.iter().map(|(path, _)| path.display().to_string()).collect();
                format!("ok: {}", files.join(", "))
            }
        });
    }
    let code = u8::from(!found.problems.is_empty());
    Ok(CliOutcome::Judged { kind: "config.checked", data, text: lines.join("\n"), code })
}

fn item(problem: &ConfigProblem) -> Value {
    json!({"file": path_value(&problem.file), "line": problem.line, "message": problem.message})
}

fn line(kind: &str, ConfigProblem { file, line, message }: &ConfigProblem) -> String {
    let line = line.map(|line| format!(":{line}")).unwrap_or_default();
    format!("{kind}: {}{line}: {}", file.display(), message.replace(char::is_control, " "))
}
