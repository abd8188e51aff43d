//! The executable `subagent-runtime`.

mod link;

use std::process::ExitCode;

fn main() -> ExitCode {
    subagent_runtime::main(std::env::args_os().skip(1))
}
