//! BPF iterators: a program that the kernel calls once for each socket or file of the host, in one system call for
//! hundreds of them.
//!
//! An object is loaded (its accesses to the kernel's types are made those of the running kernel), one of its programs
//! is loaded for a list of the kernel's, and reading that list runs it.

mod call;
mod types;

use std::{
    collections::HashMap,
    fs::{self, File},
    io::{self, Read as _},
    os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd},
    sync::OnceLock,
};

use aya_obj::btf::Btf;

use self::types::Types;

/// The kernel's types, where it was built with them.
const TYPES: &str = "/sys/kernel/btf/vmlinux";
/// Why not, where it can be read.
const UNKNOWN: &str = "they are of a form that stillopen does not know";
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
pub struct Object {
    object: aya_obj::Object,
    maps: HashMap<String, OwnedFd>,
}

impl Object {
    /// Loads it.
    ///
    /// # Errors
    /// The kernel's types can't be read, or it refuses a map.
    pub fn load(file: &ObjectFile<[u8]>) -> Result<Self, BpfError> {
        Self::new(aya_obj::Object::parse(&file.0).map_err(refused)?)
    }

    /// Loads it with another size of its map `map`, and with `value` for its constant `name`.
    ///
    /// # Errors
    /// As those of [`load`](Self::load).
    pub fn load_with(
        file: &ObjectFile<[u8]>,
        (map, size): (&str, u32),
        (name, value): (&str, u32),
    ) -> Result<Self, BpfError> {
        let mut object = aya_obj::Object::parse(&file.0).map_err(refused)?;
        let map = object.maps.get_mut(map).ok_or_else(|| refused("no such map"))?;
        map.set_max_entries(size);
        let value = value.to_ne_bytes();
        object.patch_map_data(HashMap::from([(name, (&value[..], true))])).map_err(refused)?;
        Self::new(object)
    }

    fn new(mut object: aya_obj::Object) -> Result<Self, BpfError> {
        object.relocate_btf(&types_for(&object)?).map_err(refused)?;
        let of_file = std::mem::take(&mut object.maps);
        let made = of_file.iter().map(|(name, map)| Ok((name.clone(), call::map(map)?)));
        let maps: HashMap<String, OwnedFd> = made.collect::<io::Result<_>>().map_err(refused)?;
        let sections = object.functions.keys().map(|(section, _)| *section).collect();
        let with_maps = of_file.iter().map(|(name, map)| (&**name, maps[name].as_raw_fd(), map));
        object.relocate_maps(with_maps, &sections).map_err(refused)?;
        object.relocate_calls(&sections).map_err(refused)?;
        Ok(Self { object, maps })
    }

    /// A program of it for a list of the kernel's, as `task_file` or `tcp`.
    ///
    /// # Errors
    /// The kernel is too old or the rights are not there: `CAP_BPF` and `CAP_PERFMON`.
    pub fn program(&self, name: &str, list: &str) -> Result<Iteration, BpfError> {
        let program = self.object.programs.get(name);
        let function = program.and_then(|it| self.object.functions.get(&it.function_key()));
        let function = function.ok_or_else(|| refused("no such program"))?;
        let list = kernel_types()?.function(&format!("bpf_iter_{list}"));
        let list = list.ok_or_else(|| refused("it has no such iterator"))?;
        call::program(&function.instructions, &self.object.license, list)
            .map(Iteration)
            .map_err(refused)
    }

    /// The map that is called `name`.
    ///
    /// # Errors
    /// There is none.
    pub fn map(&self, name: &str) -> Result<BorrowedFd<'_>, BpfError> {
        self.maps.get(name).map(|map| map.as_fd()).ok_or_else(|| refused("no such map"))
    }
}

/// A program for a list.
#[derive(Debug)]
pub struct Iteration(OwnedFd);

impl Iteration {
    /// Runs it once over the list as the calling thread's namespaces have it, and hands what it writes to `take`:
    /// whole records.
    ///
    /// # Errors
    /// The list can't be read.
    pub fn run(&self, take: impl FnMut(&[u8])) -> Result<(), BpfError> {
        self.read(&[], take)
    }

    /// The same over the files of one process, by its number in the calling thread's PID namespace.
    ///
    /// # Errors
    /// The list can't be read: before Linux 6.1 there is none of one process.
    pub fn run_over(&self, pid: u32, take: impl FnMut(&[u8])) -> Result<(), BpfError> {
        // `task` of `union bpf_iter_link_info`: thread, process, pidfd.
        self.read(&[0, pid, 0], take)
    }

    fn read(&self, of: &[u32], mut take: impl FnMut(&[u8])) -> Result<(), BpfError> {
        let mut list = File::from(call::list(self.0.as_fd(), of)?);
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
}

/// Those that `object` needs of the running kernel's.
fn types_for(object: &aya_obj::Object) -> Result<Btf, BpfError> {
    let own = object.btf.as_ref().and_then(|own| Types::parse(own.to_bytes()));
    let own = own.ok_or_else(|| refused("the object has no types"))?;
    let needed = kernel_types()?.needed_by(&own);
    let needed = needed.ok_or_else(|| BpfError::NoTypes(UNKNOWN.to_owned()))?;
    Btf::parse(&needed, object.endianness).map_err(|error| BpfError::NoTypes(all_of(&error)))
}

/// Those of the running kernel, read once.
fn kernel_types() -> Result<&'static Types, BpfError> {
    static READ: OnceLock<Result<Types, String>> = OnceLock::new();
    let read = || {
        let bytes = fs::read(TYPES).map_err(|error| error.to_string())?;
        Types::parse(bytes).ok_or_else(|| UNKNOWN.to_owned())
    };
    READ.get_or_init(read).as_ref().map_err(|error| BpfError::NoTypes(error.clone()))
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
