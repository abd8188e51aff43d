//! The error type for users: a stable code, a message with what to do, and details.

use std::io;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::lenient::Lenient;
use crate::state::words;

/// The result of a user's request.
pub type Result<T, E = Error> = std::result::Result<T, E>;

words! {
    /// Stable error codes. Scripts depend on them; they are never renamed.
    Code {
        /// `--input`, a body or a prompt has the wrong shape.
        InvalidInput = "INVALID_INPUT",
        /// A flag or parameter has an invalid value.
        InvalidArgument = "INVALID_ARGUMENT",
        /// The config file cannot be read or violates its schema.
        ConfigParseError = "CONFIG_PARSE_ERROR",
        /// `config init` would overwrite a file.
        ConfigAlreadyExists = "CONFIG_ALREADY_EXISTS",
        /// The config file cannot be written.
        ConfigUnwritable = "CONFIG_UNWRITABLE",
        /// The workspace's `controller.json` cannot be written.
        ControllerHintUnwritable = "CONTROLLER_HINT_UNWRITABLE",
        /// There is no workspace above the current folder.
        WorkspaceRootNotFound = "WORKSPACE_ROOT_NOT_FOUND",
        /// The launcher does not exist.
        LauncherNotFound = "LAUNCHER_NOT_FOUND",
        /// The definition of an agent does not exist.
        AgentNotFound = "AGENT_NOT_FOUND",
        /// The agent is only for tasks of other agents.
        AgentNotPrimary = "AGENT_NOT_PRIMARY",
        /// The agent is only started by people, and not for tasks.
        AgentNotASubagent = "AGENT_NOT_A_SUBAGENT",
        /// The rules of the worker forbid delegating to this agent.
        TaskNotPermitted = "TASK_NOT_PERMITTED",
        /// The definition of the agent is unreadable, or requires something that is not available.
        AgentNotUsable = "AGENT_NOT_USABLE",
        /// The agent has no notes.
        MemoryNotFound = "MEMORY_NOT_FOUND",
        /// The path of an agent's notes contains a link or special file, or
        /// the notes are unreadable.
        MemoryNotUsable = "MEMORY_NOT_USABLE",
        /// Another task of the same parent has this name.
        TaskNameTaken = "TASK_NAME_TAKEN",
        /// The caller has no such task.
        TaskNotFound = "TASK_NOT_FOUND",
        /// The task would exceed the depth limit of its tree.
        TaskDepthLimit = "TASK_DEPTH_LIMIT",
        /// The tree has reached its limit of tasks.
        TaskLimit = "TASK_LIMIT",
        /// The task was canceled: by its caller, or with the turn or worker above it.
        Cancelled = "CANCELLED",
        /// The task made more tool calls in one prompt than its limit allows.
        MaxIterationsReached = "MAX_ITERATIONS_REACHED",
        /// A prompt of the task ran longer than its limit allows.
        TimedOut = "TIMED_OUT",
        /// A question reached its deadline, and its turn was canceled for that.
        ApprovalTimeout = "APPROVAL_TIMEOUT",
        /// The agent cannot restore the session that a message is for.
        ContextLost = "CONTEXT_LOST",
        /// The role does not exist.
        RoleHintNotFound = "ROLE_HINT_NOT_FOUND",
        /// This workspace has no controller, or the id does not exist.
        ControllerNotFound = "CONTROLLER_NOT_FOUND",
        /// Another process owns the controller.
        ControllerOwnershipConflict = "CONTROLLER_OWNERSHIP_CONFLICT",
        /// The owner's handle is stale or forged.
        InvalidControllerHandle = "INVALID_CONTROLLER_HANDLE",
        /// The worker does not exist.
        WorkerNotFound = "WORKER_NOT_FOUND",
        /// The address matches several workers.
        AmbiguousWorker = "AMBIGUOUS_WORKER",
        /// Another worker has this name.
        NameTaken = "NAME_TAKEN",
        /// A turn is open.
        WorkerBusy = "WORKER_BUSY",
        /// The worker's queue is full.
        QueueFull = "QUEUE_FULL",
        /// The worker's queue is paused until it is resumed.
        QueuePaused = "QUEUE_PAUSED",
        /// The turn does not exist.
        TurnNotFound = "TURN_NOT_FOUND",
        /// The turn has not ended and has no result yet.
        TurnOpen = "TURN_OPEN",
        /// The message of the turn is not queued.
        TurnNotQueued = "TURN_NOT_QUEUED",
        /// A cancel names a turn that is not open.
        TurnNotOpen = "TURN_NOT_OPEN",
        /// The turn has neither failed nor been canceled.
        TurnNotRetryable = "TURN_NOT_RETRYABLE",
        /// The worker was stopped permanently.
        WorkerStopped = "WORKER_STOPPED",
        /// The worker is a copy from another state directory, and cannot run.
        WorkerCopied = "WORKER_COPIED",
        /// The place of the worker serves another daemon with a copy of this state directory.
        Fenced = "FENCED",
        /// The runtime program at the place speaks another protocol of the stream.
        PlacementIncompatible = "PLACEMENT_INCOMPATIBLE",
        /// There is no turn to cancel.
        WorkerNotRunning = "WORKER_NOT_RUNNING",
        /// No permission request is open.
        WorkerNotWaitingApproval = "WORKER_NOT_WAITING_APPROVAL",
        /// The worker's state does not allow this.
        InvalidWorkerState = "INVALID_WORKER_STATE",
        /// The cursor is not an event of this worker.
        EventNotFound = "EVENT_NOT_FOUND",
        /// The cursor is older than the kept events.
        CursorExpired = "CURSOR_EXPIRED",
        /// The agent did something without asking that a rule of the owner denies.
        PolicyViolation = "POLICY_VIOLATION",
        /// A hook refused the message.
        HookDenied = "HOOK_DENIED",
        /// A hook that has to allow the message failed.
        HookFailed = "HOOK_FAILED",
        /// No rule can express exactly this decision.
        RuleNotDerivable = "RULE_NOT_DERIVABLE",
        /// The owner has no such rule.
        RuleNotFound = "RULE_NOT_FOUND",
        /// A budget is used up.
        BudgetExceeded = "BUDGET_EXCEEDED",
        /// The usage of a budget is unknown.
        BudgetUnknown = "BUDGET_UNKNOWN",
        /// The permission request does not exist.
        ApprovalNotFound = "APPROVAL_NOT_FOUND",
        /// The permission request was decided already.
        ApprovalNotPending = "APPROVAL_NOT_PENDING",
        /// Several requests are open, and none was named.
        RequestAmbiguous = "REQUEST_AMBIGUOUS",
        /// The decision matches no option.
        InvalidApprovalDecision = "INVALID_APPROVAL_DECISION",
        /// The answer to an elicitation does not fit the question.
        InvalidElicitationContent = "INVALID_ELICITATION_CONTENT",
        /// The handoff file does not exist.
        HandoffNotFound = "HANDOFF_NOT_FOUND",
        /// A wait ended without its event.
        WaitTimeout = "WAIT_TIMEOUT",
        /// A wait ended because there was no event.
        WaitNoProgress = "WAIT_NO_PROGRESS",
        /// The result of a task exceeds the caller's limit, and has to meet a schema.
        ResultTooLarge = "RESULT_TOO_LARGE",
        /// The result of a task does not meet its schema, even after a second request.
        ResultSchemaNotMet = "RESULT_SCHEMA_NOT_MET",
        /// This machine cannot enforce the requested sandbox.
        SandboxUnavailable = "SANDBOX_UNAVAILABLE",
        /// The config file has no placement with this name.
        PlacementNotFound = "PLACEMENT_NOT_FOUND",
        /// The place of a worker does not answer.
        PlacementUnreachable = "PLACEMENT_UNREACHABLE",
        /// The host of a placement has no usable runtime.
        PlacementNotPrepared = "PLACEMENT_NOT_PREPARED",
        /// The folder of a placement does not exist there.
        PlacementFolderMissing = "PLACEMENT_FOLDER_MISSING",
        /// The user's config file has no host with this name.
        HostNotFound = "HOST_NOT_FOUND",
        /// The host of `--host` does not answer.
        HostUnreachable = "HOST_UNREACHABLE",
        /// The host of `--host` has no usable `subagent`.
        HostNotPrepared = "HOST_NOT_PREPARED",
        /// The command does not work with `--host`.
        HostUnsupported = "HOST_UNSUPPORTED",
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
        /// The agent violated the protocol.
        BackendProtocolError = "BACKEND_PROTOCOL_ERROR",
        /// The agent rejected a request.
        BackendRpcError = "BACKEND_RPC_ERROR",
        /// The agent does not offer this mode, model or config option, or not this value.
        OptionNotAvailable = "OPTION_NOT_AVAILABLE",
        /// The agent does not accept this kind of attachment.
        AttachmentNotSupported = "ATTACHMENT_NOT_SUPPORTED",
        /// The agent lacks a configured capability.
        CapabilityNotSupported = "CAPABILITY_NOT_SUPPORTED",
        /// The worker's runtime failed.
        BackendRuntimeError = "BACKEND_RUNTIME_ERROR",
        /// The agent requires a login first.
        AuthRequired = "AUTH_REQUIRED",
        /// The agent does not offer this method of ACP.
        AgentMethodUnsupported = "AGENT_METHOD_UNSUPPORTED",
        /// The agent does not know this session.
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
        /// The database reported a failure.
        StorageError = "STORAGE_ERROR",
        /// Worktrees require a newer git, a repository, or a first commit.
        WorktreeNeedsGit = "WORKTREE_NEEDS_GIT",
        /// The branch or the folder of a new worktree exists already.
        WorktreeExists = "WORKTREE_EXISTS",
        /// The worktree does not exist, or its folder or repository is gone.
        WorktreeNotFound = "WORKTREE_NOT_FOUND",
        /// No schedule has this name.
        ScheduleNotFound = "SCHEDULE_NOT_FOUND",
        /// No trigger has this name.
        TriggerNotFound = "TRIGGER_NOT_FOUND",
        /// The trigger is paused: the occurrence does not fire it.
        TriggerPaused = "TRIGGER_PAUSED",
        /// The command that a trigger runs failed.
        CommandFailed = "COMMAND_FAILED",
        /// The folder that a trigger watches is gone, or cannot be watched.
        WatchFailed = "WATCH_FAILED",
        /// No daemon would be running to fire the schedule.
        ScheduleUnattended = "SCHEDULE_UNATTENDED",
        /// Another git, an open turn, a merge or a rebase uses the worktree or the repository.
        WorktreeBusy = "WORKTREE_BUSY",
        /// The removal of a worktree would lose work.
        WorktreeHasWork = "WORKTREE_HAS_WORK",
        /// The commands that make a worktree usable failed.
        WorktreeSetupFailed = "WORKTREE_SETUP_FAILED",
        /// The worktree and the target branch change the same lines.
        LandConflict = "LAND_CONFLICT",
        /// The target of a landing is protected, checked out elsewhere, or has changes
        /// in the same files.
        LandRefused = "LAND_REFUSED",
        /// A check failed with the merged files.
        LandCheckFailed = "LAND_CHECK_FAILED",
        /// A git command failed.
        GitFailed = "GIT_FAILED",
        /// A backup would overwrite a file.
        BackupAlreadyExists = "BACKUP_ALREADY_EXISTS",
        /// The file is not a backup that can be restored.
        BackupInvalid = "BACKUP_INVALID",
        /// A restore would orphan runtimes that the backup does not know.
        RestoreWouldOrphan = "RESTORE_WOULD_ORPHAN",
        /// The state directory is on an unsupported file system.
        StateDirUnsupportedFs = "STATE_DIR_UNSUPPORTED_FS",
        /// The state directory belongs to another program.
        StateDirForeign = "STATE_DIR_FOREIGN",
        /// The state directory was written by a newer version.
        StateDirTooNew = "STATE_DIR_TOO_NEW",
        /// The request is for another state directory, for example that of a copy.
        StateDirMismatch = "STATE_DIR_MISMATCH",
        /// The state directory cannot be written.
        StateDirUnwritable = "STATE_DIR_UNWRITABLE",
        /// The directory of the sockets is not safe to use.
        RuntimeDirUnsafe = "RUNTIME_DIR_UNSAFE",
        /// The directory of the sockets cannot be created.
        RuntimeDirUnwritable = "RUNTIME_DIR_UNWRITABLE",
        /// The path of a socket would exceed the system's limit.
        SocketPathTooLong = "SOCKET_PATH_TOO_LONG",
        /// The stored environment is gone and must be sent again.
        EnvRequired = "ENV_REQUIRED",
        /// The daemon cannot open another file.
        TooManyOpenFiles = "TOO_MANY_OPEN_FILES",
        /// The request exceeds the size limit.
        PayloadTooLarge = "PAYLOAD_TOO_LARGE",
        /// The idempotency key was used for another request.
        IdempotencyConflict = "IDEMPOTENCY_CONFLICT",
        /// No daemon is running, and none may be started.
        DaemonNotRunning = "DAEMON_NOT_RUNNING",
        /// The daemon has reached its limit of concurrent large requests.
        DaemonBusy = "DAEMON_BUSY",
        /// The daemon accepts connections but does not respond.
        DaemonUnresponsive = "DAEMON_UNRESPONSIVE",
        /// The daemon no longer supports this client.
        DaemonTooNew = "DAEMON_TOO_NEW",
        /// The daemon is older than this client supports.
        DaemonTooOld = "DAEMON_TOO_OLD",
        /// Another daemon holds the state directory.
        DaemonAlreadyRunning = "DAEMON_ALREADY_RUNNING",
        /// The daemon could not start.
        DaemonStartFailed = "DAEMON_START_FAILED",
        /// An agent made a request reserved for its owner.
        ForbiddenFromWorker = "FORBIDDEN_FROM_WORKER",
        /// The request has headers of a browser or foreign program.
        ForbiddenOrigin = "FORBIDDEN_ORIGIN",
        /// The panel does not know who asks.
        Unauthorized = "UNAUTHORIZED",
        /// The panel was started to show and not to change.
        ReadOnly = "READ_ONLY",
        /// The panel was asked too often, or has too many pages open.
        TooManyRequests = "TOO_MANY_REQUESTS",
        /// A defect of this program.
        Internal = "INTERNAL_ERROR",
    }
}

/// Whether a disk, or a user's quota, is full.
#[must_use]
pub fn is_storage_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// An error with a stable code; the content of the error envelope.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[error("{code}: {message}")]
pub struct Error {
    /// The stable error code.
    pub code: Code,
    /// What was wrong, where, and what to do next.
    pub message: String,
    /// Whether the same request may succeed later unchanged.
    #[serde(default)]
    pub retryable: bool,
    /// Facts for programs; `recommendedAction` and `recommendedCommand` are also shown to people.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub details: Map<String, Value>,
}

/// The details of an error that code acts on; all others only pass through.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ErrorFacts<'a> {
    /// What a person should do, in words.
    #[serde(borrow)]
    pub recommended_action: Lenient<&'a str>,
    /// What a person should do, as a command line.
    pub recommended_command: Lenient<&'a str>,
    /// The kind of an agent's failure: `auth`, `rate_limit`, ...
    pub reason_category: Lenient<&'a str>,
    /// The ACP method of a failed start.
    pub phase: Lenient<&'a str>,
    /// The ACP method that failed.
    pub method: Lenient<&'a str>,
    /// Whether the prompt reached the agent; see [`crate::state::Dispatched`].
    pub dispatched: Lenient<&'a str>,
    /// What a used-up budget is of.
    pub scope: Lenient<&'a str>,
    /// The generation of the daemon that has the worker.
    pub generation: Lenient<u64>,
    /// The branch of a landing.
    pub into: Lenient<&'a str>,
    /// The first of the files in conflict.
    pub files: Lenient<Vec<&'a str>>,
    /// How many files `files` leaves out.
    pub more_files: Lenient<u64>,
    /// A check of a landing that failed.
    pub command: Lenient<&'a str>,
    /// What a failed command printed.
    pub output: Lenient<&'a str>,
    /// What a command on another machine printed to its standard error.
    pub stderr: Lenient<&'a str>,
    /// The end of a daemon's log.
    pub log_tail: Lenient<&'a str>,
    /// The last lines that an agent printed to its standard error.
    pub stderr_tail: Lenient<Vec<&'a str>>,
}

impl<'a> ErrorFacts<'a> {
    /// Reads the details of an error; one of another type is unknown.
    #[must_use]
    pub fn of(details: &'a Map<String, Value>) -> Self {
        Self::deserialize(details).unwrap_or_default()
    }
}

impl Error {
    /// Creates an error that is not retryable and has no details.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), retryable: false, details: Map::new() }
    }

    /// Returns the details that code acts on.
    #[must_use]
    pub fn facts(&self) -> ErrorFacts<'_> {
        ErrorFacts::of(&self.details)
    }

    /// Adds a detail to the error.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.details.insert(key.to_owned(), value.into());
        self
    }

    /// Marks the error as retryable.
    #[must_use]
    pub fn retryable(mut self) -> Self {
        self.retryable = true;
        self
    }

    /// Adds advice for people.
    #[must_use]
    pub fn recommend(self, action: impl Into<String>) -> Self {
        self.with("recommendedAction", action.into())
    }

    /// Returns `STORAGE_FULL` (retryable, with advice) if the cause is a full disk, otherwise the
    /// error unchanged. The message names the file.
    #[must_use]
    pub fn or_storage_full(mut self, cause: &io::Error) -> Self {
        if !is_storage_full(cause) {
            return self;
        }
        self.code = Code::StorageFull;
        self.retryable().recommend("make room on the disk of the file that the message names, and try again")
    }
}
