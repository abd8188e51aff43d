//! Replays the output of real agents to the real runtime: every line is journaled verbatim and
//! becomes the same events as before.

// `tests/fixtures/transcripts/` contains the conversations and, in `expected.txt`, the resulting
// events. After an intended change, `UPDATE_TRANSCRIPTS=1 cargo test --workspace --test e2e
// events` writes that file.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use rusqlite::{Connection, OpenFlags};
use serde_json::Value;
use serde_json::value::RawValue;
use subagent_tests::harness::TestSandbox;

use super::schema;

/// Number of transcripts replayed at once.
const THREADS: usize = 8;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/transcripts")
}

/// Returns the transcripts by name.
fn transcripts() -> Vec<(String, PathBuf)> {
    let files = fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path());
    let mut found: Vec<(String, PathBuf)> = files
        .filter(|file| file.extension().is_some_and(|extension| extension == "ndjson"))
        .map(|file| (file.file_stem().unwrap().to_str().unwrap().to_owned(), file))
        .collect();
    found.sort();
    found
}

/// Returns the prompts of a transcript, by process.
fn prompts(transcript: &str) -> Vec<Vec<String>> {
    let mut parts = Vec::new();
    for line in transcript.lines().filter_map(|line| line.strip_prefix("> ")) {
        let message: Value = serde_json::from_str(line).unwrap();
        match message["method"].as_str() {
            Some("initialize") => parts.push(Vec::new()),
            Some("session/prompt") => {
                let text = message["params"]["prompt"][0]["text"].as_str().unwrap();
                parts.last_mut().unwrap().push(text.to_owned());
            }
            _ => {}
        }
    }
    parts
}

#[test]
fn every_line_of_a_real_agent_is_journaled_to_the_letter_and_becomes_its_event() {
    let mut sandbox = TestSandbox::new();
    for (name, file) in transcripts() {
        let state = sandbox.file_name(&name);
        let agent = sandbox.test_agent("replay-agent", &[file.to_str().unwrap(), &state]);
        sandbox.launcher(&name, agent);
    }
    sandbox.init();
    let waiting: Mutex<VecDeque<(String, PathBuf)>> = Mutex::new(transcripts().into());
    assert!(waiting.lock().unwrap().len() > 70);
    let played: Mutex<BTreeMap<String, String>> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                loop {
                    let Some((name, file)) = waiting.lock().unwrap().pop_front() else { break };
                    let seen = play(&sandbox, &name, &file);
                    played.lock().unwrap().insert(name, seen);
                }
            });
        }
    });
    let mut text = String::new();
    for (name, seen) in played.into_inner().unwrap() {
        writeln!(text, "{name}\n{seen}").unwrap();
    }
    let kept = folder().join("expected.txt");
    if std::env::var_os("UPDATE_TRANSCRIPTS").is_some() {
        fs::write(&kept, &text).unwrap();
    }
    let kept = fs::read_to_string(kept).unwrap_or_default();
    let differs = kept.lines().zip(text.lines()).find(|(kept, seen)| kept != seen);
    assert!(
        kept == text,
        "what becomes of the transcripts has changed, first here: {differs:#?}\n\
         Is it meant? `UPDATE_TRANSCRIPTS=1 cargo test --workspace --test e2e events`"
    );
    sandbox.finish();
}

/// Replays one transcript and returns the result.
fn play(sandbox: &TestSandbox, name: &str, file: &Path) -> String {
    let worker = sandbox.start(name);
    for (part, prompts) in prompts(&fs::read_to_string(file).unwrap()).iter().enumerate() {
        if part > 0 && sandbox.run(&["worker", "restart", &worker]).document()["ok"] != true {
            break;
        }
        for prompt in prompts {
            let accepted = sandbox.send_no_wait(&worker, prompt);
            let _ = sandbox.turn_end(&accepted);
        }
    }
    let _ = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    compare(sandbox, name, &worker);
    let events = sandbox.events(&worker);
    schema::check(&events);
    format!("  {}\n{}", kinds(&events), ends(&events))
}

/// The agent's output must be in the journal verbatim, with its updates in order
/// and nothing between them.
fn compare(sandbox: &TestSandbox, name: &str, worker: &str) {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
    let database = Connection::open_with_flags(sandbox.state_dir().join("state.db"), flags).unwrap();
    let sql = "SELECT iif(e.record = '', 'update', e.record), e.payload FROM events e JOIN workers w ON w.id = e.worker
               WHERE w.worker_id = ?1 AND e.record IS NOT NULL ORDER BY e.seq";
    let mut statement = database.prepare(sql).unwrap();
    let records: Vec<(String, String)> = statement
        .query_map([worker], |row| Ok((row.get(0)?, row.get(1)?)))
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap();
    let is_update = |record: &str| matches!(record, "update" | "childUpdate");
    let mut updates = records.iter().filter(|(record, _)| is_update(record)).map(|(_, body)| body);
    for line in fs::read_to_string(sandbox.file(&format!("{name}.said"))).unwrap().lines() {
        let message: BTreeMap<String, Box<RawValue>> = serde_json::from_str(line).unwrap();
        if message.get("method").is_some_and(|method| method.get() == r#""session/update""#) {
            assert_eq!(updates.next().map(String::as_str), Some(message["params"].get()), "{name}");
            continue;
        }
        let said = ["params", "result", "error"].iter().find_map(|part| message.get(*part)).unwrap().get();
        let kept = records.iter().any(|(record, body)| !is_update(record) && body.contains(said));
        // The reason why a session was not available is kept as text.
        let in_words =
            said.contains(r#""code""#) && records.iter().any(|(record, _)| record == "startFailed");
        assert!(kept || in_words, "{name}: {said} is not in {records:#?}");
    }
    assert_eq!(updates.next(), None, "{name}");
}

/// Returns the kinds of its output in order; `×` counts repetitions.
fn kinds(events: &[Value]) -> String {
    let mut runs: Vec<(String, usize)> = Vec::new();
    for event in events {
        let kind = match event["type"].as_str().unwrap() {
            "progress.message" => "message".to_owned(),
            // The outcome of a file or terminal request comes from the client, at any time: the
            // replay does not wait for it.
            "progress.update" if is_outcome(&event["data"]) => continue,
            "progress.update" => shown(&event["data"]),
            "approval.requested" => "asks".to_owned(),
            _ => continue,
        };
        match runs.last_mut() {
            Some((last, times)) if *last == kind => *times += 1,
            _ => runs.push((kind, 1)),
        }
    }
    let words = runs.into_iter().map(|(kind, times)| match times {
        1 => kind,
        times => format!("{kind}×{times}"),
    });
    words.collect::<Vec<_>>().join(" ")
}

fn is_outcome(data: &Value) -> bool {
    (data["kind"] == "fs" || data["kind"] == "terminal") && data["status"] != "requested"
}

fn shown(data: &Value) -> String {
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    match data["kind"].as_str().unwrap() {
        "replayed" => format!("replayed:{}", word(&data["update"]["kind"])),
        kind @ ("tool_call" | "tool_call_update") if data["status"].is_string() => {
            format!("{kind}:{}", word(&data["status"]))
        }
        kind => kind.to_owned(),
    }
}

/// Returns how each turn ended, with its output.
fn ends(events: &[Value]) -> String {
    let mut lines = Vec::new();
    let mut said = String::new();
    for event in events {
        let data = &event["data"];
        match event["type"].as_str().unwrap() {
            "turn.started" => said.clear(),
            "progress.message" => said.push_str(data["text"].as_str().unwrap()),
            end @ ("turn.completed" | "turn.failed" | "turn.canceled") => {
                let why = data["stopReason"].as_str().or(data["error"]["code"].as_str()).unwrap_or_default();
                let said: String = said.chars().take(100).collect();
                lines.push(format!("  {end} {why} {said:?}"));
            }
            _ => {}
        }
    }
    lines.join("\n")
}
