//! Addresses that are not of the public internet: networks of whoever runs the service, the machine itself, services
//! of its cloud, and what no host should have.
//!
//! A name that somebody else controls may point at any of them at any time, which is why a rule for a name is not
//! enough to reach one.

use ::core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Ranges of IPv4, by first address and prefix; from the registry of special-purpose addresses.
const RESERVED_V4: &[(Ipv4Addr, u32)] = &[
    (Ipv4Addr::new(0, 0, 0, 0), 8), // this network; connects to the machine itself on Linux
    (Ipv4Addr::new(10, 0, 0, 0), 8), // private
    (Ipv4Addr::new(100, 64, 0, 0), 10), // shared by carriers
    (Ipv4Addr::new(127, 0, 0, 0), 8), // loopback
    (Ipv4Addr::new(168, 63, 129, 16), 32), // services of a cloud, at an address that looks public
    (Ipv4Addr::new(169, 254, 0, 0), 16), // link, with the metadata service of most clouds
    (Ipv4Addr::new(172, 16, 0, 0), 12), // private
    (Ipv4Addr::new(192, 0, 0, 0), 24), // protocols
    (Ipv4Addr::new(192, 0, 2, 0), 24), // documentation
    (Ipv4Addr::new(192, 88, 99, 0), 24), // relays, retired
    (Ipv4Addr::new(192, 168, 0, 0), 16), // private
    (Ipv4Addr::new(198, 18, 0, 0), 15), // benchmarks
    (Ipv4Addr::new(198, 51, 100, 0), 24), // documentation
    (Ipv4Addr::new(203, 0, 113, 0), 24), // documentation
    (Ipv4Addr::new(224, 0, 0, 0), 3), // multicast, the future, broadcast
];

/// Ranges inside the global part of IPv6 that are not public.
const RESERVED_V6: &[(Ipv6Addr, u32)] = &[
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23), // protocols; Teredo, which carries an IPv4 address
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32), // documentation
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16), // 6to4, which carries an IPv4 address
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20), // documentation
];

/// The only part of IPv6 that public hosts have addresses of.
const GLOBAL_V6: (Ipv6Addr, u32) = (Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3);

/// Whether this address is not one of a public host.
pub(super) fn is_reserved(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => is_reserved_v4(address),
        IpAddr::V6(v6) => match translated(v6.into()) {
            Some(inner) => is_reserved_v4(inner),
            None => !begins_v6(v6, &GLOBAL_V6) || RESERVED_V6.iter().any(|range| begins_v6(v6, range)),
        },
    }
}

/// The IPv4 address that a translator between both worlds (`64:ff9b::/96`) makes of this one.
pub(super) fn translated(address: IpAddr) -> Option<Ipv4Addr> {
    match address {
        IpAddr::V6(v6) => match v6.segments() {
            [0x64, 0xff9b, 0, 0, 0, 0, ..] => {
                let [.., a, b, c, d] = v6.octets();
                Some(Ipv4Addr::new(a, b, c, d))
            }
            _ => None,
        },
        IpAddr::V4(_) => None,
    }
}

fn is_reserved_v4(address: Ipv4Addr) -> bool {
    RESERVED_V4.iter().any(|(network, prefix)| (address.to_bits() ^ network.to_bits()) >> (32 - prefix) == 0)
}

fn begins_v6(address: Ipv6Addr, (network, prefix): &(Ipv6Addr, u32)) -> bool {
    (address.to_bits() ^ network.to_bits()) >> (128 - prefix) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_range_is_reserved_from_its_first_address_to_its_last_and_no_further() {
        for (first, last, outside) in [
            ("0.0.0.0", "0.255.255.255", &["1.0.0.0"][..]),
            ("10.0.0.0", "10.255.255.255", &["9.255.255.255", "11.0.0.0"]),
            ("100.64.0.0", "100.127.255.255", &["100.63.255.255", "100.128.0.0"]),
            ("127.0.0.0", "127.255.255.255", &["126.255.255.255", "128.0.0.0"]),
            ("168.63.129.16", "168.63.129.16", &["168.63.129.15", "168.63.129.17"]),
            ("169.254.0.0", "169.254.255.255", &["169.253.255.255", "169.255.0.0"]),
            ("172.16.0.0", "172.31.255.255", &["172.15.255.255", "172.32.0.0"]),
            ("192.0.0.0", "192.0.0.255", &["191.255.255.255", "192.0.1.0"]),
            ("192.0.2.0", "192.0.2.255", &["192.0.1.255", "192.0.3.0"]),
            ("192.88.99.0", "192.88.99.255", &["192.88.98.255", "192.88.100.0"]),
            ("192.168.0.0", "192.168.255.255", &["192.167.255.255", "192.169.0.0"]),
            ("198.18.0.0", "198.19.255.255", &["198.17.255.255", "198.20.0.0"]),
            ("198.51.100.0", "198.51.100.255", &["198.51.99.255", "198.51.101.0"]),
            ("203.0.113.0", "203.0.113.255", &["203.0.112.255", "203.0.114.0"]),
            ("224.0.0.0", "255.255.255.255", &["223.255.255.255"]),
            ("::", "1fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", &["64:ff9b::8.8.8.8", "2000::"]),
            ("2001::", "2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff", &["2000:ffff::", "2001:200::"]),
            ("2001:db8::", "2001:db8:ffff::", &["2001:db7:ffff::", "2001:db9::"]),
            ("2002::", "2002:ffff::", &["2001:ffff::", "2003::"]),
            ("3fff::", "3fff:fff:ffff::", &["3ffe:ffff::", "3fff:1000::"]),
            ("4000::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", &["3fff:ffff::"]),
        ] {
            assert!(is_reserved(first.parse().unwrap()), "{first}");
            assert!(is_reserved(last.parse().unwrap()), "{last}");
            for address in outside {
                assert!(!is_reserved(address.parse().unwrap()), "{address}");
            }
        }
    }

    #[test]
    fn a_reserved_address_in_other_clothes_is_reserved() {
        for address in [
            "169.254.169.254",
            "::ffff:169.254.169.254",
            "::169.254.169.254",
            "64:ff9b::169.254.169.254",
            "64:ff9b:1::8.8.8.8",
            "2002:a9fe:a9fe::",
            "::1",
            "::ffff:127.0.0.1",
            "fd00:ec2::254",
            "fe80::1",
            "fec0::1",
            "ff02::1",
            "100::1",
            "5f00::1",
            "100.100.100.200",
            "192.0.0.192",
            "0.0.0.0",
            "::",
        ] {
            assert!(is_reserved(address.parse().unwrap()), "{address}");
        }
        for address in ["8.8.8.8", "::ffff:8.8.8.8", "64:ff9b::8.8.8.8", "2606:4700::1111", "2a00:1450::1"] {
            assert!(!is_reserved(address.parse().unwrap()), "{address}");
        }
    }
}
