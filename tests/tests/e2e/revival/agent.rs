//! An agent whose responses a test can choose for each of its processes: a script that reads
//! words from a file.

use std::fs;
use std::time::Duration;

use serde_json::{Value, json};
use subagent_tests::harness::{TestLauncher, TestSandbox, wait_until};

/// It answers every request, unless a word in its file `$1` changes that.
const SCRIPT: &str = r#"
words=$(cat "$1")
has() { case " $words " in *" $1 "*) return 0 ;; esac; return 1; }
answer() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$1"; }
refuse() { printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32000,"message":"cannot %s"}}\n' "$id" "$1"; }
play() {
    has "hang-in-$1" && sleep 1000
    has "exit-in-$1" && exit 5
    has "kill-in-$1" && kill -KILL $$
    if has "refuse-$1"; then refuse "$1"; else answer "$2"; fi
}
caps='"x":1'
has load && caps="$caps,\"loadSession\":true"
has no-load && caps="$caps,\"loadSession\":false"
session=
has resume && session='"resume":{}'
has close && session="${session:+$session,}\"close\":{}"
[ -n "$session" ] && caps="$caps,\"sessionCapabilities\":{$session}"
while IFS= read -r line; do
    id=$(printf %s "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
    case $line in
    *'"method"'*) ;;
    # The answer to a question.
    *) continue ;;
    esac
    case $line in
    *'"initialize"'*) play initialize "{\"protocolVersion\":1,\"agentCapabilities\":{$caps}}" ;;
    *'"session/new"'*) play new "{\"sessionId\":\"session-$$\"}" ;;
    *'"session/resume"'*) play resume '{}' ;;
    *'"session/load"'*) play load '{}' ;;
    *'"session/close"'*) play close '{}' ;;
    *'"session/prompt"'*)
        case $line in
        *'turn: exit 0'*) exit 0 ;;
        *'turn: exit 1'*) exit 1 ;;
        *'turn: kill'*) kill -KILL $$ ;;
        *'turn: wait'*) touch "$1.waits"; while :; do sleep 1000; done ;;
        esac
        answer '{"stopReason":"end_turn"}'
        case $line in
        *'then: exit 0'*) exit 0 ;;
        *'then: exit 1'*) exit 1 ;;
        *'then: kill'*) kill -KILL $$ ;;
        *'then: ask'*) printf '%s\n' '{"jsonrpc":"2.0","id":"q","method":"session/request_permission","params":{"toolCall":{"toolCallId":"t","title":"later"},"options":[{"optionId":"allow-once","name":"Allow","kind":"allow_once"}]}}' ;;
        esac ;;
    *'"id"'*) answer null ;;
    esac
done
"#;

/// A sandbox with a controller and the launcher `words`, whose agent starts with these words. The
/// launcher `hasty` has the same agent with little time to start.
pub(crate) fn sandbox(words: &str) -> TestSandbox {
    let mut sandbox = TestSandbox::new();
    fs::write(sandbox.file("agent"), SCRIPT).unwrap();
    let args = [sandbox.file_name("agent"), sandbox.file_name("words")];
    let launcher = TestLauncher::new("/bin/sh", args);
    sandbox.launcher("hasty", launcher.clone().startup_seconds(3.0));
    sandbox.launcher("words", launcher);
    say(&sandbox, words);
    sandbox.init();
    sandbox
}

/// Sets the words for the agent's next processes.
pub(crate) fn say(sandbox: &TestSandbox, words: &str) {
    fs::write(sandbox.file("words"), words).unwrap();
}

/// Waits until the worker has no runtime.
#[track_caller]
pub(crate) fn gone(sandbox: &TestSandbox, worker: &str) {
    wait_until("the runtime to be gone", Duration::from_secs(20), || {
        (sandbox.show(worker)["runtimePid"] == Value::Null).then_some(())
    });
}

/// Returns the events of a type, in order.
pub(crate) fn of_type(sandbox: &TestSandbox, worker: &str, event_type: &str) -> Vec<Value> {
    let mut events = sandbox.events(worker);
    events.retain(|event| event["type"] == event_type);
    events
}

/// Checks that a message is carried out.
#[track_caller]
pub(crate) fn works(sandbox: &TestSandbox, worker: &str) {
    let waited = sandbox.send(worker, "hello");
    assert_eq!(waited["matchedEvent"]["type"], json!("turn.completed"), "{waited}");
}
