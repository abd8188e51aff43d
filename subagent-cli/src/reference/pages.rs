//! The generated documents, made of the definitions of the command line. Nothing is written here.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use clap::Command;

/// The folder of the documents.
pub(crate) fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs")
}

/// Every generated document: its path below [`docs`], and its text.
///
/// # Errors
/// None that can happen in memory.
pub(crate) fn all() -> io::Result<BTreeMap<String, String>> {
    let mut pages = BTreeMap::new();
    let mut reference = String::from(HEAD);
    for program in [crate::commands::documented(), crate::daemon::command()] {
        let mut program = program.disable_help_subcommand(true);
        program.build();
        for (command, path) in commands(&program, "") {
            let page = manual_page(command)?;
            pages.insert(format!("man/{}.1", path.replace(' ', "-")), page);
            chapter(command, &path, &mut reference);
        }
    }
    pages.insert("cli.md".to_owned(), reference.trim_end().to_owned() + "\n");
    Ok(pages)
}

const HEAD: &str = "\
# The command line

*Reference.* All commands and flags. Their JSON is in [api.md](api.md), their errors in
[errors.md](errors.md). This page and the manual pages in [man/](man/) are generated from the
definitions of the command line: `UPDATE_REFERENCE=1 cargo test -p subagent-cli --lib reference`.

";

/// The commands that people type, from the outside to the inside.
fn commands<'a>(command: &'a Command, before: &str) -> Vec<(&'a Command, String)> {
    let path = format!("{before} {}", command.get_name()).trim_start().to_owned();
    let shown = command.get_subcommands().filter(|sub| !sub.is_hide_set());
    let below: Vec<_> = shown.flat_map(|sub| commands(sub, &path)).collect();
    std::iter::once((command, path)).chain(below).collect()
}

fn manual_page(command: &Command) -> io::Result<String> {
    let program = concat!("subagent ", env!("CARGO_PKG_VERSION"));
    let page = clap_mangen::Man::new(command.clone()).source(program);
    let mut bytes = Vec::new();
    page.render(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes).replace(".SH EXTRA\n", ".SH EXAMPLES\n");
    Ok(text.lines().map(|line| line.trim_end().to_owned() + "\n").collect())
}

fn chapter(command: &Command, path: &str, out: &mut String) {
    let depth = path.split(' ').count() + 1;
    let help = command.clone().render_long_help().to_string();
    let help: Vec<&str> = help.lines().map(str::trim_end).collect();
    let help = help.join("\n");
    out.push_str(&format!("{} {path}\n\n```text\n{}\n```\n\n", "#".repeat(depth), help.trim()));
}
