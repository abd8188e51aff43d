//! `completions`: the script for a shell.

pub(crate) mod install;

use std::ffi::OsStr;

use clap::Args;
use serde_json::json;

use crate::command_line::flags::JsonFlag;
use crate::completion::{Shell, script};
use crate::context::{CliContext, path_value};
use crate::failure::{Failure, Result};
use crate::output::{CliOutcome, text};
use install::There;

/// Print or install the completions for bash, zsh or fish
///
/// With --install the script is written where the shell looks for it, folders included.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  source <(subagent completions bash)
  subagent completions --install
  subagent completions --install zsh")]
pub(crate) struct CompletionsArgs {
    /// For which shell
    #[arg(required = true, conflicts_with = "install")]
    pub(crate) shell: Option<Shell>,
    /// Write it where the shell looks for it [default: the shell in SHELL]
    #[arg(long, value_name = "SHELL", num_args = 0..=1)]
    pub(crate) install: Option<Option<Shell>>,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

/// The flags of the Python program.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Legacy {
    /// `--show-completion`: print the script.
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
pub(crate) fn legacy(wanted: Legacy, named: Option<&str>) -> Result<CliOutcome> {
    let login = std::env::var("SHELL").unwrap_or_default();
    let name = named.unwrap_or_else(|| login.rsplit('/').next().unwrap_or_default());
    let shell = <Shell as clap::ValueEnum>::from_str(name, false).map_err(|_| {
        Failure::argument(format!("there are completions for bash, zsh and fish, not for {name:?}"))
            .recommend("name the shell")
            .with("recommendedCommand", "subagent completions bash")
    })?;
    let install = match (wanted, shell) {
        (Legacy::Show, _) => return Ok(printed(shell)),
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
    Ok(CliOutcome::Lines(install.to_owned()))
}

pub(super) fn run(args: &CompletionsArgs, context: &CliContext) -> Result<CliOutcome> {
    match (args.shell, args.install) {
        (Some(shell), None) => Ok(printed(shell)),
        (named, installed) => install(installed.flatten().or(named), context),
    }
}

fn printed(shell: Shell) -> CliOutcome {
    let script = script(shell);
    CliOutcome::report("completions.generated", json!({"shell": word(shell), "script": script}), script)
}

fn word(shell: Shell) -> &'static str {
    match shell {
        Shell::Bash => "bash",
        Shell::Zsh => "zsh",
        Shell::Fish => "fish",
    }
}

/// Writes the script where the shell looks for it. An older script of ours is replaced, another file is not.
fn install(shell: Option<Shell>, context: &CliContext) -> Result<CliOutcome> {
    let shell = shell.or_else(|| install::login_shell(&context.env)).ok_or_else(|| {
        Failure::argument("SHELL names no shell with completions")
            .recommend("name the shell: bash, zsh or fish")
            .with("recommendedCommand", "subagent completions --install bash")
    })?;
    let target = install::completions(shell, script(shell), &context.env)
        .ok_or_else(|| Failure::argument("the home directory is unknown; set HOME"))?;
    let state = match target.there() {
        There::Same => "unchanged",
        There::Other if !is_ours(&target.path) => {
            let message = format!("{} is not a script of subagent; move it away", target.path.display());
            return Err(Failure::argument(message).with("path", path_value(&target.path)));
        }
        There::Nothing | There::Other => {
            target.write()?;
            "done"
        }
    };
    let after = install::after(shell);
    let data = json!({
        "shell": word(shell), "path": path_value(&target.path), "state": state, "recommendedAction": after,
    });
    let shown = text::fields(&data, &["shell", "path", "state", "recommendedAction"]);
    Ok(CliOutcome::report("completions.installed", data, shown))
}

/// Whether a file is a script that an older version has made.
fn is_ours(path: &std::path::Path) -> bool {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.contains("_subagent") || text.contains("complete -c subagent")
}
