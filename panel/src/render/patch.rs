//! Patches as lines that say what they are.

use std::time::Duration;

use serde::Serialize;
use similar::TextDiff;
use subagent_protocol::clean::one_line;

use super::head;

/// The longest that two texts are compared.
const DIFF_TIME: Duration = Duration::from_millis(200);
/// Bytes of a text that are compared, and of a patch that are shown.
const MAX_BYTES: usize = 256 * 1024;
/// The longest line that is shown whole.
const MAX_LINE_BYTES: usize = 2000;

/// A line of a patch.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct PatchLine {
    /// `+`, `-`, a blank, `@` for the head of a hunk.
    #[serde(rename = "k")]
    kind: char,
    #[serde(rename = "v")]
    text: String,
}

/// A patch, and how many bytes at its end are left out.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Patch {
    lines: Vec<PatchLine>,
    left_out: usize,
}

/// The lines of the hunks of a unified diff; what stands before the first hunk is left out.
pub(crate) fn lines(patch: &str) -> Patch {
    let (shown, left_out) = head(patch, MAX_BYTES);
    let mut in_hunk = false;
    let mut lines = Vec::new();
    for line in shown.lines() {
        in_hunk = line.starts_with("@@") || (in_hunk && !line.starts_with("diff --git "));
        let kind = match line.chars().next() {
            _ if !in_hunk => continue,
            Some(kind @ ('+' | '-' | '@')) => kind,
            _ => ' ',
        };
        let text = if kind == '@' { line } else { line.get(1..).unwrap_or_default() };
        lines.push(PatchLine { kind, text: visible(text) });
    }
    Patch { lines, left_out }
}

/// What an edit changes.
pub(crate) fn of_edit(old: &str, new: &str) -> Patch {
    let ((old, old_rest), (new, new_rest)) = (head(old, MAX_BYTES), head(new, MAX_BYTES));
    let diff = TextDiff::configure().timeout(DIFF_TIME).diff_lines(old, new);
    let mut patch = lines(&diff.unified_diff().context_radius(3).to_string());
    patch.left_out += old_rest.max(new_rest);
    patch
}

/// The text with its blanks at the beginning, without what acts or hides.
fn visible(text: &str) -> String {
    let (text, left_out) = head(text, MAX_LINE_BYTES);
    let indent = text.len() - text.trim_start_matches([' ', '\t']).len();
    let mut line = text[..indent].to_owned();
    line.push_str(&one_line(&text[indent..]));
    if left_out > 0 {
        line.push('…');
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(patch: &Patch) -> Vec<String> {
        patch.lines.iter().map(|line| format!("{}|{}", line.kind, line.text)).collect()
    }

    #[test]
    fn lines_say_what_they_are() {
        let patch =
            lines("diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n a\n--- b\n+\tc\n\\ No newline\n");
        assert_eq!(shown(&patch), ["@|@@ -1,2 +1,2 @@", " |a", "-|-- b", "+|\tc", " | No newline"]);
        let edit = of_edit("one\ntwo\n", "one\n2\n");
        assert_eq!(shown(&edit)[1..], [" |one", "-|two", "+|2"]);
    }

    #[test]
    fn a_line_can_neither_act_nor_be_endless() {
        let patch = lines(&format!("@@ @@\n+\u{1b}[2Ja\u{202e}b\n+{}\n", "x".repeat(9999)));
        assert_eq!(shown(&patch)[1], "+|ab");
        assert!(patch.lines[2].text.len() < MAX_LINE_BYTES + 4);
        assert!(lines(&"@@ @@\n".repeat(MAX_BYTES)).left_out > 0);
    }
}
