//! `--record`: what crossed the path, as a pcapng file (draft-ietf-opsawg-pcapng) that Wireshark and tcpdump read.
//!
//! It has the path's two devices as two interfaces; a packet that was handed on is there twice, as it came in on one
//! and as it went out on the other. Whole blocks are handed to the kernel whenever the path waits, so that the file is
//! good however the program ends.

use std::{
    fs::File,
    io::{self, BufWriter, Write as _},
    time::Duration,
};

use crate::middlebox::{Side, complete_checksum};

/// Section header, interface description and enhanced packet block.
const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const PACKET: u32 = 6;
/// `LINKTYPE_RAW`: begins with the IP header.
const RAW: u16 = 101;
/// Options: `if_name`, `if_tsresol`, `epb_flags`
const NAME: u16 = 2;
const RESOLUTION: u16 = 9;
const FLAGS: u16 = 2;

/// Which way a packet crossed an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    In = 1,
    Out = 2,
}

/// The file. After an error nothing more is written; the error is kept.
pub(super) struct Record {
    file: BufWriter<File>,
    /// The time of day at the start.
    began: Duration,
    failed: Option<io::Error>,
}

impl Record {
    /// `began`: the start of the run, since 1970.
    pub(super) fn begin(file: File, began: Duration) -> Self {
        let mut record = Self { file: BufWriter::new(file), began, failed: None };
        // Byte order, version 1.0, a section of unknown length.
        let mut body = 0x1a2b_3c4d_u32.to_ne_bytes().to_vec();
        body.extend(1_u16.to_ne_bytes());
        body.extend(0_u16.to_ne_bytes());
        body.extend(u64::MAX.to_ne_bytes());
        record.block(SECTION, &body);
        for name in ["client", "server"] {
            let mut body = RAW.to_ne_bytes().to_vec();
            body.extend([0; 6]);
            option(&mut body, NAME, name.as_bytes());
            // Nanoseconds.
            option(&mut body, RESOLUTION, &[9]);
            option(&mut body, 0, &[]);
            record.block(INTERFACE, &body);
        }
        record
    }

    /// A packet at `now` since the start. One whose checksum is yet to be made gets it, here alone.
    pub(super) fn packet(
        &mut self,
        now: Duration,
        on: Side,
        way: Way,
        packet: &[u8],
        partial: bool,
    ) {
        let at = u64::try_from((self.began + now).as_nanos()).unwrap_or(u64::MAX);
        let length = u32::try_from(packet.len()).unwrap_or(u32::MAX);
        let mut body = Vec::with_capacity(packet.len() + 40);
        body.extend((on as u32).to_ne_bytes());
        let halves = [at >> 32, at & u64::from(u32::MAX)];
        let [high, low] = halves.map(|half| u32::try_from(half).unwrap_or(u32::MAX));
        for word in [high, low, length, length] {
            body.extend(word.to_ne_bytes());
        }
        let from = body.len();
        body.extend(packet);
        if partial {
            complete_checksum(&mut body[from..]);
        }
        body.resize(body.len().next_multiple_of(4), 0);
        option(&mut body, FLAGS, &(way as u32).to_ne_bytes());
        option(&mut body, 0, &[]);
        self.block(PACKET, &body);
    }

    fn block(&mut self, kind: u32, body: &[u8]) {
        if self.failed.is_some() {
            return;
        }
        let length = u32::try_from(body.len() + 12).unwrap_or(u32::MAX).to_ne_bytes();
        let block = [&kind.to_ne_bytes(), &length, body, &length].concat();
        self.failed = self.file.write_all(&block).err();
    }

    /// Hands what has come to the kernel.
    pub(super) fn flush(&mut self) {
        if self.failed.is_none() {
            self.failed = self.file.flush().err();
        }
    }

    /// Writes the rest.
    ///
    /// # Errors
    /// The first that there was.
    pub(super) fn end(mut self) -> io::Result<()> {
        self.flush();
        self.failed.map_or(Ok(()), Err)
    }
}

fn option(body: &mut Vec<u8>, kind: u16, value: &[u8]) {
    body.extend(kind.to_ne_bytes());
    body.extend(u16::try_from(value.len()).unwrap_or(0).to_ne_bytes());
    body.extend(value);
    body.resize(body.len().next_multiple_of(4), 0);
}
