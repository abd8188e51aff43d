//! The one error that users meet: a stable code, a sentence that says what to do, and details.

use std::io;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::state::words;

/// The result of whatever a user asked for.
pub type Result<T, E = Error> = std::result::Result<T, E>;

words! {
    /// Stable names of what can go wrong. Scripts match on them; they are never renamed.
    Code {
        /// `--input`, a body or a prompt has the wrong shape.
        InvalidInput = "INVALID_INPUT",
        /// A flag or parameter has a value that makes no sense.
        InvalidArgument = "INVALID_ARGUMENT",
        /// The config file cannot be read or breaks its schema.
        ConfigParseError = "CONFIG_PARSE_ERROR",
        /// `config init` would overwrite a file.
        ConfigAlreadyExists = "CONFIG_ALREADY_EXISTS",
        /// The config file cannot be written.
        ConfigUnwritable = "CONFIG_UNWRITABLE",
        /// The workspace's `controller.json` cannot be written.
        ControllerHintUnwritable = "CONTROLLER_HINT_UNWRITABLE",
        /// No workspace above the current folder.
        WorkspaceRootNotFound = "WORKSPACE_ROOT_NOT_FOUND",
        /// No such launcher.
        LauncherNotFound = "LAUNCHER_NOT_FOUND",
        /// No such definition of an agent.
        AgentNotFound = "AGENT_NOT_FOUND",
        /// The agent is one for tasks of other agents alone.
        AgentNotPrimary = "AGENT_NOT_PRIMARY",
        /// The agent is one that people start, and not one for tasks.
        AgentNotASubagent = "AGENT_NOT_A_SUBAGENT",
        /// The rules of the worker deny it to give a task to this agent.
        TaskNotPermitted = "TASK_NOT_PERMITTED",
        /// The definition of the agent cannot be read, or asks for what cannot be given.
        AgentNotUsable = "AGENT_NOT_USABLE",
        /// The agent has no notes.
        MemoryNotFound = "MEMORY_NOT_FOUND",
        /// A link or anything but a file or folder is in the way to an agent's notes, or they cannot be read.
        MemoryNotUsable = "MEMORY_NOT_USABLE",
        /// Another task of the same parent has this name.
        TaskNameTaken = "TASK_NAME_TAKEN",
        /// No such task of the caller.
        TaskNotFound = "TASK_NOT_FOUND",
        /// The task would be further below the root than may be.
        TaskDepthLimit = "TASK_DEPTH_LIMIT",
        /// The tree has as many tasks as it may.
        TaskLimit = "TASK_LIMIT",
        /// The task was canceled: by its caller, or with the turn or worker above it.
        Cancelled = "CANCELLED",
        /// The task made more tool calls in one prompt than its limit allows.
        MaxIterationsReached = "MAX_ITERATIONS_REACHED",
        /// A prompt of the task ran longer than its limit allows.
        TimedOut = "TIMED_OUT",
        /// A question was not answered before its deadline, and its turn was canceled for that.
        ApprovalTimeout = "APPROVAL_TIMEOUT",
        /// The agent cannot restore the session that a message is for.
        ContextLost = "CONTEXT_LOST",
        /// No such role.
        RoleHintNotFound = "ROLE_HINT_NOT_FOUND",
        /// No controller for this workspace, or no such id.
        ControllerNotFound = "CONTROLLER_NOT_FOUND",
        /// Somebody else owns the controller.
        ControllerOwnershipConflict = "CONTROLLER_OWNERSHIP_CONFLICT",
        /// The owner's handle is stale or forged.
        InvalidControllerHandle = "INVALID_CONTROLLER_HANDLE",
        /// No such worker.
        WorkerNotFound = "WORKER_NOT_FOUND",
        /// The address fits several workers.
        AmbiguousWorker = "AMBIGUOUS_WORKER",
        /// Another worker has this name.
        NameTaken = "NAME_TAKEN",
        /// A turn is open.
        WorkerBusy = "WORKER_BUSY",
        /// As many messages wait for the worker as may.
        QueueFull = "QUEUE_FULL",
        /// Messages wait for the worker until somebody resumes them.
        QueuePaused = "QUEUE_PAUSED",
        /// No such turn.
        TurnNotFound = "TURN_NOT_FOUND",
        /// The turn has not ended, and has no result so far.
        TurnOpen = "TURN_OPEN",
        /// The message of the turn does not wait.
        TurnNotQueued = "TURN_NOT_QUEUED",
        /// The turn is not one that failed or was canceled.
        TurnNotRetryable = "TURN_NOT_RETRYABLE",
        /// The worker was stopped for good.
        WorkerStopped = "WORKER_STOPPED",
        /// The worker is a copy of one in the state dir that this one was copied from, and cannot run.
        WorkerCopied = "WORKER_COPIED",
        /// There is no turn to cancel.
        WorkerNotRunning = "WORKER_NOT_RUNNING",
        /// No approval is open.
        WorkerNotWaitingApproval = "WORKER_NOT_WAITING_APPROVAL",
        /// The worker's state does not allow this.
        InvalidWorkerState = "INVALID_WORKER_STATE",
        /// The cursor names no event of this worker.
        EventNotFound = "EVENT_NOT_FOUND",
        /// The cursor is older than what is kept.
        CursorExpired = "CURSOR_EXPIRED",
        /// The agent has done without asking what a rule of the owner denies.
        PolicyViolation = "POLICY_VIOLATION",
        /// A hook refuses the message.
        HookDenied = "HOOK_DENIED",
        /// A hook that has to allow the message failed.
        HookFailed = "HOOK_FAILED",
        /// No rule says exactly what was decided.
        RuleNotDerivable = "RULE_NOT_DERIVABLE",
        /// No such rule of an owner.
        RuleNotFound = "RULE_NOT_FOUND",
        /// A budget is used up.
        BudgetExceeded = "BUDGET_EXCEEDED",
        /// It is not known how much of a budget was used.
        BudgetUnknown = "BUDGET_UNKNOWN",
        /// No such permission request.
        ApprovalNotFound = "APPROVAL_NOT_FOUND",
        /// The permission request was decided already.
        ApprovalNotPending = "APPROVAL_NOT_PENDING",
        /// Several requests are open, and none was named.
        RequestAmbiguous = "REQUEST_AMBIGUOUS",
        /// The decision matches no option.
        InvalidApprovalDecision = "INVALID_APPROVAL_DECISION",
        /// The answer to an elicitation does not fit what is asked.
        InvalidElicitationContent = "INVALID_ELICITATION_CONTENT",
        /// The handoff file is not there.
        HandoffNotFound = "HANDOFF_NOT_FOUND",
        /// A wait ended without its event.
        WaitTimeout = "WAIT_TIMEOUT",
        /// A wait ended because nothing happened.
        WaitNoProgress = "WAIT_NO_PROGRESS",
        /// The result of a task is larger than its caller may get, and has to meet a schema.
        ResultTooLarge = "RESULT_TOO_LARGE",
        /// The result of a task does not fit the schema that it has to meet, also not when it was asked for once more.
        ResultSchemaNotMet = "RESULT_SCHEMA_NOT_MET",
        /// This machine cannot enforce the sandbox that was asked for.
        SandboxUnavailable = "SANDBOX_UNAVAILABLE",
        /// The launcher cannot be run.
        BackendLauncher = "BACKEND_LAUNCHER",
        /// The agent ended or its pipe broke.
        BackendUnavailable = "BACKEND_UNAVAILABLE",
        /// The worker's runtime cannot be reached.
        BackendSocketUnreachable = "BACKEND_SOCKET_UNREACHABLE",
        /// The agent did not answer in time.
        BackendTimeout = "BACKEND_TIMEOUT",
        /// The system refused to start the agent.
        BackendPermissionDenied = "BACKEND_PERMISSION_DENIED",
        /// The agent broke the protocol.
        BackendProtocolError = "BACKEND_PROTOCOL_ERROR",
        /// The agent rejected a request.
        BackendRpcError = "BACKEND_RPC_ERROR",
        /// The agent has no such mode, model or config option, or not this value of it.
        OptionNotAvailable = "OPTION_NOT_AVAILABLE",
        /// The agent does not take this kind of attachment.
        AttachmentNotSupported = "ATTACHMENT_NOT_SUPPORTED",
        /// The agent cannot do what it was configured to do.
        CapabilityNotSupported = "CAPABILITY_NOT_SUPPORTED",
        /// The worker's runtime failed.
        BackendRuntimeError = "BACKEND_RUNTIME_ERROR",
        /// The agent wants somebody to log in first.
        AuthRequired = "AUTH_REQUIRED",
        /// The agent does not offer this method of ACP.
        AgentMethodUnsupported = "AGENT_METHOD_UNSUPPORTED",
        /// The agent knows no such session.
        SessionNotFound = "SESSION_NOT_FOUND",
        /// Another worker has this session.
        SessionInUse = "SESSION_IN_USE",
        /// An agent's login needs a terminal.
        TerminalRequired = "TERMINAL_REQUIRED",
        /// The runtime of a turn died.
        RuntimeLost = "RUNTIME_LOST",
        /// Processes of a worker could not be ended in time.
        StopIncomplete = "STOP_INCOMPLETE",
        /// The journal cannot be written.
        StorageFull = "STORAGE_FULL",
        /// The database failed.
        StorageError = "STORAGE_ERROR",
        /// Worktrees need a newer git, a repository, or a first commit.
        WorktreeNeedsGit = "WORKTREE_NEEDS_GIT",
        /// The branch or the folder of a new worktree is there already.
        WorktreeExists = "WORKTREE_EXISTS",
        /// No such worktree, or its folder or repository is gone.
        WorktreeNotFound = "WORKTREE_NOT_FOUND",
        /// No schedule has this name.
        ScheduleNotFound = "SCHEDULE_NOT_FOUND",
        /// No daemon would be there to fire the schedule.
        ScheduleUnattended = "SCHEDULE_UNATTENDED",
        /// Another git, an open turn, a merge or a rebase uses the worktree or the repository.
        WorktreeBusy = "WORKTREE_BUSY",
        /// The removal of a worktree would lose work.
        WorktreeHasWork = "WORKTREE_HAS_WORK",
        /// The commands that make a worktree usable failed.
        WorktreeSetupFailed = "WORKTREE_SETUP_FAILED",
        /// The changes of a worktree and the target branch change the same lines.
        LandConflict = "LAND_CONFLICT",
        /// The target of a landing is protected, checked out elsewhere, or has changes in the same files.
        LandRefused = "LAND_REFUSED",
        /// A check failed with the merged files.
        LandCheckFailed = "LAND_CHECK_FAILED",
        /// A command of git failed.
        GitFailed = "GIT_FAILED",
        /// A backup would overwrite a file.
        BackupAlreadyExists = "BACKUP_ALREADY_EXISTS",
        /// A file is not a backup that can be restored.
        BackupInvalid = "BACKUP_INVALID",
        /// A restore would leave runtimes behind that the backup does not know.
        RestoreWouldOrphan = "RESTORE_WOULD_ORPHAN",
        /// The state dir lies on a file system that cannot keep promises.
        StateDirUnsupportedFs = "STATE_DIR_UNSUPPORTED_FS",
        /// The state dir belongs to another program.
        StateDirForeign = "STATE_DIR_FOREIGN",
        /// The state dir was written by a newer version.
        StateDirTooNew = "STATE_DIR_TOO_NEW",
        /// The request is meant for another state dir, as one from a copy of this one.
        StateDirMismatch = "STATE_DIR_MISMATCH",
        /// The state dir cannot be written.
        StateDirUnwritable = "STATE_DIR_UNWRITABLE",
        /// The directory of the sockets is not safe to use.
        RuntimeDirUnsafe = "RUNTIME_DIR_UNSAFE",
        /// The directory of the sockets cannot be made.
        RuntimeDirUnwritable = "RUNTIME_DIR_UNWRITABLE",
        /// A socket's path would be longer than the system takes.
        SocketPathTooLong = "SOCKET_PATH_TOO_LONG",
        /// The stored environment is gone: it must be sent again.
        EnvRequired = "ENV_REQUIRED",
        /// The daemon cannot open another file.
        TooManyOpenFiles = "TOO_MANY_OPEN_FILES",
        /// A request is larger than what is taken.
        PayloadTooLarge = "PAYLOAD_TOO_LARGE",
        /// The idempotency key was used for something else.
        IdempotencyConflict = "IDEMPOTENCY_CONFLICT",
        /// No daemon runs and none may be started.
        DaemonNotRunning = "DAEMON_NOT_RUNNING",
        /// The daemon reads as many large requests as it may.
        DaemonBusy = "DAEMON_BUSY",
        /// The daemon accepts connections and does not answer.
        DaemonUnresponsive = "DAEMON_UNRESPONSIVE",
        /// The daemon does not understand this client any more.
        DaemonTooNew = "DAEMON_TOO_NEW",
        /// The daemon is older than this client understands.
        DaemonTooOld = "DAEMON_TOO_OLD",
        /// Another daemon holds the state dir.
        DaemonAlreadyRunning = "DAEMON_ALREADY_RUNNING",
        /// The daemon could not start.
        DaemonStartFailed = "DAEMON_START_FAILED",
        /// An agent asked for what only its owner may do.
        ForbiddenFromWorker = "FORBIDDEN_FROM_WORKER",
        /// A request that browsers or foreign programs send.
        ForbiddenOrigin = "FORBIDDEN_ORIGIN",
        /// A defect of this program.
        Internal = "INTERNAL_ERROR",
    }
}

/// Whether a disk, or the part of it that a user may fill, is full.
#[must_use]
pub fn is_storage_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// An error with a stable code; what the error envelope holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[error("{code}: {message}")]
pub struct Error {
    /// The stable name.
    pub code: Code,
    /// What was wrong, where, and what to do next.
    pub message: String,
    /// Whether the same request may succeed later without a change.
    #[serde(default)]
    pub retryable: bool,
    /// Facts for programs; `recommendedAction` and `recommendedCommand` are also shown to people.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub details: Map<String, Value>,
}

impl Error {
    /// An error that is not retryable and has no details.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), retryable: false, details: Map::new() }
    }

    /// Adds a fact.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.details.insert(key.to_owned(), value.into());
        self
    }

    /// Says that trying again may help.
    #[must_use]
    pub fn retryable(mut self) -> Self {
        self.retryable = true;
        self
    }

    /// Says what a person should do.
    #[must_use]
    pub fn recommend(self, action: impl Into<String>) -> Self {
        self.with("recommendedAction", action.into())
    }

    /// Where the cause is a full disk: `STORAGE_FULL`, retryable, with what to do. The message names the file. Else as it is.
    #[must_use]
    pub fn or_storage_full(mut self, cause: &io::Error) -> Self {
        if !is_storage_full(cause) {
            return self;
        }
        self.code = Code::StorageFull;
        self.retryable().recommend("make room on the disk of the file that the message names, and try again")
    }
}
