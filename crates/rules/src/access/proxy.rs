//! Decides whom a connection comes from when proxies stand in between.
//!
//! What a header says about the sender is believed only if the machine at the other end of the socket is
//! one that `gateway.trustedProxies` names, and then only up to the first hop that is none of them.

use std::net::IpAddr;

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
pub struct TrustedProxies(Vec<Range>);

/// What the headers of a request say about its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Said<'a> {
    pub forwarded_for: Option<&'a str>,
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
    /// `Yes` if it came over a proxy that is not believed: never a sender of this machine.
    pub forwarded: Forwarded,
}

impl TrustedProxies {
    /// From the list in the config; the error is the entry that is neither an address nor a range.
    pub fn parse(list: &[String]) -> Result<Self, String> {
        let range = |text: &String| Range::parse(text).ok_or_else(|| text.clone());
        list.iter().map(range).collect::<Result<_, _>>().map(Self)
    }

    fn holds(&self, address: IpAddr) -> bool {
        self.0.iter().any(|range| range.holds(address))
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
            None => said.real_ip.and_then(|text| text.trim().parse().ok()),
        };
        match found {
            Some(address) => Sender { address, forwarded: Forwarded::No },
            None => unbelieved,
        }
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
        check("10.1.2.3", Some("198.51.100.7"), ("198.51.100.7", Forwarded::No));
        check(
            "10.1.2.3",
            Some("127.0.0.1, 198.51.100.7, 10.9.9.9"),
            ("198.51.100.7", Forwarded::No),
        );
        check("10.1.2.3", Some("10.9.9.9"), ("10.1.2.3", Forwarded::Yes));
        check("10.1.2.3", Some("nonsense"), ("10.1.2.3", Forwarded::Yes));
        check("127.0.0.1", None, ("127.0.0.1", Forwarded::No));
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
