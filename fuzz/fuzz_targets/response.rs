//! Any bytes as a response: no panic in parsing, nor in printing what was understood.
#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use posthaste_imap_codec::{NameEncoding, parse_response, print};

fuzz_target!(|data: &[u8]| {
    let input = Bytes::copy_from_slice(data);
    for names in [NameEncoding::Utf7, NameEncoding::Utf8] {
        if let Ok(response) = parse_response(&input, names) {
            print::response(&mut Vec::new(), &response, names);
        }
    }
});
