//! Where lines come from: files and standard input, plain, gzip or Zstandard, told by their first bytes.
//!
//! [`Lines`] hands out blocks of whole lines from one buffer, so a file of any size takes the same memory.

use std::{
    fs::File,
    io::{self, BufReader, Read},
    path::{Path, PathBuf},
};

use crate::error::LogsError;

/// A longer line is skipped and counted.
pub const LONGEST_LINE: usize = 4 << 20;
/// How much is read at once, and how much of a file shows how it is written.
const BLOCK: usize = 256 << 10;

/// One log: a file, or standard input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A file; its first bytes tell whether it is compressed.
    File(PathBuf),
    /// Standard input, which may be compressed too.
    Stdin,
    /// Bytes in memory, under a name.
    Bytes(String, Vec<u8>),
}

impl Source {
    /// Its name in messages.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Self::File(path) => path.display().to_string(),
            Self::Stdin => "standard input".to_owned(),
            Self::Bytes(name, _) => name.clone(),
        }
    }

    fn path(&self) -> PathBuf {
        PathBuf::from(self.name())
    }

    /// How many bytes there are to read, where that is known.
    #[must_use]
    pub fn size(&self) -> Option<u64> {
        match self {
            Self::File(path) => {
                std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file).map(|m| m.len())
            }
            Self::Stdin => None,
            Self::Bytes(_, bytes) => Some(bytes.len() as u64),
        }
    }

    /// Opens it; `progress` is told how many bytes were read, as they are on the disk.
    pub(crate) fn open<'a>(&'a self, progress: &'a dyn Fn(u64)) -> Result<Lines<'a>, LogsError> {
        let failed = |source| LogsError::Read { path: self.path(), source };
        let raw: Box<dyn Read + 'a> = match self {
            Self::File(path) => Box::new(open_file(path).map_err(failed)?),
            Self::Stdin => Box::new(io::stdin()),
            Self::Bytes(_, bytes) => Box::new(bytes.as_slice()),
        };
        let (plain, compressed) = decompressed(Counted { inner: raw, progress }).map_err(failed)?;
        // A small file needs no more than its size, and a byte that stays free at its end. What the kernel makes up has
        // no size.
        let block = match self.size() {
            Some(size) if size > 0 && !compressed => {
                usize::try_from(size).map_or(BLOCK, |size| BLOCK.min(size + 1))
            }
            _ => BLOCK,
        };
        Ok(Lines::new(plain, compressed, self.path(), block))
    }
}

fn open_file(path: &Path) -> io::Result<File> {
    let file = File::open(path)?;
    if file.metadata()?.is_dir() {
        return Err(io::Error::new(io::ErrorKind::IsADirectory, "it is a folder; name its files"));
    }
    Ok(file)
}

struct Counted<'a> {
    inner: Box<dyn Read + 'a>,
    progress: &'a dyn Fn(u64),
}

impl Read for Counted<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        (self.progress)(read as u64);
        Ok(read)
    }
}

/// RFC 1952, and RFC 8878 section 3.1.1.
const GZIP: [u8; 2] = [0x1f, 0x8b];
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// The plain bytes, and whether they were compressed.
fn decompressed<'a>(mut raw: Counted<'a>) -> io::Result<(Box<dyn Read + 'a>, bool)> {
    let mut head = Vec::with_capacity(ZSTD.len());
    raw.by_ref().take(ZSTD.len() as u64).read_to_end(&mut head)?;
    let gzip = head.starts_with(&GZIP);
    let zstd = head.starts_with(&ZSTD);
    let whole = io::Cursor::new(head).chain(raw);
    if gzip {
        let decoder = flate2::bufread::MultiGzDecoder::new(BufReader::with_capacity(BLOCK, whole));
        return Ok((Box::new(decoder), true));
    }
    if zstd {
        return Ok((Box::new(Zstd::new(BufReader::with_capacity(BLOCK, whole))), true));
    }
    Ok((Box::new(whole), false))
}

/// All frames of a Zstandard file, one after the other: `zstd` and log shippers append them.
struct Zstd<R: Read> {
    state: ZstdState<R>,
}

type Frame<R> = ruzstd::decoding::StreamingDecoder<R, ruzstd::decoding::FrameDecoder>;

enum ZstdState<R: Read> {
    Between(R),
    In(Box<Frame<R>>),
    Done,
}

impl<R: io::BufRead> Zstd<R> {
    fn new(raw: R) -> Self {
        Self { state: ZstdState::Between(raw) }
    }
}

impl<R: io::BufRead> Read for Zstd<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match std::mem::replace(&mut self.state, ZstdState::Done) {
                ZstdState::Done => return Ok(0),
                ZstdState::Between(mut raw) => {
                    if raw.fill_buf()?.is_empty() {
                        return Ok(0);
                    }
                    let frame = Frame::new(raw).map_err(io::Error::other)?;
                    self.state = ZstdState::In(Box::new(frame));
                }
                ZstdState::In(mut frame) => {
                    let read = frame.read(buffer)?;
                    self.state = if read == 0 {
                        ZstdState::Between(frame.into_inner())
                    } else {
                        ZstdState::In(frame)
                    };
                    if read > 0 {
                        return Ok(read);
                    }
                }
            }
        }
    }
}

/// Blocks of whole lines.
pub(crate) struct Lines<'a> {
    from: Box<dyn Read + 'a>,
    compressed: bool,
    path: PathBuf,
    buffer: Vec<u8>,
    /// What of `buffer` holds bytes.
    filled: usize,
    /// What of it was handed out.
    used: usize,
    /// In the middle of a line that is too long.
    skipping: bool,
    ended: bool,
    /// How many lines were too long.
    pub(crate) too_long: u64,
    /// Why compressed data ended before its end.
    pub(crate) cut_off: Option<String>,
}

impl<'a> Lines<'a> {
    fn new(from: Box<dyn Read + 'a>, compressed: bool, path: PathBuf, block: usize) -> Self {
        Self {
            from,
            compressed,
            path,
            buffer: vec![0; block],
            filled: 0,
            used: 0,
            skipping: false,
            ended: false,
            too_long: 0,
            cut_off: None,
        }
    }

    /// The next block of whole lines, each with its end but the file's last; `None`: that was all.
    pub(crate) fn next_block(&mut self) -> Result<Option<&[u8]>, LogsError> {
        let range = self.next_range()?;
        self.used = range.end;
        Ok((!range.is_empty()).then(|| &self.buffer[range]))
    }

    /// What the next block will be.
    pub(crate) fn peek(&mut self) -> Result<&[u8], LogsError> {
        let range = self.next_range()?;
        Ok(&self.buffer[range])
    }

    fn next_range(&mut self) -> Result<std::ops::Range<usize>, LogsError> {
        let mut searched = self.used;
        loop {
            if let Some(at) = memchr::memrchr(b'\n', &self.buffer[searched..self.filled]) {
                let end = searched + at + 1;
                if !self.skipping {
                    return Ok(self.used..end);
                }
                // The end of the line that was too long; the rest of the block is whole again.
                let first = memchr::memchr(b'\n', &self.buffer[searched..self.filled]);
                self.used = searched + first.unwrap_or(0) + 1;
                self.skipping = false;
                searched = self.used;
                continue;
            }
            if self.ended {
                let rest = if self.skipping { self.filled } else { self.used };
                return Ok(rest..self.filled);
            }
            if self.filled - self.used >= LONGEST_LINE || self.skipping {
                self.too_long += u64::from(!self.skipping);
                self.skipping = true;
                self.used = 0;
                self.filled = 0;
            }
            self.fill()?;
            searched = self.used;
        }
    }

    fn fill(&mut self) -> Result<(), LogsError> {
        if self.used > 0 {
            self.buffer.copy_within(self.used..self.filled, 0);
            self.filled -= self.used;
            self.used = 0;
        }
        if self.filled == self.buffer.len() {
            self.buffer.resize(self.buffer.len() * 2, 0);
        }
        loop {
            match self.from.read(&mut self.buffer[self.filled..]) {
                Ok(0) => self.ended = true,
                Ok(read) => self.filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                // What could be decompressed before is still worth reading.
                Err(error) if self.compressed => {
                    self.cut_off = Some(error.to_string());
                    self.ended = true;
                }
                Err(source) => return Err(LogsError::Read { path: self.path.clone(), source }),
            }
            return Ok(());
        }
    }
}

/// The lines of a block, without their ends.
pub(crate) fn lines_of(block: &[u8]) -> impl Iterator<Item = &[u8]> {
    let block = block.strip_suffix(b"\n").unwrap_or(block);
    memchr_lines(block).map(|line| line.strip_suffix(b"\r").unwrap_or(line))
}

fn memchr_lines(block: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(block);
    std::iter::from_fn(move || {
        let block = rest?;
        if let Some(end) = memchr::memchr(b'\n', block) {
            rest = Some(&block[end + 1..]);
            Some(&block[..end])
        } else {
            rest = None;
            Some(block)
        }
    })
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn read(bytes: &[u8]) -> (Vec<Vec<u8>>, u64, bool) {
        let source = Source::Bytes("test".into(), bytes.to_vec());
        let mut lines = source.open(&|_| ()).unwrap();
        let mut all = Vec::new();
        while let Some(block) = lines.next_block().unwrap() {
            all.extend(lines_of(block).map(<[u8]>::to_vec));
        }
        (all, lines.too_long, lines.cut_off.is_some())
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut to = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        to.write_all(bytes).unwrap();
        to.finish().unwrap()
    }

    #[test]
    fn lines_are_whole_whatever_their_ends() {
        for (bytes, lines) in [
            (&b""[..], &[][..]),
            (b"a", &[&b"a"[..]]),
            (b"a\n", &[b"a"]),
            (b"a\r\n\nb", &[b"a", b"", b"b"]),
        ] {
            assert_eq!(read(bytes).0, lines);
        }
        let many: Vec<u8> = (0..200_000).flat_map(|i| format!("line {i}\n").into_bytes()).collect();
        let (lines, ..) = read(&many);
        assert_eq!(lines.len(), 200_000);
        assert_eq!(lines[199_999], b"line 199999");
    }

    #[test]
    fn a_line_that_is_too_long_is_counted_and_the_next_is_read() {
        let mut bytes = b"a\n".to_vec();
        bytes.extend(std::iter::repeat_n(b'x', 100 << 20));
        bytes.extend(b"\nb\nc");
        let (lines, too_long, _) = read(&bytes);
        assert_eq!((lines, too_long), (vec![b"a".to_vec(), b"b".to_vec(), b"c".to_vec()], 1));
    }

    #[test]
    fn compressed_files_are_told_by_their_first_bytes() {
        let plain = b"one\ntwo\n";
        // Two members, as appending makes them.
        let two = [gzip(b"one\n"), gzip(b"two\n")].concat();
        let level = ruzstd::encoding::CompressionLevel::Fastest;
        let zstd = |bytes: &[u8]| ruzstd::encoding::compress_to_vec(bytes, level);
        let frames = [zstd(b"one\n"), zstd(b"two\n")].concat();
        for bytes in [gzip(plain), two, zstd(plain), frames] {
            assert_eq!(read(&bytes).0, [b"one", b"two"]);
        }
    }

    #[test]
    fn what_a_cut_off_file_still_says_is_read_and_the_cut_told() {
        let whole: Vec<u8> = (0..50_000).flat_map(|i| format!("line {i}\n").into_bytes()).collect();
        let gzip = gzip(&whole);
        let (lines, _, cut_off) = read(&gzip[..gzip.len() / 2]);
        assert!(cut_off);
        assert!(lines.len() > 1000, "{}", lines.len());
    }

    #[test]
    fn a_file_that_is_not_there_is_named() {
        let source = Source::File("/nonexistent/a.log".into());
        let error = source.open(&|_| ()).err().unwrap().to_string();
        assert!(error.contains("/nonexistent/a.log"), "{error}");
    }
}
