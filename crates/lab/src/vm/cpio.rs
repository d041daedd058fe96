//! Writes an initramfs: the `newc` format of cpio (`Documentation/driver-api/early-userspace/buffer-format.rst`
//! of the kernel), uncompressed.

use std::collections::BTreeSet;

const DIRECTORY: u32 = 0o040_755;
const FILE: u32 = 0o100_755;
const CHARACTER_DEVICE: u32 = 0o020_600;

/// An archive that grows.
#[derive(Debug, Default)]
pub(super) struct Archive {
    bytes: Vec<u8>,
    inode: u32,
    folders: BTreeSet<String>,
}

impl Archive {
    /// A folder and those above it; each once.
    pub(super) fn folder(&mut self, path: &str) {
        for (at, _) in path.match_indices('/').chain([(path.len(), "")]) {
            let part = &path[..at];
            if !part.is_empty() && self.folders.insert(part.to_owned()) {
                self.entry(part, DIRECTORY, [0, 0], &[]);
            }
        }
    }

    /// An executable file, and its folder.
    pub(super) fn file(&mut self, path: &str, content: &[u8]) {
        if let Some((folder, _)) = path.rsplit_once('/') {
            self.folder(folder);
        }
        self.entry(path, FILE, [0, 0], content);
    }

    /// A character device.
    pub(super) fn device(&mut self, path: &str, number: [u32; 2]) {
        self.entry(path, CHARACTER_DEVICE, number, &[]);
    }

    /// The whole of it.
    pub(super) fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, [0, 0], &[]);
        self.bytes
    }

    fn entry(&mut self, path: &str, mode: u32, device: [u32; 2], content: &[u8]) {
        self.inode += 1;
        let size = u32::try_from(content.len()).unwrap_or(u32::MAX);
        let name = u32::try_from(path.len() + 1).unwrap_or(u32::MAX);
        let [major, minor] = device;
        // Inode, mode, owner, group, links, time, size, device of the file, device that it is, name, sum.
        let fields = [self.inode, mode, 0, 0, 1, 0, size, 0, 0, major, minor, name, 0];
        self.bytes.extend(b"070701");
        for field in fields {
            self.bytes.extend(format!("{field:08x}").bytes());
        }
        self.bytes.extend(path.bytes());
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
        archive.file("a/b/c", b"hello");
        archive.file("a/b/d", b"");
        let bytes = archive.finish();
        let text = String::from_utf8(bytes.clone()).unwrap();
        assert_eq!(bytes.len() % 4, 0);
        assert_eq!(text.matches("070701").count(), 5, "a, a/b, c, d and the end");
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
    }
}
