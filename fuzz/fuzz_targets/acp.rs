//! What an agent writes in the middle of a turn.
#![cfg_attr(feature = "libfuzzer", no_main)]

#[macro_use]
#[path = "target.rs"]
mod target;

fn read(data: &[u8]) {
    subagent_runtime::fuzz::agent_output(data);
}

target!(read);
