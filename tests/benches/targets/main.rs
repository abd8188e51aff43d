//! Measures the whole product from outside, through its installed executables: the rows of the
//! table of targets in `docs/performance.md`. A complete run writes that table.

// `cargo bench -p subagent-tests` runs all rows, `-- list send` some, and `-- --quick` all of them
// very briefly, which only shows that they work. `-- --five-million` and `-- --ten-minutes` make one
// row longer each. The machine should be idle. A C compiler is required. The reference is measured
// too if it is installed where `reference.rs` looks for it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::cast_possible_truncation,
    reason = "a measuring tool: it stops at an error and prints what it saw"
)]

mod agent_alone;
mod distance;
mod floor;
mod follower;
mod interrupt;
mod reference;
mod rows;
mod shipped;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use subagent_protocol::time::Timestamp;
use subagent_tests::measure::{Machine, MeasureOptions, Report, put, table};

use reference::Reference;
use rows::ROWS;
use world::BenchWorld;

/// The settings shared by all rows.
struct Bench {
    options: MeasureOptions,
    reference: Result<Reference, String>,
}

impl Bench {
    /// Returns `whole`, or `quick` in a short run.
    fn pick<T>(&self, whole: T, quick: T) -> T {
        if self.options.quick { quick } else { whole }
    }
}

fn main() -> ExitCode {
    let names: Vec<&str> = ROWS.iter().map(|(name, _)| *name).collect();
    let options = match MeasureOptions::parse(std::env::args().skip(1), &names) {
        Ok(options) => options,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(2);
        }
    };
    interrupt::handle();
    shipped::build();
    let bench = Bench { options, reference: Reference::find() };
    if let Err(why) = &bench.reference {
        eprintln!("the reference is not measured: {why}");
    }
    let mut report = Report { about: about(&bench), rows: Vec::new() };
    let mut failed = Vec::new();
    for (name, run) in ROWS.iter().filter(|(name, _)| bench.options.wants(name)) {
        let begun = Instant::now();
        match catch_unwind(AssertUnwindSafe(|| run(&bench))) {
            Ok(row) => report.rows.push(row),
            Err(_) => failed.push(*name),
        }
        eprintln!("{name}: {:.0} s", begun.elapsed().as_secs_f64());
    }
    let text = table(&report);
    println!("{text}");
    if !failed.is_empty() {
        eprintln!("failed, so nothing is written: {}", failed.join(", "));
        return ExitCode::FAILURE;
    }
    if bench.options.is_whole() {
        write(&text);
    }
    ExitCode::SUCCESS
}

fn write(text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/performance.md");
    let document = std::fs::read_to_string(&path).expect("the document");
    let document = put(&document, text).expect("the marks in the document");
    std::fs::write(&path, document).expect("the document");
    eprintln!("written: docs/performance.md");
}

fn about(bench: &Bench) -> Vec<(String, String)> {
    let machine = Machine::look(Path::new("/tmp"));
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
    let world = BenchWorld::empty();
    let version = world.sandbox.command("subagent").args(["--version"]).run();
    let reference = match &bench.reference {
        Ok(found) => found.versions.clone(),
        Err(why) => format!("not measured: {why}"),
    };
    let compiler = Command::new("cc").arg("--version").output();
    let compiler = compiler.map_or_else(
        |_| "none".to_owned(),
        |output| String::from_utf8_lossy(&output.stdout).lines().next().unwrap_or_default().to_owned(),
    );
    let about = vec![
        ("date", Timestamp(now as i64).to_string()),
        ("machine", format!("{}, {}", machine.processors, machine.memory)),
        ("load before", machine.load),
        ("kernel", machine.kernel),
        ("disk", machine.file_system),
        ("measured", version.text().trim().to_owned()),
        ("reference", reference),
        ("SQLite", rusqlite::version().to_owned()),
        ("compilers", format!("{}, {compiler}", machine.rustc)),
    ];
    world.finish();
    about.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}
