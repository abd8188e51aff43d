//! The same done with one worker, or with several one after the other.

use serde_json::{Value, json};

use crate::client::{DaemonClient, last_worker};
use crate::failure::{Failure, Result};
use crate::output::{CliOutcome, text};

/// What a change is called and how its lines look.
pub(crate) struct ChangeReport {
    /// The type of the envelope for one worker.
    pub(crate) one: &'static str,
    /// The type of the envelope for several.
    pub(crate) several: &'static str,
    /// The keys of the lines.
    pub(crate) keys: &'static [&'static str],
    /// The key under which an error lists the workers that were changed before it.
    pub(crate) done: &'static str,
}

/// Changes the workers one after the other. A failure does not keep the others from it: the first one is returned, with
/// the workers that were changed.
///
/// # Errors
/// `INVALID_ARGUMENT{workerId}` for a flag among several workers: no name and no id begins with a dash. Those of the
/// change, for several workers with `workerId` and what was done.
pub(crate) async fn each(
    client: &mut DaemonClient,
    addresses: &[String],
    report: &ChangeReport,
    mut change: impl AsyncFnMut(&mut DaemonClient, &str) -> Result<Value>,
) -> Result<Vec<Value>> {
    if let ([_, _, ..], Some(flag)) = (addresses, addresses.iter().find(|address| address.starts_with('-'))) {
        let message = format!("{flag} is not a worker; put flags before `--`");
        return Err(Failure::argument(message).with("workerId", flag.as_str()).wrong_usage());
    }
    // A command may make several requests for one worker.
    let pinned = last_worker::pin(client, addresses).await?;
    if let [one] = &*pinned {
        return Ok(vec![change(client, one).await?]);
    }
    let (mut items, mut failure): (Vec<Value>, Option<Failure>) = (Vec::new(), None);
    for address in &pinned {
        match change(client, address).await {
            Ok(data) => items.push(data),
            Err(error) => failure = failure.or(Some(error.with("workerId", address.as_str()))),
        }
    }
    match failure {
        Some(failure) => Err(failure.with(report.done, items)),
        None => Ok(items),
    }
}

impl ChangeReport {
    /// The outcome of changes that all succeeded.
    pub(crate) fn outcome(&self, addresses: &[String], items: Vec<Value>) -> CliOutcome {
        if addresses.len() == 1 {
            return self.texts(addresses, items, |_, data| text::fields(data, self.keys));
        }
        let data = json!({"count": items.len(), "items": items});
        let shown = text::rows(&data, self.keys, "");
        CliOutcome::report(self.several, data, shown).of_workers(addresses)
    }

    /// The same where each worker has a text of its own.
    pub(crate) fn texts(
        &self,
        addresses: &[String],
        mut items: Vec<Value>,
        text_of: impl Fn(&str, &Value) -> String,
    ) -> CliOutcome {
        if let [address] = addresses
            && let Some(data) = items.pop()
        {
            let shown = text_of(address, &data);
            return CliOutcome::report(self.one, data, shown).of_workers(addresses);
        }
        let shown: Vec<String> =
            addresses.iter().zip(&items).map(|(address, data)| text_of(address, data)).collect();
        CliOutcome::report(self.several, json!({"count": items.len(), "items": items}), shown.join("\n\n"))
    }
}
