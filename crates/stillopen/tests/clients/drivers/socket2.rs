use std::io::{Read as _, Write as _};

@snippet@

fn main() {
    let mut stream = TcpStream::connect(std::env::args().nth(1).unwrap()).unwrap();
    keep_alive(&stream).unwrap();
    stream.write_all(b"x").unwrap();
    let _ = stream.read(&mut [0]);
}
