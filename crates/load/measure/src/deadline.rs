//! Answers with a deadline. The timeout of a socket begins again with each octet, so a peer that
//! sends one now and then would never be left.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// Longest wait for a connection, and for the next octets of an answer.
pub const TIMEOUT: Duration = Duration::from_secs(10);

/// A stream with a timeout of its own for each read.
pub trait Timed: Read + Write {
    /// Sets the longest wait of the next reads.
    fn set_wait(&self, most: Duration) -> io::Result<()>;
}

impl Timed for TcpStream {
    fn set_wait(&self, most: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(most))
    }
}

impl Timed for UnixStream {
    fn set_wait(&self, most: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(most))
    }
}

/// A stream that is read until a deadline.
pub struct Until<S> {
    /// The stream.
    pub stream: S,
    /// The end of all reads.
    pub deadline: Instant,
}

impl<S: Timed> Read for Until<S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(late());
        }
        self.stream.set_wait(left.min(TIMEOUT))?;
        // The timeout of a socket is reported as EAGAIN (socket(7)).
        self.stream.read(buffer).map_err(|e| if e.kind() == io::ErrorKind::WouldBlock { late() } else { e })
    }
}

fn late() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "no whole answer came in time")
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    /// A peer that always has one more octet.
    #[derive(Default)]
    struct Trickle(RefCell<Vec<Duration>>);

    impl Read for Trickle {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            buffer[0] = b'x';
            Ok(1)
        }
    }

    impl Write for Trickle {
        fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
            Ok(octets.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Timed for Trickle {
        fn set_wait(&self, most: Duration) -> io::Result<()> {
            self.0.borrow_mut().push(most);
            Ok(())
        }
    }

    #[test]
    fn a_peer_that_trickles_is_left_at_the_deadline() {
        let deadline = Instant::now() + Duration::from_millis(20);
        let mut until = Until { stream: Trickle::default(), deadline };
        let error = io::copy(&mut until, &mut io::sink()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        // Each read has only the time that is left.
        let waits = until.stream.0.into_inner();
        assert!(waits.iter().is_sorted_by(|before, after| before >= after));
        let far = Instant::now() + 10 * TIMEOUT;
        let mut until = Until { stream: Trickle::default(), deadline: far };
        assert_eq!(until.read(&mut [0]).unwrap(), 1);
        assert_eq!(until.stream.0.into_inner(), [TIMEOUT]);
    }
}
