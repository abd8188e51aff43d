//! The event queue of the agent: lines of the client and ends of shell commands.

use std::io::{self, BufRead, BufReader};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::Duration;

use super::wire::{self, Incoming};

/// An event from outside of the agent.
#[derive(Debug)]
pub(super) enum InboxEvent {
    Message(Incoming),
    /// The client closed stdin, or it is unreadable.
    InputEnded,
    /// A `!shell` command with this pid has ended.
    ShellEnded {
        number: u32,
        report: String,
    },
}

/// The receiving end; it provides senders for helper threads.
pub(super) struct AgentInbox {
    events: Receiver<InboxEvent>,
    sender: Sender<InboxEvent>,
}

impl AgentInbox {
    /// Starts the thread that reads stdin. It ends with stdin or the process.
    pub(super) fn start() -> io::Result<Self> {
        let (sender, events) = mpsc::channel();
        let to = sender.clone();
        thread::Builder::new().name("stdin".to_owned()).spawn(move || read_lines(&to))?;
        Ok(Self { events, sender })
    }

    pub(super) fn sender(&self) -> Sender<InboxEvent> {
        self.sender.clone()
    }

    /// Returns an event that has already arrived.
    pub(super) fn poll(&self) -> Option<InboxEvent> {
        self.events.try_recv().ok()
    }

    /// Returns the next event, or `None` after the timeout.
    pub(super) fn wait(&self, time: Duration) -> Option<InboxEvent> {
        // An error is a timeout: `self` holds a sender, so the channel stays connected.
        self.events.recv_timeout(time).ok()
    }
}

fn read_lines(to: &Sender<InboxEvent>) {
    let mut input = BufReader::with_capacity(64 * 1024, io::stdin());
    let mut line = Vec::new();
    loop {
        line.clear();
        match input.read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => break,
            Ok(_) if line.trim_ascii().is_empty() => {}
            Ok(_) => {
                if to.send(InboxEvent::Message(wire::parse(&line))).is_err() {
                    return;
                }
            }
        }
    }
    // The receiver is gone only if the process is ending.
    let _ = to.send(InboxEvent::InputEnded);
}
