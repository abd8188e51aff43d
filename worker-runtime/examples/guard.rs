//! The guard alone, for its tests: `guard [--umask OCTAL] [--nofile SOFT] -- COMMAND ARGS...`.

fn main() -> std::process::ExitCode {
    subagent_runtime::guard::main(std::env::args_os().skip(1))
}
