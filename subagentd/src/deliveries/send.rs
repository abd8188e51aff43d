//! Makes one attempt to deliver a notification.

use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::Duration;

use nix::libc::{O_NOCTTY, O_NONBLOCK};
use subagent_config::notify::NotificationChannel;
use subagent_config::user_command;
use subagent_protocol::clean::one_line;
use subagent_protocol::command_run::CommandEnd;
use subagent_protocol::json::extend;
use subagent_protocol::time::Timestamp;
use subagent_protocol::webhook::{WebhookAnswer, WebhookPost};

use super::context::DeliveryContext;
use crate::notification::SinkNotification;
use crate::supervisor::{command_run, entropy};

/// Maximum duration of a webhook request.
const DEADLINE: Duration = Duration::from_secs(30);
/// Additional time for the process that makes the attempt.
const GRACE: Duration = Duration::from_secs(5);
/// Maximum length of a command's output in the log, in bytes.
const MAX_SAID_BYTES: usize = 400;
/// Folder of the terminal devices.
const TERMINALS: &str = "/dev/pts";

/// A failed attempt. The text contains no URL and no secret.
#[derive(Debug)]
pub(super) struct DeliveryFailure {
    pub(super) error: String,
    /// Minimum wait that the sink requested.
    pub(super) retry_after: Option<Duration>,
    /// Whether further attempts are useless.
    pub(super) is_final: bool,
}

impl DeliveryFailure {
    pub(super) fn new(error: impl Into<String>) -> Self {
        Self { error: error.into(), retry_after: None, is_final: false }
    }
}

/// Delivers a notification to a target with resolved variables. Each attempt uses the same `id`.
///
/// # Errors
/// The reason. The target may have received the notification all the same.
pub(super) async fn send(
    context: &DeliveryContext,
    target: &NotificationChannel,
    id: &str,
    notification: &SinkNotification,
) -> Result<(), DeliveryFailure> {
    let now = entropy::now();
    match target {
        NotificationChannel::Webhook { url, format, secret, .. } => {
            let (content_type, body) = notification.body(*format, now);
            let post = WebhookPost {
                url: url.clone(),
                id: id.to_owned(),
                timestamp: u64::try_from(now.0 / 1000).unwrap_or(0),
                secret: secret.clone(),
                content_type: content_type.to_owned(),
                body,
                timeout_ms: millis(DEADLINE),
            };
            webhook(context, &post).await
        }
        NotificationChannel::Command(line) => {
            let said = run(context, user_command::shell(line), input(notification, id, now)).await;
            said.map(drop).map_err(|what| DeliveryFailure::new(format!("the command {what}")))
        }
        NotificationChannel::Desktop => {
            let (title, text) = (notification.title(), notification.text());
            let argv = ["notify-send", "--app-name=subagent", "--", &title, &text].map(str::to_owned);
            let said = run(context, argv.to_vec(), String::new()).await;
            said.map(drop).map_err(|what| DeliveryFailure::new(format!("notify-send {what}")))
        }
        NotificationChannel::Bell => {
            let rung = tokio::task::spawn_blocking(|| ring(Path::new(TERMINALS))).await;
            match rung {
                Ok(Ok(_)) => Ok(()),
                Ok(Err(error)) => {
                    Err(DeliveryFailure::new(format!("the terminals cannot be listed: {error}")))
                }
                Err(error) => Err(DeliveryFailure::new(error.to_string())),
            }
        }
    }
}

/// Builds the input of a command: the notification with its id, as one line of JSON.
fn input(notification: &SinkNotification, id: &str, now: Timestamp) -> String {
    let mut document = notification.json(now);
    extend(&mut document, [("id", id.into())]);
    format!("{document}\n")
}

async fn webhook(context: &DeliveryContext, post: &WebhookPost) -> Result<(), DeliveryFailure> {
    let failed = |what: String| DeliveryFailure::new(format!("subagent-webhook {what}"));
    let program = context.runtime_program.with_file_name("subagent-webhook");
    let request = serde_json::to_string(post).map_err(|error| failed(error.to_string()))?;
    let answer = run(context, vec![program.to_string_lossy().into_owned()], request).await.map_err(failed)?;
    match serde_json::from_str(&answer) {
        Ok(WebhookAnswer::Status { status: 200..=299, .. }) => Ok(()),
        Ok(WebhookAnswer::Status { status, retry_after }) => Err(DeliveryFailure {
            error: match status {
                300..=399 => {
                    format!("the server answered {status}; redirects are not followed, use the final URL")
                }
                _ => format!("the server answered {status}"),
            },
            retry_after: retry_after.map(Duration::from_secs),
            // 410 Gone: the owner removed the webhook.
            is_final: status == 410,
        }),
        Ok(WebhookAnswer::Failed { error }) => Err(DeliveryFailure::new(error)),
        Ok(WebhookAnswer::Refused { error }) => {
            Err(DeliveryFailure { is_final: true, ..DeliveryFailure::new(error) })
        }
        Err(_) => Err(failed("ended without an answer".to_owned())),
    }
}

/// Runs a program in the home folder to its end. Returns its standard output.
///
/// # Errors
/// The failure, worded to follow the program's name in a sentence.
async fn run(context: &DeliveryContext, argv: Vec<String>, stdin: String) -> Result<String, String> {
    let environment = &context.environment;
    let home = environment.home.as_deref().unwrap_or(Path::new("/"));
    let run = user_command::of(argv, home, environment.vars.clone(), stdin, millis(DEADLINE + GRACE));
    let result = command_run::run(&context.runtime_program, run).await;
    let said = one_line(&result.stderr);
    let what = match result.end {
        CommandEnd::Exited { code: 0 } => return Ok(result.stdout),
        CommandEnd::Exited { code } => format!("exited with {code}"),
        CommandEnd::Signaled { signal } => format!("was ended by signal {signal}"),
        CommandEnd::TimedOut => format!("did not end within {} s", (DEADLINE + GRACE).as_secs()),
        CommandEnd::NotStarted { error } => format!("cannot be started: {error}"),
    };
    let said = &said[..said.floor_char_boundary(MAX_SAID_BYTES.min(said.len()))];
    Err(if said.is_empty() { what } else { format!("{what}: {said}") })
}

/// Rings the bell of the user's terminals in a folder. Returns their number.
fn ring(terminals: &Path) -> std::io::Result<usize> {
    let own = nix::unistd::geteuid().as_raw();
    let mut rung = 0;
    for entry in std::fs::read_dir(terminals)? {
        let path = entry?.path();
        // A closed or blocked terminal is not a failure.
        if std::fs::metadata(&path).is_ok_and(|metadata| metadata.uid() == own) {
            let opened =
                std::fs::OpenOptions::new().write(true).custom_flags(O_NOCTTY | O_NONBLOCK).open(&path);
            rung += usize::from(opened.is_ok_and(|mut terminal| terminal.write_all(b"\x07").is_ok()));
        }
    }
    Ok(rung)
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bell_of_each_terminal_rings() {
        use std::io::Read as _;
        let folder = tempfile::tempdir().unwrap();
        let pty = nix::pty::openpty(None, None).unwrap();
        let name = nix::unistd::ttyname(&pty.slave).unwrap();
        std::os::unix::fs::symlink(name, folder.path().join("0")).unwrap();
        std::os::unix::fs::symlink("/nowhere", folder.path().join("1")).unwrap();
        assert_eq!(ring(folder.path()).unwrap(), 1);
        let mut heard = [0; 1];
        std::fs::File::from(pty.master).read_exact(&mut heard).unwrap();
        assert_eq!(&heard, b"\x07");
        assert!(ring(Path::new("/nowhere")).is_err());
    }
}
