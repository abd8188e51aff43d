//! A worktree that gets the state of another one is equal to it, also after a kill at any step.

use std::fs;
use std::path::Path;

use subagent_protocol::Code;
use subagent_protocol::worktree::{EXCHANGE_REFS, Operation, Packed, Setup, Worktree, WorktreeResult};
use subagent_testkit::{Random, say, times};

use super::property::kill;
use super::states::State;
use super::templates::Templates;
use super::world::{WorktreeFixture, time, write};

/// Number of cases in an ordinary run.
const CASES: usize = 24;

/// The worktree as it would be on another machine.
fn elsewhere(state: &State) -> Worktree {
    let base = state.world.base();
    Worktree {
        repository: base.join("there/.git"),
        main: base.join("there/.git"),
        path: base.join("there").join(&state.worktree.name),
        ..state.worktree.clone()
    }
}

/// Packs a state; `None` where git is busy with an operation of the user.
fn pack(world: &WorktreeFixture, worktree: &Worktree) -> Option<Option<Packed>> {
    match world.run(Operation::Pack { worktree: worktree.clone(), is_new: true }) {
        WorktreeResult::Packed(packed) => Some(packed),
        WorktreeResult::Failed(error) if error.code == Code::WorktreeBusy => None,
        other => panic!("{other:?}"),
    }
}

/// Sends the packed state of a worktree to the repository of another one.
fn send(
    world: &WorktreeFixture,
    from: &Worktree,
    to: &Worktree,
    state: &str,
    before: Option<&str>,
) -> Operation {
    let name = format!("{EXCHANGE_REFS}{}", from.name);
    let (from, to_git) = (from.repository.to_str().unwrap(), to.repository.to_str().unwrap());
    let both = format!("+{name}:{name}");
    // git runs on one side only.
    match from.ends_with("there/.git") {
        true => world.git_in(&to.repository, &["fetch", "-q", from, &both]),
        false => world.git_in(Path::new(from), &["push", "-q", to_git, &both]),
    };
    let (worktree, state, before) = (to.clone(), state.to_owned(), before.map(str::to_owned));
    Operation::Unpack { worktree, state, before, setup: Setup::default() }
}

/// Brings the packed state of a worktree to another one, with a kill on the way.
fn bring(state: &State, from: &Worktree, to: &Worktree, packed: &Packed, random: &mut Random) -> bool {
    let before = pack(&state.world, to).flatten().map(|packed| packed.state);
    let operation = send(&state.world, from, to, &packed.state, before.as_deref());
    let was_killed = kill(state, &operation, random);
    let answer = state.world.run(operation);
    assert!(matches!(answer, WorktreeResult::Packed(Some(_))), "{answer:?}");
    was_killed
}

/// What git says about a worktree.
fn seen(world: &WorktreeFixture, top: &Path) -> Vec<String> {
    [
        &["status", "--porcelain", "--ignore-submodules", "-z"][..],
        &["ls-files", "--stage"],
        &["rev-parse", "HEAD"],
        &["rev-parse", "--symbolic-full-name", "HEAD"],
    ]
    // Repositories below stay where they are.
    .map(|args| world.git_in(top, args).replace("?? nested/\0", "").replace("?? sub/\0", ""))
    .to_vec()
}

/// Runs one case. Returns how many of its operations were killed; `None` if git was busy.
fn case(templates: &Templates, seed: u64) -> Option<usize> {
    let mut random = Random::new(seed);
    let mut state = State::new(templates, Random::new(random.number()), seed.is_multiple_of(5), true);
    let (here, there) = (state.worktree.clone(), elsewhere(&state));
    let mut killed = 0;
    assert_eq!(pack(&state.world, &there), Some(None));
    for round in 0..3 {
        let (from, to) = if round == 1 { (&there, &here) } else { (&here, &there) };
        let packed = pack(&state.world, from)??;
        killed += usize::from(bring(&state, from, to, &packed, &mut random));
        let after = pack(&state.world, to)??;
        assert_eq!(after.state, packed.state, "round {round}");
        assert_eq!(seen(&state.world, &to.path), seen(&state.world, &from.path), "round {round}");
        assert_eq!(pack(&state.world, from)??.state, packed.state, "round {round}: the source");
        let changed = if round == 0 { &there } else { &here };
        state.change(&changed.path.clone());
    }
    Some(killed)
}

#[test]
fn a_state_is_the_same_on_both_sides() {
    let mut random = Random::announced();
    let templates = Templates::new();
    let (mut killed, mut busy) = (0, 0);
    let count = times(CASES);
    for _ in 0..count {
        let seed = random.number();
        let ran = std::panic::catch_unwind(|| case(&templates, seed));
        match ran.unwrap_or_else(|_| panic!("the case {seed} failed")) {
            Some(number) => killed += number,
            None => busy += 1,
        }
    }
    say(&format!("exchange: {count} cases, {busy} of them busy, {killed} processes killed"));
    assert!(busy < count / 2 && killed > count / 2, "busy {busy}, killed {killed}");
}

/// Two worktrees with the same state: the first one is changed, and the state of it is sent.
fn pair() -> (WorktreeFixture, Worktree, Worktree, String) {
    let world = WorktreeFixture::new();
    let here = world.create("one");
    let base = world.base();
    let there = Worktree {
        repository: base.join("there/.git"),
        main: base.join("there/.git"),
        path: base.join("there/one"),
        ..here.clone()
    };
    assert_eq!(pack(&world, &there), Some(None));
    write(&here.path.join("folder/file"), "1");
    let first = pack(&world, &here).flatten().unwrap().state;
    let _ = world.run(send(&world, &here, &there, &first, None));
    assert_eq!(pack(&world, &there).flatten().unwrap().state, first);
    (world, here, there, first)
}

fn reason(answer: WorktreeResult) -> String {
    match answer {
        WorktreeResult::Failed(error) => error.details["reason"].as_str().unwrap_or_default().to_owned(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_worktree_that_was_worked_in_meanwhile_is_left_alone() {
    let (world, here, there, first) = pair();
    write(&here.path.join("new"), "of here");
    let second = pack(&world, &here).flatten().unwrap().state;
    write(&there.path.join("new"), "of there");
    let operation = send(&world, &here, &there, &second, Some(&first));
    assert_eq!(reason(world.run(operation)), "moved");
    assert_eq!(fs::read_to_string(there.path.join("new")).unwrap(), "of there");
}

#[test]
fn a_change_that_was_killed_is_not_completed_over_other_work() {
    let (world, here, there, first) = pair();
    write(&here.path.join("new"), "of here");
    let second = pack(&world, &here).flatten().unwrap().state;
    let operation = send(&world, &here, &there, &second, Some(&first));
    // As if it was killed at its begin, and the agent has worked since.
    for (name, state) in [("pending", &second), ("before", &first)] {
        world.git_in(&there.path, &["update-ref", &format!("refs/worktree/subagent/{name}"), state]);
    }
    write(&there.path.join("new"), "of there");
    assert_eq!(reason(world.run(operation)), "moved");
    assert_eq!(fs::read_to_string(there.path.join("new")).unwrap(), "of there");
}

#[test]
fn ignored_files_in_the_way_stay() {
    for (ignored, remove, add) in [
        ("folder/ignored", Some("folder"), "folder"),
        ("ignored", None, "ignored/new"),
        ("new/ignored", None, "new"),
        ("ignored", None, "ignored"),
    ] {
        let (world, here, there, first) = pair();
        write(&there.path.join(ignored), "precious");
        if let Some(folder) = remove {
            fs::remove_dir_all(here.path.join(folder)).unwrap();
        }
        write(&here.path.join(add), "of here");
        world.git_in(&here.path, &["add", "-f", add]);
        let second = pack(&world, &here).flatten().unwrap().state;
        let operation = send(&world, &here, &there, &second, Some(&first));
        assert_eq!(reason(world.run(operation)), "ignored", "{add} over {ignored}");
        assert_eq!(fs::read_to_string(there.path.join(ignored)).unwrap(), "precious", "{add}");
        assert_eq!(pack(&world, &there).flatten().unwrap().state, first, "nothing has changed");
    }
}

#[test]
fn commits_of_a_worktree_that_its_agent_has_removed_are_kept() {
    let (world, _, there, state) = pair();
    let lost = world.commit_in(&there.path, "of the agent");
    world.git_in(&there.path, &["worktree", "remove", "--force", "."]);
    let packed = world.run(Operation::Pack { worktree: there.clone(), is_new: false });
    assert!(matches!(packed, WorktreeResult::Failed(error) if error.code == Code::WorktreeNotFound));
    let forget = |time| Operation::Forget { worktree: there.clone(), state: state.clone(), time };
    let WorktreeResult::Found(contents) = world.run(forget(None)) else { panic!("it has work") };
    assert_eq!(contents.commits, 1);
    let WorktreeResult::Discarded(Some(kept)) = world.run(forget(Some(time(0)))) else {
        panic!("it is kept")
    };
    world.git_in(&there.repository, &["merge-base", "--is-ancestor", &lost, &kept]);
    assert_eq!(world.run(forget(None)), WorktreeResult::Removed);
}

#[test]
fn a_repository_in_the_place_of_a_new_file_stays() {
    let (world, here, there, before) = pair();
    world.git_in(&there.path, &["init", "-q", "sub"]);
    write(&there.path.join("sub/file"), "committed");
    world.commit_in(&there.path.join("sub"), "below");
    write(&there.path.join("sub/file"), "precious");
    world.git_in(&there.path, &["add", "sub"]);
    let first = pack(&world, &there).flatten().unwrap().state;
    let _ = world.run(send(&world, &there, &here, &first, Some(&before)));
    assert_eq!(pack(&world, &here).flatten().unwrap().state, first);
    world.git_in(&here.path, &["rm", "-q", "--cached", "sub"]);
    let _ = fs::remove_dir(here.path.join("sub"));
    write(&here.path.join("sub"), "a file");
    world.git_in(&here.path, &["add", "sub"]);
    let second = pack(&world, &here).flatten().unwrap().state;
    let operation = send(&world, &here, &there, &second, Some(&first));
    assert_eq!(reason(world.run(operation)), "ignored");
    assert_eq!(fs::read_to_string(there.path.join("sub/file")).unwrap(), "precious");
}
