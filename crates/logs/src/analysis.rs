//! What two logs say together, as plain data: `stillopen logs` prints it.

use std::time::Duration;

use crate::event::{Millis, Side};

/// What explains the losses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// Answers are lost after a silence that is longer than a limit.
    IdleLimit,
    /// The client's own timer ended the wait before the answer was sent.
    ClientTimer,
    /// Something ended the requests after a constant time, whatever the silence.
    DurationCap,
    /// Answers are lost, and no limit explains which.
    Random,
    /// Nothing was lost.
    None,
    /// Too few requests to tell.
    NotEnoughData,
}

/// How the lines of the two logs were joined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Join {
    /// By the request's id and the attempt's number.
    IdAndAttempt,
    /// By the id; attempts by their order.
    Id,
    /// There is no id: by order and time, which is weaker.
    Order,
}

/// An answer that was sent and never arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LostRequest {
    /// The request.
    pub id: String,
    /// Which attempt at it; 0: the log does not say.
    pub attempt: u32,
    /// When the answer was sent, by the server's clock.
    pub sent_at: Millis,
    /// Silence before it; `None`: neither log says when the request began.
    pub silent: Option<Between>,
    /// How long the server worked, by its own account.
    pub server_took: Option<Duration>,
    /// The client had stopped waiting before it was sent.
    pub too_late: bool,
}

/// A silence, between two bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Between {
    /// By the server's own account.
    pub low: Duration,
    /// From the client's send.
    pub high: Duration,
}

/// The idle limit that fits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// It is not below this.
    pub low: Duration,
    /// The roundest in between.
    pub best: Duration,
    /// It is not above this.
    pub high: Duration,
    /// Lost although silent for less.
    pub lost_below: u64,
    /// Arrived although silent for longer than the limit and its slack.
    pub arrived_above: u64,
    /// How late a kernel's timer of that length may be, at 250 ticks a second: `low` allows for it.
    pub slack: Duration,
    /// The same for a kernel of unknown tick rate: `low` may have to be lower by the difference.
    pub slack_worst: Duration,
}

impl Limit {
    /// How many answers it does not explain.
    #[must_use]
    pub fn contradictions(&self) -> u64 {
        self.lost_below + self.arrived_above
    }
}

/// A time that many requests ended after.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timer {
    /// After the client's send.
    pub after: Duration,
    /// How many ended then.
    pub requests: u64,
}

/// What the requests came to. An attempt is counted once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Attempts that both logs know.
    pub matched: u64,
    /// Only the client's: they never arrived, or the server's log does not reach that far.
    pub client_only: u64,
    /// Only the server's.
    pub server_only: u64,
    /// Of those that both know: the server sent an answer.
    pub sent: u64,
    /// And the client got it.
    pub received: u64,
    /// And the client never did.
    pub lost: u64,
    /// Of the lost: the client had stopped waiting before it was sent.
    pub too_late: u64,
    /// It was sent, and the client's log ends before it can say more: the client died, or the log was cut.
    pub unseen: u64,
    /// The server never sent an answer, and the client's wait ended.
    pub no_answer: u64,
    /// The server sent none yet, and the client still waits.
    pub open: u64,
    /// The client got an answer that the server's log does not have.
    pub answered_by_other: u64,
    /// Lines that say again what another one says.
    pub duplicates: u64,
    /// Lost attempts that were followed by another.
    pub retried: u64,
}

/// What one side alone can say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OneSided {
    /// Whose log it is.
    pub side: Side,
    /// Attempts.
    pub attempts: u64,
    /// Of these, with an answer: sent, or received.
    pub answered: u64,
    /// Without any end.
    pub never_ended: u64,
    /// The longest time of one that ended with an answer.
    pub longest_answered: Option<Duration>,
    /// The server: the same request came again after its answer had been sent.
    pub repeated: u64,
    /// The time between two such, where it is the same for most.
    pub repeated_after: Option<Timer>,
    /// A constant time after which requests ended without an answer, the client's own timer apart.
    pub ended_after: Option<Timer>,
}

/// One bar of the histogram.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Bin {
    /// Silent for at least this.
    pub from: Duration,
    /// And for less than this.
    pub to: Duration,
    /// Arrived.
    pub received: u64,
    /// Lost.
    pub lost: u64,
}

/// A line that could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadLine {
    /// Its number, from 1.
    pub line: u64,
    /// How it begins.
    pub text: String,
}

/// What was read of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogRead {
    /// The file.
    pub name: String,
    /// Its side.
    pub side: Side,
    /// How it is written, as it was detected.
    pub layout: String,
    /// Its lines.
    pub lines: u64,
    /// Those that say something of a request.
    pub events: u64,
    /// Those that could not be read.
    pub unreadable: u64,
    /// The first few of them.
    pub first_unreadable: Vec<BadLine>,
    /// Why it ended before its end: compressed data that is cut off.
    pub cut_off: Option<String>,
}

/// The result.
#[derive(Debug, Clone, PartialEq)]
pub struct Analysis {
    /// What explains the losses.
    pub class: Class,
    /// What the requests came to.
    pub counts: Counts,
    /// Those whose answer was lost, in the order in which the answers were sent.
    pub lost: Vec<LostRequest>,
    /// The idle limit that fits, for [`Class::IdleLimit`].
    pub limit: Option<Limit>,
    /// The longest silence that got through.
    pub longest_received: Option<Between>,
    /// The shortest that did not, of those whose client still waited.
    pub shortest_lost: Option<Between>,
    /// The client's own timer, where one shows.
    pub client_timer: Option<Timer>,
    /// A constant time after which something else ended the requests.
    pub cap: Option<Timer>,
    /// The server's time that was spent on answers that were lost.
    pub wasted: Duration,
    /// By how much the server's clock is ahead, in milliseconds, and how uncertain that is; `None`: not known.
    pub skew: Option<(Millis, Millis)>,
    /// How the lines were joined.
    pub join: Join,
    /// Where there is one side only.
    pub one_sided: Option<OneSided>,
    /// Silence and outcome.
    pub histogram: Vec<Bin>,
    /// What was read.
    pub logs: Vec<LogRead>,
}

impl Analysis {
    /// Lines that could not be read.
    #[must_use]
    pub fn unreadable(&self) -> u64 {
        self.logs.iter().map(|log| log.unreadable).sum()
    }
}
