//! A long history: queries about its end must not cost more than with a short one.

use std::fs;

use subagent_tests::fast_agent;
use subagent_tests::measure::{Row, Unit};

use crate::Bench;
use crate::world::BenchWorld;

const SHORT: u64 = 10_000;
/// Number of chunks in one turn.
const STEP: u64 = 100_000;
/// Distance of the queried cursor from the end.
const BACK: i64 = 20;

pub(crate) fn run(bench: &Bench) -> Row {
    let mut row = Row::new("journal", "a journal of 500,000 events");
    let sizes: &[u64] = match (bench.options.quick, bench.options.five_million) {
        (true, _) => &[20_000],
        (false, false) => &[500_000],
        (false, true) => &[500_000, 5_000_000],
    };
    // Measures both lengths alternately: a short and a long history of two workers.
    let world = BenchWorld::new();
    let (short, long) = (world.start(), world.start());
    world.send(&short, &format!("!stream {SHORT}"));
    let mut written = 0;
    for size in sizes {
        while written < *size {
            let step = STEP.min(size - written);
            world.send(&long, &format!("!stream {step}"));
            written += step;
        }
        for (what, args) in QUESTIONS {
            let (short_args, long_args) = (args(&world, &short), args(&world, &long));
            let (mut few, mut many) = (Vec::new(), Vec::new());
            for warm in [true].into_iter().chain(std::iter::repeat_n(false, bench.pick(100, 5))) {
                few.push(ask(&world, &short_args));
                many.push(ask(&world, &long_args));
                if warm {
                    few.clear();
                    many.clear();
                }
            }
            let few = row.figure(format!("{what}, {SHORT} events"), Unit::Millis, &few).median;
            let many = row.figure(format!("{what}, {size} events"), Unit::Millis, &many).median;
            let wanted = format!("{what}: at most 1.5 times as much at {size} events as at {SHORT}");
            row.at_most(wanted, Unit::Times, 1.5, many / few);
        }
    }
    // The end of the daemon writes everything to the database.
    let params: u64 = (0..written / STEP).map(|_| fast_agent::params_bytes(STEP)).sum::<u64>()
        + fast_agent::params_bytes(written % STEP)
        + fast_agent::params_bytes(SHORT);
    let root = world.sandbox.state_dir().join("state.db");
    let _ = world.sandbox.command("subagentd").args(["stop", "--json"]).run().data();
    let bytes = fs::metadata(root).unwrap().len() as f64;
    let mib = 1024.0 * 1024.0;
    row.figure("the database", Unit::Megabytes, &[bytes / mib]);
    row.figure(
        "the parameters of its chunks, as the agent wrote them",
        Unit::Megabytes,
        &[params as f64 / mib],
    );
    row.at_most("the database at most 1.5 times the raw parameters", Unit::Times, 1.5, bytes / params as f64);
    world.finish();
    row
}

type QuestionArgs = fn(&BenchWorld, &str) -> Vec<String>;

const QUESTIONS: [(&str, QuestionArgs); 3] = [
    ("`inspect --tail 20`", |_, worker| words(&["worker", "inspect", worker, "--tail", "20", "--json"])),
    ("`wait`", |world, worker| {
        let cursor = cursor(world, worker);
        words(&[
            "wait",
            "--worker-id",
            worker,
            "--from-event-id",
            &cursor,
            "--until",
            "turn.completed",
            "--json",
        ])
    }),
    ("`watch --from-event-id`", |world, worker| {
        words(&["watch", "--worker-id", worker, "--from-event-id", &cursor(world, worker)])
    }),
];

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// Returns a cursor shortly before the end of a worker's history.
fn cursor(world: &BenchWorld, worker: &str) -> String {
    let database = rusqlite::Connection::open(world.sandbox.state_dir().join("state.db")).unwrap();
    let sql = "SELECT e.seq FROM events e JOIN workers w ON w.id = e.worker
               WHERE w.worker_id = ?1 AND e.internal = 0 ORDER BY e.seq DESC LIMIT 1 OFFSET ?2";
    let seq: i64 = database.query_row(sql, rusqlite::params![worker, BACK], |row| row.get(0)).unwrap();
    subagent_protocol::ids::EventId(seq).to_string()
}

fn ask(world: &BenchWorld, args: &[String]) -> f64 {
    crate::world::timed_program(&mut world.sandbox.command("subagent").args(args).process())
}
