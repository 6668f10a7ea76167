//! Lists of flags. RFC 5232 §2.

/// Longest flag: keywords are atoms of a line.
const FLAG_LEN_MAX: usize = 200;

/// Most flags of a list. A mailbox has 59 keywords.
const FLAGS_MAX: usize = 100;

/// The work of adding or removing the flags of a string, in parts of a step: each octet may be
/// compared with one of each flag of the list.
pub(crate) fn work(list: &[String], text: &str) -> u64 {
    let flags = text.split_ascii_whitespace().count();
    let compared = list.len().saturating_add(flags).min(FLAGS_MAX.max(list.len()));
    text.len().saturating_mul(1 + compared) as u64
}

/// Adds the flags of a string, separated by white space. Invalid flags are skipped, and a flag
/// that exists, in any case of letters, is not added again.
pub(crate) fn add(list: &mut Vec<String>, text: &str) {
    for flag in text.split_ascii_whitespace() {
        let is_new = !list.iter().any(|known| known.eq_ignore_ascii_case(flag));
        if is_new && is_flag(flag) && list.len() < FLAGS_MAX {
            list.push(flag.into());
        }
    }
}

/// Removes the flags of a string.
pub(crate) fn remove(list: &mut Vec<String>, text: &str) {
    for flag in text.split_ascii_whitespace() {
        list.retain(|known| !known.eq_ignore_ascii_case(flag));
    }
}

/// A system flag that a client may set, or a keyword. RFC 9051 §2.3.2, §9.
fn is_flag(flag: &str) -> bool {
    const SYSTEM: [&str; 5] = ["\\answered", "\\flagged", "\\deleted", "\\seen", "\\draft"];
    if flag.starts_with('\\') {
        return SYSTEM.iter().any(|system| system.eq_ignore_ascii_case(flag));
    }
    let is_atom = |b: u8| b.is_ascii_graphic() && !b"(){%*\"\\]".contains(&b);
    !flag.is_empty() && flag.len() <= FLAG_LEN_MAX && flag.bytes().all(is_atom)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_flags() {
        let mut list = Vec::new();
        add(&mut list, "\\Seen  $Junk \\seen");
        add(&mut list, "$junk x( \\Recent \\Foo y");
        assert_eq!(list, ["\\Seen", "$Junk", "y"]);
        remove(&mut list, "\\SEEN z");
        assert_eq!(list, ["$Junk", "y"]);
    }
}
