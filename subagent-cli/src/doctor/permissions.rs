//! Checks access rights of our files. Examines links themselves: reports them and never follows them.

use std::fs::{self, Metadata, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::unistd::{AccessFlags, access};
use subagent_config::runtime_dir::REMEMBERED;
use subagent_config::state_dir::{self, REPLACED_DATABASE, REPLACED_RUNTIMES, RESTORING_DATABASE};

use subagent_protocol::ids::WorkerId;
use subagent_protocol::work_tree;

use super::disk::quoted;
use super::facts::{DoctorFacts, StateDirStatus};
use super::finding::{CheckedPart, Finding};
use super::unseen::Unseen;

const GROUP: CheckedPart = CheckedPart::Permissions;
const STATE_DIR: &str = "permissions.stateDir";
const FILES: &str = "permissions.files";
const SOCKET_DIR: &str = "permissions.socketDir";
const PARENTS: &str = "permissions.parents";
const LOOK: &str = "permissions.look";
const GITIGNORE: &str = "permissions.gitignore";

/// Names of our files in a state dir; a user's own folder may contain others.
const OURS: [&str; 14] = [
    "state.db",
    "state.db-wal",
    "state.db-shm",
    "daemon.lock",
    "start.lock",
    "daemon.json",
    "subagentd-status.json",
    REMEMBERED,
    "logs",
    "runtimes",
    "placed",
    "handoffs",
    "launchers",
    work_tree::FOLDER,
];
const OTHERS: u32 = 0o077;
const OTHERS_MAY_WRITE: u32 = 0o002;
const STICKY: u32 = 0o1000;
/// Depth of our own files below the state dir.
const DEPTH: usize = 4;
/// Git creates read-only objects; they are deeper than this.
const DEPTH_OF_BASES: usize = 2;
/// Maximum number of examined files, and of reported ones.
const MAX_FILES: usize = 20_000;
const MAX_REPORTED: usize = 20;

pub(super) fn look(facts: &DoctorFacts) -> Vec<Finding> {
    let mut unseen = Unseen::default();
    let mut found = match facts.state {
        StateDirStatus::Outside => Vec::new(),
        StateDirStatus::Absent | StateDirStatus::Hidden(_) => vec![absent(facts)],
        StateDirStatus::There => {
            let mut found = vec![folder(facts), gitignore(facts)];
            found.extend(usable(facts));
            found.extend(parents(facts));
            found.extend(files(facts, &mut unseen));
            found
        }
    };
    found.extend(sockets(facts, &mut unseen));
    found.extend(unseen.finding(GROUP, LOOK));
    found
}

/// Reports what replaces or blocks the state dir.
fn absent(facts: &DoctorFacts) -> Finding {
    let shown = facts.state_dir.display();
    if let StateDirStatus::Hidden(why) = &facts.state {
        return Finding::problem(GROUP, STATE_DIR, format!("{shown} cannot be looked at: {why}"))
            .advise("run this as the owner of it, or set SUBAGENT_STATE_DIR to another folder");
    }
    match facts.state_dir.symlink_metadata() {
        Ok(_) => Finding::problem(GROUP, STATE_DIR, format!("{shown} is not a folder"))
            .advise("move it away, or set SUBAGENT_STATE_DIR to another folder"),
        Err(_) => {
            let above = facts.state_dir.ancestors().find(|folder| folder.exists());
            match above.map(|above| (above, access(above, AccessFlags::W_OK | AccessFlags::X_OK))) {
                Some((above, Err(error))) => {
                    let seen = format!("{shown} cannot be made: {}: {error}", above.display());
                    Finding::problem(GROUP, STATE_DIR, seen).advise(not_writable(above, error))
                }
                _ => Finding::ok(GROUP, STATE_DIR, "there is no state dir yet"),
            }
        }
    }
}

/// Checks that the state dir is writable, which also detects a read-only mount.
fn usable(facts: &DoctorFacts) -> Option<Finding> {
    let all = AccessFlags::R_OK | AccessFlags::W_OK | AccessFlags::X_OK;
    let error = access(&facts.state_dir, all).err()?;
    let seen = format!("{} cannot be written: {error}", facts.state_dir.display());
    Some(Finding::problem(GROUP, STATE_DIR, seen).advise(not_writable(&facts.state_dir, error)))
}

/// Returns advice for a folder that is not writable.
fn not_writable(folder: &Path, error: Errno) -> String {
    let folder = quoted(folder);
    let mend = match error {
        Errno::EROFS => format!("mount the file system of {folder} for writing"),
        _ => format!("make {folder} writable, run commands as its owner"),
    };
    format!("{mend}, or set SUBAGENT_STATE_DIR to another folder")
}

/// Checks the state dir itself. A folder that the user made for another purpose keeps its mode, because our
/// files in it are private.
fn folder(facts: &DoctorFacts) -> Finding {
    let own = facts.state_dir.ends_with(".subagent/state");
    match fs::symlink_metadata(&facts.state_dir) {
        Err(error) => Finding::problem(GROUP, STATE_DIR, format!("it cannot be looked at: {error}")),
        Ok(meta) => match wrong(&meta) {
            None => Finding::ok(GROUP, STATE_DIR, format!("{} is private", facts.state_dir.display())),
            Some(why) if own => mend(facts, STATE_DIR, &facts.state_dir, &meta, &why),
            Some(why) => Finding::warning(GROUP, STATE_DIR, format!("{}: {why}", facts.state_dir.display()))
                .advise(format!("if nothing else is kept there, run {}", chmod(&facts.state_dir, &meta))),
        },
    }
}

fn gitignore(facts: &DoctorFacts) -> Finding {
    let own = facts.state_dir.ends_with(".subagent/state");
    if !own || facts.state_dir.join(".gitignore").symlink_metadata().is_ok() {
        return Finding::ok(GROUP, GITIGNORE, "git leaves the state dir alone");
    }
    let seen = "the state dir has no .gitignore: a commit could take it in";
    if !facts.fix {
        return Finding::warning(GROUP, GITIGNORE, seen)
            .advise(format!("make one with {}", facts.fix_command()));
    }
    match state_dir::ignore_in_git(&facts.state_dir) {
        Ok(()) => Finding::fixed(GROUP, GITIGNORE, format!("{seen}; it was made")),
        Err(error) => Finding::problem(GROUP, GITIGNORE, format!("{seen}, and none can be made: {error}")),
    }
}

/// Checks the parents: with write access to one, another user can replace the state dir.
fn parents(facts: &DoctorFacts) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut child = fs::symlink_metadata(&facts.state_dir).ok();
    for folder in facts.state_dir.ancestors().skip(1) {
        let meta = fs::symlink_metadata(folder).ok();
        if let (Some(folder_meta), Some(child)) = (&meta, &child)
            && can_be_replaced(folder_meta.mode(), child.uid())
        {
            let seen = format!("everyone may write to {}, and so replace what is in it", folder.display());
            let quoted = shell_words::quote(&folder.to_string_lossy()).into_owned();
            found.push(
                Finding::problem(GROUP, PARENTS, seen)
                    .advise(format!("run `chmod o-w {quoted}`, or move the workspace")),
            );
        }
        child = meta;
    }
    if found.is_empty() {
        found.push(Finding::ok(GROUP, PARENTS, "no other user can replace the state dir"));
    }
    found
}

/// Whether another user can replace a child with this owner in a folder of this mode.
fn can_be_replaced(folder_mode: u32, child_owner: u32) -> bool {
    let protected = folder_mode & STICKY != 0 && (child_owner == own_uid() || child_owner == 0);
    folder_mode & OTHERS_MAY_WRITE != 0 && !protected
}

fn files(facts: &DoctorFacts, unseen: &mut Unseen) -> Vec<Finding> {
    let mut seen = Vec::new();
    let mut ours: Vec<PathBuf> = OURS.iter().map(|name| facts.state_dir.join(name)).collect();
    let put_aside = [REPLACED_DATABASE, REPLACED_RUNTIMES, RESTORING_DATABASE];
    ours.extend(begin_with(&put_aside, &facts.state_dir, unseen));
    for path in &ours {
        let depth = if path.ends_with(work_tree::FOLDER) { DEPTH_OF_BASES } else { DEPTH };
        walk(path, depth, &mut seen, unseen);
    }
    let others = seen.iter().filter_map(|(path, meta)| below(facts, path, meta)).collect::<Vec<_>>();
    let count = seen.len();
    let mut found: Vec<Finding> = seen
        .into_iter()
        .filter_map(|(path, meta)| Some((wrong(&meta)?, path, meta)))
        .take(MAX_REPORTED)
        .map(|(why, path, meta)| mend(facts, FILES, &path, &meta, &why))
        .collect();
    found.extend(ours.iter().filter_map(|path| kind(path)));
    found.extend(others.into_iter().take(MAX_REPORTED));
    if found.is_empty() {
        found.push(Finding::ok(GROUP, FILES, format!("{count} files of the state dir are private")));
    }
    found
}

/// Reports a file of the wrong type under one of our names.
fn kind(path: &Path) -> Option<Finding> {
    let meta = fs::symlink_metadata(path).ok().filter(|meta| !meta.is_symlink())?;
    let name = path.file_name()?.to_string_lossy();
    let folder = ["logs", "runtimes", "placed", "handoffs", "launchers", work_tree::FOLDER].contains(&&*name)
        || name.starts_with(REPLACED_RUNTIMES);
    let fits = if folder { meta.is_dir() } else { meta.is_file() };
    (!fits).then(|| misplaced(path, if folder { "folder" } else { "file" }))
}

fn misplaced(path: &Path, what: &str) -> Finding {
    let quoted = shell_words::quote(&path.to_string_lossy()).into_owned();
    Finding::problem(GROUP, FILES, format!("{} is not a {what}", path.display()))
        .advise(format!("find out who has put it there with `ls -ld {quoted}`, then remove it"))
}

/// Reports a file of the wrong type among the files of workers.
fn below(facts: &DoctorFacts, path: &Path, meta: &Metadata) -> Option<Finding> {
    let parts: Vec<&str> =
        path.strip_prefix(&facts.state_dir).ok()?.iter().filter_map(|part| part.to_str()).collect();
    if let ["runtimes" | "placed", name] = parts.as_slice() {
        let of_worker = name.parse::<WorkerId>().is_ok();
        return (of_worker && !meta.is_dir() && !meta.is_symlink()).then(|| misplaced(path, "folder"));
    }
    let is_file = match parts.as_slice() {
        ["runtimes" | "placed", _, name] => {
            *name == "lock" || *name == "guard.lock" || name.ends_with(".journal")
        }
        ["logs", name] => name.starts_with("subagentd.log"),
        _ => return None,
    };
    (is_file && !meta.is_file() && !meta.is_symlink()).then(|| misplaced(path, "file"))
}

/// Returns the files that restores put aside in a state dir, sorted.
pub(super) fn replaced(state_dir: &Path, unseen: &mut Unseen) -> Vec<PathBuf> {
    begin_with(&[REPLACED_DATABASE, REPLACED_RUNTIMES], state_dir, unseen)
}

fn begin_with(names: &[&str], state_dir: &Path, unseen: &mut Unseen) -> Vec<PathBuf> {
    let ours = |path: &PathBuf| {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        names.iter().any(|begin| name.starts_with(begin))
    };
    unseen.entries(state_dir).into_iter().filter(ours).collect()
}

fn sockets(facts: &DoctorFacts, unseen: &mut Unseen) -> Vec<Finding> {
    let mut found = Vec::new();
    for folder in &facts.runtime_dirs {
        let files = folder.worker_files().unwrap_or_else(|error| {
            unseen.note(folder.path(), &error);
            Vec::new()
        });
        let ours = files.into_iter().map(|(_, path)| path);
        for path in [folder.path().to_owned(), folder.daemon_socket()].into_iter().chain(ours) {
            if let Some(meta) = unseen.meta(&path)
                && let Some(why) = wrong(&meta)
            {
                found.push(mend(facts, SOCKET_DIR, &path, &meta, &why));
            }
        }
    }
    found.truncate(MAX_REPORTED);
    if found.is_empty() {
        found.push(Finding::ok(GROUP, SOCKET_DIR, "sockets and environments are private"));
    }
    found
}

fn walk(path: &Path, depth: usize, seen: &mut Vec<(PathBuf, Metadata)>, unseen: &mut Unseen) {
    let Some(meta) = unseen.meta(path) else { return };
    if seen.len() >= MAX_FILES {
        return;
    }
    let is_folder = meta.is_dir();
    seen.push((path.to_owned(), meta));
    if is_folder && depth > 0 {
        for entry in unseen.entries(path) {
            walk(&entry, depth - 1, seen, unseen);
        }
    }
}

/// Returns what is wrong with the access rights of our file or folder.
fn wrong(meta: &Metadata) -> Option<String> {
    if meta.uid() != own_uid() {
        Some(format!("it belongs to user {}", meta.uid()))
    } else if meta.is_symlink() {
        Some("it is a symbolic link, which we never make here".to_owned())
    } else if meta.mode() & OTHERS != 0 {
        Some(format!("others may use it (mode {:04o})", meta.mode() & 0o7777))
    } else if meta.mode() & needed(meta) != needed(meta) {
        Some(format!("it cannot be used (mode {:04o})", meta.mode() & 0o7777))
    } else {
        None
    }
}

/// Returns the permission bits that the owner needs.
fn needed(meta: &Metadata) -> u32 {
    if meta.is_dir() { 0o700 } else { 0o600 }
}

/// Repairs a wrong mode. The user must decide about a foreign owner or a link.
fn mend(facts: &DoctorFacts, id: &'static str, path: &Path, meta: &Metadata, why: &str) -> Finding {
    let seen = format!("{}: {why}", path.display());
    if meta.uid() != own_uid() {
        let quoted = shell_words::quote(&path.to_string_lossy()).into_owned();
        return Finding::problem(GROUP, id, seen).advise(format!(
            "run commands here as that user; if it should be yours, have it given to you with `chown -h {} {quoted}`",
            own_uid()
        ));
    }
    if meta.is_symlink() {
        let quoted = shell_words::quote(&path.to_string_lossy()).into_owned();
        return Finding::problem(GROUP, id, seen)
            .advise(format!("find out who has put it there with `ls -ld {quoted}`, then remove it"));
    }
    if !facts.fix {
        let command = chmod(path, meta);
        return Finding::problem(GROUP, id, seen)
            .advise(format!("run {command}, or {}", facts.fix_command()));
    }
    match fs::set_permissions(path, Permissions::from_mode(private(meta))) {
        Ok(()) => Finding::fixed(GROUP, id, format!("{seen}; it is private now")),
        Err(error) => Finding::problem(GROUP, id, format!("{seen}, and that cannot be changed: {error}")),
    }
}

fn private(meta: &Metadata) -> u32 {
    meta.mode() & 0o700 | needed(meta)
}

fn chmod(path: &Path, meta: &Metadata) -> String {
    format!("`chmod {:o} {}`", private(meta), shell_words::quote(&path.to_string_lossy()))
}

fn own_uid() -> u32 {
    nix::unistd::geteuid().as_raw()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sticky_folder_protects_what_is_ours() {
        let (own, other) = (own_uid(), own_uid() + 1);
        assert!(!can_be_replaced(0o041_777, own) && can_be_replaced(0o041_777, other));
        assert!(can_be_replaced(0o040_777, own) && !can_be_replaced(0o040_755, other));
    }

    #[test]
    fn what_others_may_use_is_wrong_and_so_is_a_link() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, "").unwrap();
        let look = |path: &Path| wrong(&fs::symlink_metadata(path).unwrap());
        for (mode, fine) in [
            (0o600, true),
            (0o700, true),
            (0o640, false),
            (0o604, false),
            (0o601, false),
            (0o400, false),
            (0, false),
        ] {
            fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
            assert_eq!(look(&file).is_none(), fine, "{mode:o}");
        }
        fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
        std::os::unix::fs::symlink(&file, dir.path().join("link")).unwrap();
        assert!(look(&dir.path().join("link")).unwrap().contains("link"));
    }
}
