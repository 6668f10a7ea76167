//! Any bytes as a compressed stream, and as what is compressed.
#![no_main]

use libfuzzer_sys::fuzz_target;
use posthaste_net::fuzzing::{deflate, inflate};

fuzz_target!(|data: &[u8]| {
    inflate(data);
    deflate(data);
});
