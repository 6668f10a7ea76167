//! SEARCH: RFC 9051 §6.4.4. Recursive only as deep as [`SEARCH_NESTING_MAX`].

use std::borrow::Cow;

use bytes::Bytes;
use posthaste_mail_model::{Flag, Uid};
use posthaste_mime_summary::{decode_bytes, is_charset};

use super::parse_fetch::items_of_new;
use super::parse_words::{gm_label, keyword, mod_seq};
use super::{Charset, CommandBody, EntryScope, FetchItem, ModSeqEntry, SearchArgs, SearchKey, SearchReturn};
use crate::cursor::{Cursor, Parsed, Quoting};
use crate::limits::{ENTRY_NAME_BYTES_MAX, SEARCH_KEYS_MAX, SEARCH_NESTING_MAX};
use crate::message_annotation::annotation_key;
use crate::object_ids::object_id;
use crate::{Date, Numbering, PageRange, ParseError, ParseErrorKind, SeqSet, SequenceSet, UidSet};

/// `"SEARCH" SP search-program`
pub(super) fn search(c: &mut Cursor<'_>, numbering: Numbering) -> Parsed<CommandBody> {
    c.sp()?;
    let Program { returns, update_items, charset, key } = program(c)?;
    Ok(CommandBody::Search(SearchArgs { numbering, charset, returns, update_items, key }))
}

/// The arguments that SEARCH and ESEARCH share.
pub(super) struct Program {
    pub(super) returns: Option<SearchReturn>,
    pub(super) update_items: Vec<FetchItem>,
    pub(super) charset: Option<Charset>,
    pub(super) key: SearchKey,
}

/// `["RETURN" SP "(" … ")" SP] ["CHARSET" SP charset SP] search-key *(SP search-key)`
pub(super) fn program(c: &mut Cursor<'_>) -> Parsed<Program> {
    let (returns, update_items) = search_return(c)?;
    let mut texts = None;
    if c.eat_word(b"CHARSET") {
        c.sp()?;
        texts = Some(charset(c, returns)?);
        c.sp()?;
    }
    let charset = texts.as_ref().map(|texts| texts.charset);
    Ok(Program { returns, update_items, charset, key: keys(c, &texts.unwrap_or_default())? })
}

/// `search-key *(SP search-key)`, up to the end of the line.
pub(super) fn keys(c: &mut Cursor<'_>, texts: &Texts<'_>) -> Parsed<SearchKey> {
    let mut keys = Keys { left: SEARCH_KEYS_MAX, texts };
    let mut all = vec![keys.key(c, 0)?];
    while c.more()? {
        all.push(keys.key(c, 0)?);
    }
    Ok(and(all))
}

/// The criteria of a search as a filter has them (RFC 5466 §3.1): `[CHARSET charset] keys`, in one
/// line.
pub fn parse_criteria(input: &Bytes) -> Result<SearchKey, ParseError> {
    let mut cursor = Cursor::new(input, Quoting::Strict);
    criteria(&mut cursor).map_err(|fault| fault.with_tag(None))
}

/// The criteria of a filter: `["CHARSET" SP charset SP] search-key *(SP search-key)`.
fn criteria(c: &mut Cursor<'_>) -> Parsed<SearchKey> {
    let mut texts = Texts::default();
    if c.eat_word(b"CHARSET") {
        c.sp()?;
        texts = charset(c, None)?;
        c.sp()?;
    }
    let key = keys(c, &texts)?;
    c.end()?;
    Ok(key)
}

/// Several keys side by side; one alone is itself.
fn and(mut keys: Vec<SearchKey>) -> SearchKey {
    match keys.len() {
        1 => keys.pop().unwrap_or(SearchKey::All),
        _ => SearchKey::And(keys),
    }
}

/// `["RETURN" SP "(" … ")" SP]`, and what UPDATE fetches.
pub(super) fn search_return(c: &mut Cursor<'_>) -> Parsed<(Option<SearchReturn>, Vec<FetchItem>)> {
    if !c.eat_word(b"RETURN") {
        return Ok((None, Vec::new()));
    }
    c.sp()?;
    let (returns, update_items) = return_options(c)?;
    c.sp()?;
    Ok((Some(returns), update_items))
}

fn return_options(c: &mut Cursor<'_>) -> Parsed<(SearchReturn, Vec<FetchItem>)> {
    let start = c.clone();
    let (mut returns, mut update_items) = (SearchReturn::default(), Vec::new());
    c.list(16, "Too many result options", |c| {
        let at = c.clone();
        match c.word().as_bytes() {
            b"MIN" => returns.min = true,
            b"MAX" => returns.max = true,
            b"ALL" => returns.all = true,
            b"COUNT" => returns.count = true,
            b"SAVE" => returns.save = true,
            b"UPDATE" => {
                returns.update = true;
                update_items = items_of_new(c)?;
            }
            b"CONTEXT" => returns.context = true,
            b"RELEVANCY" => returns.relevancy = true,
            b"PARTIAL" if returns.partial.is_none() => {
                c.sp()?;
                returns.partial = Some(PageRange::parse(c)?);
            }
            b"PARTIAL" => return at.fail("PARTIAL only once"),
            _ => return at.fail("MIN, MAX, ALL, COUNT, SAVE, PARTIAL, UPDATE, CONTEXT or RELEVANCY"),
        }
        Ok(())
    })?;
    // RFC 9394 §3.1
    if returns.all && returns.partial.is_some() {
        return start.fail("either PARTIAL or ALL");
    }
    // RFC 4731 §3.1: an empty list is ALL. So is one that says only what happens later: without
    // the result, a client could not apply its updates.
    returns.all |= returns.names_no_result();
    Ok((returns, update_items))
}

/// The encoding of the texts of a search.
pub(super) struct Texts<'a> {
    /// The charset of the value that is made, in which texts are decoded.
    pub(super) charset: Charset,
    /// The name of a charset other than US-ASCII and UTF-8.
    label: Option<Cow<'a, [u8]>>,
}

impl Default for Texts<'_> {
    fn default() -> Self {
        Self { charset: Charset::Utf8, label: None }
    }
}

impl Texts<'_> {
    /// `astring` in this charset.
    fn text(&self, c: &mut Cursor<'_>, expected: &'static str) -> Parsed<String> {
        let Some(label) = &self.label else { return c.astring_text(expected) };
        Ok(decode_bytes(label, &c.astring(expected)?).into_owned())
    }
}

/// The charset of a search that returns this: RFC 5182 §2.1 needs it for the answer to a bad one.
pub(super) fn charset<'a>(c: &mut Cursor<'a>, returns: Option<SearchReturn>) -> Parsed<Texts<'a>> {
    let at = c.clone();
    let name = c.astring("a charset")?;
    if name.eq_ignore_ascii_case(b"UTF-8") {
        Ok(Texts::default())
    } else if name.eq_ignore_ascii_case(b"US-ASCII") {
        Ok(Texts { charset: Charset::UsAscii, label: None })
    } else if !name.is_empty() && is_charset(&name) {
        Ok(Texts { charset: Charset::Utf8, label: Some(name) })
    } else {
        at.fail("US-ASCII or UTF-8").map_err(|mut f| {
            f.kind = ParseErrorKind::BadCharset { saving: returns.is_some_and(|r| r.save) };
            f
        })
    }
}

/// Counts the keys of one command.
struct Keys<'t> {
    left: usize,
    texts: &'t Texts<'t>,
}

impl Keys<'_> {
    /// `search-key`
    fn key(&mut self, c: &mut Cursor<'_>, depth: usize) -> Parsed<SearchKey> {
        if depth > SEARCH_NESTING_MAX {
            return c.limit("The search is nested too deeply");
        }
        match self.left.checked_sub(1) {
            Some(left) => self.left = left,
            None => return c.limit("The search has too many keys"),
        }
        match c.peek() {
            Some(b'(') => return self.parenthesised(c, depth),
            Some(b'0'..=b'9' | b'*' | b'$') => {
                return SequenceSet::parse(c).map(|set| SearchKey::Seq(SeqSet(set)));
            }
            _ => {}
        }
        let start = c.clone();
        let word = c.word();
        let word = word.as_bytes();
        if let Some(key) = bare_key(word) {
            return Ok(key);
        }
        match word {
            b"NOT" => {
                c.sp()?;
                Ok(SearchKey::Not(Box::new(self.key(c, depth + 1)?)))
            }
            b"FUZZY" => {
                c.sp()?;
                Ok(SearchKey::Fuzzy(Box::new(self.key(c, depth + 1)?)))
            }
            b"OR" => {
                c.sp()?;
                let left = self.key(c, depth + 1)?;
                c.sp()?;
                Ok(SearchKey::Or(Box::new(left), Box::new(self.key(c, depth + 1)?)))
            }
            _ => key_with_argument(c, &start, (word, self.texts)),
        }
    }

    fn parenthesised(&mut self, c: &mut Cursor<'_>, depth: usize) -> Parsed<SearchKey> {
        let at = c.clone();
        let keys = c.list(SEARCH_KEYS_MAX, "The search has too many keys", |c| self.key(c, depth + 1))?;
        if keys.is_empty() { at.fail("at least one search key") } else { Ok(and(keys)) }
    }
}

/// Keys without an argument.
fn bare_key(word: &[u8]) -> Option<SearchKey> {
    Some(match word {
        b"ALL" => SearchKey::All,
        b"ANSWERED" => SearchKey::Has(Flag::Answered),
        b"DELETED" => SearchKey::Has(Flag::Deleted),
        b"DRAFT" => SearchKey::Has(Flag::Draft),
        b"FLAGGED" => SearchKey::Has(Flag::Flagged),
        b"SEEN" => SearchKey::Has(Flag::Seen),
        b"UNANSWERED" => SearchKey::Lacks(Flag::Answered),
        b"UNDELETED" => SearchKey::Lacks(Flag::Deleted),
        b"UNDRAFT" => SearchKey::Lacks(Flag::Draft),
        b"UNFLAGGED" => SearchKey::Lacks(Flag::Flagged),
        b"UNSEEN" => SearchKey::Lacks(Flag::Seen),
        b"NEW" => SearchKey::New,
        b"OLD" => SearchKey::Old,
        b"RECENT" => SearchKey::Recent,
        b"SAVEDATESUPPORTED" => SearchKey::SaveDateSupported,
        _ => return None,
    })
}

fn key_with_argument(
    c: &mut Cursor<'_>,
    start: &Cursor<'_>,
    (word, texts): (&[u8], &Texts<'_>),
) -> Parsed<SearchKey> {
    let text = |c: &mut Cursor<'_>| {
        c.sp()?;
        texts.text(c, "the text to search for")
    };
    let date = |c: &mut Cursor<'_>| {
        c.sp()?;
        self::date(c)
    };
    Ok(match word {
        b"BCC" => SearchKey::Bcc(text(c)?),
        b"CC" => SearchKey::Cc(text(c)?),
        b"FROM" => SearchKey::From(text(c)?),
        b"SUBJECT" => SearchKey::Subject(text(c)?),
        b"TO" => SearchKey::To(text(c)?),
        b"BODY" => SearchKey::Body(text(c)?),
        b"TEXT" => SearchKey::Text(text(c)?),
        b"HEADER" => SearchKey::Header(text(c)?, text(c)?),
        b"BEFORE" => SearchKey::Before(date(c)?),
        b"ON" => SearchKey::On(date(c)?),
        b"SINCE" => SearchKey::Since(date(c)?),
        b"SENTBEFORE" => SearchKey::SentBefore(date(c)?),
        b"SENTON" => SearchKey::SentOn(date(c)?),
        b"SENTSINCE" => SearchKey::SentSince(date(c)?),
        b"SAVEDBEFORE" => SearchKey::SavedBefore(date(c)?),
        b"SAVEDON" => SearchKey::SavedOn(date(c)?),
        b"SAVEDSINCE" => SearchKey::SavedSince(date(c)?),
        _ => {
            let known: &[&[u8]] = &[
                b"KEYWORD",
                b"UNKEYWORD",
                b"LARGER",
                b"SMALLER",
                b"OLDER",
                b"YOUNGER",
                b"UID",
                b"UIDAFTER",
                b"UIDBEFORE",
                b"MODSEQ",
                b"ANNOTATION",
                b"FILTER",
                b"EMAILID",
                b"THREADID",
                b"X-GM-MSGID",
                b"X-GM-THRID",
                b"X-GM-LABELS",
                b"X-GM-RAW",
            ];
            if !known.contains(&word) {
                return start.fail("a search key");
            }
            c.sp()?;
            key_of_numbers(c, word, texts)?
        }
    })
}

/// Keys whose argument is a flag, a number, a set or an id, and those of Gmail. The space before it
/// has been passed.
fn key_of_numbers(c: &mut Cursor<'_>, word: &[u8], texts: &Texts<'_>) -> Parsed<SearchKey> {
    Ok(match word {
        b"KEYWORD" => SearchKey::Has(Flag::Keyword(keyword(c)?)),
        b"UNKEYWORD" => SearchKey::Lacks(Flag::Keyword(keyword(c)?)),
        b"LARGER" => SearchKey::Larger(c.number64("a number of bytes")?),
        b"SMALLER" => SearchKey::Smaller(c.number64("a number of bytes")?),
        // RFC 5032 §5: nz-number.
        b"OLDER" => SearchKey::Older(c.nz_number("a number of seconds")?),
        b"YOUNGER" => SearchKey::Younger(c.nz_number("a number of seconds")?),
        b"UID" => SearchKey::Uid(UidSet(SequenceSet::parse(c)?)),
        b"UIDAFTER" => SearchKey::UidAfter(unique_id(c)?),
        b"UIDBEFORE" => SearchKey::UidBefore(unique_id(c)?),
        b"MODSEQ" => search_mod_seq(c)?,
        b"ANNOTATION" => SearchKey::Annotation(Box::new(annotation_key(c)?)),
        b"FILTER" => filter(c, texts)?,
        b"EMAILID" => SearchKey::EmailId(object_id(c)?),
        b"X-GM-MSGID" => SearchKey::GmMessageId(c.number64("a message number of Gmail")?),
        b"X-GM-THRID" => SearchKey::GmThreadId(c.number64("a thread number of Gmail")?),
        // Gmail writes its own labels with a backslash and without quotes.
        b"X-GM-LABELS" => SearchKey::GmLabel(gm_label(c)?),
        b"X-GM-RAW" => SearchKey::GmRaw(texts.text(c, "a query of Gmail")?),
        _ => SearchKey::ThreadId(object_id(c)?),
    })
}

/// RFC 5466 §3.1: FILTER implies UTF-8.
fn filter(c: &mut Cursor<'_>, texts: &Texts<'_>) -> Parsed<SearchKey> {
    if texts.label.is_some() {
        return c.fail("UTF-8").map_err(|mut f| {
            f.kind = ParseErrorKind::FilterCharset;
            f
        });
    }
    Ok(SearchKey::Filter(filter_name(c)?))
}

/// RFC 5466 §4: `filter-name = 1*<any ATOM-CHAR except "/">`.
fn filter_name(c: &mut Cursor<'_>) -> Parsed<String> {
    let at = c.clone();
    let name = c.atom("the name of a filter")?;
    if name.contains(&b'/') || name.len() > ENTRY_NAME_BYTES_MAX {
        return at.fail("the name of a filter, without /");
    }
    c.text(name)
}

/// RFC 9738 §4: `uniqueid`, no set.
fn unique_id(c: &mut Cursor<'_>) -> Parsed<Uid> {
    let at = c.clone();
    Uid::new(c.nz_number("a UID")?).map_or_else(|| at.fail("a UID"), Ok)
}

/// `date`: with or without quotes.
fn date(c: &mut Cursor<'_>) -> Parsed<Date> {
    const WANTED: &str = "a date like 1-Feb-1994";
    let at = c.clone();
    let text = c.astring(WANTED)?;
    Date::parse(&text).map_or_else(|| at.fail(WANTED), Ok)
}

/// RFC 7162 §7: `"MODSEQ" [SP entry-name SP entry-type-req] SP mod-sequence-valzer`.
fn search_mod_seq(c: &mut Cursor<'_>) -> Parsed<SearchKey> {
    let mut entry = None;
    if matches!(c.peek(), Some(b'"' | b'{')) {
        let name = c.astring_text("the name of an entry")?;
        c.sp()?;
        let at = c.clone();
        let scope = match c.word().as_bytes() {
            b"PRIV" => EntryScope::Private,
            b"SHARED" => EntryScope::Shared,
            b"ALL" => EntryScope::All,
            _ => return at.fail("priv, shared or all"),
        };
        c.sp()?;
        entry = Some(ModSeqEntry { name, scope });
    }
    Ok(SearchKey::ModSeq { entry, modseq: mod_seq(c)? })
}
