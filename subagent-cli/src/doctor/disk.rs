//! Checks free space and file systems of our folders.

use std::path::{Path, PathBuf};

use nix::sys::statvfs::statvfs;
use subagent_config::state_dir;

use super::facts::{DoctorFacts, StateDirStatus};
use super::finding::{CheckedPart, Finding};
use super::permissions;
use super::unseen::Unseen;

const GROUP: CheckedPart = CheckedPart::Disk;
const LOOK: &str = "disk.look";

/// Free bytes and inodes below which a problem (first) or a warning (second) is reported.
const FEW_BYTES: [u64; 2] = [100 << 20, 1 << 30];
const FEW_FILES: [u64; 2] = [1_000, 10_000];

pub(super) fn look(facts: &DoctorFacts) -> Vec<Finding> {
    let sockets = facts.runtime_dirs.iter().map(|folder| room("disk.socketDir", folder.path()));
    if facts.state == StateDirStatus::Outside {
        return sockets.collect();
    }
    let mut unseen = Unseen::default();
    let mut found = vec![kind(facts), room("disk.stateDir", &facts.state_dir)];
    found.extend(sockets);
    if facts.has_state() {
        found.push(replaced(facts, &mut unseen));
    }
    found.extend(facts.hidden(GROUP, LOOK));
    found.extend(unseen.finding(GROUP, LOOK));
    found
}

/// Reports data that restores put aside. Only the user can decide whether it is needed.
fn replaced(facts: &DoctorFacts, unseen: &mut Unseen) -> Finding {
    const ID: &str = "disk.replaced";
    let all = permissions::replaced(&facts.state_dir, unseen);
    if all.is_empty() {
        return Finding::ok(GROUP, ID, "no restore has put anything aside");
    }
    let list: Vec<String> =
        all.iter().map(|path| format!("{} ({})", path.display(), size(bytes_of(path, 4, unseen)))).collect();
    let quoted: Vec<String> = all.iter().map(|path| quoted(path)).collect();
    Finding::ok(GROUP, ID, format!("put aside by a restore: {}", list.join(", ")))
        .advise(format!("if it is no longer needed, remove it with `rm -r {}`", quoted.join(" ")))
}

fn bytes_of(path: &Path, depth: usize, unseen: &mut Unseen) -> u64 {
    let Some(meta) = unseen.meta(path) else { return 0 };
    if !meta.is_dir() || depth == 0 {
        return meta.len();
    }
    unseen.entries(path).iter().map(|entry| bytes_of(entry, depth - 1, unseen)).sum()
}

fn kind(facts: &DoctorFacts) -> Finding {
    const ID: &str = "disk.fileSystem";
    let name = file_system(&facts.state_dir).unwrap_or_else(|| "unknown".to_owned());
    match state_dir::check_file_system(&facts.state_dir) {
        Err(error) => Finding::problem(GROUP, ID, error.message())
            .advise("set SUBAGENT_STATE_DIR to a folder on a local disk"),
        Ok(()) if name == "tmpfs" => Finding::warning(
            GROUP,
            ID,
            "the state dir is in memory (tmpfs): nothing of it survives the machine",
        )
        .advise("set SUBAGENT_STATE_DIR to a folder on a disk"),
        Ok(()) => Finding::ok(GROUP, ID, format!("the state dir is on {name}")),
    }
}

fn room(id: &'static str, folder: &Path) -> Finding {
    let existing = folder.ancestors().find(|folder| folder.exists()).unwrap_or(folder);
    let shown = folder.display();
    match statvfs(existing) {
        Err(error) => Finding::warning(GROUP, id, format!("unknown for {shown}: {error}"))
            .advise(format!("see `df -h {}`", quoted(existing))),
        Ok(found) => {
            #[allow(clippy::useless_conversion, reason = "the widths differ by platform")]
            let (block, blocks): (u64, u64) = (found.fragment_size().into(), found.blocks_available().into());
            #[allow(clippy::useless_conversion, reason = "the widths differ by platform")]
            // Some file systems allocate inodes on demand and report 0.
            let files: Option<u64> = (found.files() > 0).then(|| found.files_available().into());
            judge(id, folder, block.saturating_mul(blocks), files)
        }
    }
}

fn judge(id: &'static str, folder: &Path, bytes: u64, files: Option<u64>) -> Finding {
    let few = |limit: usize| bytes < FEW_BYTES[limit] || files.is_some_and(|files| files < FEW_FILES[limit]);
    let inodes = files.map_or_else(String::new, |files| format!(" and {files} inodes"));
    let seen = format!("{}{inodes} free for {}", size(bytes), folder.display());
    let advice = || format!("make room: see `df -h {0}` and `df -i {0}`", quoted(folder));
    match (few(0), few(1)) {
        (true, _) => Finding::problem(GROUP, id, seen).advise(advice()),
        (_, true) => Finding::warning(GROUP, id, seen).advise(advice()),
        _ => Finding::ok(GROUP, id, seen),
    }
}

/// Returns the type of the file system that contains a path.
fn file_system(path: &Path) -> Option<String> {
    let mounts = std::fs::read_to_string("/proc/self/mounts").ok()?;
    let existing: PathBuf = path.ancestors().find(|folder| folder.exists())?.canonicalize().ok()?;
    let mut best: Option<(usize, &str)> = None;
    for line in mounts.lines() {
        let mut fields = line.split(' ').skip(1);
        let (Some(place), Some(kind)) = (fields.next(), fields.next()) else { continue };
        // Blanks are escaped as \040, so such a mount point is longer than the path and never matches
        // wrongly.
        let longer = best.is_none_or(|(length, _)| place.len() >= length);
        if longer && existing.starts_with(place) {
            best = Some((place.len(), kind));
        }
    }
    best.map(|(_, kind)| kind.to_owned())
}

/// Formats a number of bytes.
pub(super) fn size(bytes: u64) -> String {
    let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
    match units.iter().find(|(shift, _)| bytes >> shift > 0) {
        Some((shift, unit)) => {
            let tenths = (u128::from(bytes) * 10) >> shift;
            format!("{}.{} {unit}", tenths / 10, tenths % 10)
        }
        None => format!("{bytes} B"),
    }
}

pub(super) fn quoted(path: &Path) -> String {
    shell_words::quote(&path.to_string_lossy()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::super::finding::FindingStatus;
    use super::*;

    #[test]
    fn sizes_are_for_people() {
        let shown = [0, 1023, 1024, 1536, 5 << 20, (3 << 30) + (1 << 29)].map(size);
        assert_eq!(shown, ["0 B", "1023 B", "1.0 KiB", "1.5 KiB", "5.0 MiB", "3.5 GiB"]);
    }

    #[test]
    fn little_room_is_reported_before_it_is_too_late() {
        let status = |bytes, files| judge("disk.stateDir", Path::new("/x y"), bytes, files).status;
        assert_eq!(status(2 << 30, Some(20_000)), FindingStatus::Ok);
        assert_eq!(status(2 << 30, None), FindingStatus::Ok);
        assert_eq!(status(500 << 20, None), FindingStatus::Warning);
        assert_eq!(status(2 << 30, Some(5_000)), FindingStatus::Warning);
        assert_eq!(status(50 << 20, Some(5_000)), FindingStatus::Problem);
        assert_eq!(status(2 << 30, Some(10)), FindingStatus::Problem);
        let action = judge("disk.stateDir", Path::new("/x y"), 0, None).action.unwrap();
        assert!(action.contains("`df -h '/x y'`"), "{action}");
    }

    #[test]
    fn the_file_system_of_a_folder_that_is_not_there_is_that_of_its_parent() {
        assert_eq!(file_system(Path::new("/proc/nowhere")).as_deref(), Some("proc"));
    }
}
