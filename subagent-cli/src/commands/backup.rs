//! `backup`: the daemon copies its database into a file.

use std::path::PathBuf;

use clap::Args;
use subagent_protocol::api::BackUp;

use crate::client::{ApiRequest, DaemonClient, block_on};
use crate::command_line::flags::{CwdFlag, JsonFlag, database_file};
use crate::context::{CliContext, path_value};
use crate::failure::{Failure, Result};
use crate::output::{CliOutcome, text};

/// Copy the daemon's state into a file
///
/// Workers and their turns go on meanwhile. What agents have said, the texts of messages and the owners' hashed tokens
/// are in the copy; it is readable for you alone.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  subagent backup ~/subagent.db
  subagent backup --force ~/subagent.db --json")]
pub(crate) struct BackupArgs {
    /// The file, outside of the state dir
    #[arg(value_name = "FILE", value_parser = database_file())]
    pub(crate) file: PathBuf,
    /// Replace an empty file or another backup
    #[arg(long)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) cwd: CwdFlag,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

pub(super) fn run(args: BackupArgs, context: &CliContext) -> Result<CliOutcome> {
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
