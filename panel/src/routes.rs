//! The allowlist of requests, and the request to a daemon behind each. Pure. All other addresses do not exist.

use hyper::Method;

/// What a page asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Route {
    /// A file that is embedded in the program.
    File,
    /// A session, for a token or a code.
    Session,
    /// Fires a trigger with a webhook, by its own token.
    Hook { trigger: String },
    /// All workers, as a stream.
    Live,
    /// What a new worker can be.
    Choices { place: String },
    /// Starts a worker in this workspace.
    Start { place: String },
    /// A page of a transcript.
    Page { place: String, worker: String },
    /// The transcript of a worker from its newest part on, as a stream.
    Follow { place: String, worker: String },
    /// Sends a message to a worker.
    Send { place: String, worker: String },
    /// The changes of a worker.
    Diff { place: String, worker: String },
    /// Starts a worker that takes over the work of another one.
    HandOff { place: String, worker: String },
    /// Lands a worker's worktree.
    Land { place: String, worker: String },
    /// The same request to the daemon.
    Forward { place: String, path: String },
}

/// Reading requests that a daemon answers as they are; `*` stands for one id or name.
const READS: &[&str] = &["approvals/*", "usage", "workers/*", "workers/*/logs", "workers/*/turns"];
/// Changing requests that a daemon carries out as they are.
const CHANGES: &[&str] = &[
    "turns/*/drop",
    "turns/*/move",
    "workers/*/approvals/*",
    "workers/*/cancel",
    "workers/*/elicitations/*",
    "workers/*/queue/resume",
    "workers/*/stop",
];

impl Route {
    /// Returns the route of a request.
    pub(crate) fn of(method: &Method, path: &str) -> Option<Self> {
        let Some(path) = path.strip_prefix("/api/") else {
            return (method == Method::GET).then_some(Self::File);
        };
        let words: Vec<&str> = path.split('/').collect();
        // No encoding, no dots: ids and names need neither, and a daemon must not read a path otherwise than we do.
        let is_plain = |word: &&str| {
            let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
            !word.is_empty()
                && word.len() <= 128
                && word.chars().all(plain)
                && !word.chars().all(|c| c == '.')
        };
        if !words.iter().all(is_plain) {
            return None;
        }
        let own = |word: &str| word.to_owned();
        let reads = method == Method::GET;
        Some(match (reads, words.as_slice()) {
            (false, ["session"]) => Self::Session,
            (false, ["triggers", trigger]) => Self::Hook { trigger: own(trigger) },
            (true, ["live"]) => Self::Live,
            (true, [place, "choices"]) => Self::Choices { place: own(place) },
            (false, [place, "workers"]) => Self::Start { place: own(place) },
            (true, [place, "workers", worker, "page"]) => {
                Self::Page { place: own(place), worker: own(worker) }
            }
            (true, [place, "workers", worker, "follow"]) => {
                Self::Follow { place: own(place), worker: own(worker) }
            }
            (true, [place, "workers", worker, "diff"]) => {
                Self::Diff { place: own(place), worker: own(worker) }
            }
            (false, [place, "workers", worker, "turns"]) => {
                Self::Send { place: own(place), worker: own(worker) }
            }
            (false, [place, "workers", worker, "hand-off"]) => {
                Self::HandOff { place: own(place), worker: own(worker) }
            }
            (false, [place, "workers", worker, "land"]) => {
                Self::Land { place: own(place), worker: own(worker) }
            }
            (_, [place, rest @ ..]) => {
                let listed = if reads { READS } else { CHANGES };
                listed.iter().any(|pattern| fits(pattern, rest)).then_some(())?;
                Self::Forward { place: own(place), path: format!("/v1/{}", rest.join("/")) }
            }
            _ => return None,
        })
    }
}

fn fits(pattern: &str, words: &[&str]) -> bool {
    let mut parts = pattern.split('/');
    words.iter().all(|word| parts.next().is_some_and(|part| part == "*" || part == *word))
        && parts.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(method: &str, path: &str) -> Option<Route> {
        Route::of(&method.parse().unwrap(), path)
    }

    #[test]
    fn what_is_listed_is_forwarded_under_its_own_name() {
        let forward = |path: &str| Some(Route::Forward { place: "p".to_owned(), path: path.to_owned() });
        assert_eq!(of("GET", "/api/p/usage"), forward("/v1/usage"));
        assert_eq!(
            of("POST", "/api/p/workers/w_1/approvals/ap_2"),
            forward("/v1/workers/w_1/approvals/ap_2")
        );
        assert_eq!(of("POST", "/api/p/workers/w_1/stop"), forward("/v1/workers/w_1/stop"));
        assert_eq!(of("POST", "/api/session"), Some(Route::Session));
        assert_eq!(of("POST", "/api/triggers/ci"), Some(Route::Hook { trigger: "ci".to_owned() }));
        assert_eq!(of("GET", "/app.js"), Some(Route::File));
    }

    #[test]
    fn what_is_not_listed_does_not_exist() {
        for (method, path) in [
            ("GET", "/api/p/daemon"),
            ("POST", "/api/p/daemon/stop"),
            ("POST", "/api/p/daemon/backup"),
            ("POST", "/api/p/controllers"),
            ("POST", "/api/p/controllers/attach"),
            ("POST", "/api/p/prune"),
            ("POST", "/api/p/hooks/trust"),
            ("POST", "/api/p/workers/w/remove"),
            ("POST", "/api/p/workers/w/budget"),
            ("POST", "/api/p/worktrees/w/discard"),
            ("POST", "/api/p/rules/r/remove"),
            ("GET", "/api/p/rules"),
            ("GET", "/api/p/workers/w/stop"),
            ("POST", "/api/p/usage"),
            ("GET", "/api/session"),
            ("POST", "/api/live"),
            ("GET", "/api/"),
            ("GET", "/api/p"),
            ("GET", "/api/p/workers/../daemon"),
            ("GET", "/api/p/workers/%2e%2e/logs"),
            ("GET", "/api/p//usage"),
            ("GET", "/api/p/workers/a b/logs"),
            ("GET", "/api/p/usage/"),
            ("POST", "/app.js"),
            ("GET", "/api/./usage"),
            ("POST", "/api/p/workers/w/approvals/a/b"),
            ("POST", "/api/p/notifications/test"),
            ("GET", "/api/p/events"),
            ("GET", "/api/triggers/ci"),
            ("POST", "/api/triggers/ci/run"),
            ("POST", "/api/triggers/.."),
            ("POST", "/api/p/triggers"),
            ("POST", "/api/p/triggers/ci/fire"),
            ("POST", "/api/p/schedules/nightly/run"),
        ] {
            assert_eq!(of(method, path), None, "{method} {path}");
        }
    }
}
