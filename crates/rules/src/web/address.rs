//! Whether an address may be connected to: only one of the public internet that is not this machine's own.
//!
//! IPv4 is open but for what the registries set aside; IPv6 is shut but for global unicast, and there too what carries
//! an IPv4 address inside is refused whole: what it leads to depends on a relay that nobody here can see.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An address that [`decide`] let through. Only such a one is connected to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PublicAddress(IpAddr);

impl PublicAddress {
    pub const fn ip(self) -> IpAddr {
        self.0
    }
}

/// Whether the machine that asks has this address itself; looked up by the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    ThisMachine,
    Others,
}

/// Why an address is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    Unspecified,
    Loopback,
    Private,
    /// Carriers' own (RFC 6598).
    Shared,
    LinkLocal,
    Multicast,
    Metadata,
    /// Set aside for protocols, tests, documents or later.
    SetAside,
    /// An IPv6 address with an IPv4 one inside.
    Embedded,
    /// Services of a machine often listen at every address it has.
    ThisMachine,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unspecified => "it stands for no machine",
            Self::Loopback => "it leads back to this machine",
            Self::Private => "it is of a private network",
            Self::Shared => "it is of a carrier's inner network",
            Self::LinkLocal => "it is of the local link, where clouds keep credentials",
            Self::Multicast => "it is a group of machines",
            Self::Metadata => "it is a cloud's metadata service",
            Self::SetAside => "it is not of the public internet",
            Self::Embedded => "it carries an IPv4 address inside",
            Self::ThisMachine => "it is an address of this machine",
        })
    }
}

/// Says of an address whether it may be connected to.
pub fn decide(address: IpAddr, owner: Owner) -> Result<PublicAddress, Refused> {
    let refused = match address {
        IpAddr::V4(address) => four(address),
        IpAddr::V6(address) => six(address),
    };
    match (refused, owner) {
        (Some(refused), _) => Err(refused),
        (None, Owner::ThisMachine) => Err(Refused::ThisMachine),
        (None, Owner::Others) => Ok(PublicAddress(address)),
    }
}

/// IPv4 ranges that are not open, the narrower before the wider. Source: IANA's special-purpose registry, and what
/// clouds use outside of it.
const FOUR: &[([u8; 4], u32, Refused)] = &[
    ([0, 0, 0, 0], 8, Refused::Unspecified),
    ([10, 0, 0, 0], 8, Refused::Private),
    ([100, 100, 100, 200], 32, Refused::Metadata), // Alibaba
    ([100, 64, 0, 0], 10, Refused::Shared),
    ([127, 0, 0, 0], 8, Refused::Loopback),
    ([168, 63, 129, 16], 32, Refused::Metadata), // Azure; a public address by its looks
    ([169, 254, 0, 0], 16, Refused::LinkLocal),
    ([172, 16, 0, 0], 12, Refused::Private),
    ([192, 0, 0, 192], 32, Refused::Metadata), // Oracle
    ([192, 0, 0, 0], 24, Refused::SetAside),
    ([192, 0, 2, 0], 24, Refused::SetAside),
    ([192, 88, 99, 0], 24, Refused::SetAside), // relays of 6to4
    ([192, 168, 0, 0], 16, Refused::Private),
    ([198, 18, 0, 0], 15, Refused::SetAside),
    ([198, 51, 100, 0], 24, Refused::SetAside),
    ([203, 0, 113, 0], 24, Refused::SetAside),
    ([224, 0, 0, 0], 4, Refused::Multicast),
    ([240, 0, 0, 0], 4, Refused::SetAside), // with the broadcast address
];

fn four(address: Ipv4Addr) -> Option<Refused> {
    let bits = address.to_bits();
    FOUR.iter().find_map(|(base, length, refused)| {
        let same = (bits ^ u32::from_be_bytes(*base)).leading_zeros() >= *length;
        same.then_some(*refused)
    })
}

/// IPv6 ranges that have a reason of their own, the narrower before the wider.
const SIX: &[([u16; 8], u32, Refused)] = &[
    ([0, 0, 0, 0, 0, 0, 0, 0], 128, Refused::Unspecified),
    ([0, 0, 0, 0, 0, 0, 0, 1], 128, Refused::Loopback),
    ([0, 0, 0, 0, 0, 0, 0, 0], 80, Refused::Embedded), // IPv4-compatible, -mapped and -translated
    ([0, 0, 0, 0, 0xffff, 0, 0, 0], 96, Refused::Embedded), // SIIT
    ([0x64, 0xff9b, 0, 0, 0, 0, 0, 0], 96, Refused::Embedded), // NAT64
    ([0x64, 0xff9b, 1, 0, 0, 0, 0, 0], 48, Refused::Embedded), // NAT64, local use
    ([0x2001, 0, 0, 0, 0, 0, 0, 0], 32, Refused::Embedded), // Teredo
    ([0x2001, 0, 0, 0, 0, 0, 0, 0], 23, Refused::SetAside),
    ([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 32, Refused::SetAside),
    ([0x2002, 0, 0, 0, 0, 0, 0, 0], 16, Refused::Embedded), // 6to4
    ([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20, Refused::SetAside),
    ([0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254], 128, Refused::Metadata), // Amazon
    ([0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254], 128, Refused::Metadata),  // Google
    ([0xfc00, 0, 0, 0, 0, 0, 0, 0], 7, Refused::Private),
    ([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10, Refused::LinkLocal),
    ([0xfec0, 0, 0, 0, 0, 0, 0, 0], 10, Refused::Private), // site-local, of old
    ([0xff00, 0, 0, 0, 0, 0, 0, 0], 8, Refused::Multicast),
];
/// Global unicast: the only part of IPv6 that is given out.
const GLOBAL: ([u16; 8], u32) = ([0x2000, 0, 0, 0, 0, 0, 0, 0], 3);

fn six(address: Ipv6Addr) -> Option<Refused> {
    let is_in = |(base, length): &([u16; 8], u32)| {
        (address.to_bits() ^ Ipv6Addr::from(*base).to_bits()).leading_zeros() >= *length
    };
    let known = SIX.iter().find(|(base, length, _)| is_in(&(*base, *length)));
    match known {
        Some((_, _, refused)) => Some(*refused),
        None => (!is_in(&GLOBAL)).then_some(Refused::SetAside),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(address: &str, expected: Option<Refused>) {
        let address: IpAddr = address.parse().unwrap();
        let expected = match expected {
            None => Ok(PublicAddress(address)),
            Some(refused) => Err(refused),
        };
        assert_eq!(decide(address, Owner::Others), expected, "{address}");
    }

    #[test]
    fn only_addresses_of_the_public_internet_are_open() {
        for open in [
            "93.184.216.34",
            "1.1.1.1",
            "8.8.8.8",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "126.255.255.255",
            "128.0.0.0",
            "169.253.255.255",
            "169.255.0.0",
            "172.15.255.255",
            "172.32.0.0",
            "192.0.1.0",
            "192.167.255.255",
            "192.169.0.0",
            "198.17.255.255",
            "198.20.0.0",
            "223.255.255.255",
            "168.63.129.17",
            "2606:2800:220:1:248:1893:25c8:1946",
            "2a00:1450:4001::1",
            "2001:200::",
            "2000::1",
            "2001:db7::1",
            "3ffe:ffff::1",
        ] {
            check(open, None);
        }
    }

    #[test]
    fn whatever_is_set_aside_in_ipv4_is_refused_with_its_reason() {
        for (shut, reason) in [
            ("0.0.0.0", Refused::Unspecified),
            ("0.1.2.3", Refused::Unspecified),
            ("10.0.0.1", Refused::Private),
            ("10.255.255.255", Refused::Private),
            ("100.64.0.0", Refused::Shared),
            ("100.127.255.255", Refused::Shared),
            ("100.100.100.200", Refused::Metadata),
            ("127.0.0.1", Refused::Loopback),
            ("127.255.255.255", Refused::Loopback),
            ("168.63.129.16", Refused::Metadata),
            ("169.254.169.254", Refused::LinkLocal),
            ("172.16.0.0", Refused::Private),
            ("172.31.255.255", Refused::Private),
            ("192.0.0.8", Refused::SetAside),
            ("192.0.0.192", Refused::Metadata),
            ("192.0.2.1", Refused::SetAside),
            ("192.88.99.1", Refused::SetAside),
            ("192.168.1.1", Refused::Private),
            ("198.18.0.0", Refused::SetAside),
            ("198.19.255.255", Refused::SetAside),
            ("198.51.100.7", Refused::SetAside),
            ("203.0.113.7", Refused::SetAside),
            ("224.0.0.1", Refused::Multicast),
            ("239.255.255.255", Refused::Multicast),
            ("240.0.0.1", Refused::SetAside),
            ("255.255.255.255", Refused::SetAside),
        ] {
            check(shut, Some(reason));
        }
    }

    #[test]
    fn whatever_is_not_global_in_ipv6_is_refused_with_its_reason() {
        for (shut, reason) in [
            ("::", Refused::Unspecified),
            ("::1", Refused::Loopback),
            ("::7f00:1", Refused::Embedded),
            ("::ffff:127.0.0.1", Refused::Embedded),
            ("::ffff:93.184.216.34", Refused::Embedded),
            ("::ffff:0:93.184.216.34", Refused::Embedded),
            ("64:ff9b::7f00:1", Refused::Embedded),
            ("64:ff9b::5db8:d822", Refused::Embedded),
            ("64:ff9b:1::1", Refused::Embedded),
            ("64:ff9b:2::1", Refused::SetAside),
            ("100::1", Refused::SetAside),
            ("2001::1", Refused::Embedded),
            ("2001:10::1", Refused::SetAside),
            ("2001:db8::1", Refused::SetAside),
            ("2002:7f00:1::", Refused::Embedded),
            ("2002:5db8:d822::", Refused::Embedded),
            ("3fff::1", Refused::SetAside),
            ("4000::1", Refused::SetAside),
            ("5f00::1", Refused::SetAside),
            ("fc00::1", Refused::Private),
            ("fd00:ec2::254", Refused::Metadata),
            ("fd20:ce::254", Refused::Metadata),
            ("fdff::1", Refused::Private),
            ("fe80::1", Refused::LinkLocal),
            ("febf::1", Refused::LinkLocal),
            ("fec0::1", Refused::Private),
            ("ff02::1", Refused::Multicast),
        ] {
            check(shut, Some(reason));
        }
    }

    #[test]
    fn an_address_of_this_machine_is_refused_however_public_it_looks() {
        let address = "93.184.216.34".parse().unwrap();
        assert_eq!(decide(address, Owner::ThisMachine), Err(Refused::ThisMachine));
        let inner = "127.0.0.1".parse().unwrap();
        assert_eq!(decide(inner, Owner::ThisMachine), Err(Refused::Loopback));
    }

    /// What the standard library and plain comparisons say, put together another way than in the table.
    fn is_inner(address: Ipv4Addr) -> bool {
        let [a, b, c, d] = address.octets();
        address.is_private()
            || address.is_loopback()
            || address.is_link_local()
            || address.is_multicast()
            || address.is_broadcast()
            || address.is_documentation()
            || address.is_unspecified()
            || a == 0
            || a >= 240
            || a == 100 && (64..128).contains(&b)
            || a == 198 && (b == 18 || b == 19)
            || (a, b, c) == (192, 0, 0)
            || (a, b, c) == (192, 88, 99)
            || (a, b, c, d) == (168, 63, 129, 16)
    }

    proptest! {
        #[test]
        fn the_table_agrees_with_the_standard_library(bits: u32, near in 0usize..18, off in -2i64..3) {
            // Anywhere, and just around the ends of every range.
            let (base, length, _) = FOUR[near];
            let first = i64::from(u32::from_be_bytes(base));
            let last = first + (1_i64 << (32 - length));
            let around = [first + off, last + off].map(|value| u32::try_from(value.clamp(0, i64::from(u32::MAX))).unwrap());
            for bits in [bits, around[0], around[1]] {
                let address = Ipv4Addr::from_bits(bits);
                let verdict = decide(IpAddr::V4(address), Owner::Others);
                prop_assert_eq!(verdict.is_err(), is_inner(address), "{}", address);
            }
        }

        #[test]
        fn no_ipv4_address_hides_in_an_ipv6_one(bits: u32, high: u16) {
            let four = Ipv4Addr::from_bits(bits);
            let [w, x, y, z] = four.octets();
            let (a, b) = (u16::from_be_bytes([w, x]), u16::from_be_bytes([y, z]));
            for six in [
                four.to_ipv6_mapped(),
                four.to_ipv6_compatible(),
                Ipv6Addr::new(0, 0, 0, 0, 0xffff, 0, a, b),
                Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, a, b),
                Ipv6Addr::new(0x64, 0xff9b, 1, high, 0, 0, a, b),
                Ipv6Addr::new(0x2002, a, b, high, 0, 0, 0, 1),
                Ipv6Addr::new(0x2001, 0, high, 0, 0, 0, !a, !b),
            ] {
                prop_assert!(decide(IpAddr::V6(six), Owner::Others).is_err(), "{}", six);
            }
        }

        #[test]
        fn what_is_open_in_ipv6_is_global_unicast(bits: u128) {
            if decide(IpAddr::V6(Ipv6Addr::from_bits(bits)), Owner::Others).is_ok() {
                prop_assert_eq!(bits >> 125, 1);
            }
        }
    }
}
