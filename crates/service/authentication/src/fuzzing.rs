//! Any bytes as a message that gets our results, and as the sender that a forward makes. For fuzz
//! targets, and for the tests below.

use bytes::Bytes;

use crate::results;
use crate::srs::{self, SECRET_LEN, Srs};

const HOST: &str = "mx.example";
const FIELD: &str = "Authentication-Results: mx.example; spf=none\r\n";

/// A message: our field stands in it once, and what it brought in our name is gone.
pub fn message(data: &[u8]) {
    // A message has our trace fields in front, so it begins with no continued line.
    if data.starts_with(b" ") || data.starts_with(b"\t") {
        return;
    }
    let made = results::with_results(&Bytes::copy_from_slice(data), FIELD, HOST);
    assert!(made.len() <= data.len() + FIELD.len());
    assert_eq!(results::own(&made, HOST).map(str::trim), Some("mx.example; spf=none"));
    let again = results::with_results(&made, FIELD, HOST);
    assert_eq!(again, made, "the field that was put there is the only one");
    let _ = srs::may_align(data, "a.example.org");
}

/// An address: what was rewritten is found again, and nothing else is believed.
pub fn sender(data: &[u8]) {
    let Ok(address) = std::str::from_utf8(data) else { return };
    let srs = Srs::new(&[7; SECRET_LEN]);
    let now = 1_795_435_200;
    let _ = srs::is_rewritten(address);
    if let Some(found) = srs.original(address, now) {
        assert!(srs::is_rewritten(address), "{address:?} is {found:?}");
    }
    if let Some(rewritten) = srs.rewrite(address, "ours.example", now) {
        assert!(rewritten.ends_with("@ours.example") && srs::is_rewritten(&rewritten));
        assert!(srs.original(&rewritten, now).is_some(), "{address:?} became {rewritten:?}");
        assert_eq!(Srs::new(&[8; SECRET_LEN]).original(&rewritten, now), None);
    }
}

#[cfg(test)]
mod tests {
    use posthaste_testkit::fuzz_seeds;

    use super::*;

    #[test]
    fn any_message_has_our_results_once() {
        fuzz_seeds("results", 50_000, message);
    }

    #[test]
    fn a_sender_is_found_again() {
        fuzz_seeds("srs", 50_000, sender);
    }
}
