//! A separate world for each test: folders, environment, executables, and the proof that no process
//! is left. Everything here panics with the observed data instead of returning errors: a test must
//! not continue after a failed set-up.

// A test creates a [`TestSandbox`], runs commands in it, and ends with [`TestSandbox::finish`]. That
// stops the workers and the daemon, and checks every invariant and that no process is left. A
// sandbox dropped without it (by a failed test) kills everything, so that tests cannot disturb each
// other.
//
// Only [`wait_until`] sleeps.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test's set-up: it stops at an error and prints what it saw"
)]

mod clients;
mod command;
mod control;
mod crowd;
mod executables;
mod faults;
mod finish;
mod host_machine;
mod host_network;
mod launchers;
mod lookout;
mod output;
pub mod process;
mod sandbox;
mod shape;
mod ssh_host;
mod tasks;
mod user_config;
mod wait;

pub use clients::browser::Browser;
pub use clients::http::{Response, answer, parse, request, try_request};
pub use clients::stubborn::Stubborn;
pub use clients::terminal::{AtTerminal, On, Screen};
pub use clients::typist::Typist;
pub use command::{Command, Running};
pub use control::Gate;
pub use crowd::crowd;
pub use executables::{Executables, executables, use_executables_of};
pub use faults::Faults;
pub use finish::Finished;
pub use host_machine::HostMachine;
pub use launchers::TestLauncher;
pub use lookout::Lookout;
pub use output::Output;
pub use sandbox::TestSandbox;
pub use shape::assert_shape;
pub use ssh_host::SshHost;
pub use subagent_testkit::{Random, say, times};
pub use wait::{wait_until, wait_while};
