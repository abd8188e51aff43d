//! The network of a host of a test: the loopback, or a namespace behind a pair of virtual interfaces. Dropping it
//! removes what was made.

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use super::say;

/// The tools of Debian's package `iproute2`.
const IP: &str = "/usr/sbin/ip";
const TC: &str = "/usr/sbin/tc";
/// The tool of Debian's package `nftables`.
const NFT: &str = "/usr/sbin/nft";
/// An address of the network interface that no machine has.
const NO_MACHINE: &str = "02:00:00:00:00:99";
/// Begin and number of the pairs of addresses, of the block for tests of network devices (RFC 2544).
const FIRST: u32 = u32::from_be_bytes([198, 18, 0, 0]);
const PAIRS: u32 = 1 << 15;
/// How many names of a namespace are tried.
const NAMES: usize = 100;
/// The number of the next namespace of this process.
static NEXT: AtomicU32 = AtomicU32::new(0);

/// Where a host is reached.
#[derive(Debug)]
pub(super) struct HostNetwork {
    pub(super) address: IpAddr,
    namespace: Option<NetworkNamespace>,
}

/// A namespace, and the interface on this side of its only connection.
#[derive(Debug)]
struct NetworkNamespace {
    name: String,
    interface: String,
    /// The end of the interface in the namespace.
    there: String,
}

impl HostNetwork {
    pub(super) fn loopback() -> Self {
        Self { address: Ipv4Addr::LOCALHOST.into(), namespace: None }
    }

    /// Makes a namespace. Says loudly if this machine does not let us.
    ///
    /// # Panics
    ///
    /// If it does not with `SUBAGENT_REQUIRE_NETWORKS`.
    pub(super) fn of_its_own() -> Option<Self> {
        let mut why = "all names are taken".to_owned();
        for _ in 0..NAMES {
            let number = NEXT.fetch_add(1, Ordering::Relaxed).wrapping_add(std::process::id() * 16) % PAIRS;
            match NetworkNamespace::create(number) {
                Ok((namespace, address)) => {
                    return Some(Self { address: address.into(), namespace: Some(namespace) });
                }
                // Another run has this name, or has left it.
                Err(said) if said.contains("File exists") => {}
                Err(said) => {
                    why = said;
                    break;
                }
            }
        }
        let missing = format!("no network can be made here, so none is cut: {why}");
        assert!(std::env::var_os("SUBAGENT_REQUIRE_NETWORKS").is_none(), "{missing}");
        say(&format!("SKIPPED: {missing}"));
        None
    }

    /// Returns the command that runs a program in the network.
    pub(super) fn command(&self, program: &str) -> Command {
        match &self.namespace {
            None => Command::new(program),
            Some(namespace) => {
                let mut command = Command::new(IP);
                command.args(["netns", "exec", &namespace.name, program]);
                command
            }
        }
    }

    fn connection(&self) -> &NetworkNamespace {
        self.namespace.as_ref().expect("a network of its own")
    }

    /// Cuts the connection: the cable is out.
    pub(super) fn cut(&self) {
        self.connection().link("down");
    }

    /// Restores what [`Self::cut`] has cut.
    pub(super) fn restore(&self) {
        self.connection().link("up");
    }

    /// Loses all that is sent there. No side is told.
    pub(super) fn lose(&self) {
        let (address, interface) = (self.address.to_string(), &self.connection().interface);
        done(IP, &["neigh", "replace", &address, "lladdr", NO_MACHINE, "dev", interface, "nud", "permanent"]);
    }

    /// Ends the loss that [`Self::lose`] began.
    pub(super) fn find(&self) {
        let (address, interface) = (self.address.to_string(), &self.connection().interface);
        done(IP, &["neigh", "del", &address, "dev", interface]);
    }

    /// Makes the connection slow in both directions, with a queue that loses what is too much.
    pub(super) fn slow_down(&self, rate: &str) {
        let NetworkNamespace { name, interface, there } = self.connection();
        let limit = ["root", "tbf", "rate", rate, "burst", "4kb", "limit", "9kb"];
        done(TC, &[&["qdisc", "replace", "dev", interface], &limit[..]].concat());
        done(IP, &[&["netns", "exec", name, TC, "qdisc", "replace", "dev", there], &limit[..]].concat());
    }

    /// Loses this percentage of the packets in both directions, at random.
    pub(super) fn lose_some(&self, percentage: u32) {
        let NetworkNamespace { name, there, .. } = self.connection();
        let chain = |hook: &str| {
            format!(
                "chain {hook} {{\ntype filter hook {hook} device \"{there}\" priority 0;\n\
                 numgen random mod 100 < {percentage} counter drop\n}}\n"
            )
        };
        let table = format!("table netdev loss {{\n{}{}}}\n", chain("ingress"), chain("egress"));
        done(IP, &["netns", "exec", name, NFT, &table]);
    }

    /// Returns how many packets in both directions were lost by [`Self::lose_some`].
    pub(super) fn lost(&self) -> u64 {
        let NetworkNamespace { name, .. } = self.connection();
        let shown = output(IP, &["netns", "exec", name, NFT, "list", "table", "netdev", "loss"]).unwrap();
        let counted = shown.split("counter packets ").skip(1);
        counted.map(|rest| rest.split(' ').next().unwrap().parse::<u64>().unwrap()).sum()
    }
}

impl NetworkNamespace {
    /// Creates the namespace of this number. Returns its address there.
    fn create(number: u32) -> Result<(Self, Ipv4Addr), String> {
        if ![IP, TC, NFT].iter().all(|tool| Path::new(tool).exists()) {
            return Err("iproute2 or nftables is missing".to_owned());
        }
        let [here, there] = [1, 2].map(|last| Ipv4Addr::from(FIRST + number * 4 + last));
        let name = format!("subagent-test-{number}");
        output(IP, &["netns", "add", &name])?;
        // From here on it is removed by its drop.
        let own = Self { name, interface: format!("sat{number}a"), there: format!("sat{number}b") };
        let Self { name, interface, there: end } = &own;
        let inside = |words: &[&str]| output(IP, &[&["-n", name], words].concat());
        output(IP, &["link", "add", interface, "type", "veth", "peer", "name", end, "netns", name])?;
        inside(&["addr", "add", &format!("{there}/30"), "dev", end])?;
        inside(&["link", "set", end, "up"])?;
        inside(&["link", "set", "lo", "up"])?;
        output(IP, &["addr", "add", &format!("{here}/30"), "dev", interface])?;
        output(IP, &["link", "set", interface, "up"])?;
        Ok((own, there))
    }

    fn link(&self, state: &str) {
        // On the other side: without an interface here, packets would go to another network.
        done(IP, &["-n", &self.name, "link", "set", &self.there, state]);
    }
}

impl Drop for NetworkNamespace {
    fn drop(&mut self) {
        // The interface goes with the namespace.
        let _ = output(IP, &["netns", "del", &self.name]);
    }
}

fn done(program: &str, args: &[&str]) {
    if let Err(why) = output(program, args) {
        panic!("{why}");
    }
}

fn output(program: &str, args: &[&str]) -> Result<String, String> {
    let output = Command::new(program).args(args).stdin(Stdio::null()).output().map_err(|e| e.to_string())?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(format!("{program} {args:?}: {}", String::from_utf8_lossy(&output.stderr).trim())),
    }
}
