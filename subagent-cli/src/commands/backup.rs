//! `backup`: the daemon copies its database into a file.

use std::path::PathBuf;

use subagent_protocol::api::BackUp;

use crate::args::state::Backup;
use crate::client::{ApiRequest, DaemonClient, block_on};
use crate::context::{CliContext, path_value};
use crate::failure::{Failure, Result};
use crate::output::{CliOutcome, text};

pub(super) fn run(args: Backup, context: &CliContext) -> Result<CliOutcome> {
    let path = absolute(args.file, context)?;
    let workspace = context.workspace(args.cwd.cwd.as_deref())?;
    let mut client = DaemonClient::new(context, &workspace);
    // As long as it takes: how large the database is only the daemon knows, and it is asked for a sign of life.
    let ask = ApiRequest::change("/v1/daemon/backup", &BackUp { path, force: args.force })?.within(None);
    let data = block_on(async move { client.ask(&ask).await })?;
    let lines = text::fields(&data, &["path", "sizeBytes", "schema", "lastEventId"]);
    Ok(CliOutcome::report("state.backed_up", data, lines))
}

/// The file as the daemon, which runs elsewhere, must hear it.
pub(crate) fn absolute(file: PathBuf, context: &CliContext) -> Result<PathBuf> {
    let path = context.env.cwd.join(&file);
    if path.to_str().is_none() {
        // It becomes part of JSON documents, which are text.
        let message = format!("the name of the file {:?} is not UTF-8", file.display());
        return Err(Failure::argument(message).with("path", path_value(&file)));
    }
    Ok(path)
}
