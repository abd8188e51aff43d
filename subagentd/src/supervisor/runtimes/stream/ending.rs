//! Why a stream has ended, as an error for the user.

use std::time::Duration;

use subagent_protocol::clean::one_line;
use subagent_protocol::stream::{OLDEST_STREAM_PROTOCOL, STREAM_PROTOCOL, StreamError, StreamHello};
use subagent_protocol::{Code, Error, Result};
use tokio::process::Child;

use super::error_output::{ErrorOutput, with_output};

/// Time limit for the exit status of a command that has closed its output.
const EXIT_TIMEOUT: Duration = Duration::from_secs(1);
/// Maximum length of what a command printed in place of a stream, in bytes.
const MAX_BANNER_SHOWN: usize = 300;

/// The place does not answer. `said` is the standard error of the command.
pub(in crate::supervisor::runtimes) fn unreachable(what: &str, said: &str) -> Error {
    Error::new(Code::PlacementUnreachable, with_output(what, said)).retryable()
}

/// The command has closed its output.
pub(super) async fn ended(child: &mut Child, said: ErrorOutput) -> Error {
    let status = match tokio::time::timeout(EXIT_TIMEOUT, child.wait()).await {
        Ok(Ok(status)) => status.to_string(),
        Ok(Err(error)) => error.to_string(),
        Err(_) => "still running".to_owned(),
    };
    unreachable(&format!("the connection to the place ended ({status})"), &said.rest().await)
}

/// The place gives no sign of life.
pub(super) fn silent(time: Duration, said: &ErrorOutput) -> Error {
    let what = format!("the place gave no sign of life for {} s", time.as_secs());
    unreachable(&what, &said.text())
}

/// The stream cannot be read on.
pub(super) fn broken(what: &str, said: &ErrorOutput) -> Error {
    unreachable(&format!("the connection to the place broke: {what}"), &said.text())
}

/// Its bytes are not a stream of this protocol. `banner` is what came in place of one.
pub(super) fn no_stream(error: &StreamError, banner: Option<&[u8]>, said: &ErrorOutput) -> Error {
    match (error, banner) {
        (StreamError::NoMagic, Some(banner)) => {
            let shown = &banner[..banner.len().min(MAX_BANNER_SHOWN)];
            let shown = one_line(&String::from_utf8_lossy(shown));
            incompatible(&with_output(&format!("{error}; it printed `{shown}`"), &said.text()))
        }
        (StreamError::Unknown, _) => incompatible(&error.to_string()),
        _ => broken(&error.to_string(), said),
    }
}

/// The place serves another daemon, of this generation.
pub(crate) fn fenced(generation: u64) -> Error {
    let message = "the place of the worker serves another daemon, which has a copy of this state dir and \
                   was started later; this daemon changes nothing there";
    Error::new(Code::Fenced, message).with("generation", generation).recommend(
        "use the worker through the other daemon; or end that one, and then this one: the daemon that is started last is served",
    )
}

/// Checks that both sides speak a common protocol.
///
/// # Errors
/// `PLACEMENT_INCOMPATIBLE`.
pub(super) fn check_protocol(hello: &StreamHello) -> Result<()> {
    if hello.oldest_protocol <= STREAM_PROTOCOL && hello.protocol >= OLDEST_STREAM_PROTOCOL {
        return Ok(());
    }
    let versions = format!(
        "subagent-runtime {} there speaks the protocols {} to {} of the stream, this daemon speaks \
         {OLDEST_STREAM_PROTOCOL} to {STREAM_PROTOCOL}",
        one_line(&hello.version),
        hello.oldest_protocol,
        hello.protocol,
    );
    Err(incompatible(&versions)
        .with("version", one_line(&hello.version))
        .with("protocol", hello.protocol)
        .with("oldestProtocol", hello.oldest_protocol))
}

fn incompatible(what: &str) -> Error {
    Error::new(Code::PlacementIncompatible, what)
        .recommend("install the subagent-runtime of this version there; the worker goes on meanwhile")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_protocol_names_both_versions() {
        let mut hello = StreamHello {
            oldest_protocol: STREAM_PROTOCOL,
            protocol: STREAM_PROTOCOL + 3,
            version: "9.9\u{1b}[1m".to_owned(),
            boot_id: String::new(),
            segment: None,
            runtime_lives: true,
            guard_lives: true,
            now_ms: None,
        };
        assert_eq!(check_protocol(&hello), Ok(()));
        hello.oldest_protocol = STREAM_PROTOCOL + 1;
        let error = check_protocol(&hello).unwrap_err();
        assert_eq!(error.code, Code::PlacementIncompatible);
        assert!(error.message.contains("subagent-runtime 9.9 there"), "{error}");
        assert_eq!(error.details["oldestProtocol"], STREAM_PROTOCOL + 1);
        (hello.oldest_protocol, hello.protocol) = (0, OLDEST_STREAM_PROTOCOL - 1);
        assert!(check_protocol(&hello).is_err());
    }

    #[test]
    fn other_output_is_shown_in_part() {
        let banner = [b"\x1b[31musage:\nssh ".as_slice(), &[b'x'; 1000]].concat();
        let error = no_stream(&StreamError::NoMagic, Some(&banner), &ErrorOutput::of(None));
        assert_eq!(error.code, Code::PlacementIncompatible);
        assert!(error.message.contains("`usage: ssh xxx") && error.message.len() < 600, "{error}");
    }
}
