//! `approve` without a word more at a terminal, where several permission requests are open: each is asked in place, one
//! after the other.

use std::process::ExitCode;

use subagent_config::Workspace;
use subagent_protocol::api::Inbox;
use subagent_protocol::state::QuestionKind;

use crate::client::{ApiRequest, DaemonClient, RequestPath, block_on};
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
        let path = RequestPath::new("/v1/approvals").with("workerId", worker);
        let listed: Inbox = client.ask_for(&ApiRequest::get(path)).await?;
        let permissions = listed.items.iter().filter(|item| item.kind == QuestionKind::Permission);
        let open: Vec<QuestionRef> = permissions.map(QuestionRef::of_item).collect();
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
    let newest = client.newest_event(&question.worker_id).await?;
    dialog.ask_waited(client, follower, question, newest).await
}
