//! The socket against the timers and the errors of a real Linux.

use super::*;

const HZ: u32 = 250;

fn pair(keepalive: Option<&str>) -> (Socket, Socket) {
    let client = End { address: 0xffff_0a00_0102, port: 40_000 };
    let server = End { address: 0xffff_0a00_0202, port: 80 };
    let keepalive = keepalive.map(|text| text.parse().unwrap());
    let origin = Origin { local: client, peer: server, v6: false, hz: HZ, isn: 100, keepalive };
    let mut one = Socket::connect(Duration::ZERO, origin);
    let syn = segment(&one.drain_out()[0]);
    let origin = Origin { local: server, peer: client, isn: 900, keepalive: None, ..origin };
    let mut two = Socket::accept(Duration::ZERO, origin, &syn);
    exchange(Duration::ZERO, &mut one, &mut two);
    assert_eq!((one.state, two.state), (State::Established, State::Established));
    (one, two)
}

fn segment(draft: &Draft) -> Segment {
    let Draft { seq, ack, flags, payload, from, to, .. } = *draft;
    Segment { source: from.port, destination: to.port, seq, ack, flags, payload }
}

/// Delivers until both are quiet; gives how many segments `one` sent.
fn exchange(now: Duration, one: &mut Socket, two: &mut Socket) -> usize {
    let mut sent = 0;
    loop {
        let (there, back) = (one.drain_out(), two.drain_out());
        if there.is_empty() && back.is_empty() {
            return sent;
        }
        sent += there.len();
        for draft in &there {
            two.handle_segment(now, &segment(draft));
        }
        for draft in &back {
            one.handle_segment(now, &segment(draft));
        }
    }
}

#[test]
fn an_unanswered_segment_is_sent_17_times_and_given_up_at_939_s() {
    let (mut one, _) = pair(None);
    one.send(Duration::ZERO, 10).unwrap();
    let mut at = Vec::new();
    while let Some(next) = one.poll_timeout() {
        one.drain_out();
        one.handle_timeout(next);
        at.push(next.as_secs_f64());
    }
    // KERNEL: measured with the defaults; the last is when it is given up.
    let measured = [
        0.2, 0.4, 0.85, 1.7, 3.3, 6.7, 13., 27., 55., 108., 214., 335., 456., 577., 698., 819.,
        939.,
    ];
    assert_eq!(at.len(), measured.len(), "{at:?}");
    for (model, kernel) in at.iter().zip(measured) {
        let off = (model - kernel).abs();
        assert!(off < 0.05 + kernel * 0.05, "{model} is not about {kernel}: {at:?}");
    }
    assert!((at[16] - 939.).abs() < 5.0, "{at:?}");
    assert_eq!(one.drain_seen().last(), Some(&Seen::Error(Errno::TimedOut)));
}

#[test]
fn keepalive_60_probes_every_61_s_and_every_probe_is_answered() {
    let (mut one, mut two) = pair(Some("60/30/3"));
    let mut probes = Vec::new();
    while let Some(next) = one.poll_timeout().filter(|&next| next < Duration::from_secs(3600)) {
        one.handle_timeout(next);
        if exchange(next, &mut one, &mut two) > 0 {
            probes.push(next.as_secs_f64());
        }
    }
    // KERNEL: idle 60 fires at 60.5 s and then every 61.4 s; 58 probes in an hour.
    assert!((60.0..62.1).contains(&probes[0]), "{probes:?}");
    let periods = probes.windows(2).map(|two| two[1] - two[0]);
    assert!(periods.into_iter().all(|period| (60.0..62.1).contains(&period)), "{probes:?}");
    assert!((57..=59).contains(&probes.len()), "{}", probes.len());
}

#[test]
fn unanswered_probes_end_it() {
    let (mut one, _) = pair(Some("60/30/3"));
    let mut last = Duration::ZERO;
    while let Some(next) = one.poll_timeout() {
        one.handle_timeout(next);
        last = next;
    }
    assert_eq!(one.probes, 3);
    assert!((150.0..156.0).contains(&last.as_secs_f64()), "{last:?}");
    assert_eq!(one.drain_seen().last(), Some(&Seen::Error(Errno::TimedOut)));
}

#[test]
fn a_reset_is_seen_once_then_epipe() {
    let (mut one, _) = pair(None);
    let reset = Segment {
        source: 80,
        destination: 40_000,
        seq: one.rcv_nxt,
        ack: 0,
        flags: flag::RST,
        payload: 0,
    };
    one.drain_seen();
    one.handle_segment(Duration::ZERO, &Segment { seq: reset.seq + 1, ..reset });
    assert_eq!(one.drain_seen(), [], "not exactly the next byte");
    one.handle_segment(Duration::ZERO, &reset);
    assert_eq!(one.drain_seen(), [Seen::Error(Errno::ConnReset)]);
    assert_eq!(one.send(Duration::ZERO, 1), Err(Errno::Pipe));
}

#[test]
fn an_orderly_close_goes_through_the_states() {
    let (mut one, mut two) = pair(None);
    one.shutdown(Duration::ZERO);
    exchange(Duration::ZERO, &mut one, &mut two);
    assert_eq!((one.state, two.state), (State::FinWait2, State::CloseWait));
    assert_eq!(two.drain_seen().last(), Some(&Seen::Eof));
    two.close(Duration::ZERO);
    exchange(Duration::ZERO, &mut one, &mut two);
    assert_eq!((one.state, two.state), (State::TimeWait, State::Closed));
}
