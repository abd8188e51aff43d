//! Starts a program as a sibling of this process: as a child of this process's parent.

// A runtime adopts the orphans of its descendants and ends them with its agent. The daemon must
// therefore never be a descendant. A second fork is not enough: the kernel would give the orphan
// back to the runtime.

use std::ffi::{CStr, CString, OsString};
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::path::Path;
use std::ptr;

use nix::libc;

/// The new process writes this to standard output if the program cannot be executed.
const NOT_EXECUTED: &[u8] = b"{\"error\":{\"message\":\"its program cannot be executed\"}}\n";

/// Starts the program with exactly these arguments, variables and standard streams. Every other
/// descriptor must be close-on-exec. This process's parent reaps it.
///
/// # Errors
///
/// The system's error of `clone`.
#[allow(unsafe_code)]
pub(crate) fn spawn(
    program: &Path,
    args: &[OsString],
    env: impl IntoIterator<Item = (OsString, OsString)>,
    streams: [BorrowedFd<'_>; 3],
) -> io::Result<()> {
    let path = c_string(program.as_os_str().to_owned())?;
    let argv = std::iter::once(Ok(path.clone()))
        .chain(args.iter().cloned().map(c_string))
        .collect::<io::Result<Vec<_>>>()?;
    let envp = env
        .into_iter()
        .map(|(mut name, value)| {
            name.push("=");
            name.push(value);
            c_string(name)
        })
        .collect::<io::Result<Vec<_>>>()?;
    let (argv, envp) = (pointers(&argv), pointers(&envp));
    let streams = streams.map(|stream| stream.as_raw_fd());
    let flags = libc::c_long::from(libc::CLONE_PARENT);
    // SAFETY: without CLONE_VM this is a fork with another parent. The new process makes only
    // system calls on memory that was prepared before. Locks of other threads do not matter.
    match unsafe { libc::syscall(libc::SYS_clone, flags | libc::c_long::from(libc::SIGCHLD), 0, 0, 0, 0) } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            // SAFETY: as above; both vectors of pointers end with a null and outlive the call.
            unsafe { become_program(&path, &argv, &envp, streams) }
        }
        _ => Ok(()),
    }
}

/// # Safety
///
/// Call only in a process that was just forked. Both vectors of pointers must end with a null.
#[allow(unsafe_code)]
unsafe fn become_program(
    path: &CStr,
    argv: &[*const libc::c_char],
    envp: &[*const libc::c_char],
    streams: [i32; 3],
) -> ! {
    // SAFETY: system calls on open descriptors, with pointers that the caller guarantees.
    unsafe {
        for (stream, number) in streams.into_iter().zip(0..) {
            if libc::dup2(stream, number) < 0 {
                libc::_exit(127);
            }
        }
        libc::execve(path.as_ptr(), argv.as_ptr(), envp.as_ptr());
        libc::write(1, NOT_EXECUTED.as_ptr().cast(), NOT_EXECUTED.len());
        libc::_exit(127)
    }
}

fn c_string(text: OsString) -> io::Result<CString> {
    CString::new(text.into_vec()).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))
}

fn pointers(texts: &[CString]) -> Vec<*const libc::c_char> {
    texts.iter().map(|text| text.as_ptr()).chain([ptr::null()]).collect()
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Read as _;
    use std::os::fd::AsFd as _;

    use super::*;

    fn said(program: &str, args: &[&str]) -> String {
        let (mut reader, writer) = io::pipe().unwrap();
        let null = File::options().read(true).write(true).open("/dev/null").unwrap();
        let args: Vec<OsString> = args.iter().map(OsString::from).collect();
        let streams = [null.as_fd(), writer.as_fd(), null.as_fd()];
        spawn(Path::new(program), &args, [("NAME".into(), "value".into())], streams).unwrap();
        drop(writer);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn runs_below_this_process_with_only_the_given_environment() {
        let own = std::os::unix::process::parent_id();
        let script = "echo $PPID $NAME $1; echo ${PATH_OF_A_TEST:-none}";
        assert_eq!(said("/bin/sh", &["-c", script, "sh", "one"]), format!("{own} value one\nnone\n"));
    }

    #[test]
    fn a_program_that_is_not_there_says_so_on_the_pipe() {
        assert_eq!(said("/no/such/program", &[]).as_bytes(), NOT_EXECUTED);
    }
}
