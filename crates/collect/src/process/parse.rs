//! The texts of `/proc/PID` → numbers. Pure.

/// `socket:[4711]`, what `/proc/PID/fd/N` of a socket links to.
pub(super) fn socket_inode(link: &[u8]) -> Option<u32> {
    number(link.strip_prefix(b"socket:[")?.strip_suffix(b"]")?)
}

/// A decimal number and nothing else: the name of a process or of a file descriptor.
pub(super) fn number(text: &[u8]) -> Option<u32> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0u32, |value, &byte| {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value.checked_mul(10)?.checked_add(digit.into())
    })
}

/// The effective user id, second of `Uid:` in `/proc/PID/status`.
pub(super) fn effective_uid(status: &[u8]) -> Option<u32> {
    let line = status.split(|&byte| byte == b'\n').find_map(|line| line.strip_prefix(b"Uid:"))?;
    number(line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).nth(1)?)
}

/// `/proc/PID/comm` as text.
pub(super) fn command(comm: &[u8]) -> String {
    String::from_utf8_lossy(comm.strip_suffix(b"\n").unwrap_or(comm)).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_socket_has_a_sockets_inode() {
        for (link, inode) in [
            (&b"socket:[4711]"[..], Some(4711)),
            (b"socket:[4294967295]", Some(u32::MAX)),
            (b"socket:[4294967296]", None),
            (b"socket:[]", None),
            (b"socket:[1", None),
            (b"socket:[+1]", None),
            (b"pipe:[4711]", None),
            (b"/tmp/socket:[1]", None),
            (b"", None),
        ] {
            assert_eq!(socket_inode(link), inode, "{}", link.escape_ascii());
        }
    }

    #[test]
    fn the_second_uid_is_the_effective_one() {
        let status = b"Name:\tUid: 7\nPid:\t1\nUid:\t1000\t0\t1000\t1000\nGid:\t5\t5\t5\t5\n";
        assert_eq!(effective_uid(status), Some(0));
        for bad in [&b""[..], b"Uid:", b"Uid:\t1", b"Uid:\tx\ty"] {
            assert_eq!(effective_uid(bad), None, "{}", bad.escape_ascii());
        }
    }

    #[test]
    fn a_command_may_hold_any_bytes() {
        assert_eq!(command(b"curl\n"), "curl");
        assert_eq!(command(b"a\xffb\n"), "a\u{fffd}b");
    }
}
