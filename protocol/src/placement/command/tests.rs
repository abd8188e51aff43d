//! Tests of the command lines of users, and of what their commands print.

use super::super::client::ClientFailure;
use super::super::{Engine, Placement};
use super::*;
use crate::error::Code;

fn words(line: &str) -> Vec<String> {
    line.split(' ').map(str::to_owned).collect()
}

fn commands() -> UserCommands {
    UserCommands {
        submit: words("vm start --label={name}"),
        dial: words("vm exec {handle} --"),
        status: words("vm show {handle}/{name} {{handle} {"),
        cancel: words("vm end"),
        logs: Vec::new(),
    }
}

#[test]
fn a_word_gets_handle_and_name_once() {
    let place = NamedPlace { name: "subagent-1", handle: "{name}" };
    let look = commands().look(place);
    assert_eq!(look.line(), "vm show {name}/subagent-1 {{name} {");
    let variables = [("SUBAGENT_PLACE_NAME", "subagent-1"), ("SUBAGENT_PLACE_HANDLE", "{name}")];
    assert_eq!(look.variables, variables.map(|(name, value)| (name, value.to_owned())));
    let dial = commands().exec(place, "subagent-runtime", &["dial", "w_{handle}"]);
    assert_eq!(dial.line(), "vm exec {name} -- subagent-runtime dial w_{handle}");
    assert!(commands().log(place).is_none());
}

#[test]
fn a_handle_is_one_word_of_the_last_line() {
    for (printed, expected) in [
        ("vm-7\n", Some("vm-7")),
        ("creating...\n\n i-0a1b \n\n", Some("i-0a1b")),
        ("", None),
        ("\n \n", None),
        ("two words\n", None),
        ("-oProxyCommand=x\n", None),
        ("a\u{1b}[1m\n", None),
    ] {
        assert_eq!(handle(printed.as_bytes()).as_deref(), expected, "{printed:?}");
    }
    assert_eq!(handle(b"\xff\xfe\n"), None);
    assert_eq!(handle("x".repeat(257).as_bytes()), None);
}

#[test]
fn only_the_word_gone_is_the_end() {
    let text = |text: &str| text.to_owned();
    let handle = text("h");
    for (printed, expected) in [
        ("alive\n", Some(PlaceStatus::Ready { handle: handle.clone() })),
        (
            "waiting no quota\n",
            Some(PlaceStatus::Waiting { handle: handle.clone(), reason: text("no quota") }),
        ),
        ("waiting\n", Some(PlaceStatus::Waiting { handle: handle.clone(), reason: text("waiting") })),
        ("hello\ngone exit 3", Some(PlaceStatus::Gone { handle: handle.clone(), state: text("exit 3") })),
        ("gone\n\n", Some(PlaceStatus::Gone { handle, state: text("gone") })),
        ("gone\nunknown\n", None),
        ("it is gone\n", None),
        ("Gone\n", None),
        ("gone,\n", None),
        ("unknown no answer\n", None),
        ("", None),
    ] {
        assert_eq!(status("h", printed.as_bytes()), expected, "{printed:?}");
    }
}

#[test]
fn a_failed_command_is_named_with_what_it_said() {
    let placement = Placement {
        name: "vms".into(),
        cwd: "/work".into(),
        program: None,
        lease_ms: None,
        git: None,
        engine: Engine::Command(Box::new(commands())),
    };
    assert_eq!(placement.problem(), None);
    let error = |failure: ClientFailure<'_>| failure.error(&placement, "subagent-runtime");
    let refused = error(ClientFailure::Refused("submit", Some(3), b"no\x1b[1m quota\n"));
    assert_eq!(refused.message, "`submit` of the placement `vms` ended with code 3: no[1m quota");
    assert_eq!((refused.code, &refused.details["command"]), (Code::PlacementUnreachable, &"submit".into()));
    assert_eq!(error(ClientFailure::Exited(Some(255), b"")).details["command"], "dial");
    assert_eq!(error(ClientFailure::Exited(Some(127), b"")).code, Code::PlacementNotPrepared);
    assert_eq!(error(ClientFailure::TimedOut(b"")).details["reason"], "timeout");
    let spaced = Placement { program: Some("/a b".into()), ..placement.clone() };
    assert_eq!(spaced.problem().map(|(key, _)| key), Some("program"));
}
