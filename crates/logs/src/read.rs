//! Reads all files of both sides into one store: detection first, for all of them, then line by line.

use crate::{
    analysis::{BadLine, Join, LogRead},
    detect::detect,
    error::LogsError,
    event::{Event, Millis, Side},
    layout::{Layout, Overrides, Said},
    order::Unnamed,
    shape::{self, Shapes},
    source::{LONGEST_LINE, Lines, Source, lines_of},
    store::{Counted, Store},
    swapped,
    wrapper::{Parts, Unwrapped, Wrapper},
};

/// Bad lines of a file that are shown.
const SHOWN: usize = 3;
/// Of a bad line, so much is shown.
const SHOWN_LENGTH: usize = 120;

/// What came of reading.
#[derive(Debug)]
pub(crate) struct Everything {
    pub(crate) store: Store,
    pub(crate) join: Join,
    pub(crate) logs: Vec<LogRead>,
    /// The last time in each file, by its number.
    pub(crate) ends: Vec<Option<(Millis, Millis)>>,
}

struct Log<'a> {
    source: &'a Source,
    side: Side,
    /// `None`: it is empty.
    layout: Option<Layout>,
    /// How it begins.
    beginning: Vec<u8>,
    /// Kept open where it can be read once only.
    lines: Option<Lines<'a>>,
}

/// Reads them; `progress` is told of bytes.
pub(crate) fn read<'a>(
    client: &'a [Source],
    server: &'a [Source],
    overrides: &Overrides,
    progress: &'a dyn Fn(u64),
) -> Result<Everything, LogsError> {
    let named = client.iter().map(|source| (source, Side::Client));
    let named: Vec<_> = named.chain(server.iter().map(|source| (source, Side::Server))).collect();
    if named.is_empty() {
        return Err(LogsError::Nothing);
    }
    if named.iter().filter(|(source, _)| matches!(source, Source::Stdin)).count() > 1 {
        return Err(LogsError::StdinTwice);
    }
    let mut logs = Vec::new();
    for (source, side) in named {
        logs.push(opened(source, side, overrides, progress)?);
    }
    for side in [Side::Client, Side::Server] {
        let mut of_side = logs.iter().filter(|log| log.side == side).peekable();
        if let Some(first) = of_side.peek().map(|log| log.source.name())
            && of_side.all(|log| log.layout.is_none())
        {
            return Err(LogsError::Empty { name: first });
        }
    }
    refuse_same(&logs, overrides)?;
    let join = agree(&mut logs);
    let mut all = Everything { store: Store::default(), join, logs: Vec::new(), ends: Vec::new() };
    all.store.count_from(middle_time(&logs));
    let mut unnamed = Unnamed::default();
    for (file, log) in logs.into_iter().enumerate() {
        let file = u16::try_from(file).unwrap_or(u16::MAX);
        let read = read_one(log, file, join, &mut all.store, &mut unnamed, progress)?;
        all.store.end_of_file()?;
        all.logs.push(read.0);
        all.ends.push(read.1);
    }
    if join == Join::Order {
        unnamed.name(&mut all.store)?;
    }
    all.store.finish()?;
    for side in [Side::Client, Side::Server] {
        let mut of_side = all.logs.iter().filter(|log| log.side == side).peekable();
        if of_side.peek().is_some() && of_side.all(|log| log.events == 0) {
            let hint = "--started, --sent, --received and --id name what says so";
            return Err(LogsError::NoEvents { side, hint });
        }
    }
    Ok(all)
}

fn opened<'a>(
    source: &'a Source,
    side: Side,
    overrides: &Overrides,
    progress: &'a dyn Fn(u64),
) -> Result<Log<'a>, LogsError> {
    let again = !matches!(source, Source::Stdin);
    let mut lines = source.open(if again { &|_| () } else { progress })?;
    let sample = lines.peek()?;
    let layout = match sample {
        [] => None,
        sample => Some(detect(&source.name(), side, sample, overrides)?),
    };
    let beginning = swapped::beginning(sample);
    if layout.is_none() && lines.cut_off.is_some() {
        let why =
            format!("nothing of it can be decompressed: {}", lines.cut_off.unwrap_or_default());
        let source_error = std::io::Error::other(why);
        return Err(LogsError::Read { path: source.name().into(), source: source_error });
    }
    Ok(Log { source, side, layout, beginning, lines: (!again).then_some(lines) })
}

/// One log on both sides is told of neither.
fn refuse_same(logs: &[Log<'_>], overrides: &Overrides) -> Result<(), LogsError> {
    if swapped::are_told_apart(overrides) {
        return Ok(());
    }
    let of = |side| logs.iter().filter(move |log| log.side == side);
    for client in of(Side::Client) {
        let same = |server: &&Log<'_>| swapped::is_same(&client.beginning, &server.beginning);
        if let Some(server) = of(Side::Server).find(same) {
            let (client, server) = (client.source.name(), server.source.name());
            return Err(LogsError::Same { client, server });
        }
    }
    Ok(())
}

/// What all logs have is what they are joined by.
fn agree(logs: &mut [Log<'_>]) -> Join {
    let layouts = || logs.iter().filter_map(|log| log.layout.as_ref());
    if !layouts().all(|layout| layout.id.is_some()) {
        return Join::Order;
    }
    if layouts().all(|layout| layout.attempt.is_some()) {
        return Join::IdAndAttempt;
    }
    for layout in logs.iter_mut().filter_map(|log| log.layout.as_mut()) {
        layout.attempt = None;
    }
    Join::Id
}

/// In the middle of the times that all logs begin with: one wrong clock tells nothing of the others.
fn middle_time(logs: &[Log<'_>]) -> Option<Millis> {
    let mut times = Vec::new();
    let mut id = Vec::new();
    for log in logs {
        let Some(layout) = &log.layout else { continue };
        let mut parts = Parts::default();
        for line in lines_of(&log.beginning) {
            if let Unwrapped::Whole(inner) = layout.wrapper.unwrap(line, &mut parts)
                && let Said::Event(event) = layout.read(&inner.line, inner.at, &mut id)
            {
                times.push(event.at);
            }
        }
    }
    let middle = times.len() / 2;
    (!times.is_empty()).then(|| *times.select_nth_unstable(middle).1)
}

/// Everything that reading one file changes.
struct Reader<'a> {
    layout: &'a Layout,
    store: &'a mut Store,
    unnamed: &'a mut Unnamed,
    join: Join,
    file: u16,
    log: LogRead,
    ends: Ends,
}

/// The first and the last time of a file, where it has events.
#[derive(Clone, Copy)]
struct Ends {
    first: Millis,
    last: Millis,
}

impl Ends {
    const NONE: Self = Self { first: Millis::MAX, last: Millis::MIN };

    fn take(&mut self, at: Millis) {
        self.first = self.first.min(at);
        self.last = self.last.max(at);
    }

    fn known(self) -> Option<(Millis, Millis)> {
        (self.first <= self.last).then_some((self.first, self.last))
    }
}

type ReadOne = (LogRead, Option<(Millis, Millis)>);

fn read_one(
    log: Log<'_>,
    file: u16,
    join: Join,
    store: &mut Store,
    unnamed: &mut Unnamed,
    progress: &dyn Fn(u64),
) -> Result<ReadOne, LogsError> {
    let blank = LogRead {
        name: log.source.name(),
        side: log.side,
        layout: log.layout.as_ref().map_or_else(|| "empty".to_owned(), Layout::describe),
        lines: 0,
        events: 0,
        unreadable: 0,
        first_unreadable: Vec::new(),
        cut_off: None,
    };
    let Some(layout) = &log.layout else { return Ok((blank, None)) };
    let mut lines = match log.lines {
        Some(lines) => lines,
        None => log.source.open(progress)?,
    };
    let mut reader = Reader { layout, store, unnamed, join, file, log: blank, ends: Ends::NONE };
    let mut shapes = Shapes::learn(layout, lines.peek()?);
    let mut parts = Parts::default();
    let mut id = Vec::new();
    while let Some(block) = lines.next_block()? {
        if layout.wrapper == Wrapper::None {
            reader.block(block, &mut shapes, &mut id)?;
        } else {
            for line in lines_of(block) {
                reader.wrapped(line, &mut parts, &mut shapes, &mut id)?;
            }
        }
    }
    let Reader { mut log, ends, .. } = reader;
    log.unreadable += lines.too_long + parts.left();
    log.lines += lines.too_long;
    if lines.too_long > 0 && log.first_unreadable.len() < SHOWN {
        let text = format!("({} longer than {} MiB)", lines.too_long, LONGEST_LINE >> 20);
        log.first_unreadable.push(BadLine { line: 0, text });
    }
    log.cut_off = lines.cut_off.take();
    Ok((log, ends.known()))
}

impl Reader<'_> {
    /// Lines without a wrapper: the shape of a line also finds its end.
    // On its own, so that what is rare takes no registers from it.
    #[inline(never)]
    fn block(
        &mut self,
        block: &[u8],
        shapes: &mut Shapes<'_>,
        id: &mut Vec<u8>,
    ) -> Result<(), LogsError> {
        let mut rest = block;
        let mut event = shape::BLANK;
        shapes.expect(self.store.expected());
        while !rest.is_empty() {
            self.log.lines += 1;
            let mut counted = None;
            match shapes.read_into(&mut event, &mut counted, rest) {
                Some((says, after)) => {
                    if says && !self.event(&event, counted)? {
                        self.bad(&rest[..rest.len() - after.len()]);
                    }
                    rest = after;
                }
                None => rest = self.first_of(rest, id)?,
            }
        }
        Ok(())
    }

    /// Reads the first line of `block` the general way, and gives those after it.
    #[inline(never)]
    fn first_of<'b>(&mut self, block: &'b [u8], id: &mut Vec<u8>) -> Result<&'b [u8], LogsError> {
        let end = memchr::memchr(b'\n', block).unwrap_or(block.len());
        let line = block[..end].strip_suffix(b"\r").unwrap_or(&block[..end]);
        if !line.is_empty() {
            let said = self.layout.read(line, None, id);
            self.said(&said, line)?;
        }
        Ok(block.get(end + 1..).unwrap_or_default())
    }

    #[inline(never)]
    fn wrapped(
        &mut self,
        line: &[u8],
        parts: &mut Parts,
        shapes: &mut Shapes<'_>,
        id: &mut Vec<u8>,
    ) -> Result<(), LogsError> {
        self.log.lines += 1;
        if line.is_empty() {
            return Ok(());
        }
        let inner = match self.layout.wrapper.unwrap(line, parts) {
            Unwrapped::Whole(inner) => inner,
            Unwrapped::Part => return Ok(()),
            Unwrapped::Bad => {
                self.bad(line);
                return Ok(());
            }
        };
        if inner.line.is_empty() {
            return Ok(());
        }
        if let Some((said, _)) = shapes.read(&inner.line, inner.at) {
            return self.said(&said, line);
        }
        let said = self.layout.read(&inner.line, inner.at, id);
        self.said(&said, line)
    }

    fn said(&mut self, said: &Said<Event<'_>>, line: &[u8]) -> Result<(), LogsError> {
        match said {
            Said::Nothing => {}
            Said::Unreadable => self.bad(line),
            Said::Event(event) => {
                if !self.event(event, None)? {
                    self.bad(line);
                }
            }
        }
        Ok(())
    }

    #[inline(always)]
    #[expect(clippy::inline_always, reason = "as shape/ has it")]
    fn event(&mut self, event: &Event<'_>, counted: Option<Counted>) -> Result<bool, LogsError> {
        let taken = if self.join == Join::Order {
            self.unnamed.add(self.layout.side, event);
            true
        } else {
            self.store.add_counted(event, counted, self.file)?
        };
        if taken {
            self.log.events += 1;
            self.ends.take(event.at);
        }
        Ok(taken)
    }

    #[cold]
    fn bad(&mut self, line: &[u8]) {
        self.log.unreadable += 1;
        if self.log.first_unreadable.len() < SHOWN {
            let shown = &line[..line.len().min(SHOWN_LENGTH)];
            let text = String::from_utf8_lossy(shown).into_owned();
            self.log.first_unreadable.push(BadLine { line: self.log.lines, text });
        }
    }
}
