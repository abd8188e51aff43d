//! Where a run prints.
//!
//! A pipe that nobody reads holds up whoever writes into it, for as long as it likes. So a thread of its own writes, one
//! thing after the other, and the run only waits for it: the deadline and the signals count all the while.

use std::io;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::args::run::Form;
use crate::failure::{Failure, Result};
use crate::output::human::Stream;
use crate::output::terminal::{Terminal, all_at_terminal};
use crate::output::{document, tell, write};

/// Without a terminal: no colours.
const PLAIN: Terminal = Terminal { width: 80, colour: false };

/// The result gets so much time also if the last events have taken all that there was.
const LEAST: Duration = Duration::from_secs(1);

type Job = Box<dyn FnOnce() + Send>;

/// The place for what a run prints.
pub(super) struct Sink {
    events: Place,
    jobs: mpsc::Sender<Job>,
}

/// Where events go.
enum Place {
    /// To stderr, for people; to stdout where both are a terminal, so that the agent's text is there once.
    Progress(Box<Stream>, fn(&str)),
    /// To stdout, one line each.
    Lines,
    /// Nowhere: the result is all that is printed.
    Nowhere,
}

/// Writes to stdout. The error of a terminal that is gone has no reader.
fn show(text: &str) {
    let _ = write(text);
}

impl Sink {
    /// The place for this form.
    ///
    /// # Errors
    /// `INTERNAL_ERROR` if the system gives no thread.
    pub(super) fn of(form: Form) -> Result<Self> {
        let events = match form {
            Form::Text => {
                let stream = Stream::new(Terminal::of_stderr().unwrap_or(PLAIN));
                Place::Progress(Box::new(stream), if all_at_terminal() { show } else { tell })
            }
            Form::Ndjson => Place::Lines,
            Form::Json => Place::Nowhere,
        };
        let (jobs, todo) = mpsc::channel::<Job>();
        // Nobody joins it: it may stand still for ever.
        thread::Builder::new()
            .name("printer".to_owned())
            .spawn(move || todo.into_iter().for_each(|job| job()))
            .map_err(|error| Failure::internal(format!("the system gives no thread: {error}")))?;
        Ok(Self { events, jobs })
    }

    /// Takes events; false if nobody reads them any more. Whoever does not wait for the end of this loses no event.
    ///
    /// # Errors
    /// `INTERNAL_ERROR` if stdout cannot be written.
    pub(super) async fn write(&mut self, events: Vec<Value>) -> Result<bool> {
        let (said, written) = oneshot::channel();
        let job: Job = match &mut self.events {
            Place::Nowhere => return Ok(true),
            Place::Progress(stream, tell) => {
                let tell = *tell;
                // Nobody is asked: how the question was answered is an event too.
                let asks = |event: &Value| {
                    event["type"] == "approval.requested" || event["type"] == "elicitation.requested"
                };
                let shown: Vec<Value> = events.into_iter().filter(|event| !asks(event)).collect();
                let text = stream.write(&shown);
                Box::new(move || {
                    tell(&text);
                    let _ = said.send(Ok(()));
                })
            }
            Place::Lines => {
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

    /// The end: a line of progress that is not over ends, then this prints the result. Gives what it gives, or nothing if
    /// it is not done by `limit`.
    pub(super) fn finish<T: Send + 'static>(
        mut self,
        limit: Option<Instant>,
        print: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let (rest, tell) = match &mut self.events {
            Place::Progress(stream, tell) => (stream.finish(), *tell),
            _ => (String::new(), tell as fn(&str)),
        };
        let (said, printed) = mpsc::sync_channel(1);
        let _ = self.jobs.send(Box::new(move || {
            tell(&rest);
            let _ = said.send(print());
        }));
        let Some(limit) = limit else { return printed.recv().ok() };
        let left = limit.saturating_duration_since(Instant::now());
        printed.recv_timeout(left.max(LEAST)).ok()
    }
}
