//! What engines have in common that start a place for each runtime: a container, a job. The place
//! has a name that no other one has, commands run in it, and it ends with its runtime.

use std::path::Path;

use super::{Engine, slurm};

/// A command line of an engine's own client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientCommand {
    /// The program of the client.
    pub program: String,
    /// Its arguments. Nothing in them is secret.
    pub arguments: Vec<String>,
    /// Standard input; `None`: the caller's choice.
    pub input: Option<String>,
}

impl ClientCommand {
    /// Returns a command without an input of its own.
    pub(super) fn new(program: &str, arguments: impl IntoIterator<Item = String>) -> Self {
        Self { program: program.to_owned(), arguments: arguments.into_iter().collect(), input: None }
    }

    /// Returns the command as a line for messages and tests. It is not quoted.
    #[must_use]
    pub fn line(&self) -> String {
        format!("{} {}", self.program, self.arguments.join(" "))
    }
}

/// A place in a queue that is about to be asked for.
#[derive(Debug, Clone, Copy)]
pub struct PlaceStart<'a> {
    /// The name of the place.
    pub name: &'a str,
    /// The number of the runtime.
    pub number: u64,
    /// The worker's folder, at the same path here and there.
    pub folder: &'a Path,
    /// Path of the runtime there.
    pub program: &'a str,
}

/// What an engine says about the place of a runtime.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PlaceStatus {
    /// The engine knows no place of this name.
    Absent,
    /// The place waits in the engine's queue.
    Waiting {
        /// The engine's id of the place.
        handle: String,
        /// The engine's reason for the wait.
        reason: String,
    },
    /// Commands can be run in the place.
    Ready {
        /// The engine's id of the place.
        handle: String,
    },
    /// Processes may run in the place, and commands cannot.
    Held {
        /// The engine's id of the place.
        handle: String,
        /// The engine's word for its state.
        state: String,
    },
    /// The engine has ended the place and all processes in it.
    Gone {
        /// The engine's id of the place.
        handle: String,
        /// The engine's word for its state.
        state: String,
    },
}

impl Engine {
    /// Returns the engine that has a queue for the places of runtimes.
    #[must_use]
    pub fn queue(&self) -> Option<&slurm::SlurmCluster> {
        match self {
            Self::Slurm(slurm) => Some(slurm),
            Self::Loopback | Self::Ssh(_) | Self::Podman(_) => None,
        }
    }

    /// Returns whether each runtime has a place of its own, which ends with it.
    #[must_use]
    pub fn starts_places(&self) -> bool {
        matches!(self, Self::Podman(_) | Self::Slurm(_))
    }
}

/// Returns the name of the place of a runtime. `state` tells apart state dirs that have workers with
/// the same ids.
#[must_use]
pub fn place_name(state: &str, worker: &str, incarnation: u64) -> String {
    format!("subagent-{state}-{worker}-{incarnation}")
}
