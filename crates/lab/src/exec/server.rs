//! The built-in server of `lab exec`: HTTP/1.1, any method and path, an answer some time after the whole
//! request was read. Plain threads, so that it runs in any process and in a guest.
//!
//! Its body is one that the incident's clients take: an empty list of issues (`http.rs`).

use std::{
    collections::HashMap,
    io::{self, BufRead, BufReader, Read, Write as _},
    net::{Shutdown, TcpListener, TcpStream},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread::{self, JoinHandle},
    time::Duration,
};

use rustix::{
    io::Errno,
    net::shutdown,
    process::{Resource, Rlimit, getrlimit, setrlimit},
};
use serde::Deserialize;

use crate::http::{Answer, Problem, REQUEST_ID};

/// Longer than any request's head is.
const MOST_HEAD: u64 = 256 * 1024;
/// As much of a body is kept, to find its id in; the rest is read and forgotten.
const MOST_KEPT: usize = 1 << 20;

/// Where the kernel has no room for a connection, it is asked again after this.
const NO_ROOM: Duration = Duration::from_millis(50);

/// A running server. It ends, with its connections and threads, when this is dropped.
#[derive(Debug)]
pub struct Builtin {
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    listener: TcpListener,
    answer_after: Duration,
    state: Mutex<State>,
    stopping: Condvar,
}

#[derive(Debug, Default)]
struct State {
    stopped: bool,
    next: u64,
    open: HashMap<u64, (Arc<TcpStream>, JoinHandle<()>)>,
    /// Why connections had to wait, the first time.
    short_of: Option<io::Error>,
}

impl Builtin {
    /// Serves the connections of `listener`; each request is answered `answer_after` it was read. Each
    /// connection takes one open file: the soft limit of this process becomes the hard one.
    ///
    /// # Errors
    /// There is no thread for it.
    pub fn start(listener: TcpListener, answer_after: Duration) -> io::Result<Self> {
        let limit = getrlimit(Resource::Nofile);
        // Where it can't be raised there is room for fewer, and connections wait.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
        let (state, stopping) = (Mutex::default(), Condvar::new());
        let shared = Arc::new(Shared { listener, answer_after, state, stopping });
        let own = Arc::clone(&shared);
        let acceptor = thread::Builder::new().name("lab-server".into());
        let acceptor = Some(acceptor.spawn(move || accept(&own))?);
        Ok(Self { shared, acceptor })
    }

    /// Why connections had to wait, and what would help, where some had to.
    #[must_use]
    pub fn shortage(&self) -> Option<String> {
        let state = self.shared.lock();
        let error = state.short_of.as_ref()?;
        let help = match Errno::from_io_error(error) {
            Some(Errno::MFILE) => ": raise the hard limit of open files (`ulimit -Hn`)",
            Some(Errno::AGAIN) => ": raise the limit of threads (`ulimit -u`)",
            _ => "",
        };
        Some(format!("connections had to wait for the built-in server: {error}{help}"))
    }
}

impl Drop for Builtin {
    fn drop(&mut self) {
        let open = {
            let mut state = self.shared.lock();
            state.stopped = true;
            std::mem::take(&mut state.open)
        };
        self.shared.stopping.notify_all();
        // On Linux this ends `accept`; one that is not connected any more needs no end.
        let _ = shutdown(&self.shared.listener, rustix::net::Shutdown::Both);
        for (stream, _) in open.values() {
            let _ = stream.shutdown(Shutdown::Both);
        }
        let threads = open.into_values().map(|(_, thread)| thread).chain(self.acceptor.take());
        for thread in threads {
            // A panic of it has been printed.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it was told to stop while it waited.
    fn wait(&self, time: Duration) -> bool {
        let waited = self.stopping.wait_timeout_while(self.lock(), time, |state| !state.stopped);
        waited.unwrap_or_else(PoisonError::into_inner).0.stopped
    }

    /// Waits until there may be room for what failed with `error`. Whether it was told to stop meanwhile.
    fn no_room(&self, error: io::Error) -> bool {
        self.lock().short_of.get_or_insert(error);
        self.wait(NO_ROOM)
    }
}

fn accept(shared: &Arc<Shared>) {
    loop {
        let accepted = shared.listener.accept();
        if shared.lock().stopped {
            return;
        }
        let stopped = match accepted {
            Ok((stream, _)) => take(shared, &Arc::new(stream)),
            // A connection that was gone before it was taken is no end of the server.
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => false,
            Err(error) => shared.no_room(error),
        };
        if stopped {
            return;
        }
    }
}

/// Serves a connection in a thread of its own, as soon as there is one. Whether the server was told to stop.
fn take(shared: &Arc<Shared>, stream: &Arc<TcpStream>) -> bool {
    loop {
        let mut state = shared.lock();
        if state.stopped {
            return true;
        }
        let number = state.next;
        let (own, served) = (Arc::clone(shared), Arc::clone(stream));
        let thread = thread::Builder::new().name("lab-connection".into()).spawn(move || {
            // The client has gone, or the path has cut it off: nobody to tell.
            let _ = serve(&own, &served);
            // It may have been taken out to be joined.
            own.lock().open.remove(&number);
        });
        match thread {
            Ok(thread) => {
                state.next += 1;
                state.open.insert(number, (Arc::clone(stream), thread));
                return false;
            }
            Err(error) => {
                drop(state);
                if shared.no_room(error) {
                    return true;
                }
            }
        }
    }
}

/// Answers the requests of one connection until either side closes it.
fn serve(shared: &Shared, stream: &TcpStream) -> io::Result<()> {
    let mut reader = BufReader::new(stream);
    loop {
        let request = match Request::read(&mut reader, stream) {
            Ok(Some(request)) => request,
            Ok(None) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                let body = serde_json::to_string(&Problem { error: error.to_string() })?;
                return answer(stream, "400 Bad Request", &body, &Request::default());
            }
            Err(error) => return Err(error),
        };
        if shared.wait(shared.answer_after) {
            return Ok(());
        }
        let took_s = shared.answer_after.as_secs_f64();
        let body = Answer { id: request.id.clone(), issues: Vec::new(), rounds: 0, took_s };
        answer(stream, "200 OK", &serde_json::to_string(&body)?, &request)?;
        if !request.goes_on {
            return stream.shutdown(Shutdown::Write);
        }
    }
}

fn answer(mut stream: &TcpStream, status: &str, body: &str, to: &Request) -> io::Result<()> {
    let close = if to.goes_on { "" } else { "connection: close\r\n" };
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n{close}\r\n",
        body.len()
    );
    let body = if to.head_only { "" } else { body };
    // One write: an answer is one segment.
    stream.write_all((head + body).as_bytes())
}

/// What matters of a request. The default is of one that could not be read.
#[derive(Debug, Default, PartialEq, Eq)]
struct Request {
    id: String,
    /// HEAD: an answer has no body.
    head_only: bool,
    /// The connection takes another request afterwards.
    goes_on: bool,
}

#[derive(Default, Deserialize)]
struct Asked {
    #[serde(default)]
    id: String,
}

impl Request {
    /// Reads one, body and all; `None`: the connection has ended. `InvalidData`: it is none.
    fn read(reader: &mut impl BufRead, mut interim: impl io::Write) -> io::Result<Option<Self>> {
        if reader.fill_buf()?.is_empty() {
            return Ok(None);
        }
        let mut head = reader.by_ref().take(MOST_HEAD);
        // Empty lines before a request are passed over (RFC 9112 §2.2).
        let mut line = read_line(&mut head)?;
        while line.is_empty() {
            line = read_line(&mut head)?;
        }
        let mut words = line.split_ascii_whitespace();
        let (method, version) = (words.next().unwrap_or_default(), words.nth(1));
        let version = version.filter(|version| version.starts_with("HTTP/1."));
        let version = version.ok_or_else(|| bad("not a request of HTTP/1.1"))?;
        let mut request =
            Self { id: String::new(), head_only: method == "HEAD", goes_on: version != "HTTP/1.0" };
        let (mut length, mut chunked, mut expects) = (0, false, false);
        loop {
            let line = read_line(&mut head)?;
            if line.is_empty() {
                break;
            }
            let (name, value) = line.split_once(':').ok_or_else(|| bad("a header has no colon"))?;
            let (name, value) = (name.to_ascii_lowercase(), value.trim());
            let says = |word: &str| value.to_ascii_lowercase().contains(word);
            match name.as_str() {
                "content-length" => {
                    length = value.parse().map_err(|_| bad("content-length is not a number"))?;
                }
                "transfer-encoding" => chunked = says("chunked"),
                "connection" if says("close") => request.goes_on = false,
                "connection" if says("keep-alive") => request.goes_on = true,
                "expect" => expects = says("100-continue"),
                name if name == REQUEST_ID => value.clone_into(&mut request.id),
                _ => {}
            }
        }
        if expects {
            interim.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
        }
        let mut kept = Vec::new();
        if chunked {
            read_chunks(reader, &mut kept)?;
        } else {
            read_exactly(reader, length, &mut kept)?;
        }
        if request.id.is_empty() {
            // Not every body is a document of the job's.
            request.id = serde_json::from_slice::<Asked>(&kept).unwrap_or_default().id;
        }
        Ok(Some(request))
    }
}

/// Chunks, and the trailer (RFC 9112 §7.1).
fn read_chunks(reader: &mut impl BufRead, kept: &mut Vec<u8>) -> io::Result<()> {
    loop {
        let line = read_line(reader)?;
        let size = line.split(';').next().unwrap_or_default().trim();
        let size = u64::from_str_radix(size, 16).map_err(|_| bad("a chunk has no size"))?;
        if size == 0 {
            while !read_line(reader)?.is_empty() {}
            return Ok(());
        }
        read_exactly(reader, size, kept)?;
        if !read_line(reader)?.is_empty() {
            return Err(bad("a chunk is longer than it says"));
        }
    }
}

fn read_line(reader: &mut impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    reader.take(MOST_HEAD).read_line(&mut line)?;
    if !line.ends_with('\n') {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(line.trim_end().to_owned())
}

/// Reads `length` bytes and keeps the first of all.
fn read_exactly(reader: &mut impl BufRead, length: u64, kept: &mut Vec<u8>) -> io::Result<()> {
    let room = u64::try_from(MOST_KEPT.saturating_sub(kept.len())).unwrap_or(0);
    let first = length.min(room);
    let got = reader.take(first).read_to_end(kept)?;
    let rest = io::copy(&mut reader.take(length - first), &mut io::sink())?;
    if got as u64 + rest < length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(())
}

fn bad(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> (io::Result<Option<Request>>, String) {
        let mut interim = Vec::new();
        let request = Request::read(&mut BufReader::new(bytes), &mut interim);
        (request, String::from_utf8(interim).unwrap())
    }

    #[test]
    fn requests_with_either_kind_of_body() {
        for (head, body) in [
            ("content-length: 10\r\n", "{\"id\":\"a\"}"),
            (
                "Transfer-Encoding: chunked\r\n",
                "4\r\n{\"id\r\n6;x=1\r\n\":\"a\"}\r\n0\r\nt: 1\r\n\r\n",
            ),
            ("x-request-id: a\r\n", ""),
        ] {
            let text = format!("\r\nPOST /v1/issues HTTP/1.1\r\nhost: a\r\n{head}\r\n{body}");
            let request = read(text.as_bytes()).0.unwrap().unwrap();
            let is = Request { id: "a".into(), head_only: false, goes_on: true };
            assert_eq!(request, is, "{text}");
            // Cut short anywhere it is no request, and no panic.
            for length in 1..text.len() {
                assert!(read(&text.as_bytes()[..length]).0.is_err(), "{length} of {text}");
            }
        }
        assert!(read(b"").0.unwrap().is_none());
    }

    #[test]
    fn what_the_head_asks_for() {
        let (request, interim) = read(b"HEAD / HTTP/1.0\r\n\r\n");
        let request = request.unwrap().unwrap();
        assert!(request.head_only && !request.goes_on && interim.is_empty());
        let asked = b"PUT / HTTP/1.1\r\nExpect: 100-continue\r\nConnection: Close\r\n\r\n";
        let (request, interim) = read(asked);
        assert!(!request.unwrap().unwrap().goes_on);
        assert_eq!(interim, "HTTP/1.1 100 Continue\r\n\r\n");
    }

    #[test]
    fn what_is_no_request_is_refused() {
        for bytes in [
            "hello\r\n",
            "GET / SPDY/3\r\n\r\n",
            "GET / HTTP/1.1\r\nhost\r\n\r\n",
            "GET / HTTP/1.1\r\ncontent-length: some\r\n\r\n",
            "GET / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
            "GET / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n1\r\nabc\r\n0\r\n\r\n",
        ] {
            let error = read(bytes.as_bytes()).0.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{bytes}");
        }
    }

    #[test]
    fn it_answers_on_one_connection_again_and_again_and_ends_when_dropped() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = Builtin::start(listener, Duration::ZERO).unwrap();
        let mut stream = TcpStream::connect(address).unwrap();
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        for id in ["a", "b"] {
            write!(stream, "POST /{id} HTTP/1.1\r\nx-request-id: {id}\r\n\r\n").unwrap();
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") {
                assert_ne!(reader.read_line(&mut head).unwrap(), 0);
            }
            assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
            let length = head.split_once("content-length: ").unwrap().1.lines().next().unwrap();
            let mut body = vec![0; length.parse().unwrap()];
            reader.read_exact(&mut body).unwrap();
            let answer: Answer = serde_json::from_slice(&body).unwrap();
            assert_eq!((answer.id.as_str(), answer.issues.len()), (id, 0));
        }
        // One that waits for an answer is not waited for.
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let slow = Builtin::start(listener.try_clone().unwrap(), Duration::MAX).unwrap();
        let mut waiting = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        waiting.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        drop((server, slow));
        assert_eq!(reader.read(&mut [0]).unwrap(), 0);
    }
}
