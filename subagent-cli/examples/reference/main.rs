//! Writes the generated documents again: `docs/cli.md` and the manual pages in `docs/man/`.
//!
//! `cargo run -p subagent-cli --example reference`

#![allow(clippy::print_stderr, reason = "a tool for whoever changes the command line")]

mod pages;

use std::fs;
use std::io;
use std::process::ExitCode;

fn main() -> ExitCode {
    match write() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cannot write the generated documents: {error}");
            ExitCode::FAILURE
        }
    }
}

fn write() -> io::Result<()> {
    let docs = pages::docs();
    match fs::remove_dir_all(docs.join("man")) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => fs::create_dir_all(docs.join("man"))?,
    }
    for (name, text) in pages::all()? {
        fs::write(docs.join(name), text)?;
    }
    Ok(())
}
