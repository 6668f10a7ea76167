//! Bytes of a client on their way through the framer and the parser. For fuzz targets, and for the
//! test below.

use crate::syntax::{Framed, Framer, LITERALS_MAX, literal_at_end, parse, parse_string};

/// Octets that a command may have here.
const COMMAND_LEN_MAX: usize = 4096;

/// Reads a stream in pieces of several lengths: its commands must have the same ends.
pub fn stream(data: &[u8]) {
    let Some((&first, stream)) = data.split_first() else { return };
    let expected = plain_commands(stream);
    for step in [1, usize::from(first) + 1, stream.len().max(1)] {
        assert_eq!(commands(stream, step), expected, "{step}");
    }
}

/// What [`commands`] returns, of a stream that is there at once.
fn plain_commands(stream: &[u8]) -> Vec<usize> {
    let (mut ends, mut start, mut line, mut literals) = (Vec::new(), 0, 0, 0);
    while let Some(rest) = stream.get(line..)
        && let Some(at) = rest.iter().position(|octet| *octet == b'\n')
    {
        let end = line + at + 1;
        let Some(room) = COMMAND_LEN_MAX.checked_sub(end - start) else { break };
        match literal_at_end(&rest[..=at]) {
            Some(octets) if octets > room as u64 || literals == LITERALS_MAX => break,
            Some(octets) => (line, literals) = (end + octets as usize, literals + 1),
            None => {
                ends.push(end);
                (start, line, literals) = (end, end, 0);
            }
        }
    }
    ends
}

/// The ends of the commands of a stream that comes in pieces. The last is before the first command
/// that is too long or has too many literals.
fn commands(stream: &[u8], step: usize) -> Vec<usize> {
    let (mut ends, mut at, mut came) = (Vec::new(), 0, 0);
    let mut framer = Framer::default();
    while came < stream.len() {
        came = (came + step).min(stream.len());
        while let Some(input) = stream.get(at..came) {
            match framer.next(input, COMMAND_LEN_MAX) {
                Framed::Part => break,
                Framed::TooLong(octets) => {
                    assert!(octets == 0 || octets > COMMAND_LEN_MAX as u64);
                    return ends;
                }
                Framed::TooManyLiterals => return ends,
                Framed::Whole(length) => {
                    assert!((1..=input.len()).contains(&length));
                    let command = &input[..length];
                    let _ = (parse(command), parse_string(command));
                    at += length;
                    ends.push(at);
                    framer = Framer::default();
                }
            }
        }
    }
    ends
}

#[cfg(test)]
mod tests {
    use posthaste_testkit::fuzz_seeds;

    use super::*;

    #[test]
    fn a_stream_has_the_same_commands_however_it_comes() {
        fuzz_seeds("managesieve", 50_000, stream);
    }
}
