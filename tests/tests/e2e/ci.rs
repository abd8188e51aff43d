//! The examples of docs/ci.md and examples/ci-with-schema work: the scripts run unchanged,
//! with the scripted agent.

use std::fs;
use std::path::{Path, PathBuf};

use subagent_tests::harness::{Command, TestSandbox, executables};

const APPROVES: &str = r#"{"verdict": "approve", "comments": [{"file": "a.rs", "text": "fine"}]}"#;
const REJECTS: &str = r#"{"verdict": "reject", "comments": []}"#;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

fn bash(sandbox: &TestSandbox) -> Command {
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin", executables().folder().display());
    sandbox.command("bash").env("PATH", path)
}

/// Returns the script of the step with this name.
fn step(document: &str, name: &str) -> String {
    let after = document.split_once(&format!("- name: {name}\n")).unwrap().1;
    let block = after.split_once("run: |\n").unwrap().1;
    let indent = block.len() - block.trim_start().len();
    let lines = block.lines().take_while(|line| line.len() > indent && line[..indent].trim().is_empty());
    lines.map(|line| format!("{}\n", &line[indent..])).collect()
}

#[test]
fn the_step_of_the_workflow_judges_the_review() {
    let sandbox = TestSandbox::new();
    let script = step(&fs::read_to_string(root().join("docs/ci.md")).unwrap(), "Review the change");
    assert!(script.contains("subagent run") && script.ends_with("esac\n"), "{script}");
    let schema = root().join("examples/ci-with-schema/review.schema.json");
    fs::create_dir(sandbox.workspace().join(".github")).unwrap();
    fs::copy(schema, sandbox.workspace().join(".github/review.schema.json")).unwrap();
    let forbidden = format!("!ask execute make\n{APPROVES}");
    for (task, code, said) in [
        (APPROVES, 0, ""),
        (REJECTS, 1, ""),
        (forbidden.as_str(), 1, "::error::the agent wanted what no rule allows\n"),
        ("I like it.", 1, "::error::the agent's answer is no review\n"),
        ("!error -32000 no luck", 10, ""),
    ] {
        fs::write(sandbox.workspace().join(".github/review.md"), task).unwrap();
        // As the workflow's runner does it.
        let summary = sandbox.file("summary.md");
        let _ = fs::remove_file(&summary);
        let output = bash(&sandbox)
            .args(["-eo", "pipefail", "-c", &script])
            .env("LAUNCHER", "demo")
            .env("GITHUB_STEP_SUMMARY", &summary)
            .run();
        assert_eq!((output.status.code(), output.stdout.as_str()), (Some(code), said), "{task}: {output}");
        assert!(fs::read_to_string(summary).unwrap().contains("- Outcome: "), "{task}");
    }
    sandbox.finish();
}

#[test]
fn the_job_of_gitlab_leaves_a_report() {
    let sandbox = TestSandbox::new();
    let document = fs::read_to_string(root().join("docs/ci.md")).unwrap();
    let script = document.lines().find_map(|line| line.strip_prefix("    - subagent run ")).unwrap();
    fs::create_dir(sandbox.workspace().join(".gitlab")).unwrap();
    fs::write(sandbox.workspace().join(".gitlab/review.md"), "It is fine.").unwrap();
    let script = format!("subagent run {script}");
    let output = bash(&sandbox).args(["-c", &script]).env("LAUNCHER", "demo").run();
    assert_eq!(output.text(), "It is fine.\n");
    let report = fs::read_to_string(sandbox.workspace().join("review.xml")).unwrap();
    assert!(report.contains(r#"<testcase name="review" classname="demo" "#), "{report}");
    sandbox.finish();
}

#[test]
fn the_example_with_a_schema_shows_the_review() {
    let sandbox = TestSandbox::new();
    let script = root().join("examples/ci-with-schema/review.sh");
    let run = |task: &str| {
        let file = sandbox.file("task.md");
        fs::write(&file, task).unwrap();
        bash(&sandbox).args([script.as_os_str(), "demo".as_ref(), file.as_os_str()]).run()
    };
    let output = run(&format!("!tool read a.rs\n{APPROVES}"));
    assert!(output.text().contains(r#""verdict": "approve""#), "{output}");
    assert_eq!(run(REJECTS).status.code(), Some(1));
    let output = run("It is fine.");
    assert_eq!((output.status.code(), output.stdout.as_str()), (Some(14), ""), "{output}");
    assert!(output.stderr.contains("schema_not_met"), "{output}");
    sandbox.finish();
}
