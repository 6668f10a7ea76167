//! Any bytes as TNEF, compressed RTF, RTF, and a message with a TNEF part.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| posthaste_tnef::fuzzing::any(data));
