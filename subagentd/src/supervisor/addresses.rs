//! Resolves the address of a worker: an id, a name, or the beginning of an id.

use serde_json::json;
use subagent_protocol::api::{RenameWorker, WorkerRenamed};
use subagent_protocol::ids::WorkerId;
use subagent_protocol::{Code, Error, Result, worker_name};

use super::{ApiCaller, Supervisor, entropy};
use crate::store::{Durability, controllers, requests, workers};

/// Returns the error for an address that matches no worker.
#[must_use]
pub(crate) fn not_found(supervisor: &Supervisor, address: &str) -> Error {
    supervisor.roster.not_found(address)
}

/// Returns the id of the worker with this id, name or unique prefix of an id. An address that
/// matches no worker is returned unchanged, because each request has its own error for it.
///
/// # Errors
/// `AMBIGUOUS_WORKER{address,candidates}`, `STORAGE_ERROR`.
pub(crate) async fn find(supervisor: &Supervisor, address: &str) -> Result<String> {
    // Names that look like an id are refused, so an id needs no lookup.
    if address.parse::<WorkerId>().is_ok() {
        return Ok(address.to_owned());
    }
    let wanted = address.to_owned();
    let read = supervisor.shared.store.read(move |connection| {
        if let Some(found) = workers::names::by_name(connection, &wanted)? {
            return Ok((Some(found), Vec::new()));
        }
        let is_prefix = wanted.starts_with("w_") && wanted.len() >= worker_name::MIN_ID_PREFIX;
        let candidates =
            if is_prefix { workers::names::by_id_prefix(connection, &wanted)? } else { Vec::new() };
        Ok((None, candidates))
    });
    let (found, candidates) = read.await?;
    if let Some(found) = found {
        return Ok(found);
    }
    match candidates.as_slice() {
        [] => Ok(address.to_owned()),
        [one] => Ok(one.worker_id.as_str().to_owned()),
        several => {
            let names: Vec<&str> = several.iter().map(|found| found.name.as_str()).collect();
            let list: Vec<_> = several
                .iter()
                .map(|found| json!({"workerId": found.worker_id, "name": found.name}))
                .collect();
            let message = format!("{address} matches several workers: {}", names.join(", "));
            Err(Error::new(Code::AmbiguousWorker, message)
                .with("address", address)
                .with("candidates", list)
                .recommend("use a name, or more characters of the id"))
        }
    }
}

/// Returns the worker that was addressed last if it still exists, else the one that changed
/// last.
///
/// # Errors
/// `WORKER_NOT_FOUND`, `STORAGE_ERROR`.
pub(crate) async fn last(supervisor: &Supervisor, addressed: Option<String>) -> Result<String> {
    let read = supervisor.shared.store.read(move |connection| {
        if let Some(worker_id) = addressed
            && workers::get(connection, &worker_id)?.is_some()
        {
            return Ok(Some(worker_id));
        }
        workers::names::changed_last(connection)
    });
    read.await?.ok_or_else(|| supervisor.roster.not_found(worker_name::LAST))
}

/// Renames a worker.
///
/// # Errors
/// `WORKER_NOT_FOUND`, `INVALID_ARGUMENT{field}`, `NAME_TAKEN{name,workerId}`,
/// `INVALID_CONTROLLER_HANDLE`, `IDEMPOTENCY_CONFLICT`, `STORAGE_ERROR`.
pub(crate) async fn rename(
    supervisor: &Supervisor,
    caller: ApiCaller,
    worker: &str,
    request: RenameWorker,
) -> Result<WorkerRenamed> {
    let row = supervisor.row(worker).await?;
    worker_name::check(&request.name)?;
    let (owner, key) = supervisor.guarded(caller, &format!("rename {worker}"), &request)?;
    let now = entropy::now();
    let renamed = WorkerRenamed { worker_id: row.worker_id, name: request.name, previous: row.name };
    subagent_failpoint::hit("rename.before_commit");
    let stored = supervisor.shared.store.write(Durability::Full, 1, move |tx| {
        requests::once(tx, key.as_ref(), now, |tx| {
            controllers::check_owner_of(tx.connection(), &owner, &row.controller_id)?;
            workers::names::rename(tx, row.id, &renamed.name)?;
            Ok(renamed)
        })
    });
    let stored = stored.await;
    subagent_failpoint::hit("rename.after_commit");
    Ok(stored?.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{NewName, NewWorker};
    use crate::supervisor::start::tests::supervisor;
    use crate::supervisor::testing::{caller, choice, folder};
    use subagent_core::model::LifecycleState;

    /// Opens a supervisor with two workers whose ids share a prefix.
    async fn with_twins(dir: &std::path::Path) -> Supervisor {
        let supervisor = supervisor(dir).await;
        let key = choice(dir).workspace_key;
        let stored = supervisor.shared.store.write(Durability::Full, 1, move |tx| {
            let controller = controllers::by_workspace(tx.connection(), &key)?.unwrap();
            for number in [1, 2] {
                let worker = NewWorker {
                    worker_id: WorkerId::from_random([0xab, 0, 0, 0, number]),
                    controller: controller.id,
                    name: NewName::OfLauncher,
                    label: "worker".into(),
                    launcher: "none".into(),
                    role: "default".into(),
                    cwd: key.clone(),
                    spec: "{}".into(),
                    placeholder: "sess_000000000000".into(),
                    state: LifecycleState::Stopped,
                    placement: None,
                };
                workers::insert(tx, &worker, entropy::now())?;
            }
            Ok(())
        });
        stored.await.unwrap();
        supervisor
    }

    #[tokio::test]
    async fn an_address_fits_one_worker_or_names_the_candidates() {
        let dir = folder();
        let supervisor = with_twins(dir.path()).await;
        for (address, worker) in
            [("none-1", "w_ab00000001"), ("NONE-2", "w_ab00000002"), ("w_ab00000002", "w_ab00000002")]
        {
            assert_eq!(find(&supervisor, address).await.unwrap(), worker);
        }
        let ambiguous = find(&supervisor, "w_ab0000000").await.unwrap_err();
        assert_eq!(ambiguous.code, Code::AmbiguousWorker);
        assert_eq!(ambiguous.details["candidates"][0]["name"], "none-2");
        for unknown in ["w_a", "w_ac", "none", "unknown", ""] {
            assert_eq!(find(&supervisor, unknown).await.unwrap(), unknown, "it stays as it is");
        }
        assert_eq!(last(&supervisor, None).await.unwrap(), "w_ab00000002");
        let addressed = Some("w_ab00000001".to_owned());
        assert_eq!(last(&supervisor, addressed).await.unwrap(), "w_ab00000001");
        let gone = Some("w_0000000000".to_owned());
        assert_eq!(last(&supervisor, gone).await.unwrap(), "w_ab00000002");
        supervisor.shutdown(false).await.unwrap();
    }

    #[tokio::test]
    async fn a_repeated_rename_is_the_same_rename() {
        let dir = folder();
        let supervisor = with_twins(dir.path()).await;
        let rename = |name: &str| {
            let request = RenameWorker { name: name.into() };
            rename(&supervisor, caller(Some("key")), "w_ab00000001", request)
        };
        let first = rename("auth").await.unwrap();
        assert_eq!((first.name.as_str(), first.previous.as_str()), ("auth", "none-1"));
        assert_eq!(rename("auth").await.unwrap().previous, "none-1");
        assert_eq!(rename("login").await.unwrap_err().code, Code::IdempotencyConflict);
        supervisor.shutdown(false).await.unwrap();
    }
}
