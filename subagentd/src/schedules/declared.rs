//! Schedules and triggers of the user's config file. They are stored as those of commands are, with
//! the file as their origin. Must not change what a command has added, nor take an entry of another
//! workspace: its own daemon does.

// At the start, and when the file changes, the rows are brought in line with it.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use subagent_config::declared::{DeclaredReceiver, DeclaredSource};
use subagent_config::start::budgets::of_config;
use subagent_config::{Environment, Workspace, controller_hint, discovery, workspace};
use subagent_protocol::api::{
    ControllerChoice, DeclarationProblem, RunTask, ScheduledMessage, ScheduledWork, TaskMode, TaskOverrides,
    TaskPlace,
};
use subagent_protocol::budget::Limits;
use subagent_protocol::trigger::TriggerSource;
use subagent_protocol::{Code, Error, Result};

use super::checks::{check_room, check_trigger, check_work, passed_time};
use super::context::{ScheduleContext, is_of_the_daemon};
use super::declarations::{DeclaredEntry, DeclaredState, timezone, trigger_source};
use super::folders::{answered, is_not_available};
use super::handover;
use crate::inotify::Inotify;
use crate::store::schedules::{self, Declaration, FiringSource, ScheduleRow, StoredTimes, name_taken};
use crate::store::{Durability, Tx};
use crate::supervisor;
use crate::supervisor::{NewSchedule, entropy};

/// A file without an entry may be in the middle of a write. The entry stays for this time.
const REMOVED_AFTER: Duration = Duration::from_secs(1);
/// Folders above that of the file that are watched: `~/.config` and `~`.
const WATCHED_ABOVE: usize = 2;
/// File mode creation mask of declared tasks. The daemon's own makes files private.
const UMASK: u32 = 0o022;

/// Asks for a look when the file changes, until the daemon ends. Without a free inotify instance,
/// the next request or daemon notices the change. While the folder and those above it do not exist,
/// they are looked for in each round.
pub(super) async fn watch(context: Arc<ScheduleContext>) {
    let declarations = &context.declarations;
    let Some(path) = declarations.state.lock().await.file.path().map(PathBuf::from) else { return };
    let inotify = match Inotify::new() {
        Ok(inotify) => inotify,
        Err(error) => {
            tracing::warn!(%error, "no inotify: a change of the config file is noticed late");
            return;
        }
    };
    let mut rounds = context.rounds.subscribe();
    loop {
        let is_watched = watch_places_of(&inotify, &path);
        // The file may have been read before it was watched.
        if is_watched && declarations.is_stale().await {
            context.changed.notify_one();
        }
        tokio::select! {
            () = context.stream.is_ending() => return,
            changed = rounds.changed(), if !is_watched => if changed.is_err() { return },
            changed = inotify.changed() => if let Err(error) = changed {
                tracing::warn!(%error, "a change of the config file is noticed late");
                return;
            },
        }
    }
}

/// Watches the folder of the file, and that of the target of a link: files there are written in
/// place. The folders above are watched for another folder in its place. Returns whether any is.
fn watch_places_of(inotify: &Inotify, path: &Path) -> bool {
    let target = path.canonicalize().ok();
    let mut is_watched = false;
    // A folder has one watch: the last one counts.
    for folder in path.ancestors().skip(2).take(WATCHED_ABOVE) {
        is_watched |= inotify.watch_names(folder).is_ok();
    }
    for folder in [Some(path), target.as_deref()].into_iter().flatten().filter_map(Path::parent) {
        is_watched |= inotify.watch_entries(folder).is_ok();
    }
    is_watched
}

/// Brings the rows in line with the file, if a look was asked for.
///
/// # Errors
/// `STORAGE_ERROR`: the next round tries again.
pub(super) async fn reconcile(context: &Arc<ScheduleContext>) -> Result<()> {
    let declarations = &context.declarations;
    if !declarations.asked.swap(false, Ordering::AcqRel) {
        return Ok(());
    }
    let mut state = declarations.state.lock().await;
    let done = carry_out(context, &mut state).await;
    state.is_pending = done.is_err();
    if done.is_err() {
        declarations.asked.store(true, Ordering::Release);
    }
    done
}

async fn carry_out(context: &Arc<ScheduleContext>, state: &mut DeclaredState) -> Result<()> {
    // Without a home there is no file that could say anything.
    let Some(path) = state.file.path().map(PathBuf::from) else { return Ok(()) };
    match state.file.refresh() {
        // Nothing can be stored until it is readable again.
        None if state.unusable.is_some() => return Ok(()),
        None => {}
        Some(Ok(config)) => {
            state.unusable = None;
            state.removed_since = None;
            state.entries = Some(DeclaredEntry::all(config));
        }
        Some(Err(problem)) => {
            tracing::error!(error = %problem, "declared schedules cannot be read; the previous ones stay");
            let error = Error::new(Code::ConfigParseError, problem);
            state.unusable = Some(DeclarationProblem { name: None, file: path, line: None, error });
            state.problems.clear();
            state.unavailable.clear();
            state.blank = None;
            return Ok(());
        }
    }
    let Some(entries) = state.entries.clone() else { return Ok(()) };
    let rows = context.stream.store.read(schedules::all).await?;
    let mut problems = Vec::new();
    let mut kept = HashSet::new();
    let mut elsewhere = HashMap::new();
    let mut unavailable = HashSet::new();
    let workspaces = context.declarations.workspaces(&context.folders, &entries).await;
    for (entry, workspace) in entries.iter().zip(workspaces) {
        let row = rows.iter().find(|row| row.name == entry.name());
        let was_taken = row.is_some_and(|row| row.times.declared.is_some());
        let taken = match workspace {
            Ok(workspace) if !context.declarations.has(&workspace) => {
                elsewhere.insert(entry.name(), workspace);
                continue;
            }
            Ok(workspace) => take(context, entry, &workspace, row, &path).await,
            // Of another daemon, unless it was taken before.
            Err(error) if !was_taken && !is_not_available(&error) => continue,
            Err(error) => Err(error),
        };
        kept.insert(entry.name());
        match taken {
            Ok(()) => {}
            Err(error) if is_of_the_daemon(error.code) => return Err(error),
            Err(error) => {
                let (name, line) = (entry.name().to_owned(), entry.start().at.map(|at| at.line));
                tracing::warn!(name, %error, "a declared schedule or trigger is not in effect");
                if is_not_available(&error) {
                    unavailable.insert(name.clone());
                }
                let problem = DeclarationProblem { name: Some(name), file: path.clone(), line, error };
                problems.push((entry.kind(), problem));
            }
        }
    }
    // A daemon that was started with another home removes nothing.
    let is_of_file = |row: &ScheduleRow| {
        row.times
            .declared
            .as_ref()
            .is_some_and(|declared| declared.file == path || matches!(declared.file.try_exists(), Ok(false)))
    };
    let gone = rows.iter().filter(|row| is_of_file(row) && !kept.contains(row.name.as_str()));
    let (moved, gone): (Vec<_>, Vec<_>) = gone.partition(|row| elsewhere.contains_key(row.name.as_str()));
    for (row, to) in moved.iter().filter_map(|row| Some((row, elsewhere.get(row.name.as_str())?))) {
        match handover::hand_over(context, row, to).await {
            Ok(()) => {}
            Err(error) if is_of_the_daemon(error.code) => return Err(error),
            Err(error) => {
                // The other daemon takes it: it must not fire here once more.
                unavailable.insert(row.name.clone());
                let name = Some(row.name.clone());
                let problem = DeclarationProblem { name, file: path.clone(), line: None, error };
                problems.push((row.times.starter.kind(), problem));
            }
        }
    }
    handover::adopt(context, &context.declarations.state_dir).await?;
    state.problems = problems;
    state.unavailable = unavailable;
    state.blank = None;
    if gone.is_empty() {
        state.removed_since = None;
        return Ok(());
    }
    // Only a file with content removes an entry, and with it its log.
    if state.file.is_blank() {
        state.blank = Some(blank(path, gone.len()));
        return Ok(());
    }
    if state.removed_since.get_or_insert_with(Instant::now).elapsed() < REMOVED_AFTER {
        look_again(context);
        return Ok(());
    }
    remove(context, &gone).await?;
    state.removed_since = None;
    Ok(())
}

async fn remove(context: &ScheduleContext, rows: &[&ScheduleRow]) -> Result<()> {
    for row in rows {
        let id = row.id;
        let remove = move |tx: &mut Tx<'_>| schedules::delete(tx, id);
        context.stream.store.write(Durability::Full, 1, remove).await?;
    }
    Ok(())
}

/// Returns the problem of a missing or empty file that has declared this many entries.
fn blank(file: PathBuf, count: usize) -> DeclarationProblem {
    let message = format!(
        "{} is missing or empty, and {count} schedules and triggers that it declared go on",
        file.display()
    );
    let error = Error::new(Code::ConfigParseError, message)
        .recommend("restore the file, or remove them with `subagent schedule rm` and `subagent trigger rm`");
    DeclarationProblem { name: None, file, line: None, error }
}

/// Asks for a look after the time of a removal.
fn look_again(context: &Arc<ScheduleContext>) {
    let context = Arc::clone(context);
    tokio::spawn(async move {
        tokio::time::sleep(REMOVED_AFTER).await;
        context.declarations.asked.store(true, Ordering::Release);
        context.changed.notify_one();
    });
}

/// Stores an entry if it is new, or differs from what is stored.
async fn take(
    context: &Arc<ScheduleContext>,
    entry: &DeclaredEntry,
    workspace: &Workspace,
    row: Option<&ScheduleRow>,
    file: &Path,
) -> Result<()> {
    if row.is_some_and(|row| row.times.declared.is_none()) {
        return Err(name_taken(entry.name()));
    }
    let declared = Some(Declaration {
        file: file.to_owned(),
        sha256: entry.sha256(workspace),
        zone_of_system: entry.has_zone_of_system(),
    });
    if row.is_some_and(|row| row.times.declared == declared && row.times.starter.kind() == entry.kind()) {
        return Ok(());
    }
    if row.is_none() {
        let count = context.stream.store.read(|connection| Ok(schedules::all(connection)?.len())).await?;
        check_room(count)?;
    }
    let start = entry.start();
    let folder = Path::new(&start.cwd);
    let EntryPlan { choice, cwd, mut work, budget } = {
        let (entry, workspace) = (entry.clone(), workspace.clone());
        let environment = context.declarations.environment.clone();
        context.folders.look(folder, move || prepare(&entry, &workspace, &environment)).await??
    };
    let mut passed = None;
    let starter = match entry {
        DeclaredEntry::Schedule(_, schedule) => {
            let (when, timezone) = (schedule.when.clone(), timezone(schedule, row));
            passed = passed_time(&when, &timezone, entropy::now())?;
            answered(folder, check_work(context, &mut work)).await?;
            FiringSource::Times { when, timezone, missed: schedule.missed }
        }
        DeclaredEntry::Trigger(_, trigger) => {
            let mut source = trigger_source(&trigger.source, cwd);
            answered(folder, check_trigger(context, &mut source, &mut work)).await?;
            if let (TriggerSource::After { worker, .. }, DeclaredSource::After { worker: name, .. }) =
                (&mut source, &trigger.source)
            {
                keep_name(worker, name);
            }
            FiringSource::Trigger { source }
        }
    };
    if let (ScheduledWork::Send(message), DeclaredReceiver::Worker(name)) = (&mut work, &start.receiver) {
        keep_name(&mut message.worker, name);
    }
    let rules = StoredTimes { starter, overlap: start.overlap, max_failures: start.max_failures, declared };
    let new = NewSchedule { choice, name: entry.name().to_owned(), rules, work };
    subagent_failpoint::hit("declared.before_store");
    supervisor::start::scheduled::store_declared(&context.supervisor, new, row.cloned(), budget, passed)
        .await?;
    subagent_failpoint::hit("declared.after_store");
    Ok(())
}

/// Keeps the name of a worker, which is looked up at each firing. An id or its beginning, which the
/// entry may have instead, stays the id that was found.
fn keep_name(found: &mut String, declared: &str) {
    if !found.starts_with(declared) {
        declared.clone_into(found);
    }
}

fn choice(workspace: &Workspace) -> ControllerChoice {
    ControllerChoice {
        controller_id: None,
        hinted_controller_id: controller_hint::read_controller_id(&workspace.root),
        workspace_key: workspace.root.to_string_lossy().into_owned(),
    }
}

/// What the files in the folder of an entry make of it.
struct EntryPlan {
    choice: ControllerChoice,
    cwd: PathBuf,
    work: ScheduledWork,
    /// The budget of a controller that does not exist yet.
    budget: Limits,
}

fn prepare(entry: &DeclaredEntry, workspace: &Workspace, environment: &Environment) -> Result<EntryPlan> {
    let cwd = workspace::resolve_cwd(Some(Path::new(&entry.start().cwd)), environment)?;
    let mut env = environment.clone();
    env.cwd.clone_from(&cwd);
    let loaded = discovery::load_regular(None, None, &env)?;
    let budget = of_config(&loaded.config.budgets.controller);
    let choice = choice(workspace);
    let start = entry.start();
    let (agent, launcher, sandbox, worktree) = match &start.receiver {
        DeclaredReceiver::Worker(worker) => {
            let message = ScheduledMessage { worker: worker.clone(), text: start.text.clone() };
            return Ok(EntryPlan { choice, cwd, work: ScheduledWork::Send(message), budget });
        }
        DeclaredReceiver::Task { agent, launcher, sandbox, worktree } => {
            (agent.clone(), launcher.clone(), sandbox.clone(), worktree.clone())
        }
    };
    // As the command reads it.
    let (agent, launcher) = match loaded.config.launcher(&agent).is_ok() {
        true => (None, Some(agent)),
        false => (Some(agent), launcher),
    };
    let (word, name) = (entry.kind().word(), entry.name());
    let place = TaskPlace {
        choice: choice.clone(),
        workspace: workspace.root.clone(),
        cwd: cwd.clone(),
        config: None,
        user_config: None,
        sandbox,
        placement: None,
        launcher,
        agents: None,
        env: Vec::new(),
        umask: UMASK,
        nofile: None,
    };
    let task = RunTask {
        agent,
        prompt: start.text.clone(),
        description: Some(format!("{word} {name}")),
        name: None,
        mode: Some(TaskMode::Background),
        metadata: serde_json::Map::from_iter([(word.to_owned(), name.into())]),
        overrides: TaskOverrides::default(),
        worktree,
        manager: Some(Box::new(place)),
    };
    Ok(EntryPlan { choice, cwd, work: ScheduledWork::Task(Box::new(task)), budget })
}
