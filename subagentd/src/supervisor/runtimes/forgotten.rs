//! The proof that a place has ended which its engine has forgotten. Each engine has its own: absence
//! alone may mean that the clients reach another cluster.

use std::path::Path;
use std::time::Duration;

use subagent_protocol::Result;
use subagent_protocol::ids::WorkerId;
use subagent_protocol::placement::engine::{PlaceQueue, PlaceStatus};
use subagent_protocol::placement::kubernetes::status::shortened;
use subagent_protocol::placement::slurm::{self, JOB_FILE, SlurmCluster};

use super::asked::{self, AskedPlace};
use super::carrier::Carrier;
use super::client::{output, successful};
use super::queued::look;
use super::stream::unreachable;

/// The state of a pod that was deleted.
const DELETED: &str = "deleted";
/// Time after which a request without an answer creates no pod any more. A client that outlives its daemon
/// asks the API server what it knows first, and may wait for each of these answers.
const REQUEST_LIMIT: Duration = Duration::from_secs(60);

/// Returns what tells the cluster that the client reaches from others; empty if its places say it
/// themselves.
///
/// # Errors
/// `PLACEMENT_UNREACHABLE`.
pub(super) async fn cluster(carrier: &Carrier, engine: &PlaceQueue) -> Result<String> {
    let Some(identify) = engine.identify() else { return Ok(String::new()) };
    let said = successful(carrier, output(carrier, identify).await?)?;
    let cluster = shortened(&String::from_utf8_lossy(&said.stdout));
    match cluster.is_empty() {
        true => Err(unreachable("the engine does not say which cluster it is", "")),
        false => Ok(cluster),
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
        PlaceQueue::Command(_) => match asked::has_ended(carrier, worker, number).await? {
            true => {
                let handle = asked::name(carrier, worker, number).await?;
                Ok(PlaceStatus::Gone { handle, state: "ended".to_owned() })
            }
            false => Err(unreachable("the handle of the place is not known", "")),
        },
        PlaceQueue::Kubernetes(_) => {
            match asked::read(carrier, worker, number).await? {
                Some(mut asked) => {
                    proves_absence(&asked, &cluster(carrier, engine).await?)?;
                    // The absence that was seen before may be that of another cluster.
                    let status = look(carrier, engine, (worker, number), &mut asked.identity).await?;
                    if status != PlaceStatus::Absent {
                        return Err(unreachable("the engine knows the pod again", ""));
                    }
                    proves_absence(&asked, &cluster(carrier, engine).await?)?;
                }
                None if asked::has_ended(carrier, worker, number).await? => {}
                None => return Err(unreachable("the cluster of the pod is not known", "")),
            }
            let handle = asked::name(carrier, worker, number).await?;
            Ok(PlaceStatus::Gone { handle, state: DELETED.to_owned() })
        }
    }
}

/// Decides whether the absence of a pod in this cluster proves its end.
fn proves_absence(asked: &AskedPlace, cluster: &str) -> Result<()> {
    if asked.identity.cluster != cluster {
        let what = "kubectl reaches another cluster or namespace than that of the pod";
        return Err(unreachable(what, "")
            .with("asked", asked.identity.cluster.as_str())
            .with("reached", cluster));
    }
    if asked.identity.uid.is_none() && asked.age < REQUEST_LIMIT {
        return Err(unreachable("the request for the pod may still be on its way", ""));
    }
    Ok(())
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
    if let Ok(look_back) =
        output(carrier, engine.look_back(&asked::name(carrier, worker, number).await?)).await
        && look_back.status.success()
    {
        match slurm::status(&String::from_utf8_lossy(&look_back.stdout)) {
            PlaceStatus::Absent => {}
            status => return Ok(status),
        }
    }
    let folder = carrier.folder(worker);
    let named = tokio::task::spawn_blocking(move || named_job(&folder, number)).await;
    let named = named.unwrap_or_else(|error| Err(unreachable(&error.to_string(), "")))?;
    let Some((handle, cluster)) = named else {
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
fn named_job(folder: &Path, number: u64) -> Result<Option<(String, String)>> {
    if !folder.is_dir() {
        return Err(unreachable("the worker's folder is gone: is the shared file system mounted?", ""));
    }
    let file = folder.join(format!("{JOB_FILE}{number}"));
    let unreadable = |why: &str| unreachable(&format!("{} cannot be read: {why}", file.display()), "");
    match std::fs::read_to_string(&file) {
        Ok(text) => match text.trim().split_once(' ') {
            Some((job, cluster)) => Ok(Some((job.to_owned(), cluster.to_owned()))),
            None => Err(unreadable("it has no job")),
        },
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(unreadable(&error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use subagent_protocol::placement::engine::PlaceIdentity;

    use super::*;

    #[test]
    fn only_the_cluster_of_a_pod_proves_its_absence() {
        let asked = |cluster: &str, uid: Option<&str>, seconds| AskedPlace {
            identity: PlaceIdentity {
                cluster: cluster.into(),
                request: "0f".into(),
                name: String::new(),
                uid: uid.map(str::to_owned),
            },
            age: Duration::from_secs(seconds),
            given_up: false,
        };
        for (asked, is_proved) in [
            (asked("c-1", Some("u"), 0), true),
            (asked("c-2", Some("u"), 1000), false),
            // Its creation may be on its way.
            (asked("c-1", None, 3), false),
            (asked("c-1", None, 40), false),
            (asked("c-1", None, 60), true),
            (asked("c-2", None, 60), false),
        ] {
            assert_eq!(proves_absence(&asked, "c-1").is_ok(), is_proved, "{asked:?}");
        }
    }
}
