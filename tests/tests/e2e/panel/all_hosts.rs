//! The panel of all hosts: their workers beside those of this machine, and hosts that do not answer.

use serde_json::json;
use subagent_tests::harness::{SshHost, TestSandbox};

use super::doors::from_below;
use super::{Panel, error};
use crate::hosts::{away, host};

#[test]
fn a_page_shows_and_answers_workers_of_hosts_beside_one_that_does_not_answer() {
    let sandbox = TestSandbox::new();
    let Some(mut host) = host(&sandbox) else { return };
    sandbox.init();
    let worker = sandbox.start("demo");
    let dead = json!({"host": "127.0.0.1", "args": ["-F", "/dev/null", "-p", "1"]});
    SshHost::offer(&sandbox, &json!({"lap": host.entry(&sandbox), "dead": dead}));
    let panel = Panel::start(&sandbox, &["--all-hosts"]);
    let page = panel.enter();
    let mut live = page.stream("/api/live");
    let (mut lap, mut is_dead, mut own) = (None, false, None);
    live.find("all places", |line| {
        let title = line["title"].as_str().unwrap_or_default();
        match (title.starts_with("lap: "), title.starts_with("dead: ")) {
            (true, _) if line["all"] == true => {
                assert!(line.to_string().contains(&worker), "{line}");
                lap = line["place"].as_str().map(str::to_owned);
            }
            (_, true) => is_dead |= line["down"]["code"] == "HOST_UNREACHABLE",
            _ if line["own"] == true => own = line["place"].as_str().map(str::to_owned),
            _ => {}
        }
        (lap.is_some() && is_dead && own.is_some()).then_some(())
    });
    let lap = lap.unwrap();
    assert_ne!(Some(&lap), own.as_ref());
    let sent =
        page.post(&format!("/api/{lap}/workers/{worker}/turns"), &json!({"text": "!ask execute make"}));
    assert_eq!(sent.status, 200, "{sent:?}");
    let asked = live.find("the question there", |line| {
        let is_asked = line["place"] == lap.as_str() && line["questions"][0]["id"].is_string();
        is_asked.then(|| line["questions"][0].clone())
    });
    let request = asked["id"].as_str().unwrap();
    let path = format!("/api/{lap}/workers/{worker}/approvals/{request}");
    let decided = page.post(&path, &json!({"decision": "allow"}));
    assert_eq!(decided.status, 200, "{decided:?}");
    assert_eq!(page.get(&format!("/api/{lap}/workers/{worker}"))["workerId"], worker.as_str());
    let started = page.post(&format!("/api/{lap}/workers"), &json!({"launcher": "demo"}));
    assert_eq!(error(&started), "HOST_UNSUPPORTED", "{started:?}");
    // The host dies, and comes back.
    host.end_server();
    live.find("the lost host", |line| {
        (line["place"] == lap.as_str() && line["down"]["message"].as_str()?.contains("last answer"))
            .then_some(())
    });
    host.restart_server(&sandbox);
    live.find("the host again", |line| (line["place"] == lap.as_str() && line["all"] == true).then_some(()));
    drop((live, panel));
    let _ = away(&sandbox, &["--host", "lap", "worker", "stop", &worker]).run().data();
    sandbox.finish();
}

#[test]
fn an_agent_does_nothing_at_hosts_through_the_panel() {
    let sandbox = TestSandbox::new();
    let Some(_host) = host(&sandbox) else { return };
    sandbox.init();
    let worker = sandbox.start("demo");
    let panel = Panel::start(&sandbox, &["--all-hosts"]);
    let page = panel.enter();
    let mut live = page.stream("/api/live");
    let lap = live.find("the host", |line| {
        let is_lap = line["title"].as_str().is_some_and(|title| title.starts_with("lap: "));
        is_lap.then(|| line["place"].as_str().unwrap().to_owned())
    });
    for path in [format!("/api/{lap}/usage"), format!("/api/{lap}/workers/{worker}")] {
        let port = panel.port;
        let text = format!(
            "GET {path} HTTP/1.1\\nHost: 127.0.0.1:{port}\\n{}\\nConnection: close\\n\\n",
            page.bearer()
        );
        let said = from_below(&sandbox, &worker, port, &text);
        assert!(said.contains("403 Forbidden") && said.contains("FORBIDDEN_FROM_WORKER"), "{path}: {said}");
    }
    drop((live, panel));
    let _ = sandbox.run(&["worker", "stop", &worker]).data();
    sandbox.finish();
}
