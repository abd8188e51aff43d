//! Daemons of other hosts for the panel. Each is dialed on its own, and never on the thread that serves pages.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};
use subagent_config::{Workspace, discovery};
use subagent_panel::{BridgeFuture, DaemonAddress, FarConnection, FarDaemon, PanelMessage, PanelWorkspace};
use subagent_protocol::Code;
use subagent_protocol::api::IfBusy;
use subagent_protocol::time::Timestamp;

use super::place_id::place_id;
use crate::client::{ApiRequest, DaemonClient, HostLink, segment};
use crate::commands::mcp::managed::turn_of;
use crate::commands::targets::has_state;
use crate::context::CliContext;
use crate::failure::{Failure, Result};
use crate::output::ago::age;
use crate::output::human::now;

/// The daemon of a host of the config file.
#[derive(Debug)]
pub(super) struct FarPlace {
    /// That of changes, which start a daemon that was stopped.
    context: CliContext,
    changing: Arc<HostLink>,
    /// That of requests that change nothing, which start no daemon.
    link: Arc<HostLink>,
    /// When the host last answered over a connection that the panel keeps.
    answered: Mutex<Option<Timestamp>>,
    /// The workspace there, once it was found in use.
    workspace: Mutex<Option<Workspace>>,
}

impl FarPlace {
    /// Returns those of all hosts.
    ///
    /// # Errors
    /// `CONFIG_PARSE_ERROR`.
    pub(super) fn all(here: &CliContext) -> Result<Vec<Arc<Self>>> {
        let hosts = discovery::daemon_hosts(&here.env)?.into_values();
        let place = |host| {
            let changing = HostLink::new(host, here.env.home.as_deref());
            let changing = if here.forbids_autostart() { changing.only_running() } else { changing };
            let changing = Arc::new(changing.for_board());
            let link = Arc::new(changing.for_board().only_running());
            let context = CliContext { host: Some(Arc::clone(&changing)), ..here.clone() };
            Arc::new(Self {
                context,
                changing,
                link,
                answered: Mutex::new(None),
                workspace: Mutex::new(None),
            })
        };
        Ok(hosts.map(place).collect())
    }

    /// What the page shows of it.
    pub(super) fn shown(&self) -> PanelWorkspace {
        let folder = self.link.host().cwd.as_deref().unwrap_or("~");
        PanelWorkspace {
            id: place_id(&("host", self.link.name())),
            title: format!("{}: {folder}", self.link.name()),
            state_dir: PathBuf::new(),
            is_own: false,
            host: Some(self.link.name().to_owned()),
        }
    }

    /// Returns its address, once its workspace is in use. With `start`, connections start a daemon that was stopped.
    pub(super) async fn address(self: &Arc<Self>, start: bool) -> Result<DaemonAddress, Value> {
        self.used().await.map_err(|failure| self.silent(failure))?;
        Ok(DaemonAddress::Far(Arc::new(FarDoor { place: Arc::clone(self), start })))
    }

    /// Sends a message to a worker there.
    pub(super) async fn send(&self, message: PanelMessage, if_busy: Option<IfBusy>) -> Result<Value> {
        let workspace = self.used().await?;
        let path = format!("/v1/workers/{}/turns", segment(&message.worker));
        let turn = turn_of(message.text, if_busy);
        let ask = match message.key {
            Some(key) => ApiRequest::post(path, &turn)?.keyed(key),
            None => ApiRequest::change(path, &turn)?,
        };
        DaemonClient::new(&self.context, &workspace).in_the_name_of(None).ask(&ask).await
    }

    /// Refuses what needs the files there.
    pub(super) fn unsupported(&self) -> Value {
        let name = self.link.name();
        let message = format!("the panel does not do this on the host `{name}`");
        let failure = Failure::new(Code::HostUnsupported, message).with("host", name);
        json!(failure.recommend(format!("use `subagent --host {name}`, or the panel of that host")))
    }

    async fn used(&self) -> Result<Workspace> {
        let known = || self.workspace.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(workspace) = known().clone() {
            return Ok(workspace);
        }
        let link = Arc::clone(&self.link);
        let dialing = tokio::task::spawn_blocking(move || link.workspace(None));
        let found = dialing.await.unwrap_or_else(|error| Err(Failure::internal(error.to_string())))?;
        if !has_state(&found) {
            let message = "nothing was started in the workspace of this host";
            return Err(Failure::new(Code::DaemonNotRunning, message).retryable());
        }
        *known() = Some(found.clone());
        Ok(found)
    }

    /// The error with the age of the last answer.
    fn silent(&self, mut failure: Failure) -> Value {
        let kept = *self.answered.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(answered) = self.link.last_answered().max(kept) {
            failure.message.push_str(&format!(" (last answer {} ago)", age(answered, now())));
        }
        json!(failure)
    }
}

/// The way to the daemon of a host, for requests that may start it or must not.
#[derive(Debug)]
struct FarDoor {
    place: Arc<FarPlace>,
    start: bool,
}

impl FarDaemon for FarDoor {
    fn dial(&self) -> BridgeFuture<'_, Result<FarConnection, Value>> {
        Box::pin(async move {
            let link = if self.start { &self.place.changing } else { &self.place.link };
            let dialed = async {
                let workspace = self.place.used().await?;
                link.bytes_of(&workspace.root).await
            };
            let (stream, state_folder, carrier) =
                dialed.await.map_err(|failure| self.place.silent(failure))?;
            Ok(FarConnection { stream, state_folder, carrier: Box::new(carrier) })
        })
    }

    fn host(&self) -> &str {
        self.place.link.name()
    }

    fn note_answer(&self) {
        *self.place.answered.lock().unwrap_or_else(PoisonError::into_inner) = Some(now());
    }

    fn silence(&self) -> Value {
        let message = format!("the daemon on the host `{}` does not answer", self.host());
        let failure = Failure::new(Code::HostUnreachable, message).retryable().with("host", self.host());
        self.place.silent(failure.recommend("wait until the host is back; the panel tries again"))
    }
}
