//! The messages between an agent and an instrument: one JSON object per line, both ways.
//!
//! Each end sends a nonce, and proves by an HMAC-SHA-256 of both that it knows the token. So the
//! token itself is never sent. The instrument proves it first, because strangers can connect to the
//! agent. The figures are neither encrypted nor signed.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::deadline::{TIMEOUT, Until};
use crate::machine::ClockFacts;
use crate::sample::Sample;

/// The longest line taken: a sample with some hundred roles.
const LINE_BYTES_MAX: u64 = 256 * 1024;
/// The version of this protocol. Agents of the first one sent no number, and proved nothing.
pub const VERSION: u32 = 2;
/// The remedy for ends of two versions.
pub const SAME_VERSION: &str = "use the same version of posthaste-load on both machines";

/// The agent's first line.
#[derive(Serialize, Deserialize)]
pub struct Challenge {
    pub nonce: String,
    #[serde(default)]
    pub version: u32,
}

/// The instrument's first line.
#[derive(Serialize, Deserialize)]
pub struct Hello {
    pub proof: String,
    /// An instrument of the first version sends none.
    pub nonce: Option<String>,
    pub pid: Option<u32>,
}

/// Every further line of the agent.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    Ready { proof: String },
    Sample(Box<Sample>),
    Clock(ClockFacts),
    Error(String),
}

/// The request for the agent's clock. Every other request is for a sample.
pub const CLOCK: &str = "clock";

/// An error of what the other side sent.
pub fn bad(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}

/// A connection: lines of JSON.
pub struct Lines {
    reader: BufReader<Until<TcpStream>>,
}

impl Lines {
    /// Takes over a connection.
    pub fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        Ok(Self { reader: BufReader::new(Until { stream, deadline: Instant::now() }) })
    }

    /// Sends one object.
    pub fn send<T: Serialize>(&mut self, value: &T) -> io::Result<()> {
        let mut line = serde_json::to_vec(value)?;
        line.push(b'\n');
        self.reader.get_mut().stream.write_all(&line)
    }

    /// Waits for one object.
    pub fn receive<T: for<'a> Deserialize<'a>>(&mut self) -> io::Result<T> {
        self.receive_by(Instant::now() + TIMEOUT)
    }

    /// Waits for one object, which must be whole by then.
    fn receive_by<T: for<'a> Deserialize<'a>>(&mut self, deadline: Instant) -> io::Result<T> {
        self.reader.get_mut().deadline = deadline;
        let mut line = Vec::new();
        self.reader.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line)?;
        if line.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(serde_json::from_slice(&line)?)
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_line_must_be_whole_by_its_deadline() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut lines = Lines::new(listener.accept().unwrap().0).unwrap();
        peer.write_all(b"\"sample\"\n").unwrap();
        let late = lines.receive_by::<String>(Instant::now()).unwrap_err();
        assert_eq!(late.kind(), io::ErrorKind::TimedOut);
        assert_eq!(lines.receive::<String>().unwrap(), "sample");
    }
}
