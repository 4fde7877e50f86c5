//! An HTTP server for the pages of this machine: one request per connection, and each connection on a thread of its own,
//! so that no request waits for a connection that a browser keeps open and does not use.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// How long a connection may be silent; a browser opens some of them long before it uses them.
const PATIENCE: Duration = Duration::from_secs(60);

/// The longest head and the longest body of a request that are read.
const LONGEST: u64 = 1 << 24;

/// What a browser asks for.
#[derive(Debug, PartialEq)]
pub(super) struct Request {
    /// `GET` or `POST`.
    pub(super) method: String,
    /// The path, with what follows it.
    pub(super) url: String,
    pub(super) body: Vec<u8>,
}

/// What it gets.
pub(super) struct Response {
    pub(super) status: &'static str,
    pub(super) kind: &'static str,
    pub(super) body: Vec<u8>,
}

impl Response {
    pub(super) fn ok(kind: &'static str, body: impl Into<Vec<u8>>) -> Response {
        Response {
            status: "200 OK",
            kind,
            body: body.into(),
        }
    }
}

/// A server of localhost that answers until it is dropped.
pub(super) struct Server {
    address: SocketAddr,
    is_closed: Arc<AtomicBool>,
    accepting: Option<thread::JoinHandle<()>>,
}

impl Server {
    /// Starts a server at `port`, where 0 is any free one.
    ///
    /// # Errors
    ///
    /// Returns an error if the port cannot be used.
    pub(super) fn start(
        port: u16,
        answer: impl Fn(Request) -> Response + Send + Sync + 'static,
    ) -> io::Result<Server> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
        let address = listener.local_addr()?;
        let (is_closed, answer) = (Arc::new(AtomicBool::new(false)), Arc::new(answer));
        let closed = is_closed.clone();
        let accepting = thread::spawn(move || {
            for stream in listener.incoming() {
                if closed.load(Ordering::Acquire) {
                    break;
                }
                let answer = answer.clone();
                // A browser that has left before its page arrived is no error.
                thread::spawn(move || stream.and_then(|stream| converse(stream, &*answer)));
            }
        });
        Ok(Server {
            address,
            is_closed,
            accepting: Some(accepting),
        })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Waits for its end, which does not come while it is not dropped.
    pub(super) fn wait(mut self) {
        if let Some(accepting) = self.accepting.take() {
            // A thread that panicked has said why.
            let _ = accepting.join();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.is_closed.store(true, Ordering::Release);
        // The connection wakes the thread that waits for one.
        let _ = TcpStream::connect(self.address);
    }
}

/// Reads the request of one connection and answers it.
fn converse(stream: TcpStream, answer: &impl Fn(Request) -> Response) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let Response { status, kind, body } = answer(read(BufReader::new(&stream))?);
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    (&stream).write_all(&[head.as_bytes(), &body].concat())
}

/// Reads one request.
fn read(stream: impl BufRead) -> io::Result<Request> {
    let invalid = |what| io::Error::new(io::ErrorKind::InvalidData, what);
    let mut stream = stream.take(LONGEST);
    let mut line = String::new();
    stream.read_line(&mut line)?;
    let mut words = line.split_whitespace().map(str::to_string);
    let (method, url) = words
        .next()
        .zip(words.next())
        .ok_or_else(|| invalid("a request begins with a method and a path"))?;
    let mut length = 0;
    loop {
        line.clear();
        stream.read_line(&mut line)?;
        if line.trim().is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value
                .trim()
                .parse()
                .map_err(|_| invalid("a length is a number"))?;
        }
    }
    let mut body = Vec::new();
    stream.take(length).read_to_end(&mut body)?;
    Ok(Request { method, url, body })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(text: &str) -> io::Result<Request> {
        read(text.as_bytes())
    }

    #[test]
    fn a_request_has_a_method_a_path_and_a_body() {
        let text = "POST /a?b HTTP/1.1\r\nHost: x\r\ncontent-length: 3\r\n\r\nabcd";
        let expected = Request {
            method: "POST".into(),
            url: "/a?b".into(),
            body: b"abc".to_vec(),
        };
        assert_eq!(request(text).expect("it is whole"), expected);
        assert!(request("\r\n").is_err());
        assert!(request("GET / HTTP/1.1\r\nContent-Length: x\r\n\r\n").is_err());
    }

    /// A browser opens six connections at once and keeps them; a server whose threads serve a connection to its end leaves
    /// some of them in a queue for ever.
    #[test]
    fn connections_that_are_open_at_once_are_all_answered() {
        let echo = |request: Request| Response::ok("text/plain", request.url);
        let server = Server::start(0, echo).expect("a port is free");
        let streams: Vec<TcpStream> = (0..24)
            .map(|_| TcpStream::connect(server.address()).expect("it listens"))
            .collect();
        for (number, mut stream) in streams.iter().enumerate().rev() {
            let text = format!("GET /{number} HTTP/1.1\r\nHost: x\r\n\r\n");
            stream.write_all(text.as_bytes()).expect("it is open");
        }
        for (number, mut stream) in streams.iter().enumerate() {
            let patience = Some(Duration::from_secs(20));
            stream.set_read_timeout(patience).expect("it is not zero");
            let mut text = String::new();
            stream.read_to_string(&mut text).expect("it is answered");
            assert!(text.ends_with(&format!("\r\n\r\n/{number}")), "{text}");
        }
    }
}
