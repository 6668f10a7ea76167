//! X-GM-EXT-1: Gmail's extension of IMAP, for clients and migration tools that were written for it.
//!
//! * X-GM-MSGID is made of EMAILID, and X-GM-THRID of THREADID: numbers of 63 bits.
//! * A label is a keyword. With Gmail it is a mailbox that also holds the message. To know those
//!   mailboxes, the store would need an index of mailboxes by body. Each commit would update it,
//!   and every FETCH of labels would look it up. So the labels of a message are its keywords
//!   without those that begin with `$`, and three that Gmail has for flags.
//! * X-GM-RAW: see [`raw`].

pub(crate) mod raw;

use posthaste_imap_codec::print;
use posthaste_imap_codec::utf7;
use posthaste_mail_model::{BodyId, Flag, FlagSet, Keyword, KeywordTable};

use crate::thread_id::ThreadId;

/// The keyword of what Gmail calls important: RFC 8457.
const IMPORTANT: &str = "$Important";

/// X-GM-MSGID.
pub(crate) fn message_number(body: BodyId) -> u64 {
    // FNV-1a, as for Message-IDs: 63 bits, so that clients with signed numbers can hold them.
    let step = |hash: u64, b: u8| (hash ^ u64::from(b)).wrapping_mul(0x0000_0100_0000_01b3);
    body.0.to_bytes().into_iter().fold(0xcbf2_9ce4_8422_2325, step) >> 1
}

/// X-GM-THRID.
pub(crate) fn thread_number(thread: ThreadId) -> u64 {
    match thread {
        ThreadId::Root(hash) => hash >> 1,
        ThreadId::Alone(body) => message_number(body),
    }
}

/// Appends `(\Starred work)`.
pub(crate) fn print_labels(out: &mut Vec<u8>, table: &KeywordTable, flags: FlagSet) {
    out.push(b'(');
    let start = out.len();
    for flag in table.flags_of(flags) {
        let label: &[u8] = match &flag {
            Flag::Flagged => b"\\Starred",
            Flag::Draft => b"\\Draft",
            Flag::Keyword(keyword) if keyword.as_str().eq_ignore_ascii_case(IMPORTANT) => b"\\Important",
            Flag::Keyword(keyword) if !keyword.as_str().starts_with('$') => keyword.as_str().as_bytes(),
            _ => continue,
        };
        if out.len() > start {
            out.push(b' ');
        }
        match label.first() {
            Some(b'\\') => out.extend_from_slice(label),
            _ => print::astring(out, label),
        }
    }
    out.push(b')');
}

/// The flag of a label; or why there is none.
pub(crate) fn flag_of(label: &str) -> Result<Flag, &'static str> {
    if let Some(name) = label.strip_prefix('\\') {
        return match name.to_ascii_lowercase().as_str() {
            "starred" => Ok(Flag::Flagged),
            "draft" | "drafts" => Ok(Flag::Draft),
            "important" => Keyword::new(IMPORTANT).map(Flag::Keyword).map_err(|_| NO_KEYWORD),
            _ => Err("Inbox, Sent, Trash, Junk and the like are mailboxes here: use COPY or MOVE"),
        };
    }
    // Gmail writes labels in modified UTF-7, as names of mailboxes.
    let label = utf7::decode(label.as_bytes()).map_err(|_| NO_KEYWORD)?;
    if label.starts_with('$') {
        return Err("A keyword that begins with $ is not a label: use STORE FLAGS");
    }
    Keyword::new(&label).map(Flag::Keyword).map_err(|_| NO_KEYWORD)
}

const NO_KEYWORD: &str =
    "Labels are keywords here: at most 128 letters, digits and signs of ASCII, without spaces and brackets";

/// The flags of a table that are labels.
pub(crate) fn labels_of(table: &KeywordTable, flags: FlagSet) -> Vec<Flag> {
    let is_label = |flag: &Flag| match flag {
        Flag::Flagged | Flag::Draft => true,
        Flag::Keyword(keyword) => {
            !keyword.as_str().starts_with('$') || keyword.as_str().eq_ignore_ascii_case(IMPORTANT)
        }
        _ => false,
    };
    table.flags_of(flags).filter(is_label).collect()
}

#[cfg(test)]
mod tests {
    use posthaste_mail_model::Id;

    use super::*;

    #[test]
    fn numbers_fit_a_signed_one() {
        for n in 0..1000 {
            let body = BodyId(Id::new(n, u128::from(n) << 70));
            assert!(i64::try_from(message_number(body)).is_ok());
        }
        assert_eq!(thread_number(ThreadId::Root(u64::MAX)), i64::MAX as u64);
    }

    #[test]
    fn labels_are_keywords_and_three_flags() {
        let keywords = ["work", "$Important", "$Junk"].map(|name| Keyword::new(name).unwrap());
        let table = KeywordTable::from_keywords(keywords.to_vec()).unwrap();
        let flags = FlagSet::from_bits(u64::MAX >> 1);
        let mut out = Vec::new();
        print_labels(&mut out, &table, FlagSet::EMPTY);
        assert_eq!(out, b"()");
        for flag in labels_of(&table, flags) {
            assert!(!matches!(flag, Flag::Seen | Flag::Deleted | Flag::Answered), "{flag:?}");
        }
        assert_eq!(flag_of("\\Starred"), Ok(Flag::Flagged));
        assert_eq!(flag_of("\\important"), Ok(Flag::Keyword(Keyword::new("$Important").unwrap())));
        assert_eq!(flag_of("work"), Ok(Flag::Keyword(Keyword::new("work").unwrap())));
        for label in ["\\Inbox", "two words", "$Junk", "", "a&b"] {
            assert!(flag_of(label).is_err(), "{label}");
        }
    }
}
