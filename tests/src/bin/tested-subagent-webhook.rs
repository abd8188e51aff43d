//! The executable `subagent-webhook`.

use std::process::ExitCode;

fn main() -> ExitCode {
    subagent_webhook::main()
}
