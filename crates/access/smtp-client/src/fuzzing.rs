//! Any bytes as the replies of a host that mail goes to, and as the policy of its domain. For the
//! fuzz targets `reply` and `sts`, and for the tests below.

use crate::reply::{Line, Reply};
pub use crate::sts::fuzzing::policy;

/// Lines of a host: each is read as it was written, and a refusal has a status of its class.
pub fn reply(data: &[u8]) {
    let mut lines = Vec::new();
    for bytes in data.split(|byte| *byte == b'\n') {
        let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
        let Some(line) = Line::parse(bytes) else { continue };
        let mark = if line.last { ' ' } else { '-' };
        let printed = format!("{}{mark}{}", line.code, line.text);
        assert_eq!(Line::parse(printed.as_bytes()).as_ref(), Some(&line), "printed: {printed:?}");
        let (code, last) = (line.code, line.last);
        lines.push(line.text);
        if !last {
            continue;
        }
        let reply = Reply { code, lines: std::mem::take(&mut lines) };
        let failure = reply.failure();
        assert_eq!((failure.permanent, reply.is_positive()), (code >= 500, code < 400));
        let class = if failure.permanent { "5." } else { "4." };
        let status = failure.status.as_str();
        assert!(status.starts_with(class) && status.len() <= 9 && status.is_ascii(), "{status:?}");
        assert!(!reply.text().contains('\n'), "a report has it in one line");
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn any_reply_is_read() {
        posthaste_testkit::fuzz_seeds("reply", 50_000, super::reply);
    }

    #[test]
    fn any_policy_is_refused_or_followed() {
        posthaste_testkit::fuzz_seeds("sts", 50_000, super::policy);
    }
}
