//! Help, versions, wrong usage, completions: the output before anything is done.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;

use serde_json::{Value, json};
use subagent_tests::harness::{Output, TestSandbox, assert_shape};

/// Runs one of our programs with these words.
#[track_caller]
fn typed(sandbox: &TestSandbox, line: &str) -> Output {
    let mut words = line.split_whitespace();
    sandbox.command(words.next().unwrap()).args(words).run()
}

/// Returns the help of a command.
#[track_caller]
fn help(sandbox: &TestSandbox, command: &str) -> String {
    let output = typed(sandbox, &format!("{command} --help"));
    assert_eq!(output.stderr, "", "help is on stdout: {output}");
    output.text().to_owned()
}

/// Returns the names below `Commands:` in a help text.
fn sub_commands(help: &str) -> Vec<String> {
    let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    lines
        .take_while(|line| !line.is_empty())
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .map(str::to_owned)
        .collect()
}

/// Returns every command with its help, found through the help texts themselves.
fn all_help(sandbox: &TestSandbox) -> Vec<(String, String, bool)> {
    let mut open: Vec<String> = vec!["subagent".to_owned(), "subagentd".to_owned()];
    let mut found = Vec::new();
    while let Some(command) = open.pop() {
        let text = help(sandbox, &command);
        let below = sub_commands(&text);
        open.extend(below.iter().map(|name| format!("{command} {name}")));
        found.push((command, text, below.is_empty()));
    }
    assert!(found.len() > 20, "{} commands were found", found.len());
    found
}

/// Returns the envelope of wrong usage.
#[track_caller]
fn usage_error(output: &Output) -> Value {
    assert_eq!(output.status.code(), Some(2), "{output}");
    assert!(output.stderr.contains("Usage: ") || output.stderr.contains("error: "), "{output}");
    let envelope = output.document();
    let error = json!({
        "code": "=INVALID_ARGUMENT", "message": "str", "retryable": false,
        "details!": {"usage!": "str", "argument!": "str", "suggestion!": "str"},
    });
    assert_shape(&envelope, &json!({"schemaVersion": "=v1", "ok": false, "type": "=error", "error": error}));
    envelope["error"].clone()
}

#[test]
fn the_phrases_of_the_contract_stand_each_on_one_line() {
    let sandbox = TestSandbox::new();
    for (command, phrases) in [
        (
            "subagent",
            [
                "instructed to",
                "use this tool as a manager agent",
                "subagent prompt render",
                "`send` now waits by default",
                "--no-wait",
            ]
            .as_slice(),
        ),
        ("subagent worker start", &["outside-sandbox execution"]),
        (
            "subagent send",
            &[
                "--wait",
                "--no-wait",
                "--wait-until",
                "wait-timeout",
                "--text-file",
                "--text-stdin",
                "--input",
                "structured JSON",
                "complex",
            ],
        ),
        (
            "subagent wait",
            &["turn_end", "--timeout-seconds", "no timeout", "--after-latest", "--include-history"],
        ),
        ("subagent watch", &["--follow", "--from-event-id", "--ndjson"]),
    ] {
        let text = help(&sandbox, command);
        for phrase in phrases {
            assert!(text.lines().any(|line| line.contains(phrase)), "{command}: {phrase:?} in\n{text}");
        }
    }
    sandbox.finish();
}

#[test]
fn every_help_fits_80_columns_and_every_leaf_has_an_example() {
    let sandbox = TestSandbox::new();
    for (command, text, leaf) in all_help(&sandbox) {
        for line in text.lines() {
            assert!(line.chars().count() <= 80, "{command}: {line}");
        }
        assert!(!leaf || text.contains("Example"), "{command} has no example:\n{text}");
    }
    assert!(sandbox.processes().is_empty());
    sandbox.finish();
}

#[test]
fn help_also_answers_to_the_short_flag_and_the_word() {
    let sandbox = TestSandbox::new();
    let long = help(&sandbox, "subagent worker stop");
    assert_eq!(typed(&sandbox, "subagent help worker stop").text(), long);
    assert!(typed(&sandbox, "subagent worker stop -h").text().starts_with("Stop a worker"));
    sandbox.finish();
}

#[test]
fn no_command_is_wrong_usage_with_the_help_on_stderr() {
    let sandbox = TestSandbox::new();
    for line in ["subagent", "subagent worker", "subagent daemon", "subagentd"] {
        let output = typed(&sandbox, line);
        assert_eq!((output.status.code(), output.stdout.as_str()), (Some(2), ""), "{output}");
        assert!(output.stderr.contains(&format!("Usage: {line} <COMMAND>")), "{output}");
        assert!(output.stderr.contains("Commands:"), "{output}");
    }
    sandbox.finish();
}

#[test]
fn wrong_usage_is_text_on_stderr_without_json() {
    let sandbox = TestSandbox::new();
    for line in [
        "subagent nope",
        "subagent --nope",
        "subagent worker show",
        "subagent send --wait-timeout-seconds x",
        "subagent watch --worker-id w --timeout-seconds 0.05",
        "subagent daemon logs --lines 0",
        "subagent completions tcsh",
        "subagentd run --nope",
    ] {
        let output = typed(&sandbox, line);
        assert_eq!((output.status.code(), output.stdout.as_str()), (Some(2), ""), "{output}");
        assert!(output.stderr.starts_with("error: "), "{output}");
    }
    sandbox.finish();
}

#[test]
fn wrong_usage_with_json_anywhere_is_an_envelope_too() {
    let sandbox = TestSandbox::new();
    for (line, argument) in [
        ("subagent --json nope", None),
        ("subagent nope --json", Some("nope")),
        ("subagent worker show --json", Some("<WORKER_ID>")),
        ("subagent worker --json", Some("--json")),
        ("subagent send --json --wait-timeout-seconds x", Some("--wait-timeout-seconds <SECONDS>")),
        ("subagent watch --worker-id w --timeout-seconds 0.05 --json", Some("--timeout-seconds <SECONDS>")),
        ("subagent worker list --nope --json", Some("--nope")),
        ("subagent completions tcsh --json", Some("<SHELL>")),
        ("subagentd run --heartbeat-seconds 0 --json", Some("--heartbeat-seconds <SECONDS>")),
        ("subagentd --json", Some("--json")),
    ] {
        let error = usage_error(&typed(&sandbox, line));
        if let Some(argument) = argument {
            assert_eq!(error["details"]["argument"], argument, "{line}: {error}");
        }
    }
    let error = usage_error(&typed(&sandbox, "subagent worker show --json"));
    assert_eq!(error["details"]["usage"], "subagent worker show --json <WORKER_ID>");
    assert_eq!(
        error["message"], "the following required arguments were not provided: <WORKER_ID>",
        "one line, without the usage"
    );
    // After `--` it is text of the caller.
    let output = typed(&sandbox, "subagent worker show -- --json more");
    assert_eq!((output.status.code(), output.stdout.as_str()), (Some(2), ""), "{output}");
    sandbox.finish();
}

#[test]
fn a_typing_error_gets_a_suggestion() {
    let sandbox = TestSandbox::new();
    for (line, suggestion) in [
        ("subagent wrker list", "worker"),
        ("subagent worker lst", "list"),
        ("subagent worker list --controler-id x", "--controller-id"),
        ("subagent completions bsh", "bash"),
        ("subagentd stats", "status"),
    ] {
        let output = typed(&sandbox, line);
        assert_eq!(output.status.code(), Some(2), "{output}");
        assert!(output.stderr.contains("tip: "), "{output}");
        assert!(output.stderr.contains(suggestion), "{output}");
        let error = usage_error(&typed(&sandbox, &format!("{line} --json")));
        assert!(
            error["details"]["suggestion"].as_str().is_some_and(|text| text.contains(suggestion)),
            "{line}: {error}"
        );
    }
    sandbox.finish();
}

#[test]
fn words_that_are_not_utf_8_are_wrong_usage() {
    let sandbox = TestSandbox::new();
    let bytes = || OsString::from_vec(vec![b'x', 0xff]);
    for before in [["worker", "show"].as_slice(), &["send", "--text"], &["watch", "--worker-id"], &[]] {
        let words = || before.iter().map(OsString::from).chain([bytes()]);
        let output = sandbox.command("subagent").args(words()).run();
        assert_eq!((output.status.code(), output.stdout.as_str()), (Some(2), ""), "{output}");
        assert!(output.stderr.starts_with("error: "), "{output}");
        usage_error(&sandbox.command("subagent").args(words().chain(["--json".into()])).run());
    }
    usage_error(&sandbox.command("subagentd").args([bytes(), "--json".into()]).run());
    sandbox.finish();
}

#[test]
fn versions_are_reported_as_text_and_as_json() {
    let sandbox = TestSandbox::new();
    for program in ["subagent", "subagentd"] {
        for flag in ["--version", "-V"] {
            let output = typed(&sandbox, &format!("{program} {flag}"));
            assert_eq!(output.text(), format!("{program} {}\n", env!("CARGO_PKG_VERSION")));
        }
        for line in ["--version --json", "--json --version", "-V --json"] {
            let data = typed(&sandbox, &format!("{program} {line}")).data_of("version.shown");
            assert_shape(&data, &json!({"version": "str", "protocol": "int", "oldestProtocol": "int"}));
            assert_eq!(data["version"], env!("CARGO_PKG_VERSION"));
            assert_eq!(data["protocol"], subagent_protocol::PROTOCOL);
        }
    }
    sandbox.finish();
}

#[test]
fn bash_completes_commands_and_flags() {
    let sandbox = TestSandbox::new();
    let script = sandbox.file("completions.bash");
    std::fs::write(&script, typed(&sandbox, "subagent completions bash").text()).unwrap();
    let complete = |words: &str| {
        let index = words.split(' ').count() - 1;
        let ask = format!(
            "source {}; COMP_WORDS=({words}); COMP_CWORD={index}; _subagent subagent \"${{COMP_WORDS[{index}]}}\" \"${{COMP_WORDS[{index}-1]}}\"; echo \"${{COMPREPLY[*]}}\"",
            script.display()
        );
        sandbox.command("bash").args(["--norc", "-c", &ask]).run().text().trim().to_owned()
    };
    assert_eq!(complete("subagent dae"), "daemon");
    assert_eq!(complete("subagent daemon st"), "start stop status");
    assert_eq!(complete("subagent send --wait-u"), "--wait-until");
    assert_eq!(complete("subagent completions z"), "zsh");
    sandbox.finish();
}

#[test]
fn there_are_scripts_for_the_other_shells() {
    let sandbox = TestSandbox::new();
    assert!(typed(&sandbox, "subagent completions zsh").text().starts_with("#compdef subagent\n"));
    let fish = typed(&sandbox, "subagent completions fish");
    assert!(fish.text().contains("complete -c subagent"), "{fish}");
    let data = sandbox.run(&["completions", "fish"]).data_of("completions.generated");
    assert_eq!(data, json!({"shell": "fish", "script": fish.stdout}));
    // The names in the Python program.
    let old = |args: &[&str]| sandbox.command("subagent").args(args).env("SHELL", "/usr/bin/fish").run();
    assert_eq!(old(&["--show-completion"]).text(), fish.stdout);
    assert!(old(&["--show-completion", "zsh"]).text().starts_with("#compdef"));
    for (shell, line) in [
        ("bash", "source <(subagent completions bash)"),
        ("zsh", "subagent completions zsh > "),
        ("fish", "subagent completions fish > "),
    ] {
        let reported = old(&["--install-completion", shell]);
        assert!(reported.text().contains(line), "{reported}");
    }
    let unknown = old(&["--show-completion", "tcsh"]);
    assert_eq!(unknown.status.code(), Some(1), "{unknown}");
    assert!(unknown.stderr.starts_with("INVALID_ARGUMENT: "), "{unknown}");
    assert!(sandbox.processes().is_empty());
    sandbox.finish();
}
