//! The data about places that engines start for runtimes: what is asked for, and what is found. Must not
//! know an engine.

use std::fmt;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::kubernetes::manifest::PodManifest;

/// A command line of an engine's own client. Its input may be secret, so it is not shown.
#[derive(Clone, PartialEq, Eq)]
pub struct ClientCommand {
    /// The program of the client.
    pub program: String,
    /// Its arguments. Nothing in them is secret.
    pub arguments: Vec<String>,
    /// Standard input; `None`: the caller's choice.
    pub input: Option<String>,
    /// Variables that it has beside those of this process. Nothing in them is secret.
    pub variables: Vec<(&'static str, String)>,
    /// The key of the placement that has it, if it is a command of the user.
    pub key: Option<&'static str>,
}

impl fmt::Debug for ClientCommand {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ClientCommand").field("line", &self.line()).finish_non_exhaustive()
    }
}

impl ClientCommand {
    /// Returns a command without an input of its own.
    pub(super) fn new(program: &str, arguments: impl IntoIterator<Item = String>) -> Self {
        Self {
            program: program.to_owned(),
            arguments: arguments.into_iter().collect(),
            input: None,
            variables: Vec::new(),
            key: None,
        }
    }

    /// Returns the command as a line for messages and tests. It is not quoted.
    #[must_use]
    pub fn line(&self) -> String {
        format!("{} {}", self.program, self.arguments.join(" "))
    }
}

/// A place that is known to its engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NamedPlace<'a> {
    /// Our name of the place.
    pub name: &'a str,
    /// The engine's id of the place.
    pub handle: &'a str,
}

/// A place in a queue that is about to be asked for.
#[derive(Debug, Clone)]
pub struct PlaceStart<'a> {
    /// The name of the place.
    pub name: &'a str,
    /// The id of the worker.
    pub worker: &'a str,
    /// The number of the runtime.
    pub number: u64,
    /// The worker's folder there.
    pub folder: &'a Path,
    /// Path of the runtime there.
    pub program: &'a str,
    /// The word of [`PlaceIdentity`] for this request.
    pub request: &'a str,
    /// What the place is made from, for an engine with [`super::engine::PlaceQueue::template`].
    pub manifest: PodManifest,
}

/// By what a place is known again, and no other one of its name is taken for it. Stored before the
/// engine is asked for the place.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PlaceIdentity {
    /// What tells the cluster from others of its kind; empty if its places say it themselves.
    pub cluster: String,
    /// A random word that the engine keeps with the place.
    pub request: String,
    /// The name of the place; empty if an older version has asked for it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The engine's own id of the place, once the engine has named it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
}

impl PlaceIdentity {
    /// Returns the name of the place, or this one if it was not stored.
    #[must_use]
    pub fn name_or(&self, other: impl FnOnce() -> String) -> String {
        if self.name.is_empty() { other() } else { self.name.clone() }
    }

    /// Returns whether a place with this id and this word is meant.
    #[must_use]
    pub fn is(&self, uid: &str, request: Option<&str>) -> bool {
        self.uid.as_deref().map_or(request == Some(&self.request), |known| known == uid)
    }
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

impl PlaceStatus {
    /// Returns the engine's word for the state, or what is known of it.
    #[must_use]
    pub fn state(&self) -> &str {
        match self {
            Self::Absent => "not known",
            Self::Ready { .. } => "running",
            Self::Waiting { reason: state, .. } | Self::Held { state, .. } | Self::Gone { state, .. } => {
                state
            }
        }
    }
}

/// Exit codes for a program there that SIGHUP, SIGINT, SIGKILL or SIGTERM has ended, as when its place ends.
pub(super) const ENDED_FROM_OUTSIDE: [i32; 4] = [129, 130, 137, 143];

/// What a client of an engine has printed.
#[derive(Debug, Clone, Copy)]
pub struct ClientOutput<'a> {
    /// Whether it ended with 0.
    pub success: bool,
    /// Its whole standard output.
    pub stdout: &'a [u8],
    /// Its whole standard error.
    pub stderr: &'a [u8],
}

/// Returns the name of the place of a runtime. `state` tells apart state dirs that have workers with
/// the same ids.
#[must_use]
pub fn place_name(state: &str, worker: &str, incarnation: u64) -> String {
    format!("{}{incarnation}", place_prefix(state, worker))
}

/// Returns with what the names of all places of a worker begin.
#[must_use]
pub fn place_prefix(state: &str, worker: &str) -> String {
    format!("subagent-{state}-{worker}-")
}
