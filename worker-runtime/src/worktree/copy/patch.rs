//! The changed files of a copy as patches in the format of `git apply`. Needs no git.

use std::io::Read as _;
use std::path::Path;
use std::time::Duration;

use similar::{ChangeTag, TextDiff};
use subagent_protocol::Error;
use subagent_protocol::api::FileChange;
use subagent_protocol::worktree::Worktree;

use super::super::{errors, status};
use super::merge::{is_of_git, left_out};
use super::tree::{self, At, Found};
use super::{changes, manifest, text};

/// A larger file counts as binary.
const MAX_TEXT: u64 = 16 * 1024 * 1024;
/// The time limit for the diff of one file; a longer one is made coarser.
const DIFF_TIME: Duration = Duration::from_secs(2);
const LINK: &str = "120000";

/// One side of a change. The content of a link is its target.
#[derive(Debug, PartialEq, Eq)]
struct PatchSide {
    mode: &'static str,
    content: Vec<u8>,
    is_whole: bool,
}

impl PatchSide {
    /// Returns its lines, if it is text. A carriage return alone is a line end for the diff, but not
    /// for git.
    fn text(&self) -> Option<&str> {
        let text = std::str::from_utf8(&self.content).ok()?;
        let has_single = text.replace("\r\n", "\n").contains(['\r', '\0']);
        (self.is_whole && !has_single).then_some(text)
    }
}

/// Returns the files that the copy has changed, compared with the original as it is now. Files that
/// no merge takes are left out.
///
/// # Errors
///
/// `WORKTREE_NOT_FOUND`, or `GIT_FAILED` for files that cannot be read.
pub(in super::super) fn changed_files(worktree: &Worktree) -> Result<Vec<FileChange>, Error> {
    if !worktree.path.is_dir() {
        return Err(errors::not_found(&worktree.path, "the folder of the copy is gone"));
    }
    let incomplete = || errors::not_found(&worktree.path, "the copy is incomplete");
    let base = manifest::read(worktree)?.ok_or_else(incomplete)?;
    let present = manifest::files(&worktree.path, &[])?;
    let left_out = left_out(worktree);
    let is_left_out =
        |path: &Path| left_out.iter().any(|folder| worktree.main.join(path).starts_with(folder));
    let mut found = Vec::new();
    for change in changes(&base, &present) {
        let path = status::path(change.name);
        if is_of_git(path) || is_left_out(path) {
            continue;
        }
        let (before, after) = (side(&worktree.main, path)?, side(&worktree.path, path)?);
        found.extend(compared(change.name, before.as_ref(), after.as_ref()));
    }
    Ok(found)
}

/// Reads a file or link, without following links.
fn side(top: &Path, path: &Path) -> Result<Option<PatchSide>, Error> {
    let failed = |error: std::io::Error| errors::file(&top.join(path), &error);
    Ok(match tree::at(top, path).map_err(failed)? {
        At::Nothing | At::Blocked | At::Here(Found::Folder(_)) => None,
        At::Here(Found::Link(target)) => Some(PatchSide { mode: LINK, content: target, is_whole: true }),
        At::Here(Found::File(file, stat)) => {
            let mut content = Vec::new();
            file.take(MAX_TEXT + 1).read_to_end(&mut content).map_err(failed)?;
            let mode = if stat.st_mode & 0o100 == 0 { "100644" } else { "100755" };
            let is_whole = content.len() as u64 <= MAX_TEXT;
            Some(PatchSide { mode, content, is_whole })
        }
    })
}

fn compared(name: &[u8], before: Option<&PatchSide>, after: Option<&PatchSide>) -> Option<FileChange> {
    // Of two files above the limit only the beginnings are known.
    let is_same = before == after && before.is_none_or(|side| side.is_whole);
    if is_same {
        return None;
    }
    let is_link = |side: &PatchSide| side.mode == LINK;
    let status = match (before, after) {
        (None, _) => "added",
        (_, None) => "deleted",
        (Some(before), Some(after)) if is_link(before) != is_link(after) => {
            // Git describes it as a deletion and an addition.
            let (deleted, added) = (compared(name, Some(before), None)?, compared(name, None, Some(after))?);
            return Some(FileChange {
                status: "retyped".to_owned(),
                deleted: deleted.deleted,
                patch: deleted.patch + &added.patch,
                ..added
            });
        }
        _ => "modified",
    };
    let (old, new) = (quoted("a/", name), quoted("b/", name));
    let mut patch = format!("diff --git {old} {new}\n");
    match (before, after) {
        (None, Some(after)) => patch += &format!("new file mode {}\n", after.mode),
        (Some(before), None) => patch += &format!("deleted file mode {}\n", before.mode),
        (Some(before), Some(after)) if before.mode != after.mode => {
            patch += &format!("old mode {}\nnew mode {}\n", before.mode, after.mode);
        }
        _ => {}
    }
    let lines =
        |side: Option<&PatchSide>| side.map_or(Some(String::new()), |side| side.text().map(str::to_owned));
    let counts = match (lines(before), lines(after)) {
        (Some(before_text), Some(after_text)) => {
            let diff = TextDiff::configure().timeout(DIFF_TIME).diff_lines(&before_text, &after_text);
            let count = |tag| diff.iter_all_changes().filter(|change| change.tag() == tag).count() as u64;
            if before_text != after_text {
                let name = |side: Option<&PatchSide>, name: &str| match side {
                    Some(_) if name.contains(' ') => format!("{name}\t"),
                    Some(_) => name.to_owned(),
                    None => "/dev/null".to_owned(),
                };
                patch += &format!("--- {}\n+++ {}\n", name(before, &old), name(after, &new));
                patch += &diff.unified_diff().context_radius(3).to_string();
            }
            Some((count(ChangeTag::Insert), count(ChangeTag::Delete)))
        }
        _ => {
            patch += &format!("Binary files {old} and {new} differ\n");
            None
        }
    };
    let (path, status) = (text(name), status.to_owned());
    let (added, deleted) = (counts.map(|counts| counts.0), counts.map(|counts| counts.1));
    Some(FileChange { path, old_path: None, status, added, deleted, patch })
}

/// Quotes a name as git does.
fn quoted(prefix: &str, name: &[u8]) -> String {
    let name = [prefix.as_bytes(), name].concat();
    let is_plain = |byte: &u8| !byte.is_ascii_control() && !b"\"\\".contains(byte);
    match String::from_utf8(name) {
        Ok(name) if name.as_bytes().iter().all(is_plain) => name,
        name => {
            let name = name.map_or_else(std::string::FromUtf8Error::into_bytes, String::into_bytes);
            let quoted = |byte: u8| match byte {
                b'"' | b'\\' => format!("\\{}", char::from(byte)),
                b' '..=b'~' => char::from(byte).to_string(),
                _ => format!("\\{byte:03o}"),
            };
            format!("\"{}\"", name.into_iter().map(quoted).collect::<String>())
        }
    }
}
