//! A copy of a folder, for a workspace without git. It lies where worktrees do, and has the same
//! operations. Changes are taken file by file.

// `worktree.repository` is the folder of all copies. It has, besides the copy `NAME`:
//
// - `.NAME.base`: the files at the start of the changes; the copy is complete.
// - `.NAME.new`, `.NAME.removing`: a copy that is being made or removed.
// - `.lock`: held while one of the copies is merged or landed.
// - `.retired/NAME/TIME`: a discarded copy.

mod make;
mod manifest;
mod merge;
mod patch;
mod prune;
#[cfg(test)]
mod tests;
pub(super) mod tree;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use subagent_protocol::time::Timestamp;
use subagent_protocol::worktree::{Contents, MAX_NAMES, Operation, Setup, Worktree, WorktreeResult};
use subagent_protocol::{Code, Error};

use make::create;
pub(super) use make::{folder, plan};
use merge::{land, merge};
pub(super) use patch::changed_files;
pub(super) use prune::prune;

use super::exclusive::exclusively;
use super::work::{OperationContext, step};
use super::{errors, usable};
use manifest::{Files, ManifestEntry};

/// The folder of discarded copies.
const RETIRED: &str = ".retired";

/// A path that differs from the base.
struct Change<'a> {
    name: &'a [u8],
    before: Option<&'a ManifestEntry>,
    after: Option<&'a ManifestEntry>,
}

fn changes<'a>(base: &'a Files, present: &'a Files) -> Vec<Change<'a>> {
    let gone = base.keys().filter(|name| !present.contains_key(*name));
    let mut names: Vec<&Vec<u8>> = present.keys().chain(gone).collect();
    names.sort();
    let change = |name: &'a Vec<u8>| Change { name, before: base.get(name), after: present.get(name) };
    names.into_iter().map(change).filter(|change| change.before != change.after).collect()
}

fn text(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}

fn hidden(worktree: &Worktree, what: &str) -> PathBuf {
    worktree.repository.join(format!(".{}.{what}", worktree.name))
}

/// Carries out an operation on a copy; `None` for one on a git worktree.
pub(super) fn answer(
    work: &OperationContext<'_>,
    operation: &Operation,
) -> Option<Result<WorktreeResult, Error>> {
    let (name, worktree) = match operation {
        Operation::Create { worktree, .. } => ("create", worktree),
        Operation::Setup { worktree, .. } => ("setup", worktree),
        Operation::Look { worktree } => ("look", worktree),
        Operation::Remove { worktree } => ("remove", worktree),
        Operation::Discard { worktree, .. } => ("discard", worktree),
        Operation::Land { worktree, .. } => ("land", worktree),
        Operation::Merge { worktree, .. } => ("merge", worktree),
        Operation::Plan { .. }
        | Operation::Recover { .. }
        | Operation::Prune { .. }
        | Operation::Pack { .. }
        | Operation::Unpack { .. }
        | Operation::Forget { .. }
        | Operation::GiveUp { .. }
        | Operation::PruneCopies { .. } => return None,
    };
    let copied = worktree.copied.as_ref()?;
    if matches!(operation, Operation::Create { .. }) {
        if let Err(error) = fs::create_dir_all(&worktree.repository) {
            return Some(Err(errors::file(&worktree.repository, &error)));
        }
    } else if !worktree.repository.is_dir() {
        // Its disk may be absent: the copies are not gone.
        let error = errors::not_found(&worktree.repository, "the folder of the copies is gone");
        let action = "mount its disk; if its copies are lost, create an empty folder there";
        return Some(Err(error.recommend(action)));
    }
    Some(exclusively(work, name, worktree, |work| match operation {
        Operation::Create { setup, .. } => {
            create(work, worktree, copied)?;
            self::setup(work, worktree, setup)
        }
        Operation::Setup { setup, .. } => self::setup(work, worktree, setup),
        Operation::Remove { .. } => remove(worktree),
        Operation::Discard { time, .. } => discard(worktree, *time),
        Operation::Land { landing, .. } => land(work, worktree, landing),
        Operation::Merge { landing, .. } => merge(work, worktree, landing),
        _ => look(worktree).map(WorktreeResult::Found),
    }))
}

/// Runs the setup commands. The files to copy are there already.
fn setup(work: &OperationContext<'_>, worktree: &Worktree, setup: &Setup) -> Result<WorktreeResult, Error> {
    for command in &setup.commands {
        step();
        if let Some(failed) = run(work, worktree, command)? {
            let message = format!("the setup command `{command}` failed in {}", worktree.path.display());
            return Err(failed.into_error(Code::WorktreeSetupFailed, message, command));
        }
    }
    Ok(WorktreeResult::Ready)
}

/// Runs a command of the user in the copy, in the sandbox of its agent.
fn run(
    work: &OperationContext<'_>,
    worktree: &Worktree,
    command: &str,
) -> Result<Option<usable::Failed>, Error> {
    let Some(sandbox) = &worktree.sandbox else {
        return usable::run(work, worktree, &worktree.path, command);
    };
    let internal = |problem: String| Error::new(Code::Internal, problem);
    let program = work.runtime().map_err(|error| internal(error.to_string()))?;
    let sandbox = serde_json::to_string(sandbox).map_err(|error| internal(error.to_string()))?;
    let args = subagent_sandbox::arguments(&sandbox, None, "sh".as_ref(), &["-c".into(), command.into()]);
    let words = std::iter::once(program.into_os_string()).chain(args).map(|word| word.into_string());
    let words =
        words.collect::<Result<Vec<_>, _>>().map_err(|_| internal("a path is not UTF-8".to_owned()))?;
    usable::run(work, worktree, &worktree.path, &format!("exec {}", shell_words::join(words)))
}

fn look(worktree: &Worktree) -> Result<Contents, Error> {
    match worktree.path.symlink_metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound && worktree.repository.is_dir() => {
            return Ok(Contents::default());
        }
        Err(error) => return Err(errors::file(&worktree.path, &error)),
        Ok(_) => {}
    }
    // Without a base nothing proves that a file exists elsewhere.
    let base = manifest::read(worktree)?.unwrap_or_default();
    let present = manifest::files(&worktree.path, &[])?;
    let changes = changes(&base, &present);
    let count = changes.len() as u64;
    let names = changes.iter().take(MAX_NAMES).map(|change| text(change.name)).collect();
    Ok(Contents { exists: true, files: count, uncommitted: count, names, ..Contents::default() })
}

/// Removes the copy if it has no changes.
fn remove(worktree: &Worktree) -> Result<WorktreeResult, Error> {
    let contents = look(worktree)?;
    if contents.files > 0 {
        return Ok(WorktreeResult::Found(contents));
    }
    remove_all(worktree)?;
    Ok(WorktreeResult::Removed)
}

/// Removes the copy with its base. Nothing in it differs from the base.
fn remove_all(worktree: &Worktree) -> Result<(), Error> {
    let removing = hidden(worktree, "removing");
    delete(&removing)?;
    step();
    match fs::rename(&worktree.path, &removing) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(errors::file(&worktree.path, &error));
        }
        _ => {}
    }
    step();
    manifest::delete(worktree)?;
    delete(&hidden(worktree, "new"))?;
    step();
    delete(&removing)
}

/// Moves the copy aside if it has changes. Returns its new path.
fn discard(worktree: &Worktree, time: Timestamp) -> Result<WorktreeResult, Error> {
    let folder = worktree.repository.join(RETIRED).join(&worktree.name);
    let is_gone =
        worktree.path.symlink_metadata().is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
    if is_gone && manifest::read(worktree)?.is_some() {
        // An earlier attempt was killed after it had moved the copy.
        let mut moved: Vec<_> = fs::read_dir(&folder).into_iter().flatten().flatten().collect();
        moved.sort_by_key(fs::DirEntry::file_name);
        remove_all(worktree)?;
        return Ok(WorktreeResult::Discarded(moved.last().map(|entry| entry.path().display().to_string())));
    }
    // A copy that cannot be read may have changes.
    if look(worktree).is_ok_and(|contents| contents.files == 0) {
        remove_all(worktree)?;
        return Ok(WorktreeResult::Discarded(None));
    }
    let to = folder.join(time.0.to_string());
    fs::create_dir_all(&folder).map_err(|error| errors::file(&folder, &error))?;
    step();
    move_aside(&worktree.path, &to).map_err(|error| errors::file(&to, &error))?;
    remove_all(worktree)?;
    Ok(WorktreeResult::Discarded(Some(to.display().to_string())))
}

/// Moves a copy, also one whose folder the agent has made unwritable.
fn move_aside(from: &Path, to: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    match fs::rename(from, to) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            fs::set_permissions(from, fs::Permissions::from_mode(0o700))?;
            fs::rename(from, to)
        }
        other => other,
    }
}

/// Deletes a folder, also one whose folders the agent has made unwritable.
fn delete(path: &Path) -> Result<(), Error> {
    let removed = match fs::remove_dir_all(path) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            make_writable(path).and_then(|()| fs::remove_dir_all(path))
        }
        other => other,
    };
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(errors::file(path, &error)),
        _ => Ok(()),
    }
}

fn make_writable(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(path, fs::Permissions::from_mode(0o700))?;
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            make_writable(&entry.path())?;
        }
    }
    Ok(())
}
