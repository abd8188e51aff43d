//! The runtime as an executable, for this crate's own tests.

fn main() -> std::process::ExitCode {
    subagent_runtime::main(std::env::args_os().skip(1))
}
