//! Decides whom a connection comes from when proxies stand in between.
//!
//! What a header says about the sender is believed only if the machine at the other end of the socket is
//! one that `gateway.trustedProxies` names, and then only up to the first hop that is none of them. It
//! says who is counted and written down; that somebody is of this machine is never believed of a header.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A machine, or a range of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Range {
    start: IpAddr,
    bits: u32,
}

impl Range {
    fn parse(text: &str) -> Option<Self> {
        let (address, bits) = match text.trim().split_once('/') {
            Some((address, bits)) => (address, Some(bits.parse().ok()?)),
            None => (text.trim(), None),
        };
        let start: IpAddr = address.parse().ok()?;
        let most = if start.is_ipv4() { 32 } else { 128 };
        let bits = bits.unwrap_or(most);
        (bits <= most).then_some(Self { start, bits })
    }

    fn holds(self, address: IpAddr) -> bool {
        match (self.start, address.to_canonical()) {
            (IpAddr::V4(start), IpAddr::V4(found)) => {
                let mask = u32::MAX.checked_shl(32 - self.bits).unwrap_or(0);
                start.to_bits() & mask == found.to_bits() & mask
            }
            (IpAddr::V6(start), IpAddr::V6(found)) => {
                let mask = u128::MAX.checked_shl(128 - self.bits).unwrap_or(0);
                start.to_bits() & mask == found.to_bits() & mask
            }
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
        }
    }
}

/// The proxies that are believed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TrustedProxies {
    ranges: Vec<Range>,
    real_ip: RealIp,
}

/// `gateway.allowRealIpFallback`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RealIp {
    #[default]
    Ignored,
    Counts,
}

/// What the headers of a request say about its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Said<'a> {
    /// All `X-Forwarded-For` lines, in their order, joined by commas.
    pub forwarded_for: Option<&'a str>,
    /// `X-Real-IP`; counts only with `gateway.allowRealIpFallback`, because proxies pass it on unread.
    pub real_ip: Option<&'a str>,
    /// Any header is there that only a proxy sets.
    pub any: Forwarded,
}

/// Whether a proxy left its mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Forwarded {
    #[default]
    No,
    Yes,
}

/// Whom a connection comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sender {
    pub address: IpAddr,
    /// `Yes` if it came over any proxy, believed or not: never a sender of this machine.
    pub forwarded: Forwarded,
}

impl TrustedProxies {
    /// From the list in the config; the error is the entry that is neither an address nor a range.
    pub fn parse(list: &[String]) -> Result<Self, String> {
        let range = |text: &String| Range::parse(text).ok_or_else(|| text.clone());
        let ranges = list.iter().map(range).collect::<Result<_, _>>()?;
        Ok(Self { ranges, real_ip: RealIp::default() })
    }

    #[must_use]
    pub fn with_real_ip(self, real_ip: RealIp) -> Self {
        Self { real_ip, ..self }
    }

    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Says whether an address is one of these proxies.
    pub fn holds(&self, address: IpAddr) -> bool {
        self.ranges.iter().any(|range| range.holds(address))
    }

    /// Says whether a proxy on this machine is among them.
    pub fn holds_this_machine(&self) -> bool {
        self.holds(Ipv4Addr::LOCALHOST.into()) || self.holds(Ipv6Addr::LOCALHOST.into())
    }

    /// Says whether everybody is: then headers prove nothing.
    pub fn is_everybody(&self) -> bool {
        self.ranges.iter().any(|range| range.bits == 0)
    }

    /// Decides whom a request comes from.
    #[must_use]
    pub fn decide(&self, peer: IpAddr, said: Said<'_>) -> Sender {
        let unbelieved = Sender { address: peer, forwarded: said.any };
        if !self.holds(peer) || said.any == Forwarded::No {
            return unbelieved;
        }
        let hops = said.forwarded_for.map(|text| text.split(',').rev().map(str::trim));
        let found = match hops {
            Some(mut hops) => loop {
                match hops.next().map(str::parse::<IpAddr>) {
                    // The list ends, or somebody wrote nonsense into it: nobody is known.
                    None | Some(Err(_)) => break None,
                    Some(Ok(hop)) if self.holds(hop) => {}
                    Some(Ok(hop)) => break Some(hop),
                }
            },
            None => match self.real_ip {
                RealIp::Ignored => None,
                RealIp::Counts => said.real_ip.and_then(|text| text.trim().parse().ok()),
            },
        };
        found.map_or(unbelieved, |address| Sender { address, ..unbelieved })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(peer: &str, forwarded_for: Option<&str>, expected: (&str, Forwarded)) {
        let trusted = ["127.0.0.1".to_owned(), "10.0.0.0/8".to_owned()];
        let trusted = TrustedProxies::parse(&trusted).unwrap();
        let any = if forwarded_for.is_some() { Forwarded::Yes } else { Forwarded::No };
        let said = Said { forwarded_for, real_ip: None, any };
        let found = trusted.decide(peer.parse().unwrap(), said);
        let expected = Sender { address: expected.0.parse().unwrap(), forwarded: expected.1 };
        assert_eq!(found, expected, "{peer} {forwarded_for:?}");
    }

    #[test]
    fn only_trusted_machines_are_believed_and_only_to_the_first_stranger() {
        check("192.0.2.1", None, ("192.0.2.1", Forwarded::No));
        check("192.0.2.1", Some("127.0.0.1"), ("192.0.2.1", Forwarded::Yes));
        check("10.1.2.3", Some("198.51.100.7"), ("198.51.100.7", Forwarded::Yes));
        check(
            "10.1.2.3",
            Some("127.0.0.1, 198.51.100.7, 10.9.9.9"),
            ("198.51.100.7", Forwarded::Yes),
        );
        check("10.1.2.3", Some("10.9.9.9"), ("10.1.2.3", Forwarded::Yes));
        check("10.1.2.3", Some("nonsense"), ("10.1.2.3", Forwarded::Yes));
        check("127.0.0.1", None, ("127.0.0.1", Forwarded::No));
        check("127.0.0.1", Some("127.0.0.2"), ("127.0.0.2", Forwarded::Yes));
    }

    #[test]
    fn a_real_ip_header_counts_only_where_the_config_says_so() {
        let trusted = TrustedProxies::parse(&["10.0.0.1".to_owned()]).unwrap();
        let said = Said { real_ip: Some("127.0.0.1"), any: Forwarded::Yes, ..Said::default() };
        let address = |trusted: &TrustedProxies| trusted.decide([10, 0, 0, 1].into(), said).address;
        assert_eq!(address(&trusted), IpAddr::from([10, 0, 0, 1]));
        let daring = trusted.with_real_ip(RealIp::Counts);
        assert_eq!(address(&daring), IpAddr::from([127, 0, 0, 1]));
        assert_eq!(daring.decide([10, 0, 0, 1].into(), said).forwarded, Forwarded::Yes);
    }

    #[test]
    fn a_list_that_cannot_be_read_is_none() {
        for wrong in ["proxy", "10.0.0.0/33", "::/200", ""] {
            assert_eq!(TrustedProxies::parse(&[wrong.to_owned()]), Err(wrong.to_owned()));
        }
        let all = TrustedProxies::parse(&["0.0.0.0/0".to_owned()]).unwrap();
        assert!(all.holds("8.8.8.8".parse().unwrap()));
    }
}
