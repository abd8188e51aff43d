//! Which process is at the other end of a TCP connection of this machine, by its socket's inode.
//!
//! It judges no process. The daemons get its number with each request, and judge it like the peer of a unix socket.

use std::fs;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::MetadataExt as _;
use std::thread;
use std::time::Duration;

use nix::unistd::geteuid;
use subagent_config::proc;
use subagent_protocol::process::ProcessId;
use subagent_protocol::{Code, Error};

/// Processes that may share one connection.
const MAX_HOLDERS: usize = 8;
/// The value of `TCP_ESTABLISHED` in `/proc/net/tcp`.
const ESTABLISHED: &str = "01";

/// The kernel gives its table in pieces. A piece that is read while other connections end can lack an entry.
const MAX_READS: usize = 5;
/// A process that starts another one shares its connections with it until that runs its program. So several
/// holders are looked for again, with these pauses in milliseconds, until only one is left.
const PAUSES: [u64; 6] = [1, 2, 4, 8, 16, 32];

/// The processes that hold the other end of the connection from `peer` to `own`: one, or those that inherited it. The
/// connection must be of this process's user.
///
/// A connection that no visible process holds is refused: an agent can hide a socket (a thread with descriptors of its own,
/// a descriptor in flight between two processes). sshd hides its descriptors too (`PR_SET_DUMPABLE`). So `is_forwarded`
/// accepts such a connection: then all hidden processes below an agent count; without such a process, one of the other
/// hidden ones counts.
///
/// # Errors
/// `FORBIDDEN_ORIGIN` if the processes are unknown, or belong to another user.
pub(crate) fn holders(
    peer: SocketAddr,
    own: SocketAddr,
    is_forwarded: bool,
) -> Result<Vec<ProcessId>, Error> {
    let unknown = |why: &str| {
        Error::new(
            Code::ForbiddenOrigin,
            format!("the panel cannot identify the process that sent the request: {why}"),
        )
        .recommend(
            "use a browser of the same user on this machine; for ssh -L start the panel with --forwarded",
        )
    };
    let table = if peer.is_ipv4() { "/proc/net/tcp" } else { "/proc/net/tcp6" };
    let mut socket = None;
    for _ in 0..MAX_READS {
        let text = fs::read_to_string(table)
            .map_err(|error| unknown(&format!("{table} cannot be read: {error}")))?;
        socket = find(&text, peer, own);
        if socket.is_some() {
            break;
        }
    }
    let socket = socket.ok_or_else(|| unknown("its connection is not in the kernel's table"))?;
    if socket.uid != geteuid().as_raw() {
        return Err(unknown(&format!("its connection is of user {}", socket.uid)));
    }
    let look = || {
        let found = search(socket.inode);
        found.map_err(|error| unknown(&format!("/proc cannot be read: {error}")))
    };
    let mut holders = look()?.counting(is_forwarded);
    for pause in PAUSES {
        if holders.len() < 2 {
            break;
        }
        thread::sleep(Duration::from_millis(pause));
        holders = look()?.counting(is_forwarded);
    }
    match holders.len() {
        0 => Err(unknown("no visible process holds its connection")),
        1..=MAX_HOLDERS => Ok(holders),
        count => Err(unknown(&format!("{count} processes hold its connection"))),
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Socket {
    uid: u32,
    inode: u64,
}

/// The socket with this local and that remote address.
fn find(table: &str, local: SocketAddr, remote: SocketAddr) -> Option<Socket> {
    let (local, remote) = (written(local), written(remote));
    table.lines().skip(1).find_map(|line| {
        let mut fields = line.split_ascii_whitespace().skip(1);
        let is_it = fields.next()? == local && fields.next()? == remote && fields.next()? == ESTABLISHED;
        let uid = fields.nth(3)?.parse().ok()?;
        let inode = fields.nth(1)?.parse().ok()?;
        (is_it && inode != 0).then_some(Socket { uid, inode })
    })
}

/// An address as the kernel writes it: words of four bytes in the machine's order, then the port.
fn written(address: SocketAddr) -> String {
    let words = |bytes: &[u8]| {
        let word = |word: &[u8]| word.try_into().map_or(0, u32::from_ne_bytes);
        bytes.chunks(4).map(|chunk| format!("{:08X}", word(chunk))).collect::<String>()
    };
    let ip = match address.ip() {
        IpAddr::V4(ip) => words(&ip.octets()),
        IpAddr::V6(ip) => words(&ip.octets()),
    };
    format!("{ip}:{:04X}", address.port())
}

#[derive(Default)]
struct HolderSearch {
    /// Processes whose descriptors show the connection.
    holding: Vec<ProcessId>,
    /// Their descriptors are hidden, and they are below a guard or cannot be placed.
    below: Vec<ProcessId>,
    /// The others whose descriptors are hidden.
    hidden: Vec<ProcessId>,
}

impl HolderSearch {
    /// Those on whose behalf the request counts. Hidden processes count only with `is_forwarded`.
    fn counting(self, is_forwarded: bool) -> Vec<ProcessId> {
        match (self.holding.is_empty(), self.below.is_empty()) {
            (false, _) => self.holding,
            (true, _) if !is_forwarded => Vec::new(),
            (true, false) => self.below,
            (true, true) => self.hidden.into_iter().take(1).collect(),
        }
    }
}

fn search(inode: u64) -> io::Result<HolderSearch> {
    let wanted = format!("socket:[{inode}]");
    let mut found = HolderSearch::default();
    for entry in fs::read_dir("/proc")? {
        let Ok(entry) = entry else { continue };
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        match holds(pid, &wanted) {
            Ok(true) => found.holding.extend(id(pid)),
            Ok(false) => {}
            Err(error) if proc::is_gone(&error) => {}
            Err(_) if !found.holding.is_empty() => {}
            Err(_) => {
                let below = proc::is_below_guard_of(pid);
                if below { &mut found.below } else { &mut found.hidden }.extend(id(pid));
            }
        }
    }
    // A process of this user is the likeliest: the connection is.
    let own = geteuid().as_raw();
    found
        .hidden
        .sort_by_key(|id| fs::metadata(format!("/proc/{}", id.pid)).map_or(true, |of| of.uid() != own));
    Ok(found)
}

fn holds(pid: i32, wanted: &str) -> io::Result<bool> {
    for entry in fs::read_dir(format!("/proc/{pid}/fd"))? {
        match fs::read_link(entry?.path()) {
            Ok(target) if target.as_os_str() == wanted => return Ok(true),
            // It was closed meanwhile.
            Err(error) if proc::is_gone(&error) => {}
            Err(error) => return Err(error),
            Ok(_) => {}
        }
    }
    Ok(false)
}

fn id(pid: i32) -> Option<ProcessId> {
    proc::start_time(pid).ok().map(|start_time| ProcessId { pid, start_time })
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn an_address_is_written_as_the_kernel_does() {
        assert_eq!(written("127.0.0.1:8080".parse().unwrap()), "0100007F:1F90");
        assert_eq!(written("[::1]:80".parse().unwrap()), "00000000000000000000000001000000:0050");
    }

    #[test]
    fn only_an_open_connection_with_both_addresses_counts() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
            0: 0100007F:1F90 0100007F:0050 01 00000000:00000000 00:00000000 00000000  1000        0 77 1 0 20 4 0 10 -1\n\
            1: 0100007F:1F91 0100007F:0050 06 00000000:00000000 00:00000000 00000000  1000        0 78 1 0 20 4 0 10 -1\n\
            2: 0100007F:1F92 0100007F:0050 01 00000000:00000000 00:00000000 00000000  1000        0 0 1 0 20 4 0 10 -1\n";
        let find = |port| find(table, ([127, 0, 0, 1], port).into(), ([127, 0, 0, 1], 80).into());
        assert_eq!(find(8080), Some(Socket { uid: 1000, inode: 77 }));
        assert_eq!([8081, 8082, 8083].map(find), [None, None, None]);
    }

    #[test]
    fn the_process_of_a_connection_is_found_in_both_families() {
        for any in ["127.0.0.1:0", "[::1]:0"] {
            // A machine may have no IPv6.
            let Ok(listener) = TcpListener::bind(any) else { continue };
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (server, peer) = listener.accept().unwrap();
            let own = nix::unistd::getpid().as_raw();
            let found = holders(peer, server.local_addr().unwrap(), false).unwrap();
            assert!(found.iter().any(|id| id.pid == own), "{found:?}");
            drop(client);
        }
    }

    #[test]
    fn hidden_processes_count_on_request_and_those_below_an_agent_first() {
        let all =
            |pids: &[i32]| pids.iter().map(|pid| ProcessId { pid: *pid, start_time: 1 }).collect::<Vec<_>>();
        let counting = |is_forwarded: bool, holding: &[i32], below: &[i32], hidden: &[i32]| {
            HolderSearch { holding: all(holding), below: all(below), hidden: all(hidden) }
                .counting(is_forwarded)
        };
        for is_forwarded in [false, true] {
            assert_eq!(counting(is_forwarded, &[1, 2], &[3], &[4]), all(&[1, 2]), "visible holders");
            assert_eq!(counting(is_forwarded, &[], &[], &[]), []);
        }
        assert_eq!(counting(true, &[], &[3, 5], &[4]), all(&[3, 5]), "one of these may hold it");
        assert_eq!(counting(true, &[], &[], &[4, 6]), all(&[4]), "an agent may have hidden its socket");
        assert_eq!(counting(false, &[], &[3], &[4]), []);
        assert_eq!(counting(false, &[], &[], &[4, 6]), []);
    }

    #[test]
    fn a_connection_that_no_visible_process_holds_is_refused() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (done, wait) = std::sync::mpsc::channel::<()>();
        let hiding = std::thread::spawn(move || {
            // The system shows only the descriptors of the first thread. Some containers forbid the call.
            let is_hidden = nix::sched::unshare(nix::sched::CloneFlags::CLONE_FILES).is_ok();
            let client = TcpStream::connect(address).unwrap();
            let _ = wait.recv();
            drop(client);
            is_hidden
        });
        let (server, peer) = listener.accept().unwrap();
        let found = holders(peer, server.local_addr().unwrap(), false);
        drop(done);
        if hiding.join().unwrap() {
            let error = found.unwrap_err();
            assert_eq!(error.code, Code::ForbiddenOrigin);
            assert!(error.message.contains("no visible process holds"), "{}", error.message);
        }
    }

    #[test]
    fn a_closed_connection_has_no_process() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, peer) = listener.accept().unwrap();
        drop(client);
        let error = holders(peer, server.local_addr().unwrap(), false).unwrap_err();
        assert_eq!(error.code, Code::ForbiddenOrigin);
    }
}
