//! The filter of system calls, for what neither Landlock nor namespaces limit.

// Unix sockets by path lead to the user's programs that accept any process of the user: the
// session bus, `tmux`, a container engine, this daemon. The kernel cannot distinguish paths there,
// so sockets of that family cannot be created (`socketpair` can). `io_uring` creates sockets
// without a system call, and the keyrings are shared with the user's session.

use std::collections::BTreeMap;
use std::io;

use nix::libc;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch, apply_filter,
};
use subagent_protocol::sandbox::Network;

/// Calls that are refused with any arguments.
const REFUSED: [i64; 4] =
    [libc::SYS_io_uring_setup, libc::SYS_add_key, libc::SYS_keyctl, libc::SYS_request_key];
/// The families of sockets that a network needs.
const FAMILIES: [i32; 3] = [libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];
/// On x86-64 the same calls have a second set of numbers.
#[cfg(target_arch = "x86_64")]
const OTHER_NUMBERS: &[i64] = &[0x4000_0000];
#[cfg(not(target_arch = "x86_64"))]
const OTHER_NUMBERS: &[i64] = &[];

/// Confines this process, which has one thread, and all its later descendants.
///
/// # Errors
///
/// The system's error, or an error on processors without a filter.
pub(crate) fn apply(network: Network) -> io::Result<()> {
    let program = program(network).map_err(io::Error::other)?;
    apply_filter(&program).map_err(io::Error::other)
}

fn program(network: Network) -> Result<BpfProgram, String> {
    let sockets = if network == Network::None {
        Vec::new()
    } else {
        let other_than = |family: i32| {
            let family = u64::from(family.unsigned_abs());
            SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, family)
        };
        let conditions = FAMILIES.into_iter().map(other_than).collect::<Result<Vec<_>, _>>();
        let rule = conditions.and_then(SeccompRule::new).map_err(|error| error.to_string())?;
        vec![rule]
    };
    let refused = REFUSED.into_iter().map(|call| (call, Vec::new())).chain([(libc::SYS_socket, sockets)]);
    let mut rules = BTreeMap::new();
    for (call, conditions) in refused {
        for offset in [0].iter().chain(OTHER_NUMBERS) {
            rules.insert(call + offset, conditions.clone());
        }
    }
    let arch = TargetArch::try_from(std::env::consts::ARCH).map_err(|error| error.to_string())?;
    let refuse = SeccompAction::Errno(libc::EACCES.unsigned_abs());
    let filter =
        SeccompFilter::new(rules, SeccompAction::Allow, refuse, arch).map_err(|error| error.to_string())?;
    filter.try_into().map_err(|error: seccompiler::BackendError| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_a_filter_for_each_network() {
        for network in Network::ALL.iter().copied() {
            assert!(program(network).unwrap().len() > 10);
        }
    }
}
