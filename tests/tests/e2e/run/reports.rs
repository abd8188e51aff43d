//! The files of `--summary` and `--junit`: written at every ending, and an agent's text
//! cannot break their structure.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::time::Duration;

use nix::sys::signal::Signal;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use serde_json::Value;
use subagent_tests::harness::{Output, TestSandbox, wait_until};

use super::{all_stopped, running, workers};

const SOON: Duration = Duration::from_secs(20);

/// Returns the output of a run with these flags, its summary and its JUnit document.
fn reported(sandbox: &TestSandbox, text: &str, args: &[&str]) -> (Output, String, String) {
    let (summary, junit) = (sandbox.file("summary.md"), sandbox.file("junit.xml"));
    let _ = fs::remove_file(&summary);
    let output = running(sandbox, text)
        .args(args)
        .args(["--summary".as_ref(), summary.as_os_str(), "--junit".as_ref(), junit.as_os_str()])
        .run();
    (output, fs::read_to_string(summary).unwrap(), fs::read_to_string(junit).unwrap())
}

/// Returns the text without times.
fn timeless(text: &str) -> String {
    let mut out = String::new();
    for (at, part) in text.split("time=\"").enumerate() {
        out.push_str(if at == 0 { "" } else { "time=\"" });
        out.push_str(if at == 0 { part } else { &part[part.find('"').unwrap()..] });
    }
    out
}

#[test]
fn a_completed_run_has_both_reports() {
    let sandbox = TestSandbox::new();
    let text = "!edit create new.txt 1\\n2\n!tokens {\"totalTokens\": 1500}\nDone <& ]]>";
    let (output, summary, junit) = reported(&sandbox, text, &["--name", "fix"]);
    assert_eq!((output.status.code(), output.stdout.as_str()), (Some(0), "Done <& ]]>\n"), "{output}");
    let duration = summary.lines().find(|line| line.starts_with("- Duration: ")).unwrap();
    let expected = format!(
        "\
## `fix`: done

- Agent: `demo` (worker `fix`)
- Outcome: done
{duration}
- Tool calls: 1
- Changed files: 1 file +2 −0
- Usage: 1.5k tokens (`totalTokens 1500`)

### Changed files

- `new.txt` +2 −0

### Final message

```text
Done <& ]]>
```
"
    );
    assert_eq!(summary, expected);
    let expected = r#"<?xml version="1.0" encoding="UTF-8"?>
<testsuites tests="1" failures="0" errors="0" time="">
  <testsuite name="subagent run" tests="1" failures="0" errors="0" time="" skipped="0">
    <testcase name="fix" classname="demo" time="">
      <system-out>Done &lt;&amp; ]]&gt;</system-out>
    </testcase>
  </testsuite>
</testsuites>
"#;
    assert_eq!(timeless(&junit), expected);
    sandbox.finish();
}

#[test]
fn a_summary_is_appended_and_a_junit_report_is_replaced() {
    let sandbox = TestSandbox::new();
    let (summary, junit) = (sandbox.file("summary.md"), sandbox.file("junit.xml"));
    fs::write(&summary, "before").unwrap();
    fs::write(&junit, "x".repeat(100_000)).unwrap();
    let run = || {
        let args = ["--summary".as_ref(), summary.as_os_str(), "--junit".as_ref(), junit.as_os_str()];
        running(&sandbox, "\nSay hello.\nThen end.").args(args).run()
    };
    assert_eq!(run().text(), "Say hello.Then end.\n");
    assert_eq!(run().status.code(), Some(0));
    let summary = fs::read_to_string(&summary).unwrap();
    assert!(summary.starts_with("before\n## `Say hello.`: done\n"), "{summary}");
    assert_eq!(summary.matches("\n## `Say hello.`: done\n").count(), 2, "{summary}");
    let junit = fs::read_to_string(&junit).unwrap();
    assert!(junit.ends_with("</testsuites>\n"), "{junit}");
    assert_eq!(junit.matches(r#"<testcase name="Say hello." "#).count(), 1, "{junit}");
    sandbox.finish();
}

#[test]
fn a_run_that_is_no_success_says_why_and_what_to_do() {
    let sandbox = TestSandbox::new();
    for (text, args, code, label, hint, element) in [
        (
            "so far\n!error -32603 no luck",
            &[][..],
            10,
            "failed",
            "Try: subagent logs demo-",
            r#"type="BACKEND_RPC_ERROR">"#,
        ),
        (
            "!sleep 60000",
            &["--timeout", "1s"],
            13,
            "timed out",
            "Hint: raise --timeout",
            r#"type="timeout">"#,
        ),
        (
            "!ask execute rm -rf build",
            &[],
            12,
            "denied",
            "Hint: allow it with --allow",
            r#"type="permission_denied">"#,
        ),
        ("!stop refusal", &[], 16, "refused", "Hint: change the prompt", r#"type="refusal">"#),
    ] {
        let (output, summary, junit) = reported(&sandbox, text, args);
        assert_eq!(output.status.code(), Some(code), "{output}");
        assert!(summary.contains(&format!("- Outcome: {label}\n")), "{summary}");
        assert!(summary.contains("\n### Why\n\n```text\n") && summary.contains(hint), "{summary}");
        let (failures, errors) = if code == 10 || code == 13 { (0, 1) } else { (1, 0) };
        assert!(junit.contains(&format!(r#"failures="{failures}" errors="{errors}""#)), "{junit}");
        assert!(junit.contains(if errors == 1 { "<error " } else { "<failure " }), "{junit}");
        assert!(junit.contains(element) && junit.contains(hint), "{junit}");
    }
    all_stopped(&sandbox, 4);
    sandbox.finish();
}

#[test]
fn a_run_that_never_began_is_reported_too() {
    let mut sandbox = TestSandbox::new();
    let broken = sandbox.demo_agent(&["--exit", "3"]);
    sandbox.launcher("broken", broken);
    for (launcher, code) in [("broken", "BACKEND_UNAVAILABLE"), ("none", "LAUNCHER_NOT_FOUND")] {
        let (output, summary, junit) = reported(&sandbox, "hello", &["--launcher", launcher]);
        assert_eq!(output.status.code(), Some(1), "{output}");
        assert!(summary.starts_with("## `hello`: error\n"), "{summary}");
        assert!(summary.contains(&format!("```text\n{code}: ")), "{summary}");
        assert!(junit.contains(&format!(r#"classname="{launcher}""#)), "{junit}");
        assert!(junit.contains("<error ") && junit.contains(&format!(r#"type="{code}""#)), "{junit}");
    }
    sandbox.finish();
}

#[test]
fn an_interrupted_run_is_reported_too() {
    let sandbox = TestSandbox::new();
    let (summary, junit) = (sandbox.file("summary.md"), sandbox.file("junit.xml"));
    let args = ["--summary".as_ref(), summary.as_os_str(), "--junit".as_ref(), junit.as_os_str()];
    let run = running(&sandbox, "so far\n!sleep 60000").args(args).args(["--output", "ndjson"]).spawn();
    run.wait_line("the message", |line| line.contains("so far").then_some(()));
    assert_eq!(fs::metadata(&junit).unwrap().len(), 0);
    run.signal(Signal::SIGTERM);
    assert_eq!(run.output().status.signal(), Some(Signal::SIGTERM as i32));
    let (summary, junit) = (fs::read_to_string(summary).unwrap(), fs::read_to_string(junit).unwrap());
    assert!(summary.starts_with("## `so far`: interrupted\n"), "{summary}");
    assert!(junit.contains(r#"type="interrupted""#) && junit.contains("<error "), "{junit}");
    sandbox.finish();
}

#[test]
fn a_run_that_is_interrupted_before_it_has_a_worker_is_reported_too() {
    let (sandbox, _) = TestSandbox::with_worker();
    let (summary, junit) = (sandbox.file("summary.md"), sandbox.file("junit.xml"));
    let args = ["--summary".as_ref(), summary.as_os_str(), "--junit".as_ref(), junit.as_os_str()];
    // A daemon that does not answer: the run waits for it.
    let daemon = sandbox.daemon();
    daemon.signal(Signal::SIGSTOP);
    let run = running(&sandbox, "hello").args(args).spawn();
    wait_until("the files of the reports", SOON, || junit.exists().then_some(()));
    run.signal(Signal::SIGTERM);
    let output = run.output();
    daemon.signal(Signal::SIGCONT);
    assert_eq!(output.status.signal(), Some(Signal::SIGTERM as i32), "{output}");
    assert!(output.stderr.contains("interrupted before its agent was ready"), "{output}");
    let (summary, junit) = (fs::read_to_string(summary).unwrap(), fs::read_to_string(junit).unwrap());
    assert!(summary.starts_with("## `hello`: interrupted\n"), "{summary}");
    assert_eq!(junit.matches("<testcase ").count(), 1, "{junit}");
    assert!(junit.contains(r#"type="interrupted""#) && junit.contains("<error "), "{junit}");
    assert_eq!(workers(&sandbox), Vec::<Value>::new());
    sandbox.finish();
}

#[test]
fn an_agent_cannot_get_out_of_its_place() {
    let sandbox = TestSandbox::new();
    let escape = "\u{1b}[2J\u{0}";
    let text = format!("!say ```{escape}\n!say \\n## Mine\n!say </system-out></testcase><!--");
    let text = text.replace("\\n", "\n!say \u{2028}");
    let (output, summary, junit) = reported(&sandbox, &text, &["--name", "fix"]);
    assert_eq!(output.status.code(), Some(0), "{output}");
    let (_, message) = summary.split_once("### Final message\n\n").unwrap();
    let fence = message.split_once("text\n").unwrap().0;
    assert!(fence.len() > 3 && message.ends_with(&format!("\n{fence}\n")), "{message}");
    assert_eq!(message.matches(fence).count(), 2, "{message}");
    assert!(!summary.contains('\u{1b}') && !junit.contains('\u{1b}'), "{summary}{junit}");
    assert_eq!((junit.matches("</system-out>").count(), junit.matches("<!--").count()), (1, 0), "{junit}");
    sandbox.finish();
}

#[test]
fn a_file_that_cannot_be_written_is_found_out_before_anything_is_started() {
    let sandbox = TestSandbox::new();
    let locked = sandbox.file("locked");
    fs::create_dir(&locked).unwrap();
    let pipe = sandbox.file("pipe");
    mkfifo(&pipe, Mode::S_IRWXU).unwrap();
    for path in [sandbox.file("no-such-folder/x"), locked, pipe] {
        for flag in ["--summary", "--junit"] {
            let output = running(&sandbox, "hello").args(["--json", flag]).args([&path]).run();
            assert_eq!(output.status.code(), Some(2), "{output}");
            let error: Value = serde_json::from_str(&output.stdout).unwrap();
            assert_eq!(error["error"]["code"], "INVALID_ARGUMENT", "{output}");
            assert_eq!(error["error"]["details"]["flag"], flag, "{output}");
        }
    }
    let output = running(&sandbox, "hello").args(["--junit", "no-such-folder/x"]).run();
    assert!(output.stderr.starts_with("INVALID_ARGUMENT: cannot write the file of --junit, "), "{output}");
    assert!(!sandbox.state_dir().exists());
    let output = sandbox.command("subagent").args(["run", "-d", "--junit", "x", "demo", "hello"]).run();
    assert_eq!(output.status.code(), Some(2), "{output}");
    assert_eq!(workers(&sandbox), Vec::<Value>::new());
    sandbox.finish();
}

#[test]
fn a_report_that_is_lost_at_the_end_is_no_success() {
    let sandbox = TestSandbox::new();
    let output = running(&sandbox, "hello").args(["--junit", "/dev/full"]).run();
    assert_eq!((output.status.code(), output.stdout.as_str()), (Some(1), "hello\n"), "{output}");
    assert!(output.stderr.contains("run: cannot write the file of --junit, /dev/full: "), "{output}");
    let output = running(&sandbox, "!stop refusal").args(["--summary", "/dev/full"]).run();
    assert_eq!(output.status.code(), Some(16), "{output}");
    let null = running(&sandbox, "hello").args(["--summary", "/dev/null", "--junit", "/dev/null"]).run();
    assert_eq!(null.text(), "hello\n");
    let report = sandbox.file("own.xml");
    let _ = running(&sandbox, "hello").args(["--junit".as_ref(), report.as_os_str()]).run();
    assert_eq!(fs::metadata(report).unwrap().permissions().mode() & 0o111, 0);
    sandbox.finish();
}
