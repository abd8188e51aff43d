//! A config file.
#![cfg_attr(feature = "libfuzzer", no_main)]

#[macro_use]
#[path = "target.rs"]
mod target;

fn read(data: &[u8]) {
    let _ = subagent_config::file::parse(std::path::Path::new("config.yaml"), data);
}

target!(read);
