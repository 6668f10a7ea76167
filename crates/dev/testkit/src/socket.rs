//! The connection of a client, with TLS or without.

use std::io::{Read, Result, Write};
use std::net::{Shutdown, TcpStream};

#[cfg(feature = "tls")]
use crate::tls::Tls;

/// A socket.
pub(crate) enum Socket {
    Plain(TcpStream),
    #[cfg(feature = "tls")]
    Tls(Box<Tls>),
}

impl Socket {
    /// Says that nothing more will be sent. The peer may have hung up already.
    pub fn end(&mut self) {
        match self {
            Self::Plain(stream) => drop(stream.shutdown(Shutdown::Write)),
            #[cfg(feature = "tls")]
            // RFC 8446 §6.1: an alert ends one direction.
            Self::Tls(stream) => {
                stream.conn.send_close_notify();
                drop(stream.flush());
            }
        }
    }
}

impl Read for Socket {
    fn read(&mut self, into: &mut [u8]) -> Result<usize> {
        match self {
            Self::Plain(stream) => stream.read(into),
            #[cfg(feature = "tls")]
            Self::Tls(stream) => stream.read(into),
        }
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        match self {
            Self::Plain(stream) => stream.write(bytes),
            #[cfg(feature = "tls")]
            Self::Tls(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> Result<()> {
        match self {
            Self::Plain(stream) => stream.flush(),
            #[cfg(feature = "tls")]
            Self::Tls(stream) => stream.flush(),
        }
    }
}
