//! The bytes of a real kernel. `testdata/README.md` tells what they are.

use super::parse::{Link, Way, link, nsid, parse_route, way};
use crate::netlink::NetlinkError;

const THROUGH: &[u8] = include_bytes!("testdata/through.bin");
const THROUGH6: &[u8] = include_bytes!("testdata/through6.bin");
const VETH: &[u8] = include_bytes!("testdata/veth.bin");

#[test]
fn a_route_leads_through_a_link_to_a_gateway_or_ends_here() {
    let gateway = Some("10.77.1.1".parse().unwrap());
    assert_eq!(way(THROUGH).unwrap(), Way::Through { link: 2, gateway });
    let gateway = Some("fd77:1::1".parse().unwrap());
    assert_eq!(way(THROUGH6).unwrap(), Way::Through { link: 2, gateway });
    assert_eq!(way(include_bytes!("testdata/here.bin")).unwrap(), Way::Here);
    let refused = way(include_bytes!("testdata/refused.bin")).unwrap_err();
    assert!(matches!(refused, NetlinkError::Refused { .. }), "{refused}");
}

#[test]
fn a_veth_has_an_other_end_in_a_namespace_that_has_a_number() {
    assert_eq!(link(VETH).unwrap().other_end(), Some((0, 2)));
    assert_eq!(nsid(include_bytes!("testdata/number.bin")).unwrap(), Some(0));
    assert_eq!(Link::default().other_end(), None);
}

#[test]
fn a_link_that_is_no_cable_has_no_other_end() {
    // The same attributes, of another kind: IFLA_LINK of a macvlan is what it sends through.
    let at = VETH.windows(4).position(|bytes| bytes == b"veth").unwrap();
    let mut other = VETH.to_vec();
    other[at..at + 4].copy_from_slice(b"macv");
    assert_eq!(link(&other).unwrap().other_end(), None);
}

#[test]
fn a_cut_answer_is_an_error_or_says_nothing() {
    for answer in [THROUGH, THROUGH6, VETH] {
        for end in 0..answer.len() {
            match parse_route(&answer[..end]) {
                Ok(said) => assert_eq!((said, end), (None, 0)),
                Err(error) => assert!(matches!(error, NetlinkError::Malformed { .. }), "{error}"),
            }
        }
    }
}
