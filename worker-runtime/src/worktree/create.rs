//! `Create`: the branch, the worktree and its files. Skips completed steps and undoes a failure.

use std::fs;
use std::path::Path;

use subagent_protocol::Error;
use subagent_protocol::worktree::Worktree;

use super::land::landed;
use super::registration::{OURS, Registration};
use super::work::{OperationContext, line, step};
use super::{errors, modules, own, plan};

pub(super) fn create(work: &OperationContext<'_>, worktree: &Worktree) -> Result<(), Error> {
    let top = &worktree.main;
    if !top.is_dir() {
        return Err(errors::not_found(top, "the work tree of the repository is gone"));
    }
    let _ = plan::version(work, top)?;
    if let Some(found) = Registration::find(worktree)?.filter(Registration::is_whole) {
        if !found.path.is_dir() {
            return Err(errors::not_found(&found.path, "the folder of the worktree is gone"));
        }
        // Its submodules exist too. The files may have changed since.
        return Ok(());
    }
    if worktree.sandbox.is_some() && own::create::is_whole(worktree) {
        return Ok(());
    }
    let name = format!("refs/heads/{}", worktree.branch);
    let tip = tip(work, worktree)?;
    // A branch from an earlier attempt still points to the base.
    let is_ours = work.was_killed() && tip.as_ref() == Some(&worktree.base);
    if tip.is_some() && !is_ours {
        return Err(errors::exists("branch", &worktree.branch));
    }
    clear(work, worktree)?;
    landed::forget(worktree);
    if tip.is_none() {
        let none = "0".repeat(worktree.base.len());
        work.run(&worktree.repository, &["update-ref", &name, &worktree.base, &none])?;
    }
    let made = match worktree.sandbox {
        Some(_) => own::create::make(work, worktree),
        None => make(work, worktree),
    };
    made.inspect_err(|_| {
        // The original error counts. The next attempt finds remaining files.
        let _ = clear_made(work, worktree).and_then(|()| {
            work.run(&worktree.repository, &["update-ref", "-d", &name, &worktree.base]).map(drop)
        });
    })
}

/// Returns the commit of the branch.
pub(super) fn tip(work: &OperationContext<'_>, worktree: &Worktree) -> Result<Option<String>, Error> {
    let name = format!("refs/heads/{}", worktree.branch);
    let tip = work.asked(&worktree.repository, &["rev-parse", "--verify", "--quiet", &name])?;
    Ok(tip.map(|id| line(&id)))
}

fn make(work: &OperationContext<'_>, worktree: &Worktree) -> Result<(), Error> {
    let path = worktree.path.as_os_str();
    let add = ["worktree", "add", "--quiet", "--no-checkout"].map(AsRef::as_ref);
    let add: Vec<&std::ffi::OsStr> = add.into_iter().chain([path, worktree.branch.as_ref()]).collect();
    work.run(&worktree.main, &add)?;
    let found = Registration::find(worktree)?
        .ok_or_else(|| errors::not_found(&worktree.path, "git does not know the worktree it has made"))?;
    keep_sparse(work, worktree, &found)?;
    work.run(&worktree.path, &["reset", "--quiet", "--hard"])?;
    modules::initialise(work, worktree, &found)?;
    found.write(OURS, worktree.name.as_bytes())
}

/// Copies the sparse checkout: it is a setting of each work tree, which older versions of
/// git do not copy.
fn keep_sparse(work: &OperationContext<'_>, worktree: &Worktree, found: &Registration) -> Result<(), Error> {
    let patterns = line(&work.run(&worktree.main, &["rev-parse", "--git-path", "info/sparse-checkout"])?);
    let (from, to) = (worktree.main.join(patterns), found.admin.join("info/sparse-checkout"));
    if !from.exists() || to.exists() {
        return Ok(());
    }
    let copied = to.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::copy(&from, &to));
    copied.map(drop).map_err(|error| errors::file(&to, &error))
}

/// Removes the remains of a killed attempt. Refuses files and branches that are not ours.
fn clear(work: &OperationContext<'_>, worktree: &Worktree) -> Result<(), Error> {
    let taken = || errors::exists("path", &worktree.path.display().to_string());
    let is_empty = |path: &Path| fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none());
    let is_there = worktree.path.symlink_metadata().is_ok();
    if work.was_killed() {
        return clear_made(work, worktree).and_then(|()| match worktree.path.symlink_metadata() {
            Ok(_) if !is_empty(&worktree.path) => Err(taken()),
            _ => Ok(()),
        });
    }
    if Registration::find(worktree)?.is_some() || (is_there && !is_empty(&worktree.path)) {
        return Err(taken());
    }
    Ok(())
}

/// Removes the registration and files of an unfinished worktree. No agent has used them.
fn clear_made(work: &OperationContext<'_>, worktree: &Worktree) -> Result<(), Error> {
    let removed = |path: &Path| match fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(errors::file(path, &error)),
        _ => Ok(()),
    };
    if let Some(found) = Registration::find(worktree)? {
        // Another commit means that it is another worktree.
        let head = found.read("HEAD").unwrap_or_default();
        let head = String::from_utf8_lossy(&head).trim().to_owned();
        let is_new = head.is_empty() || head.bytes().all(|byte| byte == b'0');
        if !is_new && head != format!("ref: refs/heads/{}", worktree.branch) {
            return Err(errors::exists("path", &worktree.path.display().to_string()));
        }
        step();
        removed(&worktree.path)?;
        step();
        return removed(&found.admin);
    }
    if worktree.sandbox.is_some() {
        // An incomplete separate repository.
        step();
        return removed(&worktree.path);
    }
    if !work.was_killed() {
        return Ok(());
    }
    // Killed before git recorded the worktree's location.
    let name = worktree.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    for entry in fs::read_dir(worktree.repository.join("worktrees")).into_iter().flatten().flatten() {
        let (id, admin) = (entry.file_name(), entry.path());
        let is_ours = id
            .to_string_lossy()
            .strip_prefix(&name)
            .is_some_and(|rest| rest.bytes().all(|b| b.is_ascii_digit()));
        let begun = fs::read(admin.join("locked")).is_ok_and(|text| text.starts_with(b"initializing"));
        let is_empty = fs::read_dir(&admin).is_ok_and(|mut entries| entries.next().is_none());
        if is_ours && !admin.join("gitdir").exists() && (begun || is_empty) {
            removed(&admin)?;
        }
    }
    Ok(())
}
