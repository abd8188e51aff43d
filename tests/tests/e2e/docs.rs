//! Every command in the documents works: the `console` blocks of a document form one shell session,
//! which runs in its own sandbox.

use std::fs;
use std::path::Path;
use std::time::Duration;

use subagent_tests::harness::{TestSandbox, executables};

/// Returns the typed lines: those after `$ `, and continuations after `> `.
pub(crate) fn session(document: &str) -> String {
    let mut script = String::new();
    let mut inside = false;
    for line in document.lines() {
        match line {
            "```console" => inside = true,
            "```" => inside = false,
            _ if !inside => {}
            _ => {
                if let Some(typed) = line.strip_prefix("$ ").or_else(|| line.strip_prefix("> ")) {
                    script.push_str(typed);
                    script.push('\n');
                }
            }
        }
    }
    script
}

#[allow(clippy::unwrap_used)]
fn run(document: &str, folder: &str) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let typed = session(&fs::read_to_string(root.join(document)).unwrap());
    assert!(typed.lines().count() >= 3, "{document} has no commands, or they are not marked as `console`");
    let mut sandbox = TestSandbox::new();
    // The session's own workspace, for the checks at the end.
    sandbox.set_state_dir(sandbox.workspace().join(folder).join(".subagent/state"));
    let file = sandbox.file("session.sh");
    // Failures within a pipe count too, and a failure shows the commands before it.
    fs::write(&file, format!("set -euxo pipefail\n{typed}")).unwrap();
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin", executables().folder().display());
    let output = sandbox
        .command("bash")
        .args([file])
        .env("PATH", path)
        .without_env("SUBAGENT_STATE_DIR")
        .deadline(Duration::from_secs(120))
        .run();
    assert!(output.status.success(), "{document}: {output}");
    sandbox.finish();
}

#[test]
fn the_readme() {
    run("README.md", "try");
}

#[test]
fn the_worktrees() {
    run("docs/worktrees.md", "trees");
}

#[test]
fn the_tour() {
    run("docs/tour.md", "tour");
}

#[test]
fn the_tutorial() {
    run("docs/tutorial.md", "shop");
}

#[test]
fn the_managers() {
    run("docs/managers.md", "managed");
}

#[test]
fn the_notifications() {
    run("docs/notifications.md", "notified");
}

#[test]
fn parking() {
    run("docs/parking.md", "limited");
}

#[test]
fn the_schedules() {
    run("docs/schedules.md", "timed");
}

#[test]
fn the_triggers() {
    run("docs/triggers.md", "triggered");
}

#[test]
fn the_rules() {
    run("docs/policy.md", "team");
}

#[test]
fn the_names() {
    run("docs/names.md", "");
}

#[test]
fn the_diff() {
    run("docs/diff.md", "");
}

#[test]
fn the_sandbox() {
    run("docs/sandbox.md", "");
}

#[test]
fn the_queue() {
    run("docs/queue.md", "");
}

#[test]
fn the_inbox() {
    run("docs/approvals.md", "inbox");
}

#[test]
fn the_budgets() {
    run("docs/budgets.md", "work");
}

#[test]
fn the_definitions() {
    run("docs/definitions.md", "crew");
}

#[test]
fn the_memory() {
    run("docs/memory.md", "notes");
}

#[test]
fn the_tasks() {
    run("docs/delegation.md", "tasks");
}

#[test]
fn the_config() {
    run("docs/config.md", "");
}

#[test]
fn the_api() {
    run("docs/api.md", "");
}

#[test]
fn the_guide_for_those_who_come_from_the_reference() {
    run("docs/migrating.md", "try");
}

#[test]
fn the_page_about_ci() {
    run("docs/ci.md", "");
}

#[test]
fn the_hooks() {
    run("docs/hooks.md", "guarded");
}
