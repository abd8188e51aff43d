//! Tasks of a worker whose agents cannot be started: what is stored, refused, reported and ended.

use serde_json::json;
use subagent_protocol::Code;
use subagent_protocol::api::{
    CancelTask, MessageTask, RunTask, StartWorker, StopWorker, TaskMessage, TaskMode, TaskStatus, TaskView,
    WaitTask,
};
use subagent_protocol::delegation::{DelegationSpec, TaskLimits};
use subagent_protocol::ids::WorkerId;
use subagent_protocol::policy::{PolicyLayer, PolicyRule, PolicySpec};

use super::*;
use crate::store::turns::{self, queue};
use crate::store::{Durability, tasks};
use crate::supervisor::TaskFilter;
use crate::supervisor::start::start_worker;
use crate::supervisor::start::stop::stop_worker;
use crate::supervisor::start::tests::{request, supervisor};
use crate::supervisor::tasks::messages::{cancel_task, message_task};
use crate::supervisor::tasks::shown::{list_tasks, show_task};
use crate::supervisor::tasks::spawn::run_task;
use crate::supervisor::tasks::wait::wait_task;
use crate::supervisor::testing::{caller, folder};

struct TaskSupervisorFixture {
    dir: tempfile::TempDir,
    supervisor: Supervisor,
    parent: WorkerId,
}

/// Starts a worker without an agent that may create tasks.
async fn world(limits: TaskLimits) -> TaskSupervisorFixture {
    let dir = folder();
    let supervisor = supervisor(dir.path()).await;
    let delegation = DelegationSpec {
        workspace: dir.path().into(),
        home: None,
        config: None,
        user_config: None,
        agents: None,
        limits,
        token_hash: None,
    };
    let rule = PolicyRule { rule: "task".to_owned(), action: "allow".to_owned(), line: None, column: None };
    let layer = PolicyLayer { layer: "owner".to_owned(), source: None, rules: vec![rule], tools: Vec::new() };
    let policy = PolicySpec {
        workspace: dir.path().into(),
        home: None,
        layers: vec![layer],
        ancestors: Vec::new(),
        pre_approved: None,
        is_task: false,
        memory: None,
    };
    let start = StartWorker {
        debug_mode: true,
        detached: false,
        titles: Some(delegation.clone()),
        delegation: Some(delegation),
        hooks: Vec::new(),
        policy: Some(policy),
        ..request(dir.path())
    };
    let parent = start_worker(&supervisor, caller(None), start).await.unwrap().worker_id;
    TaskSupervisorFixture { dir, supervisor, parent }
}

fn given(name: &str, mode: TaskMode) -> RunTask {
    RunTask {
        agent: None,
        prompt: "look around".to_owned(),
        description: Some("Look around".to_owned()),
        name: Some(name.to_owned()).filter(|name| !name.is_empty()),
        mode: Some(mode),
        metadata: serde_json::Map::new(),
        overrides: Default::default(),
        worktree: None,
        manager: None,
    }
}

impl TaskSupervisorFixture {
    /// Builds a task for an agent that may create tasks itself.
    fn nested(&self, name: &str, mode: TaskMode) -> RunTask {
        let folder = self.dir.path().join(".agents/agents");
        std::fs::create_dir_all(&folder).unwrap();
        let definition = "---\ndescription: gives tasks\npermission: {task: allow}\n---\nGive tasks.\n";
        std::fs::write(folder.join("nested.md"), definition).unwrap();
        RunTask { agent: Some("nested".to_owned()), ..given(name, mode) }
    }

    fn caller(&self, key: Option<&str>) -> TaskCaller {
        TaskCaller::Parent { worker: self.parent.clone(), idempotency_key: key.map(str::to_owned) }
    }

    async fn run(&self, request: RunTask) -> Result<TaskView> {
        run_task(&self.supervisor, self.caller(None), request).await
    }

    async fn end(&self, task: &str) -> TaskStatus {
        let waited = wait_task(&self.supervisor, self.caller(None), task, WaitTask::default()).await.unwrap();
        waited.task.status
    }

    /// Returns the messages to the parent about its tasks.
    async fn end_messages(&self) -> Vec<String> {
        let row = self.supervisor.row(self.parent.as_str()).await.unwrap();
        let read = self.supervisor.shared.store.read(move |connection| {
            let mut texts = Vec::new();
            turns::begun(connection, row.id, 100, &mut |turn| texts.extend(turn.message))?;
            queue::queued(connection, row.id, &mut |turn| texts.push(turn.message))?;
            Ok(texts)
        });
        read.await.unwrap()
    }

    /// Waits until the parent has at least `count` messages about its tasks.
    async fn wait_for_end_messages(&self, count: usize) -> Vec<String> {
        let handle = self.supervisor.roster.live(self.parent.as_str()).unwrap();
        let mut snapshots = handle.follow();
        loop {
            let end_messages = self.end_messages().await;
            if end_messages.len() >= count {
                return end_messages;
            }
            snapshots.changed().await.unwrap();
        }
    }
}

#[tokio::test]
async fn m6_names_depth_and_number_are_limited_and_a_refusal_leaves_nothing() {
    let world = world(TaskLimits { max_depth: 2, max_tasks: 3, ..TaskLimits::default() }).await;
    let first = world.run(given("Scout", TaskMode::Foreground)).await.unwrap();
    assert_eq!((first.depth, &first.parent), (1, &Some(world.parent.clone())));
    assert_eq!((&*first.name, first.mode), ("Scout", TaskMode::Foreground));
    let error = world.run(given("SCOUT", TaskMode::Foreground)).await.unwrap_err();
    assert_eq!((error.code, &error.details["name"]), (Code::TaskNameTaken, &json!("SCOUT")));
    let made = world.run(given("", TaskMode::Foreground)).await.unwrap();
    let again = world.run(given("", TaskMode::Foreground)).await.unwrap();
    assert_eq!((&*made.name, &*again.name), ("Look around", "Look around-2"));
    let error = world.run(given("one more", TaskMode::Foreground)).await.unwrap_err();
    assert_eq!((error.code, &error.details["limit"]), (Code::TaskLimit, &json!(3)));
    let files = world.supervisor.shared.setup.runtime_dir.worker_files().unwrap();
    let kept = files.iter().filter(|(_, path)| path.extension().is_some_and(|end| end == "env")).count();
    assert_eq!(kept, 4, "the environments of the parent and its tasks: {files:?}");
    for name in ["", " x", "a\nb", &"x".repeat(65)] {
        let error =
            world.run(RunTask { name: Some(name.to_owned()), ..given("", TaskMode::Foreground) }).await;
        assert_eq!(error.unwrap_err().code, Code::InvalidArgument, "{name:?}");
    }
    drop(world.dir);
}

#[tokio::test]
async fn m6_a_task_below_the_last_level_is_refused() {
    let world = world(TaskLimits { max_depth: 1, ..TaskLimits::default() }).await;
    let child = world.run(world.nested("child", TaskMode::Foreground)).await.unwrap();
    let caller = TaskCaller::Parent { worker: child.task_id, idempotency_key: None };
    world.end("child").await;
    world
        .supervisor
        .shared
        .store
        .write(Durability::Full, 1, |tx| tasks::places::pretend_active(tx))
        .await
        .unwrap();
    let below = run_task(&world.supervisor, caller, given("below", TaskMode::Background)).await.unwrap_err();
    assert_eq!((below.code, &below.details["depth"]), (Code::TaskDepthLimit, &json!(2)));
    drop(world.dir);
}

#[tokio::test]
async fn m9_a_task_that_is_over_gives_no_tasks_and_has_none_go_on() {
    let world = world(TaskLimits::default()).await;
    let child = world.run(world.nested("child", TaskMode::Foreground)).await.unwrap();
    let of_child = || TaskCaller::Parent { worker: child.task_id.clone(), idempotency_key: None };
    assert_eq!(world.end("child").await, TaskStatus::Failed);
    world
        .supervisor
        .shared
        .store
        .write(Durability::Full, 1, |tx| tasks::places::pretend_active(tx))
        .await
        .unwrap();
    let give = |name: &str| run_task(&world.supervisor, of_child(), given(name, TaskMode::Foreground));
    let below = give("while it goes on").await.unwrap();
    let waited = wait_task(&world.supervisor, of_child(), below.task_id.as_str(), WaitTask::default()).await;
    assert_eq!(waited.unwrap().task.status, TaskStatus::Failed);
    for own in [
        "outcome = 'cancelled'",
        "outcome = NULL, ending = 'timed_out'",
        "ending = NULL, why = 'the turn above it was canceled'",
    ] {
        world
            .supervisor
            .shared
            .store
            .write(Durability::Full, 1, move |tx| tasks::places::pretend_task(tx, own))
            .await
            .unwrap();
        assert_eq!(give("after it").await.unwrap_err().code, Code::WorkerStopped, "{own}");
        let message =
            MessageTask { message: "go on".to_owned(), cancel: false, allow_fresh: true, mode: None };
        let said = message_task(&world.supervisor, of_child(), below.task_id.as_str(), message).await;
        assert_eq!(said.unwrap_err().code, Code::WorkerStopped, "{own}");
    }
    drop(world.dir);
}

#[tokio::test]
async fn m8_a_background_task_that_fails_is_reported_once_also_by_the_next_daemon() {
    let world = world(TaskLimits::default()).await;
    let request = given("Scout", TaskMode::Background);
    let task = run_task(&world.supervisor, world.caller(Some("k")), request.clone()).await.unwrap();
    let again = run_task(&world.supervisor, world.caller(Some("k")), request).await.unwrap();
    assert_eq!(task.task_id, again.task_id, "a key stands for one task");
    assert_eq!(world.end("scout").await, TaskStatus::Failed);
    let end_messages = world.wait_for_end_messages(1).await;
    let message: serde_json::Value = serde_json::from_str(&end_messages[0]).unwrap();
    assert_eq!(message["subagent"], json!({"subagentId": task.task_id, "name": "Scout", "status": "failed"}));
    let text = message["text"].as_str().unwrap();
    assert!(text.starts_with(&format!("[Subagent 'Scout' ({}) failed: ", task.task_id)), "{text}");
    world.supervisor.shutdown(false).await.unwrap();
    let next = Supervisor::open(super::super::testing::setup(world.dir.path())).await.unwrap();
    let world = TaskSupervisorFixture { supervisor: next, ..world };
    world.supervisor.shared.changes.wake_actors([world
        .supervisor
        .row(world.parent.as_str())
        .await
        .unwrap()
        .id]);
    let shown = show_task(&world.supervisor, world.caller(None), task.task_id.as_str(), false).await.unwrap();
    assert_eq!(shown.task.status, TaskStatus::Failed);
    assert!(shown.task.error.is_some() && shown.task.times.completed_at.is_some(), "{shown:?}");
    assert_eq!(world.end_messages().await.len(), 1);
    drop(world.dir);
}

#[tokio::test]
async fn a_caller_sees_its_own_tasks_alone() {
    let world = world(TaskLimits::default()).await;
    let task = world.run(given("mine", TaskMode::Foreground)).await.unwrap();
    let stranger = TaskCaller::Parent { worker: task.task_id.clone(), idempotency_key: None };
    for wanted in ["mine", task.task_id.as_str()] {
        let error = show_task(&world.supervisor, stranger.clone(), wanted, false).await.unwrap_err();
        assert_eq!(error.code, Code::TaskNotFound);
    }
    let filter = TaskFilter { parent: Some(world.parent.to_string()), ..TaskFilter::default() };
    assert_eq!(list_tasks(&world.supervisor, stranger, filter.clone()).await.unwrap().count, 0);
    let manager = TaskCaller::Manager(caller(None));
    assert_eq!(list_tasks(&world.supervisor, manager.clone(), filter.clone()).await.unwrap().count, 1);
    let none = TaskFilter { status: Some("completed,lost".to_owned()), ..filter.clone() };
    world.end("mine").await;
    assert_eq!(list_tasks(&world.supervisor, manager.clone(), none).await.unwrap().count, 0);
    let wrong = TaskFilter { status: Some("done".to_owned()), ..filter };
    let error = list_tasks(&world.supervisor, manager, wrong).await.unwrap_err();
    assert_eq!(error.code, Code::InvalidArgument);
    drop(world.dir);
}

/// Creates a task that stays queued, because no slot is free.
async fn waiting(world: &TaskSupervisorFixture) -> TaskView {
    // The row of another task says that it is active, and no actor ends it.
    world
        .supervisor
        .shared
        .store
        .write(Durability::Full, 1, |tx| tasks::places::pretend_active(tx))
        .await
        .unwrap();
    world.run(given("waits", TaskMode::Foreground)).await.unwrap()
}

#[tokio::test]
async fn m7_without_a_place_a_task_is_queued_takes_more_to_do_and_can_be_canceled() {
    let world = world(TaskLimits { max_active: 1, ..TaskLimits::default() }).await;
    let blocker = world.run(given("blocks", TaskMode::Foreground)).await.unwrap();
    assert_eq!(world.end("blocks").await, TaskStatus::Failed);
    let _ = blocker;
    let task = waiting(&world).await;
    let message =
        |text: &str, cancel| MessageTask { message: text.to_owned(), cancel, allow_fresh: false, mode: None };
    let timeout = WaitTask { timeout_ms: Some(20), known: None };
    let waited = wait_task(&world.supervisor, world.caller(None), "waits", timeout).await.unwrap();
    assert_eq!(waited.task.status, TaskStatus::Queued);
    let more = message_task(&world.supervisor, world.caller(None), "waits", message("and there", false));
    assert_eq!(more.await.unwrap().message, TaskMessage::Appended);
    let row = world.supervisor.row(task.task_id.as_str()).await.unwrap();
    let read = world.supervisor.shared.store.read(move |connection| {
        let mut texts = Vec::new();
        queue::queued(connection, row.id, &mut |turn| texts.push(turn.message))?;
        Ok(texts)
    });
    let waits = read.await.unwrap();
    assert_eq!(waits.len(), 1);
    assert!(waits[0].contains("look around\\n\\nand there"), "{waits:?}");
    let canceled =
        message_task(&world.supervisor, world.caller(None), "waits", message("", true)).await.unwrap();
    assert_eq!((canceled.message, canceled.task.status), (TaskMessage::Cancelled, TaskStatus::Cancelled));
    let over =
        message_task(&world.supervisor, world.caller(None), "waits", message("x", true)).await.unwrap();
    assert_eq!(over.message, TaskMessage::AlreadyEnded);
    let canceled = cancel_task(&world.supervisor, world.caller(None), "waits", CancelTask::default()).await;
    assert_eq!(canceled.unwrap().runs, 1, "what has ended is not canceled");
    let resumed =
        message_task(&world.supervisor, world.caller(None), "waits", message("again", false)).await.unwrap();
    assert_eq!((resumed.message, resumed.task.runs), (TaskMessage::Resumed, 2));
    assert_eq!(resumed.task.status, TaskStatus::Queued);
    let stopped = stop_worker(&world.supervisor, caller(None), task.task_id.as_str(), StopWorker::default())
        .await
        .unwrap();
    assert_eq!(stopped.worker_id, task.task_id);
    assert_eq!(world.end("waits").await, TaskStatus::Cancelled, "its worker was stopped");
    drop(world.dir);
}

#[tokio::test]
async fn a_repeated_cancel_of_an_ended_task_does_not_end_its_next_run() {
    let world = world(TaskLimits { max_active: 1, ..TaskLimits::default() }).await;
    for task in ["blocks", "works"] {
        world.run(given(task, TaskMode::Foreground)).await.unwrap();
        assert_eq!(world.end(task).await, TaskStatus::Failed);
    }
    let cancel =
        || cancel_task(&world.supervisor, world.caller(Some("once")), "works", CancelTask::default());
    let message = |key, text: &str, cancel| {
        let message = MessageTask { message: text.to_owned(), cancel, allow_fresh: true, mode: None };
        message_task(&world.supervisor, world.caller(key), "works", message)
    };
    assert_eq!(cancel().await.unwrap().status, TaskStatus::Failed);
    let said = message(Some("last"), "x", true).await.unwrap();
    assert_eq!(said.message, TaskMessage::AlreadyEnded);
    // The first task is active again according to its row, so the next run waits for a slot.
    world
        .supervisor
        .shared
        .store
        .write(Durability::Full, 1, |tx| tasks::places::pretend_active(tx))
        .await
        .unwrap();
    let resumed = message(None, "again", false).await.unwrap();
    assert_eq!((resumed.message, resumed.task.status), (TaskMessage::Resumed, TaskStatus::Queued));
    assert_eq!(cancel().await.unwrap().status, TaskStatus::Queued, "the repetition canceled another run");
    let said = message(Some("last"), "x", true).await.unwrap();
    assert_eq!((said.message, said.task.status), (TaskMessage::AlreadyEnded, TaskStatus::Queued));
    let canceled =
        cancel_task(&world.supervisor, world.caller(Some("another")), "works", CancelTask::default());
    assert_eq!(canceled.await.unwrap().status, TaskStatus::Cancelled);
    drop(world.dir);
}

#[tokio::test]
async fn only_the_daemons_own_task_is_a_title_and_its_end_is_silent() {
    let world = world(TaskLimits::default()).await;
    let title = || RunTask { agent: Some("title".to_owned()), ..given("", TaskMode::Background) };
    let of_agent = world.run(title()).await.unwrap();
    let caller = TaskCaller::Title { worker: world.parent.clone() };
    let of_daemon = run_task(&world.supervisor, caller.clone(), title()).await.unwrap();
    let again = run_task(&world.supervisor, caller, title()).await.unwrap();
    assert_eq!(again.task_id, of_daemon.task_id, "one for each worker");
    let found = world.supervisor.shared.store.read(|connection| tasks::of_agent(connection, "title"));
    let found: Vec<String> = found.await.unwrap().into_iter().map(|(_, task)| task).collect();
    assert_eq!(found, [of_daemon.task_id.as_str()]);
    world.end(of_daemon.task_id.as_str()).await;
    world.end(of_agent.task_id.as_str()).await;
    let end_messages = world.wait_for_end_messages(1).await;
    assert!(
        end_messages.len() == 1 && end_messages[0].contains(of_agent.task_id.as_str()),
        "{end_messages:?}"
    );
    drop(world.dir);
}
