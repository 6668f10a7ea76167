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
    /// The place in the script.
    pub place: Position,
    /// The fault, and what to write instead.
    pub message: String,
}

impl CompileError {
    pub(crate) fn new(place: Position, message: impl Into<String>) -> Self {
        CompileError { place, message: message.into() }
    }
}

/// The faults of a script, in its order; never empty.
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

/// The reason why a run ended early. The message is kept then (RFC 5228 §2.10.6).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct RunError {
    /// The script: empty for the one that was run, else the name of an included one.
    pub script: String,
    /// The place in the script.
    pub place: Position,
    /// The fault.
    pub message: String,
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.script.is_empty() {
            write!(f, "script {}, ", self.script)?;
        }
        write!(f, "{}: {}", self.place, log_line(&self.message))
    }
}

/// Bytes of a message in a log: an administrator reads it, and a script may write it (RFC 5463
/// §5).
const LOG_LINE_BYTES_MAX: usize = 512;

/// A text that a script may have written, as a log can take it: on one line and not too long.
/// Otherwise it might look like another line of the log.
pub fn log_line(text: &str) -> String {
    let mut line = String::new();
    for c in text.chars() {
        let at = line.len();
        match c {
            // The line and paragraph separators end lines for some readers.
            '\u{2028}' | '\u{2029}' => line.extend(c.escape_default()),
            c if c.is_control() => line.extend(c.escape_default()),
            c => line.push(c),
        }
        if line.len() > LOG_LINE_BYTES_MAX - '…'.len_utf8() {
            line.truncate(at);
            line.push('…');
            break;
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_one_line_and_not_long() {
        let error = |message: &str| {
            RunError {
                script: String::new(),
                place: Position { line: 1, column: 2 },
                message: message.to_owned(),
            }
            .to_string()
        };
        assert_eq!(error("a ü\r\nb\u{2028}\x1b[1m"), r"line 1, column 2: a ü\r\nb\u{2028}\u{1b}[1m");
        for long in ["x".repeat(10_000), "\n".repeat(10_000), "ü".repeat(10_000)] {
            let line = log_line(&long);
            assert!(line.len() <= 512 && line.len() > 500 && line.ends_with('…'), "{line}");
        }
    }
}
