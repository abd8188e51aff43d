//! The generated documents are those of this command line.

#![allow(clippy::unwrap_used, clippy::panic, reason = "all of this file is a test")]

#[path = "../examples/reference/pages.rs"]
mod pages;

use std::fs;

const AGAIN: &str = "run `cargo run -p subagent-cli --example reference` and commit what it wrote";

#[test]
fn the_generated_documents_are_up_to_date() {
    let pages = pages::all().unwrap();
    for (name, text) in &pages {
        let found = fs::read_to_string(pages::docs().join(name)).unwrap_or_default();
        assert!(found == *text, "docs/{name} is not what the command line says; {AGAIN}");
    }
    for entry in fs::read_dir(pages::docs().join("man")).unwrap() {
        let name = format!("man/{}", entry.unwrap().file_name().to_str().unwrap());
        assert!(pages.contains_key(&name), "docs/{name} belongs to no command; {AGAIN}");
    }
}

#[test]
fn every_command_has_a_page_with_its_examples() {
    let pages = pages::all().unwrap();
    for name in ["man/subagent.1", "man/subagent-worker-start.1", "man/subagentd-run.1", "cli.md"] {
        assert!(pages[name].contains("Example") || pages[name].contains("Quick start"), "{name}");
    }
    assert!(!pages["cli.md"].contains("demo-agent"), "hidden commands are not shown");
    assert!(
        pages["man/subagent-worker-start.1"].starts_with(".ie"),
        "{}",
        pages["man/subagent-worker-start.1"]
    );
}
