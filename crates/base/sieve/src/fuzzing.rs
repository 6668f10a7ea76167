//! Any bytes as a script, and as a message. For fuzz targets, and for the tests below.

use crate::context::Context;
use crate::date::Moment;
use crate::limits::Limits;
use crate::parser::parse;
use crate::print::print;
use crate::script::{Capabilities, Script};
use crate::syntax::forget_places;

struct World;

impl Context for World {
    fn envelope_from(&self) -> &str {
        "a@example.org"
    }
    fn envelope_to(&self) -> &str {
        "b+c@example.com"
    }
    fn now(&self) -> Moment {
        Moment { unix_s: 951_893_109, zone_minutes: -330 }
    }
}

/// Checks the data as a script: what is understood means the same when it is printed, and runs to
/// an end.
pub fn script(data: &[u8]) {
    let source = String::from_utf8_lossy(data);
    let limits = Limits { steps_max: 20_000, regex_bytes_max: 16 * 1024, ..Limits::default() };
    if let Ok(mut commands) = parse(&source, &limits) {
        let printed = print(&commands);
        let mut again = parse(&printed, &limits).unwrap_or_else(|error| panic!("{printed}\n{error}"));
        forget_places(&mut commands);
        forget_places(&mut again);
        assert_eq!(commands, again, "{printed}");
    }
    let capabilities = Capabilities { limits, ..Capabilities::default() };
    match Script::compile(&source, &capabilities) {
        Ok(script) => run(&script, MESSAGE),
        Err(errors) => {
            assert!(!errors.0.is_empty());
            let _ = errors.to_string();
        }
    }
}

const MESSAGE: &[u8] = b"From: A <a@example.org>\r\nTo: b+c@example.com\r\nSubject: =?utf-8?q?=C3=BC?= x\r\n\
    Date: 1 Jan 2010 00:00:00 +0100\r\nMessage-ID: <1@x>\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n\
    --b\r\nContent-Type: text/plain\r\n\r\nhello\r\n--b\r\nContent-Type: message/rfc822\r\n\r\nSubject: in\r\n\r\nx\r\n--b--\r\n";

/// Checks the data as a message, for a script that looks at all of it.
pub fn message(data: &[u8]) {
    const SCRIPT: &str = include_str!("fuzzing.sieve");
    static COMPILED: std::sync::OnceLock<Script> = std::sync::OnceLock::new();
    let script = COMPILED.get_or_init(|| {
        Script::compile(SCRIPT, &Capabilities::default()).unwrap_or_else(|errors| panic!("{errors}"))
    });
    run(script, data);
}

fn run(script: &Script, message: &[u8]) {
    let outcome = script.run(message, &World);
    assert!(!outcome.effects.is_empty());
    assert!(outcome.error.is_none() || outcome.effects.len() == 1, "{outcome}");
    for header in &outcome.headers {
        assert!(header.ends_with(b"\n"));
    }
    let _ = outcome.to_string();
}

#[cfg(test)]
mod tests {
    use posthaste_testkit::fuzz_seeds;

    use super::*;

    #[test]
    fn any_bytes_are_a_script_or_none() {
        fuzz_seeds("sieve_script", 20_000, script);
    }

    #[test]
    fn any_bytes_are_a_message() {
        fuzz_seeds("sieve_message", 5_000, message);
    }
}
