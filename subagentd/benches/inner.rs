//! Inner parts of the daemon: a journal is taken in and followed, `worker list` is answered, a handoff is written.
//! `cargo bench -p subagentd`.

#![allow(missing_docs, clippy::unwrap_used, reason = "a bench")]

use std::hint::black_box;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use subagentd::testing::control_plane::{JournaledStateDir, KeepAliveClient, open_and_close_store};
use subagentd::testing::handoff::UsualHandoff;
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
                let control_plane = place.open().await;
                control_plane.follow(EVENTS).await;
                control_plane.shutdown().await;
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
    let control_plane = runtime.block_on(place.open());
    runtime.block_on(control_plane.follow(1));
    let socket = runtime.block_on(async { control_plane.serve() });
    let mut client = KeepAliveClient::connect(&socket);
    c.bench_function("worker list, 10 workers", |b| b.iter(|| client.get("/v1/workers")));
    runtime.block_on(control_plane.shutdown());
}

fn handoffs(c: &mut Criterion) {
    let handoff = UsualHandoff::generate();
    c.bench_function("handoff", |b| b.iter(|| black_box(handoff.render())));
}

fn opening(c: &mut Criterion) {
    let runtime = runtime();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state.db");
    c.bench_function("store opened and closed", |b| b.iter(|| runtime.block_on(open_and_close_store(&path))));
}

criterion_group!(benches, events, list, handoffs, opening);
criterion_main!(benches);
