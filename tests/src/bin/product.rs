//! The three executables of the product in one file, with failpoints. The harness links it under
//! their names; its own name selects which one it is.

#![allow(clippy::panic, reason = "a tool for tests: a wrong name is a mistake in the harness")]

use std::env::{args_os, current_exe};
use std::process::ExitCode;

fn main() -> ExitCode {
    let program = current_exe().ok().and_then(|path| path.file_name().map(ToOwned::to_owned));
    let mut args = args_os().skip(1);
    match program.as_ref().and_then(|name| name.to_str()) {
        Some("subagent") => subagent_cli::main(args.collect()),
        Some("subagentd") => subagent_cli::daemon::main(args.collect()),
        Some("subagent-runtime") => subagent_runtime::main(&mut args),
        other => panic!("{other:?} is none of the product's executables"),
    }
}
