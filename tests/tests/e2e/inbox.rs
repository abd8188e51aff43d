//! The inbox from outside: questions are listed and shown, several are decided at once, decisions
//! become rules, questions have deadlines, and only one decision counts.

use std::time::Duration;

use serde_json::{Value, json};
use subagent_tests::harness::{Gate, TestSandbox, assert_shape, wait_until};

fn start(sandbox: &TestSandbox, flags: &[&str]) -> String {
    let started = sandbox.subagent(&["worker", "start", "--launcher", "demo"]).args(flags).run();
    started.data_of("worker.started")["workerId"].as_str().unwrap().to_owned()
}

fn world() -> TestSandbox {
    let sandbox = TestSandbox::new();
    sandbox.init();
    sandbox
}

fn list(sandbox: &TestSandbox, flags: &[&str]) -> Vec<Value> {
    let data = sandbox.subagent(&["approval", "list"]).args(flags).run().data_of("inbox.listed");
    let items = data["items"].as_array().unwrap().clone();
    assert_eq!(data["count"], items.len());
    items
}

fn of_type(sandbox: &TestSandbox, worker: &str, event_type: &str) -> Vec<Value> {
    let events = sandbox.events(worker).into_iter().filter(|event| event["type"] == event_type);
    events.map(|event| event["data"].clone()).collect()
}

/// Returns a directive by which the agent requests permission for this command, without
/// waiting for the answer.
fn asks(id: u64, command: &str) -> String {
    let options = json!([
        {"optionId": "y", "name": "Yes", "kind": "allow_once"}, {"optionId": "n", "name": "No", "kind": "reject_once"},
    ]);
    let call = json!({"toolCallId": format!("c{id}"), "title": command, "kind": "execute", "rawInput": {"command": command}});
    let params = json!({"sessionId": "SESSION", "toolCall": call, "options": options});
    format!(
        "!raw {}",
        json!({"jsonrpc": "2.0", "id": id, "method": "session/request_permission", "params": params})
    )
}

/// A worker whose agent has requested all of this at once; the turn continues when
/// the gate is opened.
fn asking(sandbox: &TestSandbox, worker: &str, commands: &[&str]) -> (Gate, Value) {
    let gate = sandbox.gate(worker);
    let lines: Vec<String> =
        commands.iter().enumerate().map(|(at, command)| asks(4242 + at as u64, command)).collect();
    let accepted = sandbox.send_no_wait(worker, &format!("{}\n{}", lines.join("\n"), gate.directive()));
    wait_until("all questions to be open", Duration::from_secs(30), || {
        let asked = of_type(sandbox, worker, "approval.requested").len();
        (asked >= commands.len()).then_some(())
    });
    (gate, accepted)
}

fn ask(sandbox: &TestSandbox, worker: &str, command: &str) -> (String, Value) {
    let waited = sandbox.send(worker, &format!("!ask execute {command}"));
    assert_eq!(waited["matchedEvent"]["type"], "approval.requested", "{waited}");
    (waited["requestId"].as_str().unwrap().to_owned(), waited)
}

#[test]
fn what_all_workers_ask_is_listed() {
    let sandbox = world();
    assert_eq!(list(&sandbox, &[]), Vec::<Value>::new());
    let one = start(&sandbox, &["--tag", "job=a", "--deny", "execute(rm *)"]);
    let two =
        start(&sandbox, &["--label", "other", "--approval-timeout", "1h", "--on-approval-timeout", "cancel"]);
    let (first, _) = ask(&sandbox, &one, "make all");
    let (second, _) = ask(&sandbox, &two, "make");
    let items = list(&sandbox, &[]);
    assert_shape(
        &json!(items),
        &json!([
            {
                "requestId": format!("={first}"), "workerId": format!("={one}"), "name": "=demo-1", "label": "=worker", "controllerId": "ctl",
                "turnId": "turn", "kind": "=permission", "toolKind": "=execute", "subject": "=make all", "status": "=pending",
                "createdAt": "ts", "deadlineAt": null, "onTimeout": null,
                "rule": {"action": "=ask", "kind": "=execute", "subject": "=make all", "rule": null, "note": "=no rule fits"},
            },
            {
                "requestId": format!("={second}"), "workerId": format!("={two}"), "name": "=demo-2", "label": "=other", "controllerId": "ctl",
                "turnId": "turn", "kind": "=permission", "toolKind": "=execute", "subject": "=make", "status": "=pending",
                "createdAt": "ts", "deadlineAt": "ts", "onTimeout": "=cancel", "rule": null,
            },
        ]),
    );
    assert_eq!(list(&sandbox, &["-l", "job=a"]), items[..1]);
    assert_eq!(list(&sandbox, &["--worker-id", &two]), items[1..]);
    assert_eq!(list(&sandbox, &["--worker-id", &two, "--worker-id", &one]), items);
    assert_eq!(list(&sandbox, &["--controller-id", "ctl_none"]), Vec::<Value>::new());
    sandbox.run(&["approval", "list", "--worker-id", "w_0000000000"]).error("WORKER_NOT_FOUND");
    let error = sandbox.run(&["approval", "list", "-l", "job=a,=b"]).error("INVALID_ARGUMENT");
    assert!(error["details"]["position"].is_u64(), "{error}");
    let text = sandbox.command("subagent").args(["approval", "list"]).run();
    let lines: Vec<&str> = text.text().lines().collect();
    assert!(lines[0].contains("make all") && lines[0].ends_with("no rule fits"), "{lines:?}");
    assert!(lines[1].contains("cancel") && lines[1].ends_with("no rules"), "{lines:?}");
    sandbox.finish();
}

#[test]
fn a_question_is_shown_in_full_and_who_decided_it() {
    let sandbox = world();
    let worker = start(&sandbox, &["--ask", "edit"]);
    let options = json!([{"optionId": "y", "name": "Yes", "kind": "allow_once"}, {"optionId": "n", "name": "No", "kind": "reject_once"}]);
    let diff = json!({"type": "diff", "path": "/w/a.rs", "oldText": "one\n\u{1b}[2Jtwo", "newText": "three"});
    let call = json!({"toolCallId": "c", "title": "Edit a.rs", "kind": "edit", "content": [diff], "locations": [{"path": "/w/a.rs"}]});
    let params = json!({"sessionId": "SESSION", "toolCall": call, "options": options});
    let request =
        json!({"jsonrpc": "2.0", "id": 4242, "method": "session/request_permission", "params": params});
    let gate = sandbox.gate("shown");
    let accepted = sandbox.send_no_wait(&worker, &format!("!raw {request}\n{}", gate.directive()));
    let asked = sandbox.wait_after(&worker, &accepted["acceptedEventId"], "approval.requested");
    let id = asked["data"]["requestId"].as_str().unwrap();
    let show = || sandbox.run(&["approval", "show", id]).data_of("approval.shown");
    let shown = show();
    let command =
        |word: &str| format!("=subagent approve --worker-id {worker} --request {id} --decision {word}");
    let pattern = json!({
        "requestId": "ap", "workerId": "w", "name": "=demo-1", "label": "str", "controllerId": "ctl", "turnId": "turn",
        "kind": "=permission", "alwaysRule": "=edit(/w/a.rs)", "toolKind": "=edit", "subject": "=/w/a.rs", "status": "=pending", "createdAt": "ts", "deadlineAt": null,
        "onTimeout": null, "message": "str", "cwd": "str",
        "rule": {"action": "=ask", "kind": "=edit", "subject": "=/w/a.rs", "rule": "=edit", "layer": "=owner"},
        "options": [{"id": "str", "alias": "str", "label": "str", "kind": "str"}],
        "request": {
            "toolCallId": "=c", "title": "=Edit a.rs", "toolKind": "=edit", "locations": [{"path": "=/w/a.rs"}],
            "content": [{"type": "=diff", "path": "=/w/a.rs", "oldText": "str", "newText": "=three"}],
        },
        "decidedBy": null, "answers": [command("allow"), command("deny"), command("cancel")],
    });
    assert_shape(&shown, &pattern);
    let text = sandbox.command("subagent").args(["approval", "show", id]).run();
    let lines: Vec<&str> = text.text().lines().collect();
    for line in ["diff: /w/a.rs", "  -one", "  -two", "  +three", "rule: owner rule edit"] {
        assert!(lines.contains(&line), "{line} is not in {lines:#?}");
    }
    sandbox.approve(&worker, &asked["data"]["requestId"], "allow").data_of("approval.decided");
    gate.open();
    let _ = sandbox.turn_end(&accepted);
    let over = show();
    assert_shape(&over["decidedBy"], &json!({"by": "=owner", "at": "ts", "decision": "=allow"}));
    assert_eq!((&over["status"], &over["answers"]), (&json!("delivered"), &json!([])));
    let late = sandbox.approve(&worker, &asked["data"]["requestId"], "deny").error("APPROVAL_NOT_PENDING");
    assert_eq!(late["details"]["decidedBy"], over["decidedBy"]);
    sandbox.run(&["approval", "show", "ap_0000000000"]).error("APPROVAL_NOT_FOUND");
    sandbox.finish();
}

#[test]
fn all_that_a_worker_asks_is_decided_at_once() {
    let sandbox = world();
    let worker = start(&sandbox, &[]);
    let (gate, accepted) = asking(&sandbox, &worker, &["a", "b", "c"]);
    assert_eq!(list(&sandbox, &[]).len(), 3);
    let all = ["approve", "--all", "--worker-id", &worker];
    let none = sandbox.subagent(&all).args(["--decision", "perhaps"]).run().data_of("approvals.decided");
    assert_eq!((&none["count"], &none["decided"]), (&json!(3), &json!(0)));
    assert_eq!(none["items"][0]["error"]["code"], "INVALID_APPROVAL_DECISION");
    let data = sandbox
        .subagent(&all)
        .args(["--decision", "deny", "--note", "no"])
        .run()
        .data_of("approvals.decided");
    assert_shape(
        &data,
        &json!({"count": 3, "decided": 3, "items": [{
            "requestId": "ap", "error": null,
            "decided": {
                "workerId": "w", "requestId": "ap", "decision": "=deny", "optionId": "=n", "alias": "=n", "state": "str",
                "eventId": "ev", "delivery": "=delivered",
            },
        }]}),
    );
    let decided = of_type(&sandbox, &worker, "approval.decided");
    assert_eq!(
        decided.iter().map(|data| (&data["by"], &data["note"])).collect::<Vec<_>>(),
        [(&json!("owner"), &json!("no")); 3]
    );
    gate.open();
    assert_eq!(sandbox.turn_end(&accepted)["type"], "turn.completed");
    assert_eq!(
        sandbox.subagent(&all).args(["--decision", "allow"]).run().data_of("approvals.decided")["count"],
        0
    );
    let error = sandbox.run(&["approve", "--all", "--decision", "allow"]).error("INVALID_INPUT");
    assert!(error["message"].as_str().unwrap().contains("no worker"), "{error}");
    sandbox.run(&["approve", "--all", "--worker-id", &worker]).error("INVALID_INPUT");
    sandbox.finish();
}

fn always(sandbox: &TestSandbox, worker: &str, request: &Value, flags: &[&str]) -> Value {
    let args =
        ["approve", "--worker-id", worker, "--request", request.as_str().unwrap(), "--decision", "allow"];
    let always = [&args[..], &["--always"], flags].concat();
    sandbox.run(&always).data_of("approval.decided")
}

#[test]
fn a_decision_becomes_a_rule_that_answers_what_else_waits_and_what_comes() {
    let sandbox = world();
    let worker = start(&sandbox, &[]);
    let (gate, accepted) = asking(&sandbox, &worker, &["make all", "make all", "make clean"]);
    let asked: Vec<Value> = list(&sandbox, &[]).iter().map(|item| item["requestId"].clone()).collect();
    let data = always(&sandbox, &worker, &asked[0], &[]);
    let rule = json!({
        "ruleId": data["always"]["ruleId"], "rule": "execute(make all)", "action": "allow", "scope": "worker",
        "controllerId": data["always"]["controllerId"], "workerId": worker, "requestId": asked[0],
        "createdAt": data["always"]["createdAt"],
    });
    assert_eq!(data["always"], rule);
    wait_until("the other one to be decided", Duration::from_secs(20), || {
        (list(&sandbox, &[]).len() == 1).then_some(())
    });
    let decided = of_type(&sandbox, &worker, "approval.decided");
    assert_eq!((&decided[0]["by"], &decided[0]["always"]["ruleId"]), (&json!("owner"), &rule["ruleId"]));
    assert_eq!((&decided[1]["by"], &decided[1]["policy"]["source"]), (&json!("rule"), &rule["ruleId"]));
    assert_eq!(list(&sandbox, &[])[0]["requestId"], asked[2], "another command is asked");
    sandbox
        .run(&["approve", "--all", "--worker-id", &worker, "--decision", "deny"])
        .data_of("approvals.decided");
    gate.open();
    let _ = sandbox.turn_end(&accepted);
    assert_eq!(sandbox.send(&worker, "!ask execute make all")["assistantText"], "permission: allow-once");
    // It survives the daemon, is reported, and can be revoked.
    sandbox.kill_daemon();
    assert_eq!(sandbox.send(&worker, "!ask execute make  all")["assistantText"], "permission: allow-once");
    let listed = sandbox.run(&["policy", "rules", "list"]).data_of("policy.rules");
    assert_eq!(listed, json!({"items": [rule], "count": 1}));
    assert_eq!(
        sandbox.run(&["worker", "inspect", &worker]).data_of("worker.inspected")["ownerRules"],
        json!([rule])
    );
    let id = rule["ruleId"].as_str().unwrap();
    assert_eq!(sandbox.run(&["policy", "rules", "remove", id]).data_of("policy.rule.removed"), rule);
    sandbox.run(&["policy", "rules", "remove", id]).error("RULE_NOT_FOUND");
    let (_, waited) = ask(&sandbox, &worker, "make all");
    sandbox.approve(&worker, &waited["requestId"], "deny").data_of("approval.decided");
    let _ = sandbox.turn_end(&waited);
    sandbox.finish();
}

#[test]
fn a_rule_of_the_controller_holds_for_all_of_its_workers() {
    let sandbox = world();
    let (one, two) = (start(&sandbox, &[]), start(&sandbox, &[]));
    let (_, first) = ask(&sandbox, &one, "make");
    let (_, second) = ask(&sandbox, &two, "make");
    always(&sandbox, &one, &first["requestId"], &["controller"]);
    assert_eq!(sandbox.turn_end(&first)["type"], "turn.completed");
    assert_eq!(sandbox.turn_end(&second)["type"], "turn.completed", "this one was not answered");
    let three = start(&sandbox, &[]);
    assert_eq!(sandbox.send(&three, "!ask execute make")["assistantText"], "permission: allow-once");
    let listed = sandbox.run(&["policy", "rules", "list", "--worker-id", &three]).data_of("policy.rules");
    assert_eq!(
        (&listed["items"][0]["scope"], &listed["items"][0]["workerId"]),
        (&json!("controller"), &Value::Null)
    );
    sandbox.finish();
}

#[test]
fn what_no_rule_says_exactly_is_not_decided() {
    let sandbox = world();
    let worker = start(&sandbox, &[]);
    for command in ["ls; rm x", "rm '~'", "rm *", "rm $X", "ls \"", "sudo ls", "ls > x"] {
        let (request, waited) = ask(&sandbox, &worker, command);
        let args =
            ["approve", "--worker-id", &worker, "--request", &request, "--decision", "allow", "--always"];
        let error = sandbox.run(&args).error("RULE_NOT_DERIVABLE");
        assert!(error["details"]["reason"].is_string(), "{error}");
        assert_eq!(sandbox.show(&worker)["state"], "waiting_approval", "{command}: nothing was decided");
        sandbox.approve(&worker, &waited["requestId"], "deny").data_of("approval.decided");
        let _ = sandbox.turn_end(&waited);
    }
    let (request, waited) = ask(&sandbox, &worker, "ls");
    let args = ["approve", "--worker-id", &worker, "--request", &request, "--decision", "allow"];
    sandbox.subagent(&args).args(["--always", "everybody"]).run().error("INVALID_ARGUMENT");
    sandbox.approve(&worker, &waited["requestId"], "cancel").data_of("approval.decided");
    let _ = sandbox.turn_end(&waited);
    assert_eq!(sandbox.run(&["policy", "rules", "list"]).data_of("policy.rules")["count"], 0);
    sandbox.finish();
}

#[test]
fn a_decision_and_its_rule_are_stored_together_whenever_the_daemon_dies() {
    for point in ["decision.before_commit", "decision.after_commit"] {
        let mut sandbox = world();
        let worker = start(&sandbox, &[]);
        let (gate, accepted) = asking(&sandbox, &worker, &["make all", "make all"]);
        let asked = list(&sandbox, &[])[0]["requestId"].clone();
        sandbox.kill_daemon();
        sandbox.set_env("SUBAGENT_FAILPOINTS", format!("{point}=abort"));
        let once = sandbox.file("once");
        sandbox.set_env("SUBAGENT_FAILPOINTS_ONCE", &once);
        // The command repeats its request to the next daemon.
        let data = always(&sandbox, &worker, &asked, &[]);
        assert!(once.exists(), "{point} was never reached");
        wait_until("the other one to be decided", Duration::from_secs(30), || {
            list(&sandbox, &[]).is_empty().then_some(())
        });
        let rules = sandbox.run(&["policy", "rules", "list"]).data_of("policy.rules");
        assert_eq!(rules, json!({"items": [data["always"]], "count": 1}));
        let mut by: Vec<Value> =
            of_type(&sandbox, &worker, "approval.decided").iter().map(|data| data["by"].clone()).collect();
        by.sort_by_key(ToString::to_string);
        assert_eq!(by, [json!("owner"), json!("rule")]);
        gate.open();
        assert_eq!(sandbox.turn_end(&accepted)["type"], "turn.completed");
        sandbox.finish();
    }
}

#[test]
fn a_question_without_an_answer_in_time_is_denied() {
    let sandbox = world();
    let worker = start(&sandbox, &["--approval-timeout", "0.5"]);
    let (request, waited) = ask(&sandbox, &worker, "make");
    assert_eq!(sandbox.turn_end(&waited)["type"], "turn.completed");
    let decided = of_type(&sandbox, &worker, "approval.decided");
    assert_eq!(decided.len(), 1);
    assert_eq!((&decided[0]["by"], &decided[0]["optionId"]), (&json!("deadline"), &json!("reject-once")));
    let late = sandbox.approve(&worker, &json!(request), "allow").error("APPROVAL_NOT_PENDING");
    assert_shape(&late["details"]["decidedBy"], &json!({"by": "=deadline", "at": "ts", "decision": "=deny"}));
    assert_eq!(late["message"], "its deadline has decided the question: deny");
    let elicited = r#"!elicit {"mode": "form", "message": "m", "requestedSchema": {"type": "object"}}"#;
    let waited = sandbox.send(&worker, elicited);
    assert_eq!(sandbox.turn_end(&waited)["type"], "turn.completed");
    let answered = of_type(&sandbox, &worker, "elicitation.answered");
    assert_eq!((&answered[0]["by"], &answered[0]["action"]), (&json!("deadline"), &json!("decline")));
    sandbox.finish();
}

#[test]
fn a_question_without_an_answer_in_time_cancels_its_turn_even_without_a_daemon() {
    let sandbox = world();
    let worker = start(&sandbox, &["--approval-timeout", "1.5", "--on-approval-timeout", "cancel"]);
    let (_, waited) = ask(&sandbox, &worker, "make");
    sandbox.kill_daemon();
    // The next daemon decides once it has caught up, or at the deadline.
    let end = sandbox.turn_end(&waited);
    assert_eq!(
        (&end["type"], &end["data"]["reason"]),
        (&json!("turn.canceled"), &json!("a question was not answered in time"))
    );
    let decided = of_type(&sandbox, &worker, "approval.decided");
    assert_eq!(decided.iter().map(|data| data["by"].as_str().unwrap()).collect::<Vec<_>>(), ["deadline"]);
    sandbox.finish();
}

#[test]
fn of_an_answer_and_a_deadline_at_the_same_time_one_wins() {
    let sandbox = world();
    let worker = start(&sandbox, &["--approval-timeout", "0.4"]);
    for _ in 0..5 {
        let (request, waited) = ask(&sandbox, &worker, "make");
        let item = sandbox.run(&["approval", "show", &request]).data_of("approval.shown");
        let late = sandbox.approve(&worker, &json!(request), "allow");
        let _ = sandbox.turn_end(&waited);
        let decided = of_type(&sandbox, &worker, "approval.decided");
        let of_this: Vec<&Value> =
            decided.iter().filter(|data| data["requestId"] == json!(request)).collect();
        assert_eq!(of_this.len(), 1, "{item}");
        match late.status.success() {
            true => assert_eq!(of_this[0]["by"], "owner"),
            false => {
                assert_eq!(late.any_error()["details"]["decidedBy"]["by"], "deadline", "{late}");
                assert_eq!(of_this[0]["by"], "deadline");
            }
        }
    }
    sandbox.finish();
}

#[test]
fn the_decider_is_reported_in_all_cases() {
    let sandbox = TestSandbox::new();
    let init = sandbox.init();
    let worker = start(&sandbox, &["--allow", "execute(ls *)"]);
    let by = |request: &Value| {
        let late = sandbox.approve(&worker, request, "deny").error("APPROVAL_NOT_PENDING");
        late["details"]["decidedBy"].clone()
    };
    let _ = sandbox.send(&worker, "!ask execute ls");
    let asked = of_type(&sandbox, &worker, "approval.requested").remove(0)["requestId"].clone();
    let rule = json!({"by": "=rule", "at": "ts", "decision": "=allow", "rule": "object"});
    assert_shape(&by(&asked), &rule);
    let (request, _) = ask(&sandbox, &worker, "make");
    sandbox.run(&["cancel", "--worker-id", &worker]).data_of("turn.canceled");
    assert_shape(&by(&json!(request)), &json!({"by": "=cancel", "at": "ts", "decision": "=cancelled"}));
    let (request, waited) = ask(&sandbox, &worker, "make");
    let args = ["approve", "--worker-id", &worker, "--request", &request, "--decision", "allow"];
    let (id, owner) = (init["controllerId"].as_str().unwrap(), &init["owner"]);
    let handle = sandbox.subagent(&args).env("SUBAGENT_CTL_ID", id);
    let handle = handle.env("SUBAGENT_CTL_EPOCH", owner["epoch"].to_string());
    handle.env("SUBAGENT_CTL_TOKEN", owner["token"].as_str().unwrap()).run().data_of("approval.decided");
    let _ = sandbox.turn_end(&waited);
    let instance = format!("={}", owner["instanceId"].as_str().unwrap());
    let owner = json!({"by": "=owner", "instanceId": instance, "controllerId": format!("={id}"), "at": "ts", "decision": "=allow"});
    assert_shape(&by(&json!(request)), &owner);
    sandbox.finish();
}

#[test]
fn times_and_outcomes_that_are_none_are_refused() {
    let sandbox = world();
    let start =
        |flags: &[&str]| sandbox.subagent(&["worker", "start", "--launcher", "demo"]).args(flags).run();
    start(&["--approval-timeout", "1m", "--on-approval-timeout", "allow"]).error("INVALID_ARGUMENT");
    start(&["--on-approval-timeout", "deny"]).error("INVALID_ARGUMENT");
    assert_eq!(start(&["--approval-timeout", "soon"]).status.code(), Some(2));
    let started = start(&["--approval-timeout", "1m"]).data_of("worker.started");
    assert_eq!(started["answerTime"], json!({"timeoutMs": 60_000, "onTimeout": "deny"}));
    sandbox.finish();
}

#[test]
fn what_reads_lists_from_a_pipe_gets_items_alone() {
    let (sandbox, worker) = TestSandbox::with_worker();
    for (args, note) in [
        (&["approval", "list"][..], "(nothing is asked)"),
        (&["approve", "--worker-id", &worker, "--all", "--decision", "allow"], "(nothing is asked)"),
        (&["worker", "list", "-l", "a=b"], "(no workers)"),
        (&["task", "list"], "(no tasks)"),
        (&["tree"], "(no tasks)"),
        (&["tree", "--follow"], "(no tasks)"),
        (&["turn", "list", "--worker-id", &worker], "(no turns)"),
        (&["policy", "rules", "list"], "(no rules)"),
    ] {
        let run = sandbox.command("subagent").args(args).run();
        assert_eq!((run.text(), run.stderr.as_str()), ("", &*format!("{note}\n")), "{args:?}");
    }
    sandbox.finish();
}
