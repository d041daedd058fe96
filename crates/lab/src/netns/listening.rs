//! Whether a server listens, as the kernel's own list of its namespace says.

use std::fs;

use rustix::process::Pid;

/// `TCP_LISTEN` as `/proc/net/tcp` has it.
const LISTEN: &str = "0A";
/// `127.0.0.1` and `::1` as they stand there, on a little-endian machine and a big-endian one.
const LOOPBACK: [&str; 4] = [
    "0100007F",
    "7F000001",
    "00000000000000000000000001000000",
    "00000000000000000000000000000001",
];

/// Who can reach a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Listening {
    No,
    /// Only its own namespace.
    OnLoopback,
    Yes,
}

/// On this port, in the namespace of process `pid`.
pub(super) fn listening(pid: Pid, port: u16, v6: bool) -> Listening {
    // A socket of IPv6 serves IPv4 too.
    let files: &[&str] = if v6 { &["tcp6"] } else { &["tcp", "tcp6"] };
    let texts = files.iter().filter_map(|file| {
        fs::read_to_string(format!("/proc/{}/net/{file}", pid.as_raw_pid())).ok()
    });
    texts.map(|text| read(&text, port)).max().unwrap_or(Listening::No)
}

fn read(table: &str, port: u16) -> Listening {
    let rows = table.lines().skip(1).filter_map(|row| {
        let mut words = row.split_ascii_whitespace();
        let (address, at) = words.nth(1)?.split_once(':')?;
        let listens = words.nth(1)? == LISTEN && u16::from_str_radix(at, 16).ok()? == port;
        listens.then_some(if LOOPBACK.contains(&address) {
            Listening::OnLoopback
        } else {
            Listening::Yes
        })
    });
    rows.max().unwrap_or(Listening::No)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_of_the_table() {
        let table = |address, state| {
            format!(
                "  sl  local_address rem_address   st tx_queue rx_queue\n   0: {address} 00000000:0000 {state} \
                 00000000:00000000 00:00000000\n"
            )
        };
        for (address, state, is) in [
            ("00000000:1F40", "0A", Listening::Yes),
            ("0202000A:1F40", "0A", Listening::Yes),
            ("0100007F:1F40", "0A", Listening::OnLoopback),
            ("00000000:1F40", "01", Listening::No),
            ("00000000:1F41", "0A", Listening::No),
        ] {
            assert_eq!(read(&table(address, state), 8000), is, "{address} {state}");
        }
        assert_eq!(read("", 8000), Listening::No);
    }
}
