//! The head of any request over HTTPS.
#![no_main]

#[allow(dead_code)]
#[path = "../../crates/app/posthaste/src/command/serve/request_head.rs"]
mod request_head;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| request_head::fuzz(data));
