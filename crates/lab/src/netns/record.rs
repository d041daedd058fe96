//! `--record`: what crossed the path, as a pcapng file (draft-ietf-opsawg-pcapng) that Wireshark and tcpdump read.
//!
//! It has the path's two devices as two interfaces; a packet that was handed on is there twice: as and when it came in
//! on one, and as and when it went out on the other. Whole blocks are written as they come, so that the file is good
//! however the program ends; a file that takes no more makes the path not wait.

use std::{fs::File, io, time::Duration};

use super::queue::{Queue, Written};
use crate::middlebox::{Side, complete_checksum};

/// So much may wait to be written: some seconds of what a path forwards at its fastest, on a slow disk.
const MOST: usize = 64 << 20;
/// What waits at the end has so long.
const PATIENCE: Duration = Duration::from_secs(5);

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

/// The file.
pub(super) struct Record {
    blocks: Queue,
    /// The time of day at the start.
    began: Duration,
}

impl Record {
    /// `began`: the start of the run, since 1970.
    pub(super) fn begin(file: File, began: Duration) -> io::Result<Self> {
        let record = Self { blocks: Queue::start(file, MOST, PATIENCE)?, began };
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
        Ok(record)
    }

    /// A packet at `now` since the start. One whose checksum is yet to be made gets it, here alone.
    pub(super) fn packet(&self, now: Duration, on: Side, way: Way, packet: &[u8], partial: bool) {
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

    fn block(&self, kind: u32, body: &[u8]) {
        let length = u32::try_from(body.len() + 12).unwrap_or(u32::MAX).to_ne_bytes();
        self.blocks.push([&kind.to_ne_bytes(), &length, body, &length].concat());
    }

    /// Writes the rest. What is wrong with the record, if something is.
    pub(super) fn end(self) -> Option<String> {
        let Written { left_out, failed } = self.blocks.end();
        match (failed, left_out.pieces) {
            (Some(error), _) => Some(error.to_string()),
            (None, 0) => None,
            (None, some) => {
                Some(format!("{some} packets are left out, it did not take them in time"))
            }
        }
    }
}

fn option(body: &mut Vec<u8>, kind: u16, value: &[u8]) {
    body.extend(kind.to_ne_bytes());
    body.extend(u16::try_from(value.len()).unwrap_or(0).to_ne_bytes());
    body.extend(value);
    body.resize(body.len().next_multiple_of(4), 0);
}
