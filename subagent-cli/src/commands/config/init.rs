//! `config init`: writes a config file to begin with. No daemon is involved.

use serde_json::json;
use subagent_config::init::{self, Existing, Scope};

use crate::args::local::ConfigInit;
use crate::context::{CliContext, path_value};
use crate::failure::Result;
use crate::output::{CliOutcome, text};

pub(crate) fn run(args: &ConfigInit, context: &CliContext) -> Result<CliOutcome> {
    let scope = Scope::parse(&args.scope)?;
    let target = init::target(args.path.as_deref(), scope, args.cwd.as_deref(), &context.env)?;
    let existing = if args.force { Existing::Replace } else { Existing::Keep };
    let written = init::init(target, scope, existing)?;
    let data = json!({
        "path": path_value(&written.path),
        "scope": written.scope.as_str(),
        "overwritten": written.overwritten,
    });
    let shown = json!({"configPath": data["path"], "scope": data["scope"]});
    Ok(CliOutcome::report("config.initialized", data, text::fields(&shown, &["configPath", "scope"])))
}
