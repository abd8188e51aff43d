//! `daemon list`: the daemons of this user that run. Starts none.

use serde_json::{Value, json};

use super::facts;
use crate::client::{Unreachable, block_on, daemons};
use crate::context::CliContext;
use crate::failure::Result;
use crate::output::{CliOutcome, text};

pub(crate) fn run(context: &CliContext) -> Result<CliOutcome> {
    let (found, unreachable) = block_on(async { Ok(daemons(&context.env).await) })?;
    let items: Vec<Value> = found.iter().map(|shown| facts(shown).into()).collect();
    let data = json!({
        "count": items.len(), "items": items,
        "unreachable": unreachable.iter().map(Unreachable::shown).collect::<Vec<_>>(),
    });
    unreachable.iter().for_each(|one| one.warn(context));
    let shown = text::rows(&data, &["pid", "liveWorkers", "stateDir"], "");
    Ok(CliOutcome::list("daemons.listed", data, shown, "(no daemons)"))
}
