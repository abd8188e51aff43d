//! A worktree that gets the state of another one is equal to it, also after a kill at any step.

use std::path::Path;

use subagent_protocol::Code;
use subagent_protocol::worktree::{EXCHANGE_REFS, Operation, Packed, Setup, Worktree, WorktreeResult};
use subagent_testkit::{Random, say, times};

use super::property::kill;
use super::states::State;
use super::templates::Templates;
use super::world::WorktreeFixture;

/// Number of cases in an ordinary run.
const CASES: usize = 24;

/// The worktree as it would be on another machine.
fn elsewhere(state: &State) -> Worktree {
    let base = state.world.base();
    Worktree {
        repository: base.join("there.git"),
        main: base.join("there.git"),
        path: base.join("there").join(&state.worktree.name),
        ..state.worktree.clone()
    }
}

/// Packs a state; `None` where git is busy with an operation of the user.
fn pack(world: &WorktreeFixture, worktree: &Worktree) -> Option<Option<Packed>> {
    match world.run(Operation::Pack { worktree: worktree.clone() }) {
        WorktreeResult::Packed(packed) => Some(packed),
        WorktreeResult::Failed(error) if error.code == Code::WorktreeBusy => None,
        other => panic!("{other:?}"),
    }
}

/// Brings the packed state of a worktree to another one, with a kill on the way.
fn bring(state: &State, from: &Worktree, to: &Worktree, packed: &Packed, random: &mut Random) -> bool {
    let name = format!("{EXCHANGE_REFS}{}", from.name);
    let source = from.repository.to_str().unwrap();
    state.world.git_in(&to.repository, &["fetch", "-q", source, &format!("+{name}:{name}")]);
    let (worktree, packed) = (to.clone(), packed.state.clone());
    let operation = Operation::Unpack { worktree, state: packed, setup: Setup::default() };
    let was_killed = kill(state, &operation, random);
    assert_eq!(state.world.run(operation), WorktreeResult::Ready);
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
