//! The journal of a runtime that is gone.
#![cfg_attr(feature = "libfuzzer", no_main)]

#[macro_use]
#[path = "target.rs"]
mod target;

fn read(data: &[u8]) {
    let directory = tempfile::tempdir().expect("a folder for the journal");
    subagentd::testing::fuzz::journal(directory.path(), data, None);
}

target!(read);
