//! Creates the repository. No agent has touched its content yet.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::Path;

use subagent_protocol::Error;
use subagent_protocol::worktree::{BRANCH_PREFIX, Worktree};

use super::super::commits::lines;
use super::super::errors;
use super::super::work::{OperationContext, line, step};

/// Settings of the main repository itself, from any file, that also apply to this one.
const TAKEN: [&str; 5] =
    ["user.name", "user.email", "core.sparseCheckout", "core.sparseCheckoutCone", "extensions.partialClone"];

/// A file in the git directory that marks the repository as complete.
const WHOLE: &str = "subagent-whole";

/// Whether the repository was created completely.
pub(in super::super) fn is_whole(worktree: &Worktree) -> bool {
    worktree.from_inside().repository.join(WHOLE).symlink_metadata().is_ok()
}

/// Files of the main repository or its work tree that git reads in each repository.
const TAKEN_FILES: [&str; 4] = ["shallow", "info/sparse-checkout", "info/exclude", "info/attributes"];

pub(in super::super) fn make(work: &OperationContext<'_>, worktree: &Worktree) -> Result<(), Error> {
    let (main, path) = (&worktree.repository, &worktree.path);
    let own = worktree.from_inside().repository;
    path.parent().map_or(Ok(()), fs::create_dir_all).map_err(|error| errors::file(path, &error))?;
    let format = line(&work.run(main, &["rev-parse", "--show-object-format"])?);
    let format = format!("--object-format={format}");
    let args = ["init", "--quiet", "--template=", &format, "--"].map(OsStr::new).into_iter();
    let mut git = work.git(main);
    git.places = vec![("GIT_DEFAULT_REF_FORMAT", "files".into())];
    work.feed(&git, &args.chain([path.as_os_str()]).collect::<Vec<_>>(), b"")?;
    write(
        &own,
        "objects/info/alternates",
        &[main.join("objects").as_os_str().as_encoded_bytes(), b"\n"].concat(),
    )?;
    write(&own, "packed-refs", &refs(work, worktree)?)?;
    for file in TAKEN_FILES {
        let from = line(&work.run(&worktree.main, &["rev-parse", "--git-path", file])?);
        match fs::read(worktree.main.join(from)) {
            Ok(text) => write(&own, file, &text)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(errors::file(&own.join(file), &error)),
        }
    }
    settings(work, worktree)?;
    let branch = format!("refs/heads/{}", worktree.branch);
    work.run(path, &["update-ref", &branch, &worktree.base])?;
    work.run(path, &["symbolic-ref", "HEAD", &branch])?;
    work.run(path, &["reset", "--quiet", "--hard"])?;
    write(&own, WHOLE, worktree.name.as_bytes())
}

/// Returns the branches and tags of the main repository, without those of other workers.
fn refs(work: &OperationContext<'_>, worktree: &Worktree) -> Result<Vec<u8>, Error> {
    let args =
        ["for-each-ref", "--format=%(objectname) %(refname)", "refs/heads/", "refs/remotes/", "refs/tags/"];
    let others = format!("refs/heads/{BRANCH_PREFIX}");
    let all = work.run(&worktree.repository, &args)?;
    let shared =
        lines(&all).filter(|line| line.split_once(' ').is_some_and(|(_, name)| !name.starts_with(&others)));
    Ok(shared.map(|line| line + "\n").collect::<String>().into_bytes())
}

/// Writes its settings: it includes those of the main repository and adds some of its own.
fn settings(work: &OperationContext<'_>, worktree: &Worktree) -> Result<(), Error> {
    let (main, path) = (&worktree.repository, &worktree.path);
    let hooks = main.join("hooks");
    let set =
        |name: &str, value: &OsStr| work.run(path, &[OsStr::new("config"), name.as_ref(), value]).map(drop);
    // The main repository's settings come later and override this.
    set("core.hooksPath", hooks.as_os_str())?;
    set("include.path", main.join("config").as_os_str())?;
    for name in TAKEN {
        if let Some(value) = work.asked(&worktree.main, &["config", "--get", name])? {
            set(name, line(&value).as_ref())?;
        }
    }
    Ok(())
}

fn write(own: &Path, name: &str, text: &[u8]) -> Result<(), Error> {
    let path = own.join(name);
    step();
    let made = path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(&path, text));
    made.map_err(|error| errors::file(&path, &error))
}
