//! Creates a commit of everything in a work tree, similar to a stash.

// Its tree contains the files byte by byte, without git's filters. It includes untracked files,
// and ignored files that are newer than the setup.
//
// Its parents are, in this order:
//
// 1. `HEAD`;
// 2. a commit of the index, with the sides of unmerged files as `.subagent-unmerged/SIDE/PATH`;
// 3. commits that only the branch, the reflogs or an unfinished operation had;
// 4. commits like this one for repositories below that are no submodules of another work tree.
//
// `git worktree add PATH REF` restores the files, `git log REF^2` shows the index, and `git log
// REF` shows all commits.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use subagent_protocol::Error;
use subagent_protocol::time::Timestamp;
use subagent_protocol::worktree::Worktree;

use super::checkout::{Checkout, head};
use super::scratch::Scratch;
use super::status::{self, OwnIndex, parts, path};
use super::work::{OperationContext, line};
use super::{commits, errors, modules, retired};
use crate::git::Git;

/// Files of a git directory that name commits.
const NAMING: [&str; 8] = [
    "MERGE_HEAD",
    "CHERRY_PICK_HEAD",
    "REVERT_HEAD",
    "ORIG_HEAD",
    "rebase-merge/orig-head",
    "rebase-merge/onto",
    "rebase-merge/stopped-sha",
    "rebase-apply/orig-head",
];

/// The purpose of a commit.
pub(super) struct Keeping<'a> {
    pub(super) work: &'a OperationContext<'a>,
    pub(super) worktree: &'a Worktree,
    pub(super) time: Timestamp,
}

/// Index changes in the format of `update-index --index-info`, by path.
type Entries = BTreeMap<Vec<u8>, String>;

impl Keeping<'_> {
    /// Creates the commit of a work tree. `parents` are further commits to keep.
    pub(super) fn all(&self, place: &Checkout, mut parents: Vec<String>) -> Result<String, Error> {
        let work = self.work;
        let scratch = Scratch::new(&self.worktree.repository)?;
        let OwnIndex { git, modules, is_unmerged } =
            status::with_own_index(work, &place.top, &place.git_dir, &scratch)?;
        let head = head(work, &place.top)?;
        let index = self.index(&git, &scratch, head.as_deref(), is_unmerged)?;
        let (entries, nested) = self.entries(place, &git, is_unmerged, place.ignored(work)?)?;
        for folder in nested {
            let git_dir = modules::git_dir(work, &folder)?;
            let git_dir =
                git_dir.ok_or_else(|| errors::not_found(&folder, "git cannot read this repository"))?;
            let below =
                Checkout { top: folder, git_dir, main: None, ready: place.ready, deletions_count: true };
            parents.push(self.below(place, &below)?);
        }
        for below in place.those(work, &modules)? {
            match &below.main {
                Some(main) => self.in_main(&below, main)?,
                None => parents.push(self.below(place, &below)?),
            }
        }
        let tree = self.tree(&git, entries)?;
        parents.extend(named(work, &place.top, &place.git_dir)?);
        self.commit(&work.git(&place.top), &tree, head.into_iter().chain([index]).chain(parents), "Files")
    }

    /// Writes the tree of the index with these changes.
    pub(super) fn tree(&self, git: &Git<'_>, entries: Entries) -> Result<String, Error> {
        let mut input = Vec::new();
        for (name, facts) in entries {
            input.extend_from_slice(facts.as_bytes());
            input.push(b'\t');
            input.extend_from_slice(&name);
            input.push(0);
        }
        if !input.is_empty() {
            self.work.feed(git, &["update-index", "-z", "--add", "--replace", "--index-info"], &input)?;
        }
        Ok(line(&self.work.feed(git, &["write-tree"], b"")?))
    }

    /// Writes a commit. It does not depend on author and time, so a repetition
    /// creates the same commit.
    pub(super) fn commit(
        &self,
        git: &Git<'_>,
        tree: &str,
        parents: impl Iterator<Item = String>,
        what: &str,
    ) -> Result<String, Error> {
        let seconds = self.time.0.div_euclid(1000);
        let mut text = format!("tree {tree}\n");
        let mut seen = BTreeSet::new();
        for parent in parents.filter(|parent| seen.insert(parent.clone())) {
            text.push_str(&format!("parent {parent}\n"));
        }
        for role in ["author", "committer"] {
            text.push_str(&format!("{role} subagent <subagent@localhost> {seconds} +0000\n"));
        }
        text.push_str(&format!("\n{what} of the worktree {}\n", self.worktree.name));
        Ok(line(&self.work.feed(git, &["hash-object", "-t", "commit", "-w", "--stdin"], text.as_bytes())?))
    }

    /// Creates a commit of an unchanged index.
    pub(super) fn index(
        &self,
        git: &Git<'_>,
        scratch: &Scratch,
        head: Option<&str>,
        is_unmerged: bool,
    ) -> Result<String, Error> {
        let work = self.work;
        let mut own = git.clone();
        let mut input = Vec::new();
        if is_unmerged {
            for entry in parts(&work.feed(git, &["ls-files", "-z", "--stage"], b"")?) {
                let Some(tab) = memchr::memchr(b'\t', entry) else { continue };
                let facts = String::from_utf8_lossy(&entry[..tab]).into_owned();
                let Some((facts, side)) = facts.rsplit_once(' ') else { continue };
                let folder = if side == "0" { String::new() } else { format!(".subagent-unmerged/{side}/") };
                input.extend_from_slice(format!("{facts} 0\t{folder}").as_bytes());
                input.extend_from_slice(&entry[tab + 1..]);
                input.push(0);
            }
            own.places.retain(|(name, _)| *name != "GIT_INDEX_FILE");
            own.places.push(("GIT_INDEX_FILE", scratch.path("merged").into()));
            work.feed(&own, &["update-index", "-z", "--add", "--index-info"], &input)?;
        }
        let tree = line(&work.feed(&own, &["write-tree"], b"")?);
        self.commit(git, &tree, head.map(str::to_owned).into_iter(), "Index")
    }

    /// Returns the differences from the index as entries whose objects are written, and
    /// repositories that git does not track. `ignored` are files that git ignores.
    pub(super) fn entries(
        &self,
        place: &Checkout,
        git: &Git<'_>,
        is_unmerged: bool,
        ignored: impl IntoIterator<Item = PathBuf>,
    ) -> Result<(Entries, Vec<PathBuf>), Error> {
        let list = ["ls-files", "-z", "--modified", "--deleted", "--others", "--exclude-standard"];
        let listed = self.work.feed(git, &list, b"")?;
        let unmerged = match is_unmerged {
            true => self.work.feed(git, &["diff", "-z", "--name-only", "--diff-filter=U"], b"")?,
            false => Vec::new(),
        };
        let mut names: BTreeSet<Vec<u8>> =
            parts(&listed).chain(parts(&unmerged)).map(<[u8]>::to_vec).collect();
        for file in ignored {
            names.insert(file.into_os_string().into_encoded_bytes());
        }
        let none = "0".repeat(self.worktree.base.len());
        let (mut entries, mut nested, mut files) = (Entries::new(), Vec::new(), Vec::new());
        for name in names {
            let file = place.top.join(path(&name));
            match fs::symlink_metadata(&file) {
                Ok(meta) if meta.is_dir() && file.join(".git").symlink_metadata().is_ok() => {
                    if name.ends_with(b"/") {
                        nested.push(file);
                    } else if let Some(commit) = head(self.work, &file)? {
                        entries.insert(name, format!("160000 {commit} 0"));
                    }
                }
                Ok(meta) if meta.is_file() && !is_below_link(&place.top, path(&name)) => {
                    let mode = if meta.mode() & 0o100 == 0 { "100644" } else { "100755" };
                    files.push((name, mode));
                }
                Ok(meta) if meta.is_symlink() && !is_below_link(&place.top, path(&name)) => {
                    let target = fs::read_link(&file).map_err(|error| errors::file(&file, &error))?;
                    let target = target.into_os_string().into_encoded_bytes();
                    let id =
                        self.work.feed(git, &["hash-object", "-w", "--no-filters", "--stdin"], &target)?;
                    entries.insert(name, format!("120000 {} 0", line(&id)));
                }
                _ => {
                    entries.insert(name, format!("0 {none} 0"));
                }
            }
        }
        self.write(git, files, &mut entries)?;
        Ok((entries, nested))
    }

    /// Writes the content of files as objects.
    fn write(&self, git: &Git<'_>, files: Vec<(Vec<u8>, &str)>, entries: &mut Entries) -> Result<(), Error> {
        let (odd, plain): (Vec<_>, Vec<_>) =
            files.into_iter().partition(|(name, _)| name.contains(&b'\n') || name.starts_with(b"\""));
        let mut input = Vec::new();
        for (name, _) in &plain {
            input.extend_from_slice(name);
            input.push(b'\n');
        }
        let mut ids = Vec::new();
        if !plain.is_empty() {
            let args = ["hash-object", "-w", "--no-filters", "--stdin-paths"];
            ids = commits::lines(&self.work.feed(git, &args, &input)?).collect();
        }
        for (name, _) in &odd {
            let args = ["hash-object", "-w", "--no-filters", "--"].map(AsRef::<std::ffi::OsStr>::as_ref);
            let args: Vec<_> = args.into_iter().chain([path(name).as_os_str()]).collect();
            ids.push(line(&self.work.feed(git, &args, b"")?));
        }
        for ((name, mode), id) in plain.into_iter().chain(odd).zip(ids) {
            entries.insert(name, format!("{mode} {id} 0"));
        }
        Ok(())
    }

    /// Keeps a repository in that of the work tree around it. Returns the commit.
    fn below(&self, around: &Checkout, below: &Checkout) -> Result<String, Error> {
        let commit = self.all(below, self.tips(below)?)?;
        self.fetch(below, &around.top, &commit, None)?;
        Ok(commit)
    }

    /// Keeps a submodule's own content in the main work tree's copy of the submodule.
    fn in_main(&self, below: &Checkout, main: &Path) -> Result<(), Error> {
        let tips = self.tips(below)?;
        let status = ["status", "--porcelain", "-z", "--untracked-files=all", "--ignore-submodules=none"];
        let scratch = Scratch::new(&self.worktree.repository)?;
        let git = status::with_own_index(self.work, &below.top, &below.git_dir, &scratch)?.git;
        let is_dirty =
            !self.work.feed(&git, &status, b"")?.is_empty() || !below.ignored(self.work)?.is_empty();
        if is_dirty || !tips.is_empty() {
            let commit = self.all(below, tips)?;
            self.fetch(below, main, &commit, Some(()))?;
        }
        Ok(())
    }

    /// Keeps commits of submodules in the main work tree's copies of them.
    pub(super) fn commits_in_main(&self, place: &Checkout) -> Result<(), Error> {
        for below in place.below(self.work)? {
            self.commits_in_main(&below)?;
            let (tips, Some(main)) = (self.tips(&below)?, &below.main) else { continue };
            if let (false, Some(head)) = (tips.is_empty(), head(self.work, &below.top)?) {
                let git = self.work.git(&below.top);
                let tree = format!("{head}^{{tree}}");
                let tree = line(&self.work.feed(&git, &["rev-parse", &tree], b"")?);
                let commit = self.commit(&git, &tree, [head].into_iter().chain(tips), "Commits")?;
                self.fetch(&below, main, &commit, Some(()))?;
            }
        }
        Ok(())
    }

    /// Returns the commits that only this repository has, without ancestors of other results.
    fn tips(&self, below: &Checkout) -> Result<Vec<String>, Error> {
        let unique: BTreeSet<String> = commits::of_module(self.work, below)?.into_iter().collect();
        let refs = self.work.run(&below.top, &["for-each-ref", "--format=%(objectname)"])?;
        let before =
            self.work.asked(&below.top, &["rev-list", "--walk-reflogs", "--all"])?.unwrap_or_default();
        let tips = commits::lines(&refs).chain(commits::lines(&before)).chain(head(self.work, &below.top)?);
        Ok(tips.filter(|tip| unique.contains(tip)).collect::<BTreeSet<_>>().into_iter().collect())
    }

    /// Copies a commit to another repository; adds a ref there if requested.
    fn fetch(&self, from: &Checkout, to: &Path, commit: &str, with_ref: Option<()>) -> Result<(), Error> {
        let name = retired::name(self.worktree, self.time);
        self.work.run(&from.top, &["update-ref", &name, commit])?;
        let args = ["fetch", "--quiet", "--no-tags", "--no-recurse-submodules", "--no-auto-maintenance"];
        let args = args.map(AsRef::<std::ffi::OsStr>::as_ref).into_iter();
        let args: Vec<_> = args.chain([from.top.as_os_str(), name.as_ref()]).collect();
        self.work.run(to, &args)?;
        match with_ref {
            Some(()) => retired::keep(self.work, to, self.worktree, self.time, commit).map(drop),
            None => Ok(()),
        }
    }
}

/// Returns the commits named by files of a git directory.
pub(super) fn named(work: &OperationContext<'_>, top: &Path, git_dir: &Path) -> Result<Vec<String>, Error> {
    let mut ids = String::new();
    for file in NAMING {
        for id in fs::read_to_string(git_dir.join(file)).unwrap_or_default().lines() {
            if id.len() >= 40 && id.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                ids.push_str(id);
                ids.push('\n');
            }
        }
    }
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let args = ["rev-list", "--no-walk=unsorted", "--ignore-missing", "--stdin"];
    Ok(commits::lines(&work.feed(&work.git(top), &args, ids.as_bytes())?).collect())
}

/// Whether a folder of the path is now a link: git's file is gone then, and the path
/// leads to another one.
pub(super) fn is_below_link(top: &Path, name: &Path) -> bool {
    let folders = name.ancestors().skip(1).filter(|folder| !folder.as_os_str().is_empty());
    folders.map(|folder| top.join(folder)).any(|folder| folder.is_symlink())
}
