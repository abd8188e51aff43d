//! Evidence that a call was made whose agent reports it as completed. Pure.
//!
//! Some agents ask under another id than the call's, and report a denied call as completed with a sentence that says so.

use serde_json::Value;

/// Longer paths are cut.
const MAX_PATH_CHARS: usize = 200;
/// Where agents put the exit code of a command, in what came of it.
const EXIT_CODES: [&str; 4] = ["/exit_code", "/exitCode", "/exit", "/metadata/exit"];

/// What shows that a call was made whose agent reports it as completed with this update.
///
/// `ran`: an earlier update of the call told the output of a command. A change counts only in this update: many agents show
/// the change of an edit before they ask. With `maybe_asked`, a request under another id may have been for the call: then
/// neither a completed call nor a sentence shows anything.
pub(super) fn of(update: &Value, ran: bool, maybe_asked: bool) -> Option<String> {
    if let Some(changed) = parts(update).find(|part| part["type"] == "diff") {
        let path: String =
            changed["path"].as_str().unwrap_or("a file").chars().take(MAX_PATH_CHARS).collect();
        return Some(format!("it shows a change of {path}"));
    }
    if ran || tells_output(update) || parts(update).any(|part| part["type"] == "terminal") {
        return Some("it shows the output of a command".to_owned());
    }
    (!maybe_asked).then(|| "it was reported as completed, and no request was for it".to_owned())
}

/// Whether an update tells what a command wrote or how it ended.
pub(super) fn tells_output(update: &Value) -> bool {
    EXIT_CODES.iter().any(|place| update["rawOutput"].pointer(place).is_some_and(Value::is_number))
        || ["terminal_output", "terminal_output_delta", "terminal_exit"]
            .iter()
            .any(|name| !update["_meta"][*name].is_null())
}

fn parts(update: &Value) -> impl Iterator<Item = &Value> {
    update["content"].as_array().into_iter().flatten()
}
