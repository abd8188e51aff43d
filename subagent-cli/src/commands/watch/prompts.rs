//! Questions that come while a person follows workers, asked in place.

use serde_json::Value;
use subagent_config::Workspace;
use subagent_protocol::event::SeenEvent;

use super::unwrapped;
use crate::client::DaemonClient;
use crate::commands::targets::selected::WorkerSelector;
use crate::commands::waiting::status_line;
use crate::context::CliContext;
use crate::dialog::{Dialog, DialogOutcome, QuestionRef, ends};
use crate::failure::Result;

/// A question, and the event that asked it.
pub(crate) type OpenPrompt = (QuestionRef, String);

/// Asks at the terminal.
pub(crate) struct Prompts {
    dialog: Dialog,
    client: DaemonClient,
    /// Answers of others are seen on it.
    follower: DaemonClient,
    /// The command that goes on after Ctrl-C.
    command: String,
}

impl Prompts {
    /// Prompts, if a person reads stdout and types at stdin, for these workers or those of the choice. Has to be called
    /// inside of a runtime.
    pub(crate) fn open(
        context: &CliContext,
        workspace: &Workspace,
        workers: &[String],
        choice: &WorkerSelector,
    ) -> Option<Self> {
        let mut words = vec!["watch", "-f"];
        words.extend(workers.iter().map(String::as_str));
        words.extend(choice.selector.iter().flat_map(|tags| ["-l", tags]));
        words.extend(choice.controller_id.iter().flat_map(|id| ["--controller-id", id]));
        if words.len() == 2 {
            words.push("--all");
        }
        Some(Self {
            dialog: Dialog::open(context.format, true)?,
            client: DaemonClient::new(context, workspace),
            follower: DaemonClient::new(context, workspace),
            command: shell_words::join(words),
        })
    }

    /// The questions among these events that are open: the story so far has answered ones too.
    ///
    /// # Errors
    /// Those of [`DaemonClient::ask`].
    pub(crate) async fn open_among(&mut self, events: &[Value]) -> Result<Vec<OpenPrompt>> {
        let mut open: Vec<OpenPrompt> = Vec::new();
        for event in events {
            let (_, event) = unwrapped(event.clone());
            open.retain(|(question, _)| !ends(&event, question));
            let seen = SeenEvent::of(&event);
            open.extend(QuestionRef::of_seen(&seen).map(|question| (question, seen.event_id.to_owned())));
        }
        let mut pending = Vec::with_capacity(open.len());
        for (question, event) in open {
            if self.dialog.is_open(&mut self.client, &question).await? {
                pending.push((question, event));
            }
        }
        Ok(pending)
    }

    /// Asks each of these questions. Ctrl-C ends this process, and nothing else.
    ///
    /// # Errors
    /// Those of [`Dialog::ask_waited`].
    pub(crate) async fn ask(&mut self, questions: Vec<OpenPrompt>) -> Result<()> {
        for (question, event) in questions {
            let asked =
                self.dialog.ask_waited(&mut self.client, &mut self.follower, &question, Some(event)).await?;
            if asked == DialogOutcome::Interrupted {
                status_line::leave(&self.command);
            }
        }
        Ok(())
    }
}
