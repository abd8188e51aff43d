//! The state of a worktree as one commit. The same on both machines.

// The tree of the commit has the files byte by byte, without those that git ignores. Its parents are
// `HEAD`, a commit of the index, and the commit of the branch if that is another one. It depends on
// nothing else, so the commit of an unchanged worktree does not change.

use std::collections::BTreeSet;

use subagent_protocol::Error;
use subagent_protocol::time::Timestamp;
use subagent_protocol::worktree::{Packed, Worktree};

use crate::worktree::checkout::{Checkout, head};
use crate::worktree::keep::Keeping;
use crate::worktree::registration::{READY, Registration};
use crate::worktree::scratch::Scratch;
use crate::worktree::status::{self, OwnIndex, parts};
use crate::worktree::work::{OperationContext, line};
use crate::worktree::{create, errors};

/// The state of the mirror after the newest exchange, and that of the other side.
pub(super) const EXCHANGED: [&str; 2] = ["refs/worktree/subagent/here", "refs/worktree/subagent/there"];
/// A state that the worktree is being given, and the one that it had.
pub(super) const PENDING: [&str; 2] = ["refs/worktree/subagent/pending", "refs/worktree/subagent/before"];
/// The subject of a commit whose `HEAD` is the branch, and of any other.
const SUBJECTS: [&str; 2] = ["Files on the branch", "Files without the branch"];

/// A worktree whose state is read or changed. No other operation works on it.
pub(super) struct WorktreeState<'a> {
    pub(super) work: &'a OperationContext<'a>,
    pub(super) worktree: &'a Worktree,
    pub(super) found: &'a Registration,
}

/// What a commit of a state says about refs.
#[derive(PartialEq, Eq)]
pub(super) struct StateRefs {
    pub(super) head: String,
    pub(super) index_tree: String,
    pub(super) tip: String,
    pub(super) is_on_branch: bool,
}

impl WorktreeState<'_> {
    /// Writes the commit of the present state.
    pub(super) fn pack(&self) -> Result<Packed, Error> {
        let Self { work, worktree, found } = self;
        let place = Checkout::of(worktree, found);
        status::refuse_under_way(work, &place.top, &place.git_dir)?;
        let keeping = Keeping { work, worktree, time: Timestamp(0) };
        let scratch = Scratch::new(&worktree.repository)?;
        let OwnIndex { git, modules, .. } =
            status::with_own_index(work, &place.top, &place.git_dir, &scratch)?;
        let head = head(work, &place.top)?;
        let head = head.ok_or_else(|| errors::not_found(&place.top, "its HEAD is no commit"))?;
        let index = keeping.index(&git, &scratch, Some(&head), false)?;
        let (mut entries, nested) = keeping.entries(&place, &git, false, [])?;
        // The commit of a submodule is only in the submodule.
        entries.retain(|_, facts| !facts.starts_with("160000"));
        let tree = keeping.tree(&git, entries)?;
        let is_on_branch = work.asked(&place.top, &["symbolic-ref", "--quiet", "HEAD"])?;
        let is_on_branch = is_on_branch.is_some_and(|name| line(&name) == self.branch());
        let parents = [head, index].into_iter().chain(create::tip(work, worktree)?);
        let subject = SUBJECTS[usize::from(!is_on_branch)];
        let state = keeping.commit(&work.git(&place.top), &tree, parents, subject)?;
        let stays = place.ignored(work)?.len() + nested.len() + place.those(work, &modules)?.len();
        let is_ready = found.read(READY).is_some();
        Ok(Packed { state, stays: stays as u64, is_ready })
    }

    /// Returns the commit of one of our refs of the worktree.
    pub(super) fn reference(&self, name: &str) -> Result<Option<String>, Error> {
        let id = self.work.asked(&self.found.path, &["rev-parse", "--verify", "--quiet", name])?;
        Ok(id.map(|id| line(&id)))
    }

    /// Notes the states of both sides, which are equal as far as git can tell.
    pub(super) fn is_exchanged(&self, states: [&str; 2]) -> Result<(), Error> {
        let update = |(name, state)| format!("update {name} {state}\n");
        let input: String = EXCHANGED.into_iter().zip(states).map(update).collect();
        self.update(&input)
    }

    /// Changes refs, all or none.
    pub(super) fn update(&self, input: &str) -> Result<(), Error> {
        let git = self.work.git(&self.found.path);
        self.work.feed(&git, &["update-ref", "--stdin"], input.as_bytes()).map(drop)
    }

    /// Completes a change of state that was killed, unless the worktree was worked in since.
    pub(super) fn recover(&self) -> Result<(), Error> {
        let (Some(pending), Some(before)) = (self.reference(PENDING[0])?, self.reference(PENDING[1])?) else {
            return Ok(());
        };
        let present = self.pack()?.state;
        let [had, has, will] = [&before, &present, &pending].map(|state| self.refs(state));
        let (had, has, will) = (had?, has?, will?);
        let differs = |from: &str, to: &str| -> Result<BTreeSet<Vec<u8>>, Error> {
            let args = ["diff-tree", "-r", "-z", "--name-only", "--no-renames", from, to];
            Ok(parts(&self.work.run(&self.found.path, &args)?).map(<[u8]>::to_vec).collect())
        };
        let is_of_either = |of: fn(&StateRefs) -> &str| of(&has) == of(&had) || of(&has) == of(&will);
        let is_own = differs(&before, &present)?.is_disjoint(&differs(&present, &pending)?)
            && is_of_either(|refs| &refs.head)
            && is_of_either(|refs| &refs.index_tree)
            && is_of_either(|refs| &refs.tip);
        match is_own {
            true => self.change(&present, &pending),
            // All that is there counts as work.
            false => self.forget_pending(),
        }
    }

    pub(super) fn forget_pending(&self) -> Result<(), Error> {
        self.update(&PENDING.map(|name| format!("delete {name}\n")).concat())
    }

    /// Whether a state of this worktree has nothing but a commit.
    pub(super) fn is_only(&self, state: &str, commit: &str) -> Result<bool, Error> {
        let refs = self.refs(state)?;
        let mut trees = BTreeSet::new();
        for id in [state, &refs.index_tree, commit] {
            trees.insert(self.tree(id)?);
        }
        Ok(refs.head == commit && refs.tip == commit && trees.len() == 1)
    }

    fn tree(&self, id: &str) -> Result<String, Error> {
        let tree = format!("{id}^{{tree}}");
        Ok(line(&self.work.run(&self.found.path, &["rev-parse", "--verify", &tree])?))
    }

    pub(super) fn branch(&self) -> String {
        format!("refs/heads/{}", self.worktree.branch)
    }

    pub(super) fn refs(&self, state: &str) -> Result<StateRefs, Error> {
        let args = ["log", "-1", "--format=%P%n%s", "--end-of-options", state];
        let text = self.work.run(&self.found.path, &args)?;
        let text = String::from_utf8_lossy(&text).into_owned();
        let mut lines = text.lines();
        let parents: Vec<String> = lines.next().unwrap_or_default().split(' ').map(str::to_owned).collect();
        let subject = lines.next().unwrap_or_default();
        let [head, index, ..] = &parents[..] else {
            return Err(errors::not_found(&self.found.path, "the commit of its state cannot be read"));
        };
        Ok(StateRefs {
            tip: parents.get(2).unwrap_or(head).clone(),
            head: head.clone(),
            index_tree: self.tree(index)?,
            is_on_branch: subject.starts_with(SUBJECTS[0]),
        })
    }
}

/// The length of a commit's name in a repository with SHA-256.
pub(super) const SHA256_DIGITS: usize = 64;
