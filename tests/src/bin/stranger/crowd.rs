//! Many idle connections of one process that load a daemon.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use subagent_tests::harness::wait_until;

/// Maximum time that the connections are kept.
const KEPT: Duration = Duration::from_secs(300);
/// How long the daemon may take to read the request and begin its response.
const WRITTEN: Duration = Duration::from_secs(3);

/// Opens `count` connections and writes `head` and then `body` bytes to each. Creates the
/// file `opened` once that is done as far as the daemon permits. Keeps all of them until
/// the file `gate` exists.
pub(crate) fn hold(
    socket: &str,
    count: &str,
    what: (&str, &str),
    files: (&str, &str),
) -> io::Result<Vec<u8>> {
    let (head, body) = what;
    let number = |text: &str| text.parse::<usize>().map_err(io::Error::other);
    let (count, body) = (number(count)?, number(body)?);
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard)?;
    let head = head.replace("\\n", "\r\n");
    let (done, finished) = mpsc::channel();
    let mut kept = Vec::new();
    for _ in 0..count {
        let stream = Arc::new(UnixStream::connect(socket)?);
        if !head.is_empty() {
            let (stream, head, done) = (Arc::clone(&stream), head.clone(), done.clone());
            thread::spawn(move || {
                let mut writer = stream.as_ref();
                let _ = writer.write_all(head.as_bytes());
                let piece = vec![b' '; 1024 * 1024];
                let mut left = body;
                while left > 0 && writer.write_all(&piece[..left.min(piece.len())]).is_ok() {
                    left = left.saturating_sub(piece.len());
                }
                // The response has begun.
                let _ = writer.read(&mut [0]);
                // The receiver may be gone.
                let _ = done.send(());
            });
        }
        kept.push(stream);
    }
    let deadline = Instant::now() + WRITTEN;
    drop(done);
    while finished.recv_timeout(deadline.saturating_duration_since(Instant::now())).is_ok() {}
    fs::write(files.0, "")?;
    let gate = Path::new(files.1);
    wait_until("the gate of a crowd", KEPT, || gate.exists().then_some(()));
    Ok(kept.len().to_string().into_bytes())
}
