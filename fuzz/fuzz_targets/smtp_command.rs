//! Any line as a command of SMTP, and as base64 of an exchange.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| posthaste_smtp_server::fuzzing::command(data));
