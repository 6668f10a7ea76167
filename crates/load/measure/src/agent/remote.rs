//! The instrument's end of an agent.

use std::io;
use std::net::{IpAddr, TcpStream, ToSocketAddrs};

use super::proof::{End, Nonces, hex, nonce, nonce_of};
use super::wire::{Answer, CLOCK, Challenge, Hello, Lines, SAME_VERSION, VERSION, bad};
use crate::deadline::TIMEOUT;
use crate::link::{network, peer};
use crate::machine::ClockFacts;
use crate::sample::Sample;

/// The fault of an agent that sends what this version does not expect.
fn other_version(address: &str) -> io::Error {
    bad(&format!("agent {address}: it has another version; {SAME_VERSION}"))
}

/// A connection to an agent that has accepted the token.
pub struct Remote {
    lines: Lines,
    address: String,
    peer: io::Result<IpAddr>,
}

impl Remote {
    /// Connects. Both ends prove that they know the token.
    pub fn connect(address: &str, token: &str, pid: Option<u32>) -> io::Result<Self> {
        let to = address.to_socket_addrs()?.next().ok_or_else(|| bad("the agent's name has no address"))?;
        let stream = TcpStream::connect_timeout(&to, TIMEOUT)?;
        let peer = peer(&stream);
        let mut lines = Lines::new(stream)?;
        let challenge: Challenge = lines.receive()?;
        if challenge.version != VERSION {
            return Err(other_version(address));
        }
        let nonces = Nonces { agent: nonce_of(&challenge.nonce)?, instrument: nonce()? };
        let own = nonces.proof(End::Instrument, token)?;
        lines.send(&Hello { proof: own, nonce: Some(hex(&nonces.instrument)), pid })?;
        match lines.receive()? {
            Answer::Ready { proof } if nonces.is_proof(&proof, End::Agent, token)? => {
                Ok(Self { lines, address: address.to_owned(), peer })
            }
            Answer::Ready { .. } => Err(bad(&format!(
                "agent {address}: it does not know the token, so it is another program; check the address"
            ))),
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
            Answer::Ready { .. } | Answer::Clock(_) => Err(other_version(&self.address)),
        }
    }

    /// Requests the time of its clock.
    pub fn clock(&mut self) -> io::Result<ClockFacts> {
        self.lines.send(&CLOCK)?;
        match self.lines.receive()? {
            Answer::Clock(facts) => Ok(facts),
            Answer::Error(why) => Err(bad(&format!("agent {}: {why}", self.address))),
            Answer::Ready { .. } | Answer::Sample(_) => Err(other_version(&self.address)),
        }
    }
}
