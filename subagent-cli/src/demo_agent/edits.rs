//! `!edit`: changes a file and reports a tool call of kind `edit` with a diff, like real agents.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::json;
use subagent_protocol::json::extend;

use super::turn::{DemoTurn, EarlyEnd};
use super::updates;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Edit {
    /// Writes the whole file and creates its parent folders.
    Create { path: PathBuf, text: String },
    /// Replaces one line, counted from 1.
    Replace { path: PathBuf, line: usize, text: String },
    /// Deletes the file from disk.
    Delete { path: PathBuf },
}

/// The syntax of `!edit`.
const USAGE: &str = "create PATH [TEXT], replace PATH LINE [TEXT] or delete PATH";

impl Edit {
    /// Parses the words after `!edit`. `\n` in a text is a line end.
    pub(super) fn parse(rest: &str) -> Result<Self, String> {
        let (verb, rest) = rest.split_once(' ').unwrap_or((rest, ""));
        let (path, rest) = rest.split_once(' ').unwrap_or((rest, ""));
        let text = |text: &str| text.replace("\\n", "\n");
        let usage = || format!("!edit needs {USAGE}");
        if path.is_empty() {
            return Err(usage());
        }
        let path = PathBuf::from(path);
        match verb {
            "create" => Ok(Self::Create { path, text: text(rest) + "\n" }),
            "replace" => {
                let (line, rest) = rest.split_once(' ').unwrap_or((rest, ""));
                let line = line.parse().ok().filter(|line| *line > 0).ok_or_else(usage)?;
                Ok(Self::Replace { path, line, text: text(rest) })
            }
            "delete" => Ok(Self::Delete { path }),
            _ => Err(usage()),
        }
    }

    fn path(&self) -> &Path {
        match self {
            Self::Create { path, .. } | Self::Replace { path, .. } | Self::Delete { path } => path,
        }
    }

    const fn title(&self) -> &'static str {
        match self {
            Self::Create { .. } => "Write",
            Self::Replace { .. } => "Edit",
            Self::Delete { .. } => "Delete",
        }
    }

    /// Returns the new content of a file; `None` means no file.
    fn apply(&self, old: Option<&str>) -> Result<Option<String>, String> {
        match (self, old) {
            (Self::Create { text, .. }, _) => Ok(Some(text.clone())),
            (_, None) => Err("no such file".to_owned()),
            (Self::Delete { .. }, Some(_)) => Ok(None),
            (Self::Replace { line, text, .. }, Some(old)) => {
                let mut lines: Vec<&str> = old.split_inclusive('\n').collect();
                let count = lines.len();
                let found = lines.get_mut(line - 1).ok_or_else(|| format!("it has {count} lines"))?;
                let text = format!("{text}{}", if found.ends_with('\n') { "\n" } else { "" });
                *found = &text;
                Ok(Some(lines.concat()))
            }
        }
    }
}

impl DemoTurn<'_> {
    pub(super) fn edit(&mut self, edit: &Edit) -> Result<Option<String>, EarlyEnd> {
        let named = edit.path().display().to_string();
        let failed = |problem: String| Ok(Some(format!("!edit: {named}: {problem}")));
        // Agents report absolute paths.
        let path = match std::env::current_dir() {
            Ok(folder) => folder.join(edit.path()),
            Err(error) => return failed(error.to_string()),
        };
        let old = match read(&path) {
            Ok(old) => old,
            Err(error) => return failed(error.to_string()),
        };
        let new = match edit.apply(old.as_deref()) {
            Ok(new) => new,
            Err(problem) => return failed(problem),
        };
        let shown = path.to_string_lossy();
        let diff = json!({
            "type": "diff", "path": shown, "oldText": old, "newText": new.as_deref().unwrap_or_default(),
        });
        let id = self.agent.tool_id();
        let mut call = updates::tool_call(&id, "edit", &format!("{} {named}", edit.title()), "in_progress");
        extend(&mut call, [("content", json!([diff])), ("locations", json!([{"path": shown}]))]);
        self.record(call)?;
        let written = match &new {
            Some(text) => write(&path, text),
            None => fs::remove_file(&path),
        };
        let status = if written.is_ok() { "completed" } else { "failed" };
        self.record(json!({
            "sessionUpdate": "tool_call_update", "toolCallId": id, "status": status, "content": [diff],
        }))?;
        written.map_or_else(|error| failed(error.to_string()), |()| Ok(None))
    }
}

fn read(path: &Path) -> io::Result<Option<String>> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn write(path: &Path, text: &str) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(path, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn applied(words: &str, old: Option<&str>) -> Result<Option<String>, String> {
        Edit::parse(words).unwrap().apply(old)
    }

    #[test]
    fn a_file_is_created_changed_and_deleted() {
        assert_eq!(applied("create a.txt one\\ntwo", None).unwrap().as_deref(), Some("one\ntwo\n"));
        assert_eq!(applied("create a.txt", Some("old")).unwrap().as_deref(), Some("\n"));
        assert_eq!(applied("replace a 2 new  x", Some("1\n2\n3")).unwrap().as_deref(), Some("1\nnew  x\n3"));
        assert_eq!(applied("replace a 2 x", Some("1\n2")).unwrap().as_deref(), Some("1\nx"));
        assert_eq!(applied("delete a", Some("1")).unwrap(), None);
    }

    #[test]
    fn what_cannot_be_done_says_why() {
        assert_eq!(applied("replace a 3 x", Some("1\n2\n")).unwrap_err(), "it has 2 lines");
        assert_eq!(applied("delete a", None).unwrap_err(), "no such file");
        for wrong in ["", "create", "move a b", "replace a", "replace a 0 x", "replace a x y"] {
            assert_eq!(Edit::parse(wrong).unwrap_err(), format!("!edit needs {USAGE}"), "{wrong}");
        }
    }
}
