//! `wait WORKER...`: waits until no turn of the workers is open, and prints what each of them came to.
//!
//! What is so already counts, so a wait for a worker that has finished ends at once.

use std::cell::Cell;
use std::time::Duration;

use serde_json::{Value, json};
use subagent_protocol::api::{WaitMany, WaitMode, WaitedFor};
use subagent_protocol::clean::one_line;
use subagent_protocol::{Code, worker_name};
use tokio::time::Instant;

use super::WaitArgs;
use crate::client::{DaemonClient, block_on, items, last_worker, wait_many};
use crate::commands::targets::named_worker;
use crate::commands::waiting::end::{FoundWorker, WaitEnd, answer_command, code_of};
use crate::commands::waiting::limit::wait_limit;
use crate::commands::waiting::status_line::{self, StatusFollower};
use crate::context::CliContext;
use crate::dialog::{Dialog, DialogOutcome, QuestionRef};
use crate::exit_code::{NEEDS_ANSWER, TurnOutcome};
use crate::failure::{Failure, Result};
use crate::output::terminal::all_at_terminal;
use crate::output::{CliOutcome, OutputFormat, complain, explain, human, json};

const KIND: &str = "workers.waited";
/// Longer final lines are cut.
const MAX_LINE_CHARS: usize = 200;

/// A worker that is waited for.
struct AwaitedWorker {
    /// The typed address; an id in place of `@last`.
    address: String,
    /// The address until the daemon has said the id: a name can become another worker's meanwhile.
    worker_id: String,
    /// What the daemon found; nothing as long as it waits.
    item: Option<Value>,
}

pub(super) fn run(args: WaitArgs, context: &CliContext) -> Result<CliOutcome> {
    let workspace = context.workspace(args.cwd.cwd.as_deref())?;
    for address in &args.workers {
        named_worker(address, &workspace)?;
    }
    let typed = context.typed.has("timeout_seconds").then_some(args.timeout_seconds);
    let limit = wait_limit(args.timeout, typed);
    let mut client = DaemonClient::new(context, &workspace);
    let mut follower = DaemonClient::new(context, &workspace);
    let rows = block_on(async {
        let addresses = last_worker::pin(&mut client, &args.workers).await?;
        let mut workers: Vec<AwaitedWorker> =
            addresses.iter().map(|address| AwaitedWorker::of(address)).collect();
        let mut dialog = Dialog::open(context.format, !args.no_ask);
        loop {
            let live = StatusFollower::new(context, &workspace)?;
            let left = Cell::new(workers.iter().filter(|worker| worker.item.is_none()).count());
            let work = wait(&mut client, &mut workers, args.any, limit, &left);
            if !Box::pin(status_line::wait_rest(live, &addresses, &left, work)).await? {
                break;
            }
            let Some(dialog) = &mut dialog else { break };
            if !ask(dialog, &mut client, &mut follower, &mut workers).await? {
                break;
            }
        }
        let mut ends = Vec::with_capacity(workers.len());
        for worker in &workers {
            ends.push(match &worker.item {
                Some(item) => {
                    let event = FoundWorker::of(item).event();
                    Some(WaitEnd::of(&mut client, human::named(item), &event).await?)
                }
                None => None,
            });
        }
        Ok(workers
            .into_iter()
            .zip(ends)
            .map(|(worker, end)| WaitReportRow::of(worker, end))
            .collect::<Vec<_>>())
    });
    let rows = match rows {
        Ok(rows) => rows,
        Err(failure) => return Ok(CliOutcome::failed(code_of(&failure), failure)),
    };
    let code = rows.iter().map(|row| row.code).find(|code| *code != 0).unwrap_or(0);
    if context.format == OutputFormat::Text {
        // At a terminal the view says it.
        for row in rows.iter().filter(|_| !all_at_terminal()) {
            if row.code == NEEDS_ANSWER {
                complain(&row.line);
            }
            explain(&row.advice);
        }
        let text = rows.iter().map(WaitReportRow::text).collect::<Vec<_>>().join("\n");
        let items: Vec<Value> = rows.into_iter().map(WaitReportRow::seen).collect();
        return Ok(CliOutcome::Judged { kind: KIND, data: json!({ "items": items }), text, code });
    }
    let done = rows.iter().filter(|row| !row.waits).count();
    let items: Vec<Value> = rows.into_iter().map(|row| row.item).collect();
    let mode = if args.any { WaitMode::Any } else { WaitMode::All };
    let data = json!({"mode": mode, "count": items.len(), "done": done, "items": items, "exitCode": code});
    Ok(CliOutcome::Judged { kind: KIND, data, text: String::new(), code })
}

impl AwaitedWorker {
    fn of(address: &str) -> Self {
        Self { address: address.to_owned(), worker_id: address.to_owned(), item: None }
    }
}

/// Asks the questions that ended a wait in place. Says whether it goes on: not if a question was left open.
async fn ask(
    dialog: &mut Dialog,
    client: &mut DaemonClient,
    follower: &mut DaemonClient,
    workers: &mut [AwaitedWorker],
) -> Result<bool> {
    let mut goes_on = false;
    for worker in workers {
        let Some(item) = &worker.item else { continue };
        let event = FoundWorker::of(item).event();
        let Some(question) = QuestionRef::of_seen(&event) else { continue };
        match dialog.ask_waited(client, follower, &question, Some(event.event_id.to_owned())).await? {
            DialogOutcome::Skipped => return Ok(false),
            DialogOutcome::Interrupted => status_line::leave(&format!("wait {}", human::named(item))),
            DialogOutcome::Answered | DialogOutcome::Elsewhere => {}
        }
        worker.item = None;
        goes_on = true;
    }
    Ok(goes_on)
}

/// Waits until each worker is at rest, or one of them with `any`. The first open question ends the wait too; says whether
/// one did. `left` is the number of workers that are waited for.
async fn wait(
    client: &mut DaemonClient,
    workers: &mut [AwaitedWorker],
    any: bool,
    limit: Option<Duration>,
    left: &Cell<usize>,
) -> Result<bool> {
    let begun = Instant::now();
    loop {
        let wanted = |worker: &&AwaitedWorker| worker.item.is_none();
        let named =
            |worker: &AwaitedWorker| WaitedFor { worker_id: worker.worker_id.clone(), from_event_id: None };
        let request = WaitMany {
            workers: workers.iter().filter(wanted).map(named).collect(),
            mode: WaitMode::Any,
            until: None,
            include_history: false,
            // Zero means unlimited.
            timeout_seconds: limit
                .map_or(0.0, |limit| limit.saturating_sub(begun.elapsed()).as_secs_f64().max(0.001)),
        };
        let found = match wait_many::wait(client, request).await {
            Ok(found) => found,
            Err(failure) => return Err(in_time(failure, workers, limit)),
        };
        let mut asks = false;
        let waiting = workers.iter_mut().filter(|worker| worker.item.is_none());
        for (worker, item) in waiting.zip(items(&found)) {
            let found = FoundWorker::of(item);
            if let Some(worker_id) = found.worker_id {
                worker.worker_id = worker_id.to_owned();
            }
            if !found.waits() {
                asks |= found.event().is_question();
                worker.item = Some(item.clone());
            }
        }
        left.set(workers.iter().filter(|worker| worker.item.is_none()).count());
        if any || asks || left.get() == 0 {
            return Ok(asks);
        }
    }
}

/// The error with the caller's own time limit, and with the workers that were done before the last request.
fn in_time(failure: Failure, workers: &[AwaitedWorker], limit: Option<Duration>) -> Failure {
    let Some(limit) = limit.filter(|_| failure.is(Code::WaitTimeout)) else { return failure };
    // A host that did not answer again says nothing about its workers.
    let is_silent = !failure.details.contains_key("items");
    let mut waiting = failure.details.get("items").and_then(Value::as_array).into_iter().flatten();
    let items = workers.iter().filter_map(|worker| worker.item.as_ref().or_else(|| waiting.next()));
    let items: Vec<Value> = items.cloned().collect();
    let is_waiting = |item: &&Value| FoundWorker::of(item).waits();
    let names: Vec<String> =
        items.iter().filter(is_waiting).map(|item| one_line(human::named(item))).collect();
    let done = items.len() - names.len();
    let mut failure = failure.with("items", items).with("timeoutSeconds", limit.as_secs_f64());
    if !is_silent {
        failure.message =
            format!("{done} of {} workers were done in time; not yet: {}", workers.len(), names.join(", "));
    }
    failure
}

/// What is printed of one worker.
struct WaitReportRow {
    name: String,
    outcome: String,
    line: String,
    code: u8,
    /// Whether the worker has not ended its turn.
    waits: bool,
    /// What to do about the error of the turn, line by line.
    advice: Vec<String>,
    item: Value,
}

impl WaitReportRow {
    fn of(worker: AwaitedWorker, end: Option<WaitEnd>) -> Self {
        let AwaitedWorker { address, worker_id, item } = worker;
        let mut item = item.unwrap_or_else(|| {
            let mut waits = json!({"workerId": worker_id, "outcome": "waiting"});
            if worker_name::check(&address).is_ok() {
                json::extend(&mut waits, [("name", address.into())]);
            }
            waits
        });
        let name = one_line(human::named(&item));
        let found = FoundWorker::of(&item);
        let (waits, found) = (found.waits(), found.outcome.unwrap_or_default().to_owned());
        let mut advice = Vec::new();
        let (outcome, line, code, result) = match end {
            Some(WaitEnd { result: Some(result), code, reason }) => {
                let line = reason.unwrap_or_else(|| last_line(result.message()));
                advice = result.advice();
                (result.outcome.word().to_owned(), line, code, result.data())
            }
            Some(WaitEnd { code, reason: Some(reason), .. }) => {
                ("needs_answer".to_owned(), reason, code, Value::Null)
            }
            // Its agent could not be started.
            Some(_) if found == "error" => (found, String::new(), TurnOutcome::Failed.code(), Value::Null),
            _ => (found, String::new(), 0, Value::Null),
        };
        json::extend(&mut item, [("result", result)]);
        Self { name, outcome, line, code, waits, advice, item }
    }

    /// The item for a view.
    fn seen(self) -> Value {
        let Self { outcome, mut line, advice, mut item, .. } = self;
        if outcome == "needs_answer" {
            let event = FoundWorker::of(&item).event();
            let answer = answer_command(human::named(&item), &event);
            line = event.data.message.map_or(line, str::to_owned);
            json::extend(&mut item, [("answer", answer.into())]);
        }
        let shown = [("advice", advice.into()), ("outcome", outcome.into()), ("line", line.into())];
        json::extend(&mut item, shown);
        item
    }

    fn text(&self) -> String {
        let cells = [self.name.as_str(), self.outcome.as_str(), self.line.as_str()];
        cells.into_iter().filter(|cell| !cell.is_empty()).collect::<Vec<_>>().join("\t")
    }
}

/// The last line of a message with a word in it.
fn last_line(message: &str) -> String {
    let line = message.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
    one_line(line.trim()).chars().take(MAX_LINE_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_with_a_word_stands_for_a_message() {
        assert_eq!(last_line("one\n two\u{1b}[1m \n\n"), "two");
        assert_eq!(last_line(""), "");
        assert_eq!(last_line(&"x".repeat(300)).chars().count(), MAX_LINE_CHARS);
    }

    #[test]
    fn a_wait_that_ran_out_of_time_says_who_was_done() {
        let item = |name: &str, outcome: &str| json!({"name": name, "outcome": outcome});
        let mut workers = ["a", "b", "c"].map(AwaitedWorker::of);
        workers[1].item = Some(item("b", "matched"));
        let failure = Failure::new(Code::WaitTimeout, "0 of 2")
            .with("items", vec![item("a", "waiting"), item("c", "waiting")]);
        let failure = in_time(failure, &workers, Some(Duration::from_secs(2)));
        assert_eq!(failure.message, "1 of 3 workers were done in time; not yet: a, c");
        let names: Vec<&Value> =
            failure.details["items"].as_array().unwrap().iter().map(|item| &item["name"]).collect();
        assert_eq!(names, ["a", "b", "c"]);
        assert_eq!(failure.details["timeoutSeconds"], 2.0);
    }

    #[test]
    fn a_worker_is_called_by_its_name_if_it_has_one() {
        let of = |item: Value| {
            WaitReportRow::of(AwaitedWorker { item: Some(item), ..AwaitedWorker::of("@last") }, None).text()
        };
        assert_eq!(of(json!({"workerId": "w_1", "name": "codex-1", "outcome": "idle"})), "codex-1\tidle");
        assert_eq!(of(json!({"workerId": "w_1", "outcome": "stopped"})), "w_1\tstopped");
        assert_eq!(WaitReportRow::of(AwaitedWorker::of("codex-1"), None).text(), "codex-1\twaiting");
    }
}
