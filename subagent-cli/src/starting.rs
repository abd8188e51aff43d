//! The line on stderr that says what the start of an agent waits for: a package manager may fetch it for minutes.
//!
//! Only a person sees it. An error here only leaves something out of the line.

use std::path::Path;
use std::time::Duration;

use subagent_config::installed::{self, Fetch};
use subagent_config::launcher;
use subagent_protocol::api::WorkerView;
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::client::{ApiRequest, DaemonClient, segment};
use crate::context::CliContext;
use crate::output::OutputFormat;
use crate::output::live::StatusLine;

/// The clock in the line. What takes less has no line.
const TICK: Duration = Duration::from_secs(1);

/// The line of a start.
#[derive(Debug)]
pub(crate) struct StartLine {
    line: StatusLine,
    what: String,
}

impl StartLine {
    /// The start of this launcher, if a person sees it.
    pub(crate) fn new(
        context: &CliContext,
        launcher: &str,
        fetch: impl FnOnce() -> Option<Fetch>,
    ) -> Option<Self> {
        Some(Self { line: line(context)?, what: text(launcher, fetch()) })
    }

    /// The same of a launcher of the caller's config.
    pub(crate) fn configured(
        context: &CliContext,
        launcher: &str,
        config: Option<&Path>,
        typed_cwd: Option<&Path>,
    ) -> Option<Self> {
        let cwd = typed_cwd.map_or_else(|| context.env.cwd.clone(), |cwd| context.env.cwd.join(cwd));
        Self::new(context, launcher, || fetch(context, launcher, config, typed_cwd, &cwd))
    }

    /// The wait for a free place.
    pub(crate) fn queued(context: &CliContext) -> Option<Self> {
        Some(Self { line: line(context)?, what: "queued".to_owned() })
    }

    /// Does the work, with the line if it takes long. `begun` is when the clock began.
    pub(crate) async fn during<T>(
        starting: Option<Self>,
        begun: Instant,
        mut work: impl Future<Output = T> + Unpin,
    ) -> T {
        let Some(Self { mut line, what }) = starting else { return work.await };
        let mut clock = interval(TICK);
        clock.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                done = &mut work => return done,
                _ = clock.tick() => {}
            }
            if begun.elapsed() >= TICK {
                line.show(&what, begun.elapsed());
            }
        }
    }
}

/// What the agent of a worker waits for when it is started for a message.
pub(crate) async fn of_worker(
    client: &mut DaemonClient,
    worker_id: &str,
    (config, typed_cwd): (Option<&Path>, Option<&Path>),
    context: &CliContext,
) -> String {
    let path = format!("/v1/workers/{}", segment(worker_id));
    let Ok(worker) = client.ask_for::<WorkerView>(&ApiRequest::get(path)).await else {
        return "starting".to_owned();
    };
    let name = &worker.launcher;
    text(name, fetch(context, name, config, typed_cwd, Path::new(&worker.cwd)))
}

fn line(context: &CliContext) -> Option<StatusLine> {
    if context.format == OutputFormat::Json { None } else { StatusLine::on_stderr() }
}

fn fetch(
    context: &CliContext,
    name: &str,
    config: Option<&Path>,
    typed_cwd: Option<&Path>,
    worker_cwd: &Path,
) -> Option<Fetch> {
    let loaded = context.config(config, typed_cwd).ok()?;
    let found = loaded.config.launcher(name).ok()?;
    let resolved = launcher::resolve(name, found, worker_cwd, &context.env);
    installed::fetch(found, &resolved, worker_cwd, &context.env)
}

fn text(launcher: &str, fetch: Option<Fetch>) -> String {
    match fetch {
        Some(fetch) => format!("starting {launcher} ({fetch})"),
        None => format!("starting {launcher}"),
    }
}
