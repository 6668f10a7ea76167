//! Responses of IMAP, read whole.

use posthaste_testkit::LineClient;

/// One response of IMAP with its literals; the last line's end is left out.
pub(super) fn response(client: &mut LineClient) -> std::io::Result<String> {
    let mut whole = String::new();
    loop {
        let line = client.line()?;
        whole += &line;
        let count = line.strip_suffix('}').and_then(|line| line.rsplit_once('{')).map(|(_, count)| count);
        match count.and_then(|count| count.parse().ok()) {
            Some(count) => {
                whole += "\r\n";
                whole += &String::from_utf8_lossy(&client.bytes(count)?);
            }
            None => return Ok(whole),
        }
    }
}
