//! Finds them, and reads in one of them in a thread of its own.

use std::{
    collections::HashSet,
    fs::{self, File},
    io,
    os::fd::AsFd,
    os::unix::{ffi::OsStrExt, fs::MetadataExt},
    path::{Path, PathBuf},
    thread,
};

use rustix::{
    fs::fstatfs,
    process::geteuid,
    thread::{LinkNameSpaceType, move_into_link_name_space},
};
use stillopen_model::Namespace;

use super::parse::namespace_inode;
use crate::{CollectError, Namespaces, process::read::pids};

/// Where `ip netns` and Docker keep names. A file there is a namespace once it is mounted over.
const NAMES: [&str; 2] = ["/run/netns", "/var/run/docker/netns"];
const OWN: &str = "/proc/thread-self/ns/net";
/// `NSFS_MAGIC` (`include/uapi/linux/magic.h`)
const NSFS_MAGIC: u64 = 0x6e73_6673;
/// `PROC_PID_INIT_INO` (`include/linux/proc_ns.h`): the first PID namespace of the host.
const FIRST_PID_NAMESPACE: &[u8] = b"pid:[4026531836]";

/// One network namespace, and how to get there. It is not held open: that would keep it alive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    pub name: String,
    pub inode: u64,
    pub is_host: bool,
    /// `None`: this thread is in it.
    pub path: Option<PathBuf>,
}

impl Place {
    /// Its row of the snapshot.
    pub(crate) fn row(&self) -> Namespace {
        Namespace {
            name: self.name.clone(),
            inode: self.inode,
            is_host: self.is_host,
            sysctls: None,
            conntrack: None,
        }
    }
}

/// Whether this process sees every process of the host.
pub(crate) fn sees_every_pid() -> bool {
    fs::read_link("/proc/self/ns/pid")
        .is_ok_and(|link| link.as_os_str().as_bytes() == FIRST_PID_NAMESPACE)
}

/// What there is.
#[derive(Debug)]
pub(crate) struct Listed {
    pub places: Vec<Place>,
    /// How many processes did not let their namespace be seen.
    pub hidden: u32,
}

/// The namespaces that `which` means, this thread's first.
pub(crate) fn list(which: &Namespaces) -> Result<Listed, CollectError> {
    let here =
        inode_of(OWN.as_ref()).map_err(|cause| CollectError::Proc { path: OWN.into(), cause })?;
    let host = (geteuid().is_root() && sees_every_pid())
        .then(|| inode_of("/proc/1/ns/net".as_ref()).ok())
        .flatten();
    let place = |name: String, inode, path| {
        let is_host = host == Some(inode);
        let name = if is_host { "host".to_owned() } else { name };
        Place { name, inode, is_host, path: (inode != here).then_some(path) }
    };
    match which {
        Namespaces::This => {
            Ok(Listed { places: vec![place("this".to_owned(), here, OWN.into())], hidden: 0 })
        }
        Namespaces::Named(name) => {
            let (shown, path) = resolve(name)?;
            let inode = namespace_file(&path).and_then(|file| inode(&file)).map_err(|cause| {
                if cause.kind() == io::ErrorKind::NotFound {
                    let looked = format!("{} is not there", path.display());
                    CollectError::NoNamespace { name: name.clone(), looked }
                } else {
                    CollectError::Enter { name: name.clone(), cause }
                }
            })?;
            Ok(Listed { places: vec![place(shown, inode, path)], hidden: 0 })
        }
        Namespaces::All => {
            let mut seen = HashSet::from([here]);
            let mut places = Vec::new();
            let mut own_name = "this".to_owned();
            for (name, inode, path) in named() {
                if inode == here {
                    own_name = name;
                } else if seen.insert(inode) {
                    places.push(place(name, inode, path));
                }
            }
            let mut hidden = 0u32;
            for pid in pids()? {
                let path = PathBuf::from(format!("/proc/{pid}/ns/net"));
                match inode_of(&path) {
                    Ok(inode) if seen.insert(inode) => {
                        places.push(place(format!("pid {pid}"), inode, path));
                    }
                    Err(error) if error.kind() == io::ErrorKind::PermissionDenied => hidden += 1,
                    // Seen, or the process ended in mid-read.
                    Ok(_) | Err(_) => {}
                }
            }
            places.insert(0, place(own_name, here, OWN.into()));
            Ok(Listed { places, hidden })
        }
    }
}

/// The processes that are in the namespace of `place`, in ascending order.
pub(crate) fn processes_in(place: &Place) -> Result<Vec<u32>, CollectError> {
    let mut pids = pids()?;
    pids.retain(|pid| {
        inode_of(format!("/proc/{pid}/ns/net").as_ref()).is_ok_and(|inode| inode == place.inode)
    });
    Ok(pids)
}

/// Calls `read` in the namespace of `place`.
pub(crate) fn visit<T: Send>(place: &Place, read: impl FnOnce() -> T + Send) -> io::Result<T> {
    if place.path.is_none() {
        return Ok(read());
    }
    let file = open(place)?;
    // The thread ends in there: none that goes on is ever in another namespace than it started in.
    thread::scope(|scope| {
        let visitor = thread::Builder::new().spawn_scoped(scope, || {
            move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))?;
            Ok(read())
        })?;
        visitor.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Opens its file, if it is still the same namespace.
pub(crate) fn open(place: &Place) -> io::Result<File> {
    let file = namespace_file(place.path.as_deref().unwrap_or(OWN.as_ref()))?;
    if inode(&file)? == place.inode {
        Ok(file)
    } else {
        Err(io::Error::new(io::ErrorKind::NotFound, "it has gone"))
    }
}

/// How a namespace that was asked for is shown, and its file.
fn resolve(name: &str) -> Result<(String, PathBuf), CollectError> {
    if name.contains('/') {
        return Ok((name.to_owned(), name.into()));
    }
    let files = NAMES.map(|folder| Path::new(folder).join(name));
    if let Some(file) = files.into_iter().find(|file| !name.is_empty() && file.exists()) {
        return Ok((name.to_owned(), file));
    }
    if name.parse::<u32>().is_ok() {
        return Ok((format!("pid {name}"), format!("/proc/{name}/ns/net").into()));
    }
    let looked = format!("no file of this name in {}", NAMES.join(" or "));
    Err(CollectError::NoNamespace { name: name.to_owned(), looked })
}

fn named() -> Vec<(String, u64, PathBuf)> {
    let files = NAMES.iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten().flatten();
    let mut named: Vec<_> = files
        .filter_map(|file| {
            let inode = namespace_file(&file.path()).and_then(|file| inode(&file)).ok()?;
            Some((file.file_name().to_string_lossy().into_owned(), inode, file.path()))
        })
        .collect();
    named.sort();
    named
}

/// Opens it if it is a namespace: nothing else is an inode that means something here.
fn namespace_file(path: &Path) -> io::Result<File> {
    let file = File::open(path)?;
    let kind = fstatfs(&file)?.f_type;
    if u64::try_from(kind).ok() == Some(NSFS_MAGIC) {
        Ok(file)
    } else {
        Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a namespace"))
    }
}

fn inode(file: &File) -> io::Result<u64> {
    Ok(file.metadata()?.ino())
}

fn inode_of(link: &Path) -> io::Result<u64> {
    namespace_inode(fs::read_link(link)?.as_os_str().as_bytes())
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "it is not a network namespace"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_a_namespace_is_named_in_the_error() {
        for (name, said) in [
            ("no-such-name", "no file of this name"),
            ("4294967295", "/proc/4294967295/ns/net is not there"),
            ("/nowhere/net", "/nowhere/net is not there"),
            ("/proc/self/status", "it is not a namespace"),
            ("", "no file of this name"),
        ] {
            let error = list(&Namespaces::Named(name.to_owned())).unwrap_err();
            assert!(error.to_string().contains(said), "{name}: {error}");
        }
    }

    #[test]
    fn this_threads_namespace_needs_no_visit() {
        let by_path = list(&Namespaces::Named(OWN.to_owned())).unwrap().places;
        let this = list(&Namespaces::This).unwrap().places;
        assert_eq!((by_path[0].inode, &by_path[0].path), (this[0].inode, &None));
        let all = list(&Namespaces::All).unwrap().places;
        assert_eq!(all[0].inode, this[0].inode);
    }

    /// A new namespace has the kernel's defaults, whatever this one has, and its own sysctl folder.
    #[test]
    fn a_visit_reads_there_and_leaves_this_thread_here() {
        let (tell, told) = std::sync::mpsc::channel();
        let (release, released) = std::sync::mpsc::channel::<()>();
        let there = thread::spawn(move || {
            // SAFETY: a thread's network namespace is nothing that memory safety depends on.
            unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWNET) }
                .expect("this test makes a network namespace: it needs root");
            fs::write("/proc/sys/net/ipv4/tcp_keepalive_time", "77").unwrap();
            let tid = rustix::thread::gettid().as_raw_nonzero();
            // By a name of its own, that goes when the test says so: /proc shows a thread for a while after its end.
            let name = std::env::temp_dir().join(format!("stillopen-netns-{tid}"));
            std::os::unix::fs::symlink(format!("/proc/self/task/{tid}/ns/net"), &name).unwrap();
            tell.send(name.to_str().unwrap().to_owned()).unwrap();
            released.recv().unwrap_err();
        });
        let before = inode_of(OWN.as_ref()).unwrap();
        let name = told.recv().unwrap();
        let place = list(&Namespaces::Named(name.clone())).unwrap().places.remove(0);
        let read = || (inode_of(OWN.as_ref()).unwrap(), crate::sysctl::read::sysctls().unwrap());
        let (inode, sysctls) = visit(&place, read).unwrap();
        assert_eq!(inode, place.inode);
        assert_eq!(sysctls.keepalive_time_s, 77);
        assert_eq!(inode_of(OWN.as_ref()).unwrap(), before);
        assert_ne!(before, place.inode);

        fs::remove_file(name).unwrap();
        drop(release);
        there.join().unwrap();
        let gone = visit(&place, || ()).unwrap_err();
        assert_eq!(gone.kind(), io::ErrorKind::NotFound, "{gone}");
    }
}
