//! The instrument's end of an agent.

use std::io;
use std::net::{TcpStream, ToSocketAddrs};

use hmac::Mac;

use super::wire::{Answer, Challenge, Hello, Lines, PATIENCE, bad, hex, proof};
use crate::sample::Sample;

/// A connection to an agent that has accepted the token.
pub struct Remote {
    lines: Lines,
    address: String,
}

impl Remote {
    /// Connects and proves to know the token.
    pub fn connect(address: &str, token: &str, pid: Option<u32>) -> io::Result<Self> {
        let to = address.to_socket_addrs()?.next().ok_or_else(|| bad("the agent's name has no address"))?;
        let mut lines = Lines::new(TcpStream::connect_timeout(&to, PATIENCE)?)?;
        let challenge: Challenge = lines.receive()?;
        let mac = proof(token, &challenge.nonce).ok_or_else(|| bad("the token cannot be used"))?;
        lines.send(&Hello { proof: hex(&mac.finalize().into_bytes()), pid })?;
        match lines.receive()? {
            Answer::Ready => Ok(Self { lines, address: address.to_owned() }),
            Answer::Error(why) => Err(bad(&format!("agent {address}: {why}"))),
            Answer::Sample(_) => Err(bad("agent: an answer out of order")),
        }
    }

    /// Requests totals.
    pub fn sample(&mut self) -> io::Result<Sample> {
        self.lines.send(&"sample")?;
        match self.lines.receive()? {
            Answer::Sample(mut sample) => {
                sample.source = format!("agent {}: {}", self.address, sample.source);
                Ok(*sample)
            }
            Answer::Error(why) => Err(bad(&format!("agent {}: {why}", self.address))),
            Answer::Ready => Err(bad("agent: an answer out of order")),
        }
    }
}
