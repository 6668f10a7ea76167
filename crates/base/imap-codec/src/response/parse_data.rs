//! The parser of untagged data: RFC 9051 §7.2 – §7.5, FETCH aside.

use posthaste_mail_model::ModSeq;

use super::parse_words::{
    capabilities, flags, mod_seq_in_parentheses, object_id_in_parentheses, object_ids, seq_num, uid,
    uid_validity,
};
use super::{
    Esearch, ListAttribute, ListData, Namespace, Namespaces, QuotaResource, StatusValue, ThreadNode,
    Untagged, Update, UpdateKind, urls,
};
use crate::annotation::{entry_name, entry_values};
use crate::chars::is_astring_char;
use crate::command::{ListSelection, mod_seq};
use crate::cursor::{Cursor, Parsed, Word};
use crate::{AclData, MailboxArg, NameEncoding, Numbering, PageRange, Tag};

pub(super) fn data(c: &mut Cursor<'_>, names: NameEncoding) -> Parsed<Untagged> {
    let start = c.clone();
    if matches!(c.peek(), Some(b'0'..=b'9')) {
        return numbered(c, &start);
    }
    let word = c.word();
    if c.eat(b' ') {
        c.spaces();
    }
    let data = match word.as_bytes() {
        b"CAPABILITY" => Untagged::Capability(capabilities(c)?),
        b"ENABLED" => Untagged::Enabled(capabilities(c)?),
        b"LIST" => Untagged::List(list(c, names)?),
        b"LSUB" => Untagged::Lsub(list(c, names)?),
        b"XLIST" => Untagged::Xlist(list(c, names)?),
        b"NAMESPACE" => Untagged::Namespace(namespaces(c, names)?),
        b"JMAPACCESS" => {
            let url = c.string("a URL in quotes")?;
            Untagged::JmapAccess(c.text(&url)?)
        }
        b"STATUS" => status(c, names)?,
        b"QUOTA" => quota(c)?,
        b"QUOTAROOT" => quota_root(c, names)?,
        b"METADATA" => metadata(c, names)?,
        b"LANGUAGE" => Untagged::Language(c.list(usize::MAX, "", |c| c.astring_text("a language"))?),
        b"COMPARATOR" => comparator(c)?,
        b"SEARCH" => {
            let (numbers, modseq) = found(c)?;
            Untagged::Search { numbers, modseq }
        }
        b"SORT" => {
            let (numbers, modseq) = found(c)?;
            Untagged::Sort { numbers, modseq }
        }
        b"THREAD" => Untagged::Thread(threads(c)?),
        b"ESEARCH" => Untagged::Esearch(esearch(c, names)?),
        b"FLAGS" => Untagged::Flags(flags(c)?),
        b"VANISHED" => vanished(c)?,
        b"UIDBATCHES" => uid_batches(c)?,
        b"GENURLAUTH" => Untagged::GenUrlAuth(urls::authorised(c)?),
        b"URLFETCH" => Untagged::UrlFetch(urls::fetched(c)?),
        b"ID" if c.nil() => Untagged::Id(None),
        b"ID" => Untagged::Id(Some(id_pairs(c)?)),
        name => match AclData::parse(name, c, names)? {
            Some(data) => Untagged::Acl(data),
            None => return Ok(other(&start)),
        },
    };
    c.end()?;
    Ok(data)
}

fn other(start: &Cursor<'_>) -> Untagged {
    let rest = start.rest();
    let rest = rest.strip_suffix(b"\n").unwrap_or(rest);
    let len = rest.strip_suffix(b"\r").unwrap_or(rest).len();
    Untagged::Other(start.slice(start.at()..start.at() + len))
}

/// `* 12 EXISTS` and the like.
fn numbered(c: &mut Cursor<'_>, start: &Cursor<'_>) -> Parsed<Untagged> {
    let n = c.number("a number")?;
    c.sp()?;
    c.spaces();
    let data = match c.word().as_bytes() {
        b"FETCH" => {
            let seq = seq_num(&mut start.clone())?;
            c.sp()?;
            Untagged::Fetch { seq, items: super::parse_fetch::items(c)? }
        }
        b"UIDFETCH" => {
            let uid = uid(&mut start.clone())?;
            c.sp()?;
            Untagged::UidFetch { uid, items: super::parse_fetch::items(c)? }
        }
        b"EXISTS" => Untagged::Exists(n),
        b"RECENT" => Untagged::Recent(n),
        b"EXPUNGE" => Untagged::Expunge(seq_num(&mut start.clone())?),
        _ => return Ok(other(start)),
    };
    c.end()?;
    Ok(data)
}

fn mailbox(c: &mut Cursor<'_>, names: NameEncoding) -> Parsed<MailboxArg> {
    Ok(MailboxArg::decode(&c.astring("a mailbox name")?, names))
}

/// `"(" [mbx-list-flags] ")" SP (DQUOTE QUOTED-CHAR DQUOTE / nil) SP mailbox [SP
/// mbox-list-extended]`
fn list(c: &mut Cursor<'_>, names: NameEncoding) -> Parsed<ListData> {
    c.expect(b'(', "attributes in parentheses")?;
    let mut attributes = Vec::new();
    loop {
        c.spaces();
        if c.eat(b')') {
            break;
        }
        c.expect(b'\\', "an attribute of a mailbox")?;
        let name = c.take_while(is_astring_char);
        attributes.push(ListAttribute::from_name(&c.text(name)?));
    }
    c.spaces();
    let separator = separator(c)?;
    c.spaces();
    let mailbox = self::mailbox(c, names)?;
    let mut data =
        ListData { attributes, separator, mailbox, child_info: ListSelection::default(), old_name: None };
    if c.more()? {
        c.list(usize::MAX, "", |c| {
            let name = c.astring("the name of extended data")?;
            c.sp()?;
            match Word::new(&name).as_bytes() {
                b"CHILDINFO" => data.child_info = child_info(c)?,
                b"OLDNAME" => {
                    c.expect(b'(', "(")?;
                    data.old_name = Some(self::mailbox(c, names)?);
                    c.expect(b')', ")")?;
                }
                _ => c.skip_value()?,
            }
            Ok(())
        })?;
    }
    Ok(data)
}

fn separator(c: &mut Cursor<'_>) -> Parsed<Option<char>> {
    let at = c.clone();
    let Some(text) = c.nstring("a separator in quotes, or NIL")? else { return Ok(None) };
    let text = c.text(&text)?;
    let mut chars = text.chars();
    match (chars.next(), chars.next()) {
        (Some(one), None) => Ok(Some(one)),
        // Seen from servers with one flat level.
        (None, _) => Ok(None),
        _ => at.fail("one character as separator"),
    }
}

/// RFC 5258 §6: `"(" list-select-base-opt-quoted *(SP …) ")"`.
fn child_info(c: &mut Cursor<'_>) -> Parsed<ListSelection> {
    let mut info = ListSelection::default();
    c.list(usize::MAX, "", |c| {
        let name = c.astring("a selection option")?;
        match Word::new(&name).as_bytes() {
            b"SUBSCRIBED" => info.subscribed = true,
            b"REMOTE" => info.remote = true,
            b"RECURSIVEMATCH" => info.recursive_match = true,
            b"SPECIAL-USE" => info.special_use = true,
            _ => {}
        }
        Ok(())
    })?;
    Ok(info)
}

/// `namespace SP namespace SP namespace`
fn namespaces(c: &mut Cursor<'_>, names: NameEncoding) -> Parsed<Namespaces> {
    let personal = namespace(c, names)?;
    c.sp()?;
    let other = namespace(c, names)?;
    c.sp()?;
    Ok(Namespaces { personal, other, shared: namespace(c, names)? })
}

fn namespace(c: &mut Cursor<'_>, names: NameEncoding) -> Parsed<Vec<Namespace>> {
    if c.nil() {
        return Ok(Vec::new());
    }
    c.expect(b'(', "namespaces in parentheses, or NIL")?;
    let mut all = Vec::new();
    while !c.eat(b')') {
        c.spaces();
        c.expect(b'(', "a namespace in parentheses")?;
        let prefix = mailbox(c, names)?;
        c.sp()?;
        let separator = separator(c)?;
        // Extensions: name and value pairs.
        while c.eat(b' ') {
            c.skip_value()?;
        }
        c.expect(b')', ") after a namespace")?;
        all.push(Namespace { prefix, separator });
    }
    Ok(all)
}

/// `mailbox SP "(" [status-att-list] ")"`
fn status(c: &mut Cursor<'_>, names: NameEncoding) -> Parsed<Untagged> {
    let mailbox = mailbox(c, names)?;
    c.spaces();
    let items = c.list(usize::MAX, "", |c| {
        let word = c.label();
        c.sp()?;
        let small = |c: &mut Cursor<'_>| c.number("a number");
        Ok(Some(match word.as_bytes() {
            b"MESSAGES" => StatusValue::Messages(small(c)?),
            b"RECENT" => StatusValue::Recent(small(c)?),
            b"UIDNEXT" => StatusValue::UidNext(uid(c)?),
            b"UIDVALIDITY" => StatusValue::UidValidity(uid_validity(c)?),
            b"UNSEEN" => StatusValue::Unseen(small(c)?),
            b"DELETED" => StatusValue::Deleted(small(c)?),
            b"DELETED-STORAGE" => StatusValue::DeletedStorage(c.number64("a number of bytes")?),
            b"SIZE" => StatusValue::Size(c.number64("a number of bytes")?),
            b"HIGHESTMODSEQ" => StatusValue::HighestModSeq(mod_seq(c)?),
            b"CREATEDMODSEQ" => StatusValue::CreatedModSeq(mod_seq(c)?),
            b"APPENDLIMIT" if c.nil() => StatusValue::AppendLimit(None),
            b"APPENDLIMIT" => StatusValue::AppendLimit(Some(c.number64("a number of bytes, or NIL")?)),
            b"MAILBOXID" => StatusValue::MailboxId(object_id_in_parentheses(c)?),
            b"OBJECTID" => StatusValue::ObjectIds(object_ids(c)?),
            _ => {
                c.skip_value()?;
                return Ok(None);
            }
        }))
    })?;
    Ok(Untagged::Status { mailbox, items: items.into_iter().flatten().collect() })
}

/// RFC 9208 §7: `quota-root-name SP "(" [quota-resource *(SP quota-resource)] ")"`. Servers of
/// RFC 2087 send an empty list, too.
fn quota(c: &mut Cursor<'_>) -> Parsed<Untagged> {
    let root = c.astring_text("the name of a quota root")?;
    c.spaces();
    let resources = c.list(usize::MAX, "", |c| {
        let name = c.atom("the name of a resource")?;
        let name = c.text(name)?.to_ascii_uppercase();
        c.sp()?;
        let usage = c.number64("a usage")?;
        c.sp()?;
        Ok(QuotaResource { name, usage, limit: c.number64("a limit")? })
    })?;
    Ok(Untagged::Quota { root, resources })
}

/// RFC 9208 §7: `mailbox *(SP quota-root-name)`.
fn quota_root(c: &mut Cursor<'_>, names: NameEncoding) -> Parsed<Untagged> {
    let mailbox = mailbox(c, names)?;
    let mut roots = Vec::new();
    while c.eat(b' ') {
        roots.push(c.astring_text("the name of a quota root")?);
    }
    Ok(Untagged::QuotaRoot { mailbox, roots })
}

/// RFC 5464 §5: `mailbox SP (entry-values / entry-list)`.
fn metadata(c: &mut Cursor<'_>, names: NameEncoding) -> Parsed<Untagged> {
    let mailbox = mailbox(c, names)?;
    c.sp()?;
    if c.peek() == Some(b'(') {
        return Ok(Untagged::Metadata { mailbox, entries: entry_values(c)? });
    }
    let mut entries = vec![entry_name(c)?];
    while c.more()? {
        entries.push(entry_name(c)?);
    }
    Ok(Untagged::MetadataChanged { mailbox, entries })
}

/// `*(SP nz-number) [SP "(" "MODSEQ" SP mod-sequence-value ")"]`
fn found(c: &mut Cursor<'_>) -> Parsed<(Vec<u32>, Option<ModSeq>)> {
    let mut numbers = Vec::new();
    let mut modseq = None;
    loop {
        c.spaces();
        if c.at_end() {
            return Ok((numbers, modseq));
        }
        if c.eat(b'(') {
            if !c.eat_word(b"MODSEQ") {
                return c.fail("MODSEQ");
            }
            c.sp()?;
            modseq = Some(mod_seq(c)?);
            c.expect(b')', ")")?;
        } else {
            numbers.push(c.nz_number("a message number")?);
        }
    }
}

/// A list of a THREAD response that is open.
struct OpenThread {
    /// The node that the next number or list belongs to.
    last: Option<usize>,
    /// The number of lists in the structure.
    lists: u32,
}

/// `*("(" (thread-members / thread-nested) ")")`: RFC 5256 §5. Without recursion: a thread is as
/// deep as its author likes.
fn threads(c: &mut Cursor<'_>) -> Parsed<Vec<ThreadNode>> {
    let (mut nodes, mut open) = (Vec::<ThreadNode>::new(), Vec::<OpenThread>::new());
    let add = |nodes: &mut Vec<ThreadNode>, number| {
        nodes.push(ThreadNode { number, children: 0 });
        nodes.len() - 1
    };
    loop {
        c.spaces();
        let Some(thread) = open.last_mut() else {
            if c.at_end() {
                return Ok(nodes);
            }
            c.expect(b'(', "a thread in parentheses")?;
            open.push(OpenThread { last: None, lists: 0 });
            continue;
        };
        if c.eat(b'(') {
            // A list without a number before it: their parent is not in the mailbox.
            let parent = *thread.last.get_or_insert_with(|| add(&mut nodes, None));
            thread.lists += 1;
            if let Some(parent) = nodes.get_mut(parent) {
                parent.children += 1;
            }
            open.push(OpenThread { last: None, lists: 0 });
        } else if c.eat(b')') {
            if thread.last.is_none() || thread.lists == 1 {
                return c.fail("a number, or two lists, in each thread");
            }
            open.pop();
        } else if thread.lists > 0 {
            return c.fail("a list or )");
        } else {
            let number = c.nz_number("a message number")?;
            if let Some(parent) = thread.last.and_then(|last| nodes.get_mut(last)) {
                parent.children += 1;
            }
            thread.last = Some(add(&mut nodes, Some(number)));
        }
    }
}

/// Ranges in the order of the response, each with its lower end first (RFC 5267 §3.2).
fn ordered_ranges(c: &mut Cursor<'_>, expected: &'static str) -> Parsed<Vec<(u32, u32)>> {
    let ranges = c.ranges(expected)?;
    Ok(ranges.into_iter().map(|(a, b)| (a.min(b), a.max(b))).collect())
}

/// RFC 5255 §5: `comp-sel-quoted [SP "(" comp-id-quoted *(SP comp-id-quoted) ")"]`.
fn comparator(c: &mut Cursor<'_>) -> Parsed<Untagged> {
    let active = c.astring_text("a comparator")?;
    let mut others = Vec::new();
    if c.more()? {
        others = c.list(usize::MAX, "", |c| c.astring_text("a comparator"))?;
    }
    Ok(Untagged::Comparator { active, others })
}

/// `"(" one-correlator *(SP one-correlator) ")"`: RFC 7377 §3.
fn correlators(c: &mut Cursor<'_>, names: NameEncoding, found: &mut Esearch) -> Parsed<()> {
    let (mut mailbox, mut validity) = (None, None);
    c.list(usize::MAX, "", |c| {
        let at = c.clone();
        let word = c.word();
        c.sp()?;
        match word.as_bytes() {
            b"TAG" => found.tag = Tag::new(c.astring("the tag of a SEARCH")?),
            b"MAILBOX" => mailbox = Some(self::mailbox(c, names)?),
            b"UIDVALIDITY" => validity = Some(uid_validity(c)?),
            _ => return at.fail("TAG, MAILBOX or UIDVALIDITY"),
        }
        Ok(())
    })?;
    found.mailbox = mailbox.zip(validity);
    Ok(())
}

/// `[SP search-correlator] [SP "UID"] *(SP search-return-data)`
fn esearch(c: &mut Cursor<'_>, names: NameEncoding) -> Parsed<Esearch> {
    let mut found = Esearch {
        tag: None,
        mailbox: None,
        numbering: Numbering::Seq,
        min: None,
        max: None,
        count: None,
        all: None,
        partial: None,
        relevancy: None,
        modseq: None,
        updates: Vec::new(),
    };
    if c.peek() == Some(b'(') {
        correlators(c, names, &mut found)?;
        c.spaces();
    }
    if c.eat_word(b"UID") {
        found.numbering = Numbering::Uid;
        c.spaces();
    }
    while !c.at_end() {
        let at = c.clone();
        let word = c.label();
        if c.at() == at.at() {
            return at.fail("a result of SEARCH");
        }
        c.sp()?;
        match word.as_bytes() {
            b"MIN" => found.min = Some(c.nz_number("a message number")?),
            b"MAX" => found.max = Some(c.nz_number("a message number")?),
            b"COUNT" => found.count = Some(c.number("a number")?),
            b"ALL" => found.all = Some(ordered_ranges(c, "a set of numbers")?),
            b"PARTIAL" => found.partial = Some(partial(c)?),
            b"RELEVANCY" => found.relevancy = Some(c.list(usize::MAX, "", score)?),
            b"ADDTO" => found.updates.push(update(c, UpdateKind::AddTo)?),
            b"REMOVEFROM" => found.updates.push(update(c, UpdateKind::RemoveFrom)?),
            b"MODSEQ" => {
                found.modseq =
                    Some(if c.peek() == Some(b'(') { mod_seq_in_parentheses(c)? } else { mod_seq(c)? });
            }
            _ => c.skip_value()?,
        }
        c.spaces();
    }
    Ok(found)
}

/// RFC 6203 §6: `score = 1*3digit`, from 1 to 100.
fn score(c: &mut Cursor<'_>) -> Parsed<u8> {
    let at = c.clone();
    match u8::try_from(c.nz_number("a score")?) {
        Ok(score @ 1..=100) => Ok(score),
        _ => at.fail("a score from 1 to 100"),
    }
}

/// `"(" context-position SP sequence-set *(SP context-position SP sequence-set) ")"`: RFC 5267 §5.
fn update(c: &mut Cursor<'_>, kind: UpdateKind) -> Parsed<Update> {
    let at = c.clone();
    let places = c.list(usize::MAX, "", |c| {
        let place = c.number("a place in the result")?;
        c.sp()?;
        Ok((place, ordered_ranges(c, "a set of numbers")?))
    })?;
    if places.is_empty() { at.fail("a place in the result") } else { Ok(Update { kind, places }) }
}

/// `"(" partial-range SP (sequence-set / "NIL") ")"`: RFC 9394 §4.
fn partial(c: &mut Cursor<'_>) -> Parsed<(PageRange, Vec<(u32, u32)>)> {
    c.expect(b'(', "(")?;
    let range = PageRange::parse(c)?;
    c.sp()?;
    let set = if c.nil() { Vec::new() } else { ordered_ranges(c, "a set of numbers, or NIL")? };
    c.expect(b')', ")")?;
    Ok((range, set))
}

/// `"(" "TAG" SP tag-string ")" [SP uid-range *("," uid-range)]`: RFC 10022. A batch of one UID may
/// be that number alone.
fn uid_batches(c: &mut Cursor<'_>) -> Parsed<Untagged> {
    c.expect(b'(', "the tag of a command")?;
    if !c.eat_word(b"TAG") {
        return c.fail("TAG");
    }
    c.sp()?;
    let at = c.clone();
    let Some(tag) = Tag::new(c.astring("the tag of a UIDBATCHES")?) else { return at.fail("a tag") };
    c.expect(b')', ")")?;
    let mut batches = Vec::new();
    if c.more()? {
        loop {
            let high = uid(c)?;
            let low = if c.eat(b':') { uid(c)? } else { high };
            batches.push((high, low));
            if !c.eat(b',') {
                break;
            }
        }
    }
    Ok(Untagged::UidBatches { tag, batches })
}

/// `["(EARLIER)" SP] known-uids`: RFC 7162 §7.
fn vanished(c: &mut Cursor<'_>) -> Parsed<Untagged> {
    let earlier = c.eat(b'(');
    if earlier {
        if !c.eat_word(b"EARLIER") {
            return c.fail("EARLIER");
        }
        c.expect(b')', ")")?;
        c.sp()?;
    }
    Ok(Untagged::Vanished { earlier, uids: c.num_set("a set of UIDs")? })
}

/// RFC 2971 §3.2; values that are no UTF-8 are repaired.
fn id_pairs(c: &mut Cursor<'_>) -> Parsed<Vec<(String, Option<String>)>> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    c.list(usize::MAX, "", |c| {
        let name = text(&c.string("the name of an ID field")?);
        c.sp()?;
        Ok((name, c.nstring("the value of an ID field")?.map(|v| text(&v))))
    })
}
