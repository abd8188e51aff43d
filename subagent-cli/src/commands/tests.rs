//! The contract's flags, defaults, ranges and help texts.

use std::fs;
use std::path::Path;

use clap::CommandFactory as _;
use clap::error::ErrorKind;

use super::*;

fn parsed(line: &str) -> (CliCommand, TypedFlags) {
    let (cli, typed) =
        parse(line.split_whitespace().map(OsString::from)).unwrap_or_else(|error| panic!("{line}: {error}"));
    (cli.command, typed)
}

fn help(line: &str) -> String {
    let args = line.split_whitespace().chain(["--help"]).map(OsString::from);
    let error = parse(args).unwrap_err();
    assert_eq!((error.kind(), error.exit_code()), (ErrorKind::DisplayHelp, 0), "{line}");
    error.to_string()
}

/// The paths of all commands that do something.
fn leaves() -> Vec<String> {
    fn below(command: &clap::Command, path: &str, found: &mut Vec<String>) {
        for sub in command.get_subcommands().filter(|sub| sub.get_name() != "help") {
            let path = format!("{path} {}", sub.get_name()).trim_start().to_owned();
            if sub.has_subcommands() { below(sub, &path, found) } else { found.push(path) }
        }
    }
    let mut found = Vec::new();
    below(&documented(), "", &mut found);
    found
}

#[test]
fn the_command_line_is_consistent() {
    Cli::command().debug_assert();
}

/// Commands that are a shorter or another name of one that has the file.
const OTHER_NAMES: &[&str] = &["stop", "rm", "logs", "worktree land"];

#[test]
fn the_file_of_a_command_has_its_name() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/commands");
    for leaf in leaves().iter().filter(|leaf| *leaf != "demo" && !OTHER_NAMES.contains(&leaf.as_str())) {
        let path = folder.join(leaf.replace(' ', "/").replace('-', "_"));
        let source = fs::read_to_string(path.with_extension("rs"))
            .or_else(|_| fs::read_to_string(path.join("mod.rs")))
            .unwrap_or_else(|_| panic!("`{leaf}` is not in {}.rs", path.display()));
        assert!(source.contains(" fn run("), "{leaf}");
    }
}

#[test]
fn a_group_of_commands_is_built_when_one_of_them_is_typed() {
    let built: Vec<_> =
        Cli::command().get_subcommands().filter(|group| group.has_subcommands()).cloned().collect();
    assert!(built.is_empty(), "wrap these in a CommandGroup: {built:?}");
}

#[test]
fn every_flag_of_the_contract_is_taken() {
    for line in [
        "config init --scope project --cwd . --path p --force --json",
        "launcher list --config c --json",
        "launcher show codex --config c --json",
        "launcher probe codex --config c --json",
        "role list --config c --json",
        "role show r --config c --json",
        "prompt render --config c --json",
        "controller init --cwd . --controller-id c --label l --print-env --json",
        "controller init --require-handle",
        "controller attach --cwd . --controller-id c --takeover --print-env --json",
        "controller recover --cwd . --json",
        "controller release --cwd . --controller-id c --force --json",
        "controller status --cwd . --controller-id c --json",
        "worker start --launcher l --role r --cwd . --label l --controller-id c --debug-mode --input - --config c --json",
        "worker start --no-debug-mode",
        "worker list --controller-id c --cwd . --json",
        "worker show w_1 --cwd . --json",
        "worker stop w_1 --force --cwd . --json",
        "worker logs w_1 --tail-bytes 10 --cwd . --json",
        "worker inspect w_1 --events-limit 1000 --tail 1 --since t --turn-id t --event-type a --event-type b --cwd . --json",
        "worker handoff --worker-id w_1 --handoffs-dir d --cwd . --json",
        "worker continue --from-worker w_1 --launcher l --role r --cwd . --label l --controller-id c --handoffs-dir d --debug-mode --config c --json",
        "worker continue --from-handoff h --no-debug-mode",
        "worker restart w_1 --force --cwd . --json",
        "send --worker-id w --text t --text-file f --text-stdin --blocks [] --wait --wait-until any --wait-timeout-seconds 1 --wait-no-progress-timeout-seconds 0.5 --request-approval --debug-mode --turn-id k --input i --cwd . --config c --json",
        "send --worker-id w --text t --no-wait",
        "watch --worker-id w --from-event-id e --follow --timeout-seconds 0.1 --ndjson --raw --cwd . --json",
        "wait --worker-id w --until any --from-event-id e --after-latest --timeout-seconds 0 --no-progress-timeout-seconds 1 --input i --cwd . --json",
        "wait --include-history",
        "approve --worker-id w --request a --decision d --option-id o --alias a --note n --input i --cwd . --config c --json",
        "cancel --worker-id w --reason r --cwd . --json --config c",
        "daemon start --cwd . --json",
        "daemon stop --workers --cwd . --json",
        "daemon restart --cwd . --json",
        "daemon status --cwd . --json",
        "daemon logs --tail-bytes 10 --lines 2 --cwd . --json",
        "completions bash --json",
    ] {
        let (_, typed) = parsed(line);
        assert_eq!(typed.has("json"), line.contains("--json"), "{line}");
    }
}

#[test]
fn defaults_are_the_contracts_and_do_not_count_as_typed() {
    let (CliCommand::Send(send), typed) = parsed("send") else { panic!() };
    assert_eq!(
        (send.waiting.wait_timeout_seconds, send.waiting.wait_no_progress_timeout_seconds),
        (60.0, 0.0)
    );
    assert!(!send.waiting.no_wait && send.waiting.wait_until.is_none());
    assert!(!typed.has("wait_timeout_seconds") && !typed.has("wait_for_match"));
    let (CliCommand::Wait(wait), _) = parsed("wait") else { panic!() };
    assert_eq!((wait.timeout_seconds, wait.no_progress_timeout_seconds), (60.0, 0.0));
    assert!(!wait.events.include_history);
    let (CliCommand::Watch(watch), _) = parsed("watch --worker-id w") else { panic!() };
    assert_eq!(watch.timeout_seconds, 1.0);
    let (CliCommand::Config(CommandGroup(config::ConfigCommand::Init(init))), _) = parsed("config init")
    else {
        panic!()
    };
    assert_eq!(init.scope, "user");
}

#[test]
fn typed_flags_have_the_names_of_the_input_contract() {
    let (_, typed) = parsed(
        "send --worker-id w --text t --blocks [] --wait --wait-until x --wait-timeout-seconds 1 --wait-no-progress-timeout-seconds 1",
    );
    for name in [
        "worker_id",
        "text",
        "blocks_json",
        "wait_for_match",
        "wait_until",
        "wait_timeout_seconds",
        "wait_no_progress_timeout_seconds",
    ] {
        assert!(typed.has(name), "{name}");
    }
    let (_, typed) = parsed("approve --request a --option-id o --alias a --note n --decision d");
    for name in ["request_id", "option_id", "alias", "note", "decision"] {
        assert!(typed.has(name), "{name}");
    }
    let (_, typed) = parsed("wait --include-history --from-event-id e");
    assert!(typed.has("include_history") && typed.has("from_event_id") && !typed.has("after_latest"));
}

#[test]
fn the_last_flag_of_a_pair_counts_and_flags_may_be_repeated() {
    let (CliCommand::Send(send), _) = parsed("send --no-wait --wait --json --json --text a --text b") else {
        panic!()
    };
    assert_eq!(
        (send.waiting.wait, send.waiting.no_wait, send.text.text.as_deref()),
        (true, false, Some("b"))
    );
    let (CliCommand::Send(send), _) = parsed("send --wait --no-wait") else { panic!() };
    assert!(send.waiting.no_wait);
    let (CliCommand::Send(send), _) = parsed("send --debug-mode --no-debug-mode") else { panic!() };
    assert!(!send.debug.debug_mode);
    let (CliCommand::Worker(CommandGroup(worker::WorkerCommand::Start(start))), _) =
        parsed("worker start --no-debug-mode --debug-mode")
    else {
        panic!()
    };
    assert!(start.debug_mode);
}

#[test]
fn texts_may_begin_with_a_dash() {
    let (CliCommand::Send(send), _) = parsed("send --text --json --worker-id w") else { panic!() };
    assert_eq!((send.text.text.as_deref(), send.json.json), (Some("--json"), false));
    let (CliCommand::Cancel(cancel), _) = parsed("cancel --worker-id w --reason -x") else { panic!() };
    assert_eq!(cancel.reason.as_deref(), Some("-x"));
}

#[test]
fn a_worker_that_was_forgotten_is_no_flag() {
    let error = |line: &str| parse(line.split_whitespace().map(OsString::from)).unwrap_err().to_string();
    for line in [
        "watch --worker-id --follow",
        "wait --worker-id --include-history",
        "send --worker-id --json --text x",
    ] {
        assert!(error(line).contains("a value is required for '--worker-id <ID>'"), "{}", error(line));
    }
    for line in ["watch --worker-id -x", "watch --worker-id --unknown", "watch --worker-id=--follow"] {
        let (CliCommand::Watch(watch), _) = parsed(line) else { panic!() };
        assert!(watch.worker_id.is_some_and(|id| id.starts_with('-')), "{line}");
    }
}

#[test]
fn workers_are_named_by_arguments_too() {
    let (CliCommand::Send(send), _) = parsed("send codex-1 - -d --timeout 10m") else { panic!() };
    assert_eq!((send.worker.as_deref(), send.message.as_deref()), (Some("codex-1"), Some("-")));
    assert!(send.waiting.detach && send.waiting.timeout == Some(600.0));
    let (CliCommand::Wait(wait), _) = parsed("wait a b --any --timeout 90s") else { panic!() };
    assert_eq!((wait.workers.len(), wait.timeout), (2, Some(90.0)));
    let (CliCommand::Watch(watch), _) = parsed("watch a -f --tail 5 --since 10m") else { panic!() };
    assert_eq!((watch.range.follow, watch.range.tail, watch.range.since), (true, Some(5), Some(600)));
    let (CliCommand::Worker(CommandGroup(worker::WorkerCommand::Show(show))), _) =
        parsed("worker show a b c --json")
    else {
        panic!()
    };
    assert_eq!(show.workers.all(), ["a", "b", "c"]);
    let (CliCommand::Worker(CommandGroup(worker::WorkerCommand::Inspect(inspect))), _) =
        parsed("worker inspect --worker-id a")
    else {
        panic!()
    };
    assert_eq!(inspect.workers.all(), ["a"]);
    for line in
        ["send w --worker-id w", "wait w --until any", "watch w --all", "result a b", "wait w --timeout 1x"]
    {
        let error = parse(line.split_whitespace().map(OsString::from)).unwrap_err();
        assert_eq!(error.exit_code(), 2, "{line}: {error}");
    }
}

#[test]
fn every_flag_with_a_value_takes_one_that_begins_with_a_dash() {
    fn below(command: &clap::Command, checked: &mut usize) {
        command.get_subcommands().for_each(|sub| below(sub, checked));
        for arg in command.get_arguments().filter(|arg| arg.get_long().is_some()) {
            let takes = arg.get_action().takes_values();
            let required = arg.get_num_args().is_none_or(|values| values.min_values() > 0);
            let found = arg.is_allow_hyphen_values_set();
            assert_eq!(found, takes && required, "{} {}", command.get_name(), arg.get_id());
            *checked += 1;
        }
    }
    let mut checked = 0;
    let mut command = documented();
    command.build();
    below(&command, &mut checked);
    assert!(checked > 200, "{checked}");
}

#[test]
fn a_wrong_flag_is_compared_with_those_of_all_commands() {
    let error = |line: &str| parse(line.split_whitespace().map(OsString::from)).unwrap_err().to_string();
    assert!(error("worker list --jsn").contains("'--json'"), "{}", error("worker list --jsn"));
    assert!(error("worker list --jsn").contains("Usage: subagent worker list"));
    assert!(error("--worker-id w").contains("subagent"), "{}", error("--worker-id w"));
}

#[test]
fn wrong_usage_exits_with_2() {
    for line in [
        "",
        "nope",
        "worker",
        "worker nope",
        "worker show",
        "worker start --nope",
        "watch",
        "cancel",
        "launcher show",
        "send --wait-timeout-seconds -1",
        "send --wait-timeout-seconds x",
        "send --wait-timeout-seconds nan",
        "wait --timeout-seconds -0.5",
        "watch --worker-id w --timeout-seconds 0.05",
        "worker logs w --tail-bytes 0",
        "wait --config c",
        "worker list --config c",
        "worker show a --worker-id b",
        "controller recover --controller-id c",
        "controller attach --label l",
    ] {
        let error = parse(line.split_whitespace().map(OsString::from)).unwrap_err();
        assert_eq!(error.exit_code(), 2, "{line}: {error}");
        assert!(error.use_stderr(), "{line}");
    }
}

#[test]
fn help_has_the_contracts_phrases_each_on_one_line() {
    for (line, phrases) in [
        (
            "",
            &[
                "instructed to",
                "use this tool as a manager agent",
                "subagent prompt render",
                "`send` now waits by default",
                "--no-wait",
            ] as &[&str],
        ),
        ("worker start", &["outside-sandbox execution"]),
        (
            "send",
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
        ("wait", &["turn_end", "--timeout-seconds", "no timeout", "--after-latest", "--include-history"]),
        ("watch", &["--follow", "--from-event-id", "--ndjson"]),
    ] {
        let text = help(line);
        for phrase in phrases {
            assert!(
                text.lines().any(|line| line.contains(phrase)),
                "{phrase:?} is not in the help of {line:?}:\n{text}"
            );
        }
    }
}

#[test]
fn help_fits_80_columns_and_has_examples() {
    for leaf in leaves() {
        let text = help(&leaf);
        assert!(text.contains("Example"), "{leaf}");
        // The demo and the board are for people, and a server has its own protocol; everything else has a result.
        let has_result = !["demo", "dial-daemon", "mcp", "top", "panel"].contains(&leaf.as_str());
        assert_eq!(text.contains("--json"), has_result, "{leaf}");
        for line in text.lines() {
            assert!(line.chars().count() <= 80, "{leaf}: {line}");
        }
    }
    for line in help("").lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
}
