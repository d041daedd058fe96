//! What the guest has in its memory: this program as its init, the modules, the job, and what users' programs
//! need.

use super::{
    VmError,
    cpio::{About, EXECUTABLE},
    kernel::Kernel,
    modules::Modules,
    pack::Pack,
    protocol::Job,
};

/// This program in the guest.
pub(super) const PROGRAM: &str = "/stillopen";

/// Modules of every guest, each with what it needs.
const MODULES: [&str; 4] = ["veth", "dummy", "ip_vs", "ip_vs_rr"];
/// And of one where conntrack translates or a rule drops what it calls INVALID.
const CONNTRACK_MODULES: [&str; 5] =
    ["nf_conntrack", "nf_tables", "nft_ct", "nft_nat", "nft_chain_nat"];
/// And of one where programs run that may look at sockets: there is no modprobe to load it at need.
const DIAG_MODULES: [&str; 1] = ["tcp_diag"];
/// No image is larger.
const MOST: usize = 1 << 30;

/// An initramfs, and what to say of it on the kernel's command line.
pub(super) struct Image {
    pub(super) bytes: Vec<u8>,
    /// Where this program's libraries are.
    pub(super) library_path: String,
}

/// An image that has nothing but this program, for more to be put in.
pub(super) fn begin() -> Result<Pack, VmError> {
    let mut pack = Pack::new(MOST);
    pack.this_program(PROGRAM, EXECUTABLE)?;
    Ok(pack)
}

/// The initramfs for this job, with what is in `pack`.
pub(super) fn build(mut pack: Pack, kernel: &Kernel, job: &Job) -> Result<Image, VmError> {
    let modules = Modules::index(&kernel.modules)?;
    let conntrack = job.lanes.iter().any(super::lane::needs_conntrack);
    let programs = !job.processes.is_empty();
    let wanted = MODULES
        .iter()
        .chain(CONNTRACK_MODULES.iter().filter(|_| conntrack))
        .chain(DIAG_MODULES.iter().filter(|_| programs))
        .copied();
    let mut job = Job { hz: kernel.hz, ..job.clone() };
    let data = About { mode: 0o600, modified: 0 };
    for (name, bytes) in modules.closure(&wanted.collect::<Vec<_>>())? {
        pack.own(&format!("/modules/{name}.ko"), &bytes, data);
        job.modules.push(name);
    }
    let text = serde_json::to_vec(&job).map_err(|error| VmError::Protocol(error.to_string()))?;
    pack.own("/job.json", &text, data);
    Ok(Image { library_path: pack.library_path(), bytes: pack.finish() })
}
