//! What an answer of `kubectl` means, and what to do about it.

use super::NOT_FOUND;

/// Whether the client says that there is a pod of this name already.
#[must_use]
pub fn is_taken(said: &[u8]) -> bool {
    let said = String::from_utf8_lossy(said);
    said.contains("Error from server (AlreadyExists): ") && said.contains("pods \"")
}

/// Whether a failed delete says that there is no pod of this name, or only one with another id.
#[must_use]
pub(in crate::placement) fn is_deleted(said: &[u8]) -> bool {
    let said = String::from_utf8_lossy(said);
    [NOT_FOUND, "Error from server (Conflict): "].iter().any(|begin| said.contains(begin))
}

/// Whether a failed create was refused by the API server, or by the client before it asked the server.
/// Anything else, such as a time limit, says nothing about the pod.
#[must_use]
pub(in crate::placement) fn is_refused(said: &[u8]) -> bool {
    const REFUSALS: [&str; 11] = [
        "Error from server (Forbidden): ",
        "Error from server (NotFound): ",
        "Error from server (BadRequest): ",
        "Error from server (Invalid): ",
        "Error from server (Unauthorized): ",
        "The Pod \"",
        "The request is invalid",
        "error: context ",
        "error: You must be logged in",
        "error: unable to decode",
        "error: unable to recognize",
    ];
    let said = String::from_utf8_lossy(said);
    said.lines().any(|line| REFUSALS.iter().any(|begin| line.starts_with(begin)))
}

/// Returns what the client says without the lines of its log, which repeat the last line many times.
pub(in crate::placement) fn without_log(said: &[u8]) -> Vec<u8> {
    let is_logged = |line: &&[u8]| matches!(line, [b'E' | b'W' | b'I', digits @ ..] if digits.iter().take(4).all(u8::is_ascii_digit));
    let lines: Vec<&[u8]> = said.split(|byte| *byte == b'\n').filter(|line| !is_logged(line)).collect();
    lines.join(&b'\n')
}

/// Whether the client itself or the API server failed, and not the command in the pod.
#[must_use]
pub fn is_of_client(said: &[u8]) -> bool {
    const OF_CLIENT: [&str; 8] = [
        "Error from server",
        "error: ",
        "Error in configuration",
        "Unable to connect to the server",
        "The connection to the server",
        "Unable to use a TTY",
        "The Pod \"",
        "The request is invalid",
    ];
    let said = String::from_utf8_lossy(said);
    said.lines().any(|line| OF_CLIENT.iter().any(|begin| line.starts_with(begin)))
}

/// Whether the image has no such program.
pub(in crate::placement) fn is_program_missing(said: &[u8]) -> bool {
    const MISSING: [&str; 2] = ["executable file not found", "no such file or directory: unknown"];
    let said = String::from_utf8_lossy(said);
    MISSING.iter().any(|text| said.contains(text))
}

/// Returns why the client failed, as a word, and what to do.
pub(in crate::placement) fn reason_of(said: &str, check: &str) -> (&'static str, String) {
    let is_namespace = said.contains("namespaces \"");
    let known: [(&str, &[&str], String); 4] = [
        (
            "forbidden",
            &["(Forbidden)", "forbidden: "],
            "get the permissions to create, get and delete `pods`, to create `pods/exec`, and to get the \
             namespace itself; `kubectl auth can-i create pods` shows one of them"
                .to_owned(),
        ),
        (
            "login",
            &["(Unauthorized)", "You must be logged in", "getting credentials", "provide credentials"],
            "log in to the cluster: `kubectl get pods` must succeed without a question".to_owned(),
        ),
        (
            "engine",
            &[
                "Unable to connect to the server",
                "The connection to the server",
                "connection refused",
                "(ServiceUnavailable)",
                "(InternalError)",
                "(Timeout)",
                "(TooManyRequests)",
                "deadline exceeded",
                "i/o timeout",
                "unexpected EOF",
            ],
            format!("check that `kubectl version` reaches the server, then {check}"),
        ),
        (
            "pod",
            &[
                "(Invalid)",
                "is invalid",
                "(BadRequest)",
                "unable to decode",
                "unable to recognize",
                "no matches for kind",
            ],
            format!("correct the `template` of the placement, then {check}"),
        ),
    ];
    if is_namespace && said.contains("not found") {
        let create = "create the namespace, or correct `namespace` of the placement";
        return ("namespace", format!("{create}, then {check}"));
    }
    let found = known.into_iter().find(|(_, texts, _)| texts.iter().any(|text| said.contains(text)));
    found.map_or_else(|| ("client", check.to_owned()), |(reason, _, advice)| (reason, advice))
}
