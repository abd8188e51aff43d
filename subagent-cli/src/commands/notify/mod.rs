//! `notify`: where notifications go, whether they arrive, and what became of them.

use serde_json::{Value, json};
use subagent_protocol::notification::TestSinks;

use crate::args::notify::{NotifyCommand, NotifyList, NotifyLog, NotifyTest};
use crate::client::{ApiRequest, DaemonClient, RequestPath, block_on};
use crate::commands::targets::has_state;
use crate::context::{CliContext, present};
use crate::failure::Result;
use crate::output::{CliOutcome, text};

/// What to do where no sink is configured.
const NO_SINKS: &str = "(no sinks; add `notify` to the user's config file)";

pub(crate) fn run(command: NotifyCommand, context: &CliContext) -> Result<CliOutcome> {
    match command {
        NotifyCommand::List(args) => list(&args, context),
        NotifyCommand::Test(args) => test(args, context),
        NotifyCommand::Log(args) => log(&args, context),
    }
}

fn list(args: &NotifyList, context: &CliContext) -> Result<CliOutcome> {
    let workspace = context.workspace(args.cwd.cwd.as_deref())?;
    let mut client = DaemonClient::new(context, &workspace);
    let data: Value =
        block_on(async move { client.ask(&ApiRequest::get(RequestPath::new("/v1/notifications"))).await })?;
    let mut shown = data.clone();
    for item in shown["items"].as_array_mut().into_iter().flatten() {
        let on: Vec<&str> = item["on"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let of_detached = item["doneOfDetached"] == true;
        item["on"] = on
            .into_iter()
            .chain(of_detached.then_some("done of run -d"))
            .collect::<Vec<_>>()
            .join(",")
            .into();
    }
    let lines = text::rows(&shown, &["name", "to", "on", "selector", "pending", "error"], "");
    let problem = data["error"].as_str().map(str::to_owned);
    let outcome = CliOutcome::list("notify.listed", data, lines, NO_SINKS);
    Ok(match problem {
        Some(problem) => outcome.with_note(format!("The config file cannot be used: {problem}")),
        None => outcome,
    })
}

fn test(args: NotifyTest, context: &CliContext) -> Result<CliOutcome> {
    let workspace = context.workspace(args.cwd.cwd.as_deref())?;
    let ask = ApiRequest::change("/v1/notifications/test", &TestSinks { name: present(args.name) })?;
    let mut client = DaemonClient::new(context, &workspace);
    let data: Value = block_on(async move { client.ask(&ask).await })?;
    let items = data["items"].as_array().map(Vec::as_slice).unwrap_or_default();
    if items.is_empty() {
        return Ok(CliOutcome::list("notify.tested", data, String::new(), NO_SINKS));
    }
    let failed = items.iter().any(|item| item["delivered"] != json!(true));
    let shown = text::rows(&data, &["name", "delivered", "error"], "");
    Ok(CliOutcome::Judged {
        kind: "notify.tested",
        text: shown.trim_end().to_owned(),
        code: u8::from(failed),
        data,
    })
}

fn log(args: &NotifyLog, context: &CliContext) -> Result<CliOutcome> {
    let workspace = context.workspace(args.cwd.cwd.as_deref())?;
    let data = if has_state(&workspace) {
        let mut client = DaemonClient::new(context, &workspace);
        block_on(
            async move { client.ask(&ApiRequest::get(RequestPath::new("/v1/notifications/log"))).await },
        )?
    } else {
        json!({"items": [], "count": 0})
    };
    let keys = ["changedAt", "sink", "occasion", "status", "attempts", "eventId", "workerId", "error"];
    let lines = text::rows(&data, &keys, "");
    Ok(CliOutcome::list("notify.log", data, lines, "(no notifications)"))
}
