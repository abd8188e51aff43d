//! Changes as an agent has reported them, where git cannot say: the diffs of its tool calls.
//!
//! An agent may report a whole file or only the lines that it replaces, so a patch has no line numbers of the file.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use similar::{ChangeTag, TextDiff};
use subagent_protocol::api::FileChange;
use subagent_protocol::event::SeenEvent;
use subagent_protocol::lenient::{self, Lenient};
use subagent_protocol::tool_content::ToolContent;

use super::Changes;

/// The time limit for the diff of one replaced piece; a longer one is made coarser.
const DIFF_TIME: Duration = Duration::from_millis(500);

/// A replaced piece of a file; `None`: there was no file.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ReplacedText {
    old: Option<String>,
    new: String,
}

/// Returns the changes in the tool calls of these events, which are in the order of their ids.
#[must_use]
pub fn reported(events: &[Value], cwd: &Path) -> Changes {
    let mut files: BTreeMap<String, Vec<ReplacedText>> = BTreeMap::new();
    for (path, piece) in pieces(events) {
        let path = Path::new(&path).strip_prefix(cwd).map_or(path.clone(), |path| path.display().to_string());
        let known = files.entry(path).or_default();
        match known.last_mut() {
            // The next state of the same text.
            Some(last) if piece.old.as_ref() == Some(&last.new) => last.new = piece.new,
            Some(last) if *last == piece => {}
            _ => known.push(piece),
        }
    }
    files.into_iter().filter_map(|(path, pieces)| change(path, &pieces)).collect()
}

/// The diffs of calls that have not failed, in the order in which the calls began.
fn pieces(events: &[Value]) -> Vec<(String, ReplacedText)> {
    let mut calls: Vec<(Vec<(String, ReplacedText)>, bool)> = Vec::new();
    let mut numbers: HashMap<(&str, &str), usize> = HashMap::new();
    for event in events {
        let event: SeenEvent<'_, ReportedEdit<'_>> = SeenEvent::of(event);
        let ReportedEdit { tool_call_id, status, content } = event.data;
        // An agent may count its calls anew in each turn.
        let call = (event.turn_id.unwrap_or_default(), tool_call_id.0.unwrap_or_default());
        let number = *numbers.entry(call).or_insert(calls.len());
        if number == calls.len() {
            calls.push((Vec::new(), false));
        }
        let Some((diffs, failed)) = calls.get_mut(number) else { continue };
        if let Some(status) = status.0 {
            *failed = status == "failed";
        }
        let reported: Vec<_> = content.into_iter().filter_map(diff).collect();
        if !reported.is_empty() {
            *diffs = reported;
        }
    }
    calls.into_iter().filter(|(_, failed)| !failed).flat_map(|(diffs, _)| diffs).collect()
}

/// An update of a tool call.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ReportedEdit<'a> {
    #[serde(borrow)]
    tool_call_id: Lenient<&'a str>,
    status: Lenient<&'a str>,
    #[serde(deserialize_with = "lenient::objects")]
    content: Vec<ToolContent<'a>>,
}

fn diff(part: ToolContent<'_>) -> Option<(String, ReplacedText)> {
    let path = part.path.0.filter(|_| part.kind.0 == Some("diff"))?;
    let new = part.new_text.0.unwrap_or_default().to_owned();
    Some((path.to_owned(), ReplacedText { old: part.old_text.0.map(str::to_owned), new }))
}

fn change(path: String, pieces: &[ReplacedText]) -> Option<FileChange> {
    let (first, last) = (pieces.first()?, pieces.last()?);
    let status = match (&first.old, last.new.is_empty()) {
        (None, false) => "added",
        (None, true) => return None,
        (Some(_), true) => "deleted",
        (Some(_), false) => "modified",
    };
    let (mut added, mut deleted, mut hunks) = (0, 0, String::new());
    for piece in pieces {
        let old = piece.old.as_deref().unwrap_or_default();
        let diff = TextDiff::configure().timeout(DIFF_TIME).diff_lines(old, piece.new.as_str());
        for change in diff.iter_all_changes() {
            match change.tag() {
                ChangeTag::Insert => added += 1,
                ChangeTag::Delete => deleted += 1,
                ChangeTag::Equal => {}
            }
        }
        hunks.push_str(&diff.unified_diff().context_radius(3).to_string());
    }
    if hunks.is_empty() {
        return None;
    }
    // A line end in the name would begin another line of the patch.
    let name = path.replace(char::is_control, "?");
    let (before, after) = match status {
        "added" => ("/dev/null".to_owned(), format!("b/{name}")),
        "deleted" => (format!("a/{name}"), "/dev/null".to_owned()),
        _ => (format!("a/{name}"), format!("b/{name}")),
    };
    let patch = format!("diff --git a/{name} b/{name}\n--- {before}\n+++ {after}\n{hunks}");
    let status = status.to_owned();
    Some(FileChange { path, old_path: None, status, added: Some(added), deleted: Some(deleted), patch })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn call(id: &str, status: &str, path: &str, old: Value, new: &str) -> Value {
        let diff = json!({"type": "diff", "path": path, "oldText": old, "newText": new});
        json!({"turnId": "t", "data": {"toolCallId": id, "status": status, "content": [diff]}})
    }

    fn seen(events: &[Value]) -> Vec<String> {
        reported(events, Path::new("/ws"))
            .iter()
            .map(|one| format!("{} {} {:?} {:?}", one.status, one.path, one.added, one.deleted))
            .collect()
    }

    #[test]
    fn the_last_content_of_each_file_counts() {
        let events = [
            call("1", "in_progress", "/ws/a", Value::Null, "1\n"),
            call("1", "completed", "/ws/a", Value::Null, "1\n"),
            call("2", "completed", "/ws/a", json!("1\n"), "1\n2\n"),
            call("3", "completed", "/else/b", json!("x\n"), ""),
            call("4", "in_progress", "/ws/c", Value::Null, "no\n"),
            json!({"turnId": "t", "data": {"toolCallId": "4", "status": "failed"}}),
            call("5", "completed", "/ws/d", json!("y\n"), "y\n"),
            call("6", "completed", "/ws/e", json!("one\n"), "1\n"),
            call("7", "completed", "/ws/e", json!("two\n"), "2\n"),
        ];
        let expected =
            ["deleted /else/b Some(0) Some(1)", "added a Some(2) Some(0)", "modified e Some(2) Some(2)"];
        assert_eq!(seen(&events), expected);
        let patch = &reported(&events[..3], Path::new("/ws"))[0].patch;
        assert_eq!(patch, "diff --git a/a b/a\n--- /dev/null\n+++ b/a\n@@ -0,0 +1,2 @@\n+1\n+2\n");
    }

    #[test]
    fn what_makes_no_sense_is_left_out() {
        let odd =
            json!({"data": {"content": [{"type": "diff"}, {"type": "diff", "path": 7}, 1], "status": []}});
        assert_eq!(seen(&[odd, json!(null), json!({"data": {"content": "x"}})]), [""; 0]);
        let evil = [call("1", "completed", "/ws/a\n+++ b", json!("1\n"), "2\n")];
        assert!(reported(&evil, Path::new("/ws"))[0].patch.starts_with("diff --git a/a?+++ b b/a?+++ b\n"));
    }
}
