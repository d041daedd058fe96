//! From the joined attempts to the result: count, measure, fit, classify.

use std::time::Duration;

use stillopen_model::wheel_slack_worst;

use crate::{
    analysis::{Analysis, Between, Bin, Class, Counts, Join, Limit, LostRequest, OneSided, Timer},
    attempts::{self, Attempt, ServerSide},
    constant::{Constant, constant},
    error::LogsError,
    event::{Kind, Millis, Side},
    fit::{self, Fit, Found, Milli32, Sample, milli32},
    layout::Overrides,
    read::{self, Everything},
    silence::{Fate, Silence, duration, fate, silence, wait},
    skew::{self, Skew},
    source::Source,
    store::Store,
    swapped,
};

/// Fewer requests say nothing, whatever became of them.
const LEAST_MATCHED: u64 = 10;
/// So many waits that end alike show a timer: two where the log calls it one.
const LEAST_NAMED: usize = 2;
const LEAST_ALIKE: usize = 3;
/// Bars of the histogram, at most.
const MOST_BINS: usize = 16;

/// Reads both sides' logs and says what they say together. `progress` is told how many bytes were read.
///
/// # Errors
/// A file can't be read, how it is written is not recognised, the two sides have no request in common, or a log is
/// given for the wrong side.
pub fn analyse(
    client: &[Source],
    server: &[Source],
    overrides: &Overrides,
    progress: &dyn Fn(u64),
) -> Result<Analysis, LogsError> {
    let everything = read::read(client, server, overrides, progress)?;
    swapped::check(&everything)?;
    let has = |side| everything.logs.iter().any(|log| log.side == side);
    match (has(Side::Client), has(Side::Server)) {
        (true, true) => both(&everything),
        (true, false) => Ok(one(everything, Side::Client)),
        _ => Ok(one(everything, Side::Server)),
    }
}

/// What is gathered in one pass over all attempts.
#[derive(Default)]
struct Gathered {
    counts: Counts,
    sample: Sample,
    lost: Vec<Loss>,
    /// Silences of those that were too late: for the histogram only.
    late: Vec<Milli32>,
    longest_received: Option<Silence>,
    shortest_lost: Option<Silence>,
    /// Waits that the client's own timer ended, and those that something else did.
    timed_out: Vec<Millis>,
    broken: Vec<Millis>,
    longest_wait_for_answer: Millis,
    /// Of attempts that ended before an answer was sent: by the client's timer, by something else.
    left: u64,
    cut: u64,
    wasted: Duration,
}

struct Loss {
    attempt: Attempt,
    /// The request's id, and the attempt's number.
    id: (String, u32),
    /// `None`: neither log says when it began.
    silence: Option<Silence>,
    too_late: bool,
}

fn both(everything: &Everything) -> Result<Analysis, LogsError> {
    let Everything { store, join, logs, .. } = everything;
    let skew = skew::estimate(store);
    let ends = client_ends(everything);
    let mut gathered = Gathered::default();
    gathered.counts.duplicates = store.duplicates;
    let assumed = skew.unwrap_or(Skew { server_ahead: 0, uncertainty: 0 });
    let mut before: Option<(u32, bool)> = None;
    attempts::each(store, assumed.server_ahead, |attempt| {
        let end = match join {
            Join::Order => ends.iter().copied().max().unwrap_or(Millis::MAX),
            _ => ends.get(usize::from(attempt.file)).copied().unwrap_or(Millis::MAX),
        };
        let lost = gathered.add(attempt, assumed, end, store);
        let again = before == Some((attempt.record, true)) && attempt.client.is_some();
        gathered.counts.retried += u64::from(again);
        before = Some((attempt.record, lost));
    });
    if gathered.counts.matched == 0 {
        return Err(apart(everything));
    }
    if *join == Join::IdAndAttempt {
        let next = |loss: &&Loss| {
            let (id, attempt) = &loss.id;
            attempt.checked_add(1).is_some_and(|next| store.find(id, next).is_some())
        };
        gathered.counts.retried += gathered.lost.iter().filter(next).count() as u64;
    }

    let client_timer = constant(&mut gathered.timed_out, LEAST_NAMED);
    let longest = gathered.longest_wait_for_answer;
    let cap = constant(&mut gathered.broken, LEAST_ALIKE)
        .filter(|cap| cap.at + fit::CAP_SLACK >= longest);
    let found = fit::fit(&mut gathered.sample);
    let class = classify(&gathered, found, client_timer, cap);
    let limit = match (class, found) {
        (Class::IdleLimit, Found::Limit(fit)) => Some(limit(&fit)),
        _ => None,
    };
    gathered.lost.sort_by_key(|loss| loss.attempt.server.and_then(|server| server.sent()));
    let lost = [gathered.late, gathered.sample.lost_high].concat();
    Ok(Analysis {
        class,
        counts: gathered.counts,
        lost: gathered.lost.into_iter().map(lost_request).collect(),
        limit,
        longest_received: gathered.longest_received.map(between),
        shortest_lost: gathered.shortest_lost.map(between),
        client_timer: client_timer.map(timer),
        cap: cap.filter(|_| class == Class::DurationCap).map(timer),
        wasted: gathered.wasted,
        skew: skew.map(|skew| (skew.server_ahead, skew.uncertainty)),
        join: *join,
        one_sided: None,
        histogram: histogram(&gathered.sample.arrived_high, &lost),
        logs: logs.clone(),
    })
}

impl Gathered {
    /// Counts an attempt; says whether its answer was lost.
    fn add(&mut self, attempt: &Attempt, skew: Skew, log_end: Millis, store: &Store) -> bool {
        if let Some((waited, kind)) = wait(attempt) {
            match kind {
                Kind::TimedOut => self.timed_out.push(waited),
                Kind::Broken => self.broken.push(waited),
                _ => self.longest_wait_for_answer = self.longest_wait_for_answer.max(waited),
            }
        }
        let Some(fate) = fate(attempt, skew, log_end) else {
            if attempt.client.is_some() {
                self.counts.client_only += 1;
            } else {
                self.counts.server_only += 1;
            }
            return false;
        };
        let counts = &mut self.counts;
        counts.matched += 1;
        let by_timer = attempt
            .client
            .and_then(|client| client.end)
            .is_some_and(|(_, kind)| kind == Kind::TimedOut);
        let silence = silence(attempt, skew.server_ahead);
        counts.sent += u64::from(attempt.server.is_some_and(|server| server.sent().is_some()));
        match fate {
            Fate::Arrived => {
                counts.received += 1;
                if let Some(silence) = silence {
                    self.sample.arrived_low.push(milli32(silence.low));
                    self.sample.arrived_high.push(milli32(silence.high));
                    let longer =
                        self.longest_received.is_none_or(|known| silence.high > known.high);
                    if longer {
                        self.longest_received = Some(silence);
                    }
                }
            }
            Fate::Lost | Fate::TooLate => {
                let too_late = fate == Fate::TooLate;
                counts.lost += 1;
                counts.too_late += u64::from(too_late);
                if too_late {
                    self.note_left(by_timer);
                }
                // Now its record is at hand.
                let id = store.id(attempt.record);
                self.lose(Loss { attempt: *attempt, id, silence, too_late });
                return true;
            }
            Fate::Unseen => counts.unseen += 1,
            Fate::NoAnswer => {
                counts.no_answer += 1;
                self.note_left(by_timer);
            }
            Fate::Open => counts.open += 1,
            Fate::AnsweredByOther => counts.answered_by_other += 1,
        }
        false
    }

    fn note_left(&mut self, by_timer: bool) {
        if by_timer {
            self.left += 1;
        } else {
            self.cut += 1;
        }
    }

    fn lose(&mut self, loss: Loss) {
        let Loss { attempt, silence, too_late, .. } = loss;
        self.wasted += duration(attempt.server.and_then(|server| server.took()).unwrap_or(0));
        self.lost.push(loss);
        let Some(silence) = silence else { return };
        if too_late {
            self.late.push(milli32(silence.high));
        } else {
            self.sample.lost_high.push(milli32(silence.high));
            let shorter = self.shortest_lost.is_none_or(|known| silence.high < known.high);
            if shorter {
                self.shortest_lost = Some(silence);
            }
        }
    }
}

/// What explains the losses. The more specific explanation goes first, and has to explain most of them.
fn classify(
    gathered: &Gathered,
    found: Found,
    client_timer: Option<Constant>,
    cap: Option<Constant>,
) -> Class {
    let counts = &gathered.counts;
    let waiting = counts.lost - counts.too_late;
    if counts.matched < LEAST_MATCHED {
        return Class::NotEnoughData;
    }
    if counts.lost + counts.no_answer == 0 {
        return Class::None;
    }
    let alike = |constant: Option<Constant>, others: u64| {
        constant.is_some_and(|c| c.count >= LEAST_ALIKE as u64) && others > waiting
    };
    // Those that something cut, also where the server had just sent: a stream that is cut in its midst.
    let cut_waiting =
        gathered.lost.iter().filter(|loss| !loss.too_late && is_broken(&loss.attempt));
    let cut_waiting = cut_waiting.count() as u64;
    let cut = gathered.cut + cut_waiting;
    if cap.is_some() && cut > gathered.left && cut_waiting * 2 >= waiting {
        return Class::DurationCap;
    }
    if alike(client_timer, gathered.left) {
        return Class::ClientTimer;
    }
    match found {
        Found::Limit(_) => Class::IdleLimit,
        Found::None => Class::Random,
        Found::TooFew if counts.lost == 0 && gathered.left + gathered.cut == 0 => Class::None,
        Found::TooFew => Class::NotEnoughData,
    }
}

fn is_broken(attempt: &Attempt) -> bool {
    attempt.client.and_then(|client| client.end).is_some_and(|(_, kind)| kind == Kind::Broken)
}

fn limit(fit: &Fit) -> Limit {
    Limit {
        low: duration(fit.low),
        best: duration(fit.best),
        high: duration(fit.high),
        lost_below: fit.lost_below,
        arrived_above: fit.arrived_above,
        slack: fit.slack(),
        slack_worst: wheel_slack_worst(duration(fit.best)),
    }
}

fn between(silence: Silence) -> Between {
    Between { low: duration(silence.low), high: duration(silence.high) }
}

fn timer(constant: Constant) -> Timer {
    Timer { after: duration(constant.at), requests: constant.count }
}

fn lost_request(loss: Loss) -> LostRequest {
    let Loss { attempt, id: (id, number), silence, too_late } = loss;
    let server = attempt.server.unwrap_or_default();
    LostRequest {
        id,
        // Attempts that only their order tells apart are counted from 1.
        attempt: if attempt.nth > 0 { attempt.nth + 1 } else { number },
        sent_at: server.sent().unwrap_or_default(),
        silent: silence.map(between),
        server_took: server.took().map(duration),
        too_late,
    }
}

/// For each file, the last time of the client's log that it is part of: a file that begins where another ends
/// continues it.
fn client_ends(everything: &Everything) -> Vec<Millis> {
    let of = |file: usize| {
        let client = everything.logs[file].side == Side::Client;
        everything.ends[file].filter(|_| client)
    };
    let files: Vec<_> = (0..everything.logs.len()).map(of).collect();
    let mut by_begin: Vec<(Millis, Millis)> = files.iter().copied().flatten().collect();
    by_begin.sort_unstable();
    let end = |file: &Option<(Millis, Millis)>| {
        let Some((_, mut end)) = *file else { return Millis::MAX };
        for &(begin, other) in &by_begin {
            if begin >= end {
                end = end.max(other);
            }
        }
        end
    };
    files.iter().map(end).collect()
}

fn apart(everything: &Everything) -> LogsError {
    let store = &everything.store;
    let example = |clients: bool| {
        let mut found = None;
        attempts::each(store, 0, |attempt| {
            if found.is_none() && attempt.client.is_some() == clients {
                found = Some(store.id(attempt.record).0);
            }
        });
        found.unwrap_or_default()
    };
    let field = |side| {
        let log = everything.logs.iter().find(|log| log.side == side);
        log.map(|log| log.layout.clone()).unwrap_or_default()
    };
    LogsError::Apart {
        client: example(true),
        client_field: field(Side::Client),
        server: example(false),
        server_field: field(Side::Server),
    }
}

/// One side alone: no answer is called lost.
fn one(everything: Everything, side: Side) -> Analysis {
    let Everything { store, join, logs, .. } = everything;
    let mut sided = OneSided {
        side,
        attempts: 0,
        answered: 0,
        never_ended: 0,
        longest_answered: None,
        repeated: 0,
        repeated_after: None,
        ended_after: None,
    };
    let mut ended = Vec::new();
    let (mut counts, mut timed_out, mut apart) = (Counts::default(), Vec::new(), Vec::new());
    let mut before: Option<(u32, ServerSide)> = None;
    attempts::each(&store, 0, |attempt| {
        sided.attempts += 1;
        let (answered, end) = match side {
            Side::Client => {
                counts.client_only += 1;
                let client = attempt.client.unwrap_or_default();
                let answered = client.end.is_some_and(|(_, kind)| kind == Kind::Answered);
                let waited = wait(attempt);
                timed_out.extend(waited.filter(|(_, k)| *k == Kind::TimedOut).map(|(at, _)| at));
                ended.extend(waited.filter(|(_, k)| *k == Kind::Broken).map(|(at, _)| at));
                (answered.then(|| waited.map(|(at, _)| at)), client.end)
            }
            Side::Server => {
                counts.server_only += 1;
                let server = attempt.server.unwrap_or_default();
                let earlier = match join {
                    Join::IdAndAttempt => attempt_before(&store, attempt),
                    _ => before.filter(|(record, _)| *record == attempt.record).map(|(_, s)| s),
                };
                before = Some((attempt.record, server));
                if let Some(earlier) = earlier.filter(|earlier| earlier.sent().is_some()) {
                    sided.repeated += 1;
                    apart.extend(server.begin().zip(earlier.begin()).map(|(b, a)| b - a));
                }
                let failed = server.end.filter(|(_, kind)| *kind == Kind::Failed);
                ended.extend(failed.zip(server.begin()).map(|((end, _), begin)| end - begin));
                (server.sent().map(|_| server.took()), server.end)
            }
        };
        sided.never_ended += u64::from(end.is_none());
        if let Some(took) = answered {
            sided.answered += 1;
            sided.longest_answered = sided.longest_answered.max(took.map(duration));
        }
    });
    sided.repeated_after = constant(&mut apart, LEAST_NAMED).map(timer);
    sided.ended_after = constant(&mut ended, LEAST_ALIKE).map(timer);
    counts.duplicates = store.duplicates;
    Analysis {
        class: Class::NotEnoughData,
        counts,
        lost: Vec::new(),
        limit: None,
        longest_received: None,
        shortest_lost: None,
        client_timer: constant(&mut timed_out, LEAST_NAMED).map(timer),
        cap: None,
        wasted: Duration::ZERO,
        skew: None,
        join,
        one_sided: Some(sided),
        histogram: Vec::new(),
        logs,
    }
}

fn attempt_before(store: &Store, attempt: &Attempt) -> Option<ServerSide> {
    let (id, number) = store.id(attempt.record);
    let earlier = store.find(&id, number.checked_sub(1)?)?;
    attempts::plain(store, earlier).server
}

/// Bars of a round width, from 0 to the longest silence.
fn histogram(arrived: &[Milli32], lost: &[Milli32]) -> Vec<Bin> {
    const WIDTHS: [u64; 13] = [1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600, 21_600];
    let Some(longest) = arrived.iter().chain(lost).max() else { return Vec::new() };
    let longest = u64::from(*longest) / 1000 + 1;
    let width = WIDTHS.into_iter().find(|width| longest.div_ceil(*width) <= MOST_BINS as u64);
    let width = width.unwrap_or(longest.div_ceil(MOST_BINS as u64));
    // None is longer than the longest, so a width is far from the most that this type holds.
    let width_ms = Milli32::try_from(width * 1000).unwrap_or(Milli32::MAX);
    let counted = |list: &[Milli32]| {
        let mut counts = [0; MOST_BINS];
        for &ms in list {
            counts[(ms / width_ms) as usize] += 1;
        }
        counts
    };
    let bins = (0..longest.div_ceil(width)).zip(counted(arrived)).zip(counted(lost));
    let bin = |((i, received), lost)| Bin {
        from: Duration::from_secs(i * width),
        to: Duration::from_secs((i + 1) * width),
        received,
        lost,
    };
    bins.map(bin).collect()
}
