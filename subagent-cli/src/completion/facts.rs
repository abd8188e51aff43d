//! Sources of candidates: files of user and workspace, and a running daemon that answers in time.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::Value;
use subagent_config::agents::{Catalog, GivenAgents};
use subagent_config::discovery::{self, LoadedConfig};
use subagent_config::environment::account_home;
use subagent_config::placements::LOCAL;
use subagent_config::{Environment, Workspace, workspace};
use subagent_protocol::api::{TurnProgress, UNLABELED};
use subagent_protocol::lenient::{self, Lenient};

use super::candidate::CompletionCandidate;
use super::kinds::{InboxRequestKind, TurnChoice};
use super::line::CompletionLine;
use crate::client::{ApiRequest, glance, into_items, segment};
use crate::output::human::named;

/// Total time for answers of a running daemon.
const LIMIT: Duration = Duration::from_millis(150);
/// Maximum number of workers whose turns are offered.
const MAX_WORKERS: usize = 20;

/// The context of the command line.
#[derive(Debug)]
pub(super) struct CompletionContext {
    env: Option<Environment>,
    config: Option<PathBuf>,
    /// Whether the line is for another host, whose daemon is not asked for candidates.
    is_far: bool,
}

impl CompletionContext {
    /// Creates it from the caller's environment and the typed `--cwd` and `--config`.
    pub(super) fn new(line: &CompletionLine) -> Self {
        let env = std::env::current_dir().ok().map(|cwd| {
            let typed = line.value("cwd").map(|typed| cwd.join(typed));
            Environment::new(std::env::vars_os(), typed.unwrap_or(cwd)).or_home(account_home)
        });
        let named = line.value("host").map(OsString::from);
        let named = named.or_else(|| std::env::var_os("SUBAGENT_HOST")).filter(|name| !name.is_empty());
        let is_far = named.is_some_and(|name| name != LOCAL);
        Self { env, config: line.value("config").map(PathBuf::from), is_far }
    }

    fn config(&self) -> Option<LoadedConfig> {
        // Only a regular file: a pipe would block the shell.
        discovery::load_regular(self.config.as_deref(), None, self.env.as_ref()?).ok()
    }

    pub(super) fn launchers(&self) -> Vec<CompletionCandidate> {
        let Some(loaded) = self.config() else { return Vec::new() };
        let launcher = |name: &String| CompletionCandidate::new(name, "launcher");
        loaded.config.launchers.keys().map(launcher).collect()
    }

    pub(super) fn roles(&self) -> Vec<CompletionCandidate> {
        let Some(loaded) = self.config() else { return Vec::new() };
        loaded.config.role_hints.keys().map(|name| CompletionCandidate::new(name, "role")).collect()
    }

    pub(super) fn placements(&self) -> Vec<CompletionCandidate> {
        let Some(loaded) = self.config() else { return Vec::new() };
        let placements = loaded.config.placements.values();
        placements.map(|one| CompletionCandidate::new(&one.name, &one.described())).collect()
    }

    pub(super) fn hosts(&self) -> Vec<CompletionCandidate> {
        let Some(loaded) = self.config() else { return Vec::new() };
        let hosts = loaded.config.hosts.values();
        hosts.map(|one| CompletionCandidate::new(&one.name, &one.remote.host)).collect()
    }

    pub(super) fn agents(&self) -> Vec<CompletionCandidate> {
        let Some(env) = &self.env else { return Vec::new() };
        let Ok(cwd) = workspace::resolve_cwd(None, env) else { return Vec::new() };
        let root = Workspace::find(None, env).map_or(cwd, |workspace| workspace.root);
        let catalog = Catalog::find(&GivenAgents::default(), &root, env);
        let found = catalog.found.iter().map(|found| &found.definition);
        found.map(|agent| CompletionCandidate::new(&agent.name, &agent.description)).collect()
    }

    /// Returns workers by name, or by id if an id is typed.
    pub(super) fn workers(&self, typed: &str, all: bool) -> Vec<CompletionCandidate> {
        let workers = self.listed("/v1/workers");
        let shown = workers.iter().filter(|worker| all || ListedItem::of(worker).state.0 != Some("stopped"));
        let mut found: Vec<CompletionCandidate> = shown.flat_map(|worker| addresses(worker, typed)).collect();
        if typed.starts_with('@') {
            found.push(CompletionCandidate::new("@last", "the worker that was used last"));
        }
        found
    }

    /// Returns the sessions of known workers. Other sessions would require a running agent.
    pub(super) fn sessions(&self) -> Vec<CompletionCandidate> {
        let workers = self.listed("/v1/workers");
        let session = |worker: &Value| {
            Some(CompletionCandidate::new(
                ListedItem::of(worker).session_id.0?,
                &format!("session of {}", named(worker)),
            ))
        };
        workers.iter().filter_map(session).collect()
    }

    pub(super) fn tasks(&self) -> Vec<CompletionCandidate> {
        let tasks = self.listed("/v1/tasks");
        let task = |task: &Value| {
            let state = word(task, "status");
            let about = format!("{state} {}", word(task, "description"));
            // A name with a space is not a single word, so the id is offered.
            let by_name = CompletionCandidate::new(word(task, "name"), &about);
            if by_name.fits("") { by_name } else { CompletionCandidate::new(word(task, "taskId"), &about) }
        };
        tasks.iter().map(task).collect()
    }

    /// Returns the open requests, only those of `worker` if it is given.
    pub(super) fn requests(&self, of: InboxRequestKind, worker: Option<&str>) -> Vec<CompletionCandidate> {
        let open = self.open(of);
        let theirs = |asked: &&Value| {
            worker.is_none_or(|worker| [word(asked, "workerId"), word(asked, "name")].contains(&worker))
        };
        let request = |asked: &Value| {
            CompletionCandidate::new(
                word(asked, "requestId"),
                &format!("{}: {}", named(asked), word(asked, "subject")),
            )
        };
        open.iter().filter(theirs).map(request).collect()
    }

    /// Returns the asking workers, then the requests.
    pub(super) fn asking(&self, of: InboxRequestKind) -> Vec<CompletionCandidate> {
        let open = self.open(of);
        let mut found: Vec<CompletionCandidate> = Vec::new();
        for asked in &open {
            let worker = CompletionCandidate::new(named(asked), word(asked, "subject"));
            if !found.contains(&worker) {
                found.push(worker);
            }
        }
        let request = |asked: &Value| {
            CompletionCandidate::new(
                word(asked, "requestId"),
                &format!("{}: {}", named(asked), word(asked, "subject")),
            )
        };
        found.extend(open.iter().map(request));
        found
    }

    /// Returns the turns of the newest workers.
    pub(super) fn turns(&self, of: TurnChoice) -> Vec<CompletionCandidate> {
        let deadline = Instant::now() + LIMIT;
        let wanted = |turn: &&Value| {
            let status = ListedItem::of(turn).status.0.and_then(TurnProgress::parse);
            match of {
                TurnChoice::All => true,
                TurnChoice::Queued => status == Some(TurnProgress::Queued),
                TurnChoice::Ended => matches!(status, Some(TurnProgress::Failed | TurnProgress::Canceled)),
            }
        };
        let mut found = Vec::new();
        for worker in self.listed("/v1/workers").iter().take(MAX_WORKERS) {
            let path = format!("/v1/workers/{}/turns", segment(word(worker, "workerId")));
            let turns = self.listed_within(&path, deadline.saturating_duration_since(Instant::now()));
            found.extend(turns.iter().rev().filter(wanted).map(|turn| {
                let about = format!("{} {}: {}", named(worker), word(turn, "status"), word(turn, "text"));
                CompletionCandidate::new(word(turn, "turnId"), &about)
            }));
        }
        found
    }

    /// Returns the tags of workers, each appended to `kept`.
    pub(super) fn tags(&self, kept: &str) -> Vec<CompletionCandidate> {
        let mut workers: BTreeMap<String, usize> = BTreeMap::new();
        for worker in self.listed("/v1/workers") {
            for (name, value) in ListedItem::of(&worker).tags.0.into_iter().flatten() {
                let tag = format!("{kept}{name}={}", value.0.unwrap_or_default());
                *workers.entry(tag).or_default() += 1;
            }
        }
        let tag = |(tag, count): (&String, &usize)| {
            CompletionCandidate::new(tag, &format!("{count} worker{}", if *count == 1 { "" } else { "s" }))
        };
        workers.iter().map(tag).collect()
    }

    pub(super) fn sinks(&self) -> Vec<CompletionCandidate> {
        let Some(loaded) = self.config() else { return Vec::new() };
        loaded.config.notify.iter().map(|sink| CompletionCandidate::new(&sink.name, "")).collect()
    }

    pub(super) fn owner_rules(&self) -> Vec<CompletionCandidate> {
        let rules = self.listed("/v1/rules");
        let rule = |rule: &Value| {
            CompletionCandidate::new(
                word(rule, "ruleId"),
                &format!("{} {}", word(rule, "action"), word(rule, "rule")),
            )
        };
        rules.iter().map(rule).collect()
    }

    /// The schedules or triggers of a list, with what keeps them from firing.
    pub(super) fn starters(&self, list: &str) -> Vec<CompletionCandidate> {
        let one = |starter: &Value| {
            let about = match ListedItem::of(starter).paused.0 {
                Some(reason) => format!("paused: {reason}"),
                None => word(starter, "nextAt").to_owned(),
            };
            CompletionCandidate::new(word(starter, "name"), &about)
        };
        self.listed(list).iter().map(one).collect()
    }

    fn open(&self, of: InboxRequestKind) -> Vec<Value> {
        let mut open = self.listed("/v1/approvals");
        open.retain(|asked| match of {
            InboxRequestKind::Anything => true,
            InboxRequestKind::Form => ListedItem::of(asked).kind.0 == Some("elicitation"),
            InboxRequestKind::Permission => ListedItem::of(asked).kind.0 != Some("elicitation"),
        });
        open
    }

    /// Returns the items of a list of the daemon; empty without a timely answer.
    fn listed(&self, path: &str) -> Vec<Value> {
        self.listed_within(path, LIMIT)
    }

    fn listed_within(&self, path: &str, limit: Duration) -> Vec<Value> {
        if self.is_far {
            return Vec::new();
        }
        let workspace = self.env.as_ref().and_then(|env| Workspace::find(None, env).ok());
        let state_dir = workspace.as_ref().map(|workspace| workspace.state_dir.as_path());
        let listed = state_dir.and_then(|dir: &Path| glance(dir, &ApiRequest::get(path), limit));
        listed.map(into_items).unwrap_or_default()
    }
}

/// An item of a list, as far as it is chosen by its members.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ListedItem<'a> {
    #[serde(borrow)]
    state: Lenient<&'a str>,
    session_id: Lenient<&'a str>,
    status: Lenient<&'a str>,
    kind: Lenient<&'a str>,
    paused: Lenient<&'a str>,
    tags: Lenient<BTreeMap<&'a str, Lenient<&'a str>>>,
}

impl<'a> ListedItem<'a> {
    fn of(item: &'a Value) -> Self {
        lenient::read(item)
    }
}

fn addresses(worker: &Value, typed: &str) -> Vec<CompletionCandidate> {
    let label = match word(worker, "label") {
        UNLABELED => "",
        label => label,
    };
    let about = format!("{} {label}", word(worker, "state"));
    let (name, id) = (named(worker), word(worker, "workerId"));
    let by_name = CompletionCandidate::new(name, &about);
    match typed.starts_with("w_") || !by_name.fits("") {
        true => vec![CompletionCandidate::new(id, &format!("{name} {about}"))],
        false => vec![by_name],
    }
}

fn word<'a>(data: &'a Value, key: &str) -> &'a str {
    data[key].as_str().unwrap_or_default()
}
