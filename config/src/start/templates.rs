//! The template of the pods of a placement: where its file is, and what is in it. Must not store it: it
//! may have secrets.

use std::path::{Path, PathBuf};

use subagent_protocol::placement::kubernetes::KubernetesCluster;
use subagent_protocol::placement::kubernetes::manifest::PodManifest;
use subagent_protocol::placement::{Engine, Placement};
use subagent_protocol::{Code, Error, Result};

use crate::{discovery, regular, syntax};

/// Maximum length of the manifest of a pod in bytes.
const MAX_MANIFEST_BYTES: usize = 256 * 1024;

/// Returns the placement as a worker gets it. Mounts of a container count from the working folder here,
/// and the manifest of a pod is read and checked.
///
/// # Errors
/// `CONFIG_PARSE_ERROR{template}` for a manifest that cannot be used.
pub fn completed(placement: Placement, cwd: &Path, home: Option<&Path>) -> Result<Placement> {
    let engine = match placement.engine {
        Engine::Podman(podman) => Engine::Podman(podman.mounted_from(cwd, home)),
        Engine::Kubernetes(cluster) => {
            let path = template_path(&cluster.template, home);
            let chosen = cluster.container.as_deref();
            let manifest = pod_manifest(&placement.name, &path, chosen)?;
            let container = manifest.container(chosen).map(str::to_owned);
            let image = container.as_deref().and_then(|name| manifest.image(name)).map(str::to_owned);
            let template = path.display().to_string();
            Engine::Kubernetes(Box::new(KubernetesCluster { template, container, image, ..*cluster }))
        }
        other => other,
    };
    Ok(Placement { engine, ..placement }.with_home(home))
}

/// Returns the absolute path of a template. A relative one counts from the folder of the user's config
/// file.
fn template_path(written: &str, home: Option<&Path>) -> PathBuf {
    match (written.strip_prefix("~/"), home) {
        (Some(below), Some(home)) => home.join(below),
        _ => discovery::user_folder(home).join(written),
    }
}

/// Reads the manifest of a pod for the placement of this name. Each pod is made from the file as it is
/// then: it may have secrets, so the daemon stores only its path.
///
/// # Errors
/// `CONFIG_PARSE_ERROR{template}` for a manifest that cannot be used.
pub fn pod_manifest(name: &str, path: &Path, container: Option<&str>) -> Result<PodManifest> {
    let shown = path.display().to_string();
    let failed = |why: &str| unusable(name, &shown, why);
    let bytes = regular::read(path).map_err(|error| failed(&format!("cannot be read: {error}")))?;
    if bytes.len() > MAX_MANIFEST_BYTES {
        return Err(failed(&format!("has more than {MAX_MANIFEST_BYTES} bytes")));
    }
    let text = String::from_utf8(bytes).map_err(|_| failed("is not UTF-8"))?;
    let value = syntax::parse(&text).map_err(|problem| {
        let line = problem.line.map(|line| format!(" (line {line})")).unwrap_or_default();
        failed(&format!("cannot be read: {}{line}", problem.problem))
    })?;
    let manifest: PodManifest = serde_json::from_value(value)
        .map_err(|error| failed(&format!("is no manifest of a pod: {error}")))?;
    match manifest.problem(container) {
        None => Ok(manifest),
        Some(problem) => Err(failed(problem)),
    }
}

fn unusable(name: &str, template: &str, why: &str) -> Error {
    let message = format!("the template {template} of the placement `{name}` {why}");
    Error::new(Code::ConfigParseError, message)
        .with("placement", name)
        .with("template", template)
        .recommend(format!("correct it, then run `subagent placement check {name}`"))
}

#[cfg(test)]
mod tests {
    use subagent_protocol::placement::kubernetes::PLACED_IN_POD;

    use super::*;

    #[test]
    fn a_template_is_read_and_checked_at_the_start() {
        let home = tempfile::tempdir().unwrap();
        let completed = |text: &str| {
            std::fs::write(home.path().join("pod.yaml"), text).unwrap();
            let engine = Engine::Kubernetes(Box::new(KubernetesCluster {
                context: None,
                namespace: "agents".into(),
                args: Vec::new(),
                template: "~/pod.yaml".into(),
                container: None,
                image: None,
                folder: PLACED_IN_POD.into(),
            }));
            let placement = Placement {
                name: "pods".into(),
                cwd: "/work".into(),
                program: None,
                lease_ms: None,
                git: None,
                engine,
            };
            super::completed(placement, home.path(), Some(home.path()))
        };
        let pod = "apiVersion: v1\nkind: Pod\nspec:\n  containers: [{name: agent, image: 'agents:1'}]\n";
        let Engine::Kubernetes(cluster) = completed(pod).unwrap().engine else { panic!() };
        let found = (cluster.image.as_deref(), cluster.container.as_deref());
        assert_eq!(found, (Some("agents:1"), Some("agent")));
        assert!(cluster.template.starts_with('/'), "{}", cluster.template);
        for (text, why) in [
            ("kind: [", "template"),
            ("a: b", "kind: Pod"),
            ("apiVersion: v1\nkind: Pod\nmetadata: {name: x}", "metadata.name"),
            ("apiVersion: v1\nkind: Pod\nspec: 7", "no manifest"),
        ] {
            let error = completed(text).unwrap_err();
            assert_eq!(error.code, Code::ConfigParseError);
            assert!(error.message.contains(why), "{error}");
        }
    }
}
