//! The guard's states: the effects of each input, as a pure function.
//!
//! Does no I/O and reads no clock: each input carries the time since the guard's start.

use std::time::Duration;

use super::status::GuardStatus;

/// Time in the kill loop after which surviving processes are reported.
pub(super) const INCOMPLETE_AFTER: Duration = Duration::from_secs(10);
/// Maximum number of pids per status line. All lines together fit into the smallest pipe, so a
/// runtime that does not read cannot block the guard.
const NAMED_PIDS: usize = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GuardState {
    Running {
        agent: i32,
    },
    /// The tree is being ended since the given time.
    Ending {
        agent: i32,
        since: Duration,
        killed: u32,
        reported_incomplete: bool,
    },
    /// No process is left.
    Clean,
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ChildExit {
    Code(i32),
    Signal(i32),
}

/// An event that the guard noticed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum GuardInput {
    /// The runtime asks for SIGTERM to the agent's group.
    TerminateAsked,
    /// The runtime or a signal asks for the end, or the runtime is gone.
    EndAsked,
    /// A child was reaped.
    Reaped { pid: i32, exit: ChildExit },
    /// The call of `waitpid` returned ECHILD.
    NoneLeft,
    /// A round of the kill loop is done, and these processes remain.
    StillLeft(Vec<i32>),
}

/// An effect for the guard to carry out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum GuardEffect {
    /// Sends SIGTERM to the process group led by this process, which is not reaped yet.
    Terminate(i32),
    Report(GuardStatus),
}

/// Returns the next state and the effects, in order. Inputs without a meaning in
/// a state change nothing.
pub(super) fn step(state: GuardState, input: GuardInput, now: Duration) -> (GuardState, Vec<GuardEffect>) {
    match (state, input) {
        (GuardState::Running { agent }, GuardInput::TerminateAsked) => {
            (state, vec![GuardEffect::Terminate(agent)])
        }
        (GuardState::Running { agent }, GuardInput::EndAsked) => {
            (ending(agent, now), vec![GuardEffect::Report(GuardStatus::Ending)])
        }
        (GuardState::Running { agent }, GuardInput::Reaped { pid, exit }) if pid == agent => {
            let reports = [exited(pid, Some(exit)), GuardStatus::Ending];
            (ending(agent, now), reports.map(GuardEffect::Report).into())
        }
        // An orphan that ended by itself: the normal work of a subreaper.
        (GuardState::Running { .. }, GuardInput::Reaped { .. }) => (state, vec![]),
        // Impossible while the agent is our child. If it happens, nothing is left and
        // its status is lost.
        (GuardState::Running { agent }, GuardInput::NoneLeft) => {
            let clean = GuardStatus::Clean { killed: 0, millis: 0 };
            (
                GuardState::Clean,
                [exited(agent, None), GuardStatus::Ending, clean].map(GuardEffect::Report).into(),
            )
        }
        (
            GuardState::Ending { agent, since, killed, reported_incomplete },
            GuardInput::Reaped { pid, exit },
        ) => {
            let killed = killed.saturating_add(u32::from(exit == ChildExit::Signal(nix::libc::SIGKILL)));
            let report = (pid == agent).then(|| GuardEffect::Report(exited(pid, Some(exit))));
            (GuardState::Ending { agent, since, killed, reported_incomplete }, report.into_iter().collect())
        }
        (GuardState::Ending { since, killed, .. }, GuardInput::NoneLeft) => {
            let millis = u64::try_from(now.saturating_sub(since).as_millis()).unwrap_or(u64::MAX);
            (GuardState::Clean, vec![GuardEffect::Report(GuardStatus::Clean { killed, millis })])
        }
        (
            GuardState::Ending { agent, since, killed, reported_incomplete: false },
            GuardInput::StillLeft(mut pids),
        ) if !pids.is_empty() && now.saturating_sub(since) >= INCOMPLETE_AFTER => {
            pids.truncate(NAMED_PIDS);
            let reported = GuardState::Ending { agent, since, killed, reported_incomplete: true };
            (reported, vec![GuardEffect::Report(GuardStatus::Incomplete { pids })])
        }
        (
            GuardState::Ending { .. },
            GuardInput::TerminateAsked | GuardInput::EndAsked | GuardInput::StillLeft(_),
        )
        | (GuardState::Running { .. }, GuardInput::StillLeft(_))
        | (GuardState::Clean, _) => (state, vec![]),
    }
}

fn ending(agent: i32, since: Duration) -> GuardState {
    GuardState::Ending { agent, since, killed: 0, reported_incomplete: false }
}

fn exited(pid: i32, exit: Option<ChildExit>) -> GuardStatus {
    let (code, signal) = match exit {
        Some(ChildExit::Code(code)) => (Some(code), None),
        Some(ChildExit::Signal(signal)) => (None, Some(signal)),
        None => (None, None),
    };
    GuardStatus::Exited { pid, code, signal }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const AGENT: i32 = 10;

    fn reports(inputs: Vec<(u64, GuardInput)>) -> Vec<GuardStatus> {
        let mut state = GuardState::Running { agent: AGENT };
        let mut reports = vec![];
        for (millis, input) in inputs {
            let (next, effects) = step(state, input, Duration::from_millis(millis));
            state = next;
            reports.extend(effects.into_iter().filter_map(|effect| match effect {
                GuardEffect::Report(status) => Some(status),
                GuardEffect::Terminate(_) => None,
            }));
        }
        reports
    }

    #[test]
    fn survivors_are_reported_once_and_the_loop_goes_on() {
        let reported = reports(vec![
            (100, GuardInput::EndAsked),
            (5_000, GuardInput::StillLeft(vec![11])),
            (10_100, GuardInput::StillLeft((11..111).collect())),
            (10_200, GuardInput::StillLeft(vec![11])),
            (12_000, GuardInput::Reaped { pid: 11, exit: ChildExit::Signal(9) }),
            (12_100, GuardInput::NoneLeft),
        ]);
        let expected = [
            GuardStatus::Ending,
            GuardStatus::Incomplete { pids: (11..75).collect() },
            GuardStatus::Clean { killed: 1, millis: 12_000 },
        ];
        assert_eq!(reported, expected);
    }

    #[test]
    fn sigterm_goes_only_to_a_running_agent() {
        let running = GuardState::Running { agent: AGENT };
        assert_eq!(
            step(running, GuardInput::TerminateAsked, Duration::ZERO).1,
            [GuardEffect::Terminate(AGENT)]
        );
        let exit = GuardInput::Reaped { pid: AGENT, exit: ChildExit::Code(0) };
        let (ended, _) = step(running, exit, Duration::ZERO);
        assert_eq!(step(ended, GuardInput::TerminateAsked, Duration::ZERO).1, []);
    }

    fn any_input() -> impl Strategy<Value = GuardInput> {
        let exit = prop_oneof![Just(ChildExit::Code(1)), Just(ChildExit::Signal(9))];
        prop_oneof![
            Just(GuardInput::TerminateAsked),
            Just(GuardInput::EndAsked),
            Just(GuardInput::NoneLeft),
            (AGENT..AGENT + 3, exit).prop_map(|(pid, exit)| GuardInput::Reaped { pid, exit }),
            Just(GuardInput::StillLeft(vec![AGENT])),
        ]
    }

    proptest! {
        #[test]
        fn ending_comes_once_and_clean_is_last(
            inputs in proptest::collection::vec((0_u64..20_000, any_input()), 0..40)
        ) {
            let reported = reports(inputs);
            let count = |wanted: fn(&GuardStatus) -> bool| reported.iter().filter(|status| wanted(status)).count();
            let incomplete = count(|status| matches!(status, GuardStatus::Incomplete { .. }));
            prop_assert!(count(|status| *status == GuardStatus::Ending) <= 1);
            prop_assert!(incomplete <= 1);
            if let Some(at) = reported.iter().position(|status| matches!(status, GuardStatus::Clean { .. })) {
                prop_assert_eq!(at, reported.len() - 1);
                prop_assert!(reported.contains(&GuardStatus::Ending));
            }
        }
    }
}
