//! Asking an agent something for a moment, without a worker or a daemon: through `subagent-runtime
//! ask`, which starts the agent below a guard and ends it. Nothing is left when this process is
//! killed: the runtime's input ends then, and with it everything.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use nix::sys::resource::{Resource, getrlimit};
use subagent_config::environment::passes_on;
use subagent_config::start::environment;
use subagent_config::{ResolvedLauncher, model};
use subagent_protocol::ask::{AgentQuery, AgentQueryOutput, AgentQueryResult, AgentQuestion, Deadlines};
use subagent_protocol::clean::clean;
use subagent_protocol::start::{AgentProgram, Timeouts};
use subagent_protocol::{Code, MAX_LINE_BYTES, PROTOCOL};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::{Instant, timeout_at};

use crate::client::block_on;
use crate::context::{CliContext, path_value};
use crate::failure::{Failure, Result};
use crate::output;
use crate::sibling_executable::sibling_executable;
use crate::umask::current_umask;

/// What the steps may take beyond their deadlines.
const MARGIN: Duration = Duration::from_secs(15);
/// How long the runtime may take to end its processes after a request to end.
const LAST_WORDS: Duration = Duration::from_secs(10);

/// Where the agent is started.
pub(crate) enum AgentFolder {
    /// In this folder, absolute.
    Folder(PathBuf),
    /// In an empty folder that is removed again.
    Empty,
}

/// How long an agent may take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    /// From its start to its answer to `initialize`.
    pub(crate) initialize: Duration,
    /// For each request after it.
    pub(crate) request: Duration,
    /// For each step of its end: the close of the session, the end of its input, SIGTERM.
    pub(crate) stop_grace: Duration,
}

impl Patience {
    /// What the launcher says, or `all` for each step.
    pub(crate) fn of(launcher: &model::Launcher, all: Option<Duration>) -> Self {
        let times = launcher.timeouts;
        let of = |phase: Option<Duration>| all.or(phase).unwrap_or(times.startup);
        Self {
            initialize: of(times.initialize),
            request: of(times.session),
            stop_grace: Duration::from_millis(Timeouts::default().stop_grace_ms),
        }
    }

    /// The same with a limit for each request and for each step of the end.
    pub(crate) fn at_most(self, request: Duration, stop_grace: Duration) -> Self {
        Self {
            initialize: self.initialize.min(request),
            request: self.request.min(request),
            stop_grace: self.stop_grace.min(stop_grace),
        }
    }
}

/// Starts the agent of a launcher, asks, and waits until nothing is left of it. What the agent says of the question is
/// in the answer, an error too.
///
/// # Errors
/// When it could not be asked at all.
pub(crate) fn ask(
    context: &CliContext,
    (launcher, resolved): (&model::Launcher, &ResolvedLauncher),
    place: AgentFolder,
    question: AgentQuestion,
    patience: Patience,
) -> Result<AgentQueryResult> {
    let (folder, cwd) = match place {
        AgentFolder::Folder(cwd) => (None, cwd),
        AgentFolder::Empty => {
            let folder = empty_folder()?;
            let cwd = folder.path().to_owned();
            (Some(folder), cwd)
        }
    };
    let text = |path: &std::path::Path| {
        let text = path.to_str().map(str::to_owned);
        text.ok_or_else(|| {
            Failure::argument(format!("{} is not UTF-8; move it to a path of plain text", path.display()))
                .with("path", path_value(path))
        })
    };
    text(&cwd)?;
    let program = match &resolved.exec_path {
        Some(path) => text(path)?,
        None => resolved.effective_command.clone(),
    };
    let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let ask = AgentQuery {
        protocol: PROTOCOL,
        agent: AgentProgram {
            sandbox: None,
            program,
            args: resolved.effective_args.clone(),
            env: environment(&context.env, launcher, &cwd),
            cwd,
            umask: current_umask().bits(),
            nofile: getrlimit(Resource::RLIMIT_NOFILE).ok().map(|(soft, _)| soft),
        },
        temporary_cwd: folder.is_some(),
        question,
        deadlines: Deadlines {
            initialize_ms: millis(patience.initialize),
            request_ms: millis(patience.request),
            stop_grace_ms: millis(patience.stop_grace),
        },
    };
    let steps = patience.initialize.saturating_add(patience.request.saturating_mul(2));
    let answer = block_on(async { exchange(context, &ask, steps.saturating_add(MARGIN)).await });
    // The runtime has removed it already, unless it was killed.
    drop(folder);
    answer
}

/// In the system's folder for such things: of the workspace the agent should not see anything.
fn empty_folder() -> Result<TempDir> {
    tempfile::Builder::new().prefix("subagent-probe-").tempdir().map_err(|error| {
        Failure::new(Code::BackendRuntimeError, format!("cannot make an empty folder for the agent: {error}"))
            .with("error", error.to_string())
            .recommend("make room in TMPDIR, or name a folder with --cwd")
    })
}

async fn exchange(context: &CliContext, ask: &AgentQuery, patience: Duration) -> Result<AgentQueryResult> {
    let program = sibling_executable("subagent-runtime")?;
    let failed = |what: &str, error: &dyn std::fmt::Display| {
        Failure::new(Code::BackendRuntimeError, format!("{} {what}: {error}", program.display()))
            .with("program", path_value(&program))
            .with("error", error.to_string())
            .recommend(
                "install subagent, subagentd, subagent-runtime and subagent-webhook into the same folder, of one version",
            )
    };
    let mut line = serde_json::to_vec(ask).map_err(|error| Failure::internal(error.to_string()))?;
    line.push(b'\n');
    let mut child = Command::new(&program)
        .arg("ask")
        .current_dir("/")
        .env_clear()
        .envs(context.env.vars.iter().filter(|(name, _)| passes_on(name)))
        .envs(subagent_failpoint::armed_with())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| failed("cannot be started", &error))?;
    let (Some(mut stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(Failure::internal("the runtime has no pipes"));
    };
    let deadline = Instant::now().checked_add(patience);
    // A runtime that does not read it has ended; its output says so.
    let _ = stdin.write_all(&line).await;
    let said = match deadline {
        Some(deadline) => timeout_at(deadline, hear(stdout)).await,
        None => Ok(hear(stdout).await),
    };
    match said {
        Ok(Some(answer)) => {
            drop(stdin);
            end(&mut child).await;
            Ok(answer)
        }
        Ok(None) => {
            let why = last_words(&mut child).await;
            Err(failed("ended without an answer", &why))
        }
        Err(_) => {
            drop(stdin);
            end(&mut child).await;
            Err(Failure::new(Code::BackendTimeout, "the agent could not be asked and ended in time")
                .retryable()
                .with("timeoutSeconds", patience.as_secs())
                .recommend(
                    "run the launcher's command by hand: it must speak ACP on standard input and output",
                ))
        }
    }
}

/// Reads what is said until the answer comes.
async fn hear(mut stdout: ChildStdout) -> Option<AgentQueryResult> {
    let mut bytes: Vec<u8> = Vec::new();
    let mut seen = 0;
    loop {
        while let Some(more) = bytes[seen..].iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = bytes.drain(..=seen + more).collect();
            seen = 0;
            match serde_json::from_slice(&line) {
                Ok(AgentQueryOutput::Stderr { text }) => output::write_stderr(&clean(&text)),
                Ok(AgentQueryOutput::Done(answer)) => return Some(*answer),
                // A line of a newer runtime.
                Err(_) => {}
            }
        }
        seen = bytes.len();
        if bytes.len() > MAX_LINE_BYTES || !stdout.read_buf(&mut bytes).await.is_ok_and(|read| read > 0) {
            return None;
        }
    }
}

/// Waits for its end, and kills it if it does not come; its guard ends the rest then.
async fn end(child: &mut Child) {
    if timeout_at(Instant::now() + LAST_WORDS, child.wait()).await.is_err() {
        let _ = child.kill().await;
    }
}

/// What a runtime that could not begin has written, or how it ended.
async fn last_words(child: &mut Child) -> String {
    let mut text = Vec::new();
    if let Some(stderr) = child.stderr.take() {
        let _ = timeout_at(Instant::now() + LAST_WORDS, stderr.take(4096).read_to_end(&mut text)).await;
    }
    end(child).await;
    let text = String::from_utf8_lossy(&text).trim().to_owned();
    match child.try_wait() {
        Ok(Some(status)) if text.is_empty() => status.to_string(),
        _ => text,
    }
}
