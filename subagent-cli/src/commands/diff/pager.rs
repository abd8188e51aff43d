//! Shows text through the person's pager, chosen as git does.

use std::io::{self, Write as _};
use std::process::{Command, Stdio};

use crate::output;

/// What is used without a choice: quits if all fits on a screen, takes colours, leaves the text on the screen.
const USUAL: &str = "less -FRX";
/// The shell could not run the program.
const NOT_RUN: [i32; 2] = [126, 127];

/// Shows the text, without a pager where none can be run.
///
/// # Errors
/// When stdout cannot be written.
pub(super) fn page(text: &str) -> io::Result<()> {
    let set = ["GIT_PAGER", "PAGER"].into_iter().find_map(std::env::var_os);
    let pager = set.unwrap_or_else(|| USUAL.into());
    if pager.is_empty() || pager == "cat" {
        return output::print(text);
    }
    let child = Command::new("/bin/sh").arg("-c").arg(&pager).stdin(Stdio::piped()).spawn();
    let Ok(mut child) = child else { return output::print(text) };
    if let Some(mut stdin) = child.stdin.take() {
        // A pager that is left early closes its end.
        let _ = stdin.write_all(text.as_bytes());
    }
    match child.wait()?.code() {
        Some(code) if NOT_RUN.contains(&code) => output::print(text),
        _ => Ok(()),
    }
}
