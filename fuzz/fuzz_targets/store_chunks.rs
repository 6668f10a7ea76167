//! Chunks of rows of the embedded store: no panic.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| posthaste_store_lmdb::fuzzing::chunks(data));
