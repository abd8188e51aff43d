//! Which agents are here, and whether they are logged in.

use serde_json::{Value, json};
use subagent_config::LoadedConfig;
use subagent_config::installed::{self, Presence};
use subagent_protocol::Code;

use crate::commands::launcher_handshake;
use crate::commands::launcher_probe::asked;
use crate::context::CliContext;
use crate::output::write_stderr;

/// Whether an agent is logged in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Login {
    /// It can create a session.
    Done,
    /// It wants a login first.
    Wanted,
    /// It was not asked.
    NotAsked,
    /// It could not be asked; the code of the error.
    Failed(String),
}

#[derive(Debug, Clone)]
pub(super) struct KnownAgent {
    pub(super) name: String,
    presence: Presence,
    pub(super) login: Login,
}

/// All known agents. Those that are installed are asked, if this is wanted; one that would have to be fetched is not.
pub(super) fn find(loaded: &LoadedConfig, asks: bool, context: &CliContext) -> Vec<KnownAgent> {
    let all = installed::all(&loaded.config, &context.env.cwd, &context.env);
    let agent = |(name, presence): (&str, Presence)| {
        let login = match asks && presence == Presence::Available {
            true => login(loaded, name, context),
            false => Login::NotAsked,
        };
        KnownAgent { name: name.to_owned(), presence, login }
    };
    all.into_iter().map(agent).collect()
}

fn login(loaded: &LoadedConfig, name: &str, context: &CliContext) -> Login {
    write_stderr(&format!("asking {name} ...\n"));
    let report = launcher_handshake::LauncherAgent::of(&loaded.config, name, None, context)
        .and_then(|agent| asked(&agent, context));
    match report {
        Ok(report) if report["error"].is_null() => Login::Done,
        Ok(_) => Login::Wanted,
        Err(failure) if failure.is(Code::AuthRequired) => Login::Wanted,
        Err(failure) => Login::Failed(failure.code.to_string()),
    }
}

/// The launcher that needs no choice: the only one that is installed, else the only one that can be fetched.
pub(super) fn default_of(agents: &[KnownAgent]) -> Option<&str> {
    installed::sole(agents.iter().map(|agent| (agent.name.as_str(), &agent.presence))).ok()
}

/// Of several, the first that is logged in, else the first that is installed, by name.
pub(super) fn first_of(agents: &[KnownAgent]) -> Option<&str> {
    let mut installed = agents.iter().filter(|agent| agent.presence == Presence::Available);
    let ready = installed.clone().find(|agent| agent.login == Login::Done);
    ready.or_else(|| installed.next()).map(|agent| agent.name.as_str())
}

impl KnownAgent {
    pub(super) fn can_start(&self) -> bool {
        self.presence != Presence::Missing
    }

    fn login_word(&self) -> String {
        match &self.login {
            Login::Done => "logged in".to_owned(),
            Login::Wanted => "wants a login".to_owned(),
            Login::NotAsked => "not asked".to_owned(),
            Login::Failed(code) => format!("not usable: {code}"),
        }
    }

    /// A line for people and simple scripts.
    pub(super) fn line(&self) -> String {
        match &self.presence {
            Presence::Missing => format!("{}: missing", self.name),
            Presence::Fetchable(package) => format!("{}: fetchable, by npx as {package}", self.name),
            Presence::Available => format!("{}: available, {}", self.name, self.login_word()),
        }
    }

    pub(super) fn data(&self) -> Value {
        let logged_in = match self.login {
            Login::Done => Some(true),
            Login::Wanted => Some(false),
            Login::NotAsked | Login::Failed(_) => None,
        };
        let error = match &self.login {
            Login::Failed(code) => Some(code.as_str()),
            _ => None,
        };
        json!({"name": self.name, "state": self.presence.as_str(), "loggedIn": logged_in, "error": error})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agent(name: &str, presence: Presence, login: Login) -> KnownAgent {
        KnownAgent { name: name.to_owned(), presence, login }
    }

    #[test]
    fn an_installed_agent_counts_before_one_that_is_fetched() {
        let fetchable = |name| agent(name, Presence::Fetchable("p".to_owned()), Login::NotAsked);
        let available = |name, login| agent(name, Presence::Available, login);
        let all = [fetchable("a"), available("b", Login::Wanted), fetchable("c")];
        assert_eq!(default_of(&all), Some("b"));
        assert_eq!(default_of(&all[..1]), Some("a"));
        assert_eq!(default_of(&[fetchable("a"), fetchable("c")]), None);
        let several = [available("b", Login::Wanted), available("c", Login::Done)];
        assert_eq!((default_of(&several), first_of(&several)), (None, Some("c")));
        assert_eq!(first_of(&several[..1]), Some("b"));
    }
}
