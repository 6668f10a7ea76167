//! Any bytes as a compressed stream, and as the header of a proxy. For the fuzz targets `deflate`
//! and `proxy`, and for the tests below.

use std::io::Read;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use tokio::io::ReadBuf;

use crate::deflate::Deflate;
use crate::proxy::header::{self, Prefix};

/// Bytes that are read of a stream: twice the window of deflate (RFC 1951 §2). More of it would
/// show nothing new, and take longer.
const READ_MAX: usize = 1 << 16;
/// Pieces that a stream is written in at most. After each, a compressor of 320 KiB may be created
/// again: with pieces of two bytes, a run tried a thousandth of what other targets try.
const PIECES_MAX: usize = 32;

/// A stream of any bytes, read in pieces of any size (the first byte says which). It ends, fails or
/// yields the output of another reader of deflate. No read is without end.
pub fn inflate(data: &[u8]) {
    let Some((&first, stream)) = data.split_first() else { return };
    let ours = read(stream, usize::from(first) * 16 + 1);
    let mut theirs = Vec::new();
    // RFC 4978: a raw stream of RFC 1951.
    let whole = flate2::read::DeflateDecoder::new(stream).take(READ_MAX as u64).read_to_end(&mut theirs);
    // Where it breaks, one may have given out more than the other; what both gave is the same.
    let common = ours.len().min(theirs.len());
    assert!(ours[..common] == theirs[..common], "other bytes than those that were compressed");
    if whole.is_ok() {
        assert_eq!(ours.len(), theirs.len());
    }
}

/// Any bytes, compressed with a flush now and then, come out as they were.
pub fn deflate(data: &[u8]) {
    let Some((&first, data)) = data.split_first() else { return };
    let (mut deflate, mut wire) = (Deflate::new(), Vec::new());
    let mut cx = Context::from_waker(Waker::noop());
    for piece in data.chunks((usize::from(first) + 1).max(data.len().div_ceil(PIECES_MAX))) {
        let mut rest = piece;
        while !rest.is_empty() {
            match deflate.poll_write(Pin::new(&mut wire), &mut cx, rest) {
                Poll::Ready(Ok(written)) if written > 0 => rest = &rest[written..],
                other => panic!("{other:?}"),
            }
        }
        assert!(matches!(deflate.poll_flush(Pin::new(&mut wire), &mut cx), Poll::Ready(Ok(()))));
        if first & 1 != 0 {
            deflate.rest();
        }
    }
    assert!(read(&wire, 4096) == data);
}

/// The bytes that a connection from a proxy begins with. However they are cut, the same header is
/// read, and nothing after it counts.
pub fn proxy(data: &[u8]) {
    let whole = header::parse(data);
    let mut first = None;
    // A header is at most this long, and each of its prefixes is a part.
    for end in 0..=data.len().min(header::LENGTH_MAX + 1) {
        match header::parse(&data[..end]) {
            Ok(Prefix::Part) => assert!(end < data.len() || whole == Ok(Prefix::Part)),
            other => {
                first = Some((end, other));
                break;
            }
        }
    }
    match first {
        Some((end, Ok(Prefix::Whole { length, header }))) => {
            assert!(length == end && length <= header::LENGTH_MAX, "{length} of {end} octets");
            assert_eq!(whole, Ok(Prefix::Whole { length, header }));
        }
        Some((_, other)) => assert!(whole.is_err() && other.is_err(), "{other:?}, then {whole:?}"),
        None => assert_eq!(whole, Ok(Prefix::Part)),
    }
}

/// The bytes that can be read of it, [`READ_MAX`] at most.
fn read(mut stream: &[u8], step: usize) -> Vec<u8> {
    let mut cx = Context::from_waker(Waker::noop());
    let (mut deflate, mut found, mut piece) = (Deflate::new(), Vec::new(), vec![0; step]);
    // Memory is always there: nothing is ever pending.
    while found.len() < READ_MAX {
        let room = step.min(READ_MAX - found.len());
        let mut buf = ReadBuf::new(&mut piece[..room]);
        match deflate.poll_read(Pin::new(&mut stream), &mut cx, &mut buf) {
            Poll::Ready(Ok(())) if !buf.filled().is_empty() => found.extend_from_slice(buf.filled()),
            Poll::Ready(_) => break,
            Poll::Pending => panic!("a slice is never pending"),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use posthaste_testkit::fuzz_seeds;

    use super::*;

    #[test]
    fn any_header_is_read_alike_however_it_is_cut() {
        fuzz_seeds("proxy", 5_000, proxy);
    }

    #[test]
    fn any_stream_ends_fails_or_is_what_was_compressed() {
        // Fewer: each takes some 15 ms.
        fuzz_seeds("deflate", 1_000, |data| {
            inflate(data);
            deflate(data);
        });
    }
}
