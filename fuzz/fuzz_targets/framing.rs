//! Any stream in any pieces: the same frames come out as when it comes at once, and little is held.
//! The first byte says how it is cut.
#![no_main]

use bytes::BytesMut;
use libfuzzer_sys::fuzz_target;
use posthaste_imap_codec::framing::{CommandFrame, CommandFramer, FramerLimits, ResponseFramer};

const LITERAL_BYTES_MAX: u64 = 64;
const LINE_BYTES_MAX: usize = 256;

fn frames(stream: &[u8], piece: usize) -> Vec<CommandFrame> {
    let mut framer = CommandFramer::new(FramerLimits { line_bytes_max: LINE_BYTES_MAX });
    let (mut buffer, mut frames) = (BytesMut::new(), Vec::new());
    for piece in stream.chunks(piece) {
        buffer.extend_from_slice(piece);
        while let Some(frame) = framer.next_frame(&mut buffer) {
            if let CommandFrame::LiteralWanted(wanted) = &frame {
                if wanted.size > LITERAL_BYTES_MAX {
                    framer.refuse_literal(wanted, &mut buffer);
                } else {
                    framer.accept_literal(wanted);
                }
            }
            frames.push(frame);
        }
    }
    frames
}

fuzz_target!(|data: &[u8]| {
    let Some((&first, stream)) = data.split_first() else { return };
    let piece = usize::from(first % 17) + 1;
    assert_eq!(frames(stream, piece), frames(stream, 1));
    let (mut framer, mut buffer) = (ResponseFramer::default(), BytesMut::new());
    for piece in stream.chunks(piece) {
        buffer.extend_from_slice(piece);
        loop {
            match framer.next_frame(&mut buffer) {
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(_) => return,
            }
        }
    }
});
