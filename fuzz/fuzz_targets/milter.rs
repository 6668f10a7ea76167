//! All that any filter says about a message.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| posthaste_milter::fuzzing::answers(data));
