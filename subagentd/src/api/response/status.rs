//! Maps error codes to HTTP statuses. Programs match on the code; the status serves HTTP tools.

use axum::http::StatusCode;
use subagent_protocol::Code;

/// Returns the HTTP status of an error code.
pub(in crate::api) const fn status(code: Code) -> StatusCode {
    match code {
        Code::InvalidInput
        | Code::TerminalRequired
        | Code::InvalidArgument
        | Code::InvalidApprovalDecision
        | Code::InvalidElicitationContent
        | Code::ConfigParseError
        | Code::BackupInvalid
        | Code::HostUnsupported
        | Code::WorkspaceRootNotFound => StatusCode::BAD_REQUEST,
        Code::Unauthorized => StatusCode::UNAUTHORIZED,
        Code::TooManyRequests => StatusCode::TOO_MANY_REQUESTS,
        Code::InvalidControllerHandle
        | Code::ReadOnly
        | Code::ForbiddenFromWorker
        | Code::TaskNotPermitted
        | Code::ForbiddenOrigin => StatusCode::FORBIDDEN,
        Code::LauncherNotFound
        | Code::PlacementNotFound
        | Code::HostNotFound
        | Code::RoleHintNotFound
        | Code::ControllerNotFound
        | Code::WorkerNotFound
        | Code::TurnNotFound
        | Code::EventNotFound
        | Code::ApprovalNotFound
        | Code::RuleNotFound
        | Code::SessionNotFound
        | Code::AgentNotFound
        | Code::MemoryNotFound
        | Code::WorktreeNotFound
        | Code::ScheduleNotFound
        | Code::TriggerNotFound
        | Code::TaskNotFound
        | Code::HandoffNotFound => StatusCode::NOT_FOUND,
        Code::ConfigAlreadyExists
        | Code::BackupAlreadyExists
        | Code::RestoreWouldOrphan
        | Code::OptionNotAvailable
        | Code::SandboxUnavailable
        | Code::AttachmentNotSupported
        | Code::CapabilityNotSupported
        | Code::ControllerOwnershipConflict
        | Code::WorkerBusy
        | Code::QueueFull
        | Code::QueuePaused
        | Code::TurnOpen
        | Code::TurnNotQueued
        | Code::TurnNotOpen
        | Code::TurnNotRetryable
        | Code::WorkerStopped
        | Code::WorkerCopied
        | Code::Fenced
        | Code::StateDirMismatch
        | Code::WorkerNotRunning
        | Code::WorkerNotWaitingApproval
        | Code::InvalidWorkerState
        | Code::SessionInUse
        | Code::ApprovalNotPending
        | Code::PolicyViolation
        | Code::HookDenied
        | Code::HookFailed
        | Code::RuleNotDerivable
        | Code::BudgetExceeded
        | Code::BudgetUnknown
        | Code::AgentNotPrimary
        | Code::AgentNotASubagent
        | Code::AgentNotUsable
        | Code::MemoryNotUsable
        | Code::TaskNameTaken
        | Code::NameTaken
        | Code::AmbiguousWorker
        | Code::RequestAmbiguous
        | Code::TaskDepthLimit
        | Code::TaskLimit
        | Code::ContextLost
        | Code::Cancelled
        | Code::MaxIterationsReached
        | Code::TimedOut
        | Code::ApprovalTimeout
        | Code::WorktreeNeedsGit
        | Code::WorktreeExists
        | Code::ScheduleUnattended
        | Code::TriggerPaused
        | Code::CommandFailed
        | Code::WatchFailed
        | Code::WorktreeBusy
        | Code::WorktreeHasWork
        | Code::WorktreeSetupFailed
        | Code::LandConflict
        | Code::LandRefused
        | Code::LandCheckFailed
        | Code::GitFailed
        | Code::IdempotencyConflict
        | Code::DaemonAlreadyRunning => StatusCode::CONFLICT,
        Code::CursorExpired => StatusCode::GONE,
        Code::DaemonTooNew | Code::DaemonTooOld => StatusCode::PRECONDITION_FAILED,
        Code::PayloadTooLarge | Code::ResultTooLarge | Code::ResultSchemaNotMet => {
            StatusCode::PAYLOAD_TOO_LARGE
        }
        Code::EnvRequired => StatusCode::PRECONDITION_REQUIRED,
        Code::BackendLauncher
        | Code::PlacementNotPrepared
        | Code::HostNotPrepared
        | Code::PlacementFolderMissing
        | Code::BackendUnavailable
        | Code::BackendSocketUnreachable
        | Code::BackendPermissionDenied
        | Code::BackendProtocolError
        | Code::BackendRpcError
        | Code::AuthRequired
        | Code::AgentMethodUnsupported
        | Code::BackendRuntimeError
        | Code::RuntimeLost => StatusCode::BAD_GATEWAY,
        Code::DaemonNotRunning | Code::DaemonBusy | Code::TooManyOpenFiles => StatusCode::SERVICE_UNAVAILABLE,
        // Not 408: HTTP clients repeat such a request automatically.
        Code::WaitTimeout
        | Code::WaitNoProgress
        | Code::BackendTimeout
        | Code::StopIncomplete
        | Code::PlacementUnreachable
        | Code::HostUnreachable
        | Code::PlacementIncompatible
        | Code::DaemonUnresponsive => StatusCode::GATEWAY_TIMEOUT,
        Code::StorageFull => StatusCode::INSUFFICIENT_STORAGE,
        Code::StorageError
        | Code::StateDirUnsupportedFs
        | Code::StateDirForeign
        | Code::StateDirTooNew
        | Code::StateDirUnwritable
        | Code::RuntimeDirUnsafe
        | Code::RuntimeDirUnwritable
        | Code::ConfigUnwritable
        | Code::ControllerHintUnwritable
        | Code::SocketPathTooLong
        | Code::DaemonStartFailed
        | Code::Internal => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_an_error_and_the_clients_faults_are_distinguished_from_ours() {
        for code in Code::ALL {
            let status = status(*code);
            assert!(status.is_client_error() || status.is_server_error(), "{code}");
        }
        for (code, expected) in [
            (Code::InvalidInput, 400),
            (Code::ForbiddenFromWorker, 403),
            (Code::WorkerNotFound, 404),
            (Code::WorkerBusy, 409),
            (Code::PayloadTooLarge, 413),
            (Code::DaemonTooNew, 412),
            (Code::Internal, 500),
            (Code::DaemonNotRunning, 503),
            (Code::TooManyOpenFiles, 503),
            (Code::WaitTimeout, 504),
        ] {
            assert_eq!(status(code).as_u16(), expected, "{code}");
        }
    }
}
