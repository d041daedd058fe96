//! The bytes of an `RTM_GETADDR` dump → addresses (`include/uapi/linux/if_addr.h`). Pure.

use std::net::IpAddr;

use crate::{
    flow::ip,
    netlink::{Attributes, Block, NetlinkError, each_message},
    sock_diag::parse::ParsedBlock,
};

/// `RTM_NEWADDR`
const NEW_ADDRESS: u16 = 20;
/// `sizeof(struct ifaddrmsg)`
const MESSAGE: usize = 8;
/// `IFA_ADDRESS`: of a point-to-point link the peer's, else the same as `IFA_LOCAL`.
const ADDRESS: u16 = 1;
/// `IFA_LOCAL`: IPv6 has it on point-to-point links only.
const LOCAL: u16 = 2;

/// Takes one block of a dump.
pub(crate) fn take(block: &[u8], into: &mut Vec<IpAddr>) -> Result<Block, NetlinkError> {
    each_message(block, |kind, body| {
        if kind != NEW_ADDRESS {
            return Ok(());
        }
        let attributes = body.get(MESSAGE..).ok_or(NetlinkError::Malformed {
            what: "ifaddrmsg",
            got: body.len(),
            need: MESSAGE,
        })?;
        let (mut address, mut local) = (None, None);
        for attribute in Attributes(attributes) {
            match attribute? {
                (ADDRESS, value) => address = ip(value),
                (LOCAL, value) => local = ip(value),
                _ => {}
            }
        }
        into.extend(local.or(address));
        Ok(())
    })
}

/// Parses one received block of a dump of addresses.
///
/// # Errors
/// A message that is cut short or malformed, or one that says that the kernel refused.
pub fn parse_addresses(block: &[u8]) -> Result<ParsedBlock<IpAddr>, NetlinkError> {
    let mut items = Vec::new();
    let Block { done, interrupted } = take(block, &mut items)?;
    Ok(ParsedBlock { items, done, interrupted })
}

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;

    use super::*;
    use crate::netlink::parse::tests::message;

    fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let length = u16::try_from(4 + value.len()).unwrap();
        [&length.to_ne_bytes()[..], &kind.to_ne_bytes(), value].concat()
    }

    #[test]
    fn the_local_end_of_a_point_to_point_link_is_ours() {
        let header = [2, 32, 0, 0, 1, 0, 0, 0];
        let [ours, peers] = [[10, 0, 0, 1], [10, 0, 0, 2]];
        let body = [&header[..], &attribute(ADDRESS, &peers), &attribute(LOCAL, &ours)].concat();
        let block = message(NEW_ADDRESS, 0, &body);
        assert_eq!(parse_addresses(&block).unwrap().items, [IpAddr::from(ours)]);

        let v6 = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
        let body = [&header[..], &attribute(ADDRESS, &v6.octets())].concat();
        let block = message(NEW_ADDRESS, 0, &body);
        assert_eq!(parse_addresses(&block).unwrap().items, [IpAddr::from(v6)]);
    }

    #[test]
    fn a_recorded_dump_gives_loopback_and_each_prefix_says_that_it_is_not_whole() {
        let dump = include_bytes!("testdata/loopback-and-veth.bin");
        let whole = parse_addresses(dump).unwrap();
        assert!(whole.done);
        let expected: [IpAddr; 5] = [
            "127.0.0.1".parse().unwrap(),
            "10.9.0.1".parse().unwrap(),
            "::1".parse().unwrap(),
            "2001:db8:9::1".parse().unwrap(),
            "fe80::9".parse().unwrap(),
        ];
        assert_eq!(whole.items, expected);
        for end in 0..dump.len() {
            match parse_addresses(&dump[..end]) {
                Ok(part) => assert!(!part.done, "{end} bytes"),
                Err(error) => assert!(matches!(error, NetlinkError::Malformed { .. }), "{error}"),
            }
        }
    }
}
