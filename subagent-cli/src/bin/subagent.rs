//! The executable `subagent`.

mod link;

use std::process::ExitCode;

fn main() -> ExitCode {
    subagent_cli::main(std::env::args_os().skip(1).collect())
}
