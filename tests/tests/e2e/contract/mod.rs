//! The contract, section by section, with the executables: compares JSON exactly.

mod s01_output;
mod s02_environment;
mod s03_paths;
mod s04_config;
mod s05_registry;
mod s06_controllers;
mod s07_workers;
mod s08_input;
mod s09_send;
mod s10_watch_wait;
mod s11_approve_cancel;
mod s12_errors;
mod s13_events;
mod s14_states;
mod s15_daemon;
mod s17_help;
mod s18_agents;
mod s18_strangers;
mod s19_elicitation;
mod s19_handshake;
mod s19_options;

use subagent_tests::harness::{Output, TestSandbox};

/// Starts all of these commands, then waits for their outputs.
fn at_once<'a, const N: usize>(
    sandbox: &TestSandbox,
    commands: impl Iterator<Item = [&'a str; N]>,
) -> Vec<Output> {
    let running: Vec<_> = commands.map(|args| sandbox.subagent(&args).spawn()).collect();
    running.into_iter().map(|running| running.output()).collect()
}
