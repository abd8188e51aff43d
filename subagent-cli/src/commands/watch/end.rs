//! The exit code of a `watch` that has ended: the outcome of the workers' last turns, as of `wait`.

use serde_json::json;
use subagent_protocol::Code;
use subagent_protocol::api::{WaitMany, WaitMode, WaitedFor};

use crate::client::{DaemonClient, items, wait_many};
use crate::commands::wait::many;
use crate::commands::waiting::end::FoundWorker;
use crate::exit_code::TIMEOUT;
use crate::failure::Result;

/// The daemon answers at once. Zero would mean no limit.
const LOOK_SECONDS: f64 = 0.001;

/// Returns the first exit code that is not 0. An open turn has [`TIMEOUT`] if it was followed.
///
/// # Errors
/// Those of [`DaemonClient::ask`].
pub(crate) async fn code(client: &mut DaemonClient, workers: &[String], follows: bool) -> Result<u8> {
    for worker in workers {
        let request = WaitMany {
            workers: vec![WaitedFor { worker_id: worker.clone(), from_event_id: None }],
            mode: WaitMode::All,
            until: None,
            include_history: false,
            timeout_seconds: LOOK_SECONDS,
        };
        let found = match wait_many::wait(client, request).await {
            Err(failure) if failure.is(Code::WaitTimeout) => {
                json!({ "items": failure.details.get("items") })
            }
            // It was removed while its end was shown.
            Err(failure) if follows && failure.is(Code::WorkerNotFound) => continue,
            found => found?,
        };
        let code = match many::worst(client, &found).await? {
            0 if follows && items(&found).first().is_some_and(|item| FoundWorker::of(item).waits()) => {
                TIMEOUT
            }
            code => code,
        };
        if code != 0 {
            return Ok(code);
        }
    }
    Ok(0)
}
