//! `watch`: prints a worker's events, one line each; with `--follow` as they come. A person at a terminal gets what
//! they mean instead.

mod end;
mod prompts;

use std::collections::{HashMap, HashSet, VecDeque};
use std::io;
use std::os::fd::AsFd as _;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use serde::Deserialize;
use serde_json::{Value, json};
use subagent_protocol::clean::one_line;
use subagent_protocol::event::{EventType, NoData, SeenEvent};
use subagent_protocol::time::Timestamp;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::client::{
    ApiRequest, DaemonClient, EventBatch, EventSubscription, block_on, items, last_worker, segment,
};
use crate::command_line::flags::{CwdFlag, JsonFlag, SelectorFlag};
use crate::command_line::numbers::{age, count, time, window};
use crate::commands::targets::named_worker;
use crate::commands::targets::selected::{WorkerHead, WorkerSelector};
use crate::commands::waiting::status_line;
use crate::commands::watch::prompts::Prompts;
use crate::context::{CliContext, present};
use crate::dialog::interruption_after;
use crate::failure::{Failure, Result};
use crate::output::human::{WatchPage, now};
use crate::output::terminal::OutputTerminal;
use crate::output::{CliOutcome, document, json, unprintable, write};

/// Print a worker's events
///
/// Without --json each event is one line of JSON (NDJSON). At a terminal a person reads what the events mean instead;
/// --ndjson and --raw print the lines there too. Without --follow the command prints what there is and returns; with
/// it, every new event is printed at once, until the time is over or the worker is stopped.
///
/// With WORKER as an argument (a name, an id, @last) the events of several workers come in one order. --tail and --since
/// leave out the older part of the story. -f has no time limit, except with --worker-id.
///
/// `watch WORKER -f` exits as `run` does, by the last turn of each worker: the first code that is not 0. A question that
/// is still open is 15, a turn that is still open 13. Without -f, and with --worker-id, --exit-status does so.
///
/// With --all, -l or --controller-id the events of several workers come in one order, with -f also those of workers that
/// are started later. At a terminal `watch` alone shows all workers.
#[derive(Debug, Args)]
#[command(
    override_usage = "subagent watch [OPTIONS] --worker-id <ID>\n       subagent watch [OPTIONS] <WORKER>...",
    after_help = "\
Examples:
  subagent watch codex-1 -f
  subagent watch codex-1 codex-2 --since 10m --tail 100
  subagent watch --worker-id w_0123456789
  subagent watch --worker-id w_0123456789 --follow --timeout 0
  subagent watch --worker-id w_0123456789 \\
      --from-event-id ev_0000000000ff --json
  subagent watch --all -f
  subagent watch -l job=review"
)]
pub(crate) struct WatchArgs {
    /// The workers: names, ids or their beginnings, @last
    #[arg(value_name = "WORKER", conflicts_with_all = ["worker_id", "all", "selector", "controller_id"])]
    pub(crate) workers: Vec<String>,
    /// The worker's id
    #[arg(
        long,
        value_name = "ID",
        required_unless_present_any = ["workers", "all", "selector", "controller_id"],
        conflicts_with_all = ["all", "selector", "controller_id"]
    )]
    pub(crate) worker_id: Option<String>,
    /// The events of all workers
    #[arg(long)]
    pub(crate) all: bool,
    #[command(flatten)]
    pub(crate) selector: SelectorFlag,
    /// The events of this controller's workers
    #[arg(long, value_name = "ID", alias = "controller")]
    pub(crate) controller_id: Option<String>,
    /// Also the events of the tasks below the worker, as subagent.event
    #[arg(long)]
    pub(crate) tree: bool,
    #[command(flatten)]
    pub(crate) range: WatchRangeFlags,
    /// How long to follow, as 90s, 10m, 2h; 0 for no limit
    ///
    /// [default: no limit; with --worker-id 1s]
    #[arg(long, value_name = "TIME", value_parser = time, conflicts_with = "timeout_seconds")]
    pub(crate) timeout: Option<f64>,
    /// How long to follow, in seconds; 0 for no limit
    #[arg(
        long,
        value_name = "SECONDS",
        default_value = "1",
        value_parser = window,
        allow_negative_numbers = true,
        hide = true
    )]
    pub(crate) timeout_seconds: f64,
    /// One line of JSON for each event (the default without a terminal)
    #[arg(long)]
    pub(crate) ndjson: bool,
    /// Also show what each event was derived from
    #[arg(long)]
    pub(crate) raw: bool,
    /// At a terminal: leave what an agent asks in the inbox instead of asking
    #[arg(long)]
    pub(crate) no_ask: bool,
    /// Exit as `run` does, also with --worker-id or without -f
    #[arg(long, conflicts_with_all = ["all", "selector", "controller_id"])]
    pub(crate) exit_status: bool,
    #[command(flatten)]
    pub(crate) cwd: CwdFlag,
    #[command(flatten)]
    pub(crate) json: JsonFlag,
}

/// Which events are shown, of the past and from now on.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct WatchRangeFlags {
    /// Only events after this one [default: from the beginning]
    #[arg(long, value_name = "ID")]
    pub(crate) from_event_id: Option<String>,
    /// Follow new events until the time is over
    #[arg(short, long)]
    pub(crate) follow: bool,
    /// Only the newest N events so far
    #[arg(long, value_name = "N", value_parser = count)]
    pub(crate) tail: Option<u64>,
    /// Only events since this long ago, as 90s, 10m, 2h
    #[arg(long, value_name = "TIME", value_parser = age)]
    pub(crate) since: Option<u64>,
}

pub(super) fn run(args: WatchArgs, context: &CliContext) -> Result<CliOutcome> {
    if args.ndjson && args.json.json {
        return Err(Failure::argument("--ndjson prints lines and --json one document; use one of them"));
    }
    // Only the form of the contract has a limit unless one is typed.
    let usual = match args.worker_id.is_some() || context.typed.has("timeout_seconds") {
        true => args.timeout_seconds,
        false => 0.0,
    };
    let limit = args.timeout.unwrap_or(usual);
    let unlimited = args.range.follow && limit == 0.0;
    if unlimited && args.json.json {
        return Err(Failure::argument(
            "--json prints one document at the end, which --follow without a time limit never reaches; leave out --json",
        ));
    }
    let named = args.workers.iter().chain(&args.worker_id);
    if args.tree && named.clone().count() != 1 {
        return Err(Failure::argument(
            "--tree shows a worker with the tasks below it: say which by --worker-id, or leave out --tree",
        ));
    }
    let workspace = context.workspace(args.cwd.cwd.as_deref())?;
    let typed: Vec<String> =
        named.map(|worker| named_worker(worker, &workspace).map(str::to_owned)).collect::<Result<_>>()?;
    let choice = WorkerSelector {
        controller_id: present(args.controller_id.clone()),
        selector: args.selector.selector.clone(),
    };
    let ask = choice.ask()?;
    let window = (args.range.follow && !unlimited).then(|| Duration::try_from_secs_f64(limit).ok()).flatten();
    let mut client = DaemonClient::new(context, &workspace);
    let mut sink = match OutputTerminal::of_stdout() {
        _ if args.json.json => WatchOutput::Document(Vec::new()),
        Some(terminal) if !args.ndjson && !args.raw => {
            WatchOutput::Person(Box::new(WatchPage::new(Some(terminal))), Headings::default())
        }
        _ => WatchOutput::Lines,
    };
    let from = present(args.range.from_event_id);
    // The form of the contract goes on as it is.
    let judges = args.exit_status || (args.range.follow && !args.workers.is_empty());
    let asks =
        unlimited && matches!(sink, WatchOutput::Person(..)) && args.worker_id.is_none() && !args.no_ask;
    let watched = block_on(async {
        let named = last_worker::pin(&mut client, &typed).await?;
        let worker_id = if let [one] = &*named { Some(one) } else { None };
        let mut prompts = if asks { Prompts::open(context, &workspace, &named, &choice) } else { None };
        if choice.selector.is_some() {
            // A daemon that knows no tags would show the events of all.
            choice.check(&client.ask(&ask).await?)?;
        }
        let source = WatchSource {
            worker_id: worker_id.map(String::as_str),
            choice: &choice,
            tree: args.tree,
            raw: args.raw,
        };
        let mut part = WatchFilter { workers: HashSet::new(), since: since(args.range.since) };
        if named.len() > 1 {
            for address in &named {
                let shown = client.ask(&ApiRequest::get(format!("/v1/workers/{}", segment(address)))).await?;
                part.workers.extend(WorkerHead::of(&shown).worker_id.map(str::to_owned));
            }
        }
        let is_one = worker_id.is_some() && !args.tree;
        if let WatchOutput::Person(_, headings) = &mut sink
            && worker_id.is_none()
        {
            headings.learn(&mut client).await?;
        }
        let (mut from, mut is_read) = (from, true);
        if let Some(tail) = args.range.tail {
            let newest = usize::try_from(tail).unwrap_or(usize::MAX);
            let (story, last) =
                part.newest(&mut source.open(&mut client, from.clone(), false), newest).await?;
            from = last.or(from);
            is_read = put(story, &mut sink, is_one)?;
        }
        if is_read && (args.range.tail.is_none() || args.range.follow) {
            let mut events = source.open(&mut client, from, args.range.follow);
            let copied = copy(&mut events, &mut sink, is_one, &part, prompts.as_mut());
            is_read = match window {
                // The end of the time is the ordinary end.
                Some(window) => tokio::time::timeout(window, copied).await.unwrap_or(Ok(true))?,
                None => copied.await?,
            };
        }
        match judges && is_read {
            true => end::code(&mut client, &named, args.range.follow).await,
            false => Ok(0),
        }
    });
    // An error does not begin in the middle of what an agent said.
    if let (Err(_), WatchOutput::Person(stream, _)) = (&watched, &mut sink) {
        let _ = write(&stream.finish());
    }
    let code = watched?;
    let printed = ExitCode::from(code);
    Ok(match sink {
        WatchOutput::Lines => CliOutcome::Printed(printed),
        WatchOutput::Person(mut stream, _) => CliOutcome::Printed(
            write(&stream.finish()).map_or_else(|error| unprintable(&error, code), |()| printed),
        ),
        WatchOutput::Document(items) => {
            let worker_id = if let [one] = &*typed { Some(one) } else { None };
            let mut data = json!({"workerId": worker_id, "count": items.len(), "items": items});
            if !judges {
                return Ok(CliOutcome::report("events.watched", data, String::new()));
            }
            json::extend(&mut data, [("exitCode", code.into())]);
            CliOutcome::Judged { kind: "events.watched", data, text: String::new(), code }
        }
    })
}

/// An unfinished word of an agent is shown after this time.
const HELD_TIME: Duration = Duration::from_millis(200);

enum WatchOutput {
    /// To stdout, at once.
    Lines,
    /// To a person, at once; with headings if there are several workers.
    Person(Box<WatchPage>, Headings),
    /// Into the document that is printed at the end.
    Document(Vec<Value>),
}

/// Where events come from.
struct WatchSource<'a> {
    /// One worker; else those that are chosen.
    worker_id: Option<&'a str>,
    choice: &'a WorkerSelector,
    tree: bool,
    raw: bool,
}

impl WatchSource<'_> {
    fn open<'c>(
        &self,
        client: &'c mut DaemonClient,
        from: Option<String>,
        follow: bool,
    ) -> EventSubscription<'c> {
        let WorkerSelector { controller_id, selector } = self.choice;
        match self.worker_id {
            Some(worker_id) if self.tree => client.tree_events(worker_id, from, follow, self.raw),
            Some(worker_id) => client.events(worker_id, from, follow, self.raw),
            None => {
                let (controller, selector) = (controller_id.as_deref(), selector.as_deref());
                client.all_events(controller, selector, from, follow, self.raw)
            }
        }
    }
}

/// The part of the events that is wanted.
struct WatchFilter {
    /// Only those of these workers; all if it is empty.
    workers: HashSet<String>,
    /// Only those from this time on.
    since: Option<Timestamp>,
}

impl WatchFilter {
    fn has(&self, event: &Value) -> bool {
        if self.workers.is_empty() && self.since.is_none() {
            return true;
        }
        let event: SeenEvent<'_, NoData> = SeenEvent::of(event);
        let of_worker = || self.workers.contains(event.worker_id);
        let at = || Timestamp::parse(event.ts);
        (self.workers.is_empty() || of_worker())
            && self.since.is_none_or(|since| at().is_none_or(|at| at.0 >= since.0))
    }

    /// Returns the newest of the events that there are, and the id of the last one that was read.
    async fn newest(
        &self,
        events: &mut EventSubscription<'_>,
        count: usize,
    ) -> Result<(Vec<Value>, Option<String>)> {
        let (mut newest, mut last) = (VecDeque::new(), None);
        while let EventBatch::Events(found) = events.next().await? {
            last = found.last().map(|event| SeenEvent::<NoData>::of(event).event_id.to_owned()).or(last);
            for event in found.into_iter().filter(|event| self.has(event)) {
                if newest.len() == count {
                    newest.pop_front();
                }
                newest.push_back(event);
            }
        }
        Ok((newest.into(), last))
    }
}

/// Returns the time this number of seconds ago.
fn since(seconds: Option<u64>) -> Option<Timestamp> {
    let millis = i64::try_from(seconds?.saturating_mul(1000)).unwrap_or(i64::MAX);
    Some(Timestamp(now().0.saturating_sub(millis)))
}

/// Takes events until there are no more, or the reader of stdout is gone; returns whether it is there.
async fn copy(
    events: &mut EventSubscription<'_>,
    sink: &mut WatchOutput,
    is_one: bool,
    part: &WatchFilter,
    mut prompts: Option<&mut Prompts>,
) -> Result<bool> {
    let gone = reader_gone();
    tokio::pin!(gone);
    loop {
        let batch = tokio::select! {
            biased;
            batch = events.next() => batch?,
            () = &mut gone => return Ok(false),
            () = interruption_after() => status_line::end_watch(),
            () = tokio::time::sleep(HELD_TIME), if holds(sink) => {
                if let WatchOutput::Person(stream, _) = sink
                    && write(&stream.release()).is_err()
                {
                    return Ok(false);
                }
                continue;
            }
        };
        let EventBatch::Events(mut found) = batch else { return Ok(true) };
        found.retain(|event| part.has(event));
        let questions = match &mut prompts {
            Some(prompts) => prompts.open_among(&found).await?,
            None => Vec::new(),
        };
        if !put(found, sink, is_one)? {
            return Ok(false);
        }
        if let Some(prompts) = &mut prompts
            && !questions.is_empty()
        {
            // A question does not begin in the middle of what an agent says.
            if let WatchOutput::Person(stream, _) = sink
                && write(&stream.finish()).is_err()
            {
                return Ok(false);
            }
            prompts.ask(questions).await?;
        }
    }
}

/// Whether a word waits for its end.
fn holds(sink: &WatchOutput) -> bool {
    matches!(sink, WatchOutput::Person(stream, _) if stream.holds())
}

/// Puts events where they go; false if the reader of stdout is gone.
fn put(found: Vec<Value>, sink: &mut WatchOutput, is_one: bool) -> Result<bool> {
    let text = match sink {
        WatchOutput::Document(items) => {
            items.extend(found);
            return Ok(true);
        }
        WatchOutput::Person(stream, _) if is_one => stream.write(&found),
        WatchOutput::Person(stream, headings) => {
            found.into_iter().fold(String::new(), |text, event| text + &headings.write(stream, event))
        }
        WatchOutput::Lines => {
            found.into_iter().fold(String::new(), |text, event| text + &document(event) + "\n")
        }
    };
    match write(&text) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Failure::internal(format!("cannot write to stdout: {error}"))),
    }
}

/// The headings between the events of several workers.
#[derive(Debug, Default)]
struct Headings {
    /// Names of workers by their ids. A worker that is started later has its id as heading.
    names: HashMap<String, String>,
    /// The heading of the event before.
    last: Option<String>,
}

impl Headings {
    /// Learns the names of the workers that there are.
    async fn learn(&mut self, client: &mut DaemonClient) -> Result<()> {
        let list = client.ask(&ApiRequest::get("/v1/workers?all=true")).await?;
        let text = |text: Option<&str>| one_line(text.unwrap_or_default());
        let items = items(&list).iter().map(WorkerHead::of);
        self.names = items.map(|worker| (text(worker.worker_id), text(worker.name))).collect();
        Ok(())
    }

    /// Writes an event below the heading of its worker.
    fn write(&mut self, stream: &mut WatchPage, event: Value) -> String {
        let (whose, event) = unwrapped(event);
        let whose = match self.names.get(&whose) {
            Some(name) if !name.is_empty() => format!("{name}  {whose}"),
            _ => whose,
        };
        let mut text = String::new();
        if self.last.as_deref() != Some(&whose) {
            text.push_str(&stream.finish());
            text.push_str(&format!("== {whose}\n"));
            self.last = Some(whose);
        }
        text + &stream.write(&[event])
    }
}

/// Whose an event is, for people, and the event: of a task that one which was wrapped.
pub(crate) fn unwrapped(event: Value) -> (String, Value) {
    /// The event of a task in the stream of a worker above it.
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Wrapped {
        data: WrappedEvent,
    }
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct WrappedEvent {
        path: Vec<String>,
        worker_id: String,
        event: Value,
    }
    let seen: SeenEvent<'_, NoData> = SeenEvent::of(&event);
    if seen.event_type() != Some(EventType::SubagentEvent) {
        return (one_line(seen.worker_id), event);
    }
    let Wrapped { data } = serde_json::from_value(event).unwrap_or_default();
    let names: Vec<String> = data.path.iter().map(|name| one_line(name)).collect();
    (format!("{}  {}", names.join(" › "), one_line(&data.worker_id)), data.event)
}

/// Ends when the reader of a pipe on stdout is gone, so that `watch --follow | head` does not wait for one more event.
pub(crate) async fn reader_gone() {
    let Ok(stdout) = io::stdout().as_fd().try_clone_to_owned() else { return std::future::pending().await };
    // SAFETY: the descriptor is a new copy, owned by the AsyncFd alone and closed with it.
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
