//! Any responses of a SASL exchange: nobody gets in by them.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| posthaste_directory::fuzzing::sasl(data));
