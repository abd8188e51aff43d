//! `Plan`: the sources of a new worktree.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use subagent_protocol::Error;
use subagent_protocol::worktree::{BRANCH_PREFIX, Plan};

use super::scratch::Scratch;
use super::work::{OperationContext, WAIT_LIMITS, line};
use super::{errors, identity, status};
use crate::git::GitFailure;

/// The oldest supported version of git.
const OLDEST: (u32, u32) = (2, 30);
/// The message of the commit of uncommitted changes.
const MESSAGE: &str = "Changes that were not committed";

pub(super) struct WorktreeRequest {
    pub(super) branch: Option<String>,
    pub(super) base: Option<String>,
    pub(super) with_changes: bool,
}

/// The work tree around a folder.
pub(super) struct EnclosingWorkTree {
    top: PathBuf,
    git_dir: PathBuf,
    repository: PathBuf,
    prefix: PathBuf,
}

pub(super) fn plan(
    work: &OperationContext<'_>,
    cwd: &Path,
    root: &Path,
    wanted: &WorktreeRequest,
) -> Result<Plan, Error> {
    if !cwd.is_dir() {
        return Err(errors::argument("cwd", format!("the folder {} does not exist", cwd.display())));
    }
    let _ = version(work, cwd)?;
    let found = find(work, cwd)?;
    refuse_inside(&found, root)?;
    let Some((head, source_branch)) = head(work, &found.top)? else {
        return Err(errors::needs_git("noCommit", "the repository has no commit yet")
            .recommend("make a first commit with `git commit`"));
    };
    let base = match &wanted.base {
        Some(base) => base_of(work, &found.top, base)?,
        None => head.clone(),
    };
    if let Some(branch) = &wanted.branch {
        refuse_invalid(work, &found.top, branch)?;
    }
    let name = wanted.branch.clone().unwrap_or_else(|| format!("{BRANCH_PREFIX}name"));
    let branches = branches_near(work, &found.top, &name)?;
    refuse_taken(&branches, &name, wanted.branch.as_deref())?;
    let folder = root.join(folder_name(&found));
    let taken = taken(&branches, &folder);
    let identity_missing = identity::is_missing(work, &found.top)?;
    let base = match wanted.with_changes {
        true if base != head => {
            return Err(errors::argument("base", "uncommitted changes can only be included on top of HEAD"));
        }
        true => with_changes(work, &found, &head, identity_missing)?,
        false => base,
    };
    Ok(Plan {
        repository: found.repository,
        main: found.top,
        folder,
        prefix: found.prefix,
        // Without uncommitted changes the base is `HEAD`.
        with_changes: wanted.with_changes && base != head,
        copied: None,
        base,
        source_branch,
        identity_missing,
        taken,
    })
}

/// Refuses a folder of worktrees in the repository: build tools and editors would find them.
fn refuse_inside(found: &EnclosingWorkTree, root: &Path) -> Result<(), Error> {
    let existing = root.ancestors().find_map(|folder| folder.canonicalize().ok()).unwrap_or_default();
    if existing.starts_with(&found.top) || existing.starts_with(&found.repository) {
        let message = format!("worktrees cannot lie in {}, inside of their repository", root.display());
        return Err(errors::argument("worktrees.dir", message)
            .recommend("set `worktrees.dir` in the config to a folder outside of the repository"));
    }
    Ok(())
}

/// Returns the version of git, if it is new enough.
pub(super) fn version(work: &OperationContext<'_>, folder: &Path) -> Result<(u32, u32), Error> {
    if let Some(version) = work.git_version().get() {
        return Ok(*version);
    }
    let text = line(&work.run(folder, &["version"])?);
    let mut numbers = text.split(|char: char| !char.is_ascii_digit()).filter_map(|part| part.parse().ok());
    let version = numbers.next().zip(numbers.next()).unwrap_or((0, 0));
    if version < OLDEST {
        let message = format!("worktrees need git {}.{} or newer; this is: {text}", OLDEST.0, OLDEST.1);
        return Err(errors::needs_git("tooOld", message));
    }
    Ok(*work.git_version().get_or_init(|| version))
}

/// Finds the common git directory of the repository around a folder.
///
/// # Errors
///
/// `WORKTREE_NEEDS_GIT{reason}`, or `GIT_FAILED` for other failures.
pub fn repository(folder: &Path, env: &[(OsString, OsString)]) -> Result<PathBuf, Error> {
    Ok(find(&OperationContext::new(env, WAIT_LIMITS), folder)?.repository)
}

pub(super) fn find(work: &OperationContext<'_>, cwd: &Path) -> Result<EnclosingWorkTree, Error> {
    let paths = match paths_at_once(work, cwd)? {
        Some(paths) => paths,
        None => paths_one_by_one(work, cwd)?,
    };
    let [top, git_dir, common, prefix] = paths;
    let common = cwd.join(common);
    let repository = common.canonicalize().map_err(|error| errors::file(&common, &error))?;
    Ok(EnclosingWorkTree { top, git_dir, repository, prefix: prefix.components().collect() })
}

/// The paths of a work tree that git names.
const PATHS: [&str; 4] = ["--show-toplevel", "--absolute-git-dir", "--git-common-dir", "--show-prefix"];

/// Asks for all paths with one process. Returns `None` outside of a work tree, and for paths with
/// line ends.
fn paths_at_once(work: &OperationContext<'_>, cwd: &Path) -> Result<Option<[PathBuf; 4]>, Error> {
    let facts = ["rev-parse", "--is-bare-repository", "--is-inside-work-tree"];
    let args: Vec<&str> = facts.into_iter().chain(PATHS).collect();
    let answer = work.asked(cwd, &args)?.unwrap_or_default();
    let lines: Vec<&[u8]> = answer.split(|byte| *byte == b'\n').collect();
    Ok(match lines[..] {
        [b"false", b"true", top, git_dir, common, prefix, b""] => {
            Some([top, git_dir, common, prefix].map(|bytes| OsString::from_vec(bytes.to_vec()).into()))
        }
        _ => None,
    })
}

/// Asks for each path. Refuses a folder outside of a work tree.
fn paths_one_by_one(work: &OperationContext<'_>, cwd: &Path) -> Result<[PathBuf; 4], Error> {
    let asked =
        work.ask(&work.git(cwd), &["rev-parse", "--is-bare-repository", "--is-inside-work-tree"], b"")?;
    let answer = match asked {
        Ok(answer) => line(&answer),
        Err(GitFailure::Refused { stderr, .. }) if stderr.contains("not a git repository") => {
            let message = format!("{} is in no git repository", cwd.display());
            return Err(errors::needs_git("noRepository", message));
        }
        // For example another user's repository: git's message says what to do.
        Err(failure) => return Err(failure.into()),
    };
    match &*answer {
        "false\ntrue" => {}
        "true\nfalse" => {
            let message = format!("{} is in a bare repository", cwd.display());
            return Err(errors::needs_git("bare", message));
        }
        _ => {
            let message = format!("{} is in no work tree of a git repository", cwd.display());
            return Err(errors::needs_git("noRepository", message));
        }
    }
    let mut paths = PATHS.map(|_| PathBuf::new());
    for (path, what) in paths.iter_mut().zip(PATHS) {
        let mut bytes = work.run(cwd, &["rev-parse", what])?;
        let _ = bytes.pop();
        *path = OsString::from_vec(bytes).into();
    }
    Ok(paths)
}

/// Returns the commit that is checked out, and its branch if there is one.
fn head(work: &OperationContext<'_>, top: &Path) -> Result<Option<(String, Option<String>)>, Error> {
    let args = ["rev-parse", "HEAD^{commit}", "--symbolic-full-name", "HEAD"];
    let Some(answer) = work.asked(top, &args)? else { return Ok(None) };
    let answer = line(&answer);
    let (commit, name) = answer.split_once('\n').unwrap_or((answer.as_str(), ""));
    Ok(Some((commit.to_owned(), name.strip_prefix("refs/heads/").map(str::to_owned))))
}

fn commit(work: &OperationContext<'_>, top: &Path, name: &str) -> Result<Option<String>, Error> {
    let name = format!("{name}^{{commit}}");
    Ok(work.asked(top, &["rev-parse", "--verify", "--quiet", &name])?.map(|id| line(&id)))
}

fn base_of(work: &OperationContext<'_>, top: &Path, base: &str) -> Result<String, Error> {
    let unknown = || errors::argument("base", format!("`{base}` names no commit"));
    if base.is_empty() || base.starts_with('-') {
        return Err(unknown());
    }
    commit(work, top, base)?.ok_or_else(unknown)
}

fn refuse_invalid(work: &OperationContext<'_>, top: &Path, branch: &str) -> Result<(), Error> {
    let name = format!("refs/heads/{branch}");
    let valid = !branch.starts_with('-') && branch != "HEAD";
    if !valid || work.asked(top, &["check-ref-format", &name])?.is_none() {
        return Err(errors::argument("branch", format!("`{branch}` is no name for a branch")));
    }
    Ok(())
}

/// Returns the branches of the parts of a name, those below it, and ours.
fn branches_near(work: &OperationContext<'_>, top: &Path, name: &str) -> Result<Vec<String>, Error> {
    let mut args = vec!["for-each-ref".to_owned(), "--format=%(refname)".to_owned()];
    let names = [name, BRANCH_PREFIX].into_iter().chain(parents(name));
    args.extend(names.map(|name| format!("refs/heads/{name}")));
    let found = String::from_utf8_lossy(&work.run(top, &args)?).into_owned();
    Ok(found.lines().filter_map(|name| name.strip_prefix("refs/heads/")).map(str::to_owned).collect())
}

/// Returns the parts of a branch's name that no branch can have beside it.
fn parents(name: &str) -> impl Iterator<Item = &str> {
    Path::new(name).ancestors().skip(1).filter_map(Path::to_str).filter(|name| !name.is_empty())
}

/// Refuses a branch that exists or conflicts with an existing one: `a` and
/// `a/b` exclude each other.
fn refuse_taken(branches: &[String], name: &str, branch: Option<&str>) -> Result<(), Error> {
    for found in branches.iter().map(String::as_str) {
        let is_below =
            branch.is_some_and(|branch| found.strip_prefix(branch).is_some_and(|rest| rest.starts_with('/')));
        if branch == Some(found) || is_below || parents(name).any(|parent| parent == found) {
            return Err(errors::exists("branch", found));
        }
    }
    Ok(())
}

/// Returns `REPOSITORY-HASH`, the same for all work trees of a repository.
fn folder_name(found: &EnclosingWorkTree) -> String {
    let of_main = found.repository.file_name().is_some_and(|name| name == ".git");
    let named = if of_main { found.repository.parent() } else { Some(&*found.repository) };
    let name = named.and_then(Path::file_name).unwrap_or_default().to_string_lossy();
    let name = name.strip_suffix(".git").unwrap_or(&name);
    folder_of(name, &found.repository)
}

/// Returns `NAME-HASH` for a repository or folder.
pub(super) fn folder_of(name: &str, identity: &Path) -> String {
    let safe = |char: char| if char.is_ascii_alphanumeric() || "._-".contains(char) { char } else { '-' };
    let name: String = name.trim_start_matches(['.', '-']).chars().map(safe).take(48).collect();
    let name = if name.is_empty() { "repository" } else { &*name };
    format!("{name}-{:08x}", crc32c::crc32c(identity.as_os_str().as_encoded_bytes()))
}

/// Returns the names of worktrees that have a folder or a branch.
fn taken(branches: &[String], folder: &Path) -> Vec<String> {
    let mut taken = BTreeSet::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if !name.starts_with('.') {
            taken.insert(name);
        }
    }
    for branch in branches {
        let name = branch.strip_prefix(BRANCH_PREFIX).and_then(|name| name.split('/').next());
        taken.extend(name.map(str::to_owned));
    }
    taken.into_iter().collect()
}

/// Returns a commit of uncommitted changes on top of `HEAD`, or `HEAD` without
/// any. Writes only objects.
fn with_changes(
    work: &OperationContext<'_>,
    found: &EnclosingWorkTree,
    head: &str,
    identity_missing: bool,
) -> Result<String, Error> {
    status::refuse_under_way(work, &found.top, &found.git_dir)?;
    let scratch = Scratch::new(&found.repository)?;
    let mut git = status::with_own_index(work, &found.top, &found.git_dir, &scratch)?.git;
    if identity_missing {
        // A landing omits this commit.
        git.places.extend(identity::ours());
    }
    work.feed(&git, &["add", "--all", "--", "."], b"")?;
    let tree = line(&work.feed(&git, &["write-tree"], b"")?);
    if Some(&tree) == commit_tree(work, &found.top, head)?.as_ref() {
        return Ok(head.to_owned());
    }
    let commit = work.feed(&git, &["commit-tree", &tree, "-p", head, "-F", "-"], MESSAGE.as_bytes())?;
    Ok(line(&commit))
}

/// Returns the tree of a commit.
pub(super) fn commit_tree(
    work: &OperationContext<'_>,
    folder: &Path,
    commit: &str,
) -> Result<Option<String>, Error> {
    let name = format!("{commit}^{{tree}}");
    Ok(work.asked(folder, &["rev-parse", "--verify", "--quiet", &name])?.map(|id| line(&id)))
}
