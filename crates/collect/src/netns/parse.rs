//! The texts that name namespaces. Pure.

/// `net:[4026531840]`, what `/proc/PID/ns/net` links to.
pub(super) fn namespace_inode(link: &[u8]) -> Option<u64> {
    let text = link.strip_prefix(b"net:[")?.strip_suffix(b"]")?;
    std::str::from_utf8(text).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_network_namespace_has_its_inode() {
        for (link, inode) in [
            (&b"net:[4026531840]"[..], Some(4_026_531_840)),
            (b"pid:[4026531836]", None),
            (b"net:[]", None),
            (b"net:[1", None),
        ] {
            assert_eq!(namespace_inode(link), inode, "{}", link.escape_ascii());
        }
    }
}
