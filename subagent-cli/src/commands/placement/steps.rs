//! The steps of `placement check` that kinds of placements share.

use serde::Serialize;
use subagent_protocol::Code;
use subagent_protocol::placement::Placement;
use subagent_protocol::placement::client::cleaned;

use super::remote;
use crate::failure::{Failure, Result};

/// One step that succeeded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct PassedStep {
    pub(super) step: &'static str,
    pub(super) found: String,
}

/// Returns the version that a program there has printed, which must be this one.
pub(super) fn same_version(
    placement: &Placement,
    program: &str,
    printed: &remote::Printed,
) -> Result<String> {
    if printed.code != 0 {
        return Err(printed.failure(placement, program));
    }
    let (version, expected) =
        (printed.last_line(), format!("subagent-runtime {}", env!("CARGO_PKG_VERSION")));
    if version == expected {
        return Ok(version);
    }
    let (name, place) = (&placement.name, placement.located());
    let message = format!("{program} {place} is `{version}`, and this is `{expected}`");
    Err(Failure::new(Code::PlacementNotPrepared, message)
        .with("placement", name.as_str())
        .with("program", program)
        .recommend(format!(
            "install this version there, or remove placements.{name}.program and run `subagent placement prepare {name}`"
        )))
}

/// Returns the working folder that a shell there has printed.
pub(super) fn folder_of(placement: &Placement, printed: &remote::Printed) -> Result<String> {
    if printed.code == 0 {
        return Ok(printed.last_line());
    }
    let said = cleaned(&printed.stderr);
    let message = format!("the folder {} cannot be used {}: {said}", placement.cwd, placement.located());
    Err(Failure::new(Code::PlacementFolderMissing, message)
        .with("placement", placement.name.as_str())
        .with("cwd", placement.cwd.as_str())
        .recommend(format!("create it there, or correct placements.{}.cwd", placement.name)))
}

/// Returns the version of git that a shell there has printed.
pub(super) fn git_of(placement: &Placement, printed: &remote::Printed) -> Result<String> {
    if printed.code == 0 {
        return Ok(printed.last_line());
    }
    let (place, said) = (placement.located(), cleaned(&printed.stderr));
    let message = format!("`transport: git` needs git, and there is none {place}: {said}");
    Err(Failure::new(Code::PlacementNotPrepared, message)
        .with("placement", placement.name.as_str())
        .recommend(format!("install git there, or remove `transport` from placements.{}", placement.name)))
}

/// The id of a worker that does not exist.
pub(super) const PROBE: &str = "w_0000000000";
