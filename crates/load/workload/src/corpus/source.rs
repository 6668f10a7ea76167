//! Mail given by the user: an mbox file, a Maildir, a folder of .eml files or one such file.
//!
//! Files are listed first and read one at a time. Serial and digest are put before each message, so
//! that a fetched message can be checked as for generated mail.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::digest::{DIGEST_HEADER, SERIAL_HEADER, digest_of};
use super::{Serial, serial_token};

/// The reason why mail could not be read.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The file cannot be read.
    #[error("{path}: {source}")]
    Io {
        /// The file that was read.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// There is nothing in it.
    #[error("{0}: no messages found (an mbox file, a Maildir, a folder of .eml files or one .eml file)")]
    Empty(PathBuf),
}

/// The place of each message.
#[derive(Clone, Debug)]
pub struct UserMail(Vec<MessageSource>);

#[derive(Clone, Debug)]
struct MessageSource {
    file: PathBuf,
    /// Bytes of the file; all of it if `None`.
    range: Option<(u64, u64)>,
}

impl UserMail {
    /// Finds the messages in a file or folder.
    pub fn open(path: &Path) -> Result<Self, SourceError> {
        let fail = |source| SourceError::Io { path: path.to_owned(), source };
        let mut places = Vec::new();
        if path.is_dir() {
            let maildir = path.join("cur").is_dir();
            let folders =
                if maildir { vec![path.join("cur"), path.join("new")] } else { vec![path.to_owned()] };
            for folder in folders.iter().filter(|f| f.is_dir()) {
                for entry in fs::read_dir(folder).map_err(fail)? {
                    let file = entry.map_err(fail)?.path();
                    if file.is_file() && (maildir || file.extension().is_some_and(|e| e == "eml")) {
                        places.push(MessageSource { file, range: None });
                    }
                }
            }
            places.sort_by(|a, b| a.file.cmp(&b.file));
        } else {
            let bytes = fs::read(path).map_err(fail)?;
            if bytes.starts_with(b"From ") {
                let whole = |range| MessageSource { file: path.to_owned(), range: Some(range) };
                places.extend(mbox_ranges(&bytes).into_iter().map(whole));
            } else if !bytes.is_empty() {
                places.push(MessageSource { file: path.to_owned(), range: None });
            }
        }
        if places.is_empty() { Err(SourceError::Empty(path.to_owned())) } else { Ok(Self(places)) }
    }

    /// The number of messages.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Appends message `number` (round and round) to `out` under this serial.
    pub fn write(&self, number: usize, serial: Serial, out: &mut Vec<u8>) -> Result<(), SourceError> {
        let Some(place) = self.0.get(number % self.0.len().max(1)) else { return Ok(()) };
        let fail = |source| SourceError::Io { path: place.file.clone(), source };
        let mut bytes = fs::read(&place.file).map_err(fail)?;
        if let Some((start, end)) = place.range {
            let message = bytes.get(start as usize..end as usize);
            let shorter = || fail(io::Error::new(io::ErrorKind::UnexpectedEof, "it became shorter"));
            bytes = message.ok_or_else(shorter)?.to_vec();
        }
        let mail = with_crlf(&bytes);
        let (token, digest) = (serial_token(serial), digest_of(&mail));
        out.extend_from_slice(format!("{SERIAL_HEADER}{token}\r\n{DIGEST_HEADER}{digest}\r\n").as_bytes());
        out.extend_from_slice(&mail);
        Ok(())
    }
}

/// The byte range of each message of an mbox, without its "From " line.
fn mbox_ranges(bytes: &[u8]) -> Vec<(u64, u64)> {
    let mut starts: Vec<usize> = vec![0];
    starts.extend(memchr::memmem::find_iter(bytes, b"\n\nFrom ").map(|at| at + 2));
    starts.extend(memchr::memmem::find_iter(bytes, b"\r\n\r\nFrom ").map(|at| at + 4));
    starts.sort_unstable();
    let ends = starts.iter().skip(1).copied().chain([bytes.len()]);
    starts
        .iter()
        .zip(ends)
        .filter_map(|(&start, end)| {
            let line = memchr::memchr(b'\n', bytes.get(start..end)?)?;
            Some(((start + line + 1) as u64, end as u64))
        })
        .collect()
}

/// Every line ending as CRLF.
fn with_crlf(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len() + bytes.len() / 40);
    for line in bytes.split_inclusive(|&b| b == b'\n') {
        match line.strip_suffix(b"\n") {
            Some(text) => {
                out.extend_from_slice(text.strip_suffix(b"\r").unwrap_or(text));
                out.extend_from_slice(b"\r\n");
            }
            None => out.extend_from_slice(line),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::corpus::{Verdict, Verifier};

    #[test]
    fn mbox_and_eml_are_found_and_carry_serials() {
        let dir = tempfile::tempdir().unwrap();
        let mbox = dir.path().join("mail.mbox");
        fs::write(&mbox, "From a\nSubject: 1\n\none\n\nFrom b\nSubject: 2\n\ntwo\n").unwrap();
        let mail = UserMail::open(&mbox).unwrap();
        assert_eq!(mail.count(), 2);
        let mut out = Vec::new();
        mail.write(3, 77, &mut out).unwrap();
        let mut verifier = Verifier::default();
        verifier.feed(&out);
        assert_eq!(verifier.verdict(), Verdict::Good(77));
        assert!(out.ends_with(b"Subject: 2\r\n\r\ntwo\r\n"));
        let empty = dir.path().join("none");
        fs::create_dir(&empty).unwrap();
        assert!(UserMail::open(&empty).is_err());
        fs::write(empty.join("x.eml"), "Subject: x\n\ny\n").unwrap();
        assert_eq!(UserMail::open(&empty).unwrap().count(), 1);
    }
}
