//! What `placement check` and `placement prepare` do for a cluster of Slurm.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::Path;

use serde_json::json;
use subagent_protocol::Code;
use subagent_protocol::mcp::TASK_SERVER_PROGRAM;
use subagent_protocol::placement::Placement;
use subagent_protocol::placement::client::cleaned;
use subagent_protocol::placement::engine::{NamedPlace, PlaceQueue, PlaceStart};
use subagent_protocol::placement::kubernetes::manifest::PodManifest;
use subagent_protocol::placement::slurm::{self, JOB_LOG, SlurmCluster};
use subagent_protocol::placement::ssh::program_beside;

use super::prepare::has_no_program;
use super::queue::{self, CheckPlace, run};
use super::remote::{LocalProgram, LocalRuntime};
use super::steps::{PROBE, PassedStep};
use crate::failure::{Failure, Result};
use crate::output::CliOutcome;
use crate::random::random;

/// Checks the clients and the shared folder, and starts and ends a job.
pub(super) async fn checked(
    placement: &Placement,
    cluster: &SlurmCluster,
    program: &str,
    steps: &mut Vec<PassedStep>,
) -> Result<()> {
    let mut found = |step, found: String| steps.push(PassedStep { step, found });
    let identity = run(placement, cluster.identify()).await?;
    let name = slurm::cluster_name(&String::from_utf8_lossy(&identity.stdout)).map(str::to_owned);
    found("engine", name.unwrap_or_else(|| "a cluster without a name".to_owned()));
    let folder = shared_folder(cluster)?;
    let job = format!("subagent-check-{}", random::<8>()?);
    let queue = PlaceQueue::Slurm(cluster.clone());
    let outcome = ran(placement, &queue, (&job, folder.path(), program), &mut found).await;
    let ended = run(placement, cluster.end(&job)).await;
    outcome?;
    ended?;
    found("job", "started and ended".to_owned());
    Ok(())
}

/// Starts a job as for a worker, and looks at the runtime and the folder in it.
async fn ran(
    placement: &Placement,
    queue: &PlaceQueue,
    (name, folder, program): (&str, &Path, &str),
    found: &mut impl FnMut(&'static str, String),
) -> Result<()> {
    let manifest = PodManifest::default();
    let start = PlaceStart { name, worker: PROBE, number: 1, folder, program, request: "", manifest };
    let job = match queue::started(placement, queue, &start).await? {
        CheckPlace::Ready(job) => job,
        CheckPlace::Ended(state) => {
            let what = format!("its job ended at once ({state})");
            return Err(not_usable(placement, program, folder, &what));
        }
    };
    let looked =
        queue::looked_into(placement, queue, (NamedPlace { name, handle: &job }, program), found).await;
    looked.map_err(|failure| match logged(folder).is_empty() {
        true => failure,
        false => not_usable(placement, program, folder, "its job ended"),
    })
}

/// The error for a cluster on which the process that holds the job does not start.
fn not_usable(placement: &Placement, program: &str, folder: &Path, what: &str) -> Failure {
    let (name, said) = (&placement.name, logged(folder));
    let after = if said.is_empty() { String::new() } else { format!(": {said}") };
    Failure::new(Code::PlacementNotPrepared, format!("{program} cannot be used on the nodes: {what}{after}"))
        .with("placement", name.as_str())
        .with("program", program)
        .with("stderr", said)
        .recommend(format!(
            "run `subagent placement prepare {name}`; `folder` of the placement must be at the same path on the nodes"
        ))
}

fn logged(folder: &Path) -> String {
    cleaned(&fs::read(folder.join(JOB_LOG)).unwrap_or_default())
}

/// A folder for one job, beside those of the workers.
fn shared_folder(cluster: &SlurmCluster) -> Result<tempfile::TempDir> {
    let create = || {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&cluster.folder)?;
        tempfile::Builder::new().prefix("check-").tempdir_in(&cluster.folder)
    };
    create().map_err(|error| unusable(&cluster.folder, &error))
}

fn unusable(folder: &str, error: &io::Error) -> Failure {
    Failure::new(Code::PlacementFolderMissing, format!("the shared folder {folder} cannot be used: {error}"))
        .with("folder", folder)
        .recommend("correct `folder` of the placement: a path that this machine and the nodes share")
}

/// Copies the programs into the shared folder, unless they are there.
pub(super) fn prepared(
    placement: &Placement,
    cluster: &SlurmCluster,
    runtime: &LocalRuntime,
) -> Result<CliOutcome> {
    has_no_program(placement)?;
    let program = runtime.program(placement);
    let beside = program_beside(&program, TASK_SERVER_PROGRAM);
    // The runtime is last: where it is, the other one is too.
    let copied = copied(&runtime.task_server, &beside)
        .and_then(|other| Ok(copied(&runtime.own, &program)? || other))
        .map_err(|error| unusable(&cluster.folder, &error))?;
    let data = json!({
        "name": placement.name, "folder": cluster.folder, "program": program,
        "version": env!("CARGO_PKG_VERSION"), "sha256": runtime.own.sha256, "bytes": runtime.own.bytes,
        "uploaded": copied,
    });
    let done = if copied { "prepared" } else { "is prepared already" };
    Ok(CliOutcome::report("placement.prepared", data, format!("{} {done}: {program}", placement.name)))
}

/// Copies a program. Its last step makes it visible.
fn copied(own: &LocalProgram, program: &str) -> io::Result<bool> {
    let path = Path::new(program);
    if LocalProgram::at(path).is_ok_and(|there| there.sha256 == own.sha256) {
        return Ok(false);
    }
    let folder = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let mut new = tempfile::Builder::new().prefix("upload.").tempfile_in(folder)?;
    io::copy(&mut File::open(&own.path)?, new.as_file_mut())?;
    new.as_file().set_permissions(fs::Permissions::from_mode(0o700))?;
    new.as_file().sync_all()?;
    new.persist(path)?;
    Ok(true)
}
