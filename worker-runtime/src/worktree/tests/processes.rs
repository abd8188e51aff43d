//! The number of git processes that each operation starts.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use subagent_protocol::worktree::{Operation, Worktree, WorktreeResult};

use super::land::landing;
use super::world::{WorktreeFixture, time, write};

/// A repository whose git appends a byte to a file for each process.
fn counting() -> (WorktreeFixture, PathBuf) {
    let mut world = WorktreeFixture::new();
    let (bin, log) = (world.base().join("bin"), world.base().join("log"));
    let path = &mut world.env.iter_mut().find(|(name, _)| name == "PATH").unwrap().1;
    let before = path.to_str().unwrap().to_owned();
    let text = format!("#!/bin/sh\nprintf . >> {}\nPATH='{before}' exec git \"$@\"\n", log.display());
    write(&bin.join("git"), &text);
    fs::set_permissions(bin.join("git"), fs::Permissions::from_mode(0o755)).unwrap();
    *path = format!("{}:{before}", bin.display()).into();
    (world, log)
}

#[test]
fn an_operation_starts_few_processes() {
    let (world, log) = counting();
    let number = |operation: &mut dyn FnMut()| {
        fs::write(&log, "").unwrap();
        operation();
        fs::metadata(&log).unwrap().len()
    };
    let run = |operation: Operation, accepts: fn(&WorktreeResult) -> bool| {
        number(&mut || {
            let result = world.run(operation.clone());
            assert!(accepts(&result), "{result:?}");
        })
    };
    let worked = |name: &str| -> Worktree {
        let worktree = world.create(name);
        write(&worktree.path.join(name), "new\n");
        world.commit_in(&worktree.path, "work");
        write(&worktree.path.join("changed"), "changed\n");
        worktree
    };
    let planned = number(&mut || drop(world.plan()));
    let worktree = world.planned("new", false);
    let created =
        number(&mut || world.make(&worktree, &subagent_protocol::worktree::Setup::default()).unwrap());
    let looked = number(&mut || drop(world.look(&worktree)));
    let removed = run(Operation::Remove { worktree }, |result| *result == WorktreeResult::Removed);
    let time = time(0);
    let worktree = worked("discarded");
    let discarded = run(Operation::Discard { worktree, time }, |result| {
        matches!(result, WorktreeResult::Discarded(Some(_)))
    });
    let worktree = worked("landed");
    let landing = Box::new(landing());
    let landed =
        run(Operation::Land { worktree, landing }, |result| matches!(result, WorktreeResult::Landed(_)));
    let found = [planned, created, looked, removed, discarded, landed];
    // Two of those that plan ask for the identity of commits.
    let limits = [6, 8, 8, 12, 30, 60];
    assert!(
        found.iter().zip(limits).all(|(number, limit)| *number <= limit),
        "{found:?}, at most {limits:?}"
    );
}
