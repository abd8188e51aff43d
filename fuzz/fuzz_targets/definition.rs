//! A file with the definition of an agent.
#![cfg_attr(feature = "libfuzzer", no_main)]

#[macro_use]
#[path = "target.rs"]
mod target;

use subagent_config::agents::{Source, read};

fn read_it(data: &[u8]) {
    let _ = read(data, "stem", Source::Command);
}

target!(read_it);
