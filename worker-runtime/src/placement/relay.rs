//! `subagent-runtime relay FOLDER NUMBER`: passes standard input and output on to `submit`, which the
//! process that holds the place starts. Ends with its answer.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use super::folder::{Pauses, PlacedFolder};
use super::there;

/// Time in which the process that holds the place must listen: engines report a place as started
/// before its first process runs.
const LISTEN_TIMEOUT: Duration = Duration::from_secs(20);

/// Returns the socket of the process that holds the place of this runtime.
pub(super) fn socket(folder: &PlacedFolder, number: &OsStr) -> PathBuf {
    let mut name = OsString::from("hold-");
    name.push(number);
    folder.path().join(name)
}

/// Relays one exchange.
///
/// # Errors
///
/// Of the system, or no process holds the place.
pub(crate) fn run(folder: Option<OsString>, number: Option<OsString>) -> io::Result<()> {
    super::set_name(c"subagent-relay");
    let missing =
        || io::Error::new(io::ErrorKind::InvalidInput, "the arguments must be a folder and a number");
    let (folder, number) = folder.zip(number).ok_or_else(missing)?;
    let path = socket(&PlacedFolder::at(there::path(&folder)?)?, &number);
    let mut pauses = Pauses::new(LISTEN_TIMEOUT);
    let mut answers = loop {
        match UnixStream::connect(&path) {
            Ok(stream) => break stream,
            Err(error) if !pauses.pause() => {
                let message = format!("{}: {error}", path.display());
                return Err(io::Error::new(io::ErrorKind::NotConnected, message));
            }
            Err(_) => {}
        }
    };
    let mut request = answers.try_clone()?;
    std::thread::spawn(move || {
        // One that does not read the request does not answer either.
        let _ = forward(&mut io::stdin().lock(), &mut request);
        let _ = request.shutdown(Shutdown::Write);
    });
    forward(&mut answers, &mut io::stdout().lock())
}

/// Whether no process holds the place, so that it has ended meanwhile.
pub(crate) fn has_ended(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotConnected
}

/// Copies until the end. Not `io::copy`: its `splice` holds the lock of a pipe while it waits for the
/// socket, so nothing could read what is in the pipe.
fn forward(from: &mut impl Read, to: &mut impl Write) -> io::Result<()> {
    let mut buffer = [0; 16 * 1024];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return to.flush(),
            Ok(length) => {
                to.write_all(&buffer[..length])?;
                to.flush()?;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
