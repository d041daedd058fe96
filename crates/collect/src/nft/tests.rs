//! The rules of real kernels. `testdata/README.md` tells what they are.

use std::collections::BTreeSet;

use super::{
    Rules,
    parse::{Element, Name, parse_nft, take_chains, take_elements, take_rules},
    rules::Destination,
};
use crate::netlink::NetlinkError;

struct Recorded {
    chains: &'static [u8],
    rules: &'static [u8],
    sets: &'static [(&'static str, &'static [u8])],
}

const PLAIN: Recorded = Recorded {
    chains: include_bytes!("testdata/plain-chains.bin"),
    rules: include_bytes!("testdata/plain-rules.bin"),
    sets: &[],
};

const KUBE_PROXY: Recorded = Recorded {
    chains: include_bytes!("testdata/kube-proxy-chains.bin"),
    rules: include_bytes!("testdata/kube-proxy-rules.bin"),
    sets: &[
        ("service-ips", include_bytes!("testdata/kube-proxy-service-ips.bin")),
        ("no-endpoint-services", include_bytes!("testdata/kube-proxy-no-endpoint-services.bin")),
        ("__map0", include_bytes!("testdata/kube-proxy-map0.bin")),
    ],
};

const IPTABLES: Recorded = Recorded {
    chains: include_bytes!("testdata/iptables-chains.bin"),
    rules: include_bytes!("testdata/iptables-rules.bin"),
    sets: &[],
};

const STATES: Recorded = Recorded {
    chains: include_bytes!("testdata/states-chains.bin"),
    rules: include_bytes!("testdata/states-rules.bin"),
    sets: &[
        ("__map0", include_bytes!("testdata/states-map0.bin")),
        ("__set0", include_bytes!("testdata/states-set0.bin")),
        ("__set1", include_bytes!("testdata/states-set1.bin")),
    ],
};

impl Recorded {
    fn read(&self) -> Rules {
        let (mut chains, mut rules) = (Vec::new(), Vec::new());
        assert!(take_chains(self.chains, &mut chains).unwrap().done);
        assert!(take_rules(self.rules, &mut rules).unwrap().done);
        Rules::of(&chains, &rules, &|name| self.elements(name))
    }

    fn elements(&self, name: &Name) -> Vec<Element> {
        let set = self.sets.iter().find(|(set, _)| set.as_bytes() == name.own);
        let (_, dump) = set.unwrap_or_else(|| panic!("{name:?} was not recorded"));
        let mut elements = Vec::new();
        assert!(take_elements(dump, &mut elements).unwrap().done);
        elements
    }
}

fn destinations(of: &[(&str, Option<u16>)]) -> BTreeSet<Destination> {
    of.iter().map(|&(ip, port)| Destination { ip: ip.parse().unwrap(), port }).collect()
}

#[test]
fn a_rule_names_the_destination_that_it_translates() {
    let rules = PLAIN.read();
    let named = destinations(&[("10.96.77.1", Some(80)), ("fd96::1", Some(80))]);
    assert_eq!(rules, Rules { from_elsewhere: named, has_nat: true, ..Rules::default() });
    for (to, from_here, translated) in [
        ("10.96.77.1:80", false, true),
        ("10.96.77.1:80", true, false),
        ("10.96.77.1:81", false, false),
        ("10.96.77.2:80", false, false),
        ("[fd96::1]:80", false, true),
    ] {
        assert_eq!(rules.translate(to.parse().unwrap(), from_here), translated, "{to}");
    }
}

#[test]
fn services_of_kube_proxy_are_found_through_its_maps() {
    let services = destinations(&[("10.96.0.1", Some(443)), ("10.96.0.10", Some(53))]);
    let expected = Rules {
        from_elsewhere: services.clone(),
        from_here: services,
        has_nat: true,
        drop_forwarded: true,
        drop_incoming: false,
        drops_new: false,
    };
    assert_eq!(KUBE_PROXY.read(), expected);
}

#[test]
fn services_of_iptables_are_found_through_its_chains() {
    let services = destinations(&[("10.96.0.1", Some(443))]);
    let expected = Rules {
        from_elsewhere: services.clone(),
        from_here: services,
        has_nat: true,
        drop_forwarded: true,
        drop_incoming: false,
        drops_new: false,
    };
    assert_eq!(IPTABLES.read(), expected);
}

#[test]
fn what_is_not_certain_for_every_packet_is_not_said() {
    let named =
        destinations(&[("10.96.0.7", None), ("10.96.0.8", Some(80)), ("10.96.0.8", Some(81))]);
    let expected =
        Rules { from_elsewhere: named, has_nat: true, drop_incoming: true, ..Rules::default() };
    assert_eq!(STATES.read(), expected);
}

#[test]
fn a_cut_dump_is_an_error_or_says_that_it_is_not_whole() {
    for recorded in [PLAIN, KUBE_PROXY, IPTABLES, STATES] {
        let sets = recorded.sets.iter().map(|(_, dump)| *dump);
        for dump in sets.chain([recorded.chains, recorded.rules]) {
            for end in 0..dump.len() {
                match parse_nft(&dump[..end]) {
                    Ok(part) => assert!(!part.done, "{end} bytes"),
                    Err(error) => {
                        assert!(matches!(error, NetlinkError::Malformed { .. }), "{error}");
                    }
                }
            }
        }
    }
}
