//! `completions`: the script for a shell, made from the definitions of the command line.

use clap::CommandFactory as _;
use clap_complete::{Shell as Generator, generate};
use serde_json::json;

use crate::args::Cli;
use crate::args::completions::{Completions, Shell};
use crate::failure::{Failure, Result};
use crate::output::Outcome;

/// `--show-completion`, as older scripts and people type it: for the shell that is named, or the user's.
pub(crate) fn legacy(named: Option<&str>) -> Result<Outcome> {
    let login = std::env::var("SHELL").unwrap_or_default();
    let name = named.unwrap_or_else(|| login.rsplit('/').next().unwrap_or_default());
    let shell = <Shell as clap::ValueEnum>::from_str(name, false).map_err(|_| {
        Failure::argument(format!("there are completions for bash, zsh and fish, not for {name:?}"))
            .recommend("name the shell")
            .with("recommendedCommand", "subagent completions bash")
    })?;
    Ok(run(&Completions { shell, json: crate::args::JsonFlag { json: false } }))
}

pub(super) fn run(args: &Completions) -> Outcome {
    let (name, generator) = match args.shell {
        Shell::Bash => ("bash", Generator::Bash),
        Shell::Zsh => ("zsh", Generator::Zsh),
        Shell::Fish => ("fish", Generator::Fish),
    };
    let mut script = Vec::new();
    generate(generator, &mut Cli::command(), "subagent", &mut script);
    let script = String::from_utf8_lossy(&script).into_owned();
    Outcome::report("completions.generated", json!({"shell": name, "script": script}), script)
}
