//! Any bytes as commands, as responses, and as a stream of either. For fuzz targets, and for the
//! tests below.

use bytes::{Bytes, BytesMut};

use crate::framing::{CommandFrame, CommandFramer, FramerLimits, ResponseFramer};
use crate::{NameEncoding, parse_command, parse_response, print};

const LITERAL_BYTES_MAX: u64 = 64;
const LINE_BYTES_MAX: usize = 256;

/// Checks the data as a command: a parsed value means the same after printing and parsing.
pub fn command(data: &[u8]) {
    let input = Bytes::copy_from_slice(data);
    for names in [NameEncoding::Utf7, NameEncoding::Utf8] {
        if let Ok(command) = parse_command(&input, names) {
            let again = Bytes::from(print::command(&command, names, print::LiteralStyle::Plus).bytes);
            assert_eq!(parse_command(&again, names), Ok(command));
        }
    }
}

/// Checks the data as a response, which is printed if it was understood.
pub fn response(data: &[u8]) {
    let input = Bytes::copy_from_slice(data);
    for names in [NameEncoding::Utf7, NameEncoding::Utf8] {
        if let Ok(response) = parse_response(&input, names) {
            print::response(&mut Vec::new(), &response, names);
        }
    }
}

/// Checks the data as a stream in any pieces, whose size the first byte says: the same frames
/// come out as when it comes byte by byte.
pub fn framing(data: &[u8]) {
    let Some((&first, stream)) = data.split_first() else { return };
    let piece = usize::from(first % 17) + 1;
    assert_eq!(command_frames(stream, piece), command_frames(stream, 1));
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
}

fn command_frames(stream: &[u8], piece: usize) -> Vec<CommandFrame> {
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

#[cfg(test)]
mod tests {
    use posthaste_testkit::fuzz_seeds;

    use super::*;

    #[test]
    fn any_bytes_are_a_command_or_none() {
        fuzz_seeds("command", 50_000, command);
    }

    #[test]
    fn any_bytes_are_a_response_or_none() {
        fuzz_seeds("response", 50_000, response);
    }

    #[test]
    fn pieces_of_a_stream_do_not_matter() {
        fuzz_seeds("framing", 30_000, framing);
    }
}
