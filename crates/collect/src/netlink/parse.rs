//! Netlink framing (`include/uapi/linux/netlink.h`): bytes → messages → attributes. Pure.

use std::{io, time::Duration};

/// `NLMSG_HDRLEN`
pub(crate) const HEADER: usize = 16;
/// `NLM_F_DUMP_INTR`: the table changed under the dump.
const DUMP_INTERRUPTED: u16 = 0x10;
/// `NLMSG_ERROR`
const ERROR: u16 = 2;
/// `NLMSG_DONE`
const DONE: u16 = 3;
/// `NLMSG_OVERRUN`
const OVERRUN: u16 = 4;
/// `NLMSG_MIN_TYPE`: lower ones control the stream.
const FIRST_DATA: u16 = 0x10;
/// `NLA_TYPE_MASK`: the two bits above it are flags.
const ATTRIBUTE_TYPE: u16 = 0x3fff;
/// `NLA_HDRLEN`
const ATTRIBUTE_HEADER: usize = 4;

/// A dump that did not give a whole list.
#[derive(Debug, thiserror::Error)]
pub enum NetlinkError {
    /// A system call failed.
    #[error("{call} on a netlink socket: {cause}")]
    Io {
        /// Which.
        call: &'static str,
        /// Its error.
        cause: io::Error,
    },
    /// The kernel refused the request.
    #[error("the kernel refused: {cause}{}", next_step(cause))]
    Refused {
        /// Its error.
        cause: io::Error,
    },
    /// A message, attribute or block that ends before its end.
    #[error("a truncated or malformed netlink message: {what} has {got} bytes, {need} are needed")]
    Malformed {
        /// Which part.
        what: &'static str,
        /// Its length.
        got: usize,
        /// The least length that it must have.
        need: usize,
    },
    /// The dump was given up.
    #[error("it takes more than {} s of CPU time", budget.as_secs())]
    OverBudget {
        /// What it may take.
        budget: Duration,
    },
}

impl NetlinkError {
    /// Whether the kernel said that the caller may not.
    #[must_use]
    pub fn is_permission(&self) -> bool {
        let (Self::Io { cause, .. } | Self::Refused { cause }) = self else { return false };
        cause.kind() == io::ErrorKind::PermissionDenied
    }

    /// Whether the kernel said that what was asked for is not there.
    pub(crate) fn is_not_found(&self) -> bool {
        matches!(self, Self::Refused { cause } if cause.kind() == io::ErrorKind::NotFound)
    }
}

fn next_step(cause: &io::Error) -> &'static str {
    if cause.kind() == io::ErrorKind::NotFound {
        " (does the kernel have inet_diag and tcp_diag? `modprobe tcp_diag`)"
    } else {
        ""
    }
}

/// What one block said of the dump that it is part of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Block {
    /// It is the last one. A dump without it is not whole.
    pub done: bool,
    /// The table changed while it was read: something may be missing.
    pub interrupted: bool,
}

/// Hands type and body of each data message of one received block to `each`.
pub(crate) fn each_message(
    block: &[u8],
    mut each: impl FnMut(u16, &[u8]) -> Result<(), NetlinkError>,
) -> Result<Block, NetlinkError> {
    let mut result = Block::default();
    let mut rest = block;
    while !rest.is_empty() {
        let header: &[u8; HEADER] = rest.first_chunk().ok_or(NetlinkError::Malformed {
            what: "a message header",
            got: rest.len(),
            need: HEADER,
        })?;
        let length = u32_at(header, 0) as usize;
        let body = rest.get(HEADER..length).ok_or(NetlinkError::Malformed {
            what: "a message",
            got: rest.len(),
            need: length.max(HEADER),
        })?;
        let kind = u16::from_ne_bytes([header[4], header[5]]);
        let flags = u16::from_ne_bytes([header[6], header[7]]);
        result.interrupted |= flags & DUMP_INTERRUPTED != 0;
        match kind {
            ERROR => refused(body)?,
            DONE => {
                // Kernels before 2.6.33 sent no code with it.
                if !body.is_empty() {
                    refused(body)?;
                }
                result.done = true;
                return Ok(result);
            }
            OVERRUN => result.interrupted = true,
            FIRST_DATA.. => each(kind, body)?,
            _ => {}
        }
        rest = rest.get(align4(length)..).unwrap_or_default();
    }
    Ok(result)
}

/// `NLMSG_ERROR` and `NLMSG_DONE` carry a negative errno, or 0.
fn refused(body: &[u8]) -> Result<(), NetlinkError> {
    let code = body
        .first_chunk()
        .map(|bytes| i32::from_ne_bytes(*bytes))
        .ok_or(NetlinkError::Malformed { what: "an error message", got: body.len(), need: 4 })?;
    match code {
        0 => Ok(()),
        code => Err(NetlinkError::Refused {
            cause: io::Error::from_raw_os_error(code.saturating_neg()),
        }),
    }
}

/// The attributes of one message.
pub(crate) struct Attributes<'a>(pub &'a [u8]);

impl<'a> Iterator for Attributes<'a> {
    type Item = Result<(u16, &'a [u8]), NetlinkError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let all = std::mem::take(&mut self.0);
        let Some(header) = all.first_chunk::<ATTRIBUTE_HEADER>() else {
            return Some(Err(short_attribute(all.len(), ATTRIBUTE_HEADER)));
        };
        let length = usize::from(u16::from_ne_bytes([header[0], header[1]]));
        let Some(value) = all.get(ATTRIBUTE_HEADER..length) else {
            return Some(Err(short_attribute(all.len(), length.max(ATTRIBUTE_HEADER))));
        };
        self.0 = all.get(align4(length)..).unwrap_or_default();
        Some(Ok((u16::from_ne_bytes([header[2], header[3]]) & ATTRIBUTE_TYPE, value)))
    }
}

fn short_attribute(got: usize, need: usize) -> NetlinkError {
    NetlinkError::Malformed { what: "an attribute", got, need }
}

/// `NLMSG_ALIGN` and `NLA_ALIGN`
pub(super) fn align4(length: usize) -> usize {
    length.saturating_add(3) & !3
}

/// The whole value of an attribute, where it has this length.
pub(crate) fn exactly<const N: usize>(
    what: &'static str,
    value: &[u8],
) -> Result<[u8; N], NetlinkError> {
    value.try_into().map_err(|_| NetlinkError::Malformed { what, got: value.len(), need: N })
}

/// A native-endian u32 of a structure whose length has been checked.
#[inline]
pub(crate) fn u32_at<const N: usize>(bytes: &[u8; N], at: usize) -> u32 {
    u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// A native-endian u64 of a structure whose length has been checked.
#[inline]
pub(crate) fn u64_at<const N: usize>(bytes: &[u8; N], at: usize) -> u64 {
    let mut value = [0; 8];
    value.copy_from_slice(&bytes[at..at + 8]);
    u64::from_ne_bytes(value)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// One message as the kernel frames it.
    pub(crate) fn message(kind: u16, flags: u16, body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(HEADER + body.len()).unwrap();
        let mut bytes = length.to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(flags.to_ne_bytes());
        bytes.extend([0; 8]);
        bytes.extend(body);
        bytes.resize(align4(bytes.len()), 0);
        bytes
    }

    fn read(block: &[u8]) -> Result<(Block, Vec<u16>), NetlinkError> {
        let mut kinds = Vec::new();
        let result = each_message(block, |kind, _| {
            kinds.push(kind);
            Ok(())
        })?;
        Ok((result, kinds))
    }

    #[test]
    fn control_messages_end_or_fail_a_dump() {
        let done = message(DONE, 0, &0i32.to_ne_bytes());
        let data = message(20, 0, &[1, 2, 3]);
        let (block, kinds) = read(&[data.clone(), done].concat()).unwrap();
        assert_eq!((block, kinds), (Block { done: true, interrupted: false }, vec![20]));

        let (block, kinds) = read(&data).unwrap();
        assert_eq!((block, kinds), (Block::default(), vec![20]), "no DONE: not whole");

        let (block, _) = read(&message(20, DUMP_INTERRUPTED, &[])).unwrap();
        assert!(block.interrupted);

        for kind in [ERROR, DONE] {
            let refused = read(&message(kind, 0, &(-13i32).to_ne_bytes()));
            let Err(NetlinkError::Refused { cause }) = refused else { panic!("{refused:?}") };
            assert_eq!(cause.kind(), io::ErrorKind::PermissionDenied);
        }
        assert!(read(&message(ERROR, 0, &[])).is_err(), "an error without its code");
    }

    #[test]
    fn wrong_lengths_are_errors() {
        let mut short = message(20, 0, &[0; 8]);
        for says in [0u32, 15, 25, u32::MAX] {
            short[..4].copy_from_slice(&says.to_ne_bytes());
            assert!(matches!(read(&short), Err(NetlinkError::Malformed { .. })), "{says}");
        }
        for bad in [&[8u8][..], &[0, 0, 1, 0], &[9, 0, 1, 0, 0, 0, 0, 0]] {
            assert!(Attributes(bad).any(|attribute| attribute.is_err()), "{bad:?}");
        }
    }
}
