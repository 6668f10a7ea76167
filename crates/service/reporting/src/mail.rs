//! A report as a message: a text for people, and the report as a gzip file.

use std::fmt::Write as _;
use std::io::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use flate2::Compression;
use flate2::write::GzEncoder;
use posthaste_net::on_compute_thread;
use posthaste_queue::date_time;

/// Characters of a line of base64 (RFC 2045 §6.8).
const LINE_LEN: usize = 76;

/// The parts of a message.
pub(crate) struct ReportMail<'a> {
    pub host: &'a str,
    pub to: &'a str,
    pub subject: &'a str,
    /// Makes the Message-ID and the boundary.
    pub id: &'a str,
    pub now: i64,
    /// More fields of the header, each with its CR LF.
    pub fields: &'a str,
    /// Content-Type without its boundary: `multipart/mixed`.
    pub outer: &'a str,
    pub words: &'a str,
    /// Media type of the file.
    pub kind: &'a str,
    pub file: &'a str,
    /// Its content as [`attachment`] returns it.
    pub attachment: &'a str,
}

/// A file as the body of a part: compressed, in lines of base64. It is made on another thread,
/// because 390 KB of XML take 16 ms. `None` if that failed, which the log reports.
pub(crate) async fn attachment(content: impl FnOnce() -> Vec<u8> + Send + 'static) -> Option<String> {
    let made = on_compute_thread(move || encoded(&content())).await;
    let made = made.map_err(std::io::Error::other).flatten();
    made.inspect_err(|error| tracing::warn!(%error, "a report to another domain cannot be made")).ok()
}

fn encoded(content: &[u8]) -> std::io::Result<String> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
    gzip.write_all(content)?;
    let base64 = BASE64.encode(gzip.finish()?);
    let mut lines = String::with_capacity(base64.len() + base64.len() / 32 + 2);
    let mut rest = base64.as_str();
    while !rest.is_empty() {
        let (line, more) = rest.split_at(rest.len().min(LINE_LEN));
        lines.push_str(line);
        lines.push_str("\r\n");
        rest = more;
    }
    Ok(lines)
}

impl ReportMail<'_> {
    /// The message, without trace fields.
    pub fn print(&self) -> Vec<u8> {
        let Self { host, to, subject, id, fields, outer, words, kind, file, .. } = self;
        let (boundary, date) = (format!("report-{id}"), date_time(self.now));
        let mut text = String::with_capacity(self.attachment.len() + 2_048);
        let _ = write!(
            text,
            "From: Reports of {host} <postmaster@{host}>\r\nTo: <{to}>\r\nSubject: {subject}\r\nDate: {date}\r\n\
             Message-ID: <{id}@{host}>\r\nAuto-Submitted: auto-generated\r\n{fields}MIME-Version: 1.0\r\n\
             Content-Type: {outer};\r\n\tboundary=\"{boundary}\"\r\n\r\n\
             --{boundary}\r\nContent-Type: text/plain; charset=us-ascii\r\n\r\n{words}\r\n\
             --{boundary}\r\nContent-Type: {kind}\r\nContent-Transfer-Encoding: base64\r\n\
             Content-Disposition: attachment;\r\n\tfilename=\"{file}\"\r\n\r\n"
        );
        text.push_str(self.attachment);
        let _ = write!(text, "\r\n--{boundary}--\r\n");
        text.into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use posthaste_net::given_to_compute_threads;

    use super::*;

    #[tokio::test]
    async fn an_attachment_is_made_by_another_thread() {
        let given = given_to_compute_threads();
        let made = attachment(|| b"<feedback>".repeat(1_000)).await.unwrap();
        assert!(made.lines().all(|line| line.len() <= LINE_LEN) && made.ends_with("\r\n"));
        assert_eq!(given_to_compute_threads(), given + 1);
    }
}
