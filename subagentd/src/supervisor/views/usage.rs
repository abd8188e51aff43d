//! Usage of turns, with the prices of the user's config.

use subagent_config::prices::Prices;
use subagent_config::{Environment, discovery};
use subagent_protocol::api::{UsageBy, UsageShown};
use subagent_protocol::{Code, Error, Result};

use super::inspect;
use crate::store::turns::usage;
use crate::supervisor::Supervisor;
use crate::usage::Sums;

/// Returns the usage of the stored turns of all workers.
///
/// # Errors
/// `INVALID_ARGUMENT` for an invalid `since`, `CONFIG_PARSE_ERROR` for a config with unreadable
/// prices, `STORAGE_ERROR`.
pub(crate) async fn usage(
    supervisor: &Supervisor,
    by: UsageBy,
    since: Option<&str>,
    environment: Environment,
) -> Result<UsageShown> {
    let since = since.map(inspect::time).transpose()?;
    let prices = prices(environment).await?;
    let read = supervisor.shared.store.read(move |connection| {
        let mut sums = Sums::new(by, &prices);
        usage::turns(connection, since, &mut |turn| sums.add(&turn))?;
        Ok(sums.shown(since))
    });
    read.await
}

/// Reads the prices from the user's own config. A project's config does not set the user's prices.
///
/// # Errors
/// `CONFIG_PARSE_ERROR`.
pub(crate) async fn prices(environment: Environment) -> Result<Prices> {
    let read = tokio::task::spawn_blocking(move || {
        let path = discovery::user_path(&environment);
        match path.filter(|path| path.try_exists().unwrap_or(true)) {
            Some(path) => Ok(discovery::load_regular(Some(&path), None, &environment)?.config.prices),
            None => Ok(Prices::new()),
        }
    });
    read.await.map_err(|error| Error::new(Code::Internal, error.to_string()))?
}
