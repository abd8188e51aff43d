//! What an answer of the container's client means, and what to do about it.

use super::super::Engine;

/// Whether this is an error of docker's client, which exits like the command.
pub(in crate::placement) fn is_of_docker(said: &[u8]) -> bool {
    const SAID: [&str; 2] = ["Error response from daemon", "Cannot connect to the Docker daemon"];
    let said = String::from_utf8_lossy(said);
    SAID.iter().any(|text| said.contains(text))
}

/// Whether the client says that the image is not on this machine.
pub(in crate::placement) fn is_image_missing(engine: &Engine, said: &[u8]) -> bool {
    const SAID: [&str; 4] = ["no such image", "image not known", "No such image", "Unable to find image"];
    let said = String::from_utf8_lossy(said);
    matches!(engine, Engine::Podman(_)) && SAID.iter().any(|text| said.contains(text))
}

/// Returns why the client failed, as a word, and what to do. Other texts are `engine`.
pub(in crate::placement) fn reason_of(client: &str, said: &str, name: &str) -> (&'static str, String) {
    const ENDED: [&str; 4] =
        ["container state improper", "no such container", "is not running", "No such container"];
    if ENDED.iter().any(|text| said.contains(text)) {
        let advice = format!("run `subagent placement check {name}`, which shows why its container ends");
        return ("container", advice);
    }
    ("engine", format!("correct what `{client}` says, then run `subagent placement check {name}`"))
}
