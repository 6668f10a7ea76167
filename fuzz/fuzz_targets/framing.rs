//! Any stream of IMAP in any pieces.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| posthaste_imap_codec::fuzzing::framing(data));
