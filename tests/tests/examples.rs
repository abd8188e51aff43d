//! The scripts in `examples/` work as they are, with the scripted agent: that of CI is run in `ci.rs`, that with a real agent
//! in `e2e_real_agent`.

#![allow(clippy::unwrap_used, clippy::panic, reason = "all of this file is a test")]

use std::fs;
use std::path::{Path, PathBuf};

use subagent_tests::harness::{Command, Sandbox, executables, say};

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("examples").join(name)
}

fn bash(sandbox: &Sandbox) -> Command {
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin", executables().folder().display());
    sandbox.command("bash").env("PATH", path)
}

#[test]
fn three_reviewers_work_at_the_same_time_and_make_one_review() {
    if !Path::new("/usr/bin/jq").exists() && !Path::new("/usr/local/bin/jq").exists() {
        return say("SKIPPED, NOTHING WAS TESTED: examples/three-reviewers needs jq");
    }
    let sandbox = Sandbox::new();
    sandbox.init();
    let tasks = sandbox.file("tasks");
    fs::create_dir(&tasks).unwrap();
    // Each goes on only when all have begun: one after the other they would never end.
    let begun: Vec<String> =
        ["a", "b", "c"].iter().map(|name| sandbox.file_name(&format!("begun-{name}"))).collect();
    let all: String = begun.iter().map(|file| format!("!wait-file {file}\n")).collect();
    for (name, own, last) in [
        ("correctness", &begun[0], "a.rs:1 \"one\" is too many"),
        ("tests", &begun[1], "!ask execute make install\nnothing"),
        ("words", &begun[2], "!ask edit README.md\na\\b.rs:2: ünclear"),
    ] {
        fs::write(tasks.join(format!("{name}.md")), format!("!touch {own}\n{all}{last}\n")).unwrap();
    }
    let review = || {
        bash(&sandbox)
            .args([example("three-reviewers/review.sh").as_os_str(), "demo".as_ref(), tasks.as_os_str()])
            .run()
    };
    let output = review();
    let expected = "## correctness\n\na.rs:1 \"one\" is too many\n\n## tests\n\npermission: reject-oncenothing\n\n\
                    ## words\n\npermission: reject-oncea\\b.rs:2: ünclear\n\n";
    assert_eq!((output.status.code(), output.stdout.as_str()), (Some(0), expected), "{output}");
    assert_eq!(sandbox.run(&["worker", "list", "-l", "role=reviewer"]).data_of("worker.listed")["count"], 3);
    for item in sandbox.run(&["worker", "list"]).data_of("worker.listed")["items"].as_array().unwrap() {
        assert_eq!(item["state"], "stopped", "{item}");
    }

    fs::write(tasks.join("tests.md"), "!error -32000 no luck").unwrap();
    let output = review();
    assert_eq!(output.status.code(), Some(1), "{output}");
    assert!(output.stdout.contains("## tests\n\nno answer: turn.failed\n\n## words\n"), "{output}");
    for task in fs::read_dir(example("three-reviewers/tasks")).unwrap() {
        assert!(fs::read_to_string(task.unwrap().path()).unwrap().contains("Do not edit anything."));
    }
    sandbox.finish();
}

#[test]
fn an_agent_works_under_rules() {
    let sandbox = Sandbox::new();
    let script = example("policy-with-a-real-agent/work.sh");
    let work = |task: &str| {
        let file = sandbox.file("task.md");
        fs::write(&file, task).unwrap();
        bash(&sandbox).args([script.as_os_str(), "demo".as_ref(), file.as_os_str()]).run()
    };
    let output = work("!ask execute git commit -m x\nIt is done.");
    assert_eq!(output.text(), "permission: allow-onceIt is done.\n");
    assert!(output.stderr.contains("execute(git push *)"), "{output}");
    for denied in ["execute git push", "execute rm -rf /", "execute make"] {
        assert_eq!(work(&format!("!ask {denied}")).status.code(), Some(12), "{denied}");
    }
    sandbox.finish();
}
