//! The executable `subagentd`, built with the tests and therefore with failpoints.

use std::process::ExitCode;

fn main() -> ExitCode {
    subagent_cli::daemon::main(std::env::args_os().skip(1).collect())
}
