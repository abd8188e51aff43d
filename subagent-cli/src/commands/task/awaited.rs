//! Waits for a task, and says on stderr what the task, or one below it, asks meanwhile.

use std::pin::pin;
use std::time::Duration;

use serde_json::json;
use subagent_protocol::api::{InboxItem, TaskShown};
use subagent_protocol::clean::one_line;
use subagent_protocol::state::QuestionKind;
use tokio::time::{Instant, timeout};

use super::one_task::value;
use crate::client::{DaemonClient, QuestionReader, TaskWait};
use crate::context::CliContext;
use crate::dialog::{Dialog, DialogOutcome, QuestionRef};
use crate::failure::Result;
use crate::output::rule::path_of;
use crate::output::{CliOutcome, complain, json};
use crate::starting::StartLine;
use crate::tasks::TaskSubmitter;

/// The exit code of a wait that ends because a question is open.
const NEEDS_ANSWER: u8 = 15;
/// For what is said of a question when its task has ended.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// What ended a wait.
pub(crate) enum TaskWaitEnd {
    Ended(Box<TaskShown>),
    /// With the open questions.
    NeedsAnswer(Box<TaskShown>, Vec<InboxItem>),
}

/// What a wait does at a question.
pub(crate) enum OnQuestion {
    /// The wait ends there.
    End,
    /// It says which command answers.
    Say,
    /// It asks the person.
    Ask(Dialog),
}

impl OnQuestion {
    /// What was typed decides, else whether a person is there. Has to be called inside of a runtime.
    pub(crate) fn of(context: &CliContext, ends: bool, asks: bool) -> Self {
        match Dialog::open(context.format, asks && !ends) {
            Some(dialog) => Self::Ask(dialog),
            None if ends => Self::End,
            None => Self::Say,
        }
    }
}

/// Waits for the end of a task, or for a question that ends the wait. `None` if the person interrupted the wait at a
/// question.
///
/// # Errors
/// As [`TaskWait::next`], and [`Dialog::ask`].
pub(crate) async fn wait(
    submitter: &TaskSubmitter,
    client: &mut DaemonClient,
    mut end: TaskWait,
    mut on_question: OnQuestion,
) -> Result<Option<TaskWaitEnd>> {
    let begun = Instant::now();
    let mut now = changed(&mut end, client).await?;
    while let Some(starting) = submitter.starting(&now.task) {
        now = StartLine::during(Some(starting), begun, Box::pin(changed(&mut end, client))).await?;
    }
    if now.task.status.is_end() {
        return Ok(Some(TaskWaitEnd::Ended(Box::new(now))));
    }
    if submitter.token().is_some() {
        // An agent does not see the questions of its tasks; they are for the owner.
        return Ok(Some(TaskWaitEnd::Ended(Box::new(end.end(client).await?))));
    }
    let task = now.task.task_id.to_string();
    let (mut questions, mut asker) = (QuestionReader::of(&task), client.another().during_wait());
    let mut ended = pin!(end.end(client));
    loop {
        let asked = tokio::select! {
            biased;
            ended = &mut ended => return Ok(Some(TaskWaitEnd::Ended(Box::new(ended?)))),
            asked = questions.next(&mut asker) => asked?,
        };
        for question in &asked {
            match &mut on_question {
                OnQuestion::Ask(dialog) => {
                    let mut asking = Box::pin(ask(&mut asker, dialog, question));
                    let asked = tokio::select! {
                        biased;
                        asked = &mut asking => asked?,
                        ended = &mut ended => {
                            let ended = ended?;
                            // An answer of another command ended the task: who gave it is said.
                            let _ = timeout(LAST_WORDS, asking).await;
                            return Ok(Some(TaskWaitEnd::Ended(Box::new(ended))));
                        }
                    };
                    if asked == DialogOutcome::Interrupted {
                        return Ok(None);
                    }
                }
                OnQuestion::End | OnQuestion::Say => complain(&line(question)),
            }
        }
        if matches!(on_question, OnQuestion::End) {
            let now = TaskWait::new(&task, None, None).next(&mut asker).await?.unwrap_or(now);
            return Ok(Some(TaskWaitEnd::NeedsAnswer(Box::new(now), asked)));
        }
    }
}

/// How the task is as soon as that is not known.
async fn changed(end: &mut TaskWait, client: &mut DaemonClient) -> Result<TaskShown> {
    loop {
        if let Some(shown) = end.next(client).await? {
            return Ok(shown);
        }
    }
}

async fn ask(client: &mut DaemonClient, dialog: &mut Dialog, listed: &InboxItem) -> Result<DialogOutcome> {
    let question = QuestionRef::of_item(listed);
    let mut follower = client.another().during_wait();
    Box::pin(dialog.ask(client, &question, QuestionReader::over(&mut follower, listed))).await
}

/// A question with the command that answers it.
fn line(question: &InboxItem) -> String {
    let InboxItem { worker_id, request_id, .. } = question;
    let who = one_line(path_of(&question.path).as_ref().unwrap_or(&question.label));
    let (command, answer) = match question.kind {
        QuestionKind::Elicitation => ("answer", "--accept"),
        QuestionKind::Permission => ("approve", "--decision allow"),
    };
    format!(
        "{who} asks: {}; answer with: subagent {command} --worker-id {worker_id} --request {request_id} {answer}",
        one_line(&question.subject),
    )
}

/// The outcome of a wait that ended at a question: the task as it is, and what it asks.
pub(crate) fn needs_answer(shown: &TaskShown, questions: Vec<InboxItem>) -> Result<CliOutcome> {
    let mut data = value(shown)?;
    json::extend(&mut data, [("questions", json!(questions))]);
    complain(&format!(
        "The task goes on after an answer.\nTry:  subagent task wait {}",
        one_line(shown.task.task_id.as_str())
    ));
    Ok(CliOutcome::Judged { kind: "task.waited", data, text: String::new(), code: NEEDS_ANSWER })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_one_line_with_its_command() {
        let item = |kind: &str, path: &[&str]| -> InboxItem {
            let item = json!({
                "requestId": "ap_0123456789", "workerId": "w_0123456789", "label": "x", "path": path,
                "controllerId": "ctl_1", "turnId": null, "kind": kind, "toolKind": null, "rule": null,
                "subject": "rm -rf x\nsubagent approve --all", "status": "pending",
                "createdAt": "2026-11-21T20:29:42+00:00", "deadlineAt": null, "onTimeout": null,
            });
            serde_json::from_value(item).unwrap()
        };
        let shown = line(&item("permission", &["root", "docs"]));
        assert!(!shown.contains('\n'), "{shown}");
        assert!(shown.starts_with("root › docs asks: rm -rf x"), "{shown}");
        assert!(
            shown.ends_with(
                "subagent approve --worker-id w_0123456789 --request ap_0123456789 --decision allow"
            ),
            "{shown}"
        );
        let form = line(&item("elicitation", &[]));
        assert!(form.starts_with("x asks: ") && form.ends_with("--request ap_0123456789 --accept"), "{form}");
    }
}
