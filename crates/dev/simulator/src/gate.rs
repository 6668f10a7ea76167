//! A process that runs with others requests permission before each operation, each lock and some
//! reads, and waits for it. The controlling process sees the next operation of each, and lets one
//! of them continue at a time. So the seed decides how they interleave.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

/// One read in this many waits for permission. A check reads hundreds of records.
const READS: usize = 5;

/// How an operation fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// Nothing is done.
    Whole,
    /// Half of a write is done.
    Half,
}

/// The next operation of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum At {
    /// An operation that is recorded.
    Operation,
    /// Taking a lock.
    Lock,
    /// Taking a lock that somebody had a moment ago.
    TakenLock,
    /// Reading a file.
    Read,
}

/// The answer to a process that waits for permission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Leave {
    /// Go on.
    Go,
    /// Go on; the operation fails.
    Fail(Failure),
    /// Go on; the disk is full for the operation.
    Full,
}

/// The process's end of the line to the process that decides.
pub(crate) struct Gate {
    line: Mutex<UnixStream>,
    reads: AtomicUsize,
}

impl Gate {
    /// Connects to the process that decides.
    pub(crate) fn connect(path: &Path) -> io::Result<Self> {
        let line = Mutex::new(UnixStream::connect(path)?);
        Ok(Self { line, reads: AtomicUsize::new(0) })
    }

    /// Says a line and continues.
    pub(crate) fn say(&self, line: &str) {
        // An error means that the reader has ended: this process is about to be killed.
        let _ = self.line.lock().write_all(format!("{}\n", line.replace('\n', " ")).as_bytes());
    }

    /// Asks, and waits for the answer.
    pub(crate) fn ask(&self, at: At) -> Leave {
        let mut line = self.line.lock();
        let word = match at {
            At::Operation => "operation\n",
            At::Lock => "lock\n",
            At::TakenLock => "taken\n",
            At::Read => "read\n",
        };
        let mut answer = [0];
        if line.write_all(word.as_bytes()).is_err() || line.read_exact(&mut answer).is_err() {
            // The one that decides has ended, and nobody is interested any more.
            std::process::exit(1);
        }
        match answer {
            [b'f'] => Leave::Fail(Failure::Whole),
            [b'h'] => Leave::Fail(Failure::Half),
            [b's'] => Leave::Full,
            _ => Leave::Go,
        }
    }

    /// Whether this read must wait for permission.
    pub(crate) fn is_read_asked(&self) -> bool {
        self.reads.fetch_add(1, Ordering::Relaxed).is_multiple_of(READS)
    }
}

impl At {
    /// From the word of [`Gate::ask`].
    pub(crate) fn from_word(word: &str) -> Option<Self> {
        Some(match word {
            "operation" => Self::Operation,
            "lock" => Self::Lock,
            "taken" => Self::TakenLock,
            "read" => Self::Read,
            _ => return None,
        })
    }
}

impl Leave {
    /// The byte that says it.
    pub(crate) fn byte(self) -> u8 {
        match self {
            Self::Go => b'g',
            Self::Fail(Failure::Whole) => b'f',
            Self::Fail(Failure::Half) => b'h',
            Self::Full => b's',
        }
    }
}
