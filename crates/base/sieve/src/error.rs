//! Where a script is wrong, and what to write instead.

use std::fmt;

/// A place in a script. Both numbers begin at 1; columns count characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Hash)]
pub struct Position {
    /// Line.
    pub line: u32,
    /// Character of the line.
    pub column: u32,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

/// One fault of a script.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {message}")]
pub struct CompileError {
    /// Where.
    pub place: Position,
    /// The fault, and what to write instead.
    pub message: String,
}

impl CompileError {
    pub(crate) fn new(place: Position, message: impl Into<String>) -> Self {
        CompileError { place, message: message.into() }
    }
}

/// All faults of a script, in its order; never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompileErrors(pub Vec<CompileError>);

impl std::error::Error for CompileErrors {}

impl fmt::Display for CompileErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            error.fmt(f)?;
        }
        Ok(())
    }
}

/// Why a run ended early. The message is kept then (RFC 5228 §2.10.6).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct RunError {
    /// The script: empty for the one that was run, else the name of an included one.
    pub script: String,
    /// Where.
    pub place: Position,
    /// The fault.
    pub message: String,
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.script.is_empty() {
            write!(f, "script {}, ", self.script)?;
        }
        write!(f, "{}: {}", self.place, self.message)
    }
}
