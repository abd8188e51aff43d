//! Client requests of an agent under its worker's rules: allowed ones are carried out, denied
//! ones are not, and the owner decides the rest. Exactly what was allowed is carried out,
//! in spite of changes in between.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::{Value, json};
use subagent_tests::harness::{TestSandbox, assert_shape};

/// A world with an agent on the official SDK, whose worker has these rules.
fn with_rules(flags: &[&str]) -> (TestSandbox, String) {
    let mut sandbox = TestSandbox::new();
    let agent = sandbox.test_agent("sdk-agent", &[]);
    sandbox.launcher("sdk", agent);
    sandbox.init();
    let worker = start(&sandbox, "sdk", flags);
    (sandbox, worker)
}

fn start(sandbox: &TestSandbox, launcher: &str, flags: &[&str]) -> String {
    let started = sandbox.subagent(&["worker", "start", "--launcher", launcher]).args(flags).run();
    started.data_of("worker.started")["workerId"].as_str().unwrap().to_owned()
}

fn path(sandbox: &TestSandbox, name: &str) -> String {
    sandbox.workspace().join(name).to_str().unwrap().to_owned()
}

fn of_type(sandbox: &TestSandbox, worker: &str, event_type: &str) -> Vec<Value> {
    let events = sandbox.events(worker).into_iter();
    events.filter(|event| event["type"] == event_type).map(|event| event["data"].clone()).collect()
}

/// Returns the permission request of a turn.
#[track_caller]
fn question(waited: &Value) -> &Value {
    assert_eq!(waited["matchedEvent"]["type"], "approval.requested", "{waited}");
    &waited["matchedEvent"]["data"]
}

/// Returns the turn's output after its question.
fn end_of(sandbox: &TestSandbox, waited: &Value) -> String {
    let end = sandbox.turn_end(waited);
    assert_eq!(end["type"], "turn.completed", "{end}");
    let mut events = sandbox.events(waited["workerId"].as_str().unwrap());
    events.retain(|event| event["type"] == "progress.message" && event["turnId"] == waited["turnId"]);
    events.iter().filter_map(|event| event["data"]["text"].as_str()).collect()
}

#[test]
fn what_rules_allow_is_done_and_what_they_deny_is_not() {
    let (sandbox, worker) = with_rules(&[
        "--allow",
        "edit(src/**)",
        "--deny",
        "edit(*.env)",
        "--allow",
        "execute(echo *)",
        "--deny",
        "execute(rm *)",
    ]);
    let [code, env] = [path(&sandbox, "src/a"), path(&sandbox, ".env")];
    let prompt = format!(
        "write {code} text\nwrite {env} secret\nrun echo hello\nrun rm -rf src\nrun echo x > .env\nread {code}"
    );
    let waited = sandbox.send(&worker, &prompt);
    assert_eq!(waited["matchedEvent"]["type"], "turn.completed", "no decision may be required: {waited}");
    let denied = |method: &str, rule: &str| {
        format!("error -32602: {method} was not done: the rule `{rule}` of the worker denies it\n")
    };
    let expected = [
        "written\n".to_owned(),
        denied("fs/write_text_file", "edit(*.env)"),
        "exit Some(0) hello\n\n".to_owned(),
        denied("terminal/create", "execute(rm *)"),
        denied("terminal/create", "edit(*.env)"),
        // No rule covers this path.
        "text\n".to_owned(),
    ];
    assert_eq!(waited["assistantText"].as_str().unwrap(), expected.concat());
    assert_eq!((fs::read_to_string(&code).unwrap(), fs::exists(&env).unwrap()), ("text".to_owned(), false));
    let decided = of_type(&sandbox, &worker, "approval.decided");
    let rules: Vec<&str> = decided.iter().map(|data| data["policy"]["rule"].as_str().unwrap()).collect();
    let expected = ["edit(src/**)", "edit(*.env)", "execute(echo *)", "execute(rm *)", "edit(*.env)"];
    assert_eq!(rules, expected, "reading must not need a permission: {decided:?}");
    let asked = of_type(&sandbox, &worker, "approval.requested");
    assert_eq!(asked[3]["command"], "rm -rf src");
    // The turn's end does not close a call that the agent does not have.
    assert!(!sandbox.events(&worker).iter().any(|event| event["data"]["closedBy"] == "turn_end"));
    sandbox.finish();
}

#[test]
fn what_a_definition_does_not_list_is_not_done() {
    let mut sandbox = TestSandbox::new();
    let agent = sandbox.test_agent("sdk-agent", &[]);
    sandbox.launcher("sdk", agent);
    sandbox.init();
    let folder = sandbox.workspace().join(".agents/agents");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("reader.md"), "---\ndescription: d\ntools: Read\n---\n").unwrap();
    let worker = start(&sandbox, "sdk", &["--agent", "reader"]);
    let [kept, file] = [path(&sandbox, "kept"), path(&sandbox, "new")];
    fs::write(&kept, "text").unwrap();
    let waited = sandbox.send(&worker, &format!("write {file} text\nrun rm -rf kept\nread {kept}"));
    assert_eq!(waited["matchedEvent"]["type"], "turn.completed", "{waited}");
    let said = waited["assistantText"].as_str().unwrap();
    let denied = said.matches("was not done: the rule `tools` of the worker denies it\n").count();
    assert_eq!((denied, said.ends_with("text\n")), (2, true), "{said}");
    assert_eq!((fs::exists(&file).unwrap(), fs::exists(&kept).unwrap()), (false, true));
    assert_eq!(
        of_type(&sandbox, &worker, "approval.decided").len(),
        2,
        "listed commands must not need a permission"
    );
    sandbox.finish();
}

#[test]
fn where_rules_say_nothing_the_owner_is_asked_and_sees_what_is_to_be_done() {
    let (sandbox, worker) = with_rules(&["--ask", "edit", "--ask", "read", "--ask", "execute"]);
    let file = path(&sandbox, "notes");
    fs::write(&file, "before").unwrap();
    let waited = sandbox.send(&worker, &format!("write {file} after"));
    let asked = question(&waited);
    assert_shape(
        asked,
        &json!({
            "requestId": "ap", "kind": "=tool.call", "message": format!("=Permission requested for edit: Write {file}"),
            "options": [
                {"id": "=allow-once", "alias": "=allow-once", "label": "=Allow", "kind": "=allow_once"},
                {"id": "=reject-once", "alias": "=reject-once", "label": "=Reject", "kind": "=reject_once"},
            ],
            "toolCallId": "ap", "title": format!("=Write {file}"), "toolKind": "=edit", "clientCall": "int",
            "locations": [{"path": format!("={file}")}],
            "content": [{"type": "=diff", "path": format!("={file}"), "oldText": "=before", "newText": "=after"}],
            "rawInput": {"path": format!("={file}"), "bytes": "int"},
        }),
    );
    assert_eq!(fs::read_to_string(&file).unwrap(), "before", "nothing may be written before it was allowed");
    let _ = sandbox.approve(&worker, &asked["requestId"], "allow").data_of("approval.decided");
    assert_eq!(end_of(&sandbox, &waited), "written\n");
    assert_eq!(fs::read_to_string(&file).unwrap(), "after");

    for (line, title) in
        [(format!("read {file}"), format!("Read {file}")), ("run make".into(), "make".into())]
    {
        let waited = sandbox.send(&worker, &line);
        let asked = question(&waited);
        assert_eq!(asked["title"], title);
        let _ = sandbox.approve(&worker, &asked["requestId"], "deny").data_of("approval.decided");
        let said = end_of(&sandbox, &waited);
        assert!(said.ends_with("the owner of the worker has rejected it\n"), "{said}");
    }
    let failed = sandbox.send(&worker, &format!("read {}", path(&sandbox, "nothing")));
    assert!(
        failed["assistantText"].as_str().unwrap().starts_with("error -32002"),
        "nothing to ask: {failed}"
    );
    sandbox.finish();
}

#[test]
fn what_leads_elsewhere_once_it_is_allowed_is_not_done() {
    let (sandbox, worker) = with_rules(&["--ask", "edit", "--deny", "edit(kept/**)"]);
    for folder in ["open", "kept"] {
        fs::create_dir(sandbox.workspace().join(folder)).unwrap();
        fs::write(sandbox.workspace().join(folder).join("file"), folder).unwrap();
    }
    // Through the link it is denied.
    symlink("kept", sandbox.workspace().join("link")).unwrap();
    let denied = sandbox.send(&worker, &format!("write {} new", path(&sandbox, "link/file")));
    assert!(denied["assistantText"].as_str().unwrap().contains("`edit(kept/**)`"), "{denied}");

    let waited = sandbox.send(&worker, &format!("write {} new", path(&sandbox, "open/file")));
    fs::rename(path(&sandbox, "open"), path(&sandbox, "away")).unwrap();
    symlink("kept", sandbox.workspace().join("open")).unwrap();
    let _ = sandbox.approve(&worker, &question(&waited)["requestId"], "allow").data_of("approval.decided");
    let said = end_of(&sandbox, &waited);
    assert!(said.ends_with("it leads elsewhere now than when it was allowed\n"), "{said}");
    for (file, text) in [("kept/file", "kept"), ("away/file", "open")] {
        assert_eq!(fs::read_to_string(sandbox.workspace().join(file)).unwrap(), text);
    }

    // The named link may change: the file is the one that was shown.
    fs::remove_file(path(&sandbox, "open")).unwrap();
    fs::rename(path(&sandbox, "away"), path(&sandbox, "open")).unwrap();
    fs::remove_file(path(&sandbox, "link")).unwrap();
    symlink("open", sandbox.workspace().join("link")).unwrap();
    let waited = sandbox.send(&worker, &format!("write {} new", path(&sandbox, "link/file")));
    assert_eq!(question(&waited)["locations"][0]["path"], path(&sandbox, "open/file"));
    fs::remove_file(path(&sandbox, "link")).unwrap();
    symlink("kept", sandbox.workspace().join("link")).unwrap();
    let _ = sandbox.approve(&worker, &question(&waited)["requestId"], "allow").data_of("approval.decided");
    assert_eq!(end_of(&sandbox, &waited), "written\n");
    let texts = ["open/file", "kept/file"].map(|file| fs::read_to_string(path(&sandbox, file)).unwrap());
    assert_eq!(texts, ["new", "kept"]);
    sandbox.finish();
}

#[test]
fn files_that_say_what_agents_may_do_are_asked_under_any_rules() {
    let (sandbox, worker) = with_rules(&["--allow", "fetch"]);
    let waited = sandbox.send(&worker, &format!("write {} text", path(&sandbox, "plain")));
    assert_eq!(waited["assistantText"], "written\n", "no rule applies to it: {waited}");
    assert_eq!(of_type(&sandbox, &worker, "approval.requested"), Vec::<Value>::new());
    for file in [
        ".agents/agents/x.md",
        ".claude/agents/x.md",
        ".claude/skills/x/SKILL.md",
        "sub/../.subagent/config.yaml",
    ] {
        fs::create_dir_all(sandbox.workspace().join("sub")).unwrap();
        let file = path(&sandbox, file);
        let waited = sandbox.send(&worker, &format!("write {file} text"));
        let _ = sandbox.approve(&worker, &question(&waited)["requestId"], "deny").data_of("approval.decided");
        assert!(end_of(&sandbox, &waited).starts_with("error -32602"));
    }
    assert!(!fs::exists(path(&sandbox, ".agents")).unwrap());
    sandbox.finish();
}

#[test]
fn the_death_of_the_daemon_changes_nothing_of_what_waits() {
    let (sandbox, worker) = with_rules(&["--ask", "edit", "--allow", "execute(touch *)"]);
    let file = path(&sandbox, "file");
    let waited = sandbox.send(&worker, &format!("write {file} text\nrun touch done"));
    let runtime = sandbox.runtime(&worker);
    sandbox.kill_daemon();
    let request = &question(&waited)["requestId"];
    let _ = sandbox.approve(&worker, request, "allow").data_of("approval.decided");
    assert_eq!(end_of(&sandbox, &waited), "written\nexit Some(0) \n");
    assert_eq!(sandbox.runtime(&worker).pid, runtime.pid);
    assert_eq!(fs::read_to_string(&file).unwrap(), "text");
    assert!(fs::exists(path(&sandbox, "done")).unwrap());
    sandbox.finish();
}

#[test]
fn what_waits_is_over_with_its_turn_or_its_worker() {
    let (sandbox, worker) = with_rules(&["--ask", "edit"]);
    let file = path(&sandbox, "file");
    let waited = sandbox.send(&worker, &format!("write {file} text"));
    let _ = sandbox.run(&["cancel", "--worker-id", &worker]).data_of("turn.canceled");
    assert_eq!(sandbox.turn_end(&waited)["type"], "turn.canceled");
    let late = sandbox.approve(&worker, &question(&waited)["requestId"], "allow");
    late.error("APPROVAL_NOT_PENDING");
    let failed: Vec<Value> = of_type(&sandbox, &worker, "progress.update")
        .into_iter()
        .filter(|data| data["kind"] == "fs")
        .collect();
    assert_eq!((&failed[1]["status"], &failed[1]["error"]["code"]), (&json!("canceled"), &json!(-32800)));
    assert_eq!(sandbox.send(&worker, "still here")["assistantText"], "still here ");

    let waited = sandbox.send(&worker, &format!("write {file} text"));
    let _ = question(&waited);
    let _ = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    assert!(!fs::exists(&file).unwrap(), "it was never allowed");
    sandbox.finish();
}

#[test]
fn one_that_waits_holds_up_no_other() {
    let mut sandbox = TestSandbox::new();
    let agent = sandbox.demo_agent(&[]);
    sandbox.launcher("demo", agent);
    sandbox.init();
    let worker = start(&sandbox, "demo", &["--ask", "edit(asked)", "--allow", "edit(free*)"]);
    let write = |id: u64, name: &str| {
        let params = json!({"sessionId": "SESSION", "path": path(&sandbox, name), "content": "text"});
        let asks = json!({"jsonrpc": "2.0", "id": id, "method": "fs/write_text_file", "params": params});
        format!("!raw {asks}\n")
    };
    let gate = sandbox.gate("end");
    let prompt =
        [write(4001, "asked"), write(4002, "free1"), write(4003, "asked"), write(4004, "free2")].concat();
    let waited = sandbox.send(&worker, &(prompt + &gate.directive()));
    let cursor = &waited["matchedEvent"]["eventId"];
    let both = || ["free1", "free2"].iter().all(|name| fs::exists(path(&sandbox, name)).unwrap());
    subagent_tests::harness::wait_until("the others", std::time::Duration::from_secs(20), || {
        both().then_some(())
    });
    assert!(!fs::exists(path(&sandbox, "asked")).unwrap());
    let request = sandbox.run(&["worker", "show", &worker]).data_of("worker.shown")["questions"].clone();
    assert_eq!(request.as_array().unwrap().len(), 2, "{request}");
    let _ = sandbox.approve(&worker, &question(&waited)["requestId"], "allow").data_of("approval.decided");
    let done = sandbox.wait_after(&worker, cursor, "approval.decided");
    assert_eq!(done["type"], "approval.decided");
    gate.open();
    assert_eq!(sandbox.turn_end(&waited)["type"], "turn.completed");
    // The other one ended with the turn.
    assert_eq!(of_type(&sandbox, &worker, "approval.canceled").len(), 1);
    sandbox.finish();
}

#[test]
fn a_worker_with_rules_does_not_run_in_a_runtime_that_does_not_apply_them() {
    let mut sandbox = TestSandbox::new();
    sandbox.set_env("SUBAGENT_SABOTAGE", "hello.without_client_rules");
    sandbox.init();
    let _ = start(&sandbox, "demo", &[]);
    let started = sandbox.run(&["worker", "start", "--launcher", "demo", "--deny", "edit"]);
    let error = started.error("BACKEND_RUNTIME_ERROR");
    assert!(error["message"].as_str().unwrap().contains("does not apply rules"), "{error}");
    let worker = error["details"]["workerId"].as_str().unwrap();
    let _ = sandbox.run(&["worker", "stop", worker]).data_of("worker.stopped");
    sandbox.finish();
}

#[test]
fn a_worker_with_rules_is_not_said_to_have_started_in_such_a_runtime() {
    let mut sandbox = TestSandbox::new();
    sandbox.set_env("SUBAGENT_SABOTAGE", "hello.without_client_rules");
    sandbox.set_env("SUBAGENT_FAILPOINTS", "listening.after_heard=wait");
    let heard = sandbox.file("heard");
    sandbox.set_env("SUBAGENT_FAILPOINTS_ONCE", &heard);
    sandbox.init();
    let started = sandbox.subagent(&["worker", "start", "--launcher", "demo", "--deny", "edit"]).spawn();
    // The runtime has a session before the daemon knows its capabilities.
    sandbox.wait_for_session_in(1);
    fs::remove_file(&heard).unwrap();
    let error = started.output().error("BACKEND_RUNTIME_ERROR");
    assert!(error["message"].as_str().unwrap().contains("does not apply rules"), "{error}");
    let worker = error["details"]["workerId"].as_str().unwrap();
    assert_eq!(of_type(&sandbox, worker, "worker.started"), Vec::<Value>::new());
    let _ = sandbox.run(&["worker", "stop", worker]).data_of("worker.stopped");
    sandbox.finish();
}
