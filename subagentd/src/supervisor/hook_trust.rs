//! Trust on first use: hooks of a project or of a definition run only while the content of their file is one that the
//! owner has trusted, because agents can write these files (M5).

use std::path::Path;

use subagent_protocol::api::{AllTrustedHooks, DistrustHooks, DistrustedHooks, TrustHooks, TrustedHooks};
use subagent_protocol::hook::{Hook, HookOrigin};
use subagent_protocol::{Code, Error, Result};

use super::shared::Shared;
use super::{Caller, Supervisor, entropy};
use crate::store::{Durability, hook_trust};

/// Whether a hook may run.
///
/// # Errors
/// `STORAGE_ERROR`.
pub(super) async fn is_trusted(shared: &Shared, hook: &Hook) -> Result<bool> {
    match hook.origin {
        HookOrigin::User | HookOrigin::Command => Ok(true),
        HookOrigin::Project | HookOrigin::Definition => {
            let Some(file) = hook.file.to_str().map(str::to_owned) else { return Ok(false) };
            let sha256 = hook.sha256.clone();
            shared.store.read(move |connection| hook_trust::is_trusted(connection, &file, &sha256)).await
        }
    }
}

/// Why a hook does not run, and what to do.
pub(super) fn advice(hook: &Hook) -> String {
    let file = hook.file.display();
    format!("it does not run: you have not trusted this content of {file}; `subagent hook trust {file}`")
}

impl Supervisor {
    /// Trusts the hooks of a file as long as its content stays the same.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT{file}`, `INVALID_ARGUMENT{sha256}`, `STORAGE_ERROR`.
    pub async fn trust_hooks(&self, caller: Caller, request: TrustHooks) -> Result<TrustedHooks> {
        let file = checked(&request.file)?;
        let is_hash = request.sha256.len() == 64
            && request.sha256.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        if !is_hash {
            let message = "sha256 must be 64 hexadecimal digits in lowercase";
            return Err(Error::new(Code::InvalidArgument, message).with("sha256", request.sha256));
        }
        let (_, key) = self.guarded(caller, "trust hooks", &request)?;
        let now = entropy::now();
        let trusted = self.shared.store.write(Durability::Full, 1, move |tx| {
            tx.once(key.as_ref(), now, |tx| {
                tx.trust_hooks(&file, &request.sha256, now)?;
                Ok(TrustedHooks { file: request.file, sha256: request.sha256, trusted_at: now })
            })
        });
        Ok(trusted.await?.0)
    }

    /// Trusts no content of a file any more.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT{file}`, `STORAGE_ERROR`.
    pub async fn distrust_hooks(&self, caller: Caller, request: DistrustHooks) -> Result<DistrustedHooks> {
        let file = checked(&request.file)?;
        let (_, key) = self.guarded(caller, "distrust hooks", &request)?;
        let now = entropy::now();
        let removed = self.shared.store.write(Durability::Full, 1, move |tx| {
            tx.once(key.as_ref(), now, |tx| {
                let removed = tx.distrust_hooks(&file)?;
                Ok(DistrustedHooks { file: request.file, removed })
            })
        });
        Ok(removed.await?.0)
    }

    /// The contents of files that are trusted.
    ///
    /// # Errors
    /// `STORAGE_ERROR`.
    pub async fn trusted_hooks(&self) -> Result<AllTrustedHooks> {
        let items = self.shared.store.read(hook_trust::all).await?;
        Ok(AllTrustedHooks { count: items.len(), items })
    }
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
