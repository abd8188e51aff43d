//! Inner parts of the daemon: a journal is taken in and followed, `worker list` is answered, a handoff is written.
//! `cargo bench -p subagentd`.

#![allow(missing_docs, clippy::unwrap_used, reason = "a bench")]

#[path = "../tests/it/inner.rs"]
mod inner;

use std::hint::black_box;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use inner::{JournaledStateDir, KeepAliveClient};
use subagent_protocol::ids::{EventId, SnapshotId, TurnId};
use subagent_protocol::state::{TurnStatus, WorkerState};
use subagent_protocol::time::Timestamp;
use subagentd::handoff::{self, HandoffFacts, HandoffSource, Paths, Risks, SnapshotTurn, TurnText};
use subagentd::store::Store;
use tokio::runtime::{Builder, Runtime};

const EVENTS: u64 = 10_000;

fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

fn events(c: &mut Criterion) {
    let runtime = runtime();
    let mut group = c.benchmark_group("events");
    group.sample_size(10).throughput(Throughput::Elements(EVENTS));
    group.bench_function("journal to follower", |b| {
        let take_in = |place: JournaledStateDir| {
            runtime.block_on(async {
                let supervisor = place.open().await;
                place.follow(&supervisor, EVENTS).await;
                supervisor.shutdown(false).await.unwrap();
            });
            // It goes outside of what is measured.
            place
        };
        b.iter_batched(
            || runtime.block_on(JournaledStateDir::new(1, EVENTS)),
            take_in,
            BatchSize::PerIteration,
        );
    });
    group.finish();
}

fn list(c: &mut Criterion) {
    let runtime = runtime();
    let place = runtime.block_on(JournaledStateDir::new(10, 1));
    let supervisor = runtime.block_on(place.open());
    runtime.block_on(place.follow(&supervisor, 1));
    let socket = runtime.block_on(async { place.serve(supervisor.clone()) });
    let mut client = KeepAliveClient::connect(&socket);
    c.bench_function("worker list, 10 workers", |b| b.iter(|| client.get("/v1/workers")));
    runtime.block_on(supervisor.shutdown(false)).unwrap();
}

fn facts() -> HandoffFacts {
    let turn = |number: u8| SnapshotTurn {
        id: TurnId::from_random([number; 5]),
        instruction: "Look at the tests and tell what is missing. ".repeat(20),
        status: TurnStatus::Completed,
        note: None,
        usage: None,
    };
    let text = |number: u8| TurnText {
        turn: TurnId::from_random([number; 5]),
        text: "A line of what the agent has said.\n".repeat(300),
        cut: true,
    };
    HandoffFacts {
        snapshot_id: SnapshotId::from_random([1; 5]),
        created_at: Timestamp(0),
        source: HandoffSource {
            worker_id: "w_0123456789".into(),
            controller_id: "ctl_0123456789".into(),
            launcher: "demo".into(),
            role: "default".into(),
            cwd: "/ws".into(),
            label: "worker".into(),
            state: WorkerState::Idle,
            last_error: None,
        },
        up_to: EventId(7),
        turns: (1..=23).map(turn).collect(),
        turns_in_all: 40,
        texts: (1..=3).map(text).collect(),
        work: handoff::work::WorkerActivity::default(),
        pending: vec![],
        queued: vec![],
        risks: Risks::default(),
        workspace: None,
        summary: None,
        paths: Paths { handoff: "/ws/h/handoff.md".into(), checkpoint: "/ws/h/checkpoint.json".into() },
    }
}

fn handoffs(c: &mut Criterion) {
    let facts = facts();
    c.bench_function("handoff", |b| {
        b.iter(|| {
            (black_box(handoff::markdown::render(&facts)), black_box(handoff::checkpoint::render(&facts)))
        })
    });
}

fn opening(c: &mut Criterion) {
    let runtime = runtime();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state.db");
    c.bench_function("store opened and closed", |b| {
        b.iter(|| runtime.block_on(async { Store::open(&path).unwrap().close().await }))
    });
}

criterion_group!(benches, events, list, handoffs, opening);
criterion_main!(benches);
