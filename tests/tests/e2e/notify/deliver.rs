//! The deliveries to a sink, and their number.

use std::fs;

use serde_json::{Value, json};
use subagent_tests::harness::wait_until;

use super::server::{SinkRequest, SinkServer, WebhookResponse};
use super::{SOON, configure, log, settled, world};

fn webhook(server: &SinkServer, on: &str, more: &str) -> String {
    format!("  - {{name: hook, on: [{on}], to: webhook, url: '{}'{more}}}", server.url())
}

fn types(requests: &[SinkRequest]) -> Vec<Value> {
    requests.iter().map(|request| request.json()["type"].clone()).collect()
}

#[test]
fn a_question_arrives_signed_with_the_command_that_answers_it() {
    let server = SinkServer::https();
    let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    let (sandbox, worker) = world(&webhook(&server, "question", &format!(", secret: '{secret}'")));
    let asked = sandbox.send(&worker, "!ask execute make all");
    let request = server.wait_for(1).remove(0);
    let body = request.json();
    let question = &body["data"]["questions"][0];
    assert_eq!(body["type"], "question");
    assert_eq!(question["subject"], "make all", "{body}");
    assert_eq!(question["worker"], json!({"id": worker, "label": "Build"}), "{body}");
    assert_eq!(question["eventId"], asked["matchedEvent"]["eventId"], "{body}");
    let delivered = settled(&sandbox, "delivered");
    assert_eq!(delivered["eventId"], question["eventId"]);
    assert_eq!(delivered["attempts"], 1);
    assert!(request.header("webhook-id").starts_with("msg_"), "{request:?}");
    request.is_signed_with(secret);
    // The command works unchanged, from anywhere.
    let command = body["data"]["command"].as_str().unwrap();
    let line = command.replacen("subagent ", &format!("{} ", sandbox.executable("subagent")), 1);
    let approved = sandbox.command("sh").args(["-c", &line]).cwd("/").run();
    assert!(approved.status.success(), "{approved}");
    let _ = sandbox.wait_after(&worker, &delivered["eventId"], "turn_end");
    sandbox.finish();
}

#[test]
fn questions_of_one_second_are_one_notification_and_answered_ones_are_none() {
    let server = SinkServer::https();
    let (sandbox, worker) = world(&webhook(&server, "question, done", ""));
    let other = sandbox.start("demo");
    // Later deliveries wait for this response.
    server.answers([WebhookResponse::Late]);
    let _ = sandbox.send(&other, "first");
    server.wait_for(1);
    // Two questions at once.
    let _ = sandbox.send(&worker, "!ask2 execute make all");
    let asked = sandbox.send(&other, "!ask execute make test");
    sandbox.approve(&other, &asked["matchedEvent"]["data"]["requestId"], "allow").data_of("approval.decided");
    let _ = sandbox.wait_after(&other, &asked["matchedEvent"]["eventId"], "turn_end");
    server.let_go();
    let requests = server.wait_for(3);
    settled(&sandbox, "delivered");
    assert_eq!(types(&requests), ["done", "question", "done"], "{requests:?}");
    let questions = requests[1].json()["data"]["questions"].take();
    let workers: Vec<&Value> =
        questions.as_array().unwrap().iter().map(|question| &question["worker"]["id"]).collect();
    assert_eq!(workers, [&worker, &worker], "{questions}");
    let mut statuses: Vec<Value> =
        log(&sandbox).into_iter().rev().map(|item| item["status"].clone()).collect();
    // The answered one is dropped, or was answered before it was recorded.
    if statuses.len() == 5 {
        assert_eq!(statuses.remove(3), "dropped");
    }
    assert_eq!(statuses, ["delivered"; 4]);
    sandbox.finish();
}

#[test]
fn a_sink_without_occasions_hears_the_end_of_a_detached_run_alone() {
    let server = SinkServer::https();
    let (sandbox, worker) = world(&format!("  - {{name: hook, to: webhook, url: '{}'}}", server.url()));
    let _ = sandbox.send(&worker, "with a wait");
    let _ = sandbox.run(&["run", "-d", "demo", "detached"]).data_of("run.detached");
    let done = server.wait_for(1).remove(0).json();
    assert_eq!((&done["type"], &done["data"]["worker"]["label"]), (&json!("done"), &json!("run")), "{done}");
    assert_eq!(log(&sandbox).len(), 1);
    let shown = sandbox.command("subagent").args(["notify", "list"]).run();
    assert!(
        shown.text().contains("question,failed,lost,schedule_paused,trigger_paused,done of run -d"),
        "{shown}"
    );
    sandbox.finish();
}

#[test]
fn a_sink_gets_what_it_is_for_and_a_selector_chooses_workers() {
    let (failures, reviews) = (SinkServer::https(), SinkServer::https());
    let (sandbox, worker) = world(&format!(
        "  - {{to: webhook, url: '{}', on: [failed]}}\n  - {{to: webhook, url: '{}', on: [done], where: {{tag: job=review}}}}",
        failures.url(),
        reviews.url()
    ));
    let started = sandbox.run(&["worker", "start", "--launcher", "demo", "--tag", "job=review"]);
    let review = started.data_of("worker.started")["workerId"].as_str().unwrap().to_owned();
    let _ = sandbox.send(&worker, "nothing much");
    let _ = sandbox.send(&review, "nothing much");
    let _ = sandbox.send_fails(&worker, "!error -32000 no", "BACKEND_RPC_ERROR");
    let failed = failures.wait_for(1).remove(0).json();
    assert_eq!(
        (&failed["type"], &failed["data"]["worker"]["id"]),
        (&json!("failed"), &json!(worker)),
        "{failed}"
    );
    assert_eq!(failed["data"]["title"], "Build failed");
    let done = reviews.wait_for(1).remove(0).json();
    assert_eq!((&done["type"], &done["data"]["worker"]["id"]), (&json!("done"), &json!(review)), "{done}");
    let sent = log(&sandbox).len();
    assert_eq!((failures.requests().len(), reviews.requests().len(), sent), (1, 1, 2));
    sandbox.finish();
}

#[test]
fn what_fails_is_repeated_with_the_same_id_and_keeps_the_order() {
    let server = SinkServer::https();
    let (sandbox, worker) = world(&webhook(&server, "done, failed", ""));
    server.answers([
        WebhookResponse::Busy(1),
        WebhookResponse::Close,
        WebhookResponse::Redirect(server.url()),
        WebhookResponse::Status(204),
        WebhookResponse::Endless,
    ]);
    let _ = sandbox.send(&worker, "first");
    let _ = sandbox.send_fails(&worker, "!error -32000 no", "BACKEND_RPC_ERROR");
    let requests = server.wait_for(5);
    let ids: Vec<&str> = requests.iter().map(|request| request.header("webhook-id")).collect();
    assert!(ids[..4].iter().all(|id| *id == ids[0]) && ids[4] != ids[0], "{ids:?}");
    assert_eq!(types(&requests), ["done", "done", "done", "done", "failed"]);
    let last = settled(&sandbox, "delivered");
    assert_eq!((&last["occasion"], &last["attempts"]), (&json!("failed"), &json!(1)), "{last}");
    let first = log(&sandbox).pop().unwrap();
    assert_eq!((&first["status"], &first["attempts"]), (&json!("delivered"), &json!(4)), "{first}");
    sandbox.finish();
}

#[test]
fn a_sink_that_hangs_holds_up_no_other_and_a_daemon_that_dies_repeats_what_was_under_way() {
    let (hangs, works) = (SinkServer::https(), SinkServer::https());
    let (sandbox, worker) = world(&format!(
        "  - {{to: webhook, url: '{}', on: [done]}}\n  - {{to: webhook, url: '{}', on: [done]}}",
        hangs.url(),
        works.url()
    ));
    hangs.answers([WebhookResponse::Hang]);
    let _ = sandbox.send(&worker, "first");
    hangs.wait_for(1);
    let _ = sandbox.send(&worker, "second");
    works.wait_for(2);
    let delivered = || log(&sandbox).iter().filter(|delivery| delivery["status"] == "delivered").count() == 2;
    wait_until("both must be delivered to the other sink", SOON, || delivered().then_some(()));
    sandbox.kill_daemon();
    let _ = sandbox.send(&worker, "third");
    let ids = |server: &SinkServer, count| {
        let requests = server.wait_for(count);
        requests.iter().map(|request| request.header("webhook-id").to_owned()).collect::<Vec<_>>()
    };
    let (repeated, once) = (ids(&hangs, 4), ids(&works, 3));
    assert_eq!(repeated[0], repeated[1], "the one in progress must be repeated with its id");
    assert!(repeated[1..].windows(2).all(|two| two[0] != two[1]), "{repeated:?}");
    assert!(once.windows(2).all(|two| two[0] != two[1]), "{once:?}");
    sandbox.finish();
}

#[test]
fn a_command_reads_the_notification_and_ends_with_what_it_started() {
    let (sandbox, worker) =
        world("  - {to: command, on: [done], command: 'cat > ~/told; sleep 1000 & exit 0'}");
    let _ = sandbox.send(&worker, "first");
    settled(&sandbox, "delivered");
    let reported: Value =
        serde_json::from_str(&fs::read_to_string(sandbox.file("home/told")).unwrap()).unwrap();
    assert_eq!(
        (&reported["type"], &reported["data"]["title"]),
        (&json!("done"), &json!("Build is done")),
        "{reported}"
    );
    assert!(reported["id"].as_str().unwrap().starts_with("msg_"), "{reported}");
    sandbox.finish();
}

#[test]
fn a_command_that_writes_much_is_a_delivery() {
    let (sandbox, worker) = world("  - {to: command, on: [done], command: 'yes | head -c 100000000'}");
    let _ = sandbox.send(&worker, "first");
    assert_eq!(settled(&sandbox, "delivered")["attempts"], 1);
    sandbox.finish();
}

#[test]
fn the_desktop_is_notified_through_notify_send() {
    let (mut sandbox, bin) = (subagent_tests::harness::TestSandbox::new(), "home/bin");
    fs::create_dir_all(sandbox.file(bin)).unwrap();
    let program = sandbox.file("home/bin/notify-send");
    fs::write(&program, "#!/bin/sh\nprintf '%s\\n' \"$@\" > ~/shown\n").unwrap();
    fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", sandbox.file_name(bin), std::env::var("PATH").unwrap());
    sandbox.set_env("PATH", path);
    configure(&sandbox, "  - {to: desktop}");
    sandbox.init();
    let worker = sandbox.start("demo");
    let _ = sandbox.send(&worker, "!ask execute make -- all");
    settled(&sandbox, "delivered");
    let shown = fs::read_to_string(sandbox.file("home/shown")).unwrap();
    let mut lines = shown.lines();
    assert_eq!((lines.next(), lines.next()), (Some("--app-name=subagent"), Some("--")), "{shown}");
    assert!(shown.contains("asks\nmake -- all\nsince ") && shown.contains("subagent approve "), "{shown}");
    sandbox.finish();
}

#[test]
fn a_new_sink_gets_nothing_from_before_it_and_one_that_is_gone_gets_nothing_more() {
    let server = SinkServer::http();
    let (sandbox, worker) = world("  []");
    let _ = sandbox.send(&worker, "before");
    configure(&sandbox, &webhook(&server, "done", ""));
    // The daemon reads the file on request, or at the next event.
    sandbox.run(&["notify", "list"]).data_of("notify.listed");
    let listed = || {
        let sinks = sandbox.run(&["notify", "list"]).data_of("notify.listed");
        (sinks["count"] == 1).then_some(())
    };
    wait_until("the sink", SOON, listed);
    let _ = sandbox.send(&worker, "after");
    server.wait_for(1);
    settled(&sandbox, "delivered");
    server.answers([
        WebhookResponse::Status(503),
        WebhookResponse::Status(503),
        WebhookResponse::Status(503),
        WebhookResponse::Status(503),
    ]);
    let _ = sandbox.send(&worker, "never");
    server.wait_for(2);
    configure(&sandbox, "  - {to: command, command: 'true', on: [failed]}");
    sandbox.run(&["notify", "list"]).data_of("notify.listed");
    let dropped = settled(&sandbox, "dropped");
    assert_eq!(dropped["error"], "the sink is not configured any more");
    sandbox.finish();
}

#[test]
fn after_a_restore_nothing_from_before_it_arrives() {
    let open = "test -e ~/open && cat >> ~/told";
    let (sandbox, worker) = world(&format!("  - {{to: command, on: [done], command: '{open}'}}"));
    let _ = sandbox.send(&worker, "before");
    let failed = || log(&sandbox).first().filter(|newest| !newest["error"].is_null()).cloned();
    wait_until("a failed attempt", SOON, failed);
    let file = sandbox.file_name("kept.db");
    let _ = sandbox.run(&["backup", &file]).data_of("state.backed_up");
    let _ = sandbox.run(&["daemon", "stop"]).data();
    let _ = sandbox.run(&["restore", &file]).data_of("state.restored");
    fs::write(sandbox.file("home/open"), "").unwrap();
    assert_eq!(settled(&sandbox, "dropped")["error"], "a backup was restored");
    let after = sandbox.send(&worker, "after");
    let delivered = settled(&sandbox, "delivered");
    assert_eq!(delivered["eventId"], after["matchedEvent"]["eventId"]);
    assert_eq!(fs::read_to_string(sandbox.file("home/told")).unwrap().lines().count(), 1);
    sandbox.finish();
}

#[test]
fn a_sink_counts_from_the_next_event_after_its_file_was_written() {
    let server = SinkServer::http();
    let (sandbox, worker) = world("  []");
    let _ = sandbox.send(&worker, "before");
    configure(&sandbox, &webhook(&server, "question", ""));
    // No command runs that could make the daemon read the file.
    let asked = sandbox.send(&worker, "!ask execute make all");
    let body = server.wait_for(1).remove(0).json();
    assert_eq!(body["data"]["questions"][0]["eventId"], asked["matchedEvent"]["eventId"], "{body}");
    sandbox.finish();
}
