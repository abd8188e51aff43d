//! Evidence that a call reported as completed was really made. Pure. Some agents ask with another
//! id than the call's, and report a denied call as completed with an explanation.

use serde_json::Value;
use subagent_protocol::tool_content::ToolCallReport;

/// Maximum length of a path, in characters.
const MAX_PATH_CHARS: usize = 200;
/// Pointers at which agents report the exit code of a command.
const EXIT_CODES: [&str; 4] = ["/exit_code", "/exitCode", "/exit", "/metadata/exit"];

/// Returns the evidence that a call was made, given the update that reports it as completed.
///
/// `ran`: an earlier update of the call contained output of a command. A diff counts only in this
/// update, because many agents show the diff of an edit before they ask. `maybe_asked`: a request
/// with another id may have been for the call. Then neither the status nor a text is evidence.
pub(super) fn of(
    update: &Value,
    report: &ToolCallReport<'_>,
    ran: bool,
    maybe_asked: bool,
) -> Option<String> {
    let part = |kind: &str| report.content.iter().find(|part| part.kind.0 == Some(kind));
    if let Some(changed) = part("diff") {
        let path: String = changed.path.0.unwrap_or("a file").chars().take(MAX_PATH_CHARS).collect();
        return Some(format!("it shows a change of {path}"));
    }
    if ran || has_output(update) || part("terminal").is_some() {
        return Some("it shows the output of a command".to_owned());
    }
    (!maybe_asked).then(|| "it was reported as completed, and no request was for it".to_owned())
}

/// Returns whether an update contains output or the exit code of a command.
pub(super) fn has_output(update: &Value) -> bool {
    EXIT_CODES.iter().any(|place| update["rawOutput"].pointer(place).is_some_and(Value::is_number))
        || ["terminal_output", "terminal_output_delta", "terminal_exit"]
            .iter()
            .any(|name| !update["_meta"][*name].is_null())
}
