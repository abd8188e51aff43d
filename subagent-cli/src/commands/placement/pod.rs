//! What `placement check` and `placement prepare` do for a pod of Kubernetes.

use std::path::Path;

use serde_json::json;
use subagent_config::start::templates;
use subagent_protocol::Code;
use subagent_protocol::placement::Placement;
use subagent_protocol::placement::client::cleaned;
use subagent_protocol::placement::engine::{NamedPlace, PlaceIdentity, PlaceQueue, PlaceStart};
use subagent_protocol::placement::kubernetes::{KubernetesCluster, PROGRAM};

use super::queue::{self, CheckPlace, run};
use super::remote::LocalRuntime;
use super::steps::{PROBE, PassedStep};
use crate::failure::{Failure, Result};
use crate::output::CliOutcome;
use crate::random::random;

/// The folder of an image in which its PATH finds programs.
const FOLDER_IN_IMAGE: &str = "/usr/local/bin/";

/// Checks the client and the cluster, and creates and deletes a pod.
pub(super) async fn checked(
    placement: &Placement,
    cluster: &KubernetesCluster,
    program: &str,
    steps: &mut Vec<PassedStep>,
) -> Result<()> {
    let mut found = |step, found: String| steps.push(PassedStep { step, found });
    let queue = PlaceQueue::Kubernetes(Box::new(cluster.clone()));
    let id = run(placement, cluster.identify()).await?.last_line();
    found("engine", format!("namespace {}, {id}", cluster.namespace));
    let word = random::<8>()?;
    let pod = format!("subagent-check-{word}");
    let outcome = ran(placement, (&queue, cluster), (&pod, &word, program), &mut found).await;
    let identity = PlaceIdentity { request: word, ..PlaceIdentity::default() };
    let ended = queue::end(placement, &queue, &pod, &identity).await;
    outcome?;
    ended?;
    found("pod", "created and deleted".to_owned());
    Ok(())
}

/// Creates a pod as for a worker, and looks at the runtime and the folder in it.
async fn ran(
    placement: &Placement,
    (queue, cluster): (&PlaceQueue, &KubernetesCluster),
    (name, request, program): (&str, &str, &str),
    found: &mut impl FnMut(&'static str, String),
) -> Result<()> {
    let folder = Path::new(&cluster.folder).join(PROBE);
    let template = Path::new(&cluster.template);
    let manifest = templates::pod_manifest(&placement.name, template, cluster.container.as_deref())?;
    let start = PlaceStart { name, worker: PROBE, number: 1, folder: &folder, program, request, manifest };
    let state = match queue::started(placement, queue, &start).await? {
        CheckPlace::Ready(pod) => {
            let place = (NamedPlace { name, handle: &pod }, program);
            return queue::looked_into(placement, queue, place, found).await;
        }
        CheckPlace::Ended(state) => state,
    };
    let log = match queue.log(NamedPlace { name, handle: name }) {
        Some(command) => {
            run(placement, command).await.map(|printed| cleaned(&printed.stdout)).unwrap_or_default()
        }
        None => String::new(),
    };
    let after = if log.is_empty() { String::new() } else { format!(": {log}") };
    let message = format!("{program} cannot be used in the pod, which ended at once ({state}){after}");
    let placed = &placement.name;
    Err(Failure::new(Code::PlacementNotPrepared, message)
        .with("placement", placed.as_str())
        .with("program", program)
        .with("stderr", log)
        .recommend(format!("`subagent placement prepare {placed}` shows the lines that the image needs")))
}

/// Returns what an image needs. An image is not changed from here.
pub(super) fn prepared(
    placement: &Placement,
    cluster: &KubernetesCluster,
    runtime: &LocalRuntime,
) -> CliOutcome {
    let (own, task_server) = (&runtime.own, &runtime.task_server);
    let program = runtime.program(placement);
    let target = match &placement.program {
        Some(program) => format!("{}/", program.rsplit_once('/').map_or("", |(folder, _)| folder)),
        None => FOLDER_IN_IMAGE.to_owned(),
    };
    let line = format!("COPY {PROGRAM} {} {target}", subagent_protocol::mcp::TASK_SERVER_PROGRAM);
    let sources = [own.path.display().to_string(), task_server.path.display().to_string()];
    let data = json!({
        "name": placement.name, "image": cluster.image, "program": program,
        "version": env!("CARGO_PKG_VERSION"), "sha256": own.sha256, "uploaded": false, "line": line,
        "files": sources,
    });
    let image = cluster.image.as_deref().unwrap_or("the image");
    let shown = format!(
        "{image} is not changed from here. Copy these files beside its Containerfile:\n  {}\n  {}\nand add this \
         line:\n  {line}\nThen run `subagent placement check {}`.",
        sources[0], sources[1], placement.name
    );
    CliOutcome::report("placement.prepared", data, shown)
}
