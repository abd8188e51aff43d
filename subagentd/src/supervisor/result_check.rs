//! A result held against its schema in a process of its own: schema and text come from others, and what they take, in
//! memory, time or by a failure of the library, ends with it.
//!
//! It is this daemon's executable ([`COMMAND`]), without its environment and files. It ends when nobody waits for it.

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

/// The argument of `subagentd` that does this.
pub const COMMAND: &str = "check-result";

/// So long is a result looked at.
const LOOK_LIMIT: Duration = Duration::from_secs(5);
/// So long is waited for a place.
const PLACE_LIMIT: Duration = Duration::from_secs(1);
/// So many are looked at at the same time.
static LOOKS: Semaphore = Semaphore::const_new(4);
/// The memory of a look: its stack, and so much again.
const MEMORY: u64 = 2 * STACK_BYTES as u64;
/// What is said of it has no more bytes.
const MOST_ANSWER: u64 = 1024 * 1024;

#[derive(Serialize, Deserialize)]
struct Question {
    schema: Value,
    text: String,
}

/// What came of a look.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Found {
    Fits,
    /// What is wrong.
    Wrong(Vec<Value>),
    /// Nobody can say, for this reason.
    Unknown(String),
}

/// Holds a text against a schema.
///
/// # Errors
/// When no look has begun, or somebody has ended it: there is to be another one.
pub(super) async fn look(schema: Value, text: String) -> io::Result<Found> {
    let place = tokio::time::timeout(PLACE_LIMIT, LOOKS.acquire());
    let _place = place.await.map_err(io::Error::other)?.map_err(io::Error::other)?;
    let question = serde_json::to_vec(&Question { schema, text }).map_err(io::Error::other)?;
    // Whatever has become of the file since: what runs here.
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

/// Its input stays open until it has answered: it ends when that does.
async fn ask(child: &mut Child, question: &[u8]) -> io::Result<(ExitStatus, Vec<u8>)> {
    let gone = || io::Error::other("it has no pipes");
    let (mut stdin, stdout) = (child.stdin.take().ok_or_else(gone)?, child.stdout.take().ok_or_else(gone)?);
    // Of one that has ended the status says why.
    let _ = async {
        stdin.write_all(question).await?;
        stdin.write_all(b"\n").await
    }
    .await;
    let mut answer = Vec::new();
    stdout.take(MOST_ANSWER).read_to_end(&mut answer).await?;
    let status = child.wait().await?;
    Ok((status, answer))
}

fn without_end() -> Found {
    Found::Unknown(format!("it was looked at for {} s without an end", LOOK_LIMIT.as_secs()))
}

/// What a look says that has ended without an answer.
fn ended(status: ExitStatus) -> io::Result<Found> {
    use nix::libc::{SIGABRT, SIGBUS, SIGKILL, SIGSEGV, SIGXCPU};
    match status.signal() {
        Some(SIGXCPU) => Ok(without_end()),
        // What the system does with one that takes too much, and the standard library.
        Some(SIGABRT | SIGBUS | SIGKILL | SIGSEGV) => {
            Ok(Found::Unknown("to look at it takes more memory than there is for it".to_owned()))
        }
        _ => Err(io::Error::other(format!("whoever looked at a result has ended ({status})"))),
    }
}

/// The look itself: the question is one line of its input, the answer is its output.
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
    let Question { schema, text } = serde_json::from_str(&line)?;
    drop(line);
    // Nobody waits for it any more.
    std::thread::Builder::new().spawn(|| {
        let _ = io::stdin().read(&mut [0]);
        std::process::exit(1);
    })?;
    let found = match ResultSchema::bounded(&schema) {
        Ok(schema) => match with_stack(|| schema.check(&text).errors) {
            Ok(errors) if errors.is_empty() => Found::Fits,
            Ok(errors) => Found::Wrong(errors),
            Err(_) => Found::Unknown("whoever looked at it has failed".to_owned()),
        },
        Err(problem) => Found::Unknown(format!("the schema {problem}")),
    };
    serde_json::to_writer(io::stdout(), &found)?;
    io::stdout().flush()
}
