//! The head of a request of HTTP/1.1, as far as one page needs it. The fuzz target `https` includes
//! this file by its path.

/// The head of a request.
pub struct Request<'h> {
    pub method: &'h str,
    pub path: &'h str,
    /// In lower case, without its port.
    pub host: String,
}

impl<'h> Request<'h> {
    /// Reads the head of a request (RFC 9112 §3); `None` if it is not one.
    pub fn parse(head: &'h str) -> Option<Self> {
        // RFC 9112 §2.2: a CR alone makes it invalid.
        if head.lines().any(|line| line.contains('\r')) {
            return None;
        }
        let mut lines = head.lines();
        let mut words = lines.next()?.split(' ');
        let (method, path, version) = (words.next()?, words.next()?, words.next()?);
        if words.next().is_some() || !version.starts_with("HTTP/1.") {
            return None;
        }
        let fields = lines.filter_map(|line| line.split_once(':'));
        let mut hosts = fields.filter(|(name, _)| name.eq_ignore_ascii_case("host"));
        let (_, host) = hosts.next()?;
        if hosts.next().is_some() {
            // RFC 9112 §3.2.
            return None;
        }
        let host = host.trim().to_ascii_lowercase();
        let host = host.split(':').next().unwrap_or_default();
        let host = host.trim_end_matches(|end: char| end == '.' || end.is_whitespace()).to_owned();
        Some(Self { method, path, host })
    }
}

/// The offset of the empty line that ends a head.
pub fn find_end(input: &[u8]) -> Option<usize> {
    let at = |end: &[u8]| input.windows(end.len()).position(|window| window == end);
    at(b"\r\n\r\n").or_else(|| at(b"\n\n"))
}

/// Any bytes of a client: the end of a head is where its lines end, and a request names one host.
#[allow(dead_code, reason = "the server has no use for it")]
pub fn fuzz(data: &[u8]) {
    let Some(end) = find_end(data) else {
        assert!(!data.ends_with(b"\r\n\r\n") && !data.ends_with(b"\n\n"));
        return;
    };
    assert!(data[end..].starts_with(b"\r\n\r\n") || data[end..].starts_with(b"\n\n"));
    let head = String::from_utf8_lossy(&data[..end]).into_owned();
    let Some(Request { method, path, host }) = Request::parse(&head) else { return };
    assert!(![method, path, &host].iter().any(|text| text.contains(['\r', '\n'])), "{head:?}");
    assert!(!method.contains(' ') && !path.contains(' ') && !host.contains(':') && !host.ends_with('.'));
    // A head that was parsed is parsed again from its printed form.
    let again = format!("{method} {path} HTTP/1.1\r\nHost: {host}");
    let again = Request::parse(&again).map(|request| (request.method.to_owned(), request.host));
    assert_eq!(again, Some((method.to_owned(), host)));
}

#[cfg(test)]
mod tests {
    use posthaste_testkit::fuzz_seeds;

    use super::*;

    #[test]
    fn any_head_is_read() {
        fuzz_seeds("https", 50_000, fuzz);
    }

    #[test]
    fn requests() {
        let parse = |head: &str| Request::parse(head).map(|r| format!("{} {} {}", r.method, r.path, r.host));
        assert_eq!(
            parse("GET /x HTTP/1.1\r\nhOST: MTA-STS.Example.org:443\r\nAccept: */*").as_deref(),
            Some("GET /x mta-sts.example.org")
        );
        for wrong in [
            "",
            "GET /x",
            "GET /x HTTP/2\r\nHost: a",
            "GET /x HTTP/1.1",
            "GET /x HTTP/1.1\r\nHost: a\r\nHost: b",
            "GET /x\ry HTTP/1.1\r\nHost: a",
        ] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
