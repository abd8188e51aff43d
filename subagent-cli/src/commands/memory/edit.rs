//! `memory edit`: opens the notes of an agent in an editor.

use std::ffi::OsString;
use std::process::Command;

use clap::Args;
use subagent_protocol::Code;

use super::{OneMemory, chosen, described, unusable};
use crate::context::{CliContext, path_value};
use crate::failure::{Failure, Result};
use crate::output::{CliOutcome, text};

/// Open the MEMORY.md of an agent in $VISUAL or $EDITOR
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  EDITOR=nano subagent memory edit reviewer")]
pub(crate) struct MemoryEditArgs {
    #[command(flatten)]
    pub(crate) one: OneMemory,
}

pub(super) fn run(one: &OneMemory, context: &CliContext) -> Result<CliOutcome> {
    let folder = chosen(one, context)?;
    let set = |name: &str| context.env.var(name).filter(|value| !value.is_empty()).map(OsString::from);
    let editor = ["VISUAL", "EDITOR"].into_iter().find_map(set).ok_or_else(|| {
        Failure::argument("no editor is set: VISUAL and EDITOR are empty")
            .with("path", path_value(&folder.file()))
            .recommend("set EDITOR, or open the file yourself")
    })?;
    folder.make().map_err(unusable)?;
    // The editor would follow a link, or wait for a pipe.
    folder.entry().map_err(unusable)?;
    // A variable with flags, as git takes it.
    let mut script = editor.clone();
    script.push(" \"$@\"");
    let failed = |how: String| {
        Failure::new(Code::Internal, format!("the editor {} {how}", editor.display()))
            .with("path", path_value(&folder.file()))
    };
    let status = Command::new("/bin/sh").arg("-c").arg(script).arg("sh").arg(folder.file()).status();
    match status {
        Ok(status) if status.success() => {}
        Ok(status) => return Err(failed(format!("failed: {status}"))),
        Err(error) => return Err(failed(format!("cannot be started: {error}"))),
    }
    let entry = folder.entry().map_err(unusable)?;
    let data = described(&folder, entry.as_ref(), None);
    let shown = text::fields(&data, &["agent", "scope", "lines", "bytes", "path"]);
    Ok(CliOutcome::report("memory.edited", data, shown))
}
