//! The proof that a place has ended which its engine has forgotten. Each engine has its own: absence
//! alone may mean that the clients reach another cluster.

use std::path::Path;

use subagent_protocol::ids::WorkerId;
use subagent_protocol::placement::engine::{PlaceQueue, PlaceStatus};
use subagent_protocol::placement::kubernetes::{self, KubernetesCluster};
use subagent_protocol::placement::slurm::{self, JOB_FILE, SlurmCluster};
use subagent_protocol::{Error, Result};

use super::carrier::Carrier;
use super::queued::{asked_file, output, successful};
use super::stream::unreachable;

/// The state of a pod that was deleted.
const DELETED: &str = "deleted";
/// The identity of an engine in whose cluster this daemon runs.
const IN_CLUSTER: &str = "in the cluster";

/// Returns what tells the engine from others of its kind, before a place is asked for. Empty for one
/// whose places say it themselves.
///
/// # Errors
/// `PLACEMENT_UNREACHABLE`.
pub(super) async fn identity(carrier: &Carrier, engine: &PlaceQueue) -> Result<String> {
    match engine {
        PlaceQueue::Slurm(_) => Ok(String::new()),
        PlaceQueue::Kubernetes(cluster) => server(carrier, cluster).await,
    }
}

/// Returns the state of a place that the engine does not know: gone, if that is proved.
///
/// # Errors
/// `PLACEMENT_UNREACHABLE` if nothing is proved.
pub(super) async fn proved(
    carrier: &Carrier,
    engine: &PlaceQueue,
    worker: &WorkerId,
    number: u64,
) -> Result<PlaceStatus> {
    match engine {
        PlaceQueue::Slurm(slurm) => forgotten_job(carrier, slurm, worker, number).await,
        PlaceQueue::Kubernetes(cluster) => {
            let asked = std::fs::read_to_string(asked_file(carrier, worker, number));
            let asked = asked.map_err(|error| unreadable(&error))?;
            let now = server(carrier, cluster).await?;
            if asked != now {
                let what = format!("the pod was created at {asked}, and kubectl reaches {now}");
                return Err(unreachable(&what, ""));
            }
            let handle = carrier.place_name(worker, number);
            Ok(PlaceStatus::Gone { handle, state: DELETED.to_owned() })
        }
    }
}

fn unreadable(error: &std::io::Error) -> Error {
    unreachable(&format!("the server at which the pod was created is not known: {error}"), "")
}

/// Returns the server and namespace that the client reaches.
async fn server(carrier: &Carrier, cluster: &KubernetesCluster) -> Result<String> {
    let said = output(carrier, cluster.identify()).await?;
    if !said.status.success() && kubernetes::is_in_cluster(&said.stderr) {
        return Ok(IN_CLUSTER.to_owned());
    }
    let said = successful(carrier, said)?;
    Ok(String::from_utf8_lossy(&said.stdout).trim().to_owned())
}

/// Slurm forgets a job only after its end. It is looked up in the accounting, and else in the worker's
/// folder.
async fn forgotten_job(
    carrier: &Carrier,
    engine: &SlurmCluster,
    worker: &WorkerId,
    number: u64,
) -> Result<PlaceStatus> {
    // A cluster without accounting may not have this client.
    if let Ok(look_back) = output(carrier, engine.look_back(&carrier.place_name(worker, number))).await
        && look_back.status.success()
    {
        match slurm::status(&String::from_utf8_lossy(&look_back.stdout)) {
            PlaceStatus::Absent => {}
            status => return Ok(status),
        }
    }
    if !carrier.folder(worker).is_dir() {
        return Err(unreachable("the worker's folder is gone: is the shared file system mounted?", ""));
    }
    let file = carrier.folder(worker).join(format!("{JOB_FILE}{number}"));
    let Some((handle, cluster)) = read_job(&file)? else {
        // No process of this place has begun.
        return Ok(PlaceStatus::Gone { handle: String::new(), state: "not known".to_owned() });
    };
    let identity = successful(carrier, output(carrier, engine.identify()).await?)?;
    let identity = String::from_utf8_lossy(&identity.stdout);
    match slurm::cluster_name(&identity) {
        Some(name) if name == cluster => {
            // It may have another name now.
            let said = output(carrier, engine.look_at(&handle)).await?;
            match slurm::status(&String::from_utf8_lossy(&said.stdout)) {
                PlaceStatus::Absent if slurm::is_unknown(&said.stderr) => {}
                PlaceStatus::Absent => drop(successful(carrier, said)?),
                status => return Ok(status),
            }
            Ok(PlaceStatus::Gone { handle, state: "ended, and forgotten by the engine".to_owned() })
        }
        name => {
            let name = name.unwrap_or("another one");
            Err(unreachable(
                &format!("the job {handle} is of the cluster {cluster}, and the clients reach {name}"),
                "",
            ))
        }
    }
}

/// Returns the job and the cluster that a place has named; `None` if no process of it has begun.
///
/// # Errors
/// `PLACEMENT_UNREACHABLE` if that cannot be read.
fn read_job(file: &Path) -> Result<Option<(String, String)>> {
    let unreadable = |why: &str| unreachable(&format!("{} cannot be read: {why}", file.display()), "");
    match std::fs::read_to_string(file) {
        Ok(text) => match text.trim().split_once(' ') {
            Some((job, cluster)) => Ok(Some((job.to_owned(), cluster.to_owned()))),
            None => Err(unreadable("it has no job")),
        },
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(unreadable(&error.to_string())),
    }
}
