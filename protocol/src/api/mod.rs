//! Requests and responses of the HTTP API (`/v1` on the daemon's socket). Every response is an
//! envelope: `{schemaVersion, ok: true, type, data}` or `{schemaVersion, ok: false, type: "error",
//! error}`. Followed events are NDJSON without an envelope.

mod automation;
mod budgets;
mod controllers;
mod daemon;
mod diff;
mod envelope;
mod handoffs;
mod maintenance;
mod options;
mod overview;
mod questions;
mod queue;
mod tasks;
mod transcripts;
mod turns;
mod usage;
mod waits;
mod workers;
mod worktrees;

pub use automation::hooks::{AllTrustedHooks, DistrustHooks, DistrustedHooks, TrustHooks, TrustedHooks};
pub use automation::schedules::{
    AddSchedule, Attendant, ChangeSchedule, DeclarationProblem, FiringView, Firings, ScheduleFired,
    SchedulePaused, ScheduleRemoved, ScheduleView, ScheduledMessage, ScheduledWork, Schedules,
};
pub use automation::triggers::{
    AddTrigger, DeliverTrigger, FireTrigger, TriggerFired, TriggerPaused, TriggerRemoved, TriggerView,
    Triggers,
};
pub use budgets::ChangeControllerBudget;
pub use controllers::{
    AttachController, ControllerChoice, ControllerHandle, ControllerInitialized, ControllerReleased,
    ControllerStatus, ControllersRecovered, InitController, OwnerGranted, OwnerView, Ownership,
    OwnershipEnded, RecoveredController, RecoveredOwner, ReleaseController,
};
pub use daemon::{
    Announced, CheckHealth, DaemonInfo, DaemonShown, NoStateFolder, PanelPermitted, StateFolder, StopDaemon,
};
pub use diff::{DiffSource, FileChange, WorkerDiff};
pub use envelope::{Envelope, header};
pub use handoffs::{
    CreateHandoff, HandoffReady, Inspected, InspectedEvent, LatestHandoff, RestartWorker, WorkspaceChange,
    WorkspaceStatus,
};
pub use maintenance::backups::{BackUp, BackedUp};
pub use maintenance::examination::{Examination, ExaminedDatabase, ExaminedWorker};
pub use maintenance::removal::{Prune, Pruned, PrunedWorker, RETENTION_DAYS, RemoveWorker, WorkerRemoved};
pub use maintenance::task_prune::{KeptTask, PruneTasks, PrunedTask, PrunedTasks};
pub use options::{SetOptions, WorkerSet};
pub use overview::{Doing, LastMessage, OverviewItem, OverviewShown, TaskOfWorker, WorkerOverview};
pub use questions::approvals::{
    Answer, ApprovalDecided, Decide, ElicitationAnswered, OpenQuestion, PendingApproval,
};
pub use questions::inbox::{
    AllDecided, AnswerTime, ApprovalShown, DecideAll, DecidedBy, DecidedOne, Decider, ElicitationForm, Inbox,
    InboxItem, MAX_WAIT_MS, OnTimeout, OwnerRule, OwnerRules, RuleScope,
};
pub use queue::{
    GoOn, IfBusy, MAX_QUEUE_LIMIT, MoveTurn, ParkedView, QUEUE_LIMIT, QueueResumed, QueueView, TurnDropped,
    TurnList, TurnMoved, TurnProgress, TurnResult, TurnShown, TurnView, WorkerParked, WorkerUnparked,
    not_queued,
};
pub use tasks::{
    CallableAgent, CallableAgents, CancelTask, KnownTask, MAX_TASK_NAME_CHARS, MergeOutcome, MessageTask,
    RunTask, TASK_SERVER, TASK_TOKEN, TaskList, TaskMerge, TaskMessage, TaskMessaged, TaskMode,
    TaskOverrides, TaskPlace, TaskShown, TaskStatus, TaskTimes, TaskTranscript, TaskView, WaitTask,
};
pub use transcripts::{StoryItem, StoryKind, TranscriptShown};
pub use turns::{
    CancelChildSession, CancelTurn, ChildSessionCanceled, LatestEvent, LatestOfAll, SendTurn, Simulation,
    TurnAccepted, TurnCanceled, WaitRequest, Waited,
};
pub use usage::{UsageBy, UsageItem, UsageShown, UsageSums, UsedAmount, UsedCost, UsedTokens};
pub use waits::{MAX_WORKERS, WaitMany, WaitMode, WaitedFor, WaitedMany, WaitedWorker, WorkerOutcome};
pub use workers::{
    AgentView, LauncherSpec, RenameWorker, StartWorker, StopWorker, UNLABELED, UNLABELED_RUN, WorkerList,
    WorkerLogs, WorkerRenamed, WorkerShown, WorkerStopped, WorkerView,
};
pub use worktrees::{
    COPY_LIMIT, ChangeWorktree, CopyMode, DiscardWorktree, GIT_VARIABLES, GitEnvironment, LandWorktree,
    NewWorktree, PlacedWorktreeView, PruneWorktrees, WorktreeChoice, WorktreeConflict, WorktreeEnd,
    WorktreeLanded, WorktreeMerged, WorktreeRemoved, WorktreeState, WorktreeView, WorktreesListed,
    WorktreesPruned, is_git_variable,
};
