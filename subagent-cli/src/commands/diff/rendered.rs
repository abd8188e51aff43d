//! Changes as text: patches, numbers of lines, or names. Pure.

use subagent_protocol::api::FileChange;
use subagent_protocol::clean::one_line;
use subagent_runtime::work_tree::{Changes, total};
use unicode_width::UnicodeWidthStr as _;

use crate::output::page::{TextPage, shorten};
use crate::output::style::Style;
use crate::output::terminal::OutputTerminal;

/// The width where there is no terminal, as git's.
const USUAL_WIDTH: usize = 80;
/// The maximum width of a graph, in columns.
const MAX_GRAPH: usize = 60;

/// What is shown of each file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DiffFormat {
    Patch,
    Stat,
    Names,
}

/// The text for a terminal, or for a pipe, which gets patches as they are.
pub(super) fn text(changes: &Changes, form: DiffFormat, terminal: Option<OutputTerminal>) -> String {
    let mut page = TextPage::new(terminal.is_some_and(|terminal| terminal.colour));
    match form {
        DiffFormat::Patch if terminal.is_none() => {
            return changes.iter().map(|change| change.patch.as_str()).collect();
        }
        DiffFormat::Patch => changes.iter().for_each(|change| patch(&mut page, &change.patch)),
        DiffFormat::Stat => stat(&mut page, changes, terminal.map_or(USUAL_WIDTH, |terminal| terminal.width)),
        DiffFormat::Names => {
            for change in changes {
                page.word(Style::Plain, &change.path).end();
            }
        }
    }
    page.take()
}

fn patch(page: &mut TextPage, patch: &str) {
    let mut in_hunk = false;
    for line in patch.lines() {
        in_hunk = line.starts_with("@@") || (in_hunk && !line.starts_with("diff --git "));
        let style = match line.as_bytes().first() {
            _ if !in_hunk => Style::Strong,
            Some(b'@') => Style::Active,
            Some(b'+') => Style::Good,
            Some(b'-') => Style::Bad,
            _ => Style::Plain,
        };
        page.text(style, line).end();
    }
}

fn stat(page: &mut TextPage, changes: &Changes, width: usize) {
    let name = |change: &FileChange| match &change.old_path {
        Some(old) => one_line(&format!("{old} => {}", change.path)),
        None => one_line(&change.path),
    };
    let count = |change: &FileChange| change.added.unwrap_or(0) + change.deleted.unwrap_or(0);
    let most = changes.iter().map(count).max().unwrap_or(0);
    let digits = most.to_string().len().max(3);
    // " NAME | COUNT GRAPH"; the graph has a third of the line at least.
    let left = width.saturating_sub(digits + 5);
    let longest = changes.iter().map(|change| name(change).width()).max().unwrap_or(0);
    let names = longest.min(left - left / 3);
    let graph = u64::try_from((left - names).min(MAX_GRAPH)).unwrap_or(0);
    let scaled = |lines: u64| match most <= graph {
        true => lines,
        // What has changed is seen to have.
        false => (lines * graph / most).max(u64::from(lines > 0)),
    };
    for change in changes {
        let shown = shorten(&name(change), names);
        page.plain(" ").word(Style::Plain, &shown).fill(&shown, names).plain(" | ");
        let (Some(added), Some(deleted)) = (change.added, change.deleted) else {
            page.plain(&format!("{:>digits$}", "Bin")).end();
            continue;
        };
        page.plain(&format!("{:>digits$}", added + deleted));
        let bar = |sign: &str, lines| sign.repeat(usize::try_from(scaled(lines)).unwrap_or(0));
        if added + deleted > 0 {
            page.plain(" ").text(Style::Good, &bar("+", added)).text(Style::Bad, &bar("-", deleted));
        }
        page.end();
    }
    let (added, deleted) = total(changes);
    let files = if changes.len() == 1 { "file" } else { "files" };
    page.plain(&format!(" {} {files} changed, +{added} -{deleted}", changes.len())).end();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(path: &str, added: Option<u64>, deleted: Option<u64>) -> FileChange {
        let patch = format!("diff --git a/{path} b/{path}\n--- a/{path}\n@@ -1 +1 @@\n-\u{1b}[2Jx\n+y\n");
        FileChange { path: path.into(), old_path: None, status: "modified".into(), added, deleted, patch }
    }

    fn at(columns: usize, colour: bool) -> Option<OutputTerminal> {
        Some(OutputTerminal { width: columns, colour })
    }

    #[test]
    fn no_line_of_a_stat_is_wider_than_the_terminal() {
        let mut renamed = change("new", Some(1), Some(0));
        renamed.old_path = Some("old\u{1b}[2J".into());
        let changes =
            vec![change(&"long/".repeat(60), Some(900), Some(100)), change("bin", None, None), renamed];
        for width in [20, 80, 200] {
            let text = text(&changes, DiffFormat::Stat, at(width, false));
            assert!(text.lines().all(|line| line.width() <= width.max(30)), "{width}:\n{text}");
            assert!(!text.contains('\u{1b}') && (width < 80 || text.contains("old => new")), "{text}");
            assert!(text.ends_with(" 3 files changed, +901 -100\n"), "{text}");
        }
    }

    #[test]
    fn a_terminal_gets_cleaned_patches_and_a_pipe_the_patch() {
        let changes = vec![change("a", Some(1), Some(1))];
        assert_eq!(text(&changes, DiffFormat::Patch, None), changes[0].patch);
        let plain = text(&changes, DiffFormat::Patch, at(80, false));
        assert_eq!(plain, "diff --git a/a b/a\n--- a/a\n@@ -1 +1 @@\n-x\n+y\n");
        let colour = text(&changes, DiffFormat::Patch, at(80, true));
        assert!(colour.contains("\u{1b}[32m+y\u{1b}[0m\n") && !colour.contains("[2J"), "{colour:?}");
        assert_eq!(text(&changes, DiffFormat::Names, None), "a\n");
    }
}
