//! The messages between an agent and an instrument: one JSON object per line, both ways.
//!
//! The agent sends a nonce. The instrument answers with its HMAC-SHA-256 under the token that both
//! have, so the token itself is never sent. The figures are not encrypted.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use hmac::{Hmac, Mac};
use serde::{Deserialize, Serialize};
use sha2::Sha256;

use crate::machine::ClockFacts;
use crate::sample::Sample;

/// The longest line taken: a sample with some hundred roles.
const LINE_BYTES_MAX: u64 = 256 * 1024;
/// Longest wait for the other side.
pub const TIMEOUT: Duration = Duration::from_secs(10);

/// The agent's first line.
#[derive(Serialize, Deserialize)]
pub struct Challenge {
    pub nonce: String,
}

/// The instrument's first line.
#[derive(Serialize, Deserialize)]
pub struct Hello {
    pub proof: String,
    pub pid: Option<u32>,
}

/// Every further line of the agent.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    Ready,
    Sample(Box<Sample>),
    Clock(ClockFacts),
    Error(String),
}

/// The request for the agent's clock. Every other request is for a sample.
pub const CLOCK: &str = "clock";

/// The HMAC of a nonce, to be sent or to be compared.
pub fn proof(token: &str, nonce: &str) -> Option<Hmac<Sha256>> {
    let mut mac = Hmac::<Sha256>::new_from_slice(token.as_bytes()).ok()?;
    mac.update(nonce.as_bytes());
    Some(mac)
}

/// Bytes as hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// Hexadecimal digits as bytes.
pub fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    text.as_bytes().chunks(2).map(digit).collect()
}

/// An error of what the other side sent.
pub fn bad(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}

/// A connection: lines of JSON.
pub struct Lines {
    reader: BufReader<TcpStream>,
}

impl Lines {
    /// Takes over a connection.
    pub fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        Ok(Self { reader: BufReader::new(stream) })
    }

    /// Sends one object.
    pub fn send<T: Serialize>(&mut self, value: &T) -> io::Result<()> {
        let mut line = serde_json::to_vec(value)?;
        line.push(b'\n');
        self.reader.get_mut().write_all(&line)
    }

    /// Waits for one object.
    pub fn receive<T: for<'a> Deserialize<'a>>(&mut self) -> io::Result<T> {
        let mut line = Vec::new();
        self.reader.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line)?;
        if line.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(serde_json::from_slice(&line)?)
    }
}
