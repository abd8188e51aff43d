//! The state of a worktree as one commit, and how a worktree gets it. The same on both machines.

// The tree of the commit has the files byte by byte, without those that git ignores. Its parents are
// `HEAD`, a commit of the index, and the commit of the branch if that is another one. It depends on
// nothing else, so the commit of an unchanged worktree does not change.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

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
use crate::worktree::{create, errors};

/// The state of the mirror after the newest exchange, and that of the other side.
pub(super) const EXCHANGED: [&str; 2] = ["refs/worktree/subagent/here", "refs/worktree/subagent/there"];
/// A state that the worktree is being given, and the one that it had.
const PENDING: [&str; 2] = ["refs/worktree/subagent/pending", "refs/worktree/subagent/before"];
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

    /// Notes the states of both sides, which are equal as far as git can tell.
    pub(super) fn is_exchanged(&self, states: [&str; 2]) -> Result<(), Error> {
        let update = |(name, state)| format!("update {name} {state}\n");
        let input: String = EXCHANGED.into_iter().zip(states).map(update).collect();
        self.update(&input)
    }

    /// Changes refs, all or none.
    fn update(&self, input: &str) -> Result<(), Error> {
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
        let is_own = differs(&before, &present)?.is_disjoint(&differs(&present, &pending)?)
            && (has.head == had.head || has.head == will.head);
        match is_own {
            true => self.change(&present, &pending),
            // All that is there counts as work.
            false => self.forget_pending(),
        }
    }

    fn forget_pending(&self) -> Result<(), Error> {
        self.update(&PENDING.map(|name| format!("delete {name}\n")).concat())
    }

    /// Gives the worktree another state. `present` is its own.
    pub(super) fn change(&self, present: &str, state: &str) -> Result<(), Error> {
        let Self { work, worktree, found } = self;
        let top = &found.path;
        let refs = self.refs(state)?;
        let (written, removed) = self.differences(present, state)?;
        self.update(&format!("update {} {state}\nupdate {} {present}\n", PENDING[0], PENDING[1]))?;
        for name in &removed {
            step();
            remove(top, name)?;
        }
        let scratch = Scratch::new(&worktree.repository)?;
        let git = self.without_filters(&scratch)?;
        work.feed(&git, &["read-tree", state], b"")?;
        work.feed(&git, &["checkout-index", "--force", "-z", "--stdin"], &written)?;
        // A merge of one tree keeps what a sparse checkout leaves out.
        work.run(top, &["read-tree", "-m", "-i", &refs.index])?;
        // Its status says whether files differ from the index.
        let _ = work.asked(top, &["update-index", "-q", "--refresh"])?;
        work.run(top, &["update-ref", &self.branch(), &refs.tip])?;
        match refs.is_on_branch {
            true => work.run(top, &["symbolic-ref", "HEAD", &self.branch()])?,
            false => work.run(top, &["update-ref", "--no-deref", "HEAD", &refs.head])?,
        };
        self.forget_pending()
    }

    /// Returns the names to write, each with a NUL after it, and those to remove.
    fn differences(&self, present: &str, state: &str) -> Result<(Vec<u8>, BTreeSet<PathBuf>), Error> {
        let top = &self.found.path;
        let args = ["diff-tree", "-r", "-z", "--name-status", "--no-renames", present, state];
        let differs = self.work.run(top, &args)?;
        let mut fields = parts(&differs);
        let (mut written, mut added, mut removed) = (Vec::new(), Vec::new(), BTreeSet::new());
        while let (Some(status), Some(name)) = (fields.next(), fields.next()) {
            if status == b"D" {
                removed.insert(path(name).to_owned());
                continue;
            }
            if status == b"A" {
                added.push(path(name));
            }
            written.extend_from_slice(name);
            written.push(0);
        }
        for name in added {
            if let Some(other) = in_the_way(top, name, &removed) {
                let message = format!("{} is ignored by git, and would be lost", other.display());
                return Err(errors::busy("ignored", message)
                    .with("path", top.join(&other).display().to_string())
                    .recommend("move it away, and try again"));
            }
        }
        Ok((written, removed))
    }

    /// Whether a state of this worktree has nothing but a commit.
    pub(super) fn is_only(&self, state: &str, commit: &str) -> Result<bool, Error> {
        let refs = self.refs(state)?;
        let mut trees = BTreeSet::new();
        for id in [state, &refs.index, commit] {
            let tree =
                self.work.run(&self.found.path, &["rev-parse", "--verify", &format!("{id}^{{tree}}")])?;
            trees.insert(line(&tree));
        }
        Ok(refs.head == commit && refs.tip == commit && trees.len() == 1)
    }

    fn branch(&self) -> String {
        format!("refs/heads/{}", self.worktree.branch)
    }

    fn refs(&self, state: &str) -> Result<StateRefs, Error> {
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

/// Returns what the state does not have, and what lies where a new file is written: a file or link in
/// place of a folder above it, the file itself, or a file below a folder in its place.
fn in_the_way(top: &Path, name: &Path, removed: &BTreeSet<PathBuf>) -> Option<PathBuf> {
    let above = name.ancestors().skip(1).filter(|folder| !folder.as_os_str().is_empty());
    let above: Vec<&Path> = above.collect();
    for folder in above.into_iter().rev() {
        match top.join(folder).symlink_metadata() {
            Err(_) => return None,
            Ok(meta) if meta.is_dir() => {}
            Ok(_) => return Some(folder.to_owned()).filter(|folder| !removed.contains(folder)),
        }
    }
    let mut unseen = vec![name.to_owned()];
    while let Some(name) = unseen.pop() {
        match top.join(&name).symlink_metadata() {
            Err(_) => {}
            Ok(meta) if meta.is_dir() => match fs::read_dir(top.join(&name)) {
                Ok(entries) => unseen.extend(entries.flatten().map(|entry| name.join(entry.file_name()))),
                Err(_) => return Some(name),
            },
            Ok(_) if removed.contains(&name) => {}
            Ok(_) => return Some(name),
        }
    }
    None
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
