//! SELECT, EXAMINE, CREATE, LIST, LSUB and STATUS: RFC 9051 §6.3 and the extensions named at each.

use posthaste_mail_model::UidValidity;

use super::parse_words::{mailbox, mod_seq, utf8_or_bad};
use super::{
    Access, CommandBody, ListArgs, ListReturn, ListSelection, ListSyntax, Qresync, SelectParams, SeqMatch,
    SpecialUse, StatusItem,
};
use crate::annotation::entries;
use crate::chars::is_astring_char;
use crate::cursor::{Cursor, Parsed};
use crate::limits::LIST_ITEMS_MAX;
use crate::object_ids::object_id_pair;
use crate::{ListPattern, MailboxArg, NameEncoding, ObjectIds, SeqSet, SequenceSet, UidSet};

const TOO_MANY: &str = "The list is too long";

/// `"SELECT" SP mailbox [SP "(" select-param *(SP select-param) ")"]`: RFC 4466 §2.1.
pub(super) fn select(c: &mut Cursor<'_>, names: NameEncoding, access: Access) -> Parsed<CommandBody> {
    c.sp()?;
    let mailbox = mailbox(c, names)?;
    let mut params = SelectParams::default();
    if c.more()? {
        c.list(LIST_ITEMS_MAX, TOO_MANY, |c| {
            if c.eat_word(b"CONDSTORE") {
                params.condstore = true;
            } else if c.eat_word(b"ANNOTATE") {
                params.annotate = true;
            } else if c.eat_word(b"QRESYNC") {
                c.sp()?;
                params.qresync = Some(Box::new(qresync(c)?));
            } else if c.eat_word(b"OBJECTID") {
                params.object_ids = Some(Box::new(object_ids(c)?));
            } else {
                return c.fail("CONDSTORE, QRESYNC, ANNOTATE or OBJECTID");
            }
            Ok(())
        })?;
    }
    Ok(CommandBody::Select { mailbox, access, params })
}

/// OBJECTID+ (draft 06 §10): `[SP "(" objectid-kvpair *(SP objectid-kvpair) ")"]`.
fn object_ids(c: &mut Cursor<'_>) -> Parsed<ObjectIds> {
    if c.peek() != Some(b' ') || c.peek_second() != Some(b'(') {
        return Ok(ObjectIds::default());
    }
    c.sp()?;
    let at = c.clone();
    let ids = c.list(LIST_ITEMS_MAX, TOO_MANY, object_id_pair)?;
    if ids.is_empty() { at.fail("at least one object id") } else { Ok(ObjectIds(ids)) }
}

/// RFC 9208 §7: `"GETQUOTA" SP quota-root-name`.
pub(super) fn get_quota(c: &mut Cursor<'_>) -> Parsed<CommandBody> {
    c.sp()?;
    Ok(CommandBody::GetQuota(c.astring_text("the name of a quota root")?))
}

/// RFC 9208 §7: `"SETQUOTA" SP quota-root-name SP setquota-list`.
pub(super) fn set_quota(c: &mut Cursor<'_>) -> Parsed<CommandBody> {
    c.sp()?;
    let root = c.astring_text("the name of a quota root")?;
    c.sp()?;
    let limits = c.list(LIST_ITEMS_MAX, TOO_MANY, |c| {
        let name = c.atom("the name of a resource")?;
        let name = c.text(name)?.to_ascii_uppercase();
        c.sp()?;
        Ok((name, c.number64("a limit")?))
    })?;
    Ok(CommandBody::SetQuota { root, limits })
}

/// RFC 7162 §7: `"(" uidvalidity SP mod-sequence-value [SP known-uids] [SP seq-match-data] ")"`.
fn qresync(c: &mut Cursor<'_>) -> Parsed<Qresync> {
    c.expect(b'(', "(")?;
    let at = c.clone();
    let Some(uid_validity) = UidValidity::new(c.nz_number("a UIDVALIDITY")?) else {
        return at.fail("a UIDVALIDITY");
    };
    c.sp()?;
    let modseq = mod_seq(c)?;
    let mut known_uids = None;
    let mut seq_match = None;
    if c.eat(b' ') {
        if c.peek() != Some(b'(') {
            known_uids = Some(UidSet(known(c)?));
        }
        if known_uids.is_none() || c.eat(b' ') {
            c.expect(b'(', "known sequence numbers and their UIDs in parentheses")?;
            let seqs = SeqSet(known(c)?);
            c.sp()?;
            seq_match = Some(SeqMatch { seqs, uids: UidSet(known(c)?) });
            c.expect(b')', ")")?;
        }
    }
    c.expect(b')', ")")?;
    Ok(Qresync { uid_validity, modseq, known_uids, seq_match })
}

/// `known-uids`: a set without `*` and `$`.
fn known(c: &mut Cursor<'_>) -> Parsed<SequenceSet> {
    let at = c.clone();
    let set = SequenceSet::parse(c)?;
    let text = &at.rest()[..c.at() - at.at()];
    if text.iter().any(|b| matches!(b, b'*' | b'$')) { at.fail("numbers without * and $") } else { Ok(set) }
}

/// `"CREATE" SP mailbox [SP "(" "USE" SP "(" use-attr *(SP use-attr) ")" ")"]`: RFC 6154 §6.
pub(super) fn create(c: &mut Cursor<'_>, names: NameEncoding) -> Parsed<CommandBody> {
    c.sp()?;
    let mailbox = mailbox(c, names)?;
    let mut special_use = Vec::new();
    if c.more()? {
        c.list(1, TOO_MANY, |c| {
            if !c.eat_word(b"USE") {
                return c.fail("USE");
            }
            c.sp()?;
            special_use = c.list(LIST_ITEMS_MAX, TOO_MANY, self::special_use)?;
            Ok(())
        })?;
    }
    Ok(CommandBody::Create { mailbox, special_use })
}

/// `use-attr`
fn special_use(c: &mut Cursor<'_>) -> Parsed<SpecialUse> {
    c.expect(b'\\', "a special use such as \\Sent")?;
    let name = c.atom("the name of a special use")?;
    let name = c.text(name)?;
    Ok(SpecialUse::known(&name).unwrap_or(SpecialUse::Other(name)))
}

/// `"LIST" [SP list-select-opts] SP mailbox SP mbox-or-pat [SP list-return-opts]`: RFC 9051 §9.
pub(super) fn list(c: &mut Cursor<'_>, names: NameEncoding) -> Parsed<CommandBody> {
    c.sp()?;
    let mut syntax = ListSyntax::Basic;
    let mut selection = ListSelection::default();
    if c.peek() == Some(b'(') {
        syntax = ListSyntax::Extended;
        selection = list_selection(c)?;
        c.sp()?;
    }
    let reference = mailbox(c, names)?;
    c.sp()?;
    let patterns = if c.peek() == Some(b'(') {
        syntax = ListSyntax::Extended;
        let at = c.clone();
        let patterns = c.list(LIST_ITEMS_MAX, TOO_MANY, |c| pattern(c, names))?;
        if patterns.is_empty() {
            return at.fail("at least one pattern");
        }
        patterns
    } else {
        vec![pattern(c, names)?]
    };
    let mut returns = ListReturn::default();
    if c.more()? {
        if !c.eat_word(b"RETURN") {
            return c.fail("RETURN");
        }
        syntax = ListSyntax::Extended;
        c.sp()?;
        returns = list_return(c)?;
    }
    Ok(CommandBody::List(ListArgs { syntax, selection, reference, patterns, returns }))
}

fn list_selection(c: &mut Cursor<'_>) -> Parsed<ListSelection> {
    let at = c.clone();
    let mut selection = ListSelection::default();
    c.list(LIST_ITEMS_MAX, TOO_MANY, |c| {
        let at = c.clone();
        match c.word().as_bytes() {
            b"SUBSCRIBED" => selection.subscribed = true,
            b"REMOTE" => selection.remote = true,
            b"RECURSIVEMATCH" => selection.recursive_match = true,
            b"SPECIAL-USE" => selection.special_use = true,
            _ => return at.fail("SUBSCRIBED, REMOTE, RECURSIVEMATCH or SPECIAL-USE"),
        }
        Ok(())
    })?;
    // RFC 9051 §6.3.9.1: RECURSIVEMATCH needs another option, and REMOTE is not one that counts.
    if selection.recursive_match && !(selection.subscribed || selection.special_use) {
        return at.fail("RECURSIVEMATCH only with SUBSCRIBED or SPECIAL-USE");
    }
    Ok(selection)
}

fn list_return(c: &mut Cursor<'_>) -> Parsed<ListReturn> {
    let mut returns = ListReturn::default();
    c.list(LIST_ITEMS_MAX, TOO_MANY, |c| {
        let at = c.clone();
        match c.word().as_bytes() {
            b"SUBSCRIBED" => returns.subscribed = true,
            b"CHILDREN" => returns.children = true,
            b"SPECIAL-USE" => returns.special_use = true,
            // RFC 8440 §3
            b"MYRIGHTS" => returns.my_rights = true,
            b"STATUS" => {
                c.sp()?;
                returns.status = status_items(c)?;
            }
            // RFC 9590 §5
            b"METADATA" => {
                c.sp()?;
                returns.metadata = entries(c)?;
            }
            _ => return at.fail("SUBSCRIBED, CHILDREN, SPECIAL-USE, MYRIGHTS, STATUS or METADATA"),
        }
        Ok(())
    })?;
    Ok(returns)
}

/// `list-mailbox`: an atom that may hold wildcards, or a string.
fn pattern(c: &mut Cursor<'_>, names: NameEncoding) -> Parsed<ListPattern> {
    const WANTED: &str = "a pattern of mailbox names";
    let list_char = |b: u8| is_astring_char(b) || matches!(b, b'%' | b'*');
    let bytes = match c.peek() {
        Some(b) if list_char(b) => c.take_while(list_char).into(),
        _ => c.string(WANTED)?,
    };
    Ok(ListPattern(utf8_or_bad(c, MailboxArg::decode(&bytes, names), names)?))
}

/// `SP mailbox SP list-mailbox` of LSUB and XLIST: RFC 3501 §6.3.9.
pub(super) fn reference_and_pattern(
    c: &mut Cursor<'_>,
    names: NameEncoding,
) -> Parsed<(MailboxArg, ListPattern)> {
    c.sp()?;
    let reference = mailbox(c, names)?;
    c.sp()?;
    Ok((reference, pattern(c, names)?))
}

/// `"STATUS" SP mailbox SP "(" status-att *(SP status-att) ")"`
pub(super) fn status(c: &mut Cursor<'_>, names: NameEncoding) -> Parsed<CommandBody> {
    c.sp()?;
    let mailbox = mailbox(c, names)?;
    c.sp()?;
    Ok(CommandBody::Status { mailbox, items: status_items(c)? })
}

fn status_items(c: &mut Cursor<'_>) -> Parsed<Vec<StatusItem>> {
    let at = c.clone();
    let items = c.list(LIST_ITEMS_MAX, TOO_MANY, |c| {
        let at = c.clone();
        let word = c.word();
        match StatusItem::ALL.iter().find(|item| item.name().as_bytes() == word.as_bytes()) {
            Some(item) => Ok(*item),
            None => at.fail("an item of STATUS"),
        }
    })?;
    if items.is_empty() { at.fail("at least one item of STATUS") } else { Ok(items) }
}
