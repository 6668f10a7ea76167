//! APPEND and REPLACE: RFC 9051 §6.3.12, RFC 8508, MULTIAPPEND of RFC 3502, literal8 of RFC 3516,
//! UTF8 of RFC 6855 §4, CATENATE of RFC 4469.

use super::parse_words::{flag_list, mailbox};
use super::{AppendContent, AppendForm, AppendMessage, AppendText, CatenatePart, CommandBody};
use crate::cursor::{Cursor, Parsed};
use crate::limits::{APPEND_MESSAGES_MAX, CATENATE_PARTS_MAX};
use crate::message_annotation::value_changes;
use crate::{DateTime, MessageSet, NameEncoding, Numbering, SequenceSet};

/// `"APPEND" SP mailbox 1*(SP [flag-list SP] [date-time SP]
/// ["ANNOTATION" SP … SP] append-data)`
pub(super) fn append(c: &mut Cursor<'_>, names: NameEncoding) -> Parsed<CommandBody> {
    c.sp()?;
    let mailbox = mailbox(c, names)?;
    c.sp()?;
    let mut messages = vec![message(c)?];
    while c.more()? {
        if messages.len() == APPEND_MESSAGES_MAX {
            return c.limit("Too many messages in one APPEND");
        }
        // Python's IMAPClient puts two spaces between one literal and the next.
        c.spaces();
        messages.push(message(c)?);
    }
    Ok(CommandBody::Append { mailbox, messages })
}

/// `"REPLACE" SP seq-number SP mailbox append-message`, or with `UID` a unique identifier: RFC 8508
/// §6.
pub(super) fn replace(c: &mut Cursor<'_>, names: NameEncoding, numbering: Numbering) -> Parsed<CommandBody> {
    c.sp()?;
    let set = MessageSet::new(numbering, SequenceSet::one(c, numbering == Numbering::Seq)?);
    c.sp()?;
    let mailbox = mailbox(c, names)?;
    c.sp()?;
    Ok(CommandBody::Replace { set, mailbox, message: Box::new(message(c)?) })
}

fn message(c: &mut Cursor<'_>) -> Parsed<AppendMessage> {
    let mut flags = Vec::new();
    if c.peek() == Some(b'(') {
        flags = flag_list(c)?;
        c.sp()?;
    }
    let mut date = None;
    if c.peek() == Some(b'"') {
        date = Some(date_time(c)?);
        c.sp()?;
    }
    // RFC 5257 §4.7
    let mut annotations = Vec::new();
    if c.eat_word(b"ANNOTATION") {
        c.sp()?;
        annotations = value_changes(c)?;
        c.sp()?;
    }
    let content = if c.eat_word(b"CATENATE") {
        c.sp()?;
        AppendContent::Catenate(parts(c)?)
    } else {
        AppendContent::Sent(text(c, "flags in parentheses, a date in quotes, CATENATE or a literal")?)
    };
    Ok(AppendMessage { flags, date, annotations, content })
}

/// `"(" cat-part *(SP cat-part) ")"`: RFC 4469 §5.
fn parts(c: &mut Cursor<'_>) -> Parsed<Vec<CatenatePart>> {
    const WANTED: &str = "URL with a URL or TEXT with a literal";
    let at = c.clone();
    let parts = c.list(CATENATE_PARTS_MAX, "Too many parts in one CATENATE", |c| {
        if c.eat_word(b"URL") {
            c.sp()?;
            return Ok(CatenatePart::Url(c.astring_text("a URL")?));
        }
        // RFC 6855 §4: cat-part =/ utf8-literal
        let is_text = c.eat_word(b"TEXT");
        if is_text {
            c.sp()?;
        }
        match text(c, WANTED)? {
            text if is_text == (text.form != AppendForm::Utf8) => Ok(CatenatePart::Text(text)),
            _ => c.fail(WANTED),
        }
    })?;
    if parts.is_empty() { at.fail(WANTED) } else { Ok(parts) }
}

/// `literal`, `literal8` or `"UTF8" SP "(" literal8 ")"`
fn text(c: &mut Cursor<'_>, wanted: &'static str) -> Parsed<AppendText> {
    let form = if c.eat_word(b"UTF8") {
        c.sp()?;
        c.expect(b'(', "(")?;
        AppendForm::Utf8
    } else if c.peek() == Some(b'~') {
        AppendForm::Literal8
    } else {
        AppendForm::Literal
    };
    if form != AppendForm::Literal {
        c.expect(b'~', "~ before the literal")?;
    }
    if c.peek() != Some(b'{') {
        return c.fail(wanted);
    }
    let range = c.literal()?;
    let data = c.slice(range);
    if form == AppendForm::Utf8 {
        c.expect(b')', ") after the literal")?;
    }
    Ok(AppendText { form, data })
}

/// `date-time`
pub(crate) fn date_time(c: &mut Cursor<'_>) -> Parsed<DateTime> {
    const WANTED: &str = "a date like \"17-Jul-1996 02:44:25 -0700\"";
    let at = c.clone();
    let text = c.string(WANTED)?;
    DateTime::parse(&text).map_or_else(|| at.fail(WANTED), Ok)
}
