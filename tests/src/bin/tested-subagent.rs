//! The executable `subagent`, built with the tests and therefore with failpoints.

#[path = "../../../subagent-cli/src/bin/link/mod.rs"]
mod link;

use std::process::ExitCode;

fn main() -> ExitCode {
    subagent_cli::main(std::env::args_os().skip(1).collect())
}
