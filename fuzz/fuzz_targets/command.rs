//! Any bytes as a command: no panic, and what was understood means the same when it is said again.
#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use posthaste_imap_codec::{NameEncoding, parse_command, print};

fuzz_target!(|data: &[u8]| {
    let input = Bytes::copy_from_slice(data);
    for names in [NameEncoding::Utf7, NameEncoding::Utf8] {
        if let Ok(command) = parse_command(&input, names) {
            let again = Bytes::from(print::command(&command, names, print::LiteralStyle::Plus).bytes);
            assert_eq!(parse_command(&again, names), Ok(command));
        }
    }
});
