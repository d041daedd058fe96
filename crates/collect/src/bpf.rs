//! BPF iterators: a program that the kernel calls once for each socket or file of the host, in one system call for
//! hundreds of them.
//!
//! An object is loaded (its accesses to the kernel's types are made those of the running kernel), one of its programs
//! is loaded for a list of the kernel's, and reading that list runs it.
#![allow(unsafe_code, reason = "bpf(2): aya has no iterator over the files of one process")]

use std::{
    fs::File,
    io::{self, Read as _},
    os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd},
    sync::{Mutex, MutexGuard, OnceLock, PoisonError},
};

use aya::{Btf, Ebpf, EbpfLoader, maps::Map, programs::Iter};

/// What one read gives at most (`bpf_seq_read`, `kernel/bpf/bpf_iter.c`).
const BLOCK: usize = 32 * 1024;

/// The kernel, or this process's rights, do not allow it.
#[derive(Debug, thiserror::Error)]
pub enum BpfError {
    /// `/sys/kernel/btf/vmlinux` is not there, or not readable.
    #[error("the types of the kernel (/sys/kernel/btf/vmlinux) can't be read: {0}")]
    NoTypes(String),
    /// It does not take the program.
    #[error("the kernel does not take the program: {0}")]
    Refused(String),
    /// A list broke off.
    #[error("an iterator can't be read: {0}")]
    Read(#[from] io::Error),
}

/// An object file in the program, aligned as ELF demands.
#[derive(Debug)]
#[repr(C, align(8))]
pub struct ObjectFile<T: ?Sized>(pub T);

/// An object whose maps are there.
#[derive(Debug)]
pub struct Object(Ebpf);

impl Object {
    /// Loads it.
    ///
    /// # Errors
    /// The kernel's types can't be read, or it refuses a map.
    pub fn load(file: &ObjectFile<[u8]>) -> Result<Self, BpfError> {
        loader().load(&file.0).map(Self).map_err(refused)
    }

    /// Loads it with another size of its map `map`, and with `value` for its constant `name`.
    ///
    /// # Errors
    /// As those of [`load`](Self::load).
    pub fn load_with(
        file: &ObjectFile<[u8]>,
        (map, size): (&'static str, u32),
        (name, value): (&'static str, &'static u32),
    ) -> Result<Self, BpfError> {
        let mut loader = loader();
        loader.map_max_entries(map, size).override_global(name, value, false);
        loader.load(&file.0).map(Self).map_err(refused)
    }

    /// A program of it for a list of the kernel's, as `task_file` or `tcp`.
    ///
    /// # Errors
    /// The kernel is too old or the rights are not there: `CAP_BPF` and `CAP_PERFMON`.
    pub fn program(&mut self, name: &str, list: &str) -> Result<Iteration<'_>, BpfError> {
        let program = self.0.program_mut(name).ok_or_else(|| refused("no such program"))?;
        let program: &mut Iter = program.try_into().map_err(refused)?;
        program.load(list, types()?).map_err(refused)?;
        Ok(Iteration(program.fd().map_err(refused)?.as_fd()))
    }

    /// The array that is called `name`.
    ///
    /// # Errors
    /// There is none.
    pub fn array(&self, name: &str) -> Result<BorrowedFd<'_>, BpfError> {
        match self.0.map(name) {
            Some(Map::Array(map)) => Ok(map.fd().as_fd()),
            _ => Err(refused("no such array")),
        }
    }
}

/// A program for a list.
#[derive(Debug, Clone, Copy)]
pub struct Iteration<'a>(BorrowedFd<'a>);

impl Iteration<'_> {
    /// Runs it once over the list as the calling thread's namespaces have it, and hands what it writes to `take`:
    /// whole records.
    ///
    /// # Errors
    /// The list can't be read.
    pub fn run(self, take: impl FnMut(&[u8])) -> Result<(), BpfError> {
        self.read(&[], take)
    }

    /// The same over the files of one process, by its number in the calling thread's PID namespace.
    ///
    /// # Errors
    /// The list can't be read: before Linux 6.1 there is none of one process.
    pub fn run_over(self, pid: u32, take: impl FnMut(&[u8])) -> Result<(), BpfError> {
        // `task` of `union bpf_iter_link_info`: thread, process, pidfd.
        self.read(&[0, pid, 0], take)
    }

    fn read(self, of: &[u32], mut take: impl FnMut(&[u8])) -> Result<(), BpfError> {
        let mut list = self.list(of)?;
        let mut block = vec![0; BLOCK];
        loop {
            match list.read(&mut block) {
                Ok(0) => return Ok(()),
                Ok(length) => take(&block[..length]),
                // EAGAIN: a million of them wrote nothing, and there are more.
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
                    ) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn list(self, of: &[u32]) -> io::Result<File> {
        let link = Link {
            program: self.0.as_raw_fd(),
            target: 0,
            kind: BPF_TRACE_ITER,
            flags: 0,
            of: if of.is_empty() { 0 } else { of.as_ptr().expose_provenance() as u64 },
            of_length: u32::try_from(size_of_val(of)).unwrap_or_default(),
            nothing: 0,
        };
        // SAFETY: the attributes of this command, and `of` lives until it is done.
        let link = unsafe { bpf(BPF_LINK_CREATE, &link) }?;
        // SAFETY: the attributes of this command.
        unsafe { bpf(BPF_ITER_CREATE, &[link.as_raw_fd(), 0]) }.map(File::from)
    }
}

/// `enum bpf_cmd` and `enum bpf_attach_type` (`include/uapi/linux/bpf.h`)
const BPF_LINK_CREATE: libc::c_int = 28;
const BPF_ITER_CREATE: libc::c_int = 33;
const BPF_TRACE_ITER: u32 = 28;

/// `link_create` of `union bpf_attr`.
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

/// One that gives a descriptor.
///
/// # Safety
/// `attributes` are those of `command`, and what they point to is there.
unsafe fn bpf<T>(command: libc::c_int, attributes: &T) -> io::Result<OwnedFd> {
    // SAFETY: of so many bytes, which the kernel only reads; the rest is the caller's word.
    let fd = unsafe { libc::syscall(libc::SYS_bpf, command, attributes, size_of::<T>()) };
    match i32::try_from(fd) {
        // SAFETY: a new descriptor, which nothing else owns.
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(io::Error::last_os_error()),
    }
}

/// One for all: each reads the kernel's types, which takes 10 ms.
fn loader() -> MutexGuard<'static, EbpfLoader<'static>> {
    static LOADER: OnceLock<Mutex<EbpfLoader<'static>>> = OnceLock::new();
    let loader = LOADER.get_or_init(|| Mutex::new(EbpfLoader::new()));
    loader.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The same for what the loader does not do.
fn types() -> Result<&'static Btf, BpfError> {
    static TYPES: OnceLock<Result<Btf, String>> = OnceLock::new();
    let types = TYPES.get_or_init(|| Btf::from_sys_fs().map_err(|error| all_of(&error)));
    types.as_ref().map_err(|error| BpfError::NoTypes(error.clone()))
}

fn refused(error: impl Into<Box<dyn std::error::Error>>) -> BpfError {
    BpfError::Refused(all_of(&*error.into()))
}

/// The error and its causes in one line, without the verifier's log: that is pages.
fn all_of(error: &dyn std::error::Error) -> String {
    let first_line = |error: &dyn std::error::Error| {
        error.to_string().lines().next().unwrap_or_default().to_owned()
    };
    let mut said = first_line(error);
    let mut cause = error.source();
    while let Some(error) = cause {
        let line = first_line(error);
        if !said.contains(&line) {
            said = format!("{said}: {line}");
        }
        cause = error.source();
    }
    said
}
