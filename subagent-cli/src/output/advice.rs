//! What to do after an error, and what to type: what the error says of it, else what its code means for a person. Pure.

use std::borrow::Cow;
use std::sync::OnceLock;

use serde::Deserialize;
use serde_json::Value;
use subagent_protocol::clean::one_line;
use subagent_protocol::lenient;

use crate::failure::Failure;

/// What to do where git has no identity for commits.
pub const GIT_IDENTITY: &str =
    "set them with `git config --global user.name NAME` and `git config --global user.email ADDRESS`";

/// The host that was typed with this command.
static TYPED_HOST: OnceLock<String> = OnceLock::new();

/// Names the typed host in all commands that are shown as the next ones.
pub(crate) fn name_host(name: &str) {
    // A process has one command.
    let _ = TYPED_HOST.set(name.to_owned());
}

/// Returns a command to type next, for the host that was typed with this one.
#[must_use]
pub(crate) fn at_typed_host(command: &str) -> Cow<'_, str> {
    match (TYPED_HOST.get(), command.strip_prefix("subagent ")) {
        (Some(host), Some(rest))
            if !rest.starts_with("--host ")
                && !is_about_machine(rest.split_whitespace().next().unwrap_or_default()) =>
        {
            format!("subagent --host {host} {rest}").into()
        }
        _ => command.into(),
    }
}

/// Returns a sentence with its commands for the host that was typed with this one.
#[must_use]
pub(crate) fn sentence_at_typed_host(sentence: &str) -> Cow<'_, str> {
    match TYPED_HOST.get() {
        Some(host) => with_host(sentence, host).into(),
        None => sentence.into(),
    }
}

/// Adds the host to the commands between backticks.
fn with_host(sentence: &str, host: &str) -> String {
    let mut parts = sentence.split("`subagent ");
    let mut said = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let command = part.split_whitespace().next().unwrap_or_default();
        let is_other = is_about_machine(command) || command.starts_with("--host");
        said.push_str("`subagent ");
        if !is_other {
            said.push_str(&format!("--host {host} "));
        }
        said.push_str(part);
    }
    said
}

/// Whether a command is about a machine, and not about the workers of a daemon.
fn is_about_machine(command: &str) -> bool {
    const OF_MACHINE: [&str; 10] = [
        "config",
        "launcher",
        "placement",
        "role",
        "prompt",
        "agent",
        "completions",
        "init",
        "daemon",
        "doctor",
    ];
    OF_MACHINE.contains(&command.trim_end_matches('`'))
}

/// Returns a sentence that says what to do about the error.
#[must_use]
pub fn hint(failure: &Failure) -> Option<&str> {
    let said = |key: &str| failure.details.get(key).and_then(Value::as_str);
    // A wait that gave up says in its diagnosis what to do.
    said("recommendedAction").or_else(|| said("diagnosis")).or_else(|| {
        Some(match &*failure.code {
            "WORKER_BUSY" if failure.details.contains_key("pendingRequestId") => {
                "answer what it asks with `subagent approve` or `subagent answer`, or end its turn with `subagent cancel`"
            }
            "WORKER_BUSY" if said("state") == Some("starting") => {
                "wait until its agent is ready, then repeat the command"
            }
            "WORKER_BUSY" => "wait for the end of its turn with `subagent wait`, or end it with `subagent cancel`",
            "QUEUE_FULL" => "drop a message with `subagent turn drop`, or wait until the queue is shorter",
            "WORKER_NOT_RUNNING" => "nothing has to be canceled; look at what the worker did",
            "WORKER_STOPPED" => "start another worker; it can go on from what this one did",
            "WORKER_NOT_FOUND" => "look at the workers of this workspace, or name another workspace with --cwd",
            "INVALID_WORKER_STATE" => "stop the worker first",
            "EVENT_NOT_FOUND" => "take the cursor from an event of this worker",
            "APPROVAL_NOT_FOUND" => "look at what the worker asks",
            "LAUNCHER_NOT_FOUND" => "choose a launcher that is configured, or add one to the config file",
            "WORKSPACE_ROOT_NOT_FOUND" => "go into a project, name one with --cwd, or make this folder a workspace",
            "INVALID_CONTROLLER_HANDLE" => {
                "unset SUBAGENT_CTL_ID, SUBAGENT_CTL_EPOCH and SUBAGENT_CTL_TOKEN, or set those of this workspace's owner"
            }
            _ => return None,
        })
    })
}

/// Returns the command to type after the error.
#[must_use]
pub fn command(failure: &Failure) -> Option<String> {
    let said = |key: &str| failure.details.get(key).and_then(Value::as_str);
    if let Some(command) = said("recommendedCommand") {
        return Some(command.to_owned());
    }
    // A word that was typed may mean something to a shell.
    let is_plain = |id: &&str| id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let of_worker =
        |command: &str| Some(format!("subagent {command} {}", said("workerId").filter(is_plain)?));
    match &*failure.code {
        "WORKER_NOT_RUNNING" | "APPROVAL_NOT_FOUND" => of_worker("worker inspect"),
        "QUEUE_FULL" => of_worker("turn list --worker-id"),
        "WORKER_STOPPED" => of_worker("worker continue --from-worker"),
        "WORKER_NOT_FOUND" => Some("subagent worker list".to_owned()),
        "EVENT_NOT_FOUND" => of_worker("watch --worker-id"),
        "LAUNCHER_NOT_FOUND" => Some("subagent launcher list".to_owned()),
        "WORKSPACE_ROOT_NOT_FOUND" => Some("subagent config init --scope project".to_owned()),
        "INVALID_CONTROLLER_HANDLE" => Some("subagent controller status".to_owned()),
        _ => None,
    }
}

/// What to do and what to type, each in a line.
#[must_use]
pub fn lines(failure: &Failure) -> Vec<String> {
    let hint = hint(failure).map(|hint| format!("Hint: {hint}"));
    hint.into_iter().chain(command(failure).map(|command| format!("Try: {command}"))).collect()
}

/// The open requests that an error names: id, worker, what is asked.
#[must_use]
pub fn requests(failure: &Failure) -> Vec<String> {
    /// A request, as an error names it.
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct NamedRequest<'a> {
        request_id: Option<&'a str>,
        worker_id: Option<&'a str>,
        name: Option<&'a str>,
        subject: Option<&'a str>,
    }
    /// The details of such an error.
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct OpenRequests<'a> {
        #[serde(borrow, deserialize_with = "lenient::objects")]
        requests: Vec<NamedRequest<'a>>,
    }
    let line = |NamedRequest { request_id, worker_id, name, subject }| {
        let parts = [request_id, name.or(worker_id), subject];
        one_line(&parts.into_iter().flatten().collect::<Vec<_>>().join("  "))
    };
    let open = OpenRequests::deserialize(&failure.details).unwrap_or_default();
    open.requests.into_iter().map(line).collect()
}

/// What logs in the agent of this launcher.
#[must_use]
pub fn login(launcher: &str) -> String {
    format!("subagent launcher login {}", shell_words::quote(&one_line(launcher)))
}

/// What there is to choose from: values of an option, ways to log in, servers.
#[must_use]
pub fn choices(failure: &Failure) -> Option<String> {
    /// The rest is in `--json`.
    const MOST: usize = 50;
    let list =
        ["available", "authMethods"].into_iter().find_map(|key| failure.details.get(key)?.as_array())?;
    /// A choice with a description.
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Described<'a> {
        id: Option<&'a str>,
    }
    let word =
        |entry: &Value| Some(one_line(entry.as_str().or_else(|| lenient::read::<Described<'_>>(entry).id)?));
    let mut words: Vec<String> = list.iter().filter_map(word).take(MOST).collect();
    if words.is_empty() {
        return None;
    }
    if words.len() < list.len() {
        words.push("...".to_owned());
    }
    Some(words.join(", "))
}

/// The last lines that an agent wrote to its standard error before it failed, without what would act on a terminal.
#[must_use]
pub fn last_words(failure: &Failure) -> Vec<String> {
    /// The rest is in `--json` and in the worker's log.
    const MOST: usize = 5;
    let facts = failure.facts();
    let lines: Vec<&str> = match facts.log_tail.0 {
        Some(tail) => tail.lines().collect(),
        None => facts.stderr_tail.0.unwrap_or_default(),
    };
    let lines = lines.into_iter().map(one_line).filter(|line| !line.trim().is_empty());
    let mut last: Vec<String> = lines.rev().take(MOST).collect();
    last.reverse();
    last
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use subagent_protocol::Code;

    use super::*;

    #[test]
    fn advice_about_workers_names_the_host_and_advice_about_machines_does_not() {
        let said = "see `subagent worker list`, `subagent` and `subagent launcher list`, or `subagent ls`";
        let expected = "see `subagent --host lap worker list`, `subagent` and `subagent launcher list`, \
                        or `subagent --host lap ls`";
        assert_eq!(with_host(said, "lap"), expected);
        assert_eq!(with_host("`subagent --host big ls`", "lap"), "`subagent --host big ls`");
    }

    #[test]
    fn what_the_error_says_wins_over_what_its_code_means() {
        let failure = Failure::new(Code::WorkerStopped, "m").with("workerId", "w_1");
        assert!(hint(&failure).is_some());
        assert_eq!(command(&failure).as_deref(), Some("subagent worker continue --from-worker w_1"));
        let said = failure.recommend("do").with("recommendedCommand", "type");
        assert_eq!((hint(&said), command(&said).as_deref()), (Some("do"), Some("type")));
        let busy = Failure::new(Code::WorkerBusy, "m");
        assert!(hint(&busy).unwrap().starts_with("wait for"));
        assert!(hint(&busy.clone().with("state", "starting")).unwrap().starts_with("wait until"));
        assert!(hint(&busy.with("pendingRequestId", "ap_1")).unwrap().starts_with("answer"));
        let full = Failure::new(Code::QueueFull, "m").with("workerId", "w_1");
        assert!(hint(&full).unwrap().starts_with("drop a message"));
        assert_eq!(command(&full).as_deref(), Some("subagent turn list --worker-id w_1"));
        let gave_up = Failure::new(Code::WaitTimeout, "m").with("diagnosis", "wait on");
        assert_eq!((hint(&gave_up), command(&gave_up)), (Some("wait on"), None));
    }

    #[test]
    fn what_there_is_to_choose_from_is_reported() {
        let failure = Failure::new(Code::OptionNotAvailable, "m");
        assert_eq!(choices(&failure), None);
        assert_eq!(choices(&failure.clone().with("available", json!([]))), None);
        let values = failure.clone().with("available", json!(["ask", "a\nb"]));
        assert_eq!(choices(&values).as_deref(), Some("ask, a b"));
        let methods = failure.clone().with("authMethods", json!([{"id": "key"}, {"name": "no id"}]));
        assert_eq!(choices(&methods).as_deref(), Some("key, ..."));
        let many = failure.with("available", json!(vec!["x"; 51]));
        assert!(choices(&many).unwrap().ends_with("x, ..."));
    }

    #[test]
    fn the_open_requests_are_named_with_what_they_ask() {
        let failure = Failure::new(Code::RequestAmbiguous, "m").with(
            "requests",
            json!([
                {"requestId": "ap_1", "workerId": "w_1", "name": "codex-1", "subject": "rm\u{1b}[2J\nx"},
                {"requestId": "ap_2", "workerId": "w_2"},
            ]),
        );
        assert_eq!(requests(&failure), ["ap_1  codex-1  rm x", "ap_2  w_2"]);
    }

    #[test]
    fn the_last_words_of_an_agent_are_its_last_lines() {
        let failure = Failure::new(Code::BackendUnavailable, "m");
        assert_eq!(last_words(&failure), Vec::<String>::new());
        let long = (0..9).map(|n| format!("line {n}\u{1b}[2J\n\n")).collect::<String>();
        let found = last_words(&failure.clone().with("logTail", long));
        assert_eq!(found, ["line 4", "line 5", "line 6", "line 7", "line 8"]);
        assert_eq!(last_words(&failure.with("stderrTail", json!(["one", " ", "two"]))), ["one", "two"]);
    }

    #[test]
    fn no_word_that_was_typed_gets_into_a_command_unless_it_is_plain() {
        let failure = Failure::new(Code::EventNotFound, "m").with("workerId", "w_1; rm -rf /");
        assert_eq!(command(&failure), None);
        assert_eq!(hint(&Failure::new(Code::Internal, "m")), None);
    }
}
