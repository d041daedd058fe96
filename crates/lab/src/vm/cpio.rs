//! Writes an initramfs: the `newc` format of cpio (`Documentation/driver-api/early-userspace/buffer-format.rst`
//! of the kernel), uncompressed.

use std::collections::BTreeSet;

const DIRECTORY: u32 = 0o040_755;
const FILE: u32 = 0o100_000;
const LINK: u32 = 0o120_777;
const CHARACTER_DEVICE: u32 = 0o020_600;

/// An archive that grows.
#[derive(Debug, Default)]
pub(super) struct Archive {
    bytes: Vec<u8>,
    inode: u32,
    folders: BTreeSet<Vec<u8>>,
}

/// What there is to say of a file beside its content.
#[derive(Debug, Clone, Copy)]
pub(super) struct About {
    /// `0o755`
    pub mode: u32,
    /// Seconds since 1970: Python holds compiled modules against it.
    pub modified: u32,
}

/// A program or library of this one's own.
pub(super) const EXECUTABLE: About = About { mode: 0o755, modified: 0 };

impl Archive {
    /// A folder and those above it; each once.
    pub(super) fn folder(&mut self, path: impl AsRef<[u8]>) {
        let path = path.as_ref();
        let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
        for at in ends.chain([path.len()]) {
            let part = &path[..at];
            if !part.is_empty() && self.folders.insert(part.to_owned()) {
                self.entry(part, DIRECTORY, 0, [0, 0], &[]);
            }
        }
    }

    /// A file, and its folder.
    pub(super) fn file(&mut self, path: impl AsRef<[u8]>, content: &[u8], about: About) {
        self.folder_of(path.as_ref());
        self.entry(path.as_ref(), FILE | about.mode, about.modified, [0, 0], content);
    }

    /// A symbolic link, and its folder.
    pub(super) fn link(&mut self, path: impl AsRef<[u8]>, to: impl AsRef<[u8]>) {
        self.folder_of(path.as_ref());
        self.entry(path.as_ref(), LINK, 0, [0, 0], to.as_ref());
    }

    /// A character device.
    pub(super) fn device(&mut self, path: &str, number: [u32; 2]) {
        self.entry(path.as_bytes(), CHARACTER_DEVICE, 0, number, &[]);
    }

    /// How large it is.
    pub(super) fn size(&self) -> usize {
        self.bytes.len()
    }

    /// The whole of it.
    pub(super) fn finish(mut self) -> Vec<u8> {
        self.entry(b"TRAILER!!!", 0, 0, [0, 0], &[]);
        self.bytes
    }

    fn folder_of(&mut self, path: &[u8]) {
        if let Some(at) = path.iter().rposition(|&byte| byte == b'/') {
            self.folder(&path[..at]);
        }
    }

    fn entry(&mut self, path: &[u8], mode: u32, modified: u32, device: [u32; 2], content: &[u8]) {
        self.inode += 1;
        let size = u32::try_from(content.len()).unwrap_or(u32::MAX);
        let name = u32::try_from(path.len() + 1).unwrap_or(u32::MAX);
        let [major, minor] = device;
        // Inode, mode, owner, group, links, time, size, device of the file, device that it is, name, sum.
        let fields = [self.inode, mode, 0, 0, 1, modified, size, 0, 0, major, minor, name, 0];
        self.bytes.extend(b"070701");
        for field in fields {
            self.bytes.extend(format!("{field:08x}").bytes());
        }
        self.bytes.extend(path);
        self.bytes.push(0);
        self.pad();
        self.bytes.extend(content);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_by_hand() {
        let mut archive = Archive::default();
        archive.file("a/b/c", b"hello", EXECUTABLE);
        archive.file("a/b/d", b"", About { mode: 0o644, modified: 0x1234 });
        archive.link("a/e", "b/c");
        let bytes = archive.finish();
        let text = String::from_utf8(bytes.clone()).unwrap();
        assert_eq!(bytes.len() % 4, 0);
        assert_eq!(text.matches("070701").count(), 6, "a, a/b, c, d, e and the end");
        // Inode, mode, owner, group, links, time; size; four numbers of devices; the name's size, no sum.
        let head = [
            "07070100000003000081ed00000000000000000000000100000000",
            "00000005",
            "00000000000000000000000000000000",
            "0000000600000000",
            "a/b/c\0",
        ];
        let head = head.concat();
        assert!(text.contains(&head), "{text}");
        for (mode, time) in [("000081a4", "00001234"), ("0000a1ff", "00000000")] {
            let head = format!("{mode}000000000000000000000001{time}");
            assert!(text.contains(&head), "{head}: {text}");
        }
    }
}
