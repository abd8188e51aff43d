//! Validates a result against its schema in a separate process, because both are untrusted.
//! Excessive memory, CPU time or a crash of the library ends only that process. It is this
//! executable ([`COMMAND`]) without environment and files, and ends when the daemon stops waiting.

use std::io::{self, Read as _, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{ExitCode, ExitStatus, Stdio};
use std::time::Duration;

use nix::sys::prctl;
use nix::sys::resource::{Resource, setrlimit};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use subagent_config::result_schema::{ResultSchema, STACK_BYTES, with_stack};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, Command};
use tokio::sync::Semaphore;

/// The argument of `subagentd` that runs a check.
pub const COMMAND: &str = "check-result";

/// Time limit of a check.
const LOOK_LIMIT: Duration = Duration::from_secs(5);
/// Time limit of the wait for a free slot.
const PLACE_LIMIT: Duration = Duration::from_secs(1);
/// Limits the number of concurrent checks.
static LOOKS: Semaphore = Semaphore::const_new(4);
/// Memory limit of a check in bytes: its stack, and the same amount again.
const MEMORY: u64 = 2 * STACK_BYTES as u64;
/// Maximum length of the answer, in bytes.
const MAX_ANSWER: u64 = 1024 * 1024;

#[derive(Serialize, Deserialize)]
struct SchemaCheckRequest {
    schema: Value,
    text: String,
}

/// Result of a check.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum SchemaCheckResult {
    Fits,
    /// The validation errors of the text.
    Wrong(Vec<Value>),
    /// The check was not possible, for this reason.
    Unknown(String),
}

/// Validates a text against a schema.
///
/// # Errors
/// If no check was started, or it was ended from outside. Another attempt makes sense.
pub(crate) async fn look(schema: Value, text: String) -> io::Result<SchemaCheckResult> {
    let place = tokio::time::timeout(PLACE_LIMIT, LOOKS.acquire());
    let _place = place.await.map_err(io::Error::other)?.map_err(io::Error::other)?;
    let question = serde_json::to_vec(&SchemaCheckRequest { schema, text }).map_err(io::Error::other)?;
    // The running executable, even if the file was replaced meanwhile.
    let mut command = Command::new("/proc/self/exe");
    command.arg0("subagentd").arg(COMMAND).env_clear().current_dir("/").process_group(0);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
    let mut child = command.spawn()?;
    let Ok(answered) = tokio::time::timeout(LOOK_LIMIT, ask(&mut child, &question)).await else {
        child.kill().await?;
        return Ok(without_end());
    };
    let (status, answer) = answered?;
    match serde_json::from_slice(&answer) {
        Ok(found) if status.success() => Ok(found),
        _ => ended(status),
    }
}

/// Sends the input and reads the answer. The child's input stays open until then, because the child
/// ends when it is closed.
async fn ask(child: &mut Child, question: &[u8]) -> io::Result<(ExitStatus, Vec<u8>)> {
    let gone = || io::Error::other("it has no pipes");
    let (mut stdin, stdout) = (child.stdin.take().ok_or_else(gone)?, child.stdout.take().ok_or_else(gone)?);
    // If the child has ended, its status has the reason.
    let _ = async {
        stdin.write_all(question).await?;
        stdin.write_all(b"\n").await
    }
    .await;
    let mut answer = Vec::new();
    stdout.take(MAX_ANSWER).read_to_end(&mut answer).await?;
    let status = child.wait().await?;
    Ok((status, answer))
}

fn without_end() -> SchemaCheckResult {
    SchemaCheckResult::Unknown(format!("the check did not end within {} s", LOOK_LIMIT.as_secs()))
}

/// Returns the result of a check that ended without an answer.
fn ended(status: ExitStatus) -> io::Result<SchemaCheckResult> {
    use nix::libc::{SIGABRT, SIGBUS, SIGKILL, SIGSEGV, SIGXCPU};
    match status.signal() {
        Some(SIGXCPU) => Ok(without_end()),
        // Signals with which the system or the standard library ends a process that uses too much
        // memory.
        Some(SIGABRT | SIGBUS | SIGKILL | SIGSEGV) => {
            Ok(SchemaCheckResult::Unknown("the check needs more memory than it may use".to_owned()))
        }
        _ => Err(io::Error::other(format!("the result check ended without an answer ({status})"))),
    }
}

/// Runs a check: the input is one line on standard input, the answer is written to standard output.
#[must_use]
pub fn main() -> ExitCode {
    let _ = prctl::set_name(c"subagent-check");
    match answer() {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn answer() -> io::Result<()> {
    let seconds = LOOK_LIMIT.as_secs();
    setrlimit(Resource::RLIMIT_CORE, 0, 0)?;
    setrlimit(Resource::RLIMIT_CPU, seconds + 1, seconds + 2)?;
    setrlimit(Resource::RLIMIT_AS, MEMORY, MEMORY)?;
    let mut line = String::new();
    io::stdin().read_line(&mut line)?;
    let SchemaCheckRequest { schema, text } = serde_json::from_str(&line)?;
    drop(line);
    // The daemon no longer waits for the answer.
    std::thread::Builder::new().spawn(|| {
        let _ = io::stdin().read(&mut [0]);
        std::process::exit(1);
    })?;
    let found = match ResultSchema::bounded(&schema) {
        Ok(schema) => match with_stack(|| schema.check(&text).errors) {
            Ok(errors) if errors.is_empty() => SchemaCheckResult::Fits,
            Ok(errors) => SchemaCheckResult::Wrong(errors),
            Err(_) => SchemaCheckResult::Unknown("the check failed".to_owned()),
        },
        Err(problem) => SchemaCheckResult::Unknown(format!("the schema {problem}")),
    };
    serde_json::to_writer(io::stdout(), &found)?;
    io::stdout().flush()
}
