//! The failure of a command, with its exit code.

use std::fmt::Display;

/// The reason why a command failed.
pub enum Failure {
    /// Exit code 1.
    Failed(String),
    /// Exit code 2.
    Usage(String),
    /// Exit code 1; the error was printed already.
    Printed,
    /// Exit code 3: the comparison is not decided, or the study not finished.
    Undecided,
}

impl Failure {
    /// Failed, with this message.
    pub fn failed(what: impl Display) -> Self {
        Self::Failed(what.to_string())
    }
    /// Wrong usage, with this message.
    pub fn usage(what: impl Display) -> Self {
        Self::Usage(what.to_string())
    }
}
