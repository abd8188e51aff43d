//! The guard's reports to the runtime: one JSON object per line on the status pipe. Does no I/O. A
//! runtime may read lines of an older guard: fields may only be added, with a default.

use serde::{Deserialize, Serialize};

/// One line on the status pipe. Order: `spawned`; then `exited` and `ending` in either order;
/// possibly `incomplete`; last `clean`. Alternatively `spawnFailed` alone, or `clean` alone if the
/// life pipe ended before the start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "t", rename_all = "camelCase")]
pub enum GuardStatus {
    /// The agent was started and leads the process group `pid`.
    Spawned {
        /// The agent's process id.
        pid: i32,
    },
    /// The agent could not be started; the guard exits and no process is left.
    SpawnFailed {
        /// The system's error number, or 0 without one.
        errno: i32,
        /// What failed, with the program's name.
        message: String,
    },
    /// The agent itself ended. Exactly one of `code` and `signal` is present, unless
    /// the status is unknown.
    Exited {
        /// The agent's process id.
        pid: i32,
        /// The agent's exit code.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        code: Option<i32>,
        /// The signal that ended it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signal: Option<i32>,
    },
    /// The guard begins to end the tree.
    Ending,
    /// The tree could not be ended in time; the guard keeps trying.
    Incomplete {
        /// The first 64 remaining processes.
        pids: Vec<i32>,
    },
    /// No process is left: `waitpid` returned ECHILD.
    Clean {
        /// Number of processes that the guard's SIGKILL ended.
        killed: u32,
        /// Time since `ending`, in milliseconds.
        millis: u64,
    },
    /// A line of a newer guard.
    #[serde(other)]
    Unknown,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_look_as_agreed() {
        let lines = [
            (GuardStatus::Spawned { pid: 7 }, r#"{"t":"spawned","pid":7}"#),
            (
                GuardStatus::SpawnFailed { errno: 2, message: "x".into() },
                r#"{"t":"spawnFailed","errno":2,"message":"x"}"#,
            ),
            (
                GuardStatus::Exited { pid: 7, code: Some(0), signal: None },
                r#"{"t":"exited","pid":7,"code":0}"#,
            ),
            (
                GuardStatus::Exited { pid: 7, code: None, signal: Some(9) },
                r#"{"t":"exited","pid":7,"signal":9}"#,
            ),
            (GuardStatus::Ending, r#"{"t":"ending"}"#),
            (GuardStatus::Incomplete { pids: vec![1, 2] }, r#"{"t":"incomplete","pids":[1,2]}"#),
            (GuardStatus::Clean { killed: 3, millis: 4 }, r#"{"t":"clean","killed":3,"millis":4}"#),
        ];
        for (status, line) in lines {
            assert_eq!(serde_json::to_string(&status).unwrap(), line);
            assert_eq!(serde_json::from_str::<GuardStatus>(line).unwrap(), status);
        }
    }

    #[test]
    fn lines_of_a_newer_guard_are_read() {
        let newer = r#"{"t":"spawned","pid":7,"cgroup":"x"}"#;
        assert_eq!(serde_json::from_str::<GuardStatus>(newer).unwrap(), GuardStatus::Spawned { pid: 7 });
        assert_eq!(
            serde_json::from_str::<GuardStatus>(r#"{"t":"frozen","n":1}"#).unwrap(),
            GuardStatus::Unknown
        );
    }
}
