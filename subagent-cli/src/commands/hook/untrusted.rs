//! Which hooks do not run because the content of their file is not trusted.

use std::path::Path;

use serde::Deserialize as _;
use serde_json::Value;
use subagent_protocol::api::AllTrustedHooks;
use subagent_protocol::hook::{Hook, HookOrigin};

use crate::client::{ApiRequest, DaemonClient};
use crate::failure::{Failure, Result};

/// The files of a worker whose hooks do not run, in the data of `worker.started`.
pub(crate) const KEY: &str = "untrustedHooks";

/// The contents that are trusted.
#[derive(Debug, Default)]
pub(crate) struct Trusted(Vec<(String, String)>);

impl Trusted {
    /// Requests all trusted contents from the daemon.
    pub(crate) async fn of(client: &mut DaemonClient) -> Result<Self> {
        let data = client.ask(&ApiRequest::get("/v1/hooks/trust")).await?;
        let trusted = AllTrustedHooks::deserialize(&data).map_err(|error| {
            Failure::internal(format!("the daemon's answer has trust in an unknown form: {error}"))
        })?;
        let of = |item: subagent_protocol::api::TrustedHooks| {
            (item.file.to_string_lossy().into_owned(), item.sha256)
        };
        Ok(Self(trusted.items.into_iter().map(of).collect()))
    }

    /// Whether hooks of this file may run.
    pub(crate) fn allows(&self, origin: HookOrigin, file: &Path, sha256: &str) -> bool {
        let file = file.to_string_lossy();
        !origin.needs_trust() || self.0.iter().any(|(trusted, hash)| *trusted == file && hash == sha256)
    }

    /// The files of these hooks whose content is not trusted, each once.
    pub(crate) fn missing<'a>(&self, hooks: impl IntoIterator<Item = &'a Hook>) -> Vec<String> {
        let mut files: Vec<String> = Vec::new();
        for hook in hooks {
            let file = hook.file.to_string_lossy().into_owned();
            if !self.allows(hook.origin, &hook.file, &hook.sha256) && !files.contains(&file) {
                files.push(file);
            }
        }
        files
    }
}

/// The files of these hooks whose content is not trusted, each once.
pub(crate) async fn files(client: &mut DaemonClient, hooks: &[Hook]) -> Result<Vec<String>> {
    Ok(Trusted::of(client).await?.missing(hooks))
}

/// The warning for people about data with such files.
pub(crate) fn warning(data: &Value) -> Option<String> {
    let files = data[KEY].as_array().filter(|files| !files.is_empty())?;
    Some(advice(files.iter().filter_map(Value::as_str)))
}

/// What to do so that the hooks of these files run.
pub(crate) fn advice<'a>(files: impl Iterator<Item = &'a str>) -> String {
    let commands = files.map(|file| format!("  subagent hook trust {}", shell_words::quote(file)));
    let lines =
        std::iter::once("hooks of these files do not run, as you have not trusted their content:".to_owned());
    lines.chain(commands).collect::<Vec<_>>().join("\n")
}
