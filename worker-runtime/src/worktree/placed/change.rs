//! How a worktree gets a state: files first, then index, branch and `HEAD`. The same on both machines.
//! Must not overwrite a file that no state has.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use subagent_protocol::Error;

use super::state::{PENDING, SHA256_DIGITS, WorktreeState};
use crate::git::Git;
use crate::worktree::commits::lines;
use crate::worktree::errors;
use crate::worktree::keep::is_below_link;
use crate::worktree::scratch::Scratch;
use crate::worktree::status::{parts, path};
use crate::worktree::work::step;

/// The beginning of the modes of regular files.
const REGULAR: &str = "100";

/// A path that differs between two states.
struct Difference {
    name: Vec<u8>,
    modes: [String; 2],
    /// The object in the second state.
    id: String,
    /// Git's letter: `A`, `D`, `M` or `T`.
    kind: u8,
}

/// What a change does to files.
#[derive(Default)]
struct FileChanges {
    /// The names of files to write, each with a NUL after it.
    written: Vec<u8>,
    removed: BTreeSet<PathBuf>,
}

impl WorktreeState<'_> {
    /// Gives the worktree another state. `present` is its own.
    pub(super) fn change(&self, present: &str, state: &str) -> Result<(), Error> {
        let Self { work, worktree, found } = self;
        let top = &found.path;
        let refs = self.refs(state)?;
        let changes = self.file_changes(present, state)?;
        let scratch = Scratch::new(&worktree.repository)?;
        let git = self.without_filters(&scratch)?;
        // Nothing has changed yet if git refuses one of the trees.
        for tree in [refs.index_tree.as_str(), state] {
            work.feed(&git, &["read-tree", tree], b"")?;
        }
        self.update(&format!("update {} {state}\nupdate {} {present}\n", PENDING[0], PENDING[1]))?;
        for name in &changes.removed {
            step();
            remove(top, name)?;
        }
        work.feed(&git, &["checkout-index", "--force", "-z", "--stdin"], &changes.written)?;
        // A merge of one tree keeps what a sparse checkout leaves out.
        work.run(top, &["read-tree", "-m", "-i", &refs.index_tree])?;
        // Its status says whether files differ from the index.
        let _ = work.asked(top, &["update-index", "-q", "--refresh"])?;
        work.run(top, &["update-ref", &self.branch(), &refs.tip])?;
        match refs.is_on_branch {
            true => work.run(top, &["symbolic-ref", "HEAD", &self.branch()])?,
            false => work.run(top, &["update-ref", "--no-deref", "HEAD", &refs.head])?,
        };
        self.forget_pending()
    }

    /// Returns the state after a change to `state`, which git may see in another way. If something else
    /// was changed since, returns `state`: the next exchange finds that then.
    pub(super) fn after_change(&self, state: &str) -> Result<String, Error> {
        let present = self.pack()?.state;
        if present == state {
            return Ok(present);
        }
        let differences = self.differences(&present, state)?;
        let alike = [self.alike(&differences, &[])?, self.alike(&differences, &["--no-filters"])?].concat();
        let is_seen_so = differences.iter().all(|one| alike.contains(&one.name));
        let is_same = is_seen_so && self.refs(&present)? == self.refs(state)?;
        Ok(if is_same { present } else { state.to_owned() })
    }

    fn file_changes(&self, present: &str, state: &str) -> Result<FileChanges, Error> {
        let top = &self.found.path;
        let differences = self.differences(present, state)?;
        // Such as other line ends: git would not see the change.
        let alike = self.alike(&differences, &[])?;
        let mut changes = FileChanges::default();
        for one in &differences {
            match one.kind {
                b'D' => drop(changes.removed.insert(path(&one.name).to_owned())),
                _ if alike.contains(&one.name) => {}
                _ => {
                    changes.written.extend_from_slice(&one.name);
                    changes.written.push(0);
                }
            }
        }
        for one in differences.iter().filter(|one| matches!(one.kind, b'A' | b'T')) {
            let name = path(&one.name);
            // A file or link that changes its type is of the present state.
            let is_own = one.kind == b'T' && !top.join(name).is_dir();
            if let Some(other) = in_the_way(top, name, &changes.removed).filter(|_| !is_own) {
                let message = format!("{} is unknown to git, and would be lost", other.display());
                return Err(errors::busy("ignored", message)
                    .with("path", top.join(&other).display().to_string())
                    .recommend("move it away, and try again"));
            }
        }
        Ok(changes)
    }

    fn differences(&self, present: &str, state: &str) -> Result<Vec<Difference>, Error> {
        let args = ["diff-tree", "-r", "-z", "--raw", "--no-abbrev", "--no-renames", present, state];
        let differs = self.work.run(&self.found.path, &args)?;
        let (mut fields, mut found) = (parts(&differs), Vec::new());
        while let (Some(facts), Some(name)) = (fields.next(), fields.next()) {
            let facts = String::from_utf8_lossy(facts).into_owned();
            let words: Vec<&str> = facts.trim_start_matches(':').split(' ').collect();
            let [before, after, _, id, kind] = words[..] else { continue };
            found.push(Difference {
                name: name.to_owned(),
                modes: [before.to_owned(), after.to_owned()],
                id: id.to_owned(),
                kind: kind.bytes().next().unwrap_or_default(),
            });
        }
        Ok(found)
    }

    /// Returns the files on disk that git would store as the second state has them.
    fn alike(&self, differences: &[Difference], more: &[&str]) -> Result<Vec<Vec<u8>>, Error> {
        let top = &self.found.path;
        let is_file = |one: &&Difference| {
            let name = path(&one.name);
            let is_plain = !one.name.contains(&b'\n') && !one.name.starts_with(b"\"");
            let meta = top.join(name).symlink_metadata();
            one.modes[0] == one.modes[1]
                && one.modes[0].starts_with(REGULAR)
                && is_plain
                && meta.is_ok_and(|meta| meta.is_file())
                && !is_below_link(top, name)
        };
        let files: Vec<&Difference> = differences.iter().filter(is_file).collect();
        if files.is_empty() {
            return Ok(Vec::new());
        }
        let input: Vec<u8> = files.iter().flat_map(|one| [&one.name[..], b"\n"].concat()).collect();
        let args = [&["hash-object", "--stdin-paths"], more].concat();
        let ids = self.work.feed(&self.work.git(top), &args, &input)?;
        let alike = files.into_iter().zip(lines(&ids)).filter(|(one, id)| one.id == *id);
        Ok(alike.map(|(one, _)| one.name.clone()).collect())
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

/// Returns what the state does not have, and what lies where a new file is written: a file or link in
/// place of a folder above it, the file itself, or anything below a folder in its place.
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
