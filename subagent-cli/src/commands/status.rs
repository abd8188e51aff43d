//! `status`: whether a daemon runs here, and whether all is well. Starts no daemon.

use serde_json::json;

use crate::args::overview::StatusArgs;
use crate::commands::{daemon, doctor};
use crate::context::CliContext;
use crate::failure::Result;
use crate::output::{CliOutcome, text};

pub(super) fn run(args: &StatusArgs, context: &CliContext) -> Result<CliOutcome> {
    let mut data = daemon::status(args.cwd.cwd.as_deref(), context)?;
    let found = doctor::findings(args.cwd.cwd.as_deref(), context)?;
    let wrong: Vec<_> = found.iter().filter(|finding| !finding.is_well()).collect();
    data.insert("findings".to_owned(), json!(wrong));
    let data = data.into();
    let mut lines = text::fields(&data, &["running", "liveWorkers", "version", "stateDir"]);
    for finding in wrong {
        lines.push('\n');
        lines.push_str(&doctor::line(finding));
    }
    Ok(CliOutcome::report("status.shown", data, lines))
}
