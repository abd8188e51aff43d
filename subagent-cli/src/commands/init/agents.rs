//! Which agents are here, and whether they are logged in.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use subagent_config::LoadedConfig;
use subagent_config::installed::{self, Presence};
use subagent_protocol::Code;

use crate::commands::launcher::handshake;
use crate::commands::launcher::probe::asked;
use crate::context::CliContext;
use crate::output::live::StatusLine;
use crate::output::{OutputFormat, write_stderr};

/// How long an agent may take for each request. A launcher's own limit applies if it is shorter.
const LIMIT: Duration = Duration::from_secs(30);
/// The clock in the line.
const TICK: Duration = Duration::from_secs(1);

/// Whether an agent is logged in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum LoginState {
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
    pub(super) login: LoginState,
}

/// Returns all known agents. If `asks` is set, the installed ones are asked, all at once. One that npx would fetch
/// is not asked.
pub(super) fn find(loaded: &LoadedConfig, asks: bool, context: &CliContext) -> Vec<KnownAgent> {
    let all = installed::all(&loaded.config, &context.env.cwd, &context.env);
    let agent = |(name, presence): (&str, Presence)| KnownAgent {
        name: name.to_owned(),
        presence,
        login: LoginState::NotAsked,
    };
    let mut all: Vec<KnownAgent> = all.into_iter().map(agent).collect();
    if asks {
        let available = all.iter_mut().filter(|agent| agent.presence == Presence::Available);
        ask_all(loaded, available.collect(), context);
    }
    all
}

/// Asks these agents at once, each in its own thread, since [`asked`] blocks.
fn ask_all(loaded: &LoadedConfig, mut agents: Vec<&mut KnownAgent>, context: &CliContext) {
    let mut line = (context.format == OutputFormat::Text).then(StatusLine::on_stderr).flatten();
    if line.is_none() {
        agents.iter().for_each(|agent| write_stderr(&format!("asking {} ...\n", agent.name)));
    }
    let begun = Instant::now();
    let mut open: Vec<String> = agents.iter().map(|agent| agent.name.clone()).collect();
    std::thread::scope(|scope| {
        let (sender, answers) = mpsc::channel();
        for agent in agents.drain(..) {
            let sender = sender.clone();
            scope.spawn(move || {
                agent.login = login(loaded, &agent.name, context);
                // The receiver lives until all senders are gone.
                let _ = sender.send(agent.name.clone());
            });
        }
        drop(sender);
        while !open.is_empty() {
            if let Some(line) = &mut line {
                line.show(&format!("asking {}", open.join(", ")), begun.elapsed());
            }
            match answers.recv_timeout(TICK) {
                Ok(name) => open.retain(|other| *other != name),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
    });
}

fn login(loaded: &LoadedConfig, name: &str, context: &CliContext) -> LoginState {
    let report = handshake::LauncherAgent::of(&loaded.config, name, None, context)
        .and_then(|agent| asked(&agent, LIMIT, context));
    match report {
        Ok(report) if report.is_ready() => LoginState::Done,
        Ok(_) => LoginState::Wanted,
        Err(failure) if failure.is(Code::AuthRequired) => LoginState::Wanted,
        Err(failure) => LoginState::Failed(failure.code.to_string()),
    }
}

/// The launcher that needs no choice: the only one that is installed, else the only one that can be fetched.
pub(super) fn default_of(agents: &[KnownAgent]) -> Option<&str> {
    installed::sole(agents.iter().map(|agent| (agent.name.as_str(), &agent.presence))).ok()
}

/// Returns the installed agent that most likely works: logged in, then without a login, then not asked, then failed.
/// Of equal ones it is the first by name.
pub(super) fn first_of(agents: &[KnownAgent]) -> Option<&str> {
    let installed = agents.iter().filter(|agent| agent.presence == Presence::Available);
    installed.min_by_key(|agent| agent.login.rank()).map(|agent| agent.name.as_str())
}

impl LoginState {
    /// Orders agents as defaults; the lowest is the best.
    const fn rank(&self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Wanted => 1,
            Self::NotAsked => 2,
            Self::Failed(_) => 3,
        }
    }
}

impl KnownAgent {
    pub(super) fn can_start(&self) -> bool {
        self.presence != Presence::Missing
    }

    fn login_word(&self) -> String {
        match &self.login {
            LoginState::Done => "logged in".to_owned(),
            LoginState::Wanted => "wants a login".to_owned(),
            LoginState::NotAsked => "not asked".to_owned(),
            LoginState::Failed(code) => format!("not usable: {code}"),
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
            LoginState::Done => Some(true),
            LoginState::Wanted => Some(false),
            LoginState::NotAsked | LoginState::Failed(_) => None,
        };
        let error = match &self.login {
            LoginState::Failed(code) => Some(code.as_str()),
            _ => None,
        };
        json!({"name": self.name, "state": self.presence.as_str(), "loggedIn": logged_in, "error": error})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agent(name: &str, presence: Presence, login: LoginState) -> KnownAgent {
        KnownAgent { name: name.to_owned(), presence, login }
    }

    #[test]
    fn an_installed_agent_counts_before_one_that_is_fetched() {
        let fetchable = |name| agent(name, Presence::Fetchable("p".to_owned()), LoginState::NotAsked);
        let available = |name, login| agent(name, Presence::Available, login);
        let all = [fetchable("a"), available("b", LoginState::Wanted), fetchable("c")];
        assert_eq!(default_of(&all), Some("b"));
        assert_eq!(default_of(&all[..1]), Some("a"));
        assert_eq!(default_of(&[fetchable("a"), fetchable("c")]), None);
        let several = [available("b", LoginState::Wanted), available("c", LoginState::Done)];
        assert_eq!((default_of(&several), first_of(&several)), (None, Some("c")));
        assert_eq!(first_of(&several[..1]), Some("b"));
    }

    #[test]
    fn of_several_agents_the_one_that_most_likely_works_is_the_default() {
        let available = |name, login| agent(name, Presence::Available, login);
        let fetchable = agent("a", Presence::Fetchable("p".to_owned()), LoginState::NotAsked);
        let failed = available("b", LoginState::Failed("BACKEND_LAUNCHER".to_owned()));
        let mut all = vec![fetchable, failed];
        assert_eq!(first_of(&all), Some("b"));
        for better in [
            available("c", LoginState::NotAsked),
            available("d", LoginState::Wanted),
            available("e", LoginState::Done),
        ] {
            all.push(better.clone());
            all.push(available("z", better.login.clone()));
            assert_eq!(first_of(&all), Some(better.name.as_str()));
        }
    }
}
