//! Every invariant check fails when its invariant is violated. A copy of a finished, good state is
//! damaged, once for each condition that a check covers. The damage is beside the name of the check
//! that must detect it.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use nix::fcntl::{Flock, FlockArg};
use rusqlite::Connection;
use serde_json::json;
use subagent_protocol::codec;
use subagent_protocol::ids::EventId;
use subagent_tests::harness::process::{MARKER, Process, of_sandbox};
use subagent_tests::harness::{Finished, TestSandbox, wait_until};
use subagent_tests::invariants::{Evidence, check};
use tempfile::TempDir;

/// A session with everything: completed, canceled and lost turns; given, canceled and lost
/// permissions; a watcher; a second worker.
///
/// It is created once and removed with the last test that uses it.
fn good() -> Arc<Finished> {
    static GOOD: Mutex<Weak<Finished>> = Mutex::new(Weak::new());
    let mut shared = GOOD.lock().unwrap_or_else(PoisonError::into_inner);
    let good = shared.upgrade().unwrap_or_else(|| Arc::new(make_good()));
    *shared = Arc::downgrade(&good);
    good
}

fn make_good() -> Finished {
    let (sandbox, worker) = TestSandbox::with_worker();
    let _ = sandbox.send(&worker, "!chunks 3 text");
    let asked = sandbox.send(&worker, "!ask execute it");
    sandbox.approve(&worker, &asked["requestId"], "allow").data_of("approval.decided");
    let _ = sandbox.turn_end(&asked);
    let _ = sandbox.send(&worker, "!ask execute it");
    sandbox.run(&["cancel", "--worker-id", &worker]).data_of("turn.canceled");
    let lost = sandbox.send(&worker, "!ask execute it");
    sandbox.kill(&sandbox.runtime(&worker));
    let _ = sandbox.turn_end(&lost);
    let _ = sandbox.send(&worker, "again");
    let other = sandbox.start("demo");
    let _ = sandbox.send(&other, "hello");
    let _ = sandbox.events(&worker);
    let removed = sandbox.start("demo");
    let _ = sandbox.send(&removed, "hello");
    let _ = sandbox.events(&removed);
    sandbox.run(&["worker", "rm", &removed, "--force"]).data_of("worker.removed");
    let folder = sandbox.state_dir().join("runtimes").join(&removed);
    wait_until("the removed worker to be deleted", Duration::from_secs(20), || {
        (!folder.exists()).then_some(())
    });
    sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    sandbox.finish()
}

/// A copy of the good state that may be damaged.
struct Copy {
    _folder: TempDir,
    evidence: Evidence,
}

impl Copy {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let state_dir = folder.path().join("state");
        let good = good();
        copy(&good.evidence.state_dir, &state_dir);
        let sockets = folder.path().join("sockets");
        fs::create_dir(&sockets).unwrap();
        let mut evidence = good.evidence.moved_to(&state_dir);
        evidence.socket_folders = vec![sockets];
        let copy = Self { _folder: folder, evidence };
        assert_eq!(check(&copy.evidence), Vec::<String>::new(), "the copy must pass like the original");
        copy
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.evidence.state_dir.join(name)
    }

    fn database(&self) -> Connection {
        let database = Connection::open(self.path("state.db")).unwrap();
        database.pragma_update(None, "foreign_keys", false).unwrap();
        database
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// The check with this name must fail.
#[track_caller]
fn red(evidence: &Evidence, name: &str) {
    let violations = check(evidence);
    assert!(
        violations.iter().any(|violation| violation.starts_with(name)),
        "{name} stayed green: {violations:#?}"
    );
}

/// Damages a copy of the database with these statements.
#[track_caller]
fn red_after(name: &str, statements: &str) {
    let copy = Copy::new();
    let before = copy.database().total_changes();
    let database = copy.database();
    database.execute_batch(statements).unwrap_or_else(|error| panic!("{statements}: {error}"));
    assert!(
        database.total_changes() > before || statements.starts_with("DROP"),
        "nothing was changed: {statements}"
    );
    drop(database);
    red(&copy.evidence, name);
}

/// A turn that was completed, and one that was canceled.
const COMPLETED: &str = "(SELECT min(id) FROM turns WHERE status = 'completed')";
const CANCELED: &str = "(SELECT min(id) FROM turns WHERE status = 'canceled')";
/// Takes the seq of a new event.
const NEXT: &str = "(SELECT max(seq) + 1 FROM events)";

#[test]
fn what_is_acknowledged_must_be_stored() {
    let _shared = good();
    let name = "what was acknowledged is stored";
    // A printed event is lost, has another number, or is hidden.
    red_after(name, "DELETE FROM events WHERE type = 'turn.completed'");
    red_after(name, "UPDATE events SET type = 'progress.update' WHERE type = ''");
    red_after(name, "UPDATE events SET internal = 1 WHERE type = 'message.sent'");
    // An accepted turn is lost, or a confirmed cancel did not happen.
    red_after(name, &format!("DELETE FROM turns WHERE id = {COMPLETED}"));
    red_after(name, &format!("UPDATE turns SET status = 'completed' WHERE id = {CANCELED}"));
    // A decision is lost, has another option, or was not delivered in spite of the confirmation.
    red_after(name, "DELETE FROM approvals WHERE status = 'delivered'");
    red_after(name, "UPDATE approvals SET option_id = 'reject-once' WHERE option_id = 'allow-once'");
    red_after(
        name,
        "UPDATE approvals SET status = 'undelivered' WHERE status = 'delivered' AND by_cancel = 0",
    );
    // A started worker is lost; a stopped one runs.
    red_after(name, "UPDATE workers SET worker_id = 'w_ffffffffff' WHERE id = 1");
    red_after(name, "UPDATE workers SET state = 'idle' WHERE id = 1");
    let copy = Copy::new();
    fs::remove_file(copy.path("state.db")).unwrap();
    red(&copy.evidence, "things were acknowledged");
}

#[test]
fn a_task_must_end_once_and_be_reported_once() {
    let _shared = good();
    let name = "a task ends once and is reported once";
    let task = |worker: i64, outcome: &str| {
        format!(
            "INSERT INTO tasks (worker, controller, depth, name, folded, path, description, prompt, mode, terms, metadata,
                                max_active, outcome, created_at)
             VALUES ({worker}, 1, 1, 'n', 'n', '[]', '', '', 'background', '{{}}', '{{}}', 6, {outcome}, 0)"
        )
    };
    let due = |parent: i64, turn: &str| {
        format!(
            "INSERT INTO task_deliveries VALUES (1, 1, {parent}, 'w_0123456789', 'n', 'completed', 'x', {turn})"
        )
    };
    // The task continues although its worker is stopped, or it ended although its worker
    // has an open turn.
    red_after(name, &task(1, "NULL"));
    red_after(name, &format!("{}; UPDATE workers SET state = 'turn' WHERE id = 2", task(2, "'lost'")));
    // Its end was reported twice; by a missing turn; it is due to no worker; to one that ended,
    // though its worker is not stopped.
    let reported = "UPDATE events SET payload = json_set(payload, '$.subagent.subagentId',
                  (SELECT worker_id FROM workers WHERE id = 1)) WHERE type = 'message.sent'";
    red_after(name, &format!("{}; {reported}", task(1, "'completed'")));
    let asked = "UPDATE events SET payload = json_set(payload, '$.text',
                   'Your last message is the result of this task, and does not fit it') WHERE type = 'message.sent'";
    red_after(name, &format!("{}; UPDATE tasks SET runs = 0; {asked}", task(1, "'completed'")));
    red_after(name, &due(1, "'t_nowhere'"));
    red_after(name, &due(1, "NULL"));
    let runs = "UPDATE workers SET desired = 'run' WHERE id = 2";
    red_after(name, &format!("{}; {}; {runs}", task(2, "'cancelled'"), due(2, "NULL")));
}

#[test]
fn only_what_may_go_may_be_gone() {
    let _shared = good();
    let name = "only what may go is gone";
    // A removed worker still exists; another one was removed without a request, or it still runs.
    red_after(name, "DELETE FROM removed_workers");
    red_after(
        name,
        "INSERT INTO removed_workers SELECT worker_id, 1, 2 FROM workers WHERE id = 1;
                     UPDATE workers SET removed_at = 2 WHERE id = 1",
    );
    red_after(name, "UPDATE workers SET removed_at = 2 WHERE id = 1");
    red_after(
        name,
        "INSERT INTO removed_workers SELECT worker_id, 1, 99999999999 FROM workers WHERE id = 1;
                     UPDATE workers SET removed_at = 99999999999, state = 'idle' WHERE id = 1",
    );
    // The mark covers the latest turn, or the start of a worker is gone, or the content
    // of an open question.
    red_after(
        name,
        "UPDATE workers SET expired_seq = (SELECT max(message_seq) FROM turns WHERE worker = 1) WHERE id = 1",
    );
    red_after(name, "DELETE FROM events WHERE type = 'worker.started' AND worker = 1");
    red_after(name, "UPDATE approvals SET status = 'pending', asked_seq = 999999 WHERE status = 'lost'");
    // Files of a removed worker are left.
    let copy = Copy::new();
    let removed = copy.evidence.acknowledged.removed.first().unwrap();
    fs::write(copy.path(&format!("runtimes/{removed}.log")), "").unwrap();
    red(&copy.evidence, name);
}

#[test]
fn what_is_above_the_mark_must_be_there() {
    let _shared = good();
    // The marks are at the beginning of the latest turn, and everything before it is
    // gone, which is allowed.
    const EXPIRE: &str =
        "UPDATE workers SET expired_seq = (SELECT max(message_seq) FROM turns WHERE worker = workers.id) - 2,
             created_at = created_at - 30 * 24 * 3600 * 1000 WHERE id = 1;
         UPDATE workers SET expired_number =
           (SELECT max(number) FROM events WHERE worker = workers.id AND seq <= expired_seq) WHERE id = 1;
         DELETE FROM events WHERE worker = 1 AND type <> 'worker.started'
           AND seq <= (SELECT expired_seq FROM workers WHERE id = 1);
         DELETE FROM approvals WHERE asked_seq <= (SELECT expired_seq FROM workers WHERE id = 1);
         DELETE FROM turns WHERE worker = 1 AND message_seq <= (SELECT expired_seq FROM workers WHERE id = 1)
           AND id NOT IN (SELECT turn FROM events WHERE turn IS NOT NULL);";
    let copy = Copy::new();
    copy.database().execute_batch(EXPIRE).unwrap();
    assert_eq!(check(&copy.evidence), Vec::<String>::new());
    red_after("only what may go is gone", "UPDATE workers SET expired_seq = 3 WHERE id = 1");
    // One more is too much.
    let then = |more: &str| format!("{EXPIRE} {more}");
    let of = "worker = 1 AND seq > (SELECT expired_seq FROM workers WHERE id = 1)";
    red_after(
        "what was acknowledged is stored",
        &then(&format!("DELETE FROM events WHERE type = 'message.sent' AND {of}")),
    );
    red_after(
        "a watcher misses nothing",
        &then(&format!("DELETE FROM events WHERE type = 'turn.started' AND {of}")),
    );
    red_after(
        "numbers have no gap and no duplicate",
        &then(
            "DELETE FROM events WHERE worker = 1 AND number = (SELECT max(number) - 2 FROM events WHERE worker = 1)",
        ),
    );
    red_after(
        "a turn has one end",
        &then(&format!("DELETE FROM events WHERE type = 'turn.completed' AND {of}")),
    );
    // The first record above the mark, and everything above it.
    for which in ["= (SELECT expired_number + 1 FROM workers WHERE id = 1)", "IS NOT NULL"] {
        let missing = then(&format!("DELETE FROM events WHERE worker = 1 AND number {which}"));
        red_after("numbers have no gap and no duplicate", &missing);
    }
    // The journal still has it.
    let copy = Copy::new();
    copy.database().execute_batch(EXPIRE).unwrap();
    let mark: i64 = copy
        .database()
        .query_row("SELECT expired_number FROM workers WHERE id = 1", [], |row| row.get(0))
        .unwrap();
    copy.database().execute("DELETE FROM events WHERE worker = 1 AND number = ?1", [mark + 1]).unwrap();
    let worker: String = copy
        .database()
        .query_row("SELECT worker_id FROM workers WHERE id = 1", [], |row| row.get(0))
        .unwrap();
    let head = json!({"n": mark + 1, "at": 1, "t": "update", "b": {}}).to_string();
    let mut bytes = Vec::new();
    codec::encode(head.as_bytes(), &mut bytes);
    let folder = copy.path(&format!("runtimes/{worker}"));
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("99.journal"), bytes).unwrap();
    red(&copy.evidence, "the journal is stored");
}

#[test]
fn a_watcher_must_miss_nothing() {
    let _shared = good();
    let name = "a watcher misses nothing";
    // It omitted one, printed one twice, or in another order.
    let breaks: [fn(&mut Vec<EventId>); 3] =
        [|events| _ = events.remove(3), |events| events.insert(2, events[1]), |events| events.swap(1, 2)];
    for break_it in breaks {
        let mut copy = Copy::new();
        let watched = copy.evidence.acknowledged.watched.iter_mut().find(|watched| watched.events.len() > 5);
        break_it(&mut watched.unwrap().events);
        red(&copy.evidence, name);
    }
}

#[test]
fn numbers_must_have_no_gap() {
    let _shared = good();
    let name = "numbers have no gap and no duplicate";
    // A record was skipped at the beginning, in the middle or at the end, or the cursor
    // was too far ahead.
    for number in ["1", "5", "(SELECT max(number) FROM events WHERE worker = 1)"] {
        red_after(name, &format!("DELETE FROM events WHERE worker = 1 AND number = {number}"));
    }
    red_after(name, "UPDATE journal_cursors SET number = number + 1 WHERE worker = 1");
    // A record was stored twice (after dropping the index that prevents it), or in another order.
    red_after(
        name,
        &format!(
            "DROP INDEX record_once;
             INSERT INTO events SELECT {NEXT}, worker, number, turn, at, type, kind, record, internal, payload
               FROM events WHERE worker = 1 AND number = 3"
        ),
    );
    red_after(name, "UPDATE events SET number = CASE number WHEN 3 THEN -4 ELSE -3 END WHERE worker = 1 AND number IN (3, 4);
                     UPDATE events SET number = -number WHERE number < 0");
    // An assigned sequence number was not reserved; a turn's number is missing.
    red_after(name, "UPDATE meta SET value = 3 WHERE key = 'seq_reserved'");
    red_after(name, "UPDATE workers SET last_turn = last_turn + 1 WHERE id = 1");
}

#[test]
fn a_turn_must_have_one_end() {
    let _shared = good();
    let name = "a turn has one end";
    let event = |turn: &str, event_type: &str| {
        format!(
            "INSERT INTO events SELECT {NEXT}, worker, NULL, id, 0, '{event_type}', NULL, NULL, 0, '{{}}'
             FROM turns WHERE id = {turn}"
        )
    };
    // A second end of the same kind and of another; an end without an event; no end at all.
    red_after(name, &event(COMPLETED, "turn.completed"));
    red_after(name, &event(COMPLETED, "turn.failed"));
    red_after(name, &format!("UPDATE turns SET status = 'failed' WHERE id = {COMPLETED}"));
    red_after(name, &format!("UPDATE turns SET status = 'accepted' WHERE id = {COMPLETED}"));
    red_after(name, &format!("UPDATE turns SET end_seq = end_seq - 1 WHERE id = {COMPLETED}"));
    // It begins twice, or without its message.
    red_after(name, &event(COMPLETED, "turn.started"));
    red_after(name, &format!("DELETE FROM events WHERE type = 'message.sent' AND turn = {COMPLETED}"));
    // Only after a restore may a turn be recovered from the journal without its message.
    red_after(
        name,
        &format!(
            "DELETE FROM events WHERE type = 'message.sent' AND turn = {COMPLETED};
             UPDATE events SET payload = json_set(payload, '$.recovered', json('true'))
               WHERE type = 'turn.started' AND turn = {COMPLETED};
             UPDATE turns SET message_seq =
               (SELECT e.seq FROM events e WHERE e.turn = turns.id AND e.type = 'turn.started')
               WHERE id = {COMPLETED}"
        ),
    );
    // Its prompt was sent twice, or contrary to its own record.
    red_after(name, &event(COMPLETED, "runtime.turn_dispatching"));
    red_after(name, &event(COMPLETED, "runtime.turn_end"));
    red_after(name, &format!("UPDATE turns SET dispatched = 'no' WHERE id = {COMPLETED}"));
    // It was completed although its cancel was accepted.
    red_after(
        name,
        &format!(
            "UPDATE turns SET status = 'completed' WHERE id = {CANCELED};
             UPDATE events SET type = 'turn.completed' WHERE type = 'turn.canceled' AND turn = {CANCELED}"
        ),
    );
}

#[test]
fn an_approval_must_have_one_end() {
    let _shared = good();
    let name = "an approval has one end";
    // It stays open; it is given although it was lost; its event is missing, or occurs twice;
    // it has no question.
    red_after(name, "UPDATE approvals SET status = 'pending' WHERE status = 'delivered' AND by_cancel = 0");
    red_after(name, "UPDATE approvals SET status = 'delivered' WHERE status = 'lost'");
    red_after(name, "DELETE FROM events WHERE type = 'approval.lost'");
    red_after(
        name,
        &format!(
            "INSERT INTO events SELECT {NEXT}, worker, NULL, turn, at, type, kind, record, internal, payload
               FROM events WHERE type = 'approval.decided' LIMIT 1"
        ),
    );
    red_after(name, "UPDATE approvals SET asked_seq = asked_seq - 1 WHERE status = 'lost'");
    red_after(name, "DELETE FROM approvals WHERE status = 'lost'");
    // The answer was written twice, or before a decision.
    red_after(
        name,
        &format!(
            "INSERT INTO events SELECT {NEXT}, worker, NULL, turn, at, type, kind, record, internal, payload
               FROM events WHERE type = 'runtime.answer_written'"
        ),
    );
    red_after(name, "UPDATE approvals SET decided_seq = NULL WHERE option_id = 'allow-once'");
    // It was delivered although nothing was written, or vice versa; or with an option
    // that was not offered.
    red_after(name, "DELETE FROM events WHERE type = 'runtime.answer_written'");
    red_after(
        name,
        "UPDATE approvals SET status = 'undelivered' WHERE status = 'delivered' AND by_cancel = 0",
    );
    red_after(name, "UPDATE approvals SET option_id = 'allow-all' WHERE option_id = 'allow-once'");
    // It is open although its runtime is gone.
    let mut copy = Copy::new();
    copy.evidence.ended = false;
    let reopen = "UPDATE approvals SET status = 'pending' WHERE status = 'lost'";
    copy.database().execute_batch(reopen).unwrap();
    red(&copy.evidence, name);
    // It was decided without a command.
    let mut copy = Copy::new();
    copy.evidence.acknowledged.all_attempted = true;
    assert_eq!(check(&copy.evidence), Vec::<String>::new());
    copy.evidence.acknowledged.attempted.clear();
    red(&copy.evidence, name);
}

#[test]
fn an_ownership_must_have_one_owner() {
    let _shared = good();
    let name = "an ownership has one owner";
    // An epoch is missing; an old owner was never released; an owner has no token; a granted
    // one belongs to another.
    red_after(name, "UPDATE owners SET epoch = epoch + 1");
    red_after(
        name,
        "DROP INDEX one_active_owner;
         INSERT INTO owners SELECT NULL, controller, 'ci_000000000000', epoch + 1, randomblob(32), pid, start_time,
                                   boot_id, created_at, 1 FROM owners WHERE epoch = 1",
    );
    red_after(name, "UPDATE owners SET token_hash = x''");
    red_after(name, "UPDATE owners SET instance_id = 'ci_000000000000'");
}

#[test]
fn nothing_may_run_without_a_runtime() {
    let _shared = good();
    let name = "nothing runs without a runtime";
    // A turn is open and its runtime is dead; a worker is stopped and its runtime
    // (here: this test) lives.
    red_after(name, &format!("UPDATE turns SET status = 'accepted' WHERE id = {COMPLETED}"));
    let me = Process::find(std::process::id().try_into().unwrap()).unwrap();
    red_after(
        name,
        &format!(
            "UPDATE workers SET runtime_pid = {}, runtime_start = {} WHERE id = 1",
            me.pid, me.start_time
        ),
    );
}

#[test]
fn the_database_must_be_sound() {
    let _shared = good();
    let name = "the database is sound";
    // Contradictions between columns.
    red_after(name, "UPDATE turns SET worker = 2, no = no + 100 WHERE worker = 1");
    red_after(name, "UPDATE workers SET state = 'turn'");
    red_after(name, "UPDATE workers SET stopped_at = NULL");
    red_after(name, "UPDATE workers SET desired = 'run'");
    red_after(name, "UPDATE workers SET runtime_pid = 1");
    red_after(name, "UPDATE events SET record = NULL WHERE number = 1");
    red_after(name, "UPDATE requests SET response = ''");
    red_after(name, "DELETE FROM meta WHERE key = 'generation'");
    // A reference points nowhere; an index lacks an entry of its table.
    red_after(name, "UPDATE events SET turn = 99999 WHERE turn IS NOT NULL");
    let copy = Copy::new();
    let database = copy.database();
    database.execute_batch("PRAGMA wal_checkpoint(TRUNCATE); PRAGMA journal_mode = DELETE").unwrap();
    let page: i64 = database
        .query_row("SELECT rootpage FROM sqlite_schema WHERE name = 'record_once'", [], |row| row.get(0))
        .unwrap();
    let size: i64 = database.query_row("PRAGMA page_size", [], |row| row.get(0)).unwrap();
    drop(database);
    // Overwrites bytes of that index's page.
    let mut bytes = fs::read(copy.path("state.db")).unwrap();
    let begin = usize::try_from((page - 1) * size).unwrap();
    bytes[begin + 3..begin + 200].fill(0xff);
    fs::write(copy.path("state.db"), bytes).unwrap();
    red(&copy.evidence, name);
}

#[test]
fn the_journal_must_be_stored() {
    let _shared = good();
    let name = "the journal is stored";
    // A segment exists whose record was stored with another body, is missing in the
    // database, or is damaged.
    for (payload, number) in [("{\"another\":1}", 1), ("{}", 100_000)] {
        let copy = Copy::new();
        let record = json!({"n": number, "at": 1, "t": "ended", "b": serde_json::from_str::<serde_json::Value>(payload).unwrap()});
        let mut bytes = Vec::new();
        codec::encode(record.to_string().as_bytes(), &mut bytes);
        write_segment(&copy, &bytes);
        red(&copy.evidence, name);
    }
    let copy = Copy::new();
    let mut bytes = Vec::new();
    codec::encode(b"{\"n\":1,\"at\":1,\"t\":\"ended\",\"b\":{}}", &mut bytes);
    bytes[30] ^= 1;
    write_segment(&copy, &bytes);
    red(&copy.evidence, name);
}

fn write_segment(copy: &Copy, bytes: &[u8]) {
    let worker: String = copy
        .database()
        .query_row("SELECT worker_id FROM workers WHERE id = 1", [], |row| row.get(0))
        .unwrap();
    let folder = copy.path("runtimes").join(worker);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("1.journal"), bytes).unwrap();
}

#[test]
fn secrets_must_stay_secret() {
    let _shared = good();
    let name = "secrets stay secret";
    let copy = Copy::new();
    let token = copy.evidence.acknowledged.secrets.first().expect("the owner's token was kept").clone();
    // The token is in a log, or in the database itself.
    fs::write(copy.path("logs/debug.log"), format!("the owner's token is {token}\n")).unwrap();
    red(&copy.evidence, name);
    red_after(name, &format!("UPDATE controllers SET label = '{token}'"));
    // The text of a prompt is in the daemon's log.
    let copy = Copy::new();
    fs::write(copy.path("logs/debug.log"), format!("sent {}\n", subagent_tests::invariants::PROMPT_CANARY))
        .unwrap();
    red(&copy.evidence, name);
}

#[test]
fn an_ended_state_dir_must_be_at_rest() {
    let _shared = good();
    let name = "an ended state dir is at rest";
    // A worker was forgotten; daemon.json was left; a socket was left; a lock is held.
    red_after(name, "UPDATE workers SET state = 'idle' WHERE id = 2");
    let copy = Copy::new();
    fs::write(copy.path("daemon.json"), "{}").unwrap();
    red(&copy.evidence, name);
    let copy = Copy::new();
    fs::write(copy.evidence.socket_folders[0].join("x.sock"), "").unwrap();
    red(&copy.evidence, name);
    let copy = Copy::new();
    let file = fs::File::create(copy.path("daemon.lock")).unwrap();
    let held = Flock::lock(file, FlockArg::LockExclusive).unwrap();
    red(&copy.evidence, name);
    drop(held);
}

/// Ends a process that a test left on purpose.
struct Stray(Child);

impl Drop for Stray {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_process_that_is_left_is_found() {
    let sandbox = TestSandbox::new();
    assert!(sandbox.processes().is_empty());
    let id = sandbox.path().file_name().unwrap().to_str().unwrap().to_owned();
    let stray =
        |command: &mut Command| Stray(command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap());
    // One with its marker in the environment, one with its folder on the command line and no
    // environment, and a grandchild with neither, below one that has the marker.
    let strays = [
        stray(Command::new("sleep").arg("60").env(MARKER, &id)),
        stray(Command::new("tail").arg("-f").arg(sandbox.config_file()).env_clear()),
        stray(Command::new("sh").args(["-c", "env -i sleep 61 & wait"]).env(MARKER, &id)),
    ];
    let found = wait_until("all four processes to be found", Duration::from_secs(10), || {
        let found = of_sandbox(&id, 0, sandbox.path(), sandbox.path());
        (found.len() == 4).then_some(found)
    });
    // Dropping it ends them all, as after a failed test: also the grandchild, which
    // is not our child.
    drop(sandbox);
    drop(strays);
    for process in found {
        assert!(!process.lives(), "{process:?}");
    }
}
