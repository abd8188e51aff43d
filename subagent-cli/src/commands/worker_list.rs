//! `worker list`: the workers of a state dir, the newest first.

use serde_json::json;

use crate::args::workers::WorkerList;
use crate::client::{Ask, Client, Query, block_on};
use crate::context::Context;
use crate::failure::Result;
use crate::output::{Outcome, text};

pub(super) fn run(args: &WorkerList, context: &Context) -> Result<Outcome> {
    let workspace = context.workspace(args.cwd.cwd.as_deref())?;
    let filter = args.controller_id.as_deref().filter(|id| !id.is_empty());
    let path = Query::new("/v1/workers").with("controllerId", filter);
    let data = if super::has_state(&workspace) {
        let mut client = Client::new(context, &workspace);
        block_on(async move { client.ask(&Ask::get(path)).await })?
    } else {
        json!({"items": [], "count": 0, "controllerId": filter})
    };
    let shown = text::rows(&data, &["workerId", "state", "label"], "(no workers)");
    Ok(Outcome::report("worker.listed", data, shown))
}
