//! Messages for tests: each with a serial number that says which one it is, all of them the same in
//! every run.

use std::io::{BufWriter, Write};
use std::path::Path;

/// Message number `serial`, CRLF line ends, a few hundred bytes, always the same.
pub fn message(serial: usize) -> Vec<u8> {
    message_by(&format!("Sender {0} <sender{0}@example.org>", serial % 97), serial)
}

/// The same by this author, as submission wants it: the text of `From`.
pub fn message_by(author: &str, serial: usize) -> Vec<u8> {
    let day = 1 + serial % 28;
    let lines = 1 + serial % 17;
    let mut text = format!(
        "Date: {day:02} Mar 2024 {:02}:{:02}:00 +0000\r\n\
         From: {author}\r\n\
         To: Ana <ana@example.org>\r\n\
         Subject: Message {serial} of many\r\n\
         Message-ID: <{serial}@example.org>\r\n\
         MIME-Version: 1.0\r\n\
         Content-Type: text/plain; charset=utf-8\r\n\
         Content-Transfer-Encoding: 8bit\r\n\
         X-Serial: {serial}\r\n\r\n",
        serial % 24,
        serial % 60,
    );
    for line in 0..lines {
        text += &format!("Line {line} of message {serial}: grüße, and some words to make it longer.\r\n");
    }
    text.into_bytes()
}

/// An mbox file of numbered messages.
pub struct Mbox;

impl Mbox {
    /// Writes messages `0..count` with LF line ends, as mbox files on Unix have them.
    pub fn write(file: &Path, count: usize) -> std::io::Result<()> {
        let mut out = BufWriter::new(std::fs::File::create(file)?);
        for serial in 0..count {
            writeln!(out, "From sender{}@example.org Fri Mar  1 00:00:00 2024", serial % 97)?;
            let text = message(serial);
            // `message` has no lone CR, so dropping every CR turns its line ends into LF.
            out.write_all(&text.iter().copied().filter(|&b| b != b'\r').collect::<Vec<u8>>())?;
            writeln!(out)?;
        }
        out.flush()
    }
}
