//! What engines have in common that start a place for each runtime: a container, a job. The place
//! has a name that no other one has, commands run in it, and it ends with its runtime.

use std::path::Path;

use super::command::{self, UserCommands};
use super::kubernetes::{self, KubernetesCluster};
pub use super::places::{
    ClientCommand, ClientOutput, NamedPlace, PlaceIdentity, PlaceStart, PlaceStatus, place_name, place_prefix,
};
use super::slurm::{self, SlurmCluster};
use super::{Engine, Placement};

/// An engine that has a queue for the places of runtimes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PlaceQueue {
    /// Jobs of Slurm, which share a folder with this machine.
    Slurm(SlurmCluster),
    /// Pods of Kubernetes, which share nothing with this machine.
    Kubernetes(Box<KubernetesCluster>),
    /// Places behind the user's own commands, which share nothing with this machine.
    Command(Box<UserCommands>),
}

impl PlaceQueue {
    /// Returns the engine's word for a place.
    #[must_use]
    pub fn noun(&self) -> &'static str {
        match self {
            Self::Slurm(_) => "job",
            Self::Kubernetes(_) => "pod",
            Self::Command(_) => "place",
        }
    }

    /// Returns the name of the place of a runtime. `state` tells apart state dirs that have workers with
    /// the same ids.
    #[must_use]
    pub fn place_name(&self, state: &str, worker: &str, incarnation: u64) -> String {
        match self {
            Self::Slurm(_) => place_name(state, worker, incarnation),
            // Most engines take such a name.
            Self::Kubernetes(_) | Self::Command(_) => kubernetes::pod_name(state, worker, incarnation),
        }
    }

    /// Returns the command that shows the place of a name; `None` if the engine knows it only by its id,
    /// which is not known.
    #[must_use]
    pub fn look(&self, name: &str, identity: &PlaceIdentity) -> Option<ClientCommand> {
        match self {
            Self::Slurm(slurm) => Some(slurm.look(name)),
            Self::Kubernetes(cluster) => Some(cluster.look(name)),
            Self::Command(commands) => {
                let handle = identity.uid.as_deref()?;
                Some(commands.look(NamedPlace { name, handle }))
            }
        }
    }

    /// Returns what [`Self::look`] has found; `None` if the client has failed or cannot be understood.
    /// Another place of this name is not the one of `identity`, which is then absent.
    #[must_use]
    pub fn seen(
        &self,
        name: &str,
        identity: &PlaceIdentity,
        output: &ClientOutput<'_>,
    ) -> Option<PlaceStatus> {
        match self {
            Self::Slurm(_) => output.success.then(|| slurm::status(&String::from_utf8_lossy(output.stdout))),
            Self::Kubernetes(cluster) => cluster.seen(name, identity, output),
            Self::Command(_) if output.success => command::status(identity.uid.as_deref()?, output.stdout),
            Self::Command(_) => None,
        }
    }

    /// Returns the engine's own id of the place in what [`Self::look`] has printed, if it is there.
    #[must_use]
    pub fn uid(&self, printed: &[u8]) -> Option<String> {
        match self {
            Self::Slurm(_) | Self::Command(_) => None,
            Self::Kubernetes(_) => kubernetes::status::uid(printed),
        }
    }

    /// Returns the engine's own id of the place in what [`Self::start`] has printed, if it is there.
    #[must_use]
    pub fn started_uid(&self, printed: &[u8]) -> Option<String> {
        match self {
            Self::Slurm(_) => None,
            Self::Kubernetes(_) => kubernetes::status::uid(printed),
            Self::Command(_) => command::handle(printed),
        }
    }

    /// Returns whether only [`Self::start`] says the id of a place, and nothing can be asked without it.
    #[must_use]
    pub fn is_known_by_uid(&self) -> bool {
        matches!(self, Self::Command(_))
    }

    /// Returns the command that tells the cluster from others; `None` if its places say it themselves.
    #[must_use]
    pub fn identify(&self) -> Option<ClientCommand> {
        match self {
            Self::Slurm(_) | Self::Command(_) => None,
            Self::Kubernetes(cluster) => Some(cluster.identify()),
        }
    }

    /// Returns the path of the file from which a place is made, if there is one.
    #[must_use]
    pub fn template(&self) -> Option<&Path> {
        match self {
            Self::Slurm(_) | Self::Command(_) => None,
            Self::Kubernetes(cluster) => Some(Path::new(&cluster.template)),
        }
    }

    /// Returns the command that asks for the place of a runtime. Asked for twice, there is one.
    #[must_use]
    pub fn start(&self, start: &PlaceStart<'_>) -> ClientCommand {
        match self {
            Self::Slurm(slurm) => slurm.start(start),
            Self::Kubernetes(cluster) => cluster.start(start),
            Self::Command(commands) => commands.start(start),
        }
    }

    /// Returns whether a failed [`Self::start`] says that the place was asked for before.
    #[must_use]
    pub fn is_asked_before(&self, said: &[u8]) -> bool {
        match self {
            // A second job waits for the end of the first one.
            Self::Slurm(_) => false,
            // It gives the handle each time.
            Self::Command(_) => false,
            Self::Kubernetes(_) => kubernetes::is_taken(said),
        }
    }

    /// Returns whether a failed [`Self::start`] says that there will be no place. After any other failure
    /// the engine may have taken the request.
    #[must_use]
    pub fn is_refused(&self, said: &[u8]) -> bool {
        match self {
            // A stop cancels the job of this name, which there may not be.
            Self::Slurm(_) => false,
            // The user's duty.
            Self::Command(_) => true,
            Self::Kubernetes(_) => kubernetes::is_refused(said),
        }
    }

    /// Returns the command that runs a program in a place, with standard input and output as they are.
    #[must_use]
    pub fn exec(&self, place: NamedPlace<'_>, program: &str, words: &[&str]) -> ClientCommand {
        match self {
            Self::Slurm(slurm) => slurm.exec(place.handle, program, words),
            Self::Kubernetes(cluster) => cluster.exec(place.handle, program, words),
            Self::Command(commands) => commands.exec(place, program, words),
        }
    }

    /// Returns the command that ends the place of a name; of an engine with [`Self::started_uid`], only the
    /// one with this id, which is the handle.
    #[must_use]
    pub fn end(&self, place: NamedPlace<'_>) -> ClientCommand {
        match self {
            Self::Slurm(slurm) => slurm.end(place.name),
            Self::Kubernetes(cluster) => cluster.end(place.name, place.handle),
            Self::Command(commands) => commands.end(place),
        }
    }

    /// Returns whether a failed [`Self::end`] says that there is no such place any more.
    #[must_use]
    pub fn is_ended_before(&self, said: &[u8]) -> bool {
        match self {
            Self::Slurm(_) | Self::Command(_) => false,
            Self::Kubernetes(_) => kubernetes::is_deleted(said),
        }
    }

    /// Returns the command that shows the output of a place that has ended; `None` if there is none, or if
    /// it is in the worker's folder, in the file [`slurm::JOB_LOG`].
    #[must_use]
    pub fn log(&self, place: NamedPlace<'_>) -> Option<ClientCommand> {
        match self {
            Self::Slurm(_) => None,
            Self::Kubernetes(cluster) => Some(cluster.log(place.name)),
            Self::Command(commands) => commands.log(place),
        }
    }

    /// Returns whether the worker's folder is at the same path here and in its places, and outlives them:
    /// the locks in it keep a second runtime from starting. Otherwise only the end of the place does.
    #[must_use]
    pub fn shares_folder(&self) -> bool {
        match self {
            Self::Slurm(_) => true,
            Self::Kubernetes(_) | Self::Command(_) => false,
        }
    }

    /// Returns whether the engine keeps an ended place, without a shared folder, until it is asked to end
    /// it.
    #[must_use]
    pub fn keeps_ended(&self) -> bool {
        matches!(self, Self::Kubernetes(_))
    }

    /// Returns whether our `hold` is the first process of a place, and starts the runtime. Otherwise the
    /// processes that a command leaves in a place go on.
    #[must_use]
    pub fn is_held(&self) -> bool {
        match self {
            Self::Slurm(_) | Self::Kubernetes(_) => true,
            Self::Command(_) => false,
        }
    }

    /// Returns whether a place with this state will soon have ended.
    #[must_use]
    pub fn is_ending(&self, state: &str) -> bool {
        match self {
            Self::Slurm(_) => state == slurm::COMPLETING,
            Self::Kubernetes(_) => state == kubernetes::status::TERMINATING,
            Self::Command(_) => false,
        }
    }

    /// Returns whether a place with this final state has ended by itself without a failure.
    #[must_use]
    pub fn is_completed(&self, state: &str) -> bool {
        match self {
            Self::Slurm(_) => state == slurm::COMPLETED,
            Self::Kubernetes(_) => state == kubernetes::status::COMPLETED,
            Self::Command(_) => false,
        }
    }

    /// Returns whether a place with this final state, in which no runtime was started, lacks something.
    /// Any other end was wanted.
    #[must_use]
    pub fn is_not_prepared(&self, state: &str) -> bool {
        match self {
            Self::Slurm(_) => state == slurm::FAILED,
            Self::Kubernetes(_) => kubernetes::status::is_not_prepared(state),
            Self::Command(_) => false,
        }
    }
}

impl Engine {
    /// Returns the engine that has a queue for the places of runtimes.
    #[must_use]
    pub fn queue(&self) -> Option<PlaceQueue> {
        match self {
            Self::Slurm(slurm) => Some(PlaceQueue::Slurm(slurm.clone())),
            Self::Kubernetes(cluster) => Some(PlaceQueue::Kubernetes(cluster.clone())),
            Self::Command(commands) => Some(PlaceQueue::Command(commands.clone())),
            Self::Loopback | Self::Ssh(_) | Self::Podman(_) => None,
        }
    }

    /// Returns whether each runtime has a place of its own, which ends with it.
    #[must_use]
    pub fn starts_places(&self) -> bool {
        matches!(self, Self::Podman(_) | Self::Slurm(_) | Self::Kubernetes(_) | Self::Command(_))
    }

    /// Returns whether processes of a place have other ids there than on the machine that it is on.
    #[must_use]
    pub fn has_own_pids(&self) -> bool {
        matches!(self, Self::Podman(_) | Self::Kubernetes(_) | Self::Command(_))
    }
}

impl Placement {
    /// Returns the names of the variables of this process that change what the client of the engine does.
    pub fn hidden_variables(&self) -> impl Iterator<Item = std::ffi::OsString> {
        let is_slurm = matches!(self.engine, Engine::Slurm(_));
        slurm::variables_about_jobs().filter(move |_| is_slurm)
    }
}
