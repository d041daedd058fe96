//! The bytes of a real kernel. `testdata/README.md` tells what they are.

use std::{io, net::SocketAddr, time::Duration};

use super::{
    Row, Services, Timeouts,
    parse::{family, parse_ipvs_services, take_services, timeouts},
    rows::{row, take_service},
};
use crate::netlink::NetlinkError;

fn rows(file: &str) -> Vec<Row> {
    file.as_bytes().split(|&byte| byte == b'\n').filter_map(row).collect()
}

/// Source, virtual, destination and expire of each line of `ipvsadm -Lnc`.
fn ipvsadm(said: &str) -> Vec<(SocketAddr, SocketAddr, SocketAddr, Duration)> {
    let rows = said.lines().filter(|line| line.starts_with("TCP "));
    rows.map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (minutes, seconds) = words[1].split_once(':').unwrap();
        let seconds = minutes.parse::<u64>().unwrap() * 60 + seconds.parse::<u64>().unwrap();
        let address = |at: usize| words[at].parse::<SocketAddr>().unwrap();
        (address(3), address(4), address(5), Duration::from_secs(seconds))
    })
    .collect()
}

#[test]
fn the_defaults_are_900_120_and_300() {
    let s = Duration::from_secs;
    let read = timeouts(include_bytes!("testdata/timeouts.bin")).unwrap();
    assert_eq!(read, Timeouts { tcp: s(900), tcp_fin: s(120), udp: s(300) });
}

#[test]
fn a_kernel_without_ip_vs_says_that_the_family_is_not_there() {
    assert_eq!(family(include_bytes!("testdata/family.bin")).unwrap(), 32);
    let refused = family(include_bytes!("testdata/no-family.bin")).unwrap_err();
    let NetlinkError::Refused { cause } = refused else { panic!("{refused}") };
    assert_eq!(cause.kind(), io::ErrorKind::NotFound);
}

#[test]
fn services_of_tcp_have_an_address_and_those_by_mark_have_none() {
    let tcp = ["[fd00:96::10]:80", "10.96.0.10:80"].map(|text| text.parse().unwrap()).to_vec();
    let expected = Services { tcp, by_mark: 1 };
    let mut over_netlink = Services::default();
    let said = take_services(include_bytes!("testdata/services.bin"), &mut over_netlink).unwrap();
    assert!(said.done);
    assert_eq!(over_netlink, expected);

    let mut of_file = Services::default();
    for line in include_bytes!("testdata/services.txt").split(|&byte| byte == b'\n') {
        take_service(line, &mut of_file);
    }
    assert_eq!(of_file, expected);

    let none = parse_ipvs_services(include_bytes!("testdata/no-services.bin")).unwrap();
    assert!(none.done && none.items.is_empty(), "a pod's own namespace: {none:?}");
}

#[test]
fn what_is_left_of_each_entry_is_what_ipvsadm_says() {
    for (case, file, said, count) in [
        (
            "fresh",
            include_str!("testdata/entries-fresh.txt"),
            include_str!("testdata/ipvsadm-fresh.txt"),
            8,
        ),
        (
            "90s",
            include_str!("testdata/entries-90s.txt"),
            include_str!("testdata/ipvsadm-90s.txt"),
            6,
        ),
        (
            "overdue",
            include_str!("testdata/entries-overdue.txt"),
            include_str!("testdata/ipvsadm-overdue.txt"),
            4,
        ),
        (
            "expired",
            include_str!("testdata/entries-expired.txt"),
            include_str!("testdata/ipvsadm-expired.txt"),
            2,
        ),
    ] {
        let (rows, said) = (rows(file), ipvsadm(said));
        assert_eq!((rows.len(), said.len()), (count, count), "{case}");
        for (row, (source, service, server, expire)) in rows.iter().zip(said) {
            let ends = (row.original.source, row.original.destination, row.server);
            assert_eq!(ends, (source, service, server), "{case}");
            let apart = row.remaining.abs_diff(expire);
            assert!(apart <= Duration::from_secs(1), "{case}: {row:?}, ipvsadm {expire:?}");
        }
    }
}

#[test]
fn a_clients_fin_leaves_60_s_a_pods_120_and_an_overdue_entry_is_still_there() {
    let fresh = rows(include_str!("testdata/entries-fresh.txt"));
    let mut left: Vec<u64> = fresh.iter().map(|row| row.remaining.as_secs()).collect();
    left.sort_unstable();
    assert_eq!(left, [57, 57, 117, 117, 897, 897, 897, 897]);
    let overdue = rows(include_str!("testdata/entries-overdue.txt"));
    assert_eq!(overdue.iter().filter(|row| row.remaining.is_zero()).count(), 2);
}

#[test]
fn a_cut_answer_is_an_error_or_says_less() {
    let services = include_bytes!("testdata/services.bin");
    for end in 0..services.len() {
        match parse_ipvs_services(&services[..end]) {
            Ok(part) => assert!(!part.done, "{end} bytes"),
            Err(error) => assert!(matches!(error, NetlinkError::Malformed { .. }), "{error}"),
        }
    }
    for answer in
        [&include_bytes!("testdata/timeouts.bin")[..], include_bytes!("testdata/family.bin")]
    {
        for end in 0..answer.len() {
            assert!(timeouts(&answer[..end]).is_err(), "{end} bytes");
            assert!(family(&answer[..end]).is_err(), "{end} bytes");
        }
    }
    let entries = include_str!("testdata/entries-fresh.txt");
    let whole = rows(entries);
    for end in 0..entries.len() {
        let part = rows(&entries[..end]);
        // A line that is cut within its last number is read as a smaller one: the reader hands on whole lines.
        let (last, before) = part.split_last().map_or((None, &part[..]), |(l, b)| (Some(l), b));
        assert_eq!(before, &whole[..before.len()], "{end} bytes");
        assert!(last.is_none_or(|last| last.original == whole[before.len()].original));
    }
}
