//! The limits of tables, by what was read of them.

use std::{path::PathBuf, time::Duration};

use stillopen_model::Entry;

use super::*;
use crate::ipvs::Services;

fn place(name: &str) -> Place {
    let path = Some(PathBuf::from(name));
    Place { name: name.to_owned(), inode: 1, is_host: false, path }
}

fn of_ipvs(services: &[&str], timeouts: Option<Timeouts>, sloppy: bool, icmp: bool) -> Held {
    let tcp = services.iter().map(|at| at.parse().unwrap()).collect();
    let services = Services { tcp, by_mark: 1 };
    Held { ipvs: Some(Ipvs { services, timeouts, sloppy, icmp }), ..Held::default() }
}

fn defaults() -> Timeouts {
    let s = Duration::from_secs;
    Timeouts { tcp: s(900), tcp_fin: s(120), udp: s(300) }
}

fn settings(loose: bool) -> ConntrackSettings {
    let s = Duration::from_secs;
    ConntrackSettings {
        established: s(432_000),
        close_wait: s(60),
        fin_wait: s(120),
        unacknowledged: s(300),
        max_retrans: s(300),
        loose,
        be_liberal: false,
        acct: false,
    }
}

fn all(held: &[Held], found: &[Found]) -> Vec<IdleLimit> {
    let places: Vec<Place> = ["host", "pid 7"].iter().map(|name| place(name)).collect();
    let table = |place: usize, kind| u32::try_from(place).ok().map(|netns| TableId { netns, kind });
    limits(held, found, &places, KernelHz::Known(250), table)
}

#[test]
fn ipvs_is_900_60_120_on_the_timer_wheel_for_its_services() {
    let held = [of_ipvs(&["10.96.0.10:80", "10.96.0.11:0"], Some(defaults()), false, false)];
    let [limit] = &all(&held, &[])[..] else { panic!("one limit") };
    assert_eq!((limit.id.as_str(), limit.component.as_str()), ("ipvs", "IPVS of host"));
    let s = |seconds| Some(Duration::from_secs(seconds));
    assert_eq!(Some(limit.idle_timeout), s(900));
    assert_eq!((limit.client_closed, limit.server_closed), (s(60), s(120)));
    assert_eq!(limit.slack, TimerSlack::Wheel { hz: KernelHz::Known(250) });
    assert_eq!(limit.table, Some(TableId { netns: 0, kind: TableKind::Ipvs }));
    for (peer, named) in [("10.96.0.10:80", true), ("10.96.0.10:81", false), ("10.96.0.11:9", true)]
    {
        assert_eq!(limit.selector.names(peer.parse().unwrap()), named, "{peer}");
    }
    let meets = (limit.client_meets, limit.server_meets);
    assert_eq!(meets, (Some(Miss::Reset), Some(Miss::PassUntranslated)));
    let held = [of_ipvs(&["10.96.0.10:80"], Some(defaults()), true, true)];
    let limit = &all(&held, &[])[0];
    assert_eq!((limit.client_meets, limit.server_meets), (None, Some(Miss::IcmpUnreachable)));
}

#[test]
fn without_services_of_tcp_or_timeouts_there_is_no_limit() {
    for held in [
        of_ipvs(&[], Some(defaults()), false, false),
        of_ipvs(&["10.96.0.10:80"], None, false, false),
    ] {
        assert_eq!(all(&[held], &[]), []);
    }
}

#[test]
fn conntrack_is_a_limit_where_it_is_a_witness_of_its_own() {
    let held = |loose, rules| Held { settings: Some(settings(loose)), rules, ..Held::default() };
    let found = |aside| {
        let (kind, entry) = (TableKind::Conntrack, Entry::Absent);
        [Found { connection: 0, place: 0, kind, entry, aside }]
    };
    assert_eq!(all(&[held(true, Some(Rules::default()))], &[]), []);
    assert_eq!(all(&[held(true, Some(Rules::default()))], &found(true)), [], "beside IPVS");
    let drops = || Some(Rules { drop_forwarded: true, ..Rules::default() });
    let (recreate, pass, drop) =
        (Some(Miss::Recreate), Some(Miss::PassUntranslated), Some(Miss::Drop));
    for (loose, rules, meets) in [
        (true, Some(Rules::default()), (recreate, pass)),
        (true, drops(), (recreate, pass)),
        (false, drops(), (drop, drop)),
        (false, Some(Rules::default()), (None, pass)),
        (false, None, (None, None)),
    ] {
        let limit = &all(&[held(loose, rules)], &found(false))[0];
        assert_eq!((limit.client_meets, limit.server_meets), meets, "loose {loose}");
        assert_eq!(limit.slack, TimerSlack::Exact);
        assert_eq!(limit.client_closed, Some(Duration::from_secs(60)));
        assert_eq!(limit.evidence[0].detail, "sysctl of namespace host");
    }
}

#[test]
fn several_tables_of_a_kind_have_their_namespaces_name() {
    let held = [0, 1].map(|_| of_ipvs(&["10.96.0.10:80"], Some(defaults()), false, false));
    let ids: Vec<String> = all(&held, &[]).into_iter().map(|limit| limit.id).collect();
    assert_eq!(ids, ["ipvs-host", "ipvs-pid-7"]);
}
