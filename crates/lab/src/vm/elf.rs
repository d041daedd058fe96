//! What is needed of ELF files: what a program must have loaded, a module's needs, and where the part ends
//! that is loaded. 64-bit little-endian only. Pure.

/// `ELFMAG`, `ELFCLASS64`, `ELFDATA2LSB`
const ELF64_LITTLE_ENDIAN: &[u8] = b"\x7fELF\x02\x01";
/// `PT_LOAD`
const LOAD: u32 = 1;
/// `PT_DYNAMIC`
const DYNAMIC: u32 = 2;
/// `PT_INTERP`
const INTERPRETER: u32 = 3;
/// `DT_NEEDED`
const NEEDED: u64 = 1;
/// `DT_STRTAB`
const STRINGS: u64 = 5;
/// `DT_RPATH`, `DT_RUNPATH`
const RUN_PATHS: [u64; 2] = [15, 29];

/// An ELF file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Elf<'a>(&'a [u8]);

/// One program header.
#[derive(Debug, Clone, Copy)]
struct Segment {
    kind: u32,
    offset: usize,
    address: u64,
    size: usize,
}

impl<'a> Elf<'a> {
    /// `None`: another kind of file.
    pub(super) fn parse(file: &'a [u8]) -> Option<Self> {
        file.starts_with(ELF64_LITTLE_ENDIAN).then_some(Self(file))
    }

    /// The dynamic loader that it asks for.
    pub(super) fn interpreter(self) -> Option<&'a str> {
        let segment = self.segments().find(|segment| segment.kind == INTERPRETER)?;
        text(self.0.get(segment.offset..)?)
    }

    /// The libraries that it asks for (`DT_NEEDED`).
    pub(super) fn needed(self) -> Vec<&'a str> {
        self.dynamic_texts(&[NEEDED]).unwrap_or_default()
    }

    /// The folders where it has them looked for first; `$ORIGIN` is its own.
    pub(super) fn run_paths(self) -> Vec<&'a str> {
        let lists = self.dynamic_texts(&RUN_PATHS).unwrap_or_default();
        lists.into_iter().flat_map(|list| list.split(':')).filter(|path| !path.is_empty()).collect()
    }

    fn dynamic_texts(self, tags: &[u64]) -> Option<Vec<&'a str>> {
        let dynamic = self.segments().find(|segment| segment.kind == DYNAMIC)?;
        let table = self.0.get(dynamic.offset..dynamic.offset.checked_add(dynamic.size)?)?;
        let pairs = || {
            let number = |bytes: &[u8]| bytes.first_chunk().map(|b| u64::from_le_bytes(*b));
            table
                .chunks_exact(16)
                .filter_map(move |pair| Some((number(&pair[..8])?, number(&pair[8..])?)))
        };
        let (_, strings) = pairs().find(|&(tag, _)| tag == STRINGS)?;
        let strings = self.offset_of(strings)?;
        let name = |at: u64| text(self.0.get(strings.checked_add(usize::try_from(at).ok()?)?..)?);
        Some(pairs().filter(|(tag, _)| tags.contains(tag)).filter_map(|(_, at)| name(at)).collect())
    }

    /// The part of the file that is loaded: what follows (symbols, debugging) is not needed to run it.
    pub(super) fn loaded(self) -> &'a [u8] {
        let ends = self.segments().filter_map(|segment| segment.offset.checked_add(segment.size));
        let end = ends.max().unwrap_or(self.0.len());
        self.0.get(..end).unwrap_or(self.0)
    }

    /// The lines of the section `.modinfo` of a kernel module.
    pub(super) fn module_info(self) -> Vec<&'a str> {
        let section = self.section(".modinfo").unwrap_or_default();
        section.split(|&byte| byte == 0).filter_map(|line| std::str::from_utf8(line).ok()).collect()
    }

    fn section(self, name: &str) -> Option<&'a [u8]> {
        // e_shoff, e_shentsize, e_shnum, e_shstrndx
        let (at, size) = (self.word64(40)?, self.word16(58)?);
        let (count, names) = (self.word16(60)?, self.word16(62)?);
        // sh_offset and sh_size
        let content = |index: usize| -> Option<&'a [u8]> {
            let header = at.checked_add(index.checked_mul(size)?)?;
            let (from, length) = (self.word64(header + 24)?, self.word64(header + 32)?);
            self.0.get(from..from.checked_add(length)?)
        };
        let names = content(names)?;
        (0..count).find_map(|index| {
            let name_at = usize::try_from(self.word32(at + index * size)?).ok()?;
            (text(names.get(name_at..)?)? == name).then(|| content(index))?
        })
    }

    fn segments(self) -> impl Iterator<Item = Segment> {
        // e_phoff, e_phentsize, e_phnum
        let at = self.word64(32).unwrap_or(0);
        let (size, count) = (self.word16(54).unwrap_or(0), self.word16(56).unwrap_or(0));
        (0..count).filter_map(move |index| {
            let at = at.checked_add(index * size)?;
            Some(Segment {
                kind: self.word32(at)?,
                offset: self.word64(at + 8)?,
                address: u64::try_from(self.word64(at + 16)?).ok()?,
                size: self.word64(at + 32)?,
            })
        })
    }

    /// Where in the file an address is.
    fn offset_of(self, address: u64) -> Option<usize> {
        let holds = |segment: &Segment| {
            let from = address.checked_sub(segment.address)?;
            let from = usize::try_from(from).ok().filter(|from| *from < segment.size)?;
            segment.offset.checked_add(from)
        };
        self.segments().filter(|segment| segment.kind == LOAD).find_map(|segment| holds(&segment))
    }

    fn word16(self, at: usize) -> Option<usize> {
        self.0.get(at..)?.first_chunk().map(|bytes| usize::from(u16::from_le_bytes(*bytes)))
    }

    fn word32(self, at: usize) -> Option<u32> {
        self.0.get(at..)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))
    }

    fn word64(self, at: usize) -> Option<usize> {
        let bytes = self.0.get(at..)?.first_chunk()?;
        usize::try_from(u64::from_le_bytes(*bytes)).ok()
    }
}

fn text(bytes: &[u8]) -> Option<&str> {
    let end = bytes.iter().position(|&byte| byte == 0)?;
    std::str::from_utf8(&bytes[..end]).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_very_program() {
        let file = std::fs::read("/proc/self/exe").unwrap();
        let elf = Elf::parse(&file).unwrap();
        assert!(elf.interpreter().is_none_or(|loader| loader.contains("ld")), "{elf:?}");
        if elf.interpreter().is_some() {
            assert!(elf.needed().iter().any(|name| name.starts_with("libc.")), "libc");
        }
        assert!(elf.loaded().len() <= file.len());
    }

    #[test]
    fn what_is_cut_short_has_nothing() {
        let file = std::fs::read("/proc/self/exe").unwrap();
        for length in [6, 40, 64, 70, 200, 4096] {
            let elf = Elf::parse(&file[..length]).unwrap();
            let _ = (elf.interpreter(), elf.needed(), elf.module_info(), elf.loaded().len());
            let _ = elf.run_paths();
        }
        assert!(Elf::parse(b"#!/bin/sh").is_none());
    }
}
