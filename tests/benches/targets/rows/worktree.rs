//! `worker start --worktree` in a repository of 10,000 files, without the time of git itself.

use std::fs;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use subagent_tests::measure::{Row, Unit};

use crate::Bench;
use crate::world::{BenchWorld, millis, timed_program};

const FILES: usize = 10_000;
/// Number of files in a repository with many worktrees.
const FEW_FILES: usize = 200;
const FILES_OF_A_FOLDER: usize = 100;

pub(crate) fn run(bench: &Bench) -> Row {
    let mut row = Row::new("worktree", "`worker start --worktree`, in a repository of 10,000 files");
    let world = BenchWorld::new();
    repository(&world, FILES);
    let (mut git, mut plain, mut whole, mut over) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for warm in [true].into_iter().chain(std::iter::repeat_n(false, bench.pick(7, 1))) {
        let alone = git_alone(&world);
        let of_plain = world.start_and_stop(&[]);
        let of_worktree = world.start_and_stop(&["--worktree"]);
        if !warm {
            git.push(alone);
            plain.push(of_plain);
            whole.push(of_worktree);
            over.push(of_worktree - of_plain - alone);
        }
    }
    row.figure("`git worktree add` alone", Unit::Millis, &git);
    row.figure("`subagent worker start --json`", Unit::Millis, &plain);
    row.figure("the same with `--worktree`", Unit::Millis, &whole);
    let over = row.figure("the difference without what git takes", Unit::Millis, &over).median;
    row.at_most("at most 50 ms over a plain start and git", Unit::Millis, 50.0, over);
    world.finish();

    let many = BenchWorld::new();
    repository(&many, FEW_FILES);
    let count = bench.pick(50, 2);
    row.figure(
        format!("{count} of them at once with {FEW_FILES} files each, until all are started"),
        Unit::Millis,
        &[at_once(&many, count)],
    );
    many.finish();
    row
}

fn repository(world: &BenchWorld, files: usize) {
    let root = world.sandbox.workspace();
    for number in 0..files {
        let folder = root.join(format!("src/{}", number / FILES_OF_A_FOLDER));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(format!("{number}.txt")), format!("file {number}\n").repeat(50)).unwrap();
    }
    git(world, &["init", "-q", "-b", "main", "."]);
    git(world, &["add", "src"]);
    git(world, &["-c", "user.name=b", "-c", "user.email=b@example.com", "commit", "-qm", "first"]);
}

fn git(world: &BenchWorld, args: &[&str]) -> f64 {
    let mut command = Command::new("git");
    command.args(args).current_dir(world.sandbox.workspace()).env("GIT_CONFIG_GLOBAL", "/dev/null");
    timed_program(&mut command)
}

fn git_alone(world: &BenchWorld) -> f64 {
    let path = world.sandbox.file_name("alone");
    let took = git(world, &["worktree", "add", "-q", "-b", "alone", &path, "HEAD"]);
    git(world, &["worktree", "remove", "--force", &path]);
    git(world, &["branch", "-q", "-D", "alone"]);
    took
}

/// Returns the time until this many workers have their worktrees, in ms.
fn at_once(world: &BenchWorld, count: usize) -> f64 {
    let args = ["worker", "start", "--launcher", "fast", "--worktree"];
    let start = || world.sandbox.subagent(&args).process().stdin(Stdio::null()).stdout(Stdio::null()).spawn();
    let begun = Instant::now();
    let running: Vec<Child> = (0..count).map(|_| start().unwrap()).collect();
    for mut child in running {
        assert!(child.wait().unwrap().success(), "a worker was not started");
    }
    millis(begun.elapsed())
}
