//! `worker list`: the workers of a state dir, the newest first.

use serde_json::json;

use super::selected::Choice;
use crate::args::workers::WorkerList;
use crate::client::{Client, block_on};
use crate::context::{Context, present};
use crate::failure::Result;
use crate::output::{Outcome, text};

pub(super) fn run(args: &WorkerList, context: &Context) -> Result<Outcome> {
    let workspace = context.workspace(args.cwd.cwd.as_deref())?;
    let choice = Choice {
        controller_id: present(args.controller_id.clone()),
        selector: args.selector.selector.clone(),
    };
    let ask = choice.ask()?;
    let data = if super::has_state(&workspace) {
        let mut client = Client::new(context, &workspace);
        block_on(async move { client.ask(&ask).await })?
    } else {
        let mut data = json!({"items": [], "count": 0, "controllerId": choice.controller_id});
        if let Some(selector) = &choice.selector {
            data["selector"] = selector.as_str().into();
        }
        data
    };
    choice.check(&data)?;
    let shown = text::rows(&data, &["workerId", "state", "label"], "(no workers)");
    Ok(Outcome::report("worker.listed", data, shown))
}
