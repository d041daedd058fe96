//! Whether an ELF file is static: whether it asks for a program interpreter (the dynamic loader).

use anyhow::{Context, Result, bail};

/// `ELFMAG`, `ELFCLASS64`, `ELFDATA2LSB`
const ELF64_LITTLE_ENDIAN: &[u8] = b"\x7fELF\x02\x01";
/// `PT_INTERP`
const INTERPRETER: u32 = 3;
/// Offsets of `e_phoff`, `e_phentsize` and `e_phnum` in `Elf64_Ehdr`.
const PH_OFFSET: usize = 32;
const PH_ENTRY_SIZE: usize = 54;
const PH_COUNT: usize = 56;

/// Whether `file` runs without a dynamic loader.
///
/// # Errors
/// It is no 64-bit little-endian ELF file, or cut short.
pub(crate) fn is_static(file: &[u8]) -> Result<bool> {
    if !file.starts_with(ELF64_LITTLE_ENDIAN) {
        bail!("not a 64-bit little-endian ELF file");
    }
    let offset = usize::try_from(u64::from_le_bytes(bytes(file, PH_OFFSET)?))?;
    let size = usize::from(u16::from_le_bytes(bytes(file, PH_ENTRY_SIZE)?));
    let count = usize::from(u16::from_le_bytes(bytes(file, PH_COUNT)?));
    for index in 0..count {
        let at = offset.checked_add(index * size).context("a program header is out of bounds")?;
        // `p_type` comes first in `Elf64_Phdr`.
        if u32::from_le_bytes(bytes(file, at)?) == INTERPRETER {
            return Ok(false);
        }
    }
    Ok(true)
}

fn bytes<const N: usize>(file: &[u8], at: usize) -> Result<[u8; N]> {
    let rest = file.get(at..).unwrap_or_default();
    rest.first_chunk().copied().with_context(|| format!("cut short at byte {at}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn elf(program_headers: &[u32]) -> Vec<u8> {
        let mut file = vec![0; 64];
        file[..6].copy_from_slice(ELF64_LITTLE_ENDIAN);
        file[PH_OFFSET] = 64;
        file[PH_ENTRY_SIZE] = 56;
        file[PH_COUNT] = u8::try_from(program_headers.len()).unwrap();
        for kind in program_headers {
            file.extend(kind.to_le_bytes());
            file.extend([0; 52]);
        }
        file
    }

    #[test]
    fn an_interpreter_makes_it_dynamic() {
        assert!(is_static(&elf(&[1, 2, 6])).unwrap(), "a static PIE has PT_DYNAMIC too");
        assert!(!is_static(&elf(&[6, 3, 1])).unwrap());
    }

    #[test]
    fn other_files_are_errors() {
        assert!(is_static(b"#!/bin/sh\n").is_err());
        assert!(is_static(&elf(&[1, 1])[..122]).is_err(), "cut short");
    }
}
