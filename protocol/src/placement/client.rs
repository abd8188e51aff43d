//! What the exit of an engine's own client means: `ssh`, `podman`, `docker`, `kubectl` or one of Slurm,
//! each with the words that it uses.

use std::time::Duration;

use super::places::ENDED_FROM_OUTSIDE;
use super::{Engine, Placement, kubernetes, podman, slurm, ssh};
use crate::error::{Code, Error};

/// Exit codes of a shell, and of an engine of containers, for a program that is missing or cannot be
/// executed.
pub const NO_PROGRAM: [i32; 2] = [127, 126];
/// Exit code of `subagent-runtime relay` if no process holds the place any more: that of SIGHUP.
pub const PLACE_ENDED: u8 = 129;
/// Time limit of a client that starts, shows or ends a place.
pub const CLIENT_TIMEOUT: Duration = Duration::from_secs(15);
/// Time limit for the rest of the output of a client that has ended: what it left may hold its end open.
pub const REST_TIMEOUT: Duration = Duration::from_millis(500);
/// Maximum length of a client's standard error in a message, in bytes.
pub const MAX_SAID_BYTES: usize = 2000;

/// Why nothing runs there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientFailure<'a> {
    /// The client could not be started.
    NoClient(&'a str),
    /// The user's command of this key could not be started.
    NoCommand(&'a str, &'a str),
    /// The client or the command there ended with this code; `None`: by a signal.
    Exited(Option<i32>, &'a [u8]),
    /// The user's command of this key ended with this code, and nothing runs there because of it.
    Refused(&'a str, Option<i32>, &'a [u8]),
    /// Nothing answered in time.
    TimedOut(&'a [u8]),
}

impl ClientFailure<'_> {
    /// Returns the error for users. The command there was `program`.
    #[must_use]
    pub fn error(self, placement: &Placement, program: &str) -> Error {
        let (name, place) = (&placement.name, placement.described());
        let check = format!("run `subagent placement check {name}`");
        let unreachable =
            |message: String| placement.named_in(Error::new(Code::PlacementUnreachable, message).retryable());
        let not_prepared = |message: String, said: String| {
            let error = Error::new(Code::PlacementNotPrepared, message);
            placement.named_in(error).with("program", program).with("stderr", said)
        };
        match self {
            Self::NoCommand(key, why) => {
                unreachable(format!("`{key}` of the placement `{name}` cannot be started: {why}"))
                    .with("reason", "command")
                    .with("command", key)
                    .recommend("correct it; a program without a path must be in the daemon's PATH")
            }
            Self::NoClient(why) => {
                let client = client(placement);
                unreachable(format!("`{client}` cannot be started for the placement `{name}`: {why}"))
                    .recommend(format!("install `{client}`, and check that the daemon's PATH has it"))
            }
            Self::TimedOut(said) => {
                let said = cleaned(said);
                unreachable(format!("{place} did not answer in time{}", after_colon(&said)))
                    .with("reason", "timeout")
                    .with("stderr", said)
                    .recommend(check)
            }
            Self::Exited(Some(code), said)
                if NO_PROGRAM.contains(&code) || is_program_missing(&placement.engine, said) =>
            {
                let message = format!("there is no usable subagent-runtime {}", placement.located());
                not_prepared(message, cleaned(said))
                    .recommend(format!("run `subagent placement prepare {name}`"))
            }
            Self::Exited(_, said) if podman::is_image_missing(&placement.engine, said) => {
                let message = format!("the image of the placement `{name}` is not on this machine");
                not_prepared(message, cleaned(said))
                    .recommend(format!("run `subagent placement prepare {name}`, which fetches it"))
            }
            Self::Exited(code, said)
                if matches!(placement.engine, Engine::Command(_))
                    && is_of_client(&placement.engine, code, said) =>
            {
                ClientFailure::Refused("dial", code, said).error(placement, program)
            }
            Self::Refused(key, code, said) => {
                let (code, said) = (ended_with(code), cleaned(said));
                let after = after_colon(&said);
                unreachable(format!("`{key}` of the placement `{name}` ended with {code}{after}"))
                    .with("reason", "command")
                    .with("command", key)
                    .with("stderr", said)
                    .recommend(format!("correct this command, then {check}"))
            }
            Self::Exited(code, said) if is_of_client(&placement.engine, code, said) => {
                let said = match &placement.engine {
                    Engine::Kubernetes(_) => cleaned(&kubernetes::without_log(said)),
                    _ => cleaned(said),
                };
                let (reason, advice) = match &placement.engine {
                    Engine::Ssh(ssh) => ssh.reason_of(&said, &check),
                    Engine::Podman(engine) => podman::reason_of(engine.client(), &said, name),
                    Engine::Slurm(_) => slurm::reason_of(&said, &check),
                    Engine::Kubernetes(_) => kubernetes::reason_of(&said, &check),
                    Engine::Command(_) | Engine::Loopback => ("client", check),
                };
                let failed = if placement.engine.starts_places() { "used" } else { "reached" };
                unreachable(format!("{place} cannot be {failed}{}", after_colon(&said)))
                    .with("reason", reason)
                    .with("stderr", said)
                    .recommend(advice)
            }
            Self::Exited(Some(code), said) if ENDED_FROM_OUTSIDE.contains(&code) => {
                let (signal, said) = (code - 128, cleaned(said));
                let (located, after) = (placement.located(), after_colon(&said));
                unreachable(format!("subagent-runtime {located} was ended by signal {signal}{after}"))
                    .with("reason", "signal")
                    .with("stderr", said)
                    .recommend("repeat the command; what the engine says about the place tells why")
            }
            Self::Exited(code, said) => {
                let (code, said) = (ended_with(code), cleaned(said));
                let message = format!(
                    "subagent-runtime {} ended with {code}{}",
                    placement.located(),
                    after_colon(&said)
                );
                not_prepared(message, said)
                    .recommend(format!("{check}; `program` of a placement must be of this version"))
            }
        }
    }
}

/// Whether the client itself failed, and not the command there. `said` is its standard error.
#[must_use]
pub fn is_of_client(engine: &Engine, code: Option<i32>, said: &[u8]) -> bool {
    match (engine, code) {
        (_, None) => true,
        (Engine::Ssh(_), Some(code)) => code == ssh::CLIENT_FAILED,
        (Engine::Podman(_), Some(code)) => {
            podman::CLIENT_FAILED.contains(&code) || podman::is_of_docker(said)
        }
        (Engine::Slurm(_), Some(_)) => slurm::is_of_client(said),
        (Engine::Kubernetes(_), Some(0)) => false,
        (Engine::Kubernetes(_), Some(_)) => kubernetes::is_of_client(said),
        // All but the codes for a program that is missing there.
        (Engine::Command(_), Some(code)) => code != 0 && !NO_PROGRAM.contains(&code),
        (Engine::Loopback, Some(_)) => false,
    }
}

/// Returns how a process ended, in words.
fn ended_with(code: Option<i32>) -> String {
    code.map_or_else(|| "a signal".to_owned(), |code| format!("code {code}"))
}

/// Whether the place has no such program.
fn is_program_missing(engine: &Engine, said: &[u8]) -> bool {
    match engine {
        Engine::Slurm(_) => slurm::is_program_missing(said),
        Engine::Kubernetes(_) => kubernetes::is_program_missing(said),
        Engine::Loopback | Engine::Ssh(_) | Engine::Podman(_) | Engine::Command(_) => false,
    }
}

/// The program of the client.
fn client(placement: &Placement) -> &str {
    match &placement.engine {
        Engine::Podman(podman) => podman.client(),
        Engine::Slurm(_) => slurm::CLIENT,
        Engine::Kubernetes(_) => kubernetes::CLIENT,
        Engine::Ssh(_) | Engine::Loopback | Engine::Command(_) => ssh::CLIENT,
    }
}

/// Returns what a client said as the end of a sentence.
#[must_use]
pub fn after_colon(said: &str) -> String {
    if said.is_empty() { String::new() } else { format!(": {said}") }
}

/// Returns the end of a standard error as one line without control characters.
#[must_use]
pub fn cleaned(said: &[u8]) -> String {
    let said = String::from_utf8_lossy(&said[said.len().saturating_sub(MAX_SAID_BYTES)..]).into_owned();
    let lines = said.lines().map(|line| line.chars().filter(|c| !c.is_control()).collect::<String>());
    let lines: Vec<String> =
        lines.map(|line| line.trim().to_owned()).filter(|line| !line.is_empty()).collect();
    lines.join("; ")
}
