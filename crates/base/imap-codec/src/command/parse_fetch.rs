//! FETCH and STORE: RFC 9051 §6.4.5, §6.4.6, modifiers of RFC 7162 and RFC 9394.

use super::parse_words::{flag, flag_list, gm_label, mod_seq};
use super::{CommandBody, FetchItem, FetchModifiers, SnippetName, StoreAction, StoreAnswer};
use crate::cursor::{Cursor, Parsed};
use crate::limits::{FETCH_ITEMS_MAX, FLAGS_MAX, HEADER_FIELDS_IN_ALL_MAX};
use crate::message_annotation::{annotation_item, value_changes};
use crate::{MessageSet, Numbering, PageRange, PartPath, Partial, Section, SectionText, SequenceSet};

/// `"FETCH" SP sequence-set SP (macro / fetch-att / "(" fetch-att *(SP fetch-att) ")")
/// [fetch-modifiers]`
pub(super) fn fetch(c: &mut Cursor<'_>, numbering: Numbering) -> Parsed<CommandBody> {
    c.sp()?;
    let set = MessageSet::new(numbering, SequenceSet::parse(c)?);
    c.sp()?;
    let items = if c.peek() == Some(b'(') {
        items(c)?
    } else {
        match macro_items(c) {
            Some(items) => items.to_vec(),
            None => vec![item(c)?],
        }
    };
    let mut modifiers = FetchModifiers::default();
    if c.more()? {
        modifiers = fetch_modifiers(c, numbering)?;
    }
    Ok(CommandBody::Fetch { set, items, modifiers })
}

/// RFC 9051 §6.4.5: the items of the three macros.
fn macro_items(c: &mut Cursor<'_>) -> Option<&'static [FetchItem]> {
    use FetchItem::{Body, Envelope, Flags, InternalDate, Rfc822Size};
    let before = c.clone();
    match c.word().as_bytes() {
        b"ALL" => Some(&[Flags, InternalDate, Rfc822Size, Envelope]),
        b"FAST" => Some(&[Flags, InternalDate, Rfc822Size]),
        b"FULL" => Some(&[Flags, InternalDate, Rfc822Size, Envelope, Body]),
        _ => {
            *c = before;
            None
        }
    }
}

/// `"(" fetch-att *(SP fetch-att) ")"`
fn items(c: &mut Cursor<'_>) -> Parsed<Vec<FetchItem>> {
    let at = c.clone();
    let mut names = 0;
    let items = c.list(FETCH_ITEMS_MAX, "Too many items to fetch", |c| {
        let item = item(c)?;
        names += header_names(&item);
        if names > HEADER_FIELDS_IN_ALL_MAX { c.limit("Too many header fields in all") } else { Ok(item) }
    })?;
    if items.is_empty() { at.fail("at least one item to fetch") } else { Ok(items) }
}

/// How many header fields an item names.
fn header_names(item: &FetchItem) -> usize {
    match item {
        FetchItem::BodySection { section, .. } => match &section.text {
            SectionText::HeaderFields(names) | SectionText::HeaderFieldsNot(names) => names.len(),
            _ => 0,
        },
        _ => 0,
    }
}

/// `[SP "(" fetch-att *(SP fetch-att) ")"]`: the items that are sent of new messages
/// (RFC 5465 §8).
pub(super) fn items_of_new(c: &mut Cursor<'_>) -> Parsed<Vec<FetchItem>> {
    let before = c.clone();
    if c.eat(b' ') && c.peek() == Some(b'(') {
        return items(c);
    }
    *c = before;
    Ok(Vec::new())
}

/// `fetch-att`
fn item(c: &mut Cursor<'_>) -> Parsed<FetchItem> {
    let at = c.clone();
    Ok(match c.word().as_bytes() {
        b"UID" => FetchItem::Uid,
        b"FLAGS" => FetchItem::Flags,
        b"ENVELOPE" => FetchItem::Envelope,
        b"INTERNALDATE" => FetchItem::InternalDate,
        b"RFC822.SIZE" => FetchItem::Rfc822Size,
        b"BODY" if c.peek() == Some(b'[') => {
            FetchItem::BodySection { section: Section::parse(c)?, partial: Partial::parse(c)?, peek: false }
        }
        b"BODY.PEEK" => {
            FetchItem::BodySection { section: Section::parse(c)?, partial: Partial::parse(c)?, peek: true }
        }
        b"BODY" => FetchItem::Body,
        b"BODYSTRUCTURE" => FetchItem::BodyStructure,
        b"MODSEQ" => FetchItem::ModSeq,
        b"RFC822" => FetchItem::Rfc822,
        b"RFC822.HEADER" => FetchItem::Rfc822Header,
        b"RFC822.TEXT" => FetchItem::Rfc822Text,
        b"BINARY" => FetchItem::Binary { part: binary_part(c)?, partial: Partial::parse(c)?, peek: false },
        b"BINARY.PEEK" => {
            FetchItem::Binary { part: binary_part(c)?, partial: Partial::parse(c)?, peek: true }
        }
        b"BINARY.SIZE" => FetchItem::BinarySize { part: binary_part(c)? },
        b"EMAILID" => FetchItem::EmailId,
        b"THREADID" => FetchItem::ThreadId,
        b"OBJECTID" => FetchItem::ObjectIds,
        b"X-GM-MSGID" => FetchItem::GmMessageId,
        b"SNIPPET" => snippet(c),
        b"DIGEST.SHA1" => FetchItem::DigestSha1,
        b"X-GM-THRID" => FetchItem::GmThreadId,
        b"X-GM-LABELS" => FetchItem::GmLabels,
        b"ANNOTATION" => {
            c.sp()?;
            FetchItem::Annotation(annotation_item(c)?)
        }
        b"SAVEDATE" => FetchItem::SaveDate,
        b"CREATEDMODSEQ" => FetchItem::CreatedModSeq,
        b"PREVIEW" => preview(c)?,
        _ => return at.fail("an item to fetch"),
    })
}

/// `section-binary`
pub(crate) fn binary_part(c: &mut Cursor<'_>) -> Parsed<PartPath> {
    c.expect(b'[', "[")?;
    let part = PartPath::parse(c)?;
    c.expect(b']', "] after the part number")?;
    Ok(part)
}

/// RFC 8970 §6: `"PREVIEW" [SP "(" preview-mod *(SP preview-mod) ")"]`. The only one is LAZY.
fn preview(c: &mut Cursor<'_>) -> Parsed<FetchItem> {
    let before = c.clone();
    let mut is_lazy = c.eat(b' ') && c.eat(b'(') && c.eat_word(b"LAZY");
    while is_lazy {
        if c.eat(b')') {
            return Ok(FetchItem::Preview { lazy: true });
        }
        is_lazy = c.eat(b' ') && c.eat_word(b"LAZY");
    }
    *c = before;
    if let Some(lazy) = algorithms(c) {
        return Ok(FetchItem::Snippet { name: SnippetName::Preview, lazy });
    }
    Ok(FetchItem::Preview { lazy: false })
}

/// `"SNIPPET" [SP "(" algorithm *(SP algorithm) ")"]`: an earlier draft of RFC 8970.
fn snippet(c: &mut Cursor<'_>) -> FetchItem {
    FetchItem::Snippet { name: SnippetName::Snippet, lazy: algorithms(c).unwrap_or_default() }
}

/// ` (FUZZY)`, ` (LAZY=FUZZY)` or both: whether all are lazy. `None` for anything else, of which
/// nothing is read.
fn algorithms(c: &mut Cursor<'_>) -> Option<bool> {
    let before = c.clone();
    let mut lazy = true;
    let mut start = c.eat(b' ') && c.eat(b'(');
    while start {
        if c.eat_word(b"FUZZY") {
            lazy = false;
        } else if !c.eat_word(b"LAZY=FUZZY") {
            break;
        }
        if c.eat(b')') {
            return Some(lazy);
        }
        start = c.eat(b' ');
    }
    *c = before;
    None
}

fn fetch_modifiers(c: &mut Cursor<'_>, numbering: Numbering) -> Parsed<FetchModifiers> {
    let at = c.clone();
    let mut modifiers = FetchModifiers::default();
    c.list(3, "Too many FETCH modifiers", |c| {
        if c.eat_word(b"CHANGEDSINCE") {
            c.sp()?;
            modifiers.changed_since = Some(mod_seq(c)?);
            Ok(())
        } else if c.eat_word(b"VANISHED") {
            modifiers.vanished = true;
            Ok(())
        } else if modifiers.partial.is_none() && c.eat_word(b"PARTIAL") {
            c.sp()?;
            modifiers.partial = Some(PageRange::parse(c)?);
            Ok(())
        } else {
            c.fail("CHANGEDSINCE, VANISHED or PARTIAL, each once")
        }
    })?;
    // RFC 7162 §3.2.6: only with CHANGEDSINCE, only for UID FETCH.
    if modifiers.vanished && (modifiers.changed_since.is_none() || numbering == Numbering::Seq) {
        return at.fail("VANISHED only in a UID FETCH with CHANGEDSINCE");
    }
    // RFC 9394 §3.3 extends UID FETCH alone.
    if modifiers.partial.is_some() && numbering == Numbering::Seq {
        return at.fail("PARTIAL only in a UID FETCH");
    }
    Ok(modifiers)
}

/// `"STORE" SP sequence-set [store-modifiers] SP store-att-flags`
pub(super) fn store(c: &mut Cursor<'_>, numbering: Numbering) -> Parsed<CommandBody> {
    c.sp()?;
    let set = MessageSet::new(numbering, SequenceSet::parse(c)?);
    c.sp()?;
    let mut unchanged_since = None;
    if c.eat(b'(') {
        if !c.eat_word(b"UNCHANGEDSINCE") {
            return c.fail("UNCHANGEDSINCE");
        }
        c.sp()?;
        unchanged_since = Some(mod_seq(c)?);
        c.expect(b')', ")")?;
        c.sp()?;
    }
    if c.eat_word(b"ANNOTATION") {
        c.sp()?;
        return Ok(CommandBody::StoreAnnotations { set, unchanged_since, changes: value_changes(c)? });
    }
    let action = if c.eat(b'+') {
        StoreAction::Add
    } else if c.eat(b'-') {
        StoreAction::Remove
    } else {
        StoreAction::Replace
    };
    let at = c.clone();
    let answer = match c.word().as_bytes() {
        b"FLAGS" => StoreAnswer::Flags,
        b"FLAGS.SILENT" => StoreAnswer::Silent,
        word @ (b"X-GM-LABELS" | b"X-GM-LABELS.SILENT") => {
            let is_silent = word.ends_with(b"SILENT");
            let answer = if is_silent { StoreAnswer::Silent } else { StoreAnswer::Flags };
            c.sp()?;
            let labels = match c.peek() {
                Some(b'(') => c.list(FLAGS_MAX, "Too many labels", gm_label)?,
                _ => bare_labels(c)?,
            };
            return Ok(CommandBody::StoreLabels { set, unchanged_since, action, answer, labels });
        }
        _ => return at.fail("FLAGS, FLAGS.SILENT, and + or - before, or ANNOTATION"),
    };
    c.sp()?;
    let flags = if c.peek() == Some(b'(') { flag_list(c)? } else { bare_flags(c)? };
    Ok(CommandBody::Store { set, unchanged_since, action, answer, flags })
}

/// Labels without parentheses, as flags may be.
fn bare_labels(c: &mut Cursor<'_>) -> Parsed<Vec<String>> {
    let mut labels = vec![gm_label(c)?];
    while c.more()? {
        if labels.len() == FLAGS_MAX {
            return c.limit("Too many labels");
        }
        labels.push(gm_label(c)?);
    }
    Ok(labels)
}

/// `flag *(SP flag)` without parentheses.
fn bare_flags(c: &mut Cursor<'_>) -> Parsed<Vec<posthaste_mail_model::Flag>> {
    let mut flags = vec![flag(c)?];
    while c.more()? {
        if flags.len() == FLAGS_MAX {
            return c.limit("Too many flags");
        }
        flags.push(flag(c)?);
    }
    Ok(flags.into_iter().flatten().collect())
}
