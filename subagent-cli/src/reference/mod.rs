//! `docs/cli.md` and the manual pages in `docs/man/` match the definitions of the command line.
//! `UPDATE_REFERENCE=1 cargo test -p subagent-cli --lib reference` writes them.

mod pages;

use std::fs;

const UPDATE: &str = "run `UPDATE_REFERENCE=1 cargo test -p subagent-cli --lib reference`";

#[test]
fn the_generated_documents_are_up_to_date() {
    let pages = pages::all().unwrap();
    let manual = pages::docs().join("man");
    if std::env::var_os("UPDATE_REFERENCE").is_some() {
        fs::remove_dir_all(&manual).unwrap();
        fs::create_dir(&manual).unwrap();
        for (name, text) in &pages {
            fs::write(pages::docs().join(name), text).unwrap();
        }
    }
    for (name, text) in &pages {
        let found = fs::read_to_string(pages::docs().join(name)).unwrap_or_default();
        assert!(found == *text, "docs/{name} does not match the command line: {UPDATE}");
    }
    for entry in fs::read_dir(&manual).unwrap() {
        let name = format!("man/{}", entry.unwrap().file_name().to_str().unwrap());
        assert!(pages.contains_key(&name), "docs/{name} belongs to no command: {UPDATE}");
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
