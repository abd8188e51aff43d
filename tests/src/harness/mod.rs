//! A world of its own for each test: folders, environment, executables, and the proof that nothing is left.
//!
//! A test makes a [`Sandbox`], runs commands in it, and ends with [`Sandbox::finish`], which stops the workers and
//! the daemon, checks every invariant and that no process is left. A sandbox that is dropped without it (a test
//! that failed) kills everything, so that no test can disturb another one.
//!
//! Everything here panics with what was seen instead of giving errors back: a test's set-up that fails must not go
//! on. Nothing sleeps but [`wait_until`].

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test's set-up: it stops at what is wrong and says what was seen"
)]

mod command;
mod control;
mod crowd;
mod executables;
mod faults;
mod finish;
mod http;
mod launchers;
mod lookout;
mod manager;
mod output;
pub mod process;
mod sandbox;
mod shape;
mod stubborn;
mod tasks;
mod terminal;
mod typist;
mod wait;

pub use command::{Command, Running};
pub use control::Gate;
pub use crowd::crowd;
pub use executables::{Executables, executables, use_executables_of};
pub use faults::Faults;
pub use finish::Finished;
pub use http::{Response, answer, request, try_request};
pub use launchers::Launcher;
pub use lookout::Lookout;
pub use output::Output;
pub use sandbox::Sandbox;
pub use shape::assert_shape;
pub use stubborn::Stubborn;
pub use subagent_testkit::{Random, say, times};
pub use terminal::{AtTerminal, On, Screen};
pub use typist::{MAX_TYPED, Typist};
pub use wait::{wait_until, wait_while};
