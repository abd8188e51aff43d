//! Addresses that a listed name must not lead to: this machine and the metadata services of clouds.
//!
//! They give access to services that trust every local process, or to credentials of the machine.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use subagent_protocol::sandbox::HostPort;

/// Metadata and host services of clouds outside of link-local addresses: Alibaba, Azure, Oracle.
const METADATA: [Ipv4Addr; 3] =
    [Ipv4Addr::new(100, 100, 100, 200), Ipv4Addr::new(168, 63, 129, 16), Ipv4Addr::new(192, 0, 0, 192)];
/// The metadata service of Google over IPv6. Those of AWS have a range, see below.
const METADATA_6: Ipv6Addr = Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254);

/// Whether the proxy may connect to an address of this listed host.
pub(super) fn permitted(target: &HostPort, address: IpAddr) -> bool {
    match target.address() {
        Some(listed) => listed.to_canonical() == address.to_canonical(),
        None if target.host() == "localhost" => address.is_loopback(),
        None => !reserved(address.to_canonical()),
    }
}

/// Whether a connection of a name that is not `localhost` has reached this machine, by one of its
/// own addresses.
pub(super) fn is_own(target: &HostPort, local: IpAddr, peer: IpAddr) -> bool {
    let is_name = target.address().is_none() && target.host() != "localhost";
    is_name && local.to_canonical() == peer.to_canonical()
}

fn reserved(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => reserved_4(address),
        IpAddr::V6(address) => {
            let embedded = match address.segments() {
                // NAT64 and 6to4 carry an IPv4 address.
                [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0x2002, high, low, ..] => {
                    let [[a, b], [c, d]] = [high, low].map(u16::to_be_bytes);
                    Some(Ipv4Addr::new(a, b, c, d))
                }
                _ => None,
            };
            address.is_loopback()
                || address.is_unspecified()
                || address.is_multicast()
                || address.is_unicast_link_local()
                || matches!(address.segments(), [0xfd00, 0xec2, ..])
                || address == METADATA_6
                || embedded.is_some_and(reserved_4)
        }
    }
}

fn reserved_4(address: Ipv4Addr) -> bool {
    address.is_loopback()
        || address.octets()[0] == 0
        || address.is_link_local()
        || address.is_multicast()
        || address.is_broadcast()
        || METADATA.contains(&address)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_permitted(target: &str, address: &str) -> bool {
        permitted(&target.parse().unwrap(), address.parse().unwrap())
    }

    #[test]
    fn a_name_does_not_lead_to_this_machine_or_to_metadata() {
        let addresses = [
            "127.0.0.1",
            "127.9.9.9",
            "0.0.0.0",
            "0.1.2.3",
            "169.254.169.254",
            "169.254.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "100.100.100.200",
            "168.63.129.16",
            "192.0.0.192",
            "::1",
            "::",
            "fe80::1",
            "ff02::1",
            "fd00:ec2::23",
            "fd00:ec2::254",
            "fd20:ce::254",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
            "64:ff9b::7f00:1",
            "64:ff9b::a9fe:a9fe",
            "2002:7f00:1::",
        ];
        for address in addresses {
            assert!(!is_permitted("api.example.com:443", address), "{address}");
        }
        for address in ["192.0.2.1", "10.0.0.1", "2001:db8::1", "fd00::1", "64:ff9b::c000:201"] {
            assert!(is_permitted("api.example.com:443", address), "{address}");
        }
    }

    #[test]
    fn a_listed_address_is_itself() {
        assert!(is_permitted("127.0.0.1:80", "127.0.0.1"));
        assert!(is_permitted("169.254.169.254:80", "169.254.169.254"));
        assert!(is_permitted("[::ffff:127.0.0.1]:80", "127.0.0.1"));
        assert!(!is_permitted("127.0.0.1:80", "127.0.0.2"));
        assert!(is_permitted("localhost:80", "127.0.0.1") && is_permitted("localhost:80", "::1"));
        assert!(!is_permitted("localhost:80", "192.0.2.1"));
    }

    #[test]
    fn a_name_does_not_lead_to_an_own_address() {
        let is_own = |target: &str, peer: &str| {
            is_own(&target.parse().unwrap(), "10.0.0.1".parse().unwrap(), peer.parse().unwrap())
        };
        assert!(is_own("api.example.com:443", "10.0.0.1"));
        assert!(is_own("api.example.com:443", "::ffff:10.0.0.1"));
        assert!(!is_own("api.example.com:443", "10.0.0.2"));
        assert!(!is_own("10.0.0.1:443", "10.0.0.1") && !is_own("localhost:443", "10.0.0.1"));
    }
}
