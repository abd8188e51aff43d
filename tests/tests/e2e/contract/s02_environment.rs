//! Environment variables: what the commands read, and what an agent gets.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use subagent_tests::harness::TestSandbox;

use crate::contract::s06_controllers::{handle, owned};

const CONFIG: &str = "launchers:\n  NAME:\n    command: sh\ndefaults:\n  launcher: NAME\n";

fn launchers(command: subagent_tests::harness::Command) -> Vec<String> {
    let data = command.args(["launcher", "list", "--json"]).run().data();
    data["items"].as_array().unwrap().iter().map(|item| item["name"].as_str().unwrap().to_owned()).collect()
}

fn config(sandbox: &TestSandbox, path: &str, name: &str) {
    let path = sandbox.file(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, CONFIG.replace("NAME", name)).unwrap();
}

#[test]
fn subagent_config_names_the_config_file_and_empty_is_unset() {
    let sandbox = TestSandbox::new();
    config(&sandbox, "named.yaml", "named");
    config(&sandbox, "home/tilde.yaml", "tilde");
    let list = |value: &str| launchers(sandbox.command("subagent").env("SUBAGENT_CONFIG", value));
    assert_eq!(list(&sandbox.file_name("named.yaml")), ["named"]);
    assert_eq!(list("../named.yaml"), ["named"], "from the working directory");
    assert_eq!(list("~/tilde.yaml"), ["tilde"]);
    assert_eq!(list(""), ["demo"], "the workspace's own");
    sandbox.finish();
}

#[test]
fn the_users_config_lies_in_home_for_any_xdg_config_home() {
    let sandbox = TestSandbox::new();
    config(&sandbox, "home/.config/subagent/config.yaml", "home");
    config(&sandbox, "xdg/subagent/config.yaml", "xdg");
    let elsewhere = sandbox.file("tmp");
    let command = sandbox.command("subagent").cwd(elsewhere).env("XDG_CONFIG_HOME", sandbox.file("xdg"));
    assert_eq!(launchers(command), ["home"]);
    sandbox.finish();
}

#[test]
fn subagent_state_dir_beats_cwd_and_empty_is_unset() {
    let sandbox = TestSandbox::new();
    let folder = sandbox.file("tmp/state");
    let moved = |args: &[&str]| sandbox.subagent(args).env("SUBAGENT_STATE_DIR", &folder);
    let there = moved(&["controller", "init", "--cwd", "."]).run().data_of("controller.initialized");
    assert!(folder.join("state.db").is_file() && !sandbox.state_dir().exists());
    let unset = sandbox.subagent(&["daemon", "start"]).env("SUBAGENT_STATE_DIR", "").run();
    let _ = unset.data_of("daemon.started");
    let here = sandbox.subagent(&["controller", "status"]).env("SUBAGENT_STATE_DIR", "").run().data();
    // The hint in the workspace names a controller of the other state directory, which
    // does not exist here.
    assert_eq!((&here["controllerId"], &here["state"]), (&Value::Null, &json!("dormant")));
    assert!(sandbox.state_dir().join("state.db").is_file());
    let elsewhere = moved(&["controller", "status"]).cwd(sandbox.file("home")).run().data();
    assert_eq!(elsewhere["state"], "dormant", "another workspace in the same state dir: {elsewhere}");
    let again = moved(&["controller", "status", "--cwd", sandbox.workspace().to_str().unwrap()]);
    assert_eq!(again.cwd(sandbox.file("home")).run().data()["controllerId"], there["controllerId"]);
    let stop = sandbox.command("subagentd").args(["stop", "--json"]).env("SUBAGENT_STATE_DIR", &folder).run();
    assert!(stop.status.success(), "{stop}");
    sandbox.finish();
}

#[test]
fn a_handle_that_cannot_be_one_is_no_owners() {
    let sandbox = TestSandbox::new();
    let granted = sandbox.init();
    let mut broken = handle(&granted);
    broken[2].1 = "two words".to_owned();
    let error = owned(sandbox.subagent(&["worker", "start"]), &broken).run();
    let error = error.error("INVALID_CONTROLLER_HANDLE");
    assert_eq!(error["details"]["controllerId"], granted["controllerId"]);
    sandbox.finish();
}

/// Returns the files below a folder that contain a text.
fn holding(folder: &Path, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(holding(&path, text));
        } else if path.is_file() {
            let bytes = fs::read(&path).unwrap();
            if bytes.windows(text.len()).any(|window| window == text.as_bytes()) {
                found.push(path.display().to_string());
            }
        }
    }
    found
}

#[test]
fn an_agent_gets_what_the_caller_of_start_has_and_not_what_the_daemon_has() {
    let mut sandbox = TestSandbox::new();
    sandbox.set_env("ONLY_THE_DAEMONS", "yes");
    let controller = sandbox.init();
    sandbox.remove_env("ONLY_THE_DAEMONS");
    let folder = sandbox.workspace().join("deeper");
    fs::create_dir(&folder).unwrap();
    let path = format!("{}:{}", sandbox.file_name("bin"), std::env::var("PATH").unwrap());
    let script = "umask 027; ulimit -n 321; cd deeper; exec \"$0\" worker start --cwd . --json";
    let start = sandbox.command("sh").args(["-c", script, &sandbox.executable("subagent")]);
    let secret = "an-api-key-4711";
    sandbox.recorder().keep_secret(secret);
    let start = owned(start, &handle(&controller)).env("PATH", &path).env("API_KEY", secret).run();
    let worker = start.data_of("worker.started")["workerId"].as_str().unwrap().to_owned();
    let deeper = folder.canonicalize().unwrap().to_str().unwrap().to_owned();
    let expect = |what: &str, expected: &str| {
        assert_eq!(sandbox.send(&worker, what)["assistantText"], expected, "{what}");
    };
    for attempt in ["the first agent", "an agent that the next daemon starts"] {
        expect("!env PATH", &path);
        expect("!env ONLY_THE_DAEMONS", "unset");
        expect("!shell printf %s \"$API_KEY\" | wc -c", &format!("exit 0\n{}\n", secret.len()));
        expect("!cwd", &deeper);
        expect("!env PWD", &deeper);
        expect("!shell umask; ulimit -n", "exit 0\n0027\n321\n");
        expect(
            "!shell env | grep -c -e SUBAGENT_CTL -e SUBAGENT_STATE -e SUBAGENT_FAIL; true",
            "exit 0\n0\n",
        );
        let token = controller["owner"]["token"].as_str().unwrap();
        for text in [secret, token] {
            let found = holding(&sandbox.workspace(), text);
            assert!(found.is_empty(), "{attempt}: the checkout holds a secret: {found:?}");
        }
        sandbox.kill(&sandbox.runtime(&worker));
        sandbox.kill_daemon();
    }
    sandbox.finish();
}

#[test]
fn the_values_lie_beside_the_sockets_for_the_user_alone_and_only_until_the_stop() {
    use std::os::unix::fs::PermissionsExt;
    let sandbox = TestSandbox::new();
    sandbox.init();
    // As stored in the file: base64.
    let (secret, encoded) = ("fourfourfour", "Zm91cmZvdXJmb3Vy");
    let start = sandbox.subagent(&["worker", "start"]).env("API_KEY", secret).run();
    let worker = start.data_of("worker.started")["workerId"].as_str().unwrap().to_owned();
    let files = || holding(&sandbox.file("run"), encoded);
    let found = files();
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(fs::metadata(&found[0]).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(holding(&sandbox.workspace(), encoded).is_empty());
    sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    assert_eq!(files(), Vec::<String>::new());
    sandbox.finish();
}
