//! Ways out of a sandbox: each tries to read, change or reach something that the agent does not
//! own. A successful escape returns its achievement; the error is what prevented it.
#![allow(clippy::permissions_set_readonly_false)]

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::net::{TcpStream, UdpSocket};
use std::os::fd::AsRawFd as _;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _, symlink};
use std::os::unix::net::{SocketAddr, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use base64::Engine as _;
use nix::errno::Errno;
use nix::libc;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, setns};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, chroot};
use serde_json::Value;

/// The escape targets, created by the test.
struct Targets(Value);

impl Targets {
    fn path(&self, key: &str) -> PathBuf {
        PathBuf::from(self.0[key].as_str().unwrap_or("/nonexistent"))
    }

    /// Returns a file in a foreign folder.
    fn outside(&self, name: &str) -> PathBuf {
        self.path("outside").join(name)
    }

    /// Returns a file in a writable folder.
    fn inside(&self, name: &str) -> PathBuf {
        self.path("inside").join(name)
    }

    /// Returns the only listed host and port.
    fn listed(&self) -> &str {
        self.0["listed"].as_str().unwrap_or_default()
    }

    fn pid(&self, key: &str) -> Pid {
        Pid::from_raw(i32::try_from(self.0[key].as_i64().unwrap_or(0)).unwrap_or(0))
    }
}

type EscapeWay = fn(&Targets) -> io::Result<String>;

/// All escapes that every sandbox prevents, with any network setting.
const WAYS: [(&str, EscapeWay); 52] = [
    // First, because later ones open descriptors.
    ("use an inherited descriptor", inherited),
    ("create a file", |to| written(fs::write(to.outside("new"), "x"))),
    ("append to a file", |to| {
        written(OpenOptions::new().append(true).open(to.outside("victim"))?.write_all(b"x"))
    }),
    ("truncate a file", |to| {
        let path = std::ffi::CString::new(to.outside("victim").to_str().unwrap_or_default())?;
        written(nix::unistd::truncate(path.as_c_str(), 0).map_err(io::Error::from))
    }),
    ("map a file for writing", |to| {
        OpenOptions::new().read(true).write(true).open(to.outside("victim")).map(|_| "open".to_owned())
    }),
    ("rename a file", |to| written(fs::rename(to.outside("victim"), to.outside("moved")))),
    ("take a file", |to| written(fs::rename(to.outside("victim"), to.inside("taken")))),
    ("put a file", |to| {
        fs::write(to.inside("mine"), "x")?;
        written(fs::rename(to.inside("mine"), to.outside("put")))
    }),
    ("link a hidden file", |to| {
        fs::hard_link(to.path("hidden"), to.inside("linked"))?;
        fs::read_to_string(to.inside("linked"))
    }),
    ("link a file to write it", |to| {
        fs::hard_link(to.outside("victim"), to.inside("victim-link"))?;
        written(fs::write(to.inside("victim-link"), "x"))
    }),
    ("put a link", |to| {
        fs::write(to.inside("bait"), "x")?;
        written(fs::hard_link(to.inside("bait"), to.outside("bait")))
    }),
    ("write through a symbolic link", |to| {
        symlink(to.outside("victim"), to.inside("way-out"))?;
        written(fs::write(to.inside("way-out"), "x"))
    }),
    ("read through a symbolic link", |to| {
        symlink(to.path("hidden"), to.inside("way-in"))?;
        fs::read_to_string(to.inside("way-in"))
    }),
    ("race a symbolic link", race),
    ("remove a file", |to| written(fs::remove_file(to.outside("victim")))),
    ("make a folder", |to| written(fs::create_dir(to.outside("folder")))),
    ("remove a folder", |to| written(fs::remove_dir(to.outside("empty")))),
    ("make a nameless file", |to| {
        let mut options = OpenOptions::new();
        options.write(true).custom_flags(libc::O_TMPFILE);
        options.open(to.path("outside")).map(|_| "open".to_owned())
    }),
    ("read a hidden file", |to| fs::read_to_string(to.path("hidden"))),
    ("read the environment of a worker", |to| fs::read_to_string(to.path("environment"))),
    ("read the database", |to| read_some(&to.path("database"))),
    ("edit the database", |to| {
        OpenOptions::new().write(true).open(to.path("database")).map(|_| "open".to_owned())
    }),
    ("read the state through the daemon's root", |to| {
        let root = PathBuf::from(format!("/proc/{}/root", to.pid("daemon")));
        read_some(&root.join(to.path("hidden").strip_prefix("/").unwrap_or(Path::new(""))))
    }),
    ("write through the daemon's root", |to| {
        let root = PathBuf::from(format!("/proc/{}/root", to.pid("daemon")));
        written(fs::write(root.join(to.outside("by-root").strip_prefix("/").unwrap_or(Path::new(""))), "x"))
    }),
    ("read the daemon's environment", |to| read_some(&of_process(to, "daemon", "environ"))),
    ("read the daemon's memory", |to| File::open(of_process(to, "daemon", "mem")).map(|_| "open".to_owned())),
    ("write the runtime's memory", |to| {
        OpenOptions::new().write(true).open(of_process(to, "runtime", "mem")).map(|_| "open".to_owned())
    }),
    ("take the runtime's descriptors", |to| {
        fs::read_link(of_process(to, "runtime", "fd/5")).map(|path| path.display().to_string())
    }),
    ("trace the runtime", |to| {
        call(libc::SYS_ptrace, [libc::PTRACE_SEIZE.into(), to.pid("runtime").as_raw().into(), 0, 0])
    }),
    ("read the runtime's memory by call", |to| {
        let process = call(libc::SYS_pidfd_open, [to.pid("runtime").as_raw().into(), 0, 0, 0])?;
        let process: i64 = process.parse().unwrap_or(-1);
        call(libc::SYS_pidfd_getfd, [process, 0, 0, 0])
    }),
    ("stop the guard", |to| signal(to.pid("guard"))),
    ("signal the daemon", |to| signal(to.pid("daemon"))),
    ("signal the runtime", |to| signal(to.pid("runtime"))),
    ("connect to the control socket", |to| {
        UnixStream::connect(to.path("socket")).map(|_| "connected".to_owned())
    }),
    ("connect to the runtime's socket", |to| {
        UnixStream::connect(to.path("runtimeSocket")).map(|_| "connected".to_owned())
    }),
    ("connect to another program's socket", |to| {
        UnixStream::connect(to.path("foreignSocket")).map(|_| "connected".to_owned())
    }),
    ("connect to an abstract socket", |to| {
        let name = to.0["abstract"].as_str().unwrap_or_default();
        UnixStream::connect_addr(&SocketAddr::from_abstract_name(name)?).map(|_| "connected".to_owned())
    }),
    ("enter another namespace", |to| {
        let file = File::open(of_process(to, "daemon", "ns/mnt"))?;
        setns(&file, CloneFlags::CLONE_NEWNS).map_err(io::Error::from).map(|()| "entered".to_owned())
    }),
    ("gain rights by a setuid program", rights),
    ("mount a file system", |to| {
        let none: Option<&str> = None;
        let mounted = mount(Some("none"), &to.path("inside"), Some("tmpfs"), MsFlags::empty(), none);
        mounted.map_err(io::Error::from).map(|()| "mounted".to_owned())
    }),
    ("uncover what is hidden in a namespace of its own", |to| {
        let (hidden, folder) = (to.path("hidden"), to.path("hiddenFolder"));
        shell(&format!("unshare -Urm sh -c 'umount {}; cat {}'", folder.display(), hidden.display()))
    }),
    ("remount in a namespace of its own", |to| {
        shell(&format!(
            "unshare -Urm sh -c 'mount -o remount,rw,bind / && echo x > {}'",
            to.outside("remounted").display()
        ))
    }),
    ("change the root folder", |_| chroot("/").map_err(io::Error::from).map(|()| "changed".to_owned())),
    ("open a disk", disk),
    ("plant a hook in the repository that it borrows from", |to| {
        written(fs::write(to.path("repository").join("hooks/post-checkout"), "#!/bin/sh\n"))
    }),
    ("change the settings of that repository", |to| {
        written(
            OpenOptions::new().append(true).open(to.path("repository").join("config"))?.write_all(b"[x]\n"),
        )
    }),
    ("move a branch of that repository", |to| {
        let branch = to.path("repository").join("refs/heads/main");
        written(OpenOptions::new().write(true).open(branch).map(drop))
    }),
    ("remove the objects of that repository", |to| {
        written(fs::remove_dir_all(to.path("repository").join("objects")))
    }),
    ("link a file of that repository to write it", |to| {
        fs::hard_link(to.path("repository").join("HEAD"), to.inside("head"))?;
        written(fs::write(to.inside("head"), "x"))
    }),
    ("read the worktree of another worker", |to| fs::read_to_string(to.path("otherWorktree"))),
    ("read the keyring", |_| call(libc::SYS_keyctl, [0, -3, 1, 0])),
    ("use io_uring", |_| call(libc::SYS_io_uring_setup, [1, 0, 0, 0])),
];

/// Files that others will run or read later.
const BOMBS: [&str; 5] = [
    "home/.bashrc",
    "main/.git/hooks/pre-commit",
    "main/.git/config",
    "outside/bin/tool",
    "home/.config/subagent/config.yaml",
];

/// Network escapes that a sandbox without network prevents. One with loopback only
/// prevents the first two.
const NETWORK: [(&str, EscapeWay); 4] = [
    ("reach this machine", |to| {
        let port = u16::try_from(to.0["port"].as_u64().unwrap_or(0)).unwrap_or(0);
        TcpStream::connect(("127.0.0.1", port)).map(|_| "connected".to_owned())
    }),
    ("reach the metadata of a cloud", |_| {
        let address = ([169, 254, 169, 254], 80).into();
        TcpStream::connect_timeout(&address, Duration::from_secs(2)).map(|_| "connected".to_owned())
    }),
    ("ask a name server", |to| {
        let port = u16::try_from(to.0["port"].as_u64().unwrap_or(0)).unwrap_or(0);
        UdpSocket::bind("127.0.0.1:0")?.send_to(b"x", ("127.0.0.1", port)).map(|_| "sent".to_owned())
    }),
    ("listen for others", |_| std::net::TcpListener::bind("0.0.0.0:0").map(|_| "listening".to_owned())),
];

/// Escapes from a network that lists one host.
const HOSTS: [(&str, EscapeWay); 6] = [
    ("send to a name server", |_| {
        UdpSocket::bind("0.0.0.0:0")?.send_to(b"x", ("192.0.2.1", 53)).map(|_| "sent".to_owned())
    }),
    ("reach another port through the proxy", |to| {
        through(&format!("CONNECT 127.0.0.1:{}", to.0["port"]), None)
    }),
    ("reach the metadata of a cloud through the proxy", |_| through("CONNECT 169.254.169.254:80", None)),
    ("send plain HTTP through the proxy", |to| through(&format!("GET http://{}/", to.listed()), None)),
    ("use the proxy without a token", |to| through(&format!("CONNECT {}", to.listed()), Some(""))),
    ("use the proxy with another token", |to| {
        let token = "0".repeat(64);
        through(&format!("CONNECT {}", to.listed()), Some(&format!("subagent:{token}")))
    }),
];

/// Sends a request to the proxy, with the agent's own credentials unless there are others.
fn through(request: &str, credentials: Option<&str>) -> io::Result<String> {
    let proxy = std::env::var("HTTPS_PROXY").map_err(io::Error::other)?;
    let (own, address) = proxy
        .strip_prefix("http://")
        .and_then(|proxy| proxy.split_once('@'))
        .ok_or_else(|| io::Error::other("no proxy"))?;
    let encoded = base64::engine::general_purpose::STANDARD.encode(credentials.unwrap_or(own));
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(60)))?;
    write!(stream, "{request} HTTP/1.1\r\nProxy-Authorization: Basic {encoded}\r\n\r\n")?;
    let mut status = [0; 12];
    stream.read_exact(&mut status)?;
    match &status {
        b"HTTP/1.1 200" => Ok("connected".to_owned()),
        other => Err(io::Error::other(String::from_utf8_lossy(other).into_owned())),
    }
}

/// Tries all escapes for the targets in the file. Returns one line each.
pub(super) fn report(file: &str) -> io::Result<String> {
    let targets = Targets(serde_json::from_slice(&fs::read(file)?).map_err(io::Error::other)?);
    let mut ways: Vec<(String, io::Result<String>)> =
        WAYS.iter().map(|(name, way)| ((*name).to_owned(), way(&targets))).collect();
    for bomb in BOMBS {
        let path = targets.path("root").join(bomb);
        ways.push((format!("leave a time bomb in {bomb}"), written(fs::write(path, "echo boom\n"))));
    }
    let closed = match targets.0["network"].as_str() {
        Some("none") => &NETWORK[..],
        Some("loopback" | "hosts") => &NETWORK[..2],
        _ => &[],
    };
    let hosts = if targets.0["network"] == "hosts" { &HOSTS[..] } else { &[] };
    ways.extend(hosts.iter().map(|(name, way)| ((*name).to_owned(), way(&targets))));
    ways.extend(closed.iter().map(|(name, way)| ((*name).to_owned(), way(&targets))));
    let control = [
        ("control: write inside", written(fs::write(targets.inside("allowed"), "x"))),
        ("control: read outside", fs::read_to_string(targets.outside("victim"))),
        ("control: start a program", shell("true")),
    ];
    ways.extend(control.map(|(name, result)| (name.to_owned(), result)));
    if !hosts.is_empty() {
        let reached = through(&format!("CONNECT {}", targets.listed()), None);
        ways.push(("control: reach the listed host".to_owned(), reached));
    }
    let line = |(name, result): (String, io::Result<String>)| match result {
        Ok(achieved) => format!("OUT {name}: {}\n", achieved.lines().next().unwrap_or_default()),
        Err(error) => format!("kept {name}: {error}\n"),
    };
    Ok(ways.into_iter().map(line).collect())
}

fn written(result: io::Result<()>) -> io::Result<String> {
    result.map(|()| "done".to_owned())
}

fn read_some(path: &Path) -> io::Result<String> {
    let mut bytes = [0; 16];
    let length = File::open(path)?.read(&mut bytes)?;
    Ok(format!("{length} bytes"))
}

fn of_process(to: &Targets, key: &str, file: &str) -> PathBuf {
    PathBuf::from(format!("/proc/{}/{file}", to.pid(key)))
}

/// Sends a signal without an effect.
fn signal(pid: Pid) -> io::Result<String> {
    kill(pid, Signal::SIGCONT).map_err(io::Error::from).map(|()| "sent".to_owned())
}

/// Makes a system call that has no wrapper here.
#[allow(unsafe_code)]
fn call(number: i64, [a, b, c, d]: [i64; 4]) -> io::Result<String> {
    // SAFETY: with these arguments none of the calls accesses memory of this process.
    let result = unsafe { libc::syscall(number, a, b, c, d) };
    Errno::result(result).map_err(io::Error::from).map(|value| value.to_string())
}

fn shell(line: &str) -> io::Result<String> {
    let output = Command::new("sh").args(["-c", line]).stdin(Stdio::null()).output()?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(io::Error::other(
        String::from_utf8_lossy(&output.stderr).lines().next().unwrap_or_default().to_owned(),
    ))
}

/// Swaps a folder and a link while a file in it is written.
fn race(to: &Targets) -> io::Result<String> {
    let (name, real) = (to.inside("race"), to.inside("race-real"));
    fs::create_dir_all(&real)?;
    let swapper = {
        let (name, outside) = (name.clone(), to.path("outside"));
        std::thread::spawn(move || {
            for _ in 0..300 {
                let _ = fs::remove_file(&name);
                let _ = symlink(&real, &name);
                let _ = fs::remove_file(&name);
                let _ = symlink(&outside, &name);
            }
        })
    };
    while !swapper.is_finished() {
        let _ = fs::write(name.join("raced"), "x");
    }
    let _ = swapper.join();
    if to.outside("raced").exists() { Ok("written".to_owned()) } else { Err(Errno::EACCES.into()) }
}

/// Finds a descriptor that is open besides the standard ones.
fn inherited(_: &Targets) -> io::Result<String> {
    let folder = File::open("/proc/self/fd")?;
    for entry in fs::read_dir("/proc/self/fd")? {
        let entry = entry?;
        let number: i32 = entry.file_name().to_str().and_then(|name| name.parse().ok()).unwrap_or(0);
        let target = fs::read_link(entry.path()).unwrap_or_default();
        if number > 2 && number != folder.as_raw_fd() && !target.starts_with("/proc") {
            return Ok(format!("{number} is {}", target.display()));
        }
    }
    Err(Errno::EBADF.into())
}

/// Checks whether programs can get more rights than this process, or it has any.
fn rights(_: &Targets) -> io::Result<String> {
    let status = fs::read_to_string("/proc/self/status")?;
    let of = |key: &str| {
        status.lines().find_map(|line| line.strip_prefix(key)).map(str::trim).unwrap_or("absent").to_owned()
    };
    if of("NoNewPrivs:") == "1" && of("CapEff:").chars().all(|digit| digit == '0') {
        return Err(Errno::EPERM.into());
    }
    Ok(format!("NoNewPrivs {}, CapEff {}", of("NoNewPrivs:"), of("CapEff:")))
}

/// Finds a disk that can be read directly.
fn disk(_: &Targets) -> io::Result<String> {
    for entry in fs::read_dir("/dev")? {
        let path = entry?.path();
        let is_disk = fs::metadata(&path).is_ok_and(|found| found.file_type().is_block_device());
        if is_disk && File::open(&path).is_ok() {
            return Ok(path.display().to_string());
        }
    }
    Err(Errno::EACCES.into())
}
