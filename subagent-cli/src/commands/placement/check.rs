//! `placement check`: what a worker on another machine needs, step by step. The first step that fails
//! is the error of the command.

use clap::Args;
use serde::Serialize;
use serde_json::json;
use subagent_protocol::Code;
use subagent_protocol::placement::ssh::{self, SshPlacement};

use super::NamedPlacement;
use super::remote::{self, LocalRuntime, SHORT};
use crate::client::block_on;
use crate::context::CliContext;
use crate::failure::{Failure, Result};
use crate::output::CliOutcome;

/// Check that workers can run on another machine
///
/// Looks for the host, the runtime of this version and the folder there, and opens and ends a stream.
/// It starts no agent: `subagent worker start --on NAME` does.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent placement check gpu1
  subagent placement check gpu1 --json")]
pub(crate) struct PlacementCheckArgs {
    #[command(flatten)]
    pub(crate) named: NamedPlacement,
}

/// One step that succeeded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct PassedStep {
    step: &'static str,
    found: String,
}

pub(super) fn run(args: &PlacementCheckArgs, context: &CliContext) -> Result<CliOutcome> {
    let placement = &args.named.of(context)?;
    let program = LocalRuntime::read()?.program(placement);
    let mut steps = Vec::new();
    if let Err(failure) = block_on(checked(placement, &program, &mut steps)) {
        return Err(failure.with("steps", json!(steps)));
    }
    let lines: Vec<String> = steps.iter().map(|step| format!("{}: {}", step.step, step.found)).collect();
    let data = json!({"name": placement.name, "host": placement.host, "program": program, "items": steps});
    Ok(CliOutcome::report("placement.checked", data, lines.join("\n")))
}

async fn checked(placement: &SshPlacement, program: &str, steps: &mut Vec<PassedStep>) -> Result<()> {
    let mut found = |step, found: String| steps.push(PassedStep { step, found });
    let host = remote::run(placement, "uname -sm", None, SHORT).await?;
    found("host", host.last_line());
    let version = remote::run(placement, &ssh::line(program, &["--version"], false), None, SHORT).await?;
    if version.code != 0 {
        return Err(version.failure(placement, program));
    }
    let version = version.last_line();
    let expected = format!("subagent-runtime {}", env!("CARGO_PKG_VERSION"));
    if version != expected {
        let message = format!("{}:{program} is `{version}`, and this is `{expected}`", placement.host);
        return Err(Failure::new(Code::PlacementNotPrepared, message)
            .with("placement", placement.name.as_str())
            .with("program", program)
            .recommend(format!("install this version there, or remove placements.{}.program and run `subagent placement prepare {0}`", placement.name)));
    }
    found("runtime", version);
    let folder = format!("cd {} && pwd", ssh::path_word(&placement.cwd));
    let folder = remote::run(placement, &ssh::line("/bin/sh", &["-c", &folder], false), None, SHORT).await?;
    if folder.code != 0 {
        let said = ssh::cleaned(&folder.stderr);
        let message = format!("the folder {} cannot be used on {}: {said}", placement.cwd, placement.host);
        return Err(Failure::new(Code::PlacementFolderMissing, message)
            .with("placement", placement.name.as_str())
            .with("cwd", placement.cwd.as_str())
            .recommend(format!("create it there, or correct placements.{}.cwd", placement.name)));
    }
    found("folder", folder.last_line());
    // Greets, and ends with its input. A login shell starts it, as at the start of a worker.
    let stream = remote::run(placement, &ssh::line(program, &["dial", PROBE], true), None, SHORT).await?;
    let greeted = subagent_protocol::stream::after_magic(&stream.stdout).ok().flatten().is_some();
    if stream.code != 0 || !greeted {
        return Err(stream.failure(placement, program));
    }
    found("stream", "opened and ended".to_owned());
    Ok(())
}

/// The id of a worker that does not exist.
const PROBE: &str = "w_0000000000";
