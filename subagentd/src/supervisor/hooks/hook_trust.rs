//! Trust on first use: hooks of a project or a definition run only if the owner has trusted the
//! content of their file, because agents can write these files (M5).

use subagent_protocol::Result;
use subagent_protocol::hook::Hook;

use crate::store::hook_trust;
use crate::supervisor::shared::SupervisorState;

/// Returns whether a hook may run.
pub(crate) async fn is_trusted(shared: &SupervisorState, hook: &Hook) -> Result<bool> {
    if !hook.origin.needs_trust() {
        return Ok(true);
    }
    let Some(file) = hook.file.to_str().map(str::to_owned) else { return Ok(false) };
    let sha256 = hook.sha256.clone();
    shared.store.read(move |connection| hook_trust::is_trusted(connection, &file, &sha256)).await
}

/// Explains why a hook does not run, and how to trust it.
pub(crate) fn advice(hook: &Hook) -> String {
    let file = hook.file.to_string_lossy();
    let quoted = shell_words::quote(&file);
    format!("it does not run: you have not trusted this content of {file}; `subagent hook trust {quoted}`")
}
