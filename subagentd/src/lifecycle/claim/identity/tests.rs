//! Tests with originals, copies of all kinds, and two paths to one folder.

use std::process::Command;

use serde_json::json;

use std::fs;

use super::*;

/// A state dir whose files show a running daemon.
fn served(state_dir: &Path) -> (StateFolder, File) {
    fs::create_dir_all(state_dir).unwrap();
    let own = settle(state_dir).unwrap();
    let lock = File::create(state_dir.join(DAEMON_LOCK)).unwrap();
    lock.lock().unwrap();
    let info = json!({
        "protocol": 1, "oldestProtocol": 1, "version": "9", "process": {"pid": 1, "startTime": 1},
        "generation": 1, "socket": state_dir.join("s"), "stateDir": state_dir, "stateFolder": own,
        "mode": "background", "startedAt": "2026-11-21T20:29:42+00:00",
    });
    fs::write(state_dir.join(DAEMON_INFO), info.to_string()).unwrap();
    (own, lock)
}

fn copy(how: &[&str], from: &Path, to: &Path) {
    assert!(Command::new("cp").args(how).arg(from).arg(to).status().unwrap().success());
}

#[test]
fn a_folder_keeps_its_id() {
    let dir = tempfile::tempdir().unwrap();
    let own = settle(dir.path()).unwrap();
    assert_eq!(own.id.len(), 2 * ID_BYTES);
    assert_eq!(settle(dir.path()).unwrap(), own);
    assert_eq!(StateIdentity::read(dir.path()).unwrap().copy_of, None);
}

#[test]
fn a_copy_gets_another_id_and_nothing_of_the_originals_daemon() {
    for how in ["-a", "-al"] {
        let dir = tempfile::tempdir().unwrap();
        let (original, other) = (dir.path().join("original"), dir.path().join("copy"));
        let (own, _lock) = served(&original);
        copy(&[how], &original, &other);
        let copied = settle(&other).unwrap();
        assert!(copied.id != own.id && !copied.agrees(&own), "{how}");
        let identity = StateIdentity::read(&other).unwrap();
        assert_eq!(identity.copy_of.as_deref(), Some(own.id.as_str()));
        assert_eq!(identity.copied_from.as_deref(), Some(original.as_path()));
        for name in [DAEMON_INFO, DAEMON_LOCK] {
            assert!(!other.join(name).exists() && original.join(name).exists(), "{how}: {name}");
        }
        assert_eq!(settle(&other).unwrap(), copied, "only once");
        assert_eq!(settle(&original).unwrap(), own, "{how}");
    }
}

#[test]
fn a_copy_of_a_state_dir_without_an_id_is_reported_by_its_announcement() {
    let dir = tempfile::tempdir().unwrap();
    let (original, other) = (dir.path().join("original"), dir.path().join("copy"));
    let _served = served(&original);
    fs::remove_file(original.join(STATE_ID)).unwrap();
    copy(&["-a"], &original, &other);
    let _ = settle(&other).unwrap();
    assert_eq!(StateIdentity::read(&other).unwrap().copy_of.as_deref(), Some(""));
    let _ = settle(&original).unwrap();
    assert_eq!(StateIdentity::read(&original).unwrap().copy_of, None);
}

#[test]
fn a_move_and_another_boot_make_no_copy() {
    let dir = tempfile::tempdir().unwrap();
    let (before, after) = (dir.path().join("before"), dir.path().join("after"));
    let (own, lock) = served(&before);
    drop(lock);
    fs::rename(&before, &after).unwrap();
    assert_eq!(settle(&after).unwrap(), own);
    let mut old = StateIdentity::read(&after).unwrap();
    old.folder.device += 1;
    "an earlier boot".clone_into(&mut old.boot_id);
    fs::write(after.join(STATE_ID), serde_json::to_vec(&old).unwrap()).unwrap();
    assert_eq!(settle(&after).unwrap(), own);
    assert_eq!(StateIdentity::read(&after).unwrap().copy_of, None);
}

#[test]
fn a_path_through_a_link_finds_the_same_folder() {
    let dir = tempfile::tempdir().unwrap();
    let (folder, link) = (dir.path().join("folder"), dir.path().join("link"));
    fs::create_dir(&folder).unwrap();
    std::os::unix::fs::symlink(&folder, &link).unwrap();
    assert_eq!(settle(&folder).unwrap(), settle(&link).unwrap());
}
