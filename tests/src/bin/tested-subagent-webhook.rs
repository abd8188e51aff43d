//! The executable `subagent-webhook`, built with the tests.

use std::process::ExitCode;

fn main() -> ExitCode {
    subagent_webhook::main()
}
