//! Logs as the configuration says, and what goes to standard output.

use std::io::Write as _;

use posthaste_logging::{Format, LevelError};

use crate::config::{Log, LogFormat};
use crate::failure::{Failure, Result};

/// Changes the level of a running program.
pub struct Level(posthaste_logging::Level);

impl Level {
    /// Changes the level from now on.
    pub fn set(&self, log: &Log) -> Result<()> {
        self.0.set(&log.level).map_err(failure)
    }
}

/// Starts logging. Called once.
pub fn start(log: &Log) -> Result<Level> {
    let format = match log.format {
        LogFormat::Text => Format::Text,
        LogFormat::Json => Format::Json,
    };
    posthaste_logging::start(&log.level, format).map(Level).map_err(failure)
}

/// Leaves the writing of lines to a thread. Only a server logs so much that this matters.
pub fn write_in_batches() {
    if let Err(error) = posthaste_logging::write_in_batches() {
        tracing::warn!(%error, "there is no thread for the log, so each line is written at once");
    }
    // A panic may end the process. Its message comes after the lines that were before it.
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        flush();
        report(panic);
    }));
}

/// Writes what waits. Called before the process ends.
pub fn flush() {
    posthaste_logging::flush();
}

fn failure(error: LevelError) -> Failure {
    Failure::Usage(error.to_string())
}

/// Writes to standard output; whether that worked. It may be a file on a full disk, or a pipe that
/// nobody reads any more: mail is served anyway.
pub fn say(text: &str) -> bool {
    let mut output = std::io::stdout().lock();
    let said = writeln!(output, "{text}").and_then(|()| output.flush());
    if let Err(error) = &said {
        tracing::warn!(%error, "standard output cannot be written");
    }
    said.is_ok()
}

/// A text for a terminal, with its lines. Names of files are of those who made them, and records of
/// a backup of those who sent it. Their control characters are shown and not sent: on a terminal
/// they could hide or forge what is shown.
pub fn for_terminal(text: &str) -> String {
    posthaste_logging::escaped(text, |c| !c.is_control() || matches!(c, '\n' | '\t'))
}

/// The same on one line: no name begins another.
pub fn for_line(text: &str) -> String {
    posthaste_logging::escaped(text, |c| !c.is_control())
}

/// JSON for a terminal. What prints JSON escapes no control characters from U+007F on.
pub fn json_line(value: &serde_json::Value) -> String {
    let mut line = String::new();
    for c in value.to_string().chars() {
        match c.is_control() {
            true => line += &format!("\\u{:04x}", u32::from(c)),
            false => line.push(c),
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use posthaste_delivery::import::ImportError;

    use super::*;

    #[test]
    fn a_name_does_not_move_the_cursor() {
        let (path, why) = (PathBuf::from("/mail/a\u{1b}[2Jb\r\u{9b}1A"), "it is\n\ta lïne".to_owned());
        let failure = Failure::from(ImportError::Source { path, why });
        assert_eq!(for_terminal(&failure.to_string()), "/mail/a\\u{1b}[2Jb\\r\\u{9b}1A: it is\n\ta lïne");
    }

    #[test]
    fn a_name_in_a_list_begins_no_line_and_json_is_still_json() {
        assert_eq!(for_line("a\u{1b}[2J\nb\tc\u{9b}"), "a\\u{1b}[2J\\nb\\tc\\u{9b}");
        let value = serde_json::json!({"name": "a\u{1b}\u{7f}\u{9b}ï\\"});
        let line = json_line(&value);
        assert!(!line.chars().any(char::is_control), "{line:?}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&line).unwrap(), value);
    }
}
