//! What a daemon writes to the command socket of a runtime.
#![cfg_attr(feature = "libfuzzer", no_main)]

#[macro_use]
#[path = "target.rs"]
mod target;

fn read(data: &[u8]) {
    subagent_runtime::fuzz::command_socket(data);
}

target!(read);
