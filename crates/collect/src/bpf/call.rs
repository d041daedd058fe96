//! bpf(2), as far as iterators need it.
#![allow(unsafe_code, reason = "bpf(2), which rustix does not have")]

use std::{
    ffi::CStr,
    io,
    os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd},
};

use aya_obj::{
    Map,
    generated::{
        bpf_attach_type::BPF_TRACE_ITER,
        bpf_cmd::{
            BPF_ITER_CREATE, BPF_LINK_CREATE, BPF_MAP_CREATE, BPF_MAP_UPDATE_ELEM, BPF_PROG_LOAD,
        },
        bpf_insn,
        bpf_prog_type::BPF_PROG_TYPE_TRACING,
    },
};

/// Beginning of `union bpf_attr` (`include/uapi/linux/bpf.h`) for `BPF_MAP_CREATE`. The rest is 0, as for the others.
#[repr(C)]
struct NewMap {
    kind: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
    flags: u32,
}

/// For `BPF_MAP_UPDATE_ELEM`.
#[repr(C)]
struct Element {
    map: u64,
    key: u64,
    value: u64,
    flags: u64,
}

/// For `BPF_PROG_LOAD`.
#[derive(Default)]
#[repr(C)]
struct Program {
    kind: u32,
    instruction_count: u32,
    instructions: u64,
    license: u64,
    log: [u32; 4],
    kernel: u32,
    flags: u32,
    name: [u8; 16],
    interface: u32,
    attach_type: u32,
    types: [u32; 9],
    attach_to: u32,
}

/// For `BPF_LINK_CREATE`.
#[repr(C)]
struct Link {
    program: i32,
    target: u32,
    kind: u32,
    flags: u32,
    of: u64,
    of_length: u32,
    nothing: u32,
}

/// A map with the data that its object file has for it.
pub(super) fn map(map: &Map) -> io::Result<OwnedFd> {
    let new = NewMap {
        kind: map.map_type(),
        key_size: map.key_size(),
        value_size: map.value_size(),
        max_entries: map.max_entries(),
        flags: map.map_flags(),
    };
    // SAFETY: the attributes of this command.
    let fd = unsafe { descriptor(BPF_MAP_CREATE as libc::c_int, &new) }?;
    let data = map.data();
    if !data.is_empty() {
        let key = 0_u32;
        let map = fd.as_raw_fd().unsigned_abs().into();
        let element =
            Element { map, key: address(&raw const key), value: address(data.as_ptr()), flags: 0 };
        // SAFETY: the attributes of this command: of a map of data there is one element, which is as long as the data.
        unsafe { bpf(BPF_MAP_UPDATE_ELEM as libc::c_int, &element) }?;
    }
    Ok(fd)
}

/// A program for the iterator whose function has the id `list` among the kernel's types.
pub(super) fn program(instructions: &[bpf_insn], license: &CStr, list: u32) -> io::Result<OwnedFd> {
    let program = Program {
        kind: BPF_PROG_TYPE_TRACING as u32,
        instruction_count: u32::try_from(instructions.len()).unwrap_or(u32::MAX),
        instructions: address(instructions.as_ptr()),
        license: address(license.as_ptr()),
        attach_type: BPF_TRACE_ITER as u32,
        attach_to: list,
        ..Program::default()
    };
    // SAFETY: the attributes of this command; what they point to lives until it is done.
    unsafe { descriptor(BPF_PROG_LOAD as libc::c_int, &program) }
}

/// The list that `program` is for, with what `union bpf_iter_link_info` has as `of`. Reading it runs the program.
pub(super) fn list(program: BorrowedFd<'_>, of: &[u32]) -> io::Result<OwnedFd> {
    let link = Link {
        program: program.as_raw_fd(),
        target: 0,
        kind: BPF_TRACE_ITER as u32,
        flags: 0,
        of: if of.is_empty() { 0 } else { address(of.as_ptr()) },
        of_length: u32::try_from(size_of_val(of)).unwrap_or_default(),
        nothing: 0,
    };
    // SAFETY: the attributes of this command, and `of` lives until it is done.
    let link = unsafe { descriptor(BPF_LINK_CREATE as libc::c_int, &link) }?;
    // SAFETY: the attributes of this command.
    unsafe { descriptor(BPF_ITER_CREATE as libc::c_int, &[link.as_raw_fd(), 0]) }
}

fn address<T>(of: *const T) -> u64 {
    of.expose_provenance() as u64
}

/// One that gives a descriptor.
///
/// # Safety
/// As for [`bpf`].
unsafe fn descriptor<T>(command: libc::c_int, attributes: &T) -> io::Result<OwnedFd> {
    // SAFETY: the caller's word. What comes is a new descriptor, which nothing else owns.
    unsafe { bpf(command, attributes).map(|fd| OwnedFd::from_raw_fd(fd)) }
}

/// # Safety
/// `attributes` are those of `command`, and what they point to is there.
unsafe fn bpf<T>(command: libc::c_int, attributes: &T) -> io::Result<libc::c_int> {
    // SAFETY: of so many bytes, which the kernel only reads; the rest is the caller's word.
    let said = unsafe { libc::syscall(libc::SYS_bpf, command, attributes, size_of::<T>()) };
    match libc::c_int::try_from(said) {
        Ok(said) if said >= 0 => Ok(said),
        _ => Err(io::Error::last_os_error()),
    }
}
