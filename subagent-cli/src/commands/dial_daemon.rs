//! `dial-daemon`: the other end of `--host`. Prints a line by which it is known, answers one line of
//! JSON per request, and then passes bytes between its standard streams and the daemon's socket.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::ExitCode;
use std::thread;

use clap::Args;
use subagent_config::state_identity::folder_at;
use subagent_config::{Workspace, controller_hint};
use subagent_protocol::Code;
use subagent_protocol::hosts::{
    DIAL_MAGIC, DialPolicy, DialReply, DialRequest, DialedWorkspace, MAX_DIAL_BYTES,
};

use super::targets::has_state;
use crate::client::{DaemonClient, block_on};
use crate::context::CliContext;
use crate::failure::{Failure, Result};
use crate::output::CliOutcome;

/// Connect standard input and output with the daemon, for `--host` of another machine
#[derive(Debug, Args)]
#[command(
    hide = true,
    after_help = "\
Examples:
  ssh lap subagent dial-daemon"
)]
pub(crate) struct DialDaemonArgs {}

pub(super) fn run(context: &CliContext) -> Result<CliOutcome> {
    let done = converse(context);
    // The other side has gone, which is how this command ends.
    let code = if done.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    Ok(CliOutcome::Printed(code))
}

fn converse(context: &CliContext) -> io::Result<()> {
    // Without the buffers of the standard library: what follows a line belongs to the daemon.
    let mut input = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    let mut output = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    output.write_all(DIAL_MAGIC)?;
    while let Some(line) = line(&mut input)? {
        let (reply, stream) = answer(&line, context);
        let mut text = serde_json::to_vec(&reply)?;
        text.push(b'\n');
        output.write_all(&text)?;
        if let Some(stream) = stream {
            return pass(input, output, stream);
        }
    }
    Ok(())
}

/// Reads a line; `None` at the end of the input.
fn line(input: &mut File) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    let mut byte = [0];
    while line.len() <= MAX_DIAL_BYTES {
        match input.read(&mut byte) {
            Ok(0) => return Ok(None),
            Ok(_) if byte == *b"\n" => return Ok(Some(line)),
            Ok(_) => line.push(byte[0]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::ErrorKind::InvalidData.into())
}

fn answer(line: &[u8], context: &CliContext) -> (DialReply<Failure>, Option<UnixStream>) {
    let mut reply = DialReply { workspace: None, daemon: None, state_folder: None, error: None };
    match connected(line, context, &mut reply) {
        Ok(stream) => (reply, stream),
        Err(failure) => (DialReply { error: Some(failure), daemon: None, ..reply }, None),
    }
}

fn connected(
    line: &[u8],
    context: &CliContext,
    reply: &mut DialReply<Failure>,
) -> Result<Option<UnixStream>> {
    let request: DialRequest = serde_json::from_slice(line).map_err(|error| {
        Failure::new(Code::DaemonTooOld, format!("`subagent` there does not know this request: {error}"))
            .recommend("install the version of this command there")
    })?;
    let workspace = workspace(&request, context)?;
    let has_state = has_state(&workspace);
    reply.workspace = Some(DialedWorkspace {
        has_state,
        controller_id: controller_hint::read_controller_id(&workspace.root),
        root: workspace.root.clone(),
        state_dir: workspace.state_dir.clone(),
    });
    let client = match request.policy {
        DialPolicy::IfUsed if !has_state => return Ok(None),
        DialPolicy::Running => DaemonClient::of_running(workspace.state_dir.clone()),
        DialPolicy::IfUsed | DialPolicy::Start => DaemonClient::new(context, &workspace),
    };
    let (info, stream) = block_on(client.into_stream(request.after))?;
    reply.state_folder = folder_at(&workspace.state_dir).ok();
    reply.daemon = Some(info);
    Ok(Some(stream))
}

/// Returns the workspace of the folder that was named, or of the home.
fn workspace(request: &DialRequest, context: &CliContext) -> Result<Workspace> {
    let home = context.env.home.clone().unwrap_or_else(|| context.env.cwd.clone());
    let mut there = context.clone();
    there.env.cwd.clone_from(&home);
    there.workspace(Some(request.cwd.as_deref().map_or(home.as_path(), Path::new)))
}

/// Passes bytes until one side ends.
fn pass(mut input: File, mut output: File, mut stream: UnixStream) -> io::Result<()> {
    let mut to_daemon = stream.try_clone()?;
    thread::Builder::new().name("to the daemon".to_owned()).spawn(move || {
        // An error is an end too.
        let _ = copy(&mut input, &mut to_daemon);
        let _ = to_daemon.shutdown(Shutdown::Both);
    })?;
    copy(&mut stream, &mut output)
}

/// Copies bytes until the end. [`io::copy`] splices, and a splice that waits for a pipe keeps it
/// locked: sshd, which writes to that pipe, would hang.
fn copy(from: &mut impl Read, to: &mut impl Write) -> io::Result<()> {
    let mut piece = vec![0; 64 * 1024];
    loop {
        match from.read(&mut piece) {
            Ok(0) => return Ok(()),
            Ok(count) => to.write_all(&piece[..count])?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
