//! What the panel needs of the command line: the daemons of this user, and commands with this process's config.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Map, Value, json};
use subagent_config::state_identity::folder_at;
use subagent_config::{Workspace, installed, launcher};
use subagent_panel::{BridgeFuture, BridgeResult, DaemonAddress, PanelMessage, PanelWorkspace};
use subagent_protocol::Code;
use subagent_protocol::api::{ControllerHandle, IfBusy};

use super::far::FarPlace;
use super::place_id::place_id;
use crate::client::{ApiRequest, DaemonClient, daemons, read_info};
use crate::command_line::flags::JsonFlag;
use crate::commands::agent::{self, DefinitionPlace};
use crate::commands::land::LandOptions;
use crate::commands::mcp::managed::CallerCommands;
use crate::commands::targets::has_state;
use crate::commands::targets::selected::WorkerHead;
use crate::context::CliContext;
use crate::failure::{Failure, Result};
use crate::output::OutputFormat;

/// The command line around a panel.
#[derive(Debug)]
pub(crate) struct CommandBridge {
    context: CliContext,
    /// The workspace of the panel; none outside of one.
    own: Option<Workspace>,
    /// Daemons of other hosts.
    far: Vec<Arc<FarPlace>>,
}

impl CommandBridge {
    /// Of this folder. Outside of a workspace the panel shows those of others.
    pub(crate) fn new(context: &CliContext, typed_cwd: Option<&Path>, all_hosts: bool) -> Result<Self> {
        let far = if all_hosts { FarPlace::all(&context.for_all_hosts()?)? } else { Vec::new() };
        let own = match context.workspace(typed_cwd) {
            Err(failure) if failure.is(Code::WorkspaceRootNotFound) && typed_cwd.is_none() => None,
            found => Some(found?),
        };
        // Nothing of what a page asks for is written for people.
        Ok(Self { context: CliContext { format: OutputFormat::Json, ..context.clone() }, own, far })
    }

    /// Starts the daemon of the panel's workspace, if anything was ever started there.
    pub(crate) async fn start_own_daemon(&self) -> Result<()> {
        match self.own.as_ref().filter(|own| has_state(own)) {
            Some(own) => self.socket_of_started(own).await.map(drop),
            None => Ok(()),
        }
    }

    async fn socket_of_started(&self, own: &Workspace) -> Result<PathBuf> {
        let mut client = DaemonClient::new(&self.context, own);
        client.ask(&ApiRequest::get("/v1/daemon")).await?;
        let info = client.daemon().ok_or_else(|| Failure::internal("the daemon was not asked"))?;
        Ok(info.socket.clone())
    }

    async fn find(&self) -> Vec<PanelWorkspace> {
        let (found, _) = daemons(&self.context.env).await;
        let own = self.own.as_ref().map(|own| place(&own.state_dir, true, self.context.env.home.as_deref()));
        let others = found
            .into_iter()
            .map(|daemon| place(&daemon.info.state_dir, false, self.context.env.home.as_deref()))
            .filter(|other| own.as_ref().is_none_or(|own| own.state_dir != other.state_dir));
        let far = self.far.iter().map(|far| far.shown());
        own.iter().cloned().chain(others).chain(far).collect()
    }

    /// The daemon of another host.
    fn far(&self, place: &PanelWorkspace) -> Option<&Arc<FarPlace>> {
        place.host.as_ref()?;
        self.far.iter().find(|far| far.shown().id == place.id)
    }

    /// Refuses a place on another host.
    fn only_here(&self, place: &PanelWorkspace) -> BridgeResult {
        self.far(place).map_or(Ok(Value::Null), |far| Err(far.unsupported()))
    }

    async fn reach(&self, place: &PanelWorkspace, start: bool) -> Result<DaemonAddress> {
        let socket = self.socket(place, start).await?;
        Ok(DaemonAddress::Socket { socket, state_folder: folder_at(&place.state_dir).ok() })
    }

    async fn socket(&self, place: &PanelWorkspace, start: bool) -> Result<PathBuf> {
        // A daemon that ended in order has taken its address away: one that is still there died.
        let info = read_info(&place.state_dir).filter(|info| !info.ending);
        match (&self.own, info) {
            (Some(own), info) if place.is_own && (start || info.is_some()) => {
                self.socket_of_started(own).await
            }
            (_, Some(info)) => Ok(info.socket),
            (_, None) => Err(Failure::new(Code::DaemonNotRunning, "no daemon runs for this workspace")
                .retryable()
                .recommend("start it with `subagent daemon start` there")),
        }
    }

    /// The commands of this process in the workspace of a place.
    fn commands(&self, place: &PanelWorkspace) -> Result<CallerCommands> {
        let own = self.own.as_ref().filter(|_| place.is_own);
        let root = own.map_or_else(|| root_of(&place.state_dir), |own| own.root.clone());
        let workspace = self.context.workspace(Some(&root))?;
        if workspace.state_dir.canonicalize().ok() != place.state_dir.canonicalize().ok() {
            let message = format!("{} has another state dir here", root.display());
            return Err(Failure::new(Code::StateDirMismatch, message)
                .recommend("start the panel in that workspace, with its SUBAGENT_STATE_DIR"));
        }
        Ok(CallerCommands { context: self.context.clone(), cwd: Some(root), config: None })
    }

    fn offered(&self, place: &PanelWorkspace) -> Result<Value> {
        let CallerCommands { context, cwd, .. } = self.commands(place)?;
        let loaded = context.config(None, cwd.as_deref())?;
        let env = &context.env;
        let launchers = loaded.config.launchers.iter().map(|(name, launcher)| {
            let resolved = launcher::resolve(name, launcher, &env.cwd, env);
            let state = installed::presence(launcher, &resolved, &env.cwd, env).as_str();
            json!({"name": name, "state": state, "own": loaded.file_of_launcher(name).is_some()})
        });
        let definitions = DefinitionPlace { agents: None, cwd, json: JsonFlag { json: true } };
        let (catalog, root) = agent::catalog(&definitions, &context)?;
        let agents = catalog.found.iter().filter(|found| agent::is_startable(found)).map(agent::brief);
        let sandboxes: Vec<&String> = loaded.config.sandboxes.keys().collect();
        Ok(json!({
            "launchers": launchers.collect::<Vec<_>>(), "agents": agents.collect::<Vec<_>>(), "sandboxes": sandboxes,
            "git": root.join(".git").exists(),
        }))
    }

    async fn start_and_send(&self, place: &PanelWorkspace, mut worker: Map<String, Value>) -> Result<Value> {
        let commands = self.commands(place)?;
        let text = worker.remove("text").and_then(|text| text.as_str().map(str::to_owned));
        let started = Box::pin(commands.start(worker)).await?;
        if let Some(text) = text.filter(|text| !text.trim().is_empty()) {
            let id = WorkerHead::of(&started).worker_id.unwrap_or_default().to_owned();
            Box::pin(commands.send(id, text, None, None)).await?;
        }
        Ok(started)
    }

    async fn write(&self, place: &PanelWorkspace, message: PanelMessage) -> Result<Value> {
        let PanelMessage { worker, text, if_busy, key } = message;
        let if_busy = if_busy
            .map(|word| {
                IfBusy::parse(&word).ok_or_else(|| Failure::input(format!("ifBusy cannot be {word}")))
            })
            .transpose()?;
        if let Some(far) = self.far(place) {
            return far.send(PanelMessage { worker, text, if_busy: None, key }, if_busy).await;
        }
        let commands = self.commands(place)?;
        Box::pin(commands.send(worker, text, if_busy, key)).await
    }
}

/// The folder that a state dir is of, if it is in its usual place.
fn root_of(state_dir: &Path) -> PathBuf {
    let usual = state_dir.parent().filter(|parent| parent.ends_with(".subagent"));
    usual.and_then(Path::parent).unwrap_or(state_dir).to_owned()
}

fn place(state_dir: &Path, is_own: bool, home: Option<&Path>) -> PanelWorkspace {
    let root = root_of(state_dir);
    let title = match home.and_then(|home| root.strip_prefix(home).ok()) {
        Some(below) => format!("~/{}", below.display()),
        None => root.display().to_string(),
    };
    PanelWorkspace { id: place_id(&state_dir), title, state_dir: state_dir.to_owned(), is_own, host: None }
}

/// The error as an envelope has it.
fn failure_document(failure: Failure) -> Value {
    json!(failure)
}

impl subagent_panel::Bridge for CommandBridge {
    fn places(&self) -> BridgeFuture<'_, Vec<PanelWorkspace>> {
        Box::pin(self.find())
    }

    fn address<'a>(
        &'a self,
        place: &'a PanelWorkspace,
        start: bool,
    ) -> BridgeFuture<'a, Result<DaemonAddress, Value>> {
        Box::pin(async move {
            match self.far(place) {
                Some(far) => far.address(start).await,
                None => self.reach(place, start).await.map_err(failure_document),
            }
        })
    }

    fn handle(&self) -> Option<ControllerHandle> {
        self.context.handle()
    }

    fn choices<'a>(&'a self, place: &'a PanelWorkspace) -> BridgeFuture<'a, BridgeResult> {
        Box::pin(async move {
            self.only_here(place)?;
            self.offered(place).map_err(failure_document)
        })
    }

    fn start<'a>(
        &'a self,
        place: &'a PanelWorkspace,
        worker: Map<String, Value>,
    ) -> BridgeFuture<'a, BridgeResult> {
        Box::pin(async move {
            self.only_here(place)?;
            self.start_and_send(place, worker).await.map_err(failure_document)
        })
    }

    fn send<'a>(
        &'a self,
        place: &'a PanelWorkspace,
        message: PanelMessage,
    ) -> BridgeFuture<'a, BridgeResult> {
        Box::pin(async move { self.write(place, message).await.map_err(failure_document) })
    }

    fn hand_off<'a>(
        &'a self,
        place: &'a PanelWorkspace,
        worker: String,
        key: Option<String>,
    ) -> BridgeFuture<'a, BridgeResult> {
        Box::pin(async move {
            self.only_here(place)?;
            let commands = self.commands(place).map_err(failure_document)?;
            Box::pin(commands.hand_off(worker, key)).await.map_err(failure_document)
        })
    }

    fn land<'a>(&'a self, place: &'a PanelWorkspace, worker: String) -> BridgeFuture<'a, BridgeResult> {
        Box::pin(async move {
            self.only_here(place)?;
            let commands = self.commands(place).map_err(failure_document)?;
            Box::pin(commands.land(&worker, LandOptions::default())).await.map_err(failure_document)
        })
    }
}
