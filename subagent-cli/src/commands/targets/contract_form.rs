//! The JSON of the contract's forms has the keys of the Python program and no others.

use serde_json::Value;
use subagent_protocol::ids::WorkerId;

use crate::context::CliContext;
use crate::output::OutputFormat;

/// Takes the name of a worker out of the document of a contract form. What a person reads keeps it.
pub(crate) fn without_name(worker: &mut Value, context: &CliContext) {
    if context.format == OutputFormat::Json
        && let Some(members) = worker.as_object_mut()
    {
        members.remove("name");
    }
}

/// The same, unless the worker was addressed as no contract form addresses it.
pub(crate) fn without_name_of(address: &str, worker: &mut Value, context: &CliContext) {
    if address.parse::<WorkerId>().is_ok() {
        without_name(worker, context);
    }
}
