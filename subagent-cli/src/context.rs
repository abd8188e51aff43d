//! What a command knows of its caller: environment, owner handle, workspace. It asks only the
//! system.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;
use subagent_config::discovery::{self, LoadedConfig};
use subagent_config::environment::{NO_AUTOSTART, account_home};
use subagent_config::placements::LOCAL;
use subagent_config::{Environment, Workspace, hosts, proc, unknown};
use subagent_protocol::Code;
use subagent_protocol::api::ControllerHandle;
use subagent_protocol::clean::one_line;
use subagent_protocol::hosts::DaemonHost;

use crate::client::HostLink;
use crate::command_line::TypedFlags;
use crate::failure::{Failure, Result};
use crate::output::terminal::OutputTerminal;
use crate::output::{OutputFormat, complain};

/// The variable that names a host, as `--host` does.
const HOST_VARIABLE: &str = "SUBAGENT_HOST";
/// How much of a part of the owner handle is looked at: twice what the longest can have.
const MAX_PART_CHARS: usize = 256;

/// The caller of a command.
#[derive(Debug, Clone)]
pub struct CliContext {
    /// Variables, working directory, home.
    pub env: Environment,
    /// The form of output that was asked for.
    pub format: OutputFormat,
    /// The flags that were typed.
    pub typed: TypedFlags,
    /// The host whose daemon is used; `None` is this machine.
    pub(crate) host: Option<Arc<HostLink>>,
}

impl CliContext {
    /// The context of this process.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` if the working directory is gone.
    pub fn of_process(format: OutputFormat, typed: TypedFlags) -> Result<Self> {
        let cwd = std::env::current_dir().map_err(|error| {
            Failure::argument(format!(
                "the working directory cannot be used ({error}); change to one that exists"
            ))
            .with("error", error.to_string())
        })?;
        let env = Environment::new(std::env::vars_os(), cwd).or_home(account_home);
        Ok(Self { env, format, typed, host: None })
    }

    /// Returns the context for the host that the command line or `SUBAGENT_HOST` names. `starts_daemon`:
    /// whether its daemon is started if its workspace is in use, unless `SUBAGENT_NO_AUTOSTART` forbids it.
    ///
    /// # Errors
    /// `HOST_NOT_FOUND{host,available}`, `FORBIDDEN_FROM_WORKER`, and those of the config file.
    pub(crate) fn at_host(mut self, name: &str, starts_daemon: bool) -> Result<Self> {
        if Self::is_here(name) {
            return Ok(self);
        }
        Self::check_hosts_are_allowed().map_err(|failure| failure.with("host", name))?;
        let host = self.host_named(name)?;
        let link = HostLink::new(host, self.env.home.as_deref());
        let starts = starts_daemon && !self.forbids_autostart();
        self.host = Some(Arc::new(if starts { link } else { link.only_running() }));
        Ok(self)
    }

    /// Returns the context of this machine for a command that also asks all hosts.
    ///
    /// # Errors
    /// `FORBIDDEN_FROM_WORKER`; `INVALID_ARGUMENT` with `--host`.
    pub(crate) fn for_all_hosts(&self) -> Result<Self> {
        if self.typed.host().is_some() {
            return Err(Failure::argument("--all-hosts asks all hosts; leave out --host").wrong_usage());
        }
        Self::check_hosts_are_allowed()?;
        Ok(Self { host: None, ..self.clone() })
    }

    /// Whether `SUBAGENT_NO_AUTOSTART` forbids that a command starts the daemon.
    pub(crate) fn forbids_autostart(&self) -> bool {
        self.env.var(NO_AUTOSTART).is_some_and(|value| value != "0")
    }

    /// Refuses other hosts below a worker: their daemons would take its agent for a person.
    ///
    /// # Errors
    /// `FORBIDDEN_FROM_WORKER`.
    pub(crate) fn check_hosts_are_allowed() -> Result<()> {
        let message = "a command of a worker must not use the daemons of other hosts";
        match proc::is_below_guard() {
            true => Err(Failure::new(Code::ForbiddenFromWorker, message)),
            false => Ok(()),
        }
    }

    /// Whether this is the name of this machine.
    pub(crate) fn is_here(name: &str) -> bool {
        name == LOCAL
    }

    /// Returns the host of this name in the user's config file.
    ///
    /// # Errors
    /// `HOST_NOT_FOUND{host,available}`, and those of the config file.
    pub(crate) fn host_named(&self, name: &str) -> Result<DaemonHost> {
        Ok(hosts::by_name(&discovery::daemon_hosts(&self.env)?, name)?)
    }

    /// The host that `SUBAGENT_HOST` names.
    pub(crate) fn host_variable(&self) -> Option<String> {
        let name = self.env.var(HOST_VARIABLE)?.to_string_lossy().into_owned();
        (name != LOCAL).then_some(name)
    }

    /// The owner handle of the caller, if all three variables are set. They belong to the host of
    /// `SUBAGENT_HOST`: no other daemon gets them.
    ///
    /// It travels in headers, which hold visible ASCII and are short. Other characters of a
    /// variable become `?`, and a long value is cut. No part of a real handle looks like that, so
    /// the daemon refuses it like any wrong handle.
    #[must_use]
    pub fn handle(&self) -> Option<ControllerHandle> {
        if self.host_variable().as_deref() != self.host.as_ref().map(|host| host.name()) {
            return None;
        }
        let visible = |char: char| if char.is_ascii_graphic() { char } else { '?' };
        let part = |name: &str| {
            let text = self.env.var(name)?.to_string_lossy();
            Some(text.chars().map(visible).take(MAX_PART_CHARS).collect())
        };
        Some(ControllerHandle {
            controller_id: part("SUBAGENT_CTL_ID")?,
            epoch: part("SUBAGENT_CTL_EPOCH")?,
            token: part("SUBAGENT_CTL_TOKEN")?,
        })
    }

    /// The workspace that a command with this `--cwd` is about. Its paths are text: they are keys in the database and
    /// parts of JSON documents, and two folders must never become the same there.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT`, `WORKSPACE_ROOT_NOT_FOUND`.
    pub fn workspace(&self, typed_cwd: Option<&Path>) -> Result<Workspace> {
        if let Some(host) = &self.host {
            return host.workspace(typed_cwd);
        }
        let workspace = Workspace::find(typed_cwd, &self.env)?;
        for (what, key, path) in
            [("workspace", "cwd", &workspace.root), ("state dir", "stateDir", &workspace.state_dir)]
        {
            if path.to_str().is_none() {
                return Err(Failure::argument(format!(
                    "the path of the {what} is not UTF-8 text: {}; rename the folder",
                    path.display()
                ))
                .with(key, path_value(path)));
            }
        }
        Ok(workspace)
    }

    /// The config of a command. A command for another host has none: what is made of it, with the
    /// variables of this machine, is not for a daemon there.
    ///
    /// # Errors
    /// `CONFIG_PARSE_ERROR`, `INVALID_ARGUMENT`, `HOST_UNSUPPORTED`.
    pub fn config(&self, flag: Option<&Path>, typed_cwd: Option<&Path>) -> Result<LoadedConfig> {
        if let Some(host) = &self.host {
            let message = "config files of this machine do not count for another host";
            return Err(Failure::new(Code::HostUnsupported, message)
                .with("host", host.name())
                .recommend("leave out --config, or run the command there, as `ssh -t HOST subagent ...`"));
        }
        let loaded = discovery::load(flag, typed_cwd, &self.env)?;
        warn_of_unknown_keys(&loaded);
        Ok(loaded)
    }

    /// For a command that needs no config: a file that was named must still be right.
    ///
    /// # Errors
    /// `CONFIG_PARSE_ERROR`.
    pub fn check_named_config(&self, flag: Option<&Path>) -> Result<()> {
        match flag.filter(|path| !path.as_os_str().is_empty()) {
            Some(path) => self.config(Some(path), None).map(drop),
            None => Ok(()),
        }
    }
}

/// Says once which keys of the files mean nothing, if a person sees it.
fn warn_of_unknown_keys(loaded: &LoadedConfig) {
    static WARNED: AtomicBool = AtomicBool::new(false);
    if OutputTerminal::of_stderr().is_none() || WARNED.swap(true, Ordering::Relaxed) {
        return;
    }
    for key in loaded.files.iter().flat_map(unknown::of_file) {
        complain(&format!("warning: {}", one_line(&key.to_string())));
    }
}

/// A path as JSON. What is not UTF-8 in it is replaced: JSON has no bytes.
#[must_use]
pub fn path_value(path: &Path) -> Value {
    path.to_string_lossy().into_owned().into()
}

/// The text, unless it is empty: an empty id, label or word counts as not given.
#[must_use]
pub fn present(text: Option<String>) -> Option<String> {
    text.filter(|text| !text.is_empty())
}

/// The path, unless it is empty.
#[must_use]
pub fn present_path(path: Option<PathBuf>) -> Option<PathBuf> {
    path.filter(|path| !path.as_os_str().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn context(vars: &[(&str, &str)]) -> CliContext {
        let vars = vars.iter().map(|(name, value)| ((*name).into(), (*value).into()));
        CliContext {
            env: Environment::new(vars, "/"),
            format: OutputFormat::Json,
            typed: TypedFlags::default(),
            host: None,
        }
    }

    #[test]
    fn a_handle_needs_all_three_variables() {
        let all = [("SUBAGENT_CTL_ID", "ctl_1"), ("SUBAGENT_CTL_EPOCH", "x"), ("SUBAGENT_CTL_TOKEN", "t")];
        let handle = context(&all).handle().unwrap();
        assert_eq!((handle.controller_id.as_str(), handle.epoch.as_str()), ("ctl_1", "x"));
        for missing in 0..3 {
            let mut some = all;
            some[missing].1 = "";
            assert!(context(&some).handle().is_none());
        }
    }

    #[test]
    fn what_fits_no_header_becomes_what_no_handle_holds() {
        let token = "t".repeat(1 << 20);
        let vars =
            [("SUBAGENT_CTL_ID", "ä b"), ("SUBAGENT_CTL_EPOCH", " 1\n"), ("SUBAGENT_CTL_TOKEN", &token)];
        let handle = context(&vars).handle().unwrap();
        assert_eq!((handle.controller_id.as_str(), handle.epoch.as_str()), ("??b", "?1?"));
        assert_eq!(handle.token.len(), MAX_PART_CHARS);
    }
}
