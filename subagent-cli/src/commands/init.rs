//! `init`: the first steps of a user, one after the other, each of them optional. No daemon is involved.

mod agents;

use std::io::{self, BufRead as _, IsTerminal as _};
use std::path::Path;

use clap::Args;
use serde::Serialize;
use serde_json::{Value, json};
use subagent_config::init::{self, Existing, InitScope};
use subagent_protocol::clean::one_line;

use crate::command_line::flags::{ConfigFlag, JsonFlag};
use crate::commands::completions::install::{self, InstallTarget, There};
use crate::commands::launcher;
use crate::completion::script;
use crate::context::{CliContext, path_value, present};
use crate::dialog::confirm::says_yes;
use crate::failure::Result;
use crate::output::{CliOutcome, OutputFormat, write_stderr};
use agents::{KnownAgent, LoginState};

/// Set up subagent: agents, config file, login, completions, skill
///
/// Finds the agents that are installed, asks each whether it is logged in, and offers one step after the other. Without a
/// terminal and without --yes it says what it would do. No file that exists is changed, and nothing is sent anywhere.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent init
  subagent init --yes
  subagent init --yes --launcher gemini --no-skill --json")]
pub(crate) struct InitArgs {
    /// Take every step without a question; a login is named and not done
    #[arg(long, short)]
    pub(crate) yes: bool,
    /// The default launcher [default: the only installed one, else a choice]
    #[arg(long, value_name = "NAME")]
    pub(crate) launcher: Option<String>,
    /// Start no agent to ask whether it is logged in
    #[arg(long)]
    pub(crate) no_handshake: bool,
    /// Write no config file
    #[arg(long)]
    pub(crate) no_config: bool,
    /// Install no completions
    #[arg(long)]
    pub(crate) no_completions: bool,
    /// Install no skill
    #[arg(long)]
    pub(crate) no_skill: bool,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

/// How the steps are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum InitMode {
    /// All of them, without a question.
    Yes,
    /// One question before each.
    Ask,
    /// None: they are only named.
    Plan,
}

/// The steps so far.
struct InitSteps {
    mode: InitMode,
    done: Vec<InitStep>,
    lines: Vec<String>,
}

/// A step, as it is reported.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct InitStep {
    step: String,
    state: String,
    what: String,
    path: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    recommended_action: Option<String>,
}

pub(super) fn run(args: &InitArgs, context: &CliContext) -> Result<CliOutcome> {
    let at_terminal = io::stdin().is_terminal() && io::stdout().is_terminal();
    let mode = match (args.yes, at_terminal && context.format == OutputFormat::Text) {
        (true, _) => InitMode::Yes,
        (false, true) => InitMode::Ask,
        (false, false) => InitMode::Plan,
    };
    let loaded = context.config(None, None)?;
    let mut steps = InitSteps { mode, done: Vec::new(), lines: Vec::new() };
    let asks = !args.no_handshake && mode != InitMode::Plan;
    let agents = agents::find(&loaded, asks, context);
    if mode == InitMode::Ask {
        agents.iter().for_each(|agent| write_stderr(&format!("{}\n", agent.line())));
    } else {
        steps.lines.extend(agents.iter().map(KnownAgent::line));
    }
    if let Some(named) = present(args.launcher.clone()) {
        loaded.config.launcher(&named)?;
    }
    if !args.no_config {
        steps.config(args, &agents, context)?;
    }
    steps.logins(&agents, context);
    if !args.no_completions {
        steps.completions(context)?;
    }
    if !args.no_skill {
        for target in install::skills(&context.env) {
            steps.file("skill", &target)?;
        }
    }
    if mode == InitMode::Plan {
        steps.lines.push("nothing was changed: repeat it at a terminal, or with --yes".to_owned());
    }
    // A person has seen the agents before the questions.
    let shown = if mode == InitMode::Ask { &[][..] } else { &agents[..] };
    let data = json!({
        "changed": steps.done.iter().any(|step| step.state == "done"),
        "agents": shown.iter().map(KnownAgent::data).collect::<Vec<_>>(),
        "steps": steps.done,
    });
    Ok(CliOutcome::report("init.done", data, steps.lines.join("\n")))
}

impl InitSteps {
    fn note(&mut self, step: &str, state: &str, what: &str, path: Option<&Path>) {
        let line = match path {
            Some(path) => format!("{state}: {what} ({})", path.display()),
            None => format!("{state}: {what}"),
        };
        self.lines.push(line);
        self.done.push(InitStep {
            step: step.to_owned(),
            state: state.to_owned(),
            what: what.to_owned(),
            path: path.map(path_value),
            recommended_action: None,
        });
    }

    /// Whether a step is taken; if not, it is noted why.
    fn takes(&mut self, step: &str, what: &str, path: Option<&Path>) -> bool {
        let question = match path {
            Some(path) => format!("Write {what} to {}?", path.display()),
            None => format!("{what}?"),
        };
        match self.mode {
            InitMode::Yes => return true,
            InitMode::Ask if says_yes(&question) => return true,
            InitMode::Ask => self.note(step, "skipped", what, path),
            InitMode::Plan => self.note(step, "would do", what, path),
        }
        false
    }

    /// A file that another program looks for. One that exists stays as it is.
    fn file(&mut self, step: &str, target: &InstallTarget) -> Result<()> {
        let state = match target.there() {
            There::Same => "unchanged",
            There::Other => "kept",
            There::Nothing if self.takes(step, &target.what, Some(&target.path)) => {
                target.write()?;
                "done"
            }
            There::Nothing => return Ok(()),
        };
        self.note(step, state, &target.what, Some(&target.path));
        Ok(())
    }

    fn config(&mut self, args: &InitArgs, agents: &[KnownAgent], context: &CliContext) -> Result<()> {
        let path = init::target(None, InitScope::User, None, &context.env)?;
        if path.symlink_metadata().is_ok() {
            self.note("config", "kept", "the config file", Some(&path));
            return Ok(());
        }
        let launcher = match present(args.launcher.clone()) {
            Some(named) => Some(named),
            None => agents::default_of(agents).map(str::to_owned).or_else(|| self.chosen(agents)),
        };
        let Some(launcher) = launcher else {
            let what = match agents.iter().any(KnownAgent::can_start) {
                true => "a config file: several agents can be started; name one with --launcher",
                false => "a config file: no agent is installed",
            };
            self.note("config", "skipped", what, None);
            return Ok(());
        };
        let what = format!("a config file with the default launcher {launcher}");
        if self.takes("config", &what, Some(&path)) {
            init::write(path.clone(), InitScope::User, Existing::Keep, &init::with_default(&launcher))?;
            self.note("config", "done", &what, Some(&path));
        }
        Ok(())
    }

    /// The launcher that a person chooses, or the first one that answers.
    fn chosen(&self, agents: &[KnownAgent]) -> Option<String> {
        let able: Vec<&KnownAgent> = agents.iter().filter(|agent| agent.can_start()).collect();
        match self.mode {
            InitMode::Plan => None,
            InitMode::Yes => agents::first_of(agents).map(str::to_owned),
            InitMode::Ask if able.is_empty() => None,
            InitMode::Ask => {
                let lines =
                    able.iter().enumerate().map(|(at, agent)| format!("  {} {}\n", at + 1, agent.name));
                write_stderr(&format!(
                    "Default launcher:\n{}Number (none: skip): ",
                    lines.collect::<String>()
                ));
                let number: usize = answer()?.trim().parse().ok()?;
                Some(able.get(number.checked_sub(1)?)?.name.clone())
            }
        }
    }

    /// Offers a login where an agent wants one.
    fn logins(&mut self, agents: &[KnownAgent], context: &CliContext) {
        for agent in agents.iter().filter(|agent| agent.login == LoginState::Wanted) {
            let command = format!("subagent launcher login {}", shell_words::quote(&agent.name));
            let what = format!("log in to {}: {command}", agent.name);
            if self.mode != InitMode::Ask {
                self.note("login", "would do", &what, None);
                continue;
            }
            if !self.takes("login", &format!("Log in to {}", agent.name), None) {
                continue;
            }
            let login = launcher::login::LauncherLoginArgs {
                name: agent.name.clone(),
                method: None,
                timeout: 600.0,
                config: ConfigFlag::default(),
                json: JsonFlag { json: false },
            };
            // The other steps do not depend on it.
            match launcher::login::run(&login, context) {
                Ok(_) => self.note("login", "done", &format!("log in to {}", agent.name), None),
                Err(failure) => {
                    let why = one_line(&failure.message);
                    self.note("login", "failed", &format!("{what}: {why}"), None);
                }
            }
        }
    }

    fn completions(&mut self, context: &CliContext) -> Result<()> {
        let Some(shell) = install::login_shell(&context.env) else {
            self.note("completions", "skipped", "completions: SHELL is not bash, zsh or fish", None);
            return Ok(());
        };
        let Some(target) = install::completions(shell, script(shell), &context.env) else {
            return Ok(());
        };
        let is_new = target.there() == There::Nothing;
        self.file("completions", &target)?;
        if is_new && target.there() == There::Same {
            let after = install::after(shell);
            self.lines.push(format!("next: {after}"));
            if let Some(step) = self.done.last_mut() {
                step.recommended_action = Some(after.into());
            }
        }
        Ok(())
    }
}

fn answer() -> Option<String> {
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line).ok().filter(|length| *length > 0).map(|_| line)
}
