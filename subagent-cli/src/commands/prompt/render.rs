//! `prompt render`: what a manager agent should know. No daemon is involved.

use serde_json::json;

use crate::args::prompt::PromptRender;
use crate::context::CliContext;
use crate::failure::Result;
use crate::output::CliOutcome;
use crate::prompt;

pub(crate) fn run(args: &PromptRender, context: &CliContext) -> Result<CliOutcome> {
    let loaded = context.config(args.config.config.as_deref(), None)?;
    let prompt = prompt::render(&loaded.config);
    let data = json!({"target": "manager", "prompt": prompt});
    Ok(CliOutcome::report("prompt.rendered", data, prompt))
}
