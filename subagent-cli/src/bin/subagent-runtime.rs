//! The executable `subagent-runtime`.

use std::process::ExitCode;

fn main() -> ExitCode {
    subagent_runtime::main(std::env::args_os().skip(1))
}
