//! Waits for a task, and says on stderr what the task, or one below it, asks meanwhile.

use std::pin::pin;
use std::time::Duration;

use serde_json::{Value, json};
use subagent_protocol::api::TaskShown;
use subagent_protocol::clean::one_line;
use subagent_protocol::state::QuestionKind;
use tokio::time::{Instant, timeout};

use super::one_task::value;
use crate::client::{DaemonClient, QuestionReader, TaskWait};
use crate::context::CliContext;
use crate::dialog::{Dialog, DialogOutcome, QuestionRef};
use crate::failure::Result;
use crate::output::rule::task_path;
use crate::output::{CliOutcome, complain};
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
    NeedsAnswer(Box<TaskShown>, Vec<Value>),
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
    let (mut questions, mut asker) = (QuestionReader::of(&task), submitter.client()?);
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
                    let mut asking = Box::pin(ask(submitter, &mut asker, dialog, question));
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
            let now = TaskWait::new(&task, None, None).next(&mut submitter.client()?).await?.unwrap_or(now);
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

async fn ask(
    submitter: &TaskSubmitter,
    client: &mut DaemonClient,
    dialog: &mut Dialog,
    listed: &Value,
) -> Result<DialogOutcome> {
    let text = |key: &str| listed[key].as_str().unwrap_or_default().to_owned();
    let kind = QuestionKind::parse(&text("kind")).unwrap_or(QuestionKind::Permission);
    let question = QuestionRef { worker_id: text("workerId"), request_id: text("requestId"), kind };
    let mut follower = submitter.client()?;
    Box::pin(dialog.ask(client, &question, QuestionReader::over(&mut follower, listed))).await
}

/// A question with the command that answers it.
fn line(question: &Value) -> String {
    let word = |key: &str| one_line(question[key].as_str().unwrap_or_default());
    let who = task_path(question).map_or_else(|| word("label"), |path| one_line(&path));
    let (command, answer) = match question["kind"].as_str() {
        Some("elicitation") => ("answer", "--accept"),
        _ => ("approve", "--decision allow"),
    };
    format!(
        "{who} asks: {}; answer with: subagent {command} --worker-id {} --request {} {answer}",
        word("subject"),
        word("workerId"),
        word("requestId")
    )
}

/// The outcome of a wait that ended at a question: the task as it is, and what it asks.
pub(crate) fn needs_answer(shown: &TaskShown, questions: Vec<Value>) -> Result<CliOutcome> {
    let mut data = value(shown)?;
    data["questions"] = json!(questions);
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
        let question = json!({
            "requestId": "ap_1", "workerId": "w_2", "kind": "permission", "path": ["root", "docs"],
            "subject": "rm -rf x\nsubagent approve --all",
        });
        let shown = line(&question);
        assert!(!shown.contains('\n'), "{shown}");
        assert!(shown.starts_with("root › docs asks: rm -rf x"), "{shown}");
        assert!(
            shown.ends_with("subagent approve --worker-id w_2 --request ap_1 --decision allow"),
            "{shown}"
        );
        let form = json!({"requestId": "el_1", "workerId": "w_2", "kind": "elicitation", "label": "x"});
        assert!(line(&form).ends_with("subagent answer --worker-id w_2 --request el_1 --accept"));
    }
}
