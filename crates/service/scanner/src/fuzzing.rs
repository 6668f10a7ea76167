//! Any bytes as an answer of rspamd. For the fuzz target `rspamd`, and for the test below.

use bytes::Bytes;

use crate::Verdict;
use crate::rspamd::understood;

const TRACE: &[u8] = b"Return-Path: <a@example.net>\r\nReceived: by us\r\n";
const MESSAGE: &[u8] = b"X-Spam: no\r\nFrom: a@example.net\r\nX-A: 1\r\nX-A: 2\r\n\r\nThe body\r\n";

/// Changed fields leave our trace, the body and the form of a header as they are. A reason fits a
/// reply.
pub fn answer(data: &[u8]) {
    let Ok(scan) = understood(data) else { return };
    if let Verdict::Defer(reason) | Verdict::Reject(reason) = &scan.verdict {
        assert!(reason.bytes().all(|byte| (0x20..0x7f).contains(&byte)) && reason.len() <= 200, "{reason:?}");
    }
    let message = Bytes::from([TRACE, MESSAGE].concat());
    let made = scan.fields.applied(&message, TRACE.len());
    let header = made.strip_prefix(TRACE).and_then(|rest| rest.strip_suffix(b"\r\n\r\nThe body\r\n"));
    let header = header.or_else(|| made.strip_prefix(TRACE)?.strip_suffix(b"\r\nThe body\r\n"));
    for line in header.expect("trace and body stay").split(|byte| *byte == b'\n') {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let is_field = line.iter().position(|byte| *byte == b':').is_some_and(|at| at > 0);
        let goes_on = line.starts_with(b" ") || line.starts_with(b"\t");
        assert!(line.is_empty() || is_field || goes_on, "{:?}", line.escape_ascii().to_string());
        assert!(!line.contains(&b'\r') && !line.contains(&0) && line.len() <= 998);
        let name = line.split(|byte| *byte == b':').next().unwrap_or_default();
        assert!(!name.eq_ignore_ascii_case(b"Authentication-Results"), "it is ours to write");
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn no_answer_breaks_a_message() {
        posthaste_testkit::fuzz_seeds("rspamd", 50_000, super::answer);
    }
}
