//! 10,000 workers on 100 hosts on a simulated clock, with the limits of the product and its rules.
//! `docs/fleet.md` has the figures. The costs of the machine are measured, and read from the pages.

mod agenda;
mod commits;
mod load;
mod recovery;
mod script;

use std::path::PathBuf;
use std::time::Duration;

use subagent_config::{Environment, RuntimeDir};
use subagent_core::model::LifecycleState;
use subagent_protocol::ids::{ControllerId, WorkerId};
use subagent_protocol::placement::ssh::RemoteHost;
use subagent_protocol::placement::{Engine, Placement};
use subagent_protocol::time::Timestamp;
use tempfile::TempDir;

use crate::store::{Durability, NewName, NewWorker, Store, Tx, WorkerRow, controllers, workers};
use crate::supervisor::DaemonSettings;
use crate::supervisor::runtimes::adoption::{AT_ONCE, PATIENCE};
use crate::supervisor::runtimes::place::RuntimePlace;
use crate::supervisor::runtimes::stray_processes::FormerClients;
use crate::supervisor::runtimes::stream::turns::DialTurns;
use crate::supervisor::runtimes::stream::{KEEPALIVE, SPREAD};

const PAGE: &str = include_str!("../../../../docs/fleet.md");
const MEASURED: &str = include_str!("../../../../docs/performance.md");

const WORKERS: usize = 10_000;
const HOSTS: usize = 100;
/// Number of workers of the bench row `fleet`.
const FLEET: f64 = 2000.0;
/// Number of pieces of text in a turn, one each second.
const PIECES: u64 = 20;
/// Number of synced commits of a `send`, one after the other.
const COMMITS_OF_SEND: f64 = 3.0;
/// How far a figure of the page may be from that of this test.
const TOLERANCE: f64 = 0.1;

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap()
}

fn id_bytes(number: usize) -> [u8; 5] {
    let [.., a, b, c, d] = number.to_be_bytes();
    [0, a, b, c, d]
}

/// Returns the silence after which a stream asks for a sign of life, as the process of its client
/// chooses it.
fn keepalive(pid: u64) -> Duration {
    let part = u32::try_from(pid % 64).unwrap();
    KEEPALIVE + SPREAD.mul_f64(f64::from(part) / 64.0)
}

/// The row of a worker on a host, and the settings of its daemon.
struct HostFixture {
    folder: TempDir,
    setup: DaemonSettings,
    row: WorkerRow,
}

impl HostFixture {
    async fn new() -> Self {
        // Not in TMPDIR: the path of a socket has at most 107 bytes.
        let folder = tempfile::tempdir_in("/tmp").unwrap();
        let state_dir = folder.path().join("state");
        std::fs::create_dir_all(&state_dir).unwrap();
        let row = stored_row(&Store::open(&state_dir.join("state.db")).unwrap()).await;
        let env = Environment::new([("XDG_RUNTIME_DIR".into(), folder.path().into())], folder.path());
        let setup = DaemonSettings {
            runtime_dir: RuntimeDir::prepare(&env, &state_dir).unwrap(),
            state_dir,
            runtime_program: PathBuf::from("/no-such-program"),
            restart_cooldown: None,
            retention: None,
            placement: None,
            dial_turns: DialTurns::default(),
            former_clients: FormerClients::default(),
        };
        Self { folder, setup, row }
    }

    /// Returns the places of this number of workers, as a daemon has them when it starts.
    fn places(&self, count: usize) -> Vec<RuntimePlace> {
        let place = |number| {
            let worker_id = WorkerId::from_random(id_bytes(number));
            let row = WorkerRow { worker_id, ..self.row.clone() };
            RuntimePlace::of(&row, &self.setup, self.folder.path(), None)
        };
        (0..count).map(place).collect()
    }
}

async fn stored_row(store: &Store) -> WorkerRow {
    let add = |tx: &mut Tx<'_>| {
        let now = Timestamp(1_000);
        let controller = ControllerId::from_random([1; 5]);
        let controller = controllers::upsert(tx, &controller, Some("label"), "/ws", now)?;
        let host = RemoteHost { host: "there".to_owned(), args: Vec::new() };
        let worker = NewWorker {
            worker_id: WorkerId::from_random([1; 5]),
            controller: controller.id,
            name: NewName::OfLauncher,
            label: "worker".to_owned(),
            launcher: "demo".to_owned(),
            role: "default".to_owned(),
            cwd: "/ws".to_owned(),
            spec: "{}".to_owned(),
            placeholder: "sess_0".to_owned(),
            state: LifecycleState::Starting,
            placement: Some(Placement { engine: Engine::Ssh(host), ..Placement::loopback() }),
        };
        let id = workers::insert(tx, &worker, now)?;
        workers::by_id(tx.connection(), id)
    };
    let row = store.write(Durability::Full, 1, add).await.unwrap();
    store.close().await;
    row.expect("the worker is stored")
}

/// Returns the other cells of the row of a table that begins with these.
fn cells(page: &'static str, begin: &[&str]) -> Vec<&'static str> {
    let rows = page.lines().filter_map(|line| line.strip_prefix('|')?.strip_suffix('|'));
    let mut rows = rows.map(|row| row.split('|').map(str::trim).collect::<Vec<_>>());
    let row = rows.find(|row| row.starts_with(begin));
    row.unwrap_or_else(|| panic!("no table has the row {begin:?}")).split_off(begin.len())
}

/// Returns the numbers of a cell.
fn numbers(cell: &str) -> Vec<f64> {
    let words = cell.split_whitespace().map(|word| word.trim_matches(|char: char| !char.is_ascii_digit()));
    words.filter_map(|word| word.replace(',', "").parse().ok()).collect()
}

/// Returns the first number in this column of a row of the page.
fn figure(label: &str, column: usize) -> f64 {
    numbers(cells(PAGE, &[label])[column])[0]
}

/// Returns what is wrong if a row of the page does not end with these numbers.
fn difference(label: &str, found: &[f64]) -> Option<String> {
    let mut page: Vec<f64> = cells(PAGE, &[label]).into_iter().flat_map(numbers).collect();
    page.drain(..page.len().saturating_sub(found.len()));
    let is_near = |(page, found): (&f64, &f64)| (page - found).abs() <= TOLERANCE * found.abs();
    let is_same = page.len() == found.len() && page.iter().zip(found).all(is_near);
    (!is_same).then(|| format!("{label}: {page:?} is in the page, and {found:.1?} was found"))
}

#[track_caller]
fn assert_no_difference(rows: &[(&str, Vec<f64>)]) {
    let wrong: Vec<String> = rows.iter().filter_map(|(label, found)| difference(label, found)).collect();
    assert!(wrong.is_empty(), "docs/fleet.md:\n{}", wrong.join("\n"));
}

/// Returns the first number in this column of a row of what was measured.
fn measured(bench: &str, what: &str, column: usize) -> f64 {
    numbers(cells(MEASURED, &[bench, what])[column])[0]
}

#[test]
fn the_page_has_what_was_measured() {
    // Columns of targets have the figure first, others the number of runs. kB are 1024 bytes.
    let of_fleet = measured("fleet", "the daemon within 200 MiB", 0) * 1024.0 / FLEET;
    let client = measured("unreachable", "memory of the ssh client here for each of them", 1) / 1e3;
    let measured = [
        ("memory of the daemon", of_fleet),
        ("memory of the ssh clients here", client),
        ("processes here", measured("fleet", "processes here for each of them", 1)),
        ("open files of the daemon", measured("fleet", "open files of the daemon for each", 1)),
        ("events", measured("ssh", "the same there", 1)),
        (
            "a turn of 200 workers at once, each with a connection of its own",
            measured("unreachable", "a turn of all 200 at once", 1),
        ),
        (
            "the same after the daemon was killed, with 200 new connections",
            measured("unreachable", "the same after the daemon was killed", 1),
        ),
    ];
    let is_far = |(label, found): &(&str, f64)| (figure(label, 0) - found).abs() > TOLERANCE * found.abs();
    let wrong: Vec<_> = measured.into_iter().filter(is_far).collect();
    assert!(wrong.is_empty(), "docs/performance.md has other figures than docs/fleet.md: {wrong:?}");
}

#[test]
fn what_the_page_multiplies_is_the_product_of_what_was_measured() {
    let all = WORKERS as f64;
    // kB and MB of one worker are GB of all.
    let products = [
        ("memory of the daemon", all / 1e6),
        ("memory of the ssh clients here", all / 1e3),
        ("processes here", all),
        ("open files of the daemon", all),
        ("events", 1.0 / all),
    ];
    assert_no_difference(&products.map(|(label, factor)| (label, vec![figure(label, 0) * factor])));
}

#[tokio::test]
async fn what_the_page_says_of_ten_thousand_workers_is_simulated() {
    let fixture = HostFixture::new().await;
    let send = numbers(cells(MEASURED, &["send", "a C program, the same POST and wait"])[1])[0];
    let commit = Duration::from_secs_f64(send / 1e3 / COMMITS_OF_SEND);
    let script = script::record();
    let idle = load::simulate(&script, WORKERS, false, commit);
    let busy = load::simulate(&script, WORKERS, true, commit);
    assert_eq!((idle.events, idle.commits), (0.0, 0.0), "nothing is stored while all are idle");

    let dial = Duration::from_secs_f64(figure("a dial over a shared connection", 0) / 1e3);
    // A machine that is as fast as the adoption.
    let quick = PATIENCE / u32::try_from(AT_ONCE).unwrap();
    let recover = |workers, hosts, cost| {
        let found = recovery::simulate(fixture.places(workers), hosts, cost);
        let counts = [found.dials, found.given_up, found.reported].map(|count| count as f64);
        [&[found.hosts_after, found.workers_after][..], &counts].concat()
    };
    let (first, tenth) = recovery::dial_lost(fixture.places(WORKERS / HOSTS));
    assert_no_difference(&[
        ("signs of life while all are idle", vec![idle.messages]),
        ("messages on the streams", vec![busy.messages]),
        ("stored events", vec![busy.events]),
        ("jobs that need a synced commit, and commits", vec![busy.full_jobs, busy.commits]),
        ("dials of a lost host with 100 workers", vec![first as f64, tenth as f64]),
        ("2,000 workers on 20 hosts", recover(2_000, 20, dial)),
        ("10,000 workers on 100 hosts", recover(WORKERS, HOSTS, dial)),
        ("10,000 workers on 1,000 hosts", recover(WORKERS, 1_000, dial)),
        ("10,000 workers on 100 hosts, 2.5 ms for a dial", recover(WORKERS, HOSTS, quick)),
    ]);
}
