//! Creates the commits that a landing adds to its target.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;

use subagent_protocol::worktree::{Landing, LandingMode, Worktree, bounded, in_message};
use subagent_protocol::{Code, Error};

use super::super::errors::refused;
use super::super::work::{OperationContext, line};
use super::super::{commits, plan};
use super::merge::{MergedTree, merge};
use super::target::LandingTarget;
use super::whole_files;

/// The source of a landing.
pub(super) struct LandingSource {
    /// The commit of the worktree.
    pub(super) commit: String,
    /// The commit where its changes begin.
    pub(super) base: String,
}

/// Returns the new commit of the target; `None` if the target has all changes.
pub(super) fn commit(
    work: &OperationContext<'_>,
    worktree: &Worktree,
    landing: &Landing,
    source: &LandingSource,
    target: &LandingTarget,
) -> Result<Option<String>, Error> {
    let maker = Maker { work, worktree, landing, target };
    let tree = maker.merged(&source.base, &target.commit, &source.commit)?;
    if Some(&tree) == plan::commit_tree(work, &worktree.repository, &target.commit)?.as_ref() {
        return Ok(None);
    }
    let own = maker.own(source)?;
    Ok(Some(match landing.how {
        LandingMode::Squash => maker.write(&tree, &[&target.commit], &maker.message(&own)?, &[])?,
        LandingMode::Rebase => maker.replay(source, &target.commit)?,
        LandingMode::Merge => {
            let theirs = match worktree.with_changes && !own.is_empty() {
                // The commit of the main tree's changes does not belong to the worktree.
                true => maker.replay(source, &format!("{}^", source.base))?,
                false => source.commit.clone(),
            };
            let default = format!("Merge the worktree {}", worktree.name);
            let message = landing.message.as_ref().unwrap_or(&default);
            maker.write(&tree, &[&target.commit, &theirs], message.as_bytes(), &[])?
        }
    }))
}

struct Maker<'a> {
    work: &'a OperationContext<'a>,
    worktree: &'a Worktree,
    landing: &'a Landing,
    target: &'a LandingTarget,
}

impl Maker<'_> {
    fn merged(&self, base: &str, ours: &str, theirs: &str) -> Result<String, Error> {
        let repository = &self.worktree.repository;
        let merged = match self.worktree.is_isolated() {
            true => whole_files::merge(self.work, repository, [base, ours, theirs], &self.target.commit)?,
            false => merge(self.work, repository, base, ours, theirs)?,
        };
        match merged {
            MergedTree::Tree(tree) => Ok(tree),
            MergedTree::Conflict(files) => {
                let into = &self.target.branch;
                let name = &self.worktree.name;
                let what =
                    if self.worktree.is_isolated() { "both change" } else { "change the same lines of" };
                let message = format!("{name} and {into} {what} {}", in_message(&files));
                let (files, more) = bounded(files);
                let error = Error::new(Code::LandConflict, message)
                    .with("files", files)
                    .with("into", into.clone())
                    .with("targetCommit", self.target.commit.clone());
                Err(if more == 0 { error } else { error.with("moreFiles", more) })
            }
        }
    }

    /// Returns the worktree's commits, oldest first.
    fn own(&self, source: &LandingSource) -> Result<Vec<String>, Error> {
        let range = format!("{}..{}", source.base, source.commit);
        let list =
            self.work.run(&self.worktree.repository, &["rev-list", "--reverse", "--topo-order", &range])?;
        Ok(commits::lines(&list).collect())
    }

    /// Returns the message of a single commit for all of them.
    fn message(&self, own: &[String]) -> Result<Vec<u8>, Error> {
        if let Some(message) = &self.landing.message {
            return Ok(message.clone().into_bytes());
        }
        let repository = &self.worktree.repository;
        match own {
            [] => Ok(format!("Work of {}\n", self.worktree.name).into_bytes()),
            [one] => self.work.run(repository, &["log", "-1", "--format=%B", one]),
            several => {
                let args = ["log", "--no-walk=unsorted", "--format=%s", "--stdin"];
                let ids: String = several.iter().map(|id| format!("{id}\n")).collect();
                let subjects = self.work.feed(&self.work.git(repository), &args, ids.as_bytes())?;
                // A subject has no line ends.
                let subjects: Vec<&[u8]> = subjects.split_inclusive(|byte| *byte == b'\n').collect();
                let mut message = subjects.last().copied().unwrap_or_default().to_vec();
                message.push(b'\n');
                for subject in subjects {
                    message.extend([&b"* "[..], subject].concat());
                }
                Ok(message)
            }
        }
    }

    /// Repeats the commits on top of another one. Keeps their authors; skips commits
    /// that change nothing there.
    fn replay(&self, source: &LandingSource, onto: &str) -> Result<String, Error> {
        let (work, repository) = (self.work, &self.worktree.repository);
        let range = format!("{}..{}", source.base, source.commit);
        if !work.run(repository, &["rev-list", "--merges", "--max-count=1", &range])?.is_empty() {
            let message = format!("{} has merge commits, which cannot be rebased", self.worktree.name);
            return Err(refused("mergeCommits", message).recommend("land with --squash or --merge"));
        }
        let mut onto =
            line(&work.run(repository, &["rev-parse", "--verify", &format!("{onto}^{{commit}}")])?);
        for commit in self.own(source)? {
            let tree = self.merged(&format!("{commit}^"), &onto, &commit)?;
            if Some(&tree) == plan::commit_tree(work, repository, &onto)?.as_ref() {
                continue;
            }
            let facts = work
                .run(repository, &["log", "-1", "--format=%an%x00%ae%x00%ad%x00%B", "--date=raw", &commit])?;
            let mut facts = facts.splitn(4, |byte| *byte == 0).map(<[u8]>::to_vec);
            let mut author = Vec::new();
            for name in ["GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_AUTHOR_DATE"] {
                author.push((name, OsString::from_vec(facts.next().unwrap_or_default())));
            }
            onto = self.write(&tree, &[&onto], &facts.next().unwrap_or_default(), &author)?;
        }
        Ok(onto)
    }

    fn write(
        &self,
        tree: &str,
        parents: &[&str],
        message: &[u8],
        author: &[(&'static str, OsString)],
    ) -> Result<String, Error> {
        let git = self.work.git(&self.worktree.repository);
        let message = with_trailer(self.work, self.worktree, message, &self.landing.trailer)?;
        write(self.work, crate::git::Git { places: author.to_vec(), ..git }, tree, parents, &message)
    }
}

/// Appends the trailer to a message.
pub(super) fn with_trailer(
    work: &OperationContext<'_>,
    worktree: &Worktree,
    message: &[u8],
    trailer: &str,
) -> Result<Vec<u8>, Error> {
    let end = message.iter().rposition(|byte| !byte.is_ascii_whitespace()).map_or(0, |last| last + 1);
    let message = [&message[..end], b"\n"].concat();
    if trailer.is_empty() {
        return Ok(message);
    }
    let args = ["interpret-trailers", "--no-divider", "--if-exists=addIfDifferent", "--trailer", trailer];
    work.feed(&work.git(&worktree.repository), &args, &message)
}

/// Writes a commit with the user's identity.
pub(super) fn write(
    work: &OperationContext<'_>,
    git: crate::git::Git<'_>,
    tree: &str,
    parents: &[&str],
    message: &[u8],
) -> Result<String, Error> {
    let mut args = vec!["commit-tree", tree, "-F", "-"];
    for parent in parents {
        args.extend(["-p", parent]);
    }
    let written = work.feed(&git, &args, message).map_err(|error| {
        let stderr = error.facts().output.0.unwrap_or_default();
        match stderr.contains("tell me who you are") || stderr.contains("ident") {
            true => error.recommend(
                "set your name with `git config --global user.name NAME`, and user.email likewise",
            ),
            false => error,
        }
    })?;
    Ok(line(&written))
}
