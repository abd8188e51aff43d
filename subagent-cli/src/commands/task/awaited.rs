//! Waits for a task, and says on stderr what the task, or one below it, asks meanwhile.

use std::pin::pin;

use serde_json::{Value, json};
use subagent_protocol::api::TaskShown;
use subagent_protocol::clean::one_line;
use tokio::time::Instant;

use super::value;
use crate::client::{Client, Questions, TaskWait};
use crate::failure::Result;
use crate::output::rule::task_path;
use crate::output::{Outcome, complain};
use crate::starting::Starting;
use crate::tasks::Giver;

/// The exit code of a wait that ends because a question is open.
const NEEDS_ANSWER: u8 = 15;

/// What ended a wait.
pub(super) enum Waited {
    Ended(Box<TaskShown>),
    /// With the open questions.
    NeedsAnswer(Box<TaskShown>, Vec<Value>),
}

/// Waits for the end of a task; with `no_wait` for its first question.
///
/// # Errors
/// As [`TaskWait::next`].
pub(super) async fn wait(
    giver: &Giver,
    client: &mut Client,
    mut end: TaskWait,
    no_wait: bool,
) -> Result<Waited> {
    let begun = Instant::now();
    let mut now = changed(&mut end, client).await?;
    while let Some(starting) = giver.starting(&now.task) {
        now = Starting::during(Some(starting), begun, Box::pin(changed(&mut end, client))).await?;
    }
    if now.task.status.is_end() {
        return Ok(Waited::Ended(Box::new(now)));
    }
    if giver.token().is_some() {
        // An agent does not see the questions of its tasks; they are for the owner.
        return Ok(Waited::Ended(Box::new(end.end(client).await?)));
    }
    let (mut asker, task) = (giver.client()?, now.task.task_id.to_string());
    let asked = pin!(questions(&mut asker, &task, no_wait));
    tokio::select! {
        biased;
        ended = end.end(client) => Ok(Waited::Ended(Box::new(ended?))),
        asked = asked => {
            let asked = asked?;
            let now = TaskWait::new(&task, None, None).next(&mut giver.client()?).await?.unwrap_or(now);
            Ok(Waited::NeedsAnswer(Box::new(now), asked))
        }
    }
}

/// How the task is as soon as that is not known.
async fn changed(end: &mut TaskWait, client: &mut Client) -> Result<TaskShown> {
    loop {
        if let Some(shown) = end.next(client).await? {
            return Ok(shown);
        }
    }
}

/// Says what is asked, each question once, with the command that answers it. Returns the open questions if `no_wait`, else
/// never.
async fn questions(client: &mut Client, task: &str, no_wait: bool) -> Result<Vec<Value>> {
    let mut questions = Questions::of(task);
    loop {
        let asked = questions.next(client).await?;
        for question in &asked {
            complain(&line(question));
        }
        if no_wait {
            return Ok(asked);
        }
    }
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
pub(super) fn needs_answer(shown: &TaskShown, questions: Vec<Value>) -> Result<Outcome> {
    let mut data = value(shown)?;
    data["questions"] = json!(questions);
    complain(&format!(
        "The task goes on after an answer.\nTry:  subagent task wait {}",
        one_line(shown.task.task_id.as_str())
    ));
    Ok(Outcome::Judged { kind: "task.waited", data, text: String::new(), code: NEEDS_ANSWER })
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
