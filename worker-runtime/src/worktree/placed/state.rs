//! The state of a worktree as one commit, and how a worktree gets it. The same on both machines.

// The tree of the commit has the files byte by byte, without those that git ignores. Its parents are
// `HEAD`, a commit of the index, and the commit of the branch if that is another one. It depends on
// nothing else, so equal states have equal commits.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use subagent_protocol::Error;
use subagent_protocol::time::Timestamp;
use subagent_protocol::worktree::{Packed, Worktree};

use crate::git::Git;
use crate::worktree::checkout::{Checkout, head};
use crate::worktree::keep::{Keeping, is_below_link};
use crate::worktree::registration::Registration;
use crate::worktree::scratch::Scratch;
use crate::worktree::status::{self, OwnIndex, parts, path};
use crate::worktree::work::{OperationContext, line, step};
use crate::worktree::{create, discard, errors, retired};

/// The newest state that both sides had.
pub(super) const SHARED: &str = "refs/worktree/subagent/shared";
/// A state that the worktree is being given.
const PENDING: &str = "refs/worktree/subagent/pending";
/// The subject of a commit whose `HEAD` is the branch, and of any other.
const SUBJECTS: [&str; 2] = ["Files on the branch", "Files without the branch"];

/// A worktree whose state is read or changed. No other operation works on it.
pub(super) struct WorktreeState<'a> {
    pub(super) work: &'a OperationContext<'a>,
    pub(super) worktree: &'a Worktree,
    pub(super) found: &'a Registration,
}

/// What a commit of a state says about refs.
struct StateRefs {
    head: String,
    index: String,
    tip: String,
    is_on_branch: bool,
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
        Ok(Packed { state, stays: stays as u64 })
    }

    /// Returns the commit of one of our refs of the worktree.
    pub(super) fn reference(&self, name: &str) -> Result<Option<String>, Error> {
        let id = self.work.asked(&self.found.path, &["rev-parse", "--verify", "--quiet", name])?;
        Ok(id.map(|id| line(&id)))
    }

    /// Notes a state that both sides have.
    pub(super) fn is_shared(&self, state: &str) -> Result<(), Error> {
        if self.reference(SHARED)?.as_deref() == Some(state) {
            return Ok(());
        }
        self.work.run(&self.found.path, &["update-ref", SHARED, state]).map(drop)
    }

    /// Completes a change of state that was killed.
    pub(super) fn recover(&self) -> Result<(), Error> {
        let Some(pending) = self.reference(PENDING)? else { return Ok(()) };
        let present = self.pack()?.state;
        if present != pending && self.reference(SHARED)?.as_ref() != Some(&present) {
            // Partly changed, or changed since.
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            let time = Timestamp(i64::try_from(now.as_millis()).unwrap_or(i64::MAX));
            let keeping = Keeping { work: self.work, worktree: self.worktree, time };
            let kept = discard::of_folder(&keeping, self.found)?;
            retired::keep(self.work, &self.worktree.repository, self.worktree, time, &kept)?;
        }
        self.change(&present, &pending)
    }

    /// Gives the worktree another state. `present` is its own.
    pub(super) fn change(&self, present: &str, state: &str) -> Result<(), Error> {
        let Self { work, worktree, found } = self;
        let top = &found.path;
        let refs = self.refs(state)?;
        let differs = ["diff-tree", "-r", "-z", "--name-status", "--no-renames", present, state];
        let differs = work.run(top, &differs)?;
        let mut fields = parts(&differs);
        let (mut written, mut removed) = (Vec::new(), BTreeSet::new());
        while let (Some(status), Some(name)) = (fields.next(), fields.next()) {
            if status == b"D" {
                removed.insert(path(name).to_owned());
                continue;
            }
            if status == b"A" && is_in_the_way(top, path(name), &removed) {
                let message = format!("{} is ignored by git, and would be lost", path(name).display());
                return Err(errors::busy("ignored", message)
                    .with("path", top.join(path(name)).display().to_string())
                    .recommend("move it away, and try again"));
            }
            written.extend_from_slice(name);
            written.push(0);
        }
        work.run(top, &["update-ref", PENDING, state])?;
        for name in &removed {
            step();
            remove(top, name)?;
        }
        let scratch = Scratch::new(&worktree.repository)?;
        let git = self.without_filters(&scratch)?;
        work.feed(&git, &["read-tree", state], b"")?;
        work.feed(&git, &["checkout-index", "--force", "-z", "--stdin"], &written)?;
        work.run(top, &["read-tree", &refs.index])?;
        // Its status says whether files differ from the index.
        let _ = work.asked(top, &["update-index", "-q", "--refresh"])?;
        work.run(top, &["update-ref", &self.branch(), &refs.tip])?;
        match refs.is_on_branch {
            true => work.run(top, &["symbolic-ref", "HEAD", &self.branch()])?,
            false => work.run(top, &["update-ref", "--no-deref", "HEAD", &refs.head])?,
        };
        self.is_shared(state)?;
        work.run(top, &["update-ref", "-d", PENDING]).map(drop)
    }

    fn branch(&self) -> String {
        format!("refs/heads/{}", self.worktree.branch)
    }

    fn refs(&self, state: &str) -> Result<StateRefs, Error> {
        let text = self.work.run(&self.found.path, &["log", "-1", "--format=%P%n%s", state])?;
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
            index: index.clone(),
            is_on_branch: subject.starts_with(SUBJECTS[0]),
        })
    }

    /// Git with an index of its own, that writes files as the commit has them: filters have run where
    /// the files were made.
    fn without_filters<'a>(&'a self, scratch: &Scratch) -> Result<Git<'a>, Error> {
        let (top, repository) = (&self.found.path, &self.worktree.repository);
        let git_dir = scratch.path("git");
        let format = if self.worktree.base.len() == SHA256_DIGITS { "sha256" } else { "sha1" };
        let format = format!("--object-format={format}");
        let init =
            ["init", "--quiet", "--bare", "--template=", &format].map(AsRef::<std::ffi::OsStr>::as_ref);
        let init: Vec<_> = init.into_iter().chain([git_dir.as_os_str()]).collect();
        self.work.run(repository, &init)?;
        let attributes = git_dir.join("info/attributes");
        let written = attributes.parent().map_or(Ok(()), fs::create_dir_all);
        let written =
            written.and_then(|()| fs::write(&attributes, "* -text -filter -ident -working-tree-encoding\n"));
        written.map_err(|error| errors::file(&attributes, &error))?;
        let mut git = self.work.git(top);
        git.places = vec![
            ("GIT_DIR", git_dir.into()),
            ("GIT_WORK_TREE", top.into()),
            ("GIT_OBJECT_DIRECTORY", self.found.common().join("objects").into()),
            ("GIT_INDEX_FILE", scratch.path("index").into()),
        ];
        Ok(git)
    }
}

/// The length of a commit's name in a repository with SHA-256.
pub(super) const SHA256_DIGITS: usize = 64;

/// Whether a file of the folder, which the state does not have, lies where another one is written.
fn is_in_the_way(top: &Path, name: &Path, removed: &BTreeSet<PathBuf>) -> bool {
    let is_removed = |at: &Path| removed.contains(at) || removed.iter().any(|other| other.starts_with(at));
    let is_there = top.join(name).symlink_metadata().is_ok() && !is_below_link(top, name);
    is_there && !is_removed(name)
}

/// Removes a file, and the folders above it that are empty then.
fn remove(top: &Path, name: &Path) -> Result<(), Error> {
    if is_below_link(top, name) {
        return Ok(());
    }
    let file = top.join(name);
    match fs::symlink_metadata(&file) {
        // A repository below, which git tracks as one entry.
        Ok(meta) if meta.is_dir() => return Ok(()),
        Ok(_) => fs::remove_file(&file).map_err(|error| errors::file(&file, &error))?,
        Err(_) => {}
    }
    let folders = name.ancestors().skip(1).filter(|folder| !folder.as_os_str().is_empty());
    for folder in folders {
        if fs::remove_dir(top.join(folder)).is_err() {
            break;
        }
    }
    Ok(())
}
