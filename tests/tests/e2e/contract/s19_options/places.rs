//! MCP servers and additional directories: the parameters of agents' sessions.

use std::fs;

use serde_json::json;
use subagent_tests::harness::TestSandbox;

const SECRET: &str = "s3cr3t-of-this-test";

/// A world with a launcher `sdk` that accepts these and has a server in its config.
fn taking(what: &str) -> TestSandbox {
    let mut sandbox = TestSandbox::new();
    let servers = json!({
        "one": {"command": "sh", "args": ["-c", "${NAME:-x}"], "env": {"KEY": "${SECRET}"}},
        "two": {"command": "no-such-program"},
    });
    let state = sandbox.file_name("sdk-sessions");
    let agent =
        sandbox.test_agent("sdk-agent", &["--state", &state, "--takes", what]).key("mcpServers", servers);
    sandbox.launcher("sdk", agent);
    sandbox.set_env("SECRET", SECRET);
    sandbox.recorder().keep_secret(SECRET);
    sandbox.init();
    sandbox
}

fn start(sandbox: &TestSandbox, flags: &[&str]) -> String {
    let args = [&["worker", "start", "--launcher", "sdk"], flags].concat();
    sandbox.run(&args).data_of("worker.started")["workerId"].as_str().unwrap().to_owned()
}

#[test]
fn servers_and_folders_are_there_for_every_session_of_the_worker() {
    let sandbox = taking("http,directories");
    let file = json!({"mcpServers": {
        "two": {"type": "http", "url": "http://127.0.0.1/${SECRET:-}", "headers": {"Authorization": "Bearer ${SECRET}"}},
    }});
    // The agent would print the address.
    let file = file.to_string().replace("/${SECRET:-}", "/mcp");
    fs::write(sandbox.workspace().join("mcp.json"), file).unwrap();
    fs::create_dir(sandbox.workspace().join("more")).unwrap();
    let worker = start(&sandbox, &["--mcp-config", "mcp.json", "--add-dir", "more"]);
    let more = sandbox.workspace().join("more");
    let says = |place: &serde_json::Value| {
        let text = place["assistantText"].as_str().unwrap().to_owned();
        assert!(text.contains(&format!("sh [\"-c\", \"x\"] KEY:{}", SECRET.len())), "{text}");
        assert!(text.starts_with("one /"), "the program was found: {text}");
        let two = format!("two http http://127.0.0.1/mcp Authorization:{}", SECRET.len() + "Bearer ".len());
        assert!(text.contains(&two), "{text}");
        assert!(text.contains(more.to_str().unwrap()), "{text}");
    };
    says(&sandbox.send(&worker, "place"));
    sandbox.kill(&sandbox.runtime(&worker));
    sandbox.kill_daemon();
    // Later starts need neither the file nor the variable.
    fs::remove_file(sandbox.workspace().join("mcp.json")).unwrap();
    says(
        &sandbox
            .command("subagent")
            .args(["send", "--worker-id", &worker, "--text", "place", "--json"])
            .without_env("SECRET")
            .run()
            .data(),
    );
    let shown = sandbox.run(&["launcher", "show", "sdk"]).data_of("launcher.shown");
    assert_eq!(shown["mcpServers"], json!(["one", "two"]));
    sandbox.finish();
}

#[test]
fn what_an_agent_cannot_use_fails_its_start() {
    let sandbox = taking("nothing");
    fs::write(
        sandbox.workspace().join("mcp.json"),
        r#"{"mcpServers": {"far": {"type": "http", "url": "http://x"}}}"#,
    )
    .unwrap();
    for (flags, capability) in [
        (["--mcp-config", "mcp.json"], "mcpCapabilities.http"),
        (["--add-dir", "."], "sessionCapabilities.additionalDirectories"),
    ] {
        let args = [&["worker", "start", "--launcher", "sdk"][..], &flags[..]].concat();
        let error = sandbox.run(&args).error("CAPABILITY_NOT_SUPPORTED");
        assert_eq!(error["details"]["capability"], capability);
    }
    sandbox.finish();
}

/// Removes the stored environments of agents, as a reboot does.
fn forget_environments(sandbox: &TestSandbox) {
    for entry in fs::read_dir(sandbox.file("run/subagent")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "env") {
            fs::remove_file(path).unwrap();
        }
    }
}

#[test]
fn after_a_reboot_a_worker_gets_its_servers_again_and_no_others() {
    let mut sandbox = taking("nothing");
    let worker = start(&sandbox, &[]);
    sandbox.kill(&sandbox.runtime(&worker));
    let kept = json!({"one": {"command": "sh", "args": ["-c", "x"]}, "two": {"command": "none"}});
    for (servers, lost) in [(json!({"one": kept["one"]}), true), (kept, false)] {
        forget_environments(&sandbox);
        // The config has one more than at the worker's start.
        let mut servers = servers;
        servers["added"] = json!({"command": "sh"});
        let state = sandbox.file_name("sdk-sessions");
        let agent = sandbox.test_agent("sdk-agent", &["--state", &state]).key("mcpServers", servers);
        sandbox.launcher("sdk", agent);
        let sent = sandbox.sending(&worker, "place").run();
        if lost {
            let error = sent.error("ENV_REQUIRED");
            assert_eq!(error["details"]["mcpServers"], json!(["one", "two"]));
            assert!(
                error["details"]["recommendedAction"].as_str().unwrap().contains("MCP servers"),
                "{error}"
            );
        } else {
            let text = sent.data_of("turn.waited")["assistantText"].as_str().unwrap().to_owned();
            assert!(
                text.contains("sh [\"-c\", \"x\"]") && text.contains("two") && !text.contains("added"),
                "{text}"
            );
        }
    }
    sandbox.finish();
}

#[test]
fn bad_servers_and_folders_are_reported_before_anything_is_started() {
    let sandbox = taking("nothing");
    let fails = |flags: &[&str], code: &str| {
        let args = [&["worker", "start", "--launcher", "sdk"], flags].concat();
        sandbox.run(&args).error(code)["details"].clone()
    };
    for (text, field) in [
        ("{}", "mcpServers"),
        (r#"{"mcpServers": {"a": {"type": "pigeon"}}}"#, "mcpServers.a.type"),
        (r#"{"mcpServers": {"a": {"command": 1}}}"#, "mcpServers.a.command"),
    ] {
        fs::write(sandbox.workspace().join("bad.json"), text).unwrap();
        assert_eq!(fails(&["--mcp-config", "bad.json"], "CONFIG_PARSE_ERROR")["field"], field);
    }
    fails(&["--mcp-config", "none.json"], "CONFIG_PARSE_ERROR");
    fs::write(sandbox.workspace().join("unset.json"), r#"{"mcpServers": {"a": {"command": "${UNSET}"}}}"#)
        .unwrap();
    let details = fails(&["--mcp-config", "unset.json"], "INVALID_ARGUMENT");
    assert_eq!((&details["mcpServer"], &details["variable"]), (&json!("a"), &json!("UNSET")));
    for folder in ["none", "unset.json"] {
        assert_eq!(fails(&["--add-dir", folder], "INVALID_ARGUMENT")["additionalDirectory"], folder);
    }
    assert_eq!(sandbox.run(&["worker", "list"]).data_of("worker.listed")["count"], 0);
    sandbox.finish();
}
