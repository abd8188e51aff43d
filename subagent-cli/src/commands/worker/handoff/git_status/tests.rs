//! Real and scripted gits; what the folder's owner must never be made to run.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Instant as Clock;

use super::*;

fn change(status: &str, path: &str) -> WorkspaceChange {
    WorkspaceChange { status: status.to_owned(), path: path.to_owned() }
}

fn ask(cwd: &Path, vars: &[(&str, &str)]) -> WorkspaceStatus {
    let env = Environment::new(vars.iter().map(|(name, value)| ((*name).into(), (*value).into())), cwd);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(of(cwd, &env))
}

/// A folder with a `git` that is this script.
fn scripted(script: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let git = dir.path().join("git");
    fs::write(&git, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&git, fs::Permissions::from_mode(0o700)).unwrap();
    dir
}

fn unknown(status: WorkspaceStatus) -> String {
    match status {
        WorkspaceStatus::Unknown { unknown } => unknown,
        known => panic!("{known:?}"),
    }
}

#[test]
fn entries_are_reported_relative_to_the_workers_folder() {
    let bytes = b" M sub/a b.rs\0R  sub/new\0old\0?? other/\0?? cut of";
    let (changes, all) = changes(bytes, Path::new("/repo"), Path::new("/repo/sub"));
    assert_eq!(changes, [change(" M", "a b.rs"), change("R ", "new"), change("??", "/repo/other/")]);
    assert!(all);
    assert_eq!(super::changes(b"", Path::new("/"), Path::new("/")).0, []);
    assert_eq!(super::changes(b"\0x\0\xff\xff\xff y\0", Path::new("/"), Path::new("/")).0.len(), 0);
}

#[test]
fn a_folder_without_git_and_a_caller_without_git_are_sentences() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(unknown(ask(dir.path(), &[("PATH", "/nonexistent")])), "there is no git");
    let gone = unknown(ask(&dir.path().join("gone"), &[("PATH", "/usr/bin:/bin")]));
    assert!(gone.starts_with("git cannot be run there"), "{gone}");
}

#[test]
fn a_git_that_hangs_is_left_out_after_the_deadline_with_any_output() {
    for script in ["/bin/sleep 60 &\nwait", "exec >&-\nexec /bin/sleep 60"] {
        let dir = scripted(script);
        let begun = Clock::now();
        let status = ask(dir.path(), &[("PATH", dir.path().to_str().unwrap())]);
        assert_eq!(unknown(status), "git did not answer within 5 s");
        assert!(begun.elapsed() < DEADLINE * 3, "what it started is ended with it");
    }
}

#[test]
fn git_gets_no_handle_and_no_other_folder_and_is_not_looked_for_in_the_folder() {
    let dir = scripted("/usr/bin/env > \"$SEEN\"; exit 1");
    let (path, seen) = (dir.path().to_str().unwrap(), dir.path().join("seen"));
    let vars = [
        ("PATH", path),
        ("SEEN", seen.to_str().unwrap()),
        ("SUBAGENT_CTL_TOKEN", "secret"),
        ("GIT_DIR", "/elsewhere"),
        ("GIT_CONFIG_PARAMETERS", "'a.b=c'"),
        ("HOME", "/home/me"),
    ];
    assert_eq!(unknown(ask(dir.path(), &vars)), "it is no git repository");
    let seen = fs::read_to_string(seen).unwrap();
    assert!(seen.contains("HOME=/home/me\n"), "{seen}");
    for absent in ["SUBAGENT_", "secret", "GIT_DIR", "GIT_CONFIG_PARAMETERS"] {
        assert!(!seen.contains(absent), "{absent}: {seen}");
    }
    assert_eq!(unknown(ask(dir.path(), &[("PATH", ".:")])), "there is no git");
}

#[test]
fn only_what_runs_a_program_on_content_is_set() {
    let set = |name: &str| without_filter(name.as_bytes()).map(|(_, value)| value);
    assert_eq!((set("filter.a=b.c.clean"), set("filter.x.process")), (Some(""), Some("")));
    assert_eq!((set("filter.x.required"), set("filter.x.other")), (Some("false"), None));
    assert_eq!((set("core.clean"), set("")), (None, None));
}
