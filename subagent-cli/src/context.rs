//! What a command knows of its caller: environment, owner handle, workspace. Asks nobody but the system.

use std::path::Path;

use serde_json::Value;
use subagent_config::discovery::{self, LoadedConfig};
use subagent_config::environment::account_home;
use subagent_config::{Environment, Workspace};
use subagent_protocol::Code;
use subagent_protocol::api::Handle;

use crate::args::Typed;
use crate::failure::{Failure, Result};
use crate::output::Format;

/// The caller of a command.
#[derive(Debug)]
pub struct Context {
    /// Variables, working directory, home.
    pub env: Environment,
    /// The form of output that was asked for.
    pub format: Format,
    /// The flags that were typed.
    pub typed: Typed,
}

impl Context {
    /// The context of this process.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` if the working directory is gone.
    pub fn of_process(format: Format, typed: Typed) -> Result<Self> {
        let cwd = std::env::current_dir().map_err(|error| {
            Failure::argument(format!(
                "the working directory cannot be used ({error}); change to one that exists"
            ))
            .with("error", error.to_string())
        })?;
        let env = Environment::new(std::env::vars_os(), cwd).or_home(account_home);
        Ok(Self { env, format, typed })
    }

    /// The owner handle of the caller, if all three variables are set.
    ///
    /// # Errors
    /// `INVALID_CONTROLLER_HANDLE` if they hold what no handle can hold.
    pub fn handle(&self) -> Result<Option<Handle>> {
        let part = |name: &str| {
            match self.env.var(name).map(|value| value.to_str()) {
            None => Ok(None),
            // It travels in a header, which holds visible ASCII.
            Some(Some(text)) if text.bytes().all(|byte| byte.is_ascii_graphic()) => Ok(Some(text.to_owned())),
            Some(_) => Err(Failure::new(
                Code::InvalidControllerHandle,
                format!("{name} does not hold what `controller init --print-env` printed; set it again, or unset it"),
            )
            .with("variable", name)),
        }
        };
        let parts = (part("SUBAGENT_CTL_ID")?, part("SUBAGENT_CTL_EPOCH")?, part("SUBAGENT_CTL_TOKEN")?);
        Ok(match parts {
            (Some(controller_id), Some(epoch), Some(token)) => Some(Handle { controller_id, epoch, token }),
            _ => None,
        })
    }

    /// The workspace that a command with this `--cwd` is about. Its paths are text: they are keys in the database and
    /// parts of JSON documents, and two folders must never become the same there.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT`, `WORKSPACE_ROOT_NOT_FOUND`.
    pub fn workspace(&self, typed_cwd: Option<&Path>) -> Result<Workspace> {
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

    /// The config of a command.
    ///
    /// # Errors
    /// `CONFIG_PARSE_ERROR`, `INVALID_ARGUMENT`.
    pub fn config(&self, flag: Option<&Path>, typed_cwd: Option<&Path>) -> Result<LoadedConfig> {
        Ok(discovery::load(flag, typed_cwd, &self.env)?)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn context(vars: &[(&str, &str)]) -> Context {
        let vars = vars.iter().map(|(name, value)| ((*name).into(), (*value).into()));
        Context { env: Environment::new(vars, "/"), format: Format::Json, typed: Typed::default() }
    }

    #[test]
    fn a_handle_needs_all_three_variables() {
        let all = [("SUBAGENT_CTL_ID", "ctl_1"), ("SUBAGENT_CTL_EPOCH", "x"), ("SUBAGENT_CTL_TOKEN", "t")];
        let handle = context(&all).handle().unwrap().unwrap();
        assert_eq!((handle.controller_id.as_str(), handle.epoch.as_str()), ("ctl_1", "x"));
        for missing in 0..3 {
            let mut some = all;
            some[missing].1 = "";
            assert!(context(&some).handle().unwrap().is_none());
        }
    }

    #[test]
    fn a_handle_that_fits_no_header_is_refused_before_anything_is_asked() {
        let vars =
            [("SUBAGENT_CTL_ID", "ctl_1"), ("SUBAGENT_CTL_EPOCH", "1\n2"), ("SUBAGENT_CTL_TOKEN", "t")];
        let failure = context(&vars).handle().unwrap_err();
        assert!(failure.is(Code::InvalidControllerHandle));
        assert_eq!(failure.details["variable"], "SUBAGENT_CTL_EPOCH");
    }
}
