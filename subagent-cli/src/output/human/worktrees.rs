//! Worktrees: where they are, what is in them, where they have landed.

use std::path::Path;

use subagent_protocol::api::{
    WorktreeEnd, WorktreeLanded, WorktreeRemoved, WorktreeState, WorktreeView, WorktreesPruned,
};
use subagent_protocol::worktree::Contents;

use super::removal::counted;
use super::view::{PageRenderer, optional};
use crate::output::style::Style;
use crate::output::table::Table;

/// Shows the data of `worktree list`.
pub(super) fn listed(view: &mut PageRenderer, worktrees: &[WorktreeView]) {
    if worktrees.is_empty() {
        view.page.plain("No worktrees.").end();
        view.next("Start a worker in one:", "subagent run -d --worktree AGENT 'WHAT TO DO'");
        return;
    }
    let mut table = Table::new(&["NAME", "STATE", "CHANGES", "BRANCH", "CREATED", "PATH"]);
    for worktree in worktrees {
        table.row([
            (Style::Strong, worktree.name.as_str()),
            (style(worktree.state), worktree.state.as_str()),
            (Style::Plain, &changes(worktree.contents.as_ref())),
            (Style::Plain, &worktree.branch),
            (Style::Dim, &view.ago(worktree.created_at)),
            (Style::Dim, &path(&worktree.path)),
        ]);
    }
    view.put(&table);
}

/// A path of a response is UTF-8.
pub(super) fn path(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// `worktree show` and `worktree setup`.
pub(super) fn shown(view: &mut PageRenderer, worktree: &WorktreeView) {
    let WorktreeView { name, state, contents, .. } = worktree;
    view.page.word(Style::Strong, name).plain("  ");
    view.page.word(style(*state), state.as_str()).end();
    let contents = contents.as_ref();
    let count = |number: fn(&Contents) -> u64, thing: &str, what: &str| {
        let number = contents.map(number).filter(|number| *number > 0);
        number.map(|number| format!("{} {what}", counted(number, thing)))
    };
    let work = [
        count(|contents| contents.uncommitted, "file", "not committed"),
        count(|contents| contents.commits, "commit", "of its own"),
    ];
    let work: Vec<String> = work.into_iter().flatten().collect();
    let works_in = worktree.placed.as_ref();
    let works_in = works_in.map(|placed| format!("{} on {}", path(&placed.path), placed.placement));
    let base = if worktree.with_changes { "your changes at its start" } else { "" };
    view.facts(&[
        ("path", Style::Plain, path(&worktree.path)),
        ("mirror of", Style::Plain, optional(works_in.as_ref())),
        ("branch", Style::Plain, worktree.branch.clone()),
        ("lands on", Style::Plain, optional(worktree.source_branch.as_ref())),
        ("includes", Style::Plain, base.to_owned()),
        ("changes", Style::Plain, changes(contents)),
        ("work", Style::Attention, work.join(", ")),
        (
            "ignored",
            Style::Attention,
            optional(count(|contents| contents.ignored, "file", "newer than its setup")),
        ),
        ("under way", Style::Attention, optional(contents.and_then(|contents| contents.under_way.as_ref()))),
        ("worker", Style::Plain, worktree.worker_id.to_string()),
        ("created", Style::Dim, view.ago(worktree.created_at)),
    ]);
    if contents.is_some_and(|contents| contents.exists && contents.files > 0) {
        view.next("Next:", &format!("subagent land {name}"));
    }
}

/// Shows the data of `land` for one worktree.
pub(super) fn landed(view: &mut PageRenderer, worktree: &WorktreeLanded) {
    one_landed(view, worktree);
    if worktree.landed.worktree_removed {
        view.page.word(Style::Dim, "its worktree is removed");
        if let Some(retired) = &worktree.landed.retired {
            view.page.word(Style::Dim, "; its commits are kept as ").word(Style::Dim, retired);
        }
        view.page.end();
    }
}

/// Shows the data of `land` for several worktrees.
pub(super) fn one_landed(view: &mut PageRenderer, worktree: &WorktreeLanded) {
    let landed = &worktree.landed;
    view.page.word(Style::Strong, &worktree.name);
    if landed_nothing(landed.commit == landed.before, landed.files.len()) {
        view.page.plain("  has nothing to land on ").word(Style::Strong, &landed.into).end();
        return;
    }
    let short: String = landed.commit.chars().take(SHORT_COMMIT).collect();
    view.page.plain("  landed on ").word(Style::Strong, &landed.into).plain("  ").word(Style::Dim, &short);
    let numbers = lines(landed.files.len() as u64, landed.added, landed.removed);
    view.page.plain(&format!("  {numbers}")).end();
}

/// Whether a landing had nothing to land. One of a copy without git has no commits.
pub(super) const fn landed_nothing(is_same_commit: bool, files: usize) -> bool {
    is_same_commit && files == 0
}

/// Characters of a commit's id that are shown.
const SHORT_COMMIT: usize = 10;

/// `worktree remove` and `worktree discard`.
pub(super) fn removed(view: &mut PageRenderer, worktree: &WorktreeRemoved) {
    view.page.word(Style::Strong, &worktree.name).plain("  removed").end();
    let retired = worktree.retired.as_ref();
    // One on another machine begins with its placement.
    let here = retired.filter(|retired| !retired.contains(':'));
    view.facts(&[
        ("kept as", Style::Plain, optional(retired)),
        ("look", Style::Dim, optional(here.map(|retired| format!("git diff {retired}^ {retired}")))),
    ]);
}

/// Shows the data of `worktree prune`.
pub(super) fn pruned(view: &mut PageRenderer, pruned: &WorktreesPruned) {
    for one in &pruned.removed {
        view.page.word(Style::Strong, &one.name).plain("  removed").end();
    }
    for name in pruned.deleted_refs.iter().chain(&pruned.deleted_copies) {
        view.page.word(Style::Strong, name).plain("  deleted").end();
    }
    for WorktreeView { name, contents, .. } in &pruned.kept {
        view.page.word(Style::Strong, name).plain("  ").word(Style::Attention, "kept");
        view.page.plain("  ").word(Style::Plain, &changes(contents.as_ref())).end();
        view.next("  Land it:", &format!("subagent land {name}"));
    }
    if pruned.removed.is_empty() && pruned.deleted_refs.is_empty() && pruned.deleted_copies.is_empty() {
        view.page.plain("Nothing to remove.").end();
    }
}

/// What has become of the worktree of a worker that was stopped.
pub(super) fn end(view: &mut PageRenderer, end: &WorktreeEnd) {
    match end {
        WorktreeEnd::Removed { .. } => {
            view.page.word(Style::Dim, "its worktree had nothing in it and is removed").end();
        }
        WorktreeEnd::Kept(worktree) => {
            view.facts(&[
                ("worktree", Style::Plain, path(&worktree.path)),
                ("branch", Style::Plain, worktree.branch.clone()),
                ("changes", Style::Plain, changes(worktree.contents.as_ref())),
            ]);
            view.next("Next:", &format!("subagent land {}", worktree.name));
        }
        WorktreeEnd::Unknown { name, error } => {
            let problem = format!("its worktree {name} cannot be looked at: {}", error.message);
            view.page.rest(Style::Attention, &problem).end();
        }
    }
}

/// Files and lines, in the form of `git diff --stat`.
fn changes(contents: Option<&Contents>) -> String {
    match contents {
        None => String::new(),
        Some(contents) if !contents.exists => "its folder is gone".to_owned(),
        Some(Contents { files: 0, .. }) => "none".to_owned(),
        Some(contents) => lines(contents.files, contents.added, contents.removed),
    }
}

/// Changed files and lines.
pub(super) fn lines(files: u64, added: u64, removed: u64) -> String {
    format!("{files} file{} +{added} -{removed}", if files == 1 { "" } else { "s" })
}

const fn style(state: WorktreeState) -> Style {
    match state {
        WorktreeState::Kept | WorktreeState::Landing => Style::Attention,
        WorktreeState::Creating => Style::Active,
        WorktreeState::Ready => Style::Plain,
    }
}
