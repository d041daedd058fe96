//! The TCP state machines of the middleboxes, as grids of data that a human checks by eye.
//!
//! A grid says what a middlebox takes the connection's state for after a packet of some kind from some
//! side. Read first: RFC 9293 §3.3.2, then the source that is named at each grid.

use super::{Side, packet::flag};

/// What a middlebox takes a connection's state for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum TcpState {
    /// No packet seen.
    None,
    /// SYN seen.
    SynSent,
    /// SYN seen from both (conntrack: SYN and SYN+ACK).
    SynRecv,
    /// Open.
    Established,
    /// One FIN seen.
    FinWait,
    /// One FIN seen and, for conntrack, acknowledged.
    CloseWait,
    /// Both FINs seen.
    LastAck,
    /// Closed in order.
    TimeWait,
    /// Closed by a reset.
    Close,
    /// Simultaneous open (conntrack).
    SynSent2,
    /// A proxy has closed both sides itself and answers what still comes.
    Lingering,
}

/// How many states a grid has columns for: all but [`TcpState::Lingering`].
pub(crate) const COLUMNS: usize = 10;
/// How many states there are.
pub(crate) const STATES: usize = 11;

/// Where a packet takes the state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// To this state; its timer starts anew.
    To(TcpState),
    /// Nowhere: the packet passes, state and timer stay (conntrack's IGNORE).
    Stay,
    /// It is not a packet of this connection (conntrack's INVALID).
    Invalid,
}

/// The kinds of packet that grids tell apart; the order is that of the rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Syn,
    SynAck,
    Fin,
    Ack,
    Rst,
    Nothing,
}

impl Kind {
    /// As `get_conntrack_index` (`nf_conntrack_proto_tcp.c`) and `tcp_state_idx` (`ip_vs_proto_tcp.c`) look:
    /// RST first, then SYN, then FIN, then ACK.
    pub(crate) fn of(flags: u8) -> Self {
        let has = |bit: u8| flags & bit != 0;
        if has(flag::RST) {
            Self::Rst
        } else if has(flag::SYN) {
            if has(flag::ACK) { Self::SynAck } else { Self::Syn }
        } else if has(flag::FIN) {
            Self::Fin
        } else if has(flag::ACK) {
            Self::Ack
        } else {
            Self::Nothing
        }
    }
}

type Row = [Next; COLUMNS];

/// One state machine: six rows for packets of the client, six for those of the server.
#[derive(Debug, PartialEq, Eq)]
pub struct Grid {
    client: [Row; 6],
    server: [Row; 6],
}

impl Grid {
    /// Where a packet of `kind` from `side` takes `state`.
    pub(crate) fn next(&self, side: Side, kind: Kind, state: TcpState) -> Next {
        let rows = match side {
            Side::Client => &self.client,
            Side::Server => &self.server,
        };
        rows[kind as usize].get(state as usize).copied().unwrap_or(Next::Stay)
    }
}

const SS: Next = Next::To(TcpState::SynSent);
const SR: Next = Next::To(TcpState::SynRecv);
const ES: Next = Next::To(TcpState::Established);
const FW: Next = Next::To(TcpState::FinWait);
const CW: Next = Next::To(TcpState::CloseWait);
const LA: Next = Next::To(TcpState::LastAck);
const TW: Next = Next::To(TcpState::TimeWait);
const CL: Next = Next::To(TcpState::Close);
const S2: Next = Next::To(TcpState::SynSent2);
const IV: Next = Next::Invalid;
const __: Next = Next::Stay;

/// `net/netfilter/ipvs/ip_vs_proto_tcp.c`, the grid in force without `secure_tcp`, for masqueraded
/// connections (those are never INPUT-ONLY). IPVS has no `SynSent2`: its column stays.
pub(crate) static IPVS: Grid = Grid {
    client: [
        // from: NO  SS  SR  ES  FW  CW  LA  TW  CL  S2
        /* syn */
        [SR, ES, SR, ES, SR, SR, SR, SR, SR, __], // a port used anew starts over
        /* s+a */ [SR, ES, SR, ES, SR, SR, SR, SR, SR, __], // IPVS looks at SYN only
        /* fin */
        [CL, SS, TW, CW, TW, CW, LA, TW, CL, __], // the client's FIN: CLOSE_WAIT, 60 s
        /* ack */
        [ES, SS, ES, ES, FW, CW, CL, TW, CL, __], // NO: only with sloppy_tcp (Linux 3.11)
        /* rst */ [CL, CL, SR, CL, CL, CL, LA, CL, CL, __],
        /* --- */ [CL, CL, CL, CL, CL, CL, CL, CL, CL, __], // no flag at all: CLOSE
    ],
    server: [
        // from: NO  SS  SR  ES  FW  CW  LA  TW  CL  S2
        /* syn */
        [SS, SS, SR, ES, SS, SS, SS, SS, SS, __],
        /* s+a */
        [SS, SS, SR, ES, SS, SS, SS, SS, SS, __], // SR stays until the client's ACK
        /* fin */
        [TW, SS, TW, FW, FW, TW, LA, TW, CL, __], // the server's FIN: FIN_WAIT, 120 s
        /* ack */ [ES, SS, ES, ES, FW, CW, LA, TW, CL, __],
        /* rst */ [CL, SS, CL, CL, CL, CL, CL, TW, CL, __],
        /* --- */ [CL, CL, CL, CL, CL, CL, CL, CL, CL, __],
    ],
};

/// `net/netfilter/nf_conntrack_proto_tcp.c`. The client is the original direction, the server the reply.
pub(crate) static CONNTRACK: Grid = Grid {
    client: [
        // from: NO  SS  SR  ES  FW  CW  LA  TW  CL  S2
        /* syn */
        [SS, SS, __, __, __, __, __, SS, SS, S2], // in sync or not, the receiver will say
        /* s+a */
        [IV, IV, SR, IV, IV, IV, IV, IV, IV, SR], // only in a simultaneous open
        /* fin */ [IV, IV, FW, FW, LA, LA, LA, TW, CL, IV],
        /* ack */
        [ES, IV, ES, ES, CW, CW, TW, TW, CL, IV], // NO: picked up mid-stream (tcp_loose)
        /* rst */ [IV, CL, CL, CL, CL, CL, CL, CL, CL, CL],
        /* --- */ [IV, IV, IV, IV, IV, IV, IV, IV, IV, IV],
    ],
    server: [
        // from: NO  SS  SR  ES  FW  CW  LA  TW  CL  S2
        /* syn */
        [IV, S2, IV, IV, IV, IV, IV, SS, IV, S2],
        /* s+a */ [IV, SR, __, __, __, __, __, __, __, SR],
        /* fin */ [IV, IV, FW, FW, LA, LA, LA, TW, CL, IV],
        /* ack */
        [IV, __, SR, ES, CW, CW, TW, TW, CL, __], // SS: may be an old connection's
        /* rst */ [IV, CL, CL, CL, CL, CL, CL, CL, CL, CL],
        /* --- */ [IV, IV, IV, IV, IV, IV, IV, IV, IV, IV],
    ],
};

#[cfg(test)]
mod tests {
    use super::*;

    /// Follows flags from both sides through a grid.
    fn walk(grid: &Grid, steps: &[(Side, u8)]) -> TcpState {
        steps.iter().fold(TcpState::None, |state, &(side, flags)| {
            match grid.next(side, Kind::of(flags), state) {
                Next::To(next) => next,
                Next::Stay | Next::Invalid => state,
            }
        })
    }

    const SHAKE: [(Side, u8); 3] = [
        (Side::Client, flag::SYN),
        (Side::Server, flag::SYN | flag::ACK),
        (Side::Client, flag::ACK),
    ];
    const FIN: u8 = flag::FIN | flag::ACK;

    #[test]
    fn ipvs_after_each_fin() {
        // KERNEL: a client's FIN CLOSE_WAIT, a pod's FIN FIN_WAIT, both TIME_WAIT.
        for (fins, state) in [
            (vec![], TcpState::Established),
            (vec![(Side::Client, FIN), (Side::Server, flag::ACK)], TcpState::CloseWait),
            (vec![(Side::Server, FIN), (Side::Client, flag::ACK)], TcpState::FinWait),
            (vec![(Side::Client, FIN), (Side::Server, FIN)], TcpState::TimeWait),
            (vec![(Side::Server, FIN), (Side::Client, FIN)], TcpState::TimeWait),
            (vec![(Side::Client, flag::RST)], TcpState::Close),
        ] {
            assert_eq!(walk(&IPVS, &[&SHAKE[..], &fins].concat()), state, "{fins:?}");
        }
    }

    #[test]
    fn conntrack_after_each_fin() {
        for (fins, state) in [
            (vec![], TcpState::Established),
            (vec![(Side::Client, FIN)], TcpState::FinWait),
            (vec![(Side::Client, FIN), (Side::Server, flag::ACK)], TcpState::CloseWait),
            (
                vec![(Side::Client, FIN), (Side::Server, FIN), (Side::Client, flag::ACK)],
                TcpState::TimeWait,
            ),
        ] {
            assert_eq!(walk(&CONNTRACK, &[&SHAKE[..], &fins].concat()), state, "{fins:?}");
        }
    }
}
