//! The instrument's end of an agent.

use std::io;
use std::net::{IpAddr, TcpStream, ToSocketAddrs};

use hmac::Mac;

use super::wire::{Answer, CLOCK, Challenge, Hello, Lines, TIMEOUT, bad, hex, proof};
use crate::link::{network, peer};
use crate::machine::ClockFacts;
use crate::sample::Sample;

/// The fault of an agent that sends what this version does not expect.
fn other_version(address: &str) -> io::Error {
    bad(&format!("agent {address}: it has another version; start the agent of this version there"))
}

/// A connection to an agent that has accepted the token.
pub struct Remote {
    lines: Lines,
    address: String,
    peer: io::Result<IpAddr>,
}

impl Remote {
    /// Connects and proves to know the token.
    pub fn connect(address: &str, token: &str, pid: Option<u32>) -> io::Result<Self> {
        let to = address.to_socket_addrs()?.next().ok_or_else(|| bad("the agent's name has no address"))?;
        let stream = TcpStream::connect_timeout(&to, TIMEOUT)?;
        let peer = peer(&stream);
        let mut lines = Lines::new(stream)?;
        let challenge: Challenge = lines.receive()?;
        let mac = proof(token, &challenge.nonce)
            .ok_or_else(|| bad("the token is no key for HMAC: pass another --token-file"))?;
        lines.send(&Hello { proof: hex(&mac.finalize().into_bytes()), pid })?;
        match lines.receive()? {
            Answer::Ready => Ok(Self { lines, address: address.to_owned(), peer }),
            Answer::Error(why) => Err(bad(&format!("agent {address}: {why}"))),
            Answer::Sample(_) | Answer::Clock(_) => Err(other_version(address)),
        }
    }

    /// Requests totals.
    pub fn sample(&mut self) -> io::Result<Sample> {
        self.lines.send(&"sample")?;
        match self.lines.receive()? {
            Answer::Sample(mut sample) => {
                sample.waits.network = network(&self.peer, &sample.waits.boot);
                sample.source = format!("agent {}: {}", self.address, sample.source);
                Ok(*sample)
            }
            Answer::Error(why) => Err(bad(&format!("agent {}: {why}", self.address))),
            Answer::Ready | Answer::Clock(_) => Err(other_version(&self.address)),
        }
    }

    /// Requests the time of its clock. An agent of an earlier version sends totals instead.
    pub fn clock(&mut self) -> io::Result<ClockFacts> {
        self.lines.send(&CLOCK)?;
        match self.lines.receive()? {
            Answer::Clock(facts) => Ok(facts),
            Answer::Error(why) => Err(bad(&format!("agent {}: {why}", self.address))),
            Answer::Ready | Answer::Sample(_) => Err(other_version(&self.address)),
        }
    }
}
