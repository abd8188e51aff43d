//! A file with the definition of an agent.
#![cfg_attr(feature = "libfuzzer", no_main)]

#[macro_use]
#[path = "target.rs"]
mod target;

use subagent_config::agents::{DefinitionSource, read};

fn read_it(data: &[u8]) {
    let _ = read(data, "stem", DefinitionSource::Command);
}

target!(read_it);
