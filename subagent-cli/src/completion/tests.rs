//! Tests of completion without files or a daemon.

use std::time::{Duration, Instant};

use super::*;

fn offered(shell: Shell, line: &str) -> Vec<String> {
    let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
    answer(shell, &words, <crate::commands::Cli as clap::CommandFactory>::command())
}

fn bash(line: &str) -> String {
    offered(Shell::Bash, line).join(" ")
}

#[test]
fn commands_and_flags_are_those_of_the_command_that_is_typed() {
    assert_eq!(bash("dae"), "daemon");
    assert_eq!(bash("daemon st"), "start stop status");
    assert_eq!(bash("send --wait-u"), "--wait-until");
    assert_eq!(bash("completions z"), "zsh");
    assert!(bash("").contains("run") && !bash("").contains("__complete"), "{}", bash(""));
    assert!(bash("ls --").contains("--quiet"), "{}", bash("ls --"));
    assert_eq!(bash("worker show --nonsense=x"), "");
    assert_eq!(bash("nonsense "), "");
    // After `--` no word is a flag.
    assert_eq!(bash("send w -- --te"), "");
}

#[test]
fn values_belong_to_the_flag_before_them() {
    assert_eq!(bash("ls -o t"), "table tsv");
    assert_eq!(bash("run --output "), "text json ndjson");
    assert_eq!(bash("approve ap_1 --decision "), "allow reject");
    assert_eq!(bash("wait --until turn_"), "turn_end");
    assert_eq!(bash("task list --status runn"), "running");
    // Only bash splits the word at `=`.
    assert_eq!(bash("ls --output = n"), "ndjson name");
    assert_eq!(offered(Shell::Zsh, "run --output=js"), ["--output=json\tOne JSON document with the result"]);
    // The value of `--always` is optional.
    assert_eq!(bash("approve --always w"), "worker");
    assert_eq!(bash("approve --always --no"), "--note");
}

#[test]
fn bash_has_the_part_of_the_word_that_it_replaces() {
    assert_eq!(bash("ls --output = "), "table json ndjson tsv name");
    assert_eq!(bash("ls --output = n"), "ndjson name");
    assert_eq!(offered(Shell::Fish, "ls --output=nd")[0].split('\t').next(), Some("--output=ndjson"));
    // A typed `=` before the last word belongs to the previous value.
    assert_eq!(bash("run --set a = b --output js"), "json");
    assert_eq!(bash("hook test Sess"), "SessionStart");
}

#[test]
fn files_are_left_to_the_shell() {
    assert_eq!(bash("send w --text-file "), FILES);
    assert_eq!(bash("send w --cwd "), FOLDERS);
    assert_eq!(bash("backup "), FILES);
    assert_eq!(bash("send w --text "), "", "a text is nothing that could be completed");
}

#[test]
fn descriptions_are_for_shells_that_show_them() {
    let zsh = offered(Shell::Zsh, "resul");
    assert_eq!(zsh, ["result\tPrint the final message of a turn"]);
    assert_eq!(offered(Shell::Fish, "resul"), zsh);
    assert_eq!(offered(Shell::Bash, "resul"), ["result"]);
}

#[test]
fn an_answer_without_the_daemon_is_quick() {
    let begun = Instant::now();
    let _ = bash("");
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
}
