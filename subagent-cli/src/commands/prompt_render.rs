//! `prompt render`: what a manager agent should know. No daemon is involved.

use serde_json::json;

use crate::args::prompt::PromptRender;
use crate::context::Context;
use crate::failure::Result;
use crate::output::Outcome;
use crate::prompt;

pub(super) fn run(args: &PromptRender, context: &Context) -> Result<Outcome> {
    let loaded = context.config(args.config.config.as_deref(), None)?;
    let prompt = prompt::render(&loaded.config);
    let data = json!({"target": "manager", "prompt": prompt});
    Ok(Outcome::report("prompt.rendered", data, prompt))
}
