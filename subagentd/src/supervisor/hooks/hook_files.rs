//! Trust in files with hooks, as the owner grants and withdraws it.

use std::collections::HashSet;
use std::path::Path;

use subagent_protocol::api::{AllTrustedHooks, DistrustHooks, DistrustedHooks, TrustHooks, TrustedHooks};
use subagent_protocol::{Code, Error, Result};

use crate::store::{Durability, hook_trust, removal, requests};
use crate::supervisor::{ApiCaller, Supervisor, entropy};

/// Trusts the hooks of a file until its content changes.
///
/// # Errors
/// `INVALID_ARGUMENT{file}`, `INVALID_ARGUMENT{sha256}`, `INVALID_CONTROLLER_HANDLE`,
/// `STORAGE_ERROR`.
pub(crate) async fn trust_hooks(
    supervisor: &Supervisor,
    caller: ApiCaller,
    request: TrustHooks,
) -> Result<TrustedHooks> {
    let file = checked(&request.file)?;
    let is_hash = request.sha256.len() == 64
        && request.sha256.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    if !is_hash {
        let message = "sha256 must be 64 hexadecimal digits in lowercase";
        return Err(Error::new(Code::InvalidArgument, message).with("sha256", request.sha256));
    }
    let (owner, key) = supervisor.guarded(caller, "trust hooks", &request)?;
    let now = entropy::now();
    let trusted = supervisor.shared.store.write(Durability::Full, 1, move |tx| {
        requests::once(tx, key.as_ref(), now, |tx| {
            removal::check_owner_of_all(tx.connection(), &owner, &HashSet::new())?;
            hook_trust::trust(tx, &file, &request.sha256, now)?;
            Ok(TrustedHooks { file: request.file, sha256: request.sha256, trusted_at: now })
        })
    });
    Ok(trusted.await?.0)
}

/// Withdraws trust from all contents of a file.
///
/// # Errors
/// `INVALID_ARGUMENT{file}`, `INVALID_CONTROLLER_HANDLE`, `STORAGE_ERROR`.
pub(crate) async fn distrust_hooks(
    supervisor: &Supervisor,
    caller: ApiCaller,
    request: DistrustHooks,
) -> Result<DistrustedHooks> {
    let file = checked(&request.file)?;
    let (owner, key) = supervisor.guarded(caller, "distrust hooks", &request)?;
    let now = entropy::now();
    let removed = supervisor.shared.store.write(Durability::Full, 1, move |tx| {
        requests::once(tx, key.as_ref(), now, |tx| {
            removal::check_owner_of_all(tx.connection(), &owner, &HashSet::new())?;
            let removed = hook_trust::distrust(tx, &file)?;
            Ok(DistrustedHooks { file: request.file, removed })
        })
    });
    Ok(removed.await?.0)
}

/// Lists the trusted contents of files.
pub(crate) async fn trusted_hooks(supervisor: &Supervisor) -> Result<AllTrustedHooks> {
    let items = supervisor.shared.store.read(hook_trust::all).await?;
    Ok(AllTrustedHooks { count: items.len(), items })
}

fn checked(file: &Path) -> Result<String> {
    match file.to_str().filter(|_| file.is_absolute()) {
        Some(file) => Ok(file.to_owned()),
        None => {
            let message = format!("file must be an absolute path of UTF-8 text, not {}", file.display());
            Err(Error::new(Code::InvalidArgument, message).with("file", file.display().to_string()))
        }
    }
}
