//! A host that only ssh reaches: a real sshd on a port of its own, with keys, config and a home of
//! its own. Dropping it ends the server and asserts that no connection is left.

use std::fs;
use std::io::Write as _;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::host_machine::HostMachine;
use super::host_network::HostNetwork;
use super::process::{self, Process};
use super::sandbox::TestSandbox;
use super::{say, wait_until, wait_while};

const DEADLINE: Duration = Duration::from_secs(60);
const SSHD: &str = "/usr/sbin/sshd";
/// The folder of placed workers, below the home there.
pub(super) const PLACED_THERE: &str = ".local/state/subagent/placed";
/// Where sshd looks for an empty folder when it runs as root.
const PRIVILEGE_SEPARATION: &str = "/run/sshd";
/// Number of ports that are tried: another process may take a free one first.
const PORTS: usize = 10;
/// The file with options of the server that count before all others.
const FIRST_OPTIONS: &str = "first-options";

/// The server, and the client's config that names it.
#[derive(Debug)]
pub struct SshHost {
    /// The name of the host and of its placement.
    name: String,
    /// Outside of the sandbox, which regards a process with its path as its own.
    folder: TempDir,
    port: u16,
    pub(super) server: Child,
    /// The home there, in the sandbox.
    home: PathBuf,
    /// Removed after the server has ended.
    network: HostNetwork,
    pub(super) machine: HostMachine,
}

impl SshHost {
    /// Starts the server, and adds the placement `there` to the config file of the sandbox's user.
    /// Says loudly if there is no server on this machine.
    ///
    /// # Panics
    ///
    /// If there is none with `SUBAGENT_REQUIRE_SSH`.
    pub fn start(sandbox: &TestSandbox) -> Option<Self> {
        Self::start_one(sandbox, || Some(HostNetwork::loopback()))
    }

    /// The same in a network of its own, which can be cut. Says loudly if this machine does not let us.
    ///
    /// # Panics
    ///
    /// If it does not with `SUBAGENT_REQUIRE_NETWORKS`.
    pub fn start_in_network(sandbox: &TestSandbox) -> Option<Self> {
        Self::start_one(sandbox, HostNetwork::of_its_own)
    }

    /// Starts a number of hosts, each in a network of its own, with the placements `there-1` and so on.
    ///
    /// # Panics
    ///
    /// As [`Self::start_in_network`].
    pub fn start_several(sandbox: &TestSandbox, number: usize) -> Option<Vec<Self>> {
        let start = |number| Self::start_in(sandbox, format!("there-{number}"), HostNetwork::of_its_own);
        let hosts: Vec<Self> = (1..=number).map(start).collect::<Option<_>>()?;
        let program = json!({"program": sandbox.executable("subagent-runtime")});
        for host in &hosts {
            host.place(sandbox, program.clone());
        }
        Some(hosts)
    }

    fn start_one(sandbox: &TestSandbox, network: impl FnOnce() -> Option<HostNetwork>) -> Option<Self> {
        let host = Self::start_in(sandbox, "there".to_owned(), network)?;
        host.place(sandbox, json!({"program": sandbox.executable("subagent-runtime")}));
        Some(host)
    }

    fn start_in(
        sandbox: &TestSandbox,
        name: String,
        network: impl FnOnce() -> Option<HostNetwork>,
    ) -> Option<Self> {
        if !Path::new(SSHD).exists() {
            let missing = "openssh-server is missing: workers on other machines are not tested";
            assert!(std::env::var_os("SUBAGENT_REQUIRE_SSH").is_none(), "{missing}");
            say(&format!("SKIPPED: {missing}"));
            return None;
        }
        let (network, machine) = (network()?, HostMachine::default());
        let folder = tempfile::Builder::new().prefix("sshd-").tempdir_in("/tmp").unwrap();
        for key in ["host", "user", "other"] {
            let made = Command::new("ssh-keygen")
                .args(["-q", "-t", "ed25519", "-N", "", "-f"])
                .arg(folder.path().join(key))
                .stdin(Stdio::null())
                .status();
            assert!(made.unwrap().success());
        }
        if nix::unistd::geteuid().is_root() {
            fs::create_dir_all(PRIVILEGE_SEPARATION).unwrap();
        }
        let home = sandbox.file(&name);
        fs::create_dir_all(home.join("work")).unwrap();
        let begin = |_| {
            let port = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
            Some((port, listening(folder.path(), &home, sandbox, (&network, &machine, port))?))
        };
        let (port, server) = (0..PORTS).find_map(begin).unwrap();
        let host = Self { name, folder, port, server, home, network, machine };
        host.configure_client("user", "host");
        Some(host)
    }

    /// Returns the port of the server.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the home there.
    #[must_use]
    pub fn home(&self) -> &Path {
        &self.home
    }

    /// Returns the folder there in which agents work.
    #[must_use]
    pub fn work(&self) -> PathBuf {
        self.home.join("work")
    }

    /// Returns the folder there of a placed worker.
    #[must_use]
    pub fn folder_of(&self, worker: &str) -> PathBuf {
        self.home.join(PLACED_THERE).join(worker)
    }

    fn file(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }

    /// Lets the client use this key, and expect this key of the host.
    ///
    /// # Panics
    ///
    /// If a file cannot be read or written, as all below.
    pub fn configure_client(&self, key: &str, expected: &str) {
        self.configure_client_with(key, expected, self.port, "");
    }

    /// The same, with connections that later commands share until they were idle for a second.
    pub fn share_connections(&self) {
        self.share_connections_through(self.port);
    }

    /// The same, through another port, behind which is that of the server.
    pub fn share_connections_through(&self, port: u16) {
        let path = self.file("master-%C");
        let more = format!(" ControlMaster auto\n ControlPath {path}\n ControlPersist 1\n");
        self.configure_client_with("user", "host", port, &more);
    }

    /// Returns the processes of shared connections, which have no environment and another title.
    pub fn shared_connections(&self) -> Vec<Process> {
        let folder = self.file("master-");
        let is_shared = |line: &str| line.contains(&folder) && line.ends_with("[mux]");
        process::all().into_iter().filter(|process| is_shared(&process.command_line())).collect()
    }

    fn configure_client_with(&self, key: &str, expected: &str, port: u16, more: &str) {
        let public = fs::read_to_string(self.file(&format!("{expected}.pub"))).unwrap();
        let words: Vec<&str> = public.split_whitespace().take(2).collect();
        let address = self.network.address;
        fs::write(self.file("known"), format!("[{address}]:{port} {}\n", words.join(" "))).unwrap();
        let (known, identity) = (self.file("known"), self.file(key));
        let config = format!(
            "Host {} {}-*\n HostName {address}\n Port {port}\n IdentityFile {identity}\n IdentitiesOnly yes\n \
             IdentityAgent none\n UserKnownHostsFile {known}\n GlobalKnownHostsFile /dev/null\n \
             StrictHostKeyChecking yes\n{more}",
            self.name, self.name,
        );
        fs::write(self.file("client"), config).unwrap();
    }

    /// Writes the placement of this host with these keys into the config file of the sandbox's user.
    pub fn place(&self, sandbox: &TestSandbox, keys: Value) {
        sandbox.place(&self.name, self.placement(), keys);
    }

    /// Writes a number of placements whose hosts are other names of this one: `there-1` and so on.
    pub fn place_as_several(&self, sandbox: &TestSandbox, number: usize) {
        let program = sandbox.executable("subagent-runtime");
        for number in 1..=number {
            let name = format!("{}-{number}", self.name);
            sandbox.place(&name, self.placement(), json!({"host": name, "program": program}));
        }
    }

    /// Returns the placement of this host.
    fn placement(&self) -> Value {
        json!({"kind": "ssh", "host": self.name, "cwd": self.work(), "args": ["-F", self.file("client")]})
    }

    /// Returns the entry of a host whose daemon is that of the sandbox's workspace.
    #[must_use]
    pub fn entry(&self, sandbox: &TestSandbox) -> Value {
        json!({
            "host": self.name, "args": ["-F", self.file("client")], "cwd": sandbox.workspace(),
            "program": sandbox.executable("subagent"),
        })
    }

    /// Writes these hosts into the config file of the sandbox's user.
    ///
    /// # Panics
    ///
    /// If the file cannot be written.
    pub fn offer(sandbox: &TestSandbox, hosts: &Value) {
        sandbox.change_user_config(|config| config["hosts"] = json!(hosts));
    }

    /// Writes a start file of the login shell there.
    pub fn profile(&self, text: &str) {
        fs::write(self.home.join(".profile"), text).unwrap();
    }

    /// Ends the server and all connections, as if the host was switched off.
    ///
    /// # Panics
    ///
    /// If the server cannot be killed.
    pub fn end_server(&mut self) {
        let connections = self.connections();
        self.server.kill().unwrap();
        self.server.wait().unwrap();
        connections.iter().for_each(|connection| connection.signal(Signal::SIGKILL));
    }

    /// Starts the server again.
    ///
    /// # Panics
    ///
    /// If its port is not free any more.
    pub fn restart_server(&mut self, sandbox: &TestSandbox) {
        let on = (&self.network, &self.machine, self.port);
        self.server = listening(self.folder.path(), &self.home, sandbox, on).expect("its port");
    }

    /// Starts the server again, so that it also offers a login with a password.
    ///
    /// # Panics
    ///
    /// If the server cannot be started again.
    pub fn offer_passwords(&mut self, sandbox: &TestSandbox) {
        fs::write(self.file(FIRST_OPTIONS), "PasswordAuthentication yes\n").unwrap();
        self.end_server();
        self.restart_server(sandbox);
    }

    /// Kills all connections; the server goes on.
    pub fn cut(&self) {
        for connection in self.connections() {
            connection.signal(Signal::SIGKILL);
        }
    }

    /// Lets the connections that [`Self::hang`] has stopped go on: what they have to say is late.
    pub fn go_on(&self) {
        for connection in self.connections() {
            connection.signal(Signal::SIGCONT);
        }
    }

    /// Stops the server's side of all connections, as if the network was cut without a word. The
    /// server accepts further ones. [`Self::cut`] ends them.
    pub fn hang(&self) {
        for connection in self.connections() {
            connection.signal(Signal::SIGSTOP);
        }
    }

    /// Cuts the network of the host. [`Self::restore_network`] restores it.
    pub fn cut_network(&self) {
        self.network.cut();
    }

    /// Restores the network of the host.
    pub fn restore_network(&self) {
        self.network.restore();
    }

    /// Loses all that is sent to the host. Nothing there or here is told. [`Self::find_packets`] ends it.
    pub fn lose_packets(&self) {
        self.network.lose();
    }

    /// Ends the loss that [`Self::lose_packets`] began.
    pub fn find_packets(&self) {
        self.network.find();
    }

    /// Makes the network slow, so that it loses packets.
    pub fn slow_down_network(&self, rate: &str) {
        self.network.slow_down(rate);
    }

    /// Loses a part of the packets in both directions.
    pub fn lose_some_packets(&self, percentage: u32) {
        self.network.lose_some(percentage);
    }

    /// Returns how many packets [`Self::lose_some_packets`] has lost.
    #[must_use]
    pub fn lost_packets(&self) -> u64 {
        self.network.lost()
    }

    /// Returns the server's processes of all connections.
    ///
    /// # Panics
    ///
    /// If the pid of the server is impossible.
    #[must_use]
    pub fn connections(&self) -> Vec<Process> {
        let server = i32::try_from(self.server.id()).unwrap();
        let children: Vec<Process> = process::all().into_iter().filter(|one| one.parent == server).collect();
        let below = children.iter().flat_map(Process::children).filter(|one| one.name.starts_with("sshd"));
        let below: Vec<Process> = below.collect();
        below.into_iter().chain(children).collect()
    }
}

/// Starts a server on this port; `None` if another process has it.
fn listening(
    folder: &Path,
    home: &Path,
    sandbox: &TestSandbox,
    (network, machine, port): (&HostNetwork, &HostMachine, u16),
) -> Option<Child> {
    let address = SocketAddr::new(network.address, port);
    let at = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let id = sandbox.path().file_name().unwrap().to_str().unwrap();
    // The first value of an option counts.
    let first = fs::read_to_string(at(FIRST_OPTIONS)).unwrap_or_default();
    let config = format!(
        "{first}ListenAddress {address}\nHostKey {}\nAuthorizedKeysFile {}\nPidFile none\nUsePAM no\n\
         StrictModes no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n\
         PermitRootLogin prohibit-password\nPrintMotd no\nMaxStartups 200\nMaxSessions 1000\nLogLevel INFO\n\
         SetEnv HOME={} SHELL=/bin/bash TEST_SANDBOX_ID={id}{}\n",
        at("host"),
        at("user.pub"),
        home.display(),
        machine.variables(),
    );
    fs::write(at("sshd_config"), config).unwrap();
    let log = fs::File::create(at("log")).unwrap();
    let mut command = network.command(SSHD);
    command
        .args(["-D", "-e", "-f", &at("sshd_config")])
        .env_clear()
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log);
    let mut server = machine.spawn(&mut command).unwrap();
    let listens = wait_until("sshd", DEADLINE, || {
        let ended = server.try_wait().unwrap().is_some();
        let answers = || TcpStream::connect(address).is_ok();
        if ended { Some(false) } else { answers().then_some(true) }
    });
    if !listens {
        say(&format!("sshd did not start: {}", fs::read_to_string(at("log")).unwrap_or_default()));
    }
    listens.then_some(server)
}

impl Drop for SshHost {
    fn drop(&mut self) {
        let left = || Some(self.connections()).filter(|left| !left.is_empty());
        let left = wait_while(Duration::from_secs(5), left);
        let _ = self.server.kill();
        let _ = self.server.wait();
        for connection in left.iter().flatten() {
            connection.signal(Signal::SIGKILL);
        }
        if std::thread::panicking() {
            let log = fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
            let _ = writeln!(std::io::stderr(), "--- sshd\n{log}");
        } else {
            assert!(left.is_none(), "connections are left: {left:?}");
        }
    }
}
