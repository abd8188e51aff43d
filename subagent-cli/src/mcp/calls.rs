//! Executes tool calls, each on its own connection, so that the calls of one turn run in parallel.
//! A cancel by the client must not abort a request that is being sent: whether the task started
//! would be unknown.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{CallToolResult, ProgressNotificationParam, ProgressToken};
use rmcp::service::{Peer, RequestContext, RoleServer};
use subagent_protocol::Code;
use subagent_protocol::api::{
    CancelTask, MessageTask, RunTask, TaskList, TaskMessaged, TaskMode, TaskShown, TaskView,
};
use subagent_protocol::task_result::About;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use super::arguments::{AnswerStyle, SubagentQuery, TaskStatusFilter, TaskToolCall};
use super::manager::{self, Commands};
use super::server::ToolServerState;
use super::{answers, elicit};
use crate::client::{ApiRequest, DaemonClient, TaskWait, segment};
use crate::failure::{Failure, Result};

/// Maximum time for a canceled call to finish its request.
pub(super) const END_LIMIT: Duration = Duration::from_secs(3);

pub(super) struct ToolCallHandler {
    shared: Arc<ToolServerState>,
    context: RequestContext<RoleServer>,
    /// The server stays alive until this is dropped.
    _busy: watch::Receiver<()>,
}

impl ToolCallHandler {
    pub(super) fn new(shared: Arc<ToolServerState>, context: RequestContext<RoleServer>) -> Self {
        let _busy = shared.busy.subscribe();
        Self { shared, context, _busy }
    }

    /// Executes the call. Errors are tool results, too.
    pub(super) async fn carry_out(self, call: TaskToolCall) -> CallToolResult {
        match call {
            TaskToolCall::Spawn(run, style) => {
                let (agent, name) = (run.agent.clone(), run.name.clone());
                let about = About { agent: agent.as_deref(), name: name.as_deref(), ..About::default() };
                match self.spawn(*run).await {
                    Ok((mut client, task)) => self.follow(&mut client, task, style).await,
                    Err(failure) => answers::failed(about, &failure),
                }
            }
            TaskToolCall::Resume(task, agent, message) => {
                let about = About { agent: agent.as_deref(), name: Some(&task), ..About::default() };
                match self.resume(&task, agent.as_deref(), message).await {
                    Ok((mut client, task)) => self.follow(&mut client, task, AnswerStyle::Task).await,
                    Err(failure) => answers::failed(about, &failure),
                }
            }
            TaskToolCall::Get(look) => {
                let about = About { name: look.one.as_deref(), ..About::default() };
                self.get(&look).await.unwrap_or_else(|failure| answers::failed(about, &failure))
            }
            TaskToolCall::Message(task, message) => {
                let about = About { name: Some(&task), ..About::default() };
                let sent =
                    async { self.message(&mut self.shared.submitter.client()?, &task, &message).await };
                match self.whole(sent).await {
                    Ok(answer) => {
                        self.shared.ends.watch(&self.context.peer, &answer.task);
                        answers::messaged(&answer)
                    }
                    Err(failure) => answers::failed(about, &failure),
                }
            }
        }
    }

    /// Executes a manager's call. Waiting has no effect on state, so a canceled wait ends at once.
    pub(super) async fn manage(
        self,
        commands: &dyn Commands,
        call: manager::ManagerToolCall,
    ) -> CallToolResult {
        let waits = matches!(call, manager::ManagerToolCall::Wait { .. });
        let answer = async { manager::carry_out(&mut self.shared.submitter.client()?, commands, call).await };
        manager::result(match waits {
            false => self.whole(answer).await,
            true => tokio::select! {
                answer = answer => answer,
                () = self.given_up() => Err(Failure::argument("the call was given up")),
            },
        })
    }

    async fn spawn(&self, run: RunTask) -> Result<(DaemonClient, TaskView)> {
        let mut client = self.shared.submitter.client()?;
        let task = self.whole(self.shared.submitter.run(&mut client, run)).await?;
        Ok((client, task))
    }

    /// Continues an ended task. Refuses if its agent is not the named one.
    async fn resume(
        &self,
        task: &str,
        agent: Option<&str>,
        message: MessageTask,
    ) -> Result<(DaemonClient, TaskView)> {
        let mut client = self.shared.submitter.client()?;
        let resumed = async {
            let shown = self.show(&mut client, task).await?.task;
            if let (Some(wanted), Some(is)) = (agent, &shown.agent)
                && !wanted.eq_ignore_ascii_case(is)
            {
                let message = format!("the task {} is one of the agent {is}, not of {wanted}", shown.name);
                let failure = Failure::argument(message).with("agent", is.as_str());
                return Err(failure.recommend("name its own agent, or leave task_id out for a new task"));
            }
            self.message(&mut client, shown.task_id.as_str(), &message).await
        };
        let task = self.whole(resumed).await?.task;
        Ok((client, task))
    }

    /// Waits for the end of a foreground task.
    async fn follow(&self, client: &mut DaemonClient, task: TaskView, style: AnswerStyle) -> CallToolResult {
        if task.mode == TaskMode::Background {
            self.shared.ends.watch(&self.context.peer, &task);
            return answers::begun(&task, style);
        }
        let id = task.task_id.as_str();
        let ended = tokio::select! {
            biased;
            ended = self.end(client, &task) => ended,
            () = Box::pin(elicit::ask_user(&self.shared, &self.context.peer, id)) => return answers::begun(&task, style),
            () = self.given_up() => {
                self.cancel(id).await;
                let failure = Failure::argument("the task is canceled, because its caller stopped waiting");
                return answers::failed(answers::about(&task), &failure);
            }
        };
        match ended {
            Ok(shown) => answers::ended(&shown),
            Err(failure) => {
                let tool = self.shared.name("get_subagents");
                let advice = format!("the task may go on: ask for it with {tool} and name_or_id {id}");
                answers::failed(answers::about(&task), &failure.recommend(advice))
            }
        }
    }

    /// Waits for the end of a task, and sends progress notifications.
    async fn end(&self, client: &mut DaemonClient, task: &TaskView) -> Result<TaskShown> {
        let submitter = &self.shared.submitter;
        if task.status.is_end() {
            return self.show(client, task.task_id.as_str()).await;
        }
        let mut progress = ProgressReports::of(&self.context);
        progress.notify(task).await;
        let mut wait = TaskWait::new(task.task_id.as_str(), submitter.token(), None).knowing(task);
        let mut known = task.clone();
        loop {
            if let Some(shown) = wait.next(client).await? {
                if shown.task.status.is_end() {
                    return Ok(shown);
                }
                known = shown.task;
            }
            // Sent even without a change, because clients cancel silent calls.
            progress.notify(&known).await;
        }
    }

    async fn get(&self, look: &SubagentQuery) -> Result<CallToolResult> {
        let mut client = self.shared.submitter.client()?;
        let deadline = look.wait.map(|wait| Instant::now() + Duration::from_millis(wait));
        let Some(one) = &look.one else {
            let mut tasks = self.list(&mut client).await?;
            if let Some(deadline) = deadline {
                self.first_end(&tasks, deadline).await;
                tasks = self.list(&mut client).await?;
            }
            tasks.retain(|task| look.filter.takes(task.status));
            return Ok(answers::list(&tasks));
        };
        let mut shown = self.show(&mut client, one).await?;
        if let Some(deadline) = deadline.filter(|_| !shown.task.status.is_end()) {
            self.first_end(std::slice::from_ref(&shown.task), deadline).await;
            shown = self.show(&mut client, one).await?;
        }
        Ok(answers::one(&shown))
    }

    /// Waits until one of the running tasks ends, the deadline passes, or the call is canceled.
    async fn first_end(&self, tasks: &[TaskView], deadline: Instant) {
        let mut ends = JoinSet::new();
        for task in tasks.iter().filter(|task| TaskStatusFilter::Running.takes(task.status)) {
            let (shared, task) = (self.shared.clone(), task.clone());
            ends.spawn(async move {
                let wait = TaskWait::new(task.task_id.as_str(), shared.submitter.token(), Some(deadline));
                let mut client = shared.submitter.client()?;
                wait.knowing(&task).end(&mut client).await.map(drop)
            });
        }
        let first = async {
            loop {
                match ends.join_next().await {
                    // A failed wait is not an end; the list shows the error of the task.
                    Some(Ok(Err(failure))) if !failure.is(Code::WaitTimeout) => {}
                    _ => break,
                }
            }
        };
        tokio::select! {
            () = first => {}
            () = self.given_up() => {}
        }
    }

    async fn show(&self, client: &mut DaemonClient, task: &str) -> Result<TaskShown> {
        let ask = self.shared.submitter.named(ApiRequest::get(format!("/v1/tasks/{}", segment(task))));
        client.ask_for(&ask).await
    }

    async fn list(&self, client: &mut DaemonClient) -> Result<Vec<TaskView>> {
        own_tasks(&self.shared, client).await
    }

    async fn message(
        &self,
        client: &mut DaemonClient,
        task: &str,
        message: &MessageTask,
    ) -> Result<TaskMessaged> {
        let ask = self.shared.submitter.change(format!("/v1/tasks/{}/messages", segment(task)), message)?;
        client.ask_for(&ask).await
    }

    /// Cancels a task whose caller stopped waiting. If no daemon responds in time, an agent's task ends
    /// with its turn.
    async fn cancel(&self, task: &str) {
        let canceled = async {
            let request = CancelTask { reason: Some("its caller stopped waiting".to_owned()) };
            let ask = ApiRequest::change(format!("/v1/tasks/{}/cancel", segment(task)), &request)?;
            self.shared.submitter.client()?.ask(&self.shared.submitter.named(ask)).await
        };
        let _: std::result::Result<Result<_>, _> = timeout(END_LIMIT, canceled).await;
    }

    /// Waits for the answer to a change even if the call is canceled, for a limited time.
    async fn whole<T>(&self, change: impl Future<Output = Result<T>>) -> Result<T> {
        let mut change = pin!(change);
        tokio::select! {
            biased;
            done = &mut change => done,
            () = self.given_up() => timeout(END_LIMIT, change).await.unwrap_or_else(|_| {
                Err(Failure::new(Code::DaemonUnresponsive, "the call was given up before the daemon answered"))
            }),
        }
    }

    /// Waits until the client cancels the call or disconnects.
    async fn given_up(&self) {
        let mut closed = self.shared.closed.clone();
        tokio::select! {
            () = self.context.ct.cancelled() => {}
            _ = closed.wait_for(|closed| *closed) => {}
        }
    }
}

/// Returns the caller's own tasks.
pub(super) async fn own_tasks(shared: &ToolServerState, client: &mut DaemonClient) -> Result<Vec<TaskView>> {
    let list: TaskList = client.ask_for(&shared.submitter.named(ApiRequest::get("/v1/tasks"))).await?;
    let mut tasks = list.items;
    if shared.submitter.token().is_none() {
        tasks.retain(|task| task.parent.is_none());
    }
    Ok(tasks)
}

/// Progress notifications for a waiting client, if it requested them.
struct ProgressReports<'a> {
    peer: &'a Peer<RoleServer>,
    token: Option<ProgressToken>,
    reports: u32,
}

impl<'a> ProgressReports<'a> {
    fn of(context: &'a RequestContext<RoleServer>) -> Self {
        Self { peer: &context.peer, token: context.meta.get_progress_token(), reports: 0 }
    }

    async fn notify(&mut self, task: &TaskView) {
        let Some(token) = &self.token else { return };
        self.reports += 1;
        let notification = ProgressNotificationParam::new(token.clone(), f64::from(self.reports));
        // A client that misses this gets the answer, or has disconnected.
        let _ = self.peer.notify_progress(notification.with_message(answers::progress(task))).await;
    }
}
