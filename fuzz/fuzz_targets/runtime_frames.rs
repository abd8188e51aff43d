//! What a runtime writes to its daemon.
#![cfg_attr(feature = "libfuzzer", no_main)]

#[macro_use]
#[path = "target.rs"]
mod target;

fn read(data: &[u8]) {
    subagentd::testing::fuzz::frames_of_runtime(data);
}

target!(read);
