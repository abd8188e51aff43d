//! `approve` without a word more at a terminal, where several permission requests are open: each is asked in place, one
//! after the other.

use std::process::ExitCode;

use serde_json::Value;
use subagent_config::Workspace;
use subagent_protocol::state::QuestionKind;

use crate::client::{ApiRequest, DaemonClient, RequestPath, block_on, segment};
use crate::commands::waiting::status_line;
use crate::context::CliContext;
use crate::dialog::{Dialog, DialogOutcome, QuestionRef};
use crate::failure::Result;
use crate::output::CliOutcome;

/// Asks. `None` unless several requests are open and a person can be asked.
///
/// # Errors
/// Those of [`DaemonClient::ask`] and [`Dialog::ask_waited`].
pub(super) fn run(
    client: &mut DaemonClient,
    worker: Option<&str>,
    workspace: &Workspace,
    context: &CliContext,
) -> Result<Option<CliOutcome>> {
    let mut follower = DaemonClient::new(context, workspace);
    block_on(async {
        let Some(mut dialog) = Dialog::open(context.format, true) else { return Ok(None) };
        let listed =
            client.ask(&ApiRequest::get(RequestPath::new("/v1/approvals").with("workerId", worker))).await?;
        let open = permissions(&listed);
        if open.len() < 2 {
            return Ok(None);
        }
        for question in open {
            match one(&mut dialog, client, &mut follower, &question).await? {
                DialogOutcome::Interrupted => status_line::leave("approve"),
                DialogOutcome::Answered | DialogOutcome::Skipped | DialogOutcome::Elsewhere => {}
            }
        }
        Ok(Some(CliOutcome::Printed(ExitCode::SUCCESS)))
    })
}

/// Asks an open question; an answer of another command ends it.
///
/// # Errors
/// Those of [`DaemonClient::ask`] and [`Dialog::ask_waited`].
pub(crate) async fn one(
    dialog: &mut Dialog,
    client: &mut DaemonClient,
    follower: &mut DaemonClient,
    question: &QuestionRef,
) -> Result<DialogOutcome> {
    let path = format!("/v1/workers/{}/events/latest", segment(&question.worker_id));
    let latest = client.ask(&ApiRequest::get(path)).await?;
    dialog.ask_waited(client, follower, question, &latest["event"]).await
}

fn permissions(listed: &Value) -> Vec<QuestionRef> {
    let items = listed["items"].as_array().into_iter().flatten();
    let kind = QuestionKind::Permission;
    let question = |item: &Value| {
        let text = |key: &str| item[key].as_str().map(str::to_owned);
        Some(QuestionRef { worker_id: text("workerId")?, request_id: text("requestId")?, kind })
    };
    items.filter(|item| item["kind"] == kind.as_str()).filter_map(question).collect()
}
