//! The executable `subagent-runtime`, built with the tests and so with failpoints.

use std::process::ExitCode;

fn main() -> ExitCode {
    subagent_runtime::main(std::env::args_os().skip(1))
}
