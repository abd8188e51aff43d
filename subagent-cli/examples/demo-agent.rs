//! The scripted agent as a program of its own, for this crate's tests.

fn main() -> std::process::ExitCode {
    subagent_cli::demo_agent::run(std::env::args_os().skip(1))
}
