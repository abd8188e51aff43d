//! What shows that a call was made, of one that its agent reports as completed. Pure.
//!
//! Some agents ask under another id than the call's, and report a denied call as completed with a sentence that says so.

use serde_json::Value;

/// More of a path is not told.
const MAX_PATH_CHARS: usize = 200;
/// Where agents put the exit code of a command, in what came of it.
const EXIT_CODES: [&str; 4] = ["/exit_code", "/exitCode", "/exit", "/metadata/exit"];

/// What the update that ends the call shows. Where it may have been asked for under another id, that it is completed shows
/// nothing, and nor does a sentence.
pub(super) fn of(update: &Value, maybe_asked: bool) -> Option<String> {
    let parts = || update["content"].as_array().into_iter().flatten();
    if let Some(changed) = parts().find(|part| part["type"] == "diff") {
        let path: String =
            changed["path"].as_str().unwrap_or("a file").chars().take(MAX_PATH_CHARS).collect();
        return Some(format!("it shows a change of {path}"));
    }
    let ran = EXIT_CODES.iter().any(|place| update["rawOutput"].pointer(place).is_some_and(Value::is_number))
        || parts().any(|part| part["type"] == "terminal")
        || ["terminal_output", "terminal_output_delta", "terminal_exit"]
            .iter()
            .any(|name| !update["_meta"][*name].is_null());
    if ran {
        return Some("it shows the output of a command".to_owned());
    }
    (!maybe_asked).then(|| "it was reported as completed, and no request was for it".to_owned())
}
