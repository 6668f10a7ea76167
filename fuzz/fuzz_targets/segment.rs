//! Any bytes as a segment of the search index.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| posthaste_search_index::fuzzing::segment(data));
