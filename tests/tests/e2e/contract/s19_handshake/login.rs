//! The commands `launcher login` and `launcher logout`.

use std::fs;
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use subagent_tests::harness::{On, TestLauncher, TestSandbox, wait_until, wait_while};

use super::{impatient, nothing_left, scripted};

const DEADLINE: Duration = Duration::from_secs(30);
const LOGIN: [&str; 3] = ["launcher", "login", "agent"];

fn initialize(methods: &Value, capabilities: &Value) -> String {
    json!({"protocolVersion": 1, "authMethods": methods, "agentCapabilities": capabilities}).to_string()
}

#[test]
fn the_agent_logs_in_by_itself_when_it_offers_one_way() {
    let mut sandbox = TestSandbox::new();
    let agent = sandbox.demo_agent(&["--needs-auth"]);
    sandbox.launcher("agent", agent);
    sandbox.run(&["launcher", "probe", "agent", "--handshake"]).data_of("launcher.probed");
    let expected =
        json!({"name": "agent", "method": "demo-login", "methodName": "Demo login", "loggedIn": true});
    assert_eq!(sandbox.run(&LOGIN).data_of("launcher.login"), expected);
    assert_eq!(
        sandbox.run(&[&LOGIN[..], &["--method", "demo-login"]].concat()).data_of("launcher.login"),
        expected
    );
    let text = sandbox.command("subagent").args(LOGIN).run();
    assert_eq!(text.text(), "name: agent\nmethod: demo-login\nloggedIn: true\n");
    // Its output before the login does not count.
    let data = sandbox.run(&["launcher", "show", "agent"]).data_of("launcher.shown");
    assert_eq!(data["handshake"], Value::Null);
    nothing_left(&sandbox);
    sandbox.finish();
}

#[test]
fn of_several_ways_one_is_chosen_and_the_others_are_listed() {
    let methods = json!([
        {"id": "a", "name": "A"},
        {"id": "b", "name": "B", "type": "env_var", "link": "https://keys.example", "vars": [{"name": "B_KEY"}]},
        {"id": "c", "name": "C", "type": "_telepathy"},
    ]);
    let sandbox = scripted(&[
        "--answer",
        "initialize",
        &initialize(&methods, &json!({})),
        "--answer",
        "authenticate",
        "{}",
    ]);
    let with = |method: &str| sandbox.run(&[&LOGIN[..], &["--method", method]].concat());
    for output in [sandbox.run(&LOGIN), with("d"), with("c")] {
        let error = output.error("INVALID_ARGUMENT");
        let ids = error["details"]["authMethods"].as_array().unwrap();
        assert_eq!(ids.iter().map(|method| &method["id"]).collect::<Vec<_>>(), ["a", "b", "c"]);
        assert!(error["details"]["recommendedAction"].as_str().unwrap().contains("--method"), "{error}");
        assert_eq!(error["details"]["recommendedCommand"], "subagent launcher login agent --method a");
        assert!(error["message"].as_str().unwrap().ends_with(": a (A), b (B), c (C)"), "{error}");
    }
    assert_eq!(with("a").data_of("launcher.login")["loggedIn"], true);
    let data = with("b").data_of("launcher.login");
    assert_eq!(data["loggedIn"], false);
    assert_eq!(data["variables"], json!([{"name": "B_KEY", "label": null, "optional": false}]));
    assert_eq!(data["link"], "https://keys.example");
    sandbox.finish();
}

#[test]
fn the_only_way_of_a_known_type_is_taken() {
    let methods = json!([{"id": "a", "name": "A"}, {"id": "c", "name": "C", "type": "_telepathy"}]);
    let initialize = initialize(&methods, &json!({}));
    let sandbox = scripted(&["--answer", "initialize", &initialize, "--answer", "authenticate", "{}"]);
    assert_eq!(sandbox.run(&LOGIN).data_of("launcher.login")["method"], "a");
    sandbox.finish();
}

#[test]
fn a_login_at_a_terminal_needs_one_and_runs_the_agents_program_there() {
    let mut sandbox = TestSandbox::new();
    let file = sandbox.file_name("logged-in");
    let methods = json!([{
        "id": "tui", "name": "T", "type": "terminal", "args": ["--log-in", file], "env": {"LOGIN_WORD": "please"},
    }]);
    let agent =
        sandbox.test_agent("hostile-agent", &["--answer", "initialize", &initialize(&methods, &json!({}))]);
    sandbox.launcher("agent", agent.env("LOGIN_WORD", "not this"));
    let error = sandbox.run(&LOGIN).error("TERMINAL_REQUIRED");
    assert!(error["details"]["command"].as_str().unwrap().contains("--log-in"), "{error}");
    assert!(!std::path::Path::new(&file).exists());
    let screen = sandbox.command("subagent").args(LOGIN).at_terminal(80, On::All).screen();
    assert!(screen.text().contains("logged in  yes"), "{:?}", screen.lines());
    assert_eq!(fs::read_to_string(&file).unwrap(), "true please\n");
    sandbox.finish();
}

#[test]
fn an_older_kind_of_method_names_the_command_for_the_terminal() {
    let mut sandbox = TestSandbox::new();
    let file = sandbox.file_name("logged-in");
    let program = sandbox.executable("hostile-agent");
    let command =
        json!({"command": program, "args": ["--log-in", file], "env": {"LOGIN_WORD": "older"}, "label": "L"});
    let methods = json!([{"id": "old", "name": "Old", "_meta": {"terminal-auth": command}}]);
    // The launcher's own arguments are not included.
    let agent =
        sandbox.test_agent("hostile-agent", &["--answer", "initialize", &initialize(&methods, &json!({}))]);
    sandbox.launcher("agent", agent);
    let error = sandbox.run(&LOGIN).error("TERMINAL_REQUIRED");
    assert_eq!(error["details"]["command"], format!("{program} --log-in {file}"), "{error}");
    let screen = sandbox.command("subagent").args(LOGIN).at_terminal(80, On::All).screen();
    assert!(screen.text().contains("logged in  yes"), "{:?}", screen.lines());
    assert_eq!(fs::read_to_string(&file).unwrap(), "true older\n");
    sandbox.finish();
}

#[test]
fn a_login_that_is_refused_hangs_or_is_not_offered_is_an_error() {
    let one = initialize(&json!([{"id": "a", "name": "A"}]), &json!({}));
    let sandbox = scripted(&["--answer", "initialize", &one, "--refuse", "authenticate", "-32603"]);
    let error = sandbox.run(&LOGIN).error("BACKEND_RPC_ERROR");
    assert_eq!(error["details"]["method"], "authenticate");
    sandbox.finish();
    let sandbox = impatient(&["--answer", "initialize", &one, "--hang", "authenticate"]);
    let output = sandbox.run(&[&LOGIN[..], &["--timeout-seconds", "0.5"]].concat());
    // The agent's output may contain instructions.
    assert!(output.stderr.contains("hostile-agent: last words"), "{output}");
    let error: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(
        (&error["error"]["code"], &error["error"]["details"]["phase"]),
        (&json!("BACKEND_TIMEOUT"), &json!("authenticate"))
    );
    nothing_left(&sandbox);
    sandbox.finish();
    let sandbox = scripted(&[]);
    sandbox.run(&LOGIN).error("AGENT_METHOD_UNSUPPORTED");
    sandbox.finish();
}

#[test]
fn a_command_that_is_suspended_does_not_hold_up_the_end_of_its_agent() {
    let mut sandbox = TestSandbox::new();
    let (asked, gate) = (sandbox.file_name("asked"), sandbox.gate("flood"));
    let answer =
        json!({"jsonrpc": "2.0", "id": 1, "result": {"protocolVersion": 1, "authMethods": [{"id": "a"}]}});
    let script = format!(
        "read line; echo '{answer}'; read line; : > {asked}; until [ -e {} ]; do sleep 0.02; done; \
         while :; do echo 'go to https://example.com and log in' >&2; done",
        gate.path().display()
    );
    sandbox.launcher("agent", TestLauncher::new("/bin/sh", ["-c", &script]));
    let login = sandbox.subagent(&[&LOGIN[..], &["--timeout-seconds", "3"]].concat()).spawn();
    wait_until("the agent to be asked", DEADLINE, || sandbox.file("asked").exists().then_some(()));
    login.signal(Signal::SIGSTOP);
    // It writes more than fits into any pipe, and the output is not read.
    gate.open();
    let floods =
        || sandbox.processes().into_iter().find(|process| process.command_line().contains("until ["));
    assert!(wait_while(DEADLINE, floods).is_none(), "its deadline is over");
    login.signal(Signal::SIGCONT);
    let output = login.output();
    let error: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(error["error"]["code"], "BACKEND_TIMEOUT", "{error}");
    nothing_left(&sandbox);
    sandbox.finish();
}

#[test]
fn a_logout_is_asked_for_where_it_is_offered() {
    let offers = initialize(&json!([]), &json!({"auth": {"logout": {}}}));
    let sandbox = scripted(&["--answer", "initialize", &offers, "--answer", "logout", "{}"]);
    let data = sandbox.run(&["launcher", "logout", "agent"]).data_of("launcher.logout");
    assert_eq!(data, json!({"name": "agent", "loggedOut": true}));
    let error = sandbox.run(&["launcher", "logout", "demo"]).error("AGENT_METHOD_UNSUPPORTED");
    assert_eq!(error["details"]["method"], "logout");
    nothing_left(&sandbox);
    sandbox.finish();
}
