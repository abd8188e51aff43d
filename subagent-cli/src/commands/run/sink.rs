//! Where the events of a run go while it goes on.

use std::io;

use serde_json::Value;

use crate::args::run::Form;
use crate::failure::{Failure, Result};
use crate::output::human::Stream;
use crate::output::terminal::Terminal;
use crate::output::{document, tell, write};

/// Without a terminal: no colours.
const PLAIN: Terminal = Terminal { width: 80, colour: false };

/// The place for events.
pub(super) enum Sink {
    /// To stderr, for people.
    Progress(Box<Stream>),
    /// To stdout, one line each.
    Lines,
    /// Nowhere: the result is all that is printed.
    Nowhere,
}

impl Sink {
    pub(super) fn of(form: Form) -> Self {
        match form {
            Form::Text => Self::Progress(Box::new(Stream::new(Terminal::of_stderr().unwrap_or(PLAIN)))),
            Form::Ndjson => Self::Lines,
            Form::Json => Self::Nowhere,
        }
    }

    /// Takes events; false if nobody reads them any more.
    ///
    /// # Errors
    /// `INTERNAL_ERROR` if stdout cannot be written.
    pub(super) fn write(&mut self, events: Vec<Value>) -> Result<bool> {
        match self {
            Self::Nowhere => Ok(true),
            Self::Progress(stream) => {
                // Nobody is asked: how the question was answered is an event too.
                let asks = |event: &Value| {
                    event["type"] == "approval.requested" || event["type"] == "elicitation.requested"
                };
                let shown: Vec<Value> = events.into_iter().filter(|event| !asks(event)).collect();
                tell(&stream.write(&shown));
                Ok(true)
            }
            Self::Lines => {
                let lines =
                    events.into_iter().fold(String::new(), |text, event| text + &document(event) + "\n");
                match write(&lines) {
                    Ok(()) => Ok(true),
                    Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
                    Err(error) => Err(Failure::internal(format!("cannot write to stdout: {error}"))),
                }
            }
        }
    }

    /// The end: a line of progress that is not over ends.
    pub(super) fn finish(&mut self) {
        if let Self::Progress(stream) = self {
            tell(&stream.finish());
        }
    }
}
