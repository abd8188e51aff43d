//! Where a run prints. A write into a pipe that is not read blocks without a limit. So a thread of
//! its own writes, one job after the other. The run waits for that thread, with its deadline and
//! its signals.

use std::io;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::format::RunOutputFormat;
use super::progress::{Print, Progress};
use crate::failure::{Failure, Result};
use crate::output::{document, write};

/// The result gets so much time also if the last events have taken all that there was.
const LEAST: Duration = Duration::from_secs(1);

type PrintJob = Print;

/// The place for what a run prints.
pub(crate) struct RunPrinter {
    events: EventOutput,
    jobs: mpsc::Sender<PrintJob>,
}

enum EventOutput {
    /// To a person, as progress.
    Progress(Box<Progress>),
    /// To stdout, one line each.
    Lines,
    /// Nowhere: the result is all that is printed.
    Nowhere,
}

impl RunPrinter {
    /// The place for this form.
    ///
    /// # Errors
    /// `INTERNAL_ERROR` if the system gives no thread.
    pub(crate) fn of(form: RunOutputFormat) -> Result<Self> {
        let events = match form {
            RunOutputFormat::Text => EventOutput::Progress(Box::new(Progress::new())),
            RunOutputFormat::Ndjson => EventOutput::Lines,
            RunOutputFormat::Json => EventOutput::Nowhere,
        };
        let (jobs, todo) = mpsc::channel::<PrintJob>();
        // It is never joined, because a write of it may block without a limit.
        thread::Builder::new()
            .name("printer".to_owned())
            .spawn(move || todo.into_iter().for_each(|job| job()))
            .map_err(|error| Failure::internal(format!("cannot start a thread: {error}")))?;
        Ok(Self { events, jobs })
    }

    /// Prints events; returns false if stdout has no reader any more. Dropping the future loses no
    /// event.
    ///
    /// # Errors
    /// `INTERNAL_ERROR` if stdout cannot be written.
    pub(crate) async fn write(&mut self, events: Vec<Value>) -> Result<bool> {
        let (said, written) = oneshot::channel();
        let job: PrintJob = match &mut self.events {
            EventOutput::Nowhere => return Ok(true),
            EventOutput::Progress(progress) => {
                let print = progress.go_on(events);
                Box::new(move || {
                    print();
                    let _ = said.send(Ok(()));
                })
            }
            EventOutput::Lines => {
                let lines =
                    events.into_iter().fold(String::new(), |text, event| text + &document(event) + "\n");
                Box::new(move || drop(said.send(write(&lines))))
            }
        };
        let _ = self.jobs.send(job);
        match written.await {
            Ok(Ok(())) => Ok(true),
            Ok(Err(error)) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
            Ok(Err(error)) => Err(Failure::internal(format!("cannot write to stdout: {error}"))),
            Err(_) => Err(Failure::internal("the thread that prints has ended")),
        }
    }

    /// Shows a person what the agent is doing. Does not block.
    pub(crate) fn tick(&mut self) {
        if let EventOutput::Progress(progress) = &mut self.events
            && let Some(print) = progress.tick()
        {
            let _ = self.jobs.send(print);
        }
    }

    /// The end: a line of progress that is not over ends, then this prints the result. Gives what it gives, or nothing if
    /// it is not done by `limit`.
    pub(crate) fn finish<T: Send + 'static>(
        mut self,
        limit: Option<Instant>,
        print: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        if let EventOutput::Progress(progress) = &mut self.events {
            let _ = self.jobs.send(progress.finish());
        }
        let (said, printed) = mpsc::sync_channel(1);
        let _ = self.jobs.send(Box::new(move || {
            let _ = said.send(print());
        }));
        let Some(limit) = limit else { return printed.recv().ok() };
        let left = limit.saturating_duration_since(Instant::now());
        printed.recv_timeout(left.max(LEAST)).ok()
    }
}
