//! Any message on its way to a client of POP3.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| posthaste_pop3_server::fuzzing::message(data));
