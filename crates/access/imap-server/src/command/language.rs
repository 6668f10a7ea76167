//! LANGUAGE: RFC 5255 §3. Texts are in English.

use posthaste_imap_codec::response::{Code, Untagged};

use super::DONE;
use crate::reply::{Failure, Reply};
use crate::wire::Wire;

/// The languages there are. `i-default` is English, too (RFC 2277 §4.5).
const LANGUAGES: [&str; 2] = ["EN", "i-default"];

/// Chooses the client's first language that this server has; without names, lists all.
pub(super) fn run(wire: &mut Wire, ranges: &[String]) -> Result<Reply, Failure> {
    if ranges.is_empty() {
        wire.say(Untagged::Language(LANGUAGES.map(str::to_owned).to_vec()));
        return Ok(DONE);
    }
    let Some(chosen) = ranges.iter().find_map(|range| chosen(range)) else {
        // RFC 5255 §3.2
        return Err(Reply::no(Code::Cannot, "No such language: texts are in English").into());
    };
    wire.say(Untagged::Language(vec![chosen.to_owned()]));
    Ok(DONE)
}

/// The language for a range. Parts at the end of the range are dropped until it names a language
/// that exists (RFC 4647 §3.4).
fn chosen(range: &str) -> Option<&'static str> {
    if range.eq_ignore_ascii_case("default") {
        // RFC 5255 §3.2
        return Some(LANGUAGES[1]);
    }
    if range == "*" {
        return Some(LANGUAGES[0]);
    }
    let mut range = range;
    loop {
        if let Some(known) = LANGUAGES.into_iter().find(|known| known.eq_ignore_ascii_case(range)) {
            return Some(known);
        }
        range = range.rsplit_once('-')?.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_shortened() {
        for (range, language) in [
            ("en", Some("EN")),
            ("EN-us", Some("EN")),
            ("en-gb-oxendict", Some("EN")),
            ("*", Some("EN")),
            ("default", Some("i-default")),
            ("I-Default", Some("i-default")),
            ("de", None),
            ("english", None),
            ("", None),
        ] {
            assert_eq!(chosen(range), language, "{range}");
        }
    }
}
