//! `approve` without a word more at a terminal, where several permission requests are open: each is asked in place, one
//! after the other.

use std::process::ExitCode;

use serde_json::Value;
use subagent_config::Workspace;
use subagent_protocol::state::QuestionKind;

use super::live_wait;
use crate::client::{Ask, Client, Query, block_on, segment};
use crate::context::Context;
use crate::dialog::{Asked, Dialog, Question};
use crate::failure::Result;
use crate::output::Outcome;

/// Asks. `None` unless several requests are open and a person can be asked.
///
/// # Errors
/// Those of [`Client::ask`] and [`Dialog::ask_waited`].
pub(super) fn run(
    client: &mut Client,
    worker: Option<&str>,
    workspace: &Workspace,
    context: &Context,
) -> Result<Option<Outcome>> {
    let mut follower = Client::new(context, workspace);
    block_on(async {
        let Some(mut dialog) = Dialog::open(context.format, true) else { return Ok(None) };
        let listed = client.ask(&Ask::get(Query::new("/v1/approvals").with("workerId", worker))).await?;
        let open = permissions(&listed);
        if open.len() < 2 {
            return Ok(None);
        }
        for question in open {
            match one(&mut dialog, client, &mut follower, &question).await? {
                Asked::Interrupted => live_wait::leave("approve"),
                Asked::Answered | Asked::Skipped | Asked::Elsewhere => {}
            }
        }
        Ok(Some(Outcome::Printed(ExitCode::SUCCESS)))
    })
}

/// Asks an open question; an answer of another command ends it.
///
/// # Errors
/// Those of [`Client::ask`] and [`Dialog::ask_waited`].
pub(super) async fn one(
    dialog: &mut Dialog,
    client: &mut Client,
    follower: &mut Client,
    question: &Question,
) -> Result<Asked> {
    let path = format!("/v1/workers/{}/events/latest", segment(&question.worker_id));
    let latest = client.ask(&Ask::get(path)).await?;
    dialog.ask_waited(client, follower, question, &latest["event"]).await
}

fn permissions(listed: &Value) -> Vec<Question> {
    let items = listed["items"].as_array().into_iter().flatten();
    let kind = QuestionKind::Permission;
    let question = |item: &Value| {
        let text = |key: &str| item[key].as_str().map(str::to_owned);
        Some(Question { worker_id: text("workerId")?, request_id: text("requestId")?, kind })
    };
    items.filter(|item| item["kind"] == kind.as_str()).filter_map(question).collect()
}
