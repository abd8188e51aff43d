//! Worktrees: where they are, what is in them, where they have landed.

use serde_json::Value;

use super::removal::counted;
use super::view::{PageRenderer, shown as value, word};
use crate::output::style::Style;
use crate::output::table::Table;

/// Shows the data of `worktree list`.
pub(super) fn listed(view: &mut PageRenderer, data: &Value) -> Option<()> {
    let items = data["items"].as_array()?;
    if items.is_empty() {
        view.page.plain("No worktrees.").end();
        view.next("Start a worker in one:", "subagent run -d --worktree AGENT 'WHAT TO DO'");
        return Some(());
    }
    let mut table = Table::new(&["NAME", "STATE", "CHANGES", "BRANCH", "CREATED", "PATH"]);
    for item in items {
        let (changes, created) = (changes(&item["contents"]), view.ago(&item["createdAt"]));
        table.row([
            (Style::Strong, word(item, "name")),
            (style(word(item, "state")), word(item, "state")),
            (Style::Plain, &changes),
            (Style::Plain, word(item, "branch")),
            (Style::Dim, &created),
            (Style::Dim, word(item, "path")),
        ]);
    }
    view.put(&table);
    Some(())
}

/// `worktree show` and `worktree setup`.
pub(super) fn shown(view: &mut PageRenderer, data: &Value) -> Option<()> {
    let name = data["name"].as_str()?.to_owned();
    view.page.word(Style::Strong, &name).plain("  ");
    view.page.word(style(word(data, "state")), word(data, "state")).end();
    let contents = &data["contents"];
    let created = view.ago(&data["createdAt"]);
    let count = |key: &str, thing: &str, what: &str| match contents[key].as_u64() {
        None | Some(0) => String::new(),
        Some(number) => format!("{} {what}", counted(number, thing)),
    };
    let work = [count("uncommitted", "file", "not committed"), count("commits", "commit", "of its own")];
    let work: Vec<String> = work.into_iter().filter(|part| !part.is_empty()).collect();
    let base = if data["withChanges"] == true { "your changes at its start" } else { "" };
    view.facts(&[
        ("path", Style::Plain, value(&data["path"])),
        ("branch", Style::Plain, value(&data["branch"])),
        ("lands on", Style::Plain, value(&data["sourceBranch"])),
        ("includes", Style::Plain, base.to_owned()),
        ("changes", Style::Plain, changes(contents)),
        ("work", Style::Attention, work.join(", ")),
        ("ignored", Style::Attention, count("ignored", "file", "newer than its setup")),
        ("under way", Style::Attention, value(&contents["underWay"])),
        ("worker", Style::Plain, value(&data["workerId"])),
        ("created", Style::Dim, created),
    ]);
    if contents["exists"] == true && contents["files"].as_u64().unwrap_or(0) > 0 {
        view.next("Next:", &format!("subagent land {name}"));
    }
    Some(())
}

/// Shows the data of `land` for one worktree.
pub(super) fn landed(view: &mut PageRenderer, data: &Value) -> Option<()> {
    one_landed(view, data)?;
    let retired = word(data, "retired");
    if data["worktreeRemoved"] == true {
        view.page.word(Style::Dim, "its worktree is removed");
        if !retired.is_empty() {
            view.page.word(Style::Dim, "; its commits are kept as ").word(Style::Dim, retired);
        }
        view.page.end();
    }
    Some(())
}

/// Shows the data of `land` for several worktrees.
pub(super) fn all_landed(view: &mut PageRenderer, data: &Value) -> Option<()> {
    for item in data["items"].as_array()? {
        one_landed(view, item)?;
    }
    Some(())
}

/// Whether a landing had nothing to land. One of a copy without git has no commits.
pub(super) fn landed_nothing(data: &Value) -> bool {
    data["commit"] == data["before"] && data["files"].as_array().is_none_or(Vec::is_empty)
}

fn one_landed(view: &mut PageRenderer, data: &Value) -> Option<()> {
    let (name, into) = (data["name"].as_str()?, word(data, "into"));
    view.page.word(Style::Strong, name);
    if landed_nothing(data) {
        view.page.plain("  has nothing to land on ").word(Style::Strong, into).end();
        return Some(());
    }
    let short: String = word(data, "commit").chars().take(SHORT_COMMIT).collect();
    view.page.plain("  landed on ").word(Style::Strong, into).plain("  ").word(Style::Dim, &short);
    let files = data["files"].as_array().map_or(0, Vec::len);
    let numbers = format!("  {}", lines(files as u64, &data["added"], &data["removed"]));
    view.page.plain(&numbers).end();
    Some(())
}

/// Characters of a commit's id that are shown.
const SHORT_COMMIT: usize = 10;

/// `worktree remove` and `worktree discard`.
pub(super) fn removed(view: &mut PageRenderer, data: &Value) -> Option<()> {
    view.page.word(Style::Strong, data["name"].as_str()?).plain("  removed").end();
    let retired = value(&data["retired"]);
    view.facts(&[
        ("kept as", Style::Plain, retired.clone()),
        (
            "look",
            Style::Dim,
            if retired.is_empty() { String::new() } else { format!("git diff {retired}^ {retired}") },
        ),
    ]);
    Some(())
}

/// Shows the data of `worktree prune`.
pub(super) fn pruned(view: &mut PageRenderer, data: &Value) -> Option<()> {
    let list = |key: &str| data[key].as_array().map(Vec::as_slice);
    let (removed, kept, refs) = (list("removed")?, list("kept")?, list("deletedRefs")?);
    for one in removed {
        view.page.word(Style::Strong, word(one, "name")).plain("  removed").end();
    }
    let copies = list("deletedCopies").unwrap_or_default();
    for name in refs.iter().chain(copies) {
        view.page.word(Style::Strong, name.as_str()?).plain("  deleted").end();
    }
    for one in kept {
        let name = word(one, "name");
        view.page.word(Style::Strong, name).plain("  ").word(Style::Attention, "kept");
        view.page.plain("  ").word(Style::Plain, &changes(&one["contents"])).end();
        view.next("  Land it:", &format!("subagent land {name}"));
    }
    if removed.is_empty() && refs.is_empty() && copies.is_empty() {
        view.page.plain("Nothing to remove.").end();
    }
    Some(())
}

/// What has become of the worktree of a worker that was stopped.
pub(super) fn end(view: &mut PageRenderer, data: &Value) {
    let name = word(data, "name").to_owned();
    match word(data, "outcome") {
        "removed" => {
            view.page.word(Style::Dim, "its worktree had nothing in it and is removed").end();
        }
        "kept" => {
            view.facts(&[
                ("worktree", Style::Plain, value(&data["path"])),
                ("branch", Style::Plain, value(&data["branch"])),
                ("changes", Style::Plain, changes(&data["contents"])),
            ]);
            view.next("Next:", &format!("subagent land {name}"));
        }
        _ => {
            let problem =
                format!("its worktree {name} cannot be looked at: {}", word(&data["error"], "message"));
            view.page.rest(Style::Attention, &problem).end();
        }
    }
}

/// Files and lines, in the form of `git diff --stat`.
pub(super) fn changes(contents: &Value) -> String {
    match contents["files"].as_u64() {
        _ if contents["exists"] == false => "its folder is gone".to_owned(),
        None => String::new(),
        Some(0) => "none".to_owned(),
        Some(files) => lines(files, &contents["added"], &contents["removed"]),
    }
}

/// Changed files and lines.
pub(super) fn lines(files: u64, added: &Value, removed: &Value) -> String {
    let (added, removed) = (added.as_u64().unwrap_or(0), removed.as_u64().unwrap_or(0));
    format!("{files} file{} +{added} -{removed}", if files == 1 { "" } else { "s" })
}

fn style(state: &str) -> Style {
    match state {
        "kept" | "landing" => Style::Attention,
        "creating" => Style::Active,
        _ => Style::Plain,
    }
}
