//! Any answer of a name server about a domain.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| posthaste_authentication::fuzzing::records(data));
