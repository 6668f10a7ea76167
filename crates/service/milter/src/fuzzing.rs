//! Any bytes as all answers of a filter about a message. For the fuzz target `milter`, and for the
//! test below.

use std::net::IpAddr;
use std::pin::Pin;
use std::sync::OnceLock;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use posthaste_net::SocketAddress;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::runtime::{Builder, Runtime};

use crate::draft::Draft;
use crate::packet::{ACTIONS, VERSION, flags};
use crate::{Connected, Envelope, Milter};

/// Every step before the end of a message.
const NO_STEPS: u32 = flags::NO_CONNECT
    | flags::NO_HELO
    | flags::NO_MAIL
    | flags::NO_RCPT
    | flags::NO_BODY
    | flags::NO_HEADERS
    | flags::NO_EOH
    | flags::NO_DATA;
const MESSAGE: &[u8] = b"From: a@example.net\r\nSubject: one\r\nSubject: two\r\n\r\nThe body\r\n";

/// Sends these bytes and reads any answer.
struct Filter(std::io::Cursor<Vec<u8>>);

impl AsyncRead for Filter {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl AsyncWrite for Filter {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<std::io::Result<usize>> {
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// A conversation, after a negotiation in which the filter requests every step (the first byte is
/// odd) or none before the end. Whatever it changes, the header stays one.
pub fn answers(data: &[u8]) {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    let runtime = RUNTIME
        .get_or_init(|| Builder::new_current_thread().enable_time().build().expect("a runtime can be made"));
    let Some((&first, said)) = data.split_first() else { return };
    let steps: u32 = if first & 1 == 1 { 0 } else { NO_STEPS };
    let options = [VERSION, ACTIONS, steps].map(u32::to_be_bytes).concat();
    let all = [&13_u32.to_be_bytes(), &b"O"[..], &options, said].concat();
    let within = Duration::from_secs(60);
    let milter = Milter::new(SocketAddress::Unix("/filter".into()), within);
    let (address, name) = (IpAddr::from([192, 0, 2, 1]), None);
    let client = Connected { host: "mx.example", address, port: 25, name, helo: "a.example" };
    let envelope = Envelope { client, id: "1", from: "a@example.net", to: vec!["ana@example.org"] };
    let mut draft = Draft::new(&Bytes::from_static(MESSAGE));
    let filter = Box::new(Filter(std::io::Cursor::new(all)));
    if runtime.block_on(milter.converse(filter, &envelope, &mut draft)).is_err() {
        return;
    }
    let made = draft.print(b"");
    let end = made.windows(4).position(|four| four == b"\r\n\r\n").expect("a header has an end");
    for line in made[..end].split(|byte| *byte == b'\n') {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let is_field = line.iter().position(|byte| *byte == b':').is_some_and(|at| at > 0);
        let goes_on = line.starts_with(b" ") || line.starts_with(b"\t");
        assert!(is_field || goes_on, "{:?}", line.escape_ascii().to_string());
        assert!(!line.contains(&b'\r') && !line.contains(&0));
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn no_filter_breaks_a_header() {
        posthaste_testkit::fuzz_seeds("milter", 20_000, super::answers);
    }
}
