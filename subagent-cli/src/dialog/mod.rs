//! Asks the user an agent's question in place: shows it, reads keys, and sends the answer.
//!
//! Must not decide itself, and must not keep a question open that was answered elsewhere.

pub(crate) mod confirm;
mod form;
pub(crate) mod keyboard;
pub(crate) mod permission;

use std::cell::Cell;
use std::io;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use subagent_protocol::Code;
use subagent_protocol::api::{Answer, ApprovalShown, Decide, InboxItem, RuleScope};
use subagent_protocol::event::{EventType, SeenEvent};
use subagent_protocol::secret::Secret;
use subagent_protocol::state::{ApprovalStatus, ElicitationAction, QuestionKind};
use tokio::signal::unix::{Signal as Interruptions, SignalKind, signal};
use tokio::sync::Mutex;
use tokio::time::timeout;

use crate::client::{ApiRequest, DaemonClient, EventBatch, segment};
use crate::failure::{Failure, Result};
use crate::output::human::{self, Detail};
use crate::output::terminal::OutputTerminal;
use crate::output::{OutputFormat, write_stderr};
use keyboard::{DialogKey, Keyboard};
use permission::{PermissionChoice, PermissionStep, PromptStage};

/// How long Ctrl-C waits for an answer that was sent.
const SENT_TIME: Duration = Duration::from_secs(3);

/// The result of asking a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DialogOutcome {
    Answered,
    /// The user left it in the inbox.
    Skipped,
    /// The question closed before the user answered.
    Elsewhere,
    /// The user pressed Ctrl-C. The question stays open; the terminal is in its normal mode.
    Interrupted,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct QuestionRef {
    pub(crate) worker_id: String,
    pub(crate) request_id: String,
    pub(crate) kind: QuestionKind,
}

impl QuestionRef {
    /// Returns the question of an event; `None` for other events.
    pub(crate) fn of_event(event: &Value) -> Option<Self> {
        Self::of_seen(&SeenEvent::of(event))
    }

    /// The same of an event that was read.
    pub(crate) fn of_seen(event: &SeenEvent<'_, AboutRequest<'_>>) -> Option<Self> {
        let kind = match event.event_type()? {
            EventType::ApprovalRequested => QuestionKind::Permission,
            EventType::ElicitationRequested => QuestionKind::Elicitation,
            _ => return None,
        };
        Some(Self {
            worker_id: event.worker_id.to_owned(),
            request_id: event.data.request_id.unwrap_or_default().to_owned(),
            kind,
        })
    }

    /// Returns the question of an item of the inbox.
    pub(crate) fn of_item(item: &InboxItem) -> Self {
        Self {
            worker_id: item.worker_id.to_string(),
            request_id: item.request_id.to_string(),
            kind: item.kind,
        }
    }
}

/// The data of an event about a question: which one it is, and what is asked.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct AboutRequest<'a> {
    pub(crate) request_id: Option<&'a str>,
    pub(crate) message: Option<&'a str>,
}

/// The terminal of a user who can answer.
#[derive(Debug)]
pub(crate) struct Dialog {
    keyboard: Keyboard,
    terminal: OutputTerminal,
}

impl Dialog {
    /// Opens the dialog, if the user reads stdout and types on stdin. Must be called inside of a runtime.
    pub(crate) fn open(format: OutputFormat, wanted: bool) -> Option<Self> {
        if format == OutputFormat::Json || !wanted {
            return None;
        }
        // The question goes to stderr, since stdout is for the result.
        let (Some(_), Some(terminal)) = (OutputTerminal::of_stdout(), OutputTerminal::of_stderr()) else {
            return None;
        };
        Some(Self { keyboard: Keyboard::open()?, terminal })
    }

    /// Asks a question and sends the answer to the daemon. `over` ends when another command answers the
    /// question.
    ///
    /// # Errors
    /// Those of [`DaemonClient::ask`], and `INTERNAL_ERROR` if the terminal is unreadable.
    pub(crate) async fn ask(
        &mut self,
        client: &mut DaemonClient,
        question: &QuestionRef,
        over: impl Future<Output = ()>,
    ) -> Result<DialogOutcome> {
        self.ask_noting(client, question, over, &Cell::new(false)).await
    }

    /// The same. Sets `decided` when the user has decided.
    async fn ask_noting(
        &mut self,
        client: &mut DaemonClient,
        question: &QuestionRef,
        over: impl Future<Output = ()>,
        decided: &Cell<bool>,
    ) -> Result<DialogOutcome> {
        let asked = {
            let mut answering = pin!(self.answer(client, question, decided));
            tokio::select! {
                biased;
                answered = &mut answering => answered?,
                // The user's own answer is being sent, or has closed the question.
                () = over => if decided.get() { answering.await? } else { DialogOutcome::Elsewhere },
            }
        };
        if asked == DialogOutcome::Elsewhere {
            let shown = fetched(client, question).await?;
            write_stderr(&format!("\n{}", human::decided_by(&shown, self.terminal)));
        }
        Ok(asked)
    }

    /// Asks a question that ended a wait. `follower` is a separate connection that receives answers of
    /// other commands after the event `from`. Listens for SIGINT meanwhile: Ctrl-C is a key at a choice, but a signal while the user
    /// types a line. The handler stays installed, so callers listen from then on, see [`interruption_after`].
    ///
    /// # Errors
    /// Those of [`Dialog::ask`].
    pub(crate) async fn ask_waited(
        &mut self,
        client: &mut DaemonClient,
        follower: &mut DaemonClient,
        question: &QuestionRef,
        from: Option<String>,
    ) -> Result<DialogOutcome> {
        let mut events = follower.events(&question.worker_id, from, true, false);
        let over = async {
            while let Ok(EventBatch::Events(found)) = events.next().await {
                if found.iter().any(|event| ends(event, question)) {
                    return;
                }
            }
            // Without events, another command's answer is detected when this answer is sent.
            std::future::pending().await
        };
        LISTENS.store(true, Ordering::Relaxed);
        let decided = Cell::new(false);
        let mut asked = pin!(self.ask_noting(client, question, over, &decided));
        tokio::select! {
            biased;
            asked = &mut asked => return asked,
            () = interruption() => {}
        }
        // The answer may have arrived already, so its result is what counts.
        let sent = if decided.get() { timeout(SENT_TIME, asked).await.ok() } else { None };
        sent.unwrap_or(Ok(DialogOutcome::Interrupted))
    }

    /// Whether a question is open.
    ///
    /// # Errors
    /// Those of [`DaemonClient::ask`].
    pub(crate) async fn is_open(&self, client: &mut DaemonClient, question: &QuestionRef) -> Result<bool> {
        match fetched(client, question).await {
            Ok(shown) => Ok(is_pending(&shown)),
            Err(failure) if is_over(&failure) => Ok(false),
            Err(failure) => Err(failure),
        }
    }

    /// Sets `decided` when the user has decided.
    async fn answer(
        &mut self,
        client: &mut DaemonClient,
        question: &QuestionRef,
        decided: &Cell<bool>,
    ) -> Result<DialogOutcome> {
        let shown = fetched(client, question).await?;
        if !is_pending(&shown) {
            return Ok(DialogOutcome::Elsewhere);
        }
        let answered = match question.kind {
            QuestionKind::Permission => self.permission(client, question, &shown, decided).await,
            QuestionKind::Elicitation => self.form(client, question, &shown, decided).await,
        };
        match answered {
            // Another command was faster, or the turn has ended.
            Err(failure) if is_over(&failure) => Ok(DialogOutcome::Elsewhere),
            answered => answered,
        }
    }

    async fn permission(
        &mut self,
        client: &mut DaemonClient,
        question: &QuestionRef,
        shown: &ApprovalShown,
        decided: &Cell<bool>,
    ) -> Result<DialogOutcome> {
        let rule = shown.always_rule.as_deref();
        self.keyboard.forget();
        write_stderr(&human::question(shown, Detail::Short, self.terminal));
        let mut stage = PromptStage::Choice;
        loop {
            let key = self
                .key(&format!("{} ", permission::keys(stage, rule.is_some(), self.terminal.width)))
                .await?;
            write_stderr("\n");
            let wish = match permission::press(stage, key, rule.is_some()) {
                PermissionStep::Done(wish) => wish,
                PermissionStep::Ask(next) => {
                    stage = next;
                    if let (PromptStage::Always, Some(rule)) = (stage, rule) {
                        write_stderr(&human::rule_to_make(rule, self.terminal));
                    }
                    continue;
                }
                PermissionStep::ShowAll => {
                    write_stderr(&human::question(shown, Detail::All, self.terminal));
                    continue;
                }
                PermissionStep::Interrupt => return Ok(DialogOutcome::Interrupted),
                PermissionStep::Stay => continue,
            };
            let mut decision = Decide { decision: Some("allow".to_owned()), ..Decide::default() };
            match wish {
                PermissionChoice::Allow => {}
                PermissionChoice::AllowAlways => decision.always = Some(RuleScope::Worker),
                PermissionChoice::Reject => decision.decision = Some("reject".to_owned()),
                PermissionChoice::RejectWithNote => {
                    write_stderr("note: ");
                    let Some(note) = self.line().await? else { return Ok(self.skip(question)) };
                    decision.decision = Some("reject".to_owned());
                    decision.note = Some(note).filter(|note| !note.trim().is_empty());
                }
                PermissionChoice::Skip => return Ok(self.skip(question)),
            }
            decided.set(true);
            match client.ask(&ApiRequest::change(answer_path(question), &decision)?).await {
                Ok(_) => return Ok(DialogOutcome::Answered),
                Err(failure)
                    if failure.is(Code::RuleNotDerivable) || failure.is(Code::InvalidApprovalDecision) =>
                {
                    decided.set(false);
                    write_stderr(&human::failure(&failure, self.terminal));
                    stage = PromptStage::Choice;
                }
                Err(failure) => return Err(failure),
            }
        }
    }

    async fn form(
        &mut self,
        client: &mut DaemonClient,
        question: &QuestionRef,
        shown: &ApprovalShown,
        decided: &Cell<bool>,
    ) -> Result<DialogOutcome> {
        self.keyboard.forget();
        write_stderr(&human::question(shown, Detail::Short, self.terminal));
        let fields = form::fields(&shown.request);
        loop {
            let key = self.key(form::KEYS).await?;
            write_stderr("\n");
            let answer = match key {
                DialogKey::Char('y' | 'Y') | DialogKey::Enter => {
                    let Some(set) = self.fill_in(&fields).await? else { return Ok(self.skip(question)) };
                    let set = (!set.is_empty()).then_some(Secret(set));
                    Answer { action: ElicitationAction::Accept, content: None, set }
                }
                DialogKey::Char('n' | 'N') => {
                    Answer { action: ElicitationAction::Decline, content: None, set: None }
                }
                DialogKey::Char('s' | 'S') | DialogKey::End => return Ok(self.skip(question)),
                DialogKey::Interrupt => return Ok(DialogOutcome::Interrupted),
                _ => continue,
            };
            decided.set(true);
            match client.ask(&ApiRequest::change(answer_path(question), &answer)?).await {
                Ok(_) => return Ok(DialogOutcome::Answered),
                // The input is invalid; the user tries again.
                Err(failure) if failure.is(Code::InvalidElicitationContent) => {
                    decided.set(false);
                    write_stderr(&human::failure(&failure, self.terminal));
                }
                Err(failure) => return Err(failure),
            }
        }
    }

    /// Reads the values of a form; empty fields are omitted. Returns `None` at the end of input.
    async fn fill_in(&mut self, fields: &[form::DialogField]) -> Result<Option<Vec<(String, String)>>> {
        let mut set = Vec::new();
        for field in fields {
            write_stderr(&field.prompt());
            let Some(typed) = self.line().await? else { return Ok(None) };
            set.extend(field.values(&typed));
        }
        Ok(Some(set))
    }

    fn skip(&self, question: &QuestionRef) -> DialogOutcome {
        let command = match question.kind {
            QuestionKind::Permission => "approve",
            QuestionKind::Elicitation => "answer",
        };
        write_stderr(&format!("Left open. Answer later:  subagent {command} {}\n", question.request_id));
        DialogOutcome::Skipped
    }

    async fn key(&mut self, prompt: &str) -> Result<DialogKey> {
        self.keyboard.key(|| write_stderr(prompt)).await.map_err(|error| unreadable(&error))
    }

    async fn line(&mut self) -> Result<Option<String>> {
        self.keyboard.line().await.map_err(|error| unreadable(&error))
    }
}

/// Whether a dialog of this process has installed the handler of SIGINT.
static LISTENS: AtomicBool = AtomicBool::new(false);

/// The signals of SIGINT that were not handled. It stays between two waits, so that none is lost.
static INTERRUPTIONS: Mutex<Option<Interruptions>> = Mutex::const_new(None);

/// Waits for SIGINT. Where no handler can be installed, the signal ends the process, and this never returns.
pub(crate) async fn interruption() {
    let mut listener = INTERRUPTIONS.lock().await;
    if listener.is_none() {
        *listener = signal(SignalKind::interrupt()).ok();
    }
    match &mut *listener {
        Some(listener) => drop(listener.recv().await),
        None => std::future::pending().await,
    }
}

/// The same after a dialog; before one, the signal ends the process by itself.
pub(crate) async fn interruption_after() {
    match LISTENS.load(Ordering::Relaxed) {
        true => interruption().await,
        false => std::future::pending().await,
    }
}

fn unreadable(error: &io::Error) -> Failure {
    Failure::internal(format!("the terminal cannot be read: {error}"))
}

fn is_pending(shown: &ApprovalShown) -> bool {
    shown.item.status == ApprovalStatus::Pending
}

async fn fetched(client: &mut DaemonClient, question: &QuestionRef) -> Result<ApprovalShown> {
    let path = format!("/v1/approvals/{}", segment(&question.request_id));
    client.ask_for(&ApiRequest::get(path)).await
}

/// Returns the path for answering a question.
fn answer_path(question: &QuestionRef) -> String {
    let kind = match question.kind {
        QuestionKind::Permission => "approvals",
        QuestionKind::Elicitation => "elicitations",
    };
    format!("/v1/workers/{}/{kind}/{}", segment(&question.worker_id), segment(&question.request_id))
}

/// Whether the question is closed: another command answered, the turn ended, or the runtime is gone.
pub(crate) fn is_over(failure: &Failure) -> bool {
    [Code::ApprovalNotPending, Code::ApprovalNotFound, Code::WorkerNotWaitingApproval, Code::WorkerStopped]
        .iter()
        .any(|code| failure.is(*code))
}

/// Whether an event closes a question.
pub(crate) fn ends(event: &Value, question: &QuestionRef) -> bool {
    let event: SeenEvent<'_, AboutRequest<'_>> = SeenEvent::of(event);
    match event.event_type() {
        Some(EventType::ApprovalDecided | EventType::ElicitationAnswered) => {
            event.data.request_id == Some(question.request_id.as_str())
        }
        Some(kind) if kind.ends_turn() || kind == EventType::WorkerStopped => {
            event.worker_id == question.worker_id
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use nix::sys::signal::{Signal, raise};
    use subagent_testkit::in_own_process;

    use super::*;

    #[test]
    fn an_interruption_between_two_waits_is_not_lost() {
        in_own_process(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let limit = Duration::from_secs(20);
                let first = timeout(Duration::from_millis(1), interruption()).await;
                assert!(first.is_err(), "it listens, and hears nothing");
                let mut other = signal(SignalKind::interrupt()).unwrap();
                raise(Signal::SIGINT).unwrap();
                // The runtime takes the signal in while no wait is for it.
                timeout(limit, other.recv()).await.unwrap();
                timeout(limit, interruption()).await.unwrap();
            });
        });
    }
}
