//! COMPARATOR: RFC 5255 §4.7. SEARCH, SORT and THREAD compare by `i;unicode-casemap`.

use posthaste_imap_codec::response::{Code, Untagged};

use super::DONE;
use crate::reply::{Failure, Reply};
use crate::wire::Wire;

/// The comparator of all texts: RFC 5051, which RFC 5255 §4.4 requires as the default.
const COMPARATOR: &str = "i;unicode-casemap";

/// Reports the comparator in use. With names, whether it is one of them.
pub(super) fn run(wire: &mut Wire, wanted: &[String]) -> Result<Reply, Failure> {
    if !wanted.is_empty() && !wanted.iter().any(|wanted| is_it(wanted)) {
        let text = format!("The only comparator is {COMPARATOR}");
        return Err(Reply::no(Code::BadComparator, text).into());
    }
    wire.say(Untagged::Comparator { active: COMPARATOR.to_owned(), others: Vec::new() });
    Ok(DONE)
}

/// Whether a name means it: `*` matches any text (RFC 4790 §4.2), and `default` for the default.
fn is_it(wanted: &str) -> bool {
    if wanted.eq_ignore_ascii_case("default") {
        return true;
    }
    let Some((start, end)) = wanted.split_once('*') else { return wanted == COMPARATOR };
    let rest = COMPARATOR.strip_prefix(start);
    rest.is_some_and(|rest| !end.contains('*') && rest.ends_with(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_wildcards() {
        for (wanted, yes) in [
            ("i;unicode-casemap", true),
            ("default", true),
            ("*", true),
            ("i;*", true),
            ("*casemap", true),
            ("i;uni*map", true),
            ("i;octet", false),
            ("i;ascii*", false),
            ("cz;*", false),
            ("**", false),
            ("", false),
        ] {
            assert_eq!(is_it(wanted), yes, "{wanted}");
        }
    }
}
