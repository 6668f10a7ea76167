//! Any bytes as a query of X-GM-RAW, and as a stored BODYSTRUCTURE. For the fuzz targets `gm_raw`
//! and `structure`, and for the tests below.

use std::collections::HashSet;

use bytes::Bytes;
use posthaste_imap_codec::command::SearchKey;
use posthaste_imap_codec::response::{BodyStructure, FetchValue, Param, PartKind, Untagged};
use posthaste_imap_codec::{NameEncoding, Response, parse_response, print};
use posthaste_mail_model::{Flag, Id, Keyword, KeywordTable, MailboxId, MailboxName, UidValidity};
use posthaste_store::{MailboxEntry, SpecialUse};

use super::attachments::{PartCondition, Token, Tokens, any_file_name, has_attachment, plain};
use super::raw::{self, DAY_S, TERMS_MAX, is_end};
use super::search::count;
use super::searched::{Searched, WrittenNames};

/// The time of a search.
const NOW: i64 = 1_700_000_100;
/// The only label of the mailboxes' messages, and its keyword. With one label, each operator
/// makes one condition.
const LABEL: &str = "my-family-2026";
const LABEL_KEYWORD: &str = "My=20Family/2026";
/// Keys that a term makes at most: three for `before:` with a later time, and one for each side
/// that it is joined to.
const KEYS_OF_A_TERM: usize = 5;
/// Octets of a refusal beside those of the query.
const REFUSAL_LEN_MAX: usize = 100;

/// A query in a mailbox that the first byte selects: it is refused, or its keys have a bound. The
/// keys, printed as a query, are parsed to the same keys.
pub fn query(data: &[u8]) {
    let Some((&first, query)) = data.split_first() else { return };
    let Ok(query) = std::str::from_utf8(query) else { return };
    let keyword = Keyword::new(LABEL_KEYWORD).expect("a keyword");
    let keywords = KeywordTable::from_keywords(vec![keyword]).expect("a table has room for it");
    let mailbox = mailbox(first);
    let (names, written) = (NameEncoding::Utf7, WrittenNames::of(mailbox.as_ref(), &keywords));
    let (me, now) = ("ana@x.test", NOW);
    let searched = Searched { mailbox: mailbox.as_ref(), written: &written, names, me, now };
    let key = match raw::parse(query, searched) {
        Ok(key) => key,
        Err(why) => {
            assert!(why.len() <= query.len() + REFUSAL_LEN_MAX, "{why:?}");
            return;
        }
    };
    let keys = count(&key);
    assert!(keys <= KEYS_OF_A_TERM * TERMS_MAX, "{keys} keys");
    // A key is printed as two terms at most.
    if 2 * keys <= TERMS_MAX {
        let again = conditions(&key);
        assert_eq!(raw::parse(&again, searched), Ok(key), "printed: {again:?}");
    }
}

/// None, INBOX, or a mailbox whose use is a label.
fn mailbox(selector: u8) -> Option<MailboxEntry> {
    let (name, special_use) = match selector % 4 {
        0 => return None,
        1 => ("INBOX", None),
        2 => ("Sent", Some(SpecialUse::Sent)),
        _ => ("Drafts", Some(SpecialUse::Drafts)),
    };
    Some(MailboxEntry {
        id: MailboxId(Id::new(1, 1)),
        name: MailboxName::new(name).expect("a name"),
        uid_validity: UidValidity::new(1).expect("a number above zero"),
        special_use,
    })
}

/// Keys side by side.
fn conditions(key: &SearchKey) -> String {
    match key {
        SearchKey::And(keys) => keys.iter().map(alternatives).collect::<Vec<_>>().join(" "),
        key => alternatives(key),
    }
}

/// One of the keys side by side. OR joins from the left.
fn alternatives(key: &SearchKey) -> String {
    match key {
        SearchKey::Or(a, b) => format!("{} OR {}", alternatives(a), term(b)),
        key => term(key),
    }
}

/// A key as one term.
fn term(key: &SearchKey) -> String {
    match key {
        SearchKey::And(_) => format!("({})", conditions(key)),
        SearchKey::Or(..) => format!("{{{}}}", in_braces(key)),
        SearchKey::Not(not) => negated(not).unwrap_or_else(|| format!("-{}", term(not))),
        key => word(key),
    }
}

/// Braces join from the left, too. Each of their terms may have alternatives of its own.
fn in_braces(key: &SearchKey) -> String {
    match key {
        SearchKey::Or(a, b) => format!("{} {}", in_braces(a), alternatives(b)),
        key => term(key),
    }
}

/// The opposite of a key, where a word without `-` means that. Nesting has a bound, and `-`
/// counts.
fn negated(key: &SearchKey) -> Option<String> {
    use SearchKey as K;
    Some(match key {
        K::All => "label:none".to_owned(),
        K::Not(not) if **not == K::All => "before:9999999999".to_owned(),
        K::Younger(age) if i64::from(*age) <= NOW => format!("before:{:010}", NOW - i64::from(*age)),
        K::Has(Flag::Keyword(keyword)) if keyword.as_str() == LABEL_KEYWORD => "has:nouserlabels".to_owned(),
        _ => return None,
    })
}

/// A key without others in it.
fn word(key: &SearchKey) -> String {
    use SearchKey as K;
    match key {
        K::All => "in:anywhere".to_owned(),
        K::Text(text) => format!("\"{text}\""),
        K::From(text) => with_value("from", text),
        K::To(text) => with_value("to", text),
        K::Cc(text) => with_value("cc", text),
        K::Bcc(text) => with_value("bcc", text),
        K::Subject(text) => with_value("subject", text),
        K::Header(field, text) if field == "Message-ID" => with_value("rfc822msgid", text),
        K::Header(field, text) if field == "List-ID" => with_value("list", text),
        K::Header(field, text) if field == "Delivered-To" => with_value("deliveredto", text),
        K::Has(flag) => flagged(flag),
        K::Lacks(Flag::Seen) => "is:unread".to_owned(),
        K::Since(day) => format!("after:{:04}/{}/{}", day.year(), day.month(), day.day()),
        K::Before(day) => format!("before:{:04}/{}/{}", day.year(), day.month(), day.day()),
        // Four digits would be a year.
        K::Younger(age) => {
            days("newer_than", *age).unwrap_or_else(|| format!("after:{:010}", NOW - i64::from(*age)))
        }
        K::Older(age) => days("older_than", *age).expect("an age in days"),
        K::Larger(octets) => format!("larger:{octets}"),
        K::Smaller(octets) => format!("smaller:{octets}"),
        K::GmRaw(text) => match text.strip_prefix("filename:") {
            Some(name) => with_value("filename", name),
            None => text.clone(),
        },
        other => panic!("no query means {other:?}"),
    }
}

fn flagged(flag: &Flag) -> String {
    let named = match flag {
        Flag::Seen => "is:read",
        Flag::Flagged => "is:starred",
        Flag::Draft => "is:draft",
        Flag::Keyword(keyword) if keyword.as_str() == "$Important" => "is:important",
        Flag::Keyword(keyword) if keyword.as_str() == "$Muted" => "is:muted",
        Flag::Keyword(keyword) if keyword.as_str() == LABEL_KEYWORD => return with_value("label", LABEL),
        other => panic!("no query means {other:?}"),
    };
    named.to_owned()
}

fn days(name: &str, age: u32) -> Option<String> {
    let age = u64::from(age);
    age.is_multiple_of(DAY_S).then(|| format!("{name}:{}d", age / DAY_S))
}

fn with_value(name: &str, value: &str) -> String {
    assert!(!value.is_empty(), "{name} has a value");
    match value.contains(is_end) {
        true => format!("{name}:\"{value}\""),
        false => format!("{name}:{value}"),
    }
}

/// A structure, from a damaged record or whole: its tokens are within it, and are the same after
/// printing. In a whole one the conditions find what a parser of the grammar finds.
pub fn structure(data: &[u8]) {
    let tokens: Vec<Token<'_>> = Tokens(data).collect();
    let octets: usize = tokens.iter().map(octets_of).sum();
    assert!(octets <= data.len(), "{octets} octets of tokens from {}", data.len());
    let printed = printed(&tokens);
    assert_eq!(Tokens(&printed).collect::<Vec<_>>(), tokens);
    for key in ["has:attachment", "filename:a"] {
        let condition = PartCondition::of_key(key);
        assert_eq!(condition.holds(data), condition.holds(&printed), "{key}");
    }
    if let Some(structure) = parsed(data) {
        let mut printed = Vec::new();
        print::body_structure(&mut printed, &structure);
        assert_eq!(parsed(&printed).as_ref(), Some(&structure));
        whole(&printed, &structure);
    }
}

/// Octets that a token was read from, at least.
fn octets_of(token: &Token<'_>) -> usize {
    match token {
        Token::Open | Token::Close => 1,
        Token::Str(text) => text.len() + 2,
        Token::Atom(text) => text.len(),
    }
}

fn printed(tokens: &[Token<'_>]) -> Vec<u8> {
    let mut out = Vec::new();
    for token in tokens {
        match token {
            Token::Open => out.push(b'('),
            Token::Close => out.push(b')'),
            Token::Str(text) if print::fits_quotes(text) => print::quoted(&mut out, text),
            Token::Str(text) => print::literal(&mut out, text),
            Token::Atom(text) => out.extend_from_slice(text),
        }
        out.push(b' ');
    }
    out
}

/// The structure that FETCH would return with these bytes.
fn parsed(structure: &[u8]) -> Option<BodyStructure<'static>> {
    let response = [b"* 1 FETCH (BODYSTRUCTURE ", structure, b")\r\n"].concat();
    let response = parse_response(&Bytes::from(response), NameEncoding::Utf8).ok()?;
    let Response::Data(Untagged::Fetch { items, .. }) = response else { return None };
    match items.into_iter().next()? {
        FetchValue::BodyStructure(structure) => Some(structure),
        _ => None,
    }
}

/// A structure as it was printed: attachments are found exactly, and no name of a file is missed.
fn whole(printed: &[u8], structure: &BodyStructure<'_>) {
    let count = |wanted: &Token<'_>| Tokens(printed).filter(|token| token == wanted).count();
    assert_eq!(count(&Token::Open), count(&Token::Close), "every token is read");
    let mut parts = Parts::default();
    parts.add(structure);
    assert_eq!(has_attachment(printed), parts.has_attachment);
    let mut found = HashSet::new();
    any_file_name(printed, |name| {
        found.insert(name.to_vec());
        false
    });
    for name in &parts.file_names {
        assert!(found.contains(name), "{}", name.escape_ascii());
    }
}

/// What the conditions look for, of all parts of a structure.
#[derive(Default)]
struct Parts {
    has_attachment: bool,
    file_names: Vec<Vec<u8>>,
}

impl Parts {
    fn add(&mut self, structure: &BodyStructure<'_>) {
        let (params, tail) = match structure {
            BodyStructure::Single(single) => {
                if let PartKind::Message { body, .. } = &single.kind {
                    self.add(body);
                }
                (&single.basic.params, &single.tail)
            }
            BodyStructure::Multi(multi) => {
                multi.parts.iter().for_each(|part| self.add(part));
                (&multi.params, &multi.tail)
            }
        };
        self.add_names(params);
        if let Some(disposition) = &tail.disposition {
            self.has_attachment |= disposition.kind.eq_ignore_ascii_case(b"attachment");
            self.add_names(&disposition.params);
        }
    }

    fn add_names(&mut self, params: &[Param<'_>]) {
        let names = ["filename", "name", "filename*", "name*"];
        let is_name = |name: &[u8]| names.iter().any(|known| name.eq_ignore_ascii_case(known.as_bytes()));
        let named = params.iter().filter(|(name, _)| is_name(name));
        self.file_names.extend(named.map(|(_, value)| plain(value).into_owned()));
    }
}

#[cfg(test)]
mod tests {
    use posthaste_testkit::fuzz_seeds;

    use super::*;

    #[test]
    fn any_query_is_refused_or_means_the_same_after_printing() {
        fuzz_seeds("gm_raw", 20_000, query);
    }

    #[test]
    fn any_structure_is_read_within_its_bounds() {
        fuzz_seeds("structure", 20_000, structure);
    }
}
