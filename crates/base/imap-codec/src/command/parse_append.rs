//! APPEND and REPLACE: RFC 9051 §6.3.12, RFC 8508, MULTIAPPEND of RFC 3502, literal8 of RFC 3516,
//! UTF8 of RFC 6855 §4.

use super::parse_words::{flag_list, mailbox};
use super::{AppendForm, AppendMessage, CommandBody};
use crate::cursor::{Cursor, Parsed};
use crate::limits::APPEND_MESSAGES_MAX;
use crate::{DateTime, MessageSet, NameEncoding, Numbering, SequenceSet};

/// `"APPEND" SP mailbox 1*(SP [flag-list SP] [date-time SP] literal)`
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
        return c.fail("flags in parentheses, a date in quotes or a literal");
    }
    let range = c.literal()?;
    let data = c.slice(range);
    if form == AppendForm::Utf8 {
        c.expect(b')', ") after the literal")?;
    }
    Ok(AppendMessage { flags, date, form, data })
}

/// `date-time`
pub(crate) fn date_time(c: &mut Cursor<'_>) -> Parsed<DateTime> {
    const WANTED: &str = "a date like \"17-Jul-1996 02:44:25 -0700\"";
    let at = c.clone();
    let text = c.string(WANTED)?;
    DateTime::parse(&text).map_or_else(|| at.fail(WANTED), Ok)
}
