//! The lines that a server wrote to its standard error.
//!
//! The log is a file, not a pipe. A line that the server wrote before an answer is in the file when
//! the answer arrives. A reader of a pipe gets it only when its thread runs.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::process::Stdio;
use std::sync::{Mutex, PoisonError};

/// The log of one process. Each look reads what has been written so far.
pub(crate) struct Log {
    file: File,
    read: Mutex<Read>,
}

#[derive(Default)]
struct Read {
    lines: Vec<String>,
    /// The octets of the file that `lines` hold.
    octets: u64,
}

impl Log {
    /// An empty log without a name, and the handle that a child writes to.
    pub(crate) fn new() -> std::io::Result<(Self, Stdio)> {
        let file = tempfile::tempfile()?;
        let child = file.try_clone()?;
        Ok((Self { file, read: Mutex::default() }, child.into()))
    }

    /// The whole lines so far that hold a text.
    pub(crate) fn lines_with(&self, what: &str) -> Vec<String> {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        read.advance(&self.file);
        read.lines.iter().filter(|line| line.contains(what)).cloned().collect()
    }

    /// All of it.
    pub(crate) fn text(&self) -> String {
        self.lines_with("").iter().fold(String::new(), |text, line| text + line + "\n")
    }
}

impl Read {
    /// Reads the lines written since. A line without its end waits for the next call.
    fn advance(&mut self, file: &File) {
        let len = file.metadata().expect("an open file").len();
        let mut new = vec![0; usize::try_from(len - self.octets).expect("a log that fits memory")];
        file.read_exact_at(&mut new, self.octets).expect("what the file holds");
        let whole = new.iter().rposition(|&octet| octet == b'\n').map_or(0, |end| end + 1);
        self.lines.extend(String::from_utf8_lossy(&new[..whole]).lines().map(str::to_owned));
        self.octets += whole as u64;
    }
}

impl Drop for Log {
    /// Shows it on the standard error of the test, which a test that fails prints.
    fn drop(&mut self) {
        for line in self.lines_with("") {
            eprintln!("server: {line}");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn written_lines_can_be_read_at_once() {
        let (log, stderr) = Log::new().unwrap();
        let mut shell = Command::new("sh");
        shell.args(["-c", "echo one two >&2; printf 'half a' >&2"]).stderr(stderr);
        assert!(shell.status().unwrap().success());
        assert_eq!(log.lines_with("two"), ["one two"]);
        assert!(log.lines_with("half").is_empty());
        assert_eq!(log.text(), "one two\n");
    }
}
