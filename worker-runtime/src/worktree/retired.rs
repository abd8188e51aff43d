//! Refs that keep the content of worktrees: `refs/subagent/retired/NAME/TIME`.

use std::path::Path;

use subagent_protocol::Error;
use subagent_protocol::time::Timestamp;
use subagent_protocol::worktree::{RETIRED_REFS, Worktree, WorktreeResult};

use super::work::{OperationContext, line};
use super::{commits, errors};

/// Maximum number of refs with the same time, each for different content.
const MAX_SAME: u32 = 1000;

/// Returns the name of a ref that keeps a worktree.
pub(super) fn name(worktree: &Worktree, time: Timestamp) -> String {
    format!("{RETIRED_REFS}{}/{}", worktree.name, stamp(time))
}

/// Returns the ref of this time, if it exists.
pub(super) fn of(
    work: &OperationContext<'_>,
    worktree: &Worktree,
    time: Timestamp,
) -> Result<Option<String>, Error> {
    let name = name(worktree, time);
    let there = work.asked(&worktree.repository, &["show-ref", "--verify", "--quiet", &name])?;
    Ok(there.map(|_| name))
}

/// Lists the refs of a repository and deletes those from before a time.
pub(super) fn prune(
    work: &OperationContext<'_>,
    repository: &Path,
    before: Option<Timestamp>,
) -> Result<WorktreeResult, Error> {
    if !repository.is_dir() {
        return Err(errors::not_found(repository, "the repository is gone"));
    }
    let (mut kept, mut deleted) = (Vec::new(), Vec::new());
    let list = work.run(repository, &["for-each-ref", "--format=%(objectname) %(refname)", RETIRED_REFS])?;
    for entry in commits::lines(&list) {
        let Some((id, name)) = entry.split_once(' ') else { continue };
        // A ref without a time in its name is not ours.
        let is_old = before.is_some_and(|before| time_of(name).is_some_and(|time| time < before));
        if is_old {
            work.run(repository, &["update-ref", "-d", name, id])?;
        }
        if is_old { &mut deleted } else { &mut kept }.push(name.to_owned());
    }
    Ok(WorktreeResult::Pruned { kept, deleted })
}

/// Keeps a commit under a ref and returns its name. Never changes an existing ref: different
/// content gets another name.
pub(super) fn keep(
    work: &OperationContext<'_>,
    repository: &Path,
    worktree: &Worktree,
    time: Timestamp,
    commit: &str,
) -> Result<String, Error> {
    let name = name(worktree, time);
    let none = "0".repeat(commit.len());
    for more in 1..MAX_SAME {
        let name = if more == 1 { name.clone() } else { format!("{name}-{more}") };
        let there = work.asked(repository, &["rev-parse", "--verify", "--quiet", &name])?;
        match there.map(|id| line(&id)) {
            Some(there) if there == commit => return Ok(name),
            Some(_) => {}
            None => {
                work.run(repository, &["update-ref", &name, commit, &none])?;
                return Ok(name);
            }
        }
    }
    Err(errors::busy("locked", format!("there are {MAX_SAME} refs of the same time below {name}")))
}

/// Keeps the commit of the main tree's changes, whose content may exist nowhere else by now.
pub(super) fn keep_base(work: &OperationContext<'_>, worktree: &Worktree) -> Result<(), Error> {
    let args = ["rev-list", "--max-count=1", "--format=%ct", "--no-walk", &worktree.base];
    let Some(made) = work.asked(&worktree.repository, &args)? else { return Ok(()) };
    let seconds = line(&made).lines().last().and_then(|seconds| seconds.parse::<i64>().ok()).unwrap_or(0);
    let args = ["for-each-ref", "--count=1", "--contains", &worktree.base, "--format=%(refname)"];
    let others: Vec<&str> =
        args.into_iter().chain(["refs/heads/", "refs/tags/", "refs/remotes/", RETIRED_REFS]).collect();
    let found = line(&work.run(&worktree.repository, &others)?);
    if found.is_empty() || found == format!("refs/heads/{}", worktree.branch) {
        keep(work, &worktree.repository, worktree, Timestamp(seconds.saturating_mul(1000)), &worktree.base)?;
    }
    Ok(())
}

/// Formats a time for a ref: `20261125T201500Z`.
pub(super) fn stamp(time: Timestamp) -> String {
    // For example `2026-11-25T20:15:00+00:00`.
    let text: String = time.to_string().chars().take(19).filter(|char| !"-:".contains(*char)).collect();
    text + "Z"
}

/// Parses the time in a ref's name.
pub(super) fn time_of(name: &str) -> Option<Timestamp> {
    let stamp = name.rsplit('/').next()?.split('-').next()?;
    let digits: Vec<char> = stamp.chars().collect();
    let part = |from: usize, to: usize| digits.get(from..to).map(|part| part.iter().collect::<String>());
    let (date, time) =
        ([part(0, 4)?, part(4, 6)?, part(6, 8)?], [part(9, 11)?, part(11, 13)?, part(13, 15)?]);
    Timestamp::parse(&format!("{}T{}Z", date.join("-"), time.join(":")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_a_part_of_a_ref_and_back() {
        let time = Timestamp(1_795_638_900_000);
        assert_eq!(stamp(time), "20261125T203500Z");
        assert_eq!(time_of("refs/subagent/retired/a/20261125T203500Z"), Some(time));
        assert_eq!(time_of("refs/subagent/retired/a/20261125T203500Z-2"), Some(time));
        assert_eq!(time_of("refs/subagent/retired/a/b"), None);
    }
}
