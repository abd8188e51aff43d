//! `completions`: the script for a shell, made from the definitions of the command line.

use std::ffi::OsStr;

use clap::CommandFactory as _;
use clap_complete::{Shell as Generator, generate};
use serde_json::json;

use crate::args::completions::{Completions, Shell};
use crate::args::{Cli, JsonFlag};
use crate::failure::{Failure, Result};
use crate::output::Outcome;

/// The flags of the Python program.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Legacy {
    /// `--show-completion`: the script.
    Show,
    /// `--install-completion`: what to do with it.
    Install,
}

impl Legacy {
    pub(crate) fn parse(word: &OsStr) -> Option<Self> {
        match word.to_str()? {
            "--show-completion" => Some(Self::Show),
            "--install-completion" => Some(Self::Install),
            _ => None,
        }
    }
}

/// For the shell that is named, or the user's.
pub(crate) fn legacy(wanted: Legacy, named: Option<&str>) -> Result<Outcome> {
    let login = std::env::var("SHELL").unwrap_or_default();
    let name = named.unwrap_or_else(|| login.rsplit('/').next().unwrap_or_default());
    let shell = <Shell as clap::ValueEnum>::from_str(name, false).map_err(|_| {
        Failure::argument(format!("there are completions for bash, zsh and fish, not for {name:?}"))
            .recommend("name the shell")
            .with("recommendedCommand", "subagent completions bash")
    })?;
    let install = match (wanted, shell) {
        (Legacy::Show, _) => return Ok(run(&Completions { shell, json: JsonFlag { json: false } })),
        (Legacy::Install, Shell::Bash) => {
            "Add this line to ~/.bashrc:\n  source <(subagent completions bash)"
        }
        (Legacy::Install, Shell::Zsh) => {
            "Type this, with a folder of your fpath, and start a new shell:\n  subagent completions zsh > ~/.zfunc/_subagent"
        }
        (Legacy::Install, Shell::Fish) => {
            "Type this:\n  subagent completions fish > ~/.config/fish/completions/subagent.fish"
        }
    };
    Ok(Outcome::Lines(install.to_owned()))
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
