//! `watch`: prints a worker's events, one line each; with `--follow` as they come. A person at a terminal gets what
//! they mean instead.

use std::io;
use std::os::fd::AsFd as _;
use std::time::Duration;

use serde_json::{Value, json};
use subagent_protocol::clean::one_line;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::named_worker;
use super::selected::Choice;
use crate::args::turns::Watch;
use crate::client::{Batch, Client, Events, block_on};
use crate::context::{Context, present};
use crate::failure::{Failure, Result};
use crate::output::human::Stream;
use crate::output::terminal::Terminal;
use crate::output::{Outcome, document, write};

pub(super) fn run(args: Watch, context: &Context) -> Result<Outcome> {
    if args.ndjson && args.json.json {
        return Err(Failure::argument("--ndjson prints lines and --json one document; use one of them"));
    }
    let unlimited = args.follow && args.timeout_seconds == 0.0;
    if unlimited && args.json.json {
        return Err(Failure::argument(
            "--json prints one document at the end, which --follow --timeout-seconds 0 never comes to; leave out --json",
        ));
    }
    if args.tree && args.worker_id.is_none() {
        return Err(Failure::argument(
            "--tree shows a worker with the tasks below it: say which by --worker-id, or leave out --tree",
        ));
    }
    let workspace = context.workspace(args.cwd.cwd.as_deref())?;
    let worker_id = match &args.worker_id {
        Some(worker_id) => Some(named_worker(worker_id, &workspace)?.to_owned()),
        None => None,
    };
    let choice = Choice {
        controller_id: present(args.controller_id.clone()),
        selector: args.selector.selector.clone(),
    };
    let ask = choice.ask()?;
    let window =
        (args.follow && !unlimited).then(|| Duration::try_from_secs_f64(args.timeout_seconds).ok()).flatten();
    let mut client = Client::new(context, &workspace);
    let mut sink = match Terminal::of_stdout() {
        _ if args.json.json => Sink::Document(Vec::new()),
        Some(terminal) if !args.ndjson && !args.raw => Sink::Person(Box::new(Stream::new(terminal)), None),
        _ => Sink::Lines,
    };
    let from = present(args.from_event_id);
    let watched = block_on(async {
        if choice.selector.is_some() {
            // A daemon that knows no tags would show the events of all.
            choice.check(&client.ask(&ask).await?)?;
        }
        let (controller, selector) = (choice.controller_id.as_deref(), choice.selector.as_deref());
        let mut events = match &worker_id {
            Some(worker_id) if args.tree => client.tree_events(worker_id, from, args.follow, args.raw),
            Some(worker_id) => client.events(worker_id, from, args.follow, args.raw),
            None => client.all_events(controller, selector, from, args.follow, args.raw),
        };
        let copied = copy(&mut events, &mut sink, worker_id.is_some() && !args.tree);
        match window {
            // The end of the time is the ordinary end.
            Some(window) => tokio::time::timeout(window, copied).await.unwrap_or(Ok(())),
            None => copied.await,
        }
    });
    // An error does not begin in the middle of what an agent said.
    if let (Err(_), Sink::Person(stream, _)) = (&watched, &mut sink) {
        let _ = write(&stream.finish());
    }
    watched?;
    Ok(match sink {
        Sink::Lines => Outcome::Printed(std::process::ExitCode::SUCCESS),
        Sink::Person(mut stream, _) => Outcome::Lines(stream.finish()),
        Sink::Document(items) => {
            let data = json!({"workerId": worker_id, "count": items.len(), "items": items});
            Outcome::report("events.watched", data, String::new())
        }
    })
}

/// Where events go.
enum Sink {
    /// To stdout, at once.
    Lines,
    /// To a person, at once; with the worker whose events were shown last, if there are several.
    Person(Box<Stream>, Option<String>),
    /// Into the document that is printed at the end.
    Document(Vec<Value>),
}

/// Takes events until there are no more, or nobody reads stdout any more.
async fn copy(events: &mut Events<'_>, sink: &mut Sink, is_one: bool) -> Result<()> {
    let gone = reader_gone();
    tokio::pin!(gone);
    loop {
        let batch = tokio::select! {
            biased;
            batch = events.next() => batch?,
            () = &mut gone => return Ok(()),
        };
        let Batch::Events(found) = batch else { return Ok(()) };
        let text = match sink {
            Sink::Document(items) => {
                items.extend(found);
                continue;
            }
            Sink::Person(stream, None) if is_one => stream.write(&found),
            Sink::Person(stream, last) => {
                found.into_iter().fold(String::new(), |text, event| text + &of_several(stream, last, event))
            }
            Sink::Lines => {
                found.into_iter().fold(String::new(), |text, event| text + &document(event) + "\n")
            }
        };
        match write(&text) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
            Err(error) => return Err(Failure::internal(format!("cannot write to stdout: {error}"))),
        }
    }
}

/// An event of one of several workers: whose it is, is said where it changes.
fn of_several(stream: &mut Stream, last: &mut Option<String>, event: Value) -> String {
    let (whose, event) = unwrapped(event);
    let mut text = String::new();
    if last.as_deref() != Some(&whose) {
        text.push_str(&stream.finish());
        text.push_str(&format!("== {whose}\n"));
        *last = Some(whose);
    }
    text + &stream.write(&[event])
}

/// Whose an event is, for people, and the event: of a task that one which was wrapped.
fn unwrapped(mut event: Value) -> (String, Value) {
    let word = |value: &Value| one_line(value.as_str().unwrap_or_default());
    if event["type"] != "subagent.event" {
        return (word(&event["workerId"]), event);
    }
    let data = &mut event["data"];
    let names: Vec<String> = data["path"].as_array().into_iter().flatten().map(word).collect();
    (format!("{}  {}", names.join(" › "), word(&data["workerId"])), data["event"].take())
}

/// Ends when the reader of a pipe on stdout is gone, so that `watch --follow | head` does not wait for one more event.
pub(super) async fn reader_gone() {
    let Ok(stdout) = io::stdout().as_fd().try_clone_to_owned() else { return std::future::pending().await };
    // SAFETY: the descriptor is a copy that nobody else knows, owned by the AsyncFd and closed with it.
    #[allow(unsafe_code)]
    let registered = unsafe { AsyncFd::register_with_interest(stdout, Interest::ERROR) };
    // What cannot be waited for (a file) has no reader that could go.
    let Ok(pipe) = registered else { return std::future::pending().await };
    if pipe.ready(Interest::ERROR).await.is_err() {
        std::future::pending().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_below_is_shown_under_the_path_of_its_task() {
        let own = json!({"workerId": "w_1", "type": "worker.started", "data": {}});
        assert_eq!(unwrapped(own.clone()), ("w_1".to_owned(), own.clone()));
        let data =
            json!({"path": ["Root\u{1b}[2J", "Child\nx"], "workerId": "w_2", "agent": null, "event": own});
        let wrapped = json!({"workerId": "w_1", "type": "subagent.event", "data": data});
        assert_eq!(unwrapped(wrapped), ("Root › Child x  w_2".to_owned(), own));
    }
}
