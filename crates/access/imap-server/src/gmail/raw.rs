//! X-GM-RAW: a subset of Gmail's query language as SEARCH keys.
//!
//! | query | what is searched |
//! | --- | --- |
//! | `word`, `+word`, `"a phrase"` | TEXT |
//! | `from:` `to:` `cc:` `bcc:` `subject:` | the key of that name; `me` is the user's address |
//! | `rfc822msgid:` `list:` `deliveredto:` | the fields Message-ID, List-ID, Delivered-To |
//! | `label:` `in:` | labels and the mailbox, `-` for blanks: [`super::labels`] |
//! | `in:inbox` `sent` `drafts` `trash` `spam` `archive` `all` | the mailbox with that use |
//! | `in:anywhere` | every message of the mailbox |
//! | `is:unread` `read` `starred` `important` `muted` | flags |
//! | `has:attachment` `filename:` | dispositions and file names: [`super::attachments`] |
//! | `has:userlabels` `nouserlabels` | keywords that are labels |
//! | `after:` `newer:` `before:` `older:` with `2026/01/31` | SINCE, BEFORE |
//! | the same with seconds since 1970 | YOUNGER, not YOUNGER |
//! | `newer_than:` `older_than:` with `3d`, `2m`, `1y` | YOUNGER, OLDER |
//! | `larger:` `size:` `smaller:` with `1000`, `10K`, `5M` | LARGER, SMALLER |
//! | `a b`, `a AND b`, `a OR b`, `-a`, `(a b)`, `{a b}`, `subject:(a b)` | all, either, not, all, either |
//!
//! Any other operator of Gmail is refused by its name: a search that ignores a condition would find
//! too much. Text matches as in SEARCH: as a substring. A search looks at one mailbox. So
//! `in:sent` finds nothing in another one, even if a copy of a message is in Sent.

use posthaste_imap_codec::Date;
use posthaste_imap_codec::command::SearchKey;

use super::attachments::PartCondition;
use super::searched::{Searched, either};

/// Terms of a query, and levels of its parentheses.
pub(super) const TERMS_MAX: usize = 256;
const NESTING_MAX: usize = 16;

/// Gmail's operators that are refused.
const REFUSED: [&str; 8] =
    ["category", "circle", "delivered", "replyto", "sender", "language", "participants", "around"];

pub(super) const DAY_S: u64 = 86_400;

/// The key of a query; or why it cannot be searched for.
pub(super) fn parse(query: &str, searched: Searched<'_>) -> Result<SearchKey, String> {
    if query.trim().is_empty() {
        return Ok(SearchKey::All);
    }
    let mut reader = QueryReader { rest: query, terms: 0, searched };
    reader.all(None, 0, &|text| Ok(SearchKey::Text(text.to_owned())))
}

/// The key that a plain word under an operator makes.
type KeyMaker<'m> = &'m dyn Fn(&str) -> Result<SearchKey, String>;

struct QueryReader<'q> {
    rest: &'q str,
    terms: usize,
    searched: Searched<'q>,
}

impl<'q> QueryReader<'q> {
    /// Terms up to the closing bracket, or to the end.
    fn all(&mut self, until: Option<char>, depth: usize, meaning: KeyMaker<'_>) -> Result<SearchKey, String> {
        // All terms must hold. A term holds if one of its alternatives holds.
        let mut all: Vec<Vec<SearchKey>> = Vec::new();
        // OR or AND, until the term after it.
        let mut pending = None;
        loop {
            self.rest = self.rest.trim_start();
            let Some(next) = self.rest.chars().next() else {
                return match until {
                    Some(close) => Err(format!("the query lacks a {close}")),
                    None => ended(all, pending, until),
                };
            };
            if Some(next) == until {
                self.rest = &self.rest[1..];
                return ended(all, pending, until);
            }
            if let Some(word) = ["OR", "|", "AND"].into_iter().find(|word| self.eat_word(word)) {
                if all.is_empty() || pending.is_some() {
                    return Err(lacks_terms(word));
                }
                pending = Some(word);
                continue;
            }
            if self.eat_word("AROUND") {
                return Err("AROUND cannot be searched for here".to_owned());
            }
            let term = self.term(depth, meaning)?;
            let is_or = pending.take().is_some_and(|word| word != "AND");
            match all.last_mut().filter(|_| is_or) {
                Some(either) => either.push(term),
                None => all.push(vec![term]),
            }
        }
    }

    /// One term.
    fn term(&mut self, depth: usize, meaning: KeyMaker<'_>) -> Result<SearchKey, String> {
        self.terms += 1;
        if self.terms > TERMS_MAX {
            return Err(format!("the query has more than {TERMS_MAX} terms"));
        }
        if depth >= NESTING_MAX {
            return Err("the query is nested too deeply".to_owned());
        }
        match self.rest.chars().next() {
            Some('-') => {
                self.rest = &self.rest[1..];
                if self.rest.is_empty() || self.rest.starts_with(char::is_whitespace) {
                    return Err("- needs a term after it".to_owned());
                }
                let term = self.term(depth + 1, meaning)?;
                Ok(SearchKey::Not(Box::new(term)))
            }
            Some(open @ ('(' | '{')) => {
                self.rest = &self.rest[1..];
                self.all(Some(if open == '(' { ')' } else { '}' }), depth + 1, meaning)
            }
            Some('"') => meaning(self.phrase()?),
            Some(stray @ (')' | '}')) => Err(format!("the query has a {stray} too many")),
            _ => self.word_or_operator(depth, meaning),
        }
    }

    fn word_or_operator(&mut self, depth: usize, meaning: KeyMaker<'_>) -> Result<SearchKey, String> {
        let word = self.word();
        let Some((name, value)) = word.split_once(':') else {
            // `+word` is exactly that word. Here each word is.
            return meaning(word.strip_prefix('+').filter(|word| !word.is_empty()).unwrap_or(word));
        };
        let name = name.to_ascii_lowercase();
        if !is_operator(&name) {
            return meaning(word);
        }
        let searched = self.searched;
        let of = |value: &str| operator(&name, value, searched);
        if !value.is_empty() {
            return of(value);
        }
        // The value is in quotes or brackets after the colon.
        match self.rest.chars().next() {
            Some('"' | '(' | '{') => self.term(depth + 1, &of),
            _ => Err(format!("{name}: has no value")),
        }
    }

    fn eat_word(&mut self, word: &str) -> bool {
        let after = self.rest.strip_prefix(word);
        match after.filter(|rest| rest.is_empty() || rest.starts_with(is_end)) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    /// Up to white space or a bracket.
    fn word(&mut self) -> &'q str {
        let (word, rest) = self.rest.split_at(self.rest.find(is_end).unwrap_or(self.rest.len()));
        self.rest = rest;
        word
    }

    fn phrase(&mut self) -> Result<&'q str, String> {
        let inner = &self.rest[1..];
        let (phrase, rest) = inner.split_once('"').ok_or("the query lacks a closing quote")?;
        if phrase.is_empty() {
            return Err("a phrase in quotes has no words".to_owned());
        }
        self.rest = rest;
        Ok(phrase)
    }
}

/// Whether a word ends before this.
pub(super) fn is_end(c: char) -> bool {
    c.is_whitespace() || matches!(c, '(' | ')' | '{' | '}' | '"')
}

/// Terms side by side, at their end. In `{}` one of them is enough.
fn ended(all: Vec<Vec<SearchKey>>, pending: Option<&str>, until: Option<char>) -> Result<SearchKey, String> {
    if let Some(word) = pending {
        return Err(lacks_terms(word));
    }
    let mut all: Vec<SearchKey> =
        all.into_iter().filter_map(|keys| keys.into_iter().reduce(either)).collect();
    let joined = match (all.len(), until) {
        (0 | 1, _) => all.pop(),
        (_, Some('}')) => all.into_iter().reduce(either),
        _ => Some(SearchKey::And(all)),
    };
    joined.ok_or_else(|| "brackets have no terms in them".to_owned())
}

/// Without a term on one side, the condition would be ignored, and too much would be found.
fn lacks_terms(word: &str) -> String {
    format!("{word} needs a term on both sides: write \"{word}\" in quotes to search for it")
}

fn is_operator(name: &str) -> bool {
    const KNOWN: [&str; 24] = [
        "in",
        "is",
        "has",
        "filename",
        "from",
        "to",
        "cc",
        "bcc",
        "subject",
        "rfc822msgid",
        "list",
        "deliveredto",
        "label",
        "after",
        "newer",
        "before",
        "older",
        "newer_than",
        "older_than",
        "larger",
        "larger_than",
        "size",
        "smaller",
        "smaller_than",
    ];
    KNOWN.contains(&name) || REFUSED.contains(&name)
}

fn operator(name: &str, value: &str, searched: Searched<'_>) -> Result<SearchKey, String> {
    use SearchKey as K;
    let text = || value.to_owned();
    let address = || match value.eq_ignore_ascii_case("me") {
        true => searched.me.to_owned(),
        false => text(),
    };
    let field = |field: &str| K::Header(field.to_owned(), text());
    let wrong = |wanted: &str| format!("{name}:{value} cannot be searched for: write {wanted}");
    Ok(match name {
        "from" => K::From(address()),
        "to" => K::To(address()),
        "cc" => K::Cc(address()),
        "bcc" => K::Bcc(address()),
        "subject" => K::Subject(text()),
        "rfc822msgid" => field("Message-ID"),
        "list" => field("List-ID"),
        "deliveredto" => K::Header("Delivered-To".to_owned(), address()),
        "label" | "in" => searched.labelled(value)?,
        "filename" => PartCondition::filename_key(value),
        "after" | "newer" => match (date(value), seconds(value)) {
            (Some(day), _) => K::Since(day),
            (None, Some(since)) => since_second(since, searched.now),
            (None, None) => return Err(wrong("a date like 2026/01/31, or seconds since 1970")),
        },
        "before" | "older" => match (date(value), seconds(value)) {
            (Some(day), _) => K::Before(day),
            (None, Some(until)) => K::Not(Box::new(since_second(until, searched.now))),
            (None, None) => return Err(wrong("a date like 2026/01/31, or seconds since 1970")),
        },
        "newer_than" => K::Younger(age(value).ok_or_else(|| wrong("3d, 2m or 1y"))?),
        "older_than" => K::Older(age(value).ok_or_else(|| wrong("3d, 2m or 1y"))?),
        "larger" | "larger_than" | "size" => K::Larger(size(value).ok_or_else(|| wrong("1000, 10K or 5M"))?),
        "smaller" | "smaller_than" => K::Smaller(size(value).ok_or_else(|| wrong("1000, 10K or 5M"))?),
        _ => state(name, value, searched)
            .ok_or_else(|| format!("{name}:{value} cannot be searched for here"))?,
    })
}

/// `is:unread`, `has:attachment` and the like.
fn state(name: &str, value: &str, searched: Searched<'_>) -> Option<SearchKey> {
    match (name, value.to_ascii_lowercase().as_str()) {
        ("is", _) => searched.state(value),
        ("has", "attachment") => Some(PartCondition::attachment_key()),
        ("has", "userlabels") => Some(searched.any_user_label()),
        ("has", "nouserlabels") => Some(SearchKey::Not(Box::new(searched.any_user_label()))),
        _ => None,
    }
}

/// `2026/01/31` or `2026-1-31`
fn date(text: &str) -> Option<Date> {
    let mut parts = text.split(['/', '-']);
    let (year, month, day) = (parts.next()?, parts.next()?, parts.next()?);
    if year.len() != 4 || parts.next().is_some() {
        return None;
    }
    Date::new(year.parse().ok()?, month.parse().ok()?, day.parse().ok()?)
}

/// `1388552400`: scripts write the time as seconds since 1970, and 0 for all mail. Four digits are
/// a year, which is no date of its own.
fn seconds(text: &str) -> Option<i64> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    (is_number && text.len() != 4).then(|| text.parse().ok())?
}

/// The messages that came at this second or later. OLDER and YOUNGER count from now (RFC 5032 §3).
fn since_second(second: i64, now: i64) -> SearchKey {
    match u32::try_from(now.saturating_sub(second)) {
        Ok(0) | Err(_) if second >= now => SearchKey::Not(Box::new(SearchKey::All)),
        Ok(age) => SearchKey::Younger(age),
        Err(_) => SearchKey::All,
    }
}

/// `3d` in seconds: a month has 30 days, a year 365.
fn age(text: &str) -> Option<u32> {
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let days = match unit {
        "d" => 1,
        "m" => 30,
        "y" => 365,
        _ => return None,
    };
    let seconds = digits.parse::<u64>().ok()?.checked_mul(days * DAY_S)?;
    u32::try_from(seconds).ok().filter(|&seconds| seconds > 0)
}

/// `10K` in bytes.
fn size(text: &str) -> Option<u64> {
    let text = text.to_ascii_uppercase();
    let (digits, times) = match text.strip_suffix('B').unwrap_or(&text) {
        text if text.ends_with('K') => (&text[..text.len() - 1], 1 << 10),
        text if text.ends_with('M') => (&text[..text.len() - 1], 1 << 20),
        text => (text, 1),
    };
    digits.parse::<u64>().ok()?.checked_mul(times).filter(|&bytes| bytes <= i64::MAX as u64)
}

#[cfg(test)]
mod tests {
    use posthaste_imap_codec::NameEncoding;
    use posthaste_mail_model::{Flag, Id, Keyword, KeywordTable, MailboxId, MailboxName, UidValidity};
    use posthaste_store::{MailboxEntry, SpecialUse};

    use super::super::searched::WrittenNames;
    use super::*;

    /// In the mailbox `Sent`, whose messages have some keywords.
    fn parsed(query: &str) -> Result<SearchKey, String> {
        let mailbox = MailboxEntry {
            id: MailboxId(Id::new(1, 1)),
            name: MailboxName::new("Sent").unwrap(),
            uid_validity: UidValidity::new(1).unwrap(),
            special_use: Some(SpecialUse::Sent),
        };
        let keywords = ["work", "My=20Family/2026", "$Junk"].map(|name| Keyword::new(name).unwrap());
        let keywords = KeywordTable::from_keywords(keywords.to_vec()).unwrap();
        let (names, written) = (NameEncoding::Utf7, WrittenNames::of(Some(&mailbox), &keywords));
        let me = "ana@x.test";
        let now = 1_700_000_100;
        parse(query, Searched { mailbox: Some(&mailbox), written: &written, names, me, now })
    }

    fn text(text: &str) -> SearchKey {
        SearchKey::Text(text.to_owned())
    }
    fn or(a: SearchKey, b: SearchKey) -> SearchKey {
        SearchKey::Or(Box::new(a), Box::new(b))
    }
    fn not(a: SearchKey) -> SearchKey {
        SearchKey::Not(Box::new(a))
    }

    #[test]
    fn queries_mean_what_gmail_says() {
        use SearchKey as K;
        let subject = |text: &str| K::Subject(text.to_owned());
        let from = |text: &str| K::From(text.to_owned());
        let has = |name: &str| K::Has(Flag::Keyword(Keyword::new(name).unwrap()));
        for (query, key) in [
            ("", K::All),
            ("word", text("word")),
            ("two words", K::And(vec![text("two"), text("words")])),
            ("\"one phrase\"", text("one phrase")),
            ("http://a.example/", text("http://a.example/")),
            ("from:amy", from("amy")),
            ("From:\"Amy B\"", from("Amy B")),
            ("subject:(dinner movie)", K::And(vec![subject("dinner"), subject("movie")])),
            ("{from:amy from:david}", or(from("amy"), from("david"))),
            ("subject:{a b} c", K::And(vec![or(subject("a"), subject("b")), text("c")])),
            ("from:amy OR from:david x", K::And(vec![or(from("amy"), from("david")), text("x")])),
            ("a AND -b", K::And(vec![text("a"), not(text("b"))])),
            ("-(a b)", not(K::And(vec![text("a"), text("b")]))),
            ("is:unread", K::Lacks(Flag::Seen)),
            ("after:1700000000", K::Younger(100)),
            ("before:1700000000", not(K::Younger(100))),
            ("after:1700000101", not(K::All)),
            ("after:0", K::Younger(1_700_000_100)),
            ("before:0", not(K::Younger(1_700_000_100))),
            ("-is:starred", not(K::Has(Flag::Flagged))),
            ("is:muted", has("$Muted")),
            ("has:attachment", K::GmRaw("has:attachment".into())),
            ("filename:\"a b.pdf\"", K::GmRaw("filename:a b.pdf".into())),
            ("has:userlabels", or(has("work"), has("My=20Family/2026"))),
            ("to:me", K::To("ana@x.test".into())),
            ("+word", text("word")),
            ("+", text("+")),
            ("rfc822msgid:<a@b>", K::Header("Message-ID".into(), "<a@b>".into())),
            ("label:work", has("work")),
            ("label:my-family-2026", has("My=20Family/2026")),
            ("label:\"my family/2026\"", has("My=20Family/2026")),
            ("label:none", not(K::All)),
            ("in:inbox", not(K::All)),
            ("in:sent", K::All),
            ("in:drafts", K::Has(Flag::Draft)),
            ("in:anywhere", K::All),
            ("label:unread", K::Lacks(Flag::Seen)),
            ("after:2004/04/16", K::Since(Date::new(2004, 4, 16).unwrap())),
            ("older:2004-4-16", K::Before(Date::new(2004, 4, 16).unwrap())),
            ("newer_than:2d", K::Younger(172_800)),
            ("older_than:1y", K::Older(31_536_000)),
            ("larger:10M", K::Larger(10 << 20)),
            ("smaller:3kb", K::Smaller(3 << 10)),
            ("  ", K::All),
            ("a OR b OR c", or(or(text("a"), text("b")), text("c"))),
            ("(a | b) AND c", K::And(vec![or(text("a"), text("b")), text("c")])),
            ("\"OR\"", text("OR")),
            ("or", text("or")),
            ("a OR(b c)", or(text("a"), K::And(vec![text("b"), text("c")]))),
            ("a-", text("a-")),
        ] {
            assert_eq!(parsed(query), Ok(key), "{query}");
        }
    }

    #[test]
    fn invalid_queries_are_refused() {
        for query in [
            "in:snoozed",
            "is:snoozed",
            "has:drive",
            "filename:",
            "a AROUND 5 b",
            "category:social",
            "from:",
            "from: amy",
            "(a",
            "{a",
            "a)",
            "\"a",
            "after:yesterday",
            "after:2026",
            "after:-1",
            "older_than:1w",
            "older_than:",
            "newer_than:0d",
            "larger:big",
            "larger:99999999999999999999M",
            "older_than:é",
            "OR",
            "a OR",
            "OR a",
            "a OR OR b",
            "a OR AND b",
            "(a OR) b",
            "|",
            "AND",
            "a AND",
            "()",
            "a {}",
            "subject:()",
            "-",
            "a -",
            "- a",
            "(-)",
            "\"\"",
            "from:\"\"",
        ] {
            assert!(parsed(query).is_err(), "{query}: {:?}", parsed(query));
        }
        assert!(parsed(&"(".repeat(100_000)).is_err());
        assert!(parsed(&"-".repeat(100_000)).is_err());
        assert!(parsed(&"a ".repeat(1000)).is_err());
    }
}
