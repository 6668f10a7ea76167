//! Strategies for the values that commands and responses share.

use bytes::Bytes;
use posthaste_imap_codec::{
    Annotation, Bound, Capability, Date, DateTime, EntryName, EntryPattern, ImapUrl, MailboxArg, MailboxUrl,
    MessageSet, NameEncoding, Numbering, ObjectIds, PageRange, PartPath, Partial, Section, SectionText,
    SequenceSet, SetRange, Tag, UidRanges, UrlAccess, UrlAuth, UrlMailbox, UrlPartial, UrlProof, UrlServer,
    ValueChange, ValueScope,
};
use posthaste_mail_model::{Flag, Keyword, ModSeq, NumSet, Rights, SeqNum, Uid, UidValidity};
use posthaste_property::one_of;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

/// Text as people write it, and what gives quoting trouble. No NUL: no string can hold one.
pub fn text() -> BoxedStrategy<String> {
    one_of![
        4 => "[a-zA-Z0-9.]{1,8}",
        2 => "[ -~]{0,12}",
        1 => "[^\0]{0,8}",
        1 => prop::sample::select(vec!["", "NIL", "nil", "a\"b\\", "{3}", "a\r\nb", "]", "é&ü", "*%", "UID"])
            .prop_map(str::to_owned),
        1 => Just("x".repeat(1001)),
    ]
}

/// One line of text for a person, not to be mistaken for a response code.
pub fn line() -> BoxedStrategy<String> {
    "[^\0\r\n\\[][^\0\r\n]{0,20}".boxed()
}

/// Bytes of a string: anything but NUL.
pub fn string_bytes() -> BoxedStrategy<Vec<u8>> {
    one_of![3 => text().prop_map(String::into_bytes), 1 => vec(1u8..=255, 0..12)]
}

pub fn entry_name() -> BoxedStrategy<EntryName> {
    let part = one_of![4 => "[a-zA-Z0-9._-]{1,8}", 1 => "[ -$&-)+-.0-~]{1,6}"];
    vec(part, 1..4).prop_map(|parts| EntryName::new(&format!("/{}", parts.join("/"))).unwrap()).boxed()
}

pub fn scope() -> BoxedStrategy<ValueScope> {
    prop::sample::select(ValueScope::BOTH.to_vec()).boxed()
}

pub fn entry_pattern() -> BoxedStrategy<EntryPattern> {
    let part = one_of![4 => "[a-zA-Z0-9.*%-]{1,8}", 1 => "[ -.0-~]{1,6}"];
    let parts =
        vec(part, 1..4).prop_map(|parts| EntryPattern::new(&format!("/{}", parts.join("/"))).unwrap());
    one_of![4 => parts, 1 => Just(EntryPattern::new("*").unwrap())]
}

pub fn value_change() -> BoxedStrategy<ValueChange> {
    (entry_name(), scope(), option::of(message_bytes()))
        .prop_map(|(entry, scope, value)| ValueChange { entry, scope, value })
        .boxed()
}

pub fn annotation() -> BoxedStrategy<Annotation> {
    (entry_name(), option::of(message_bytes())).prop_map(|(name, value)| Annotation { name, value }).boxed()
}

/// Bytes of a message: anything.
pub fn message_bytes() -> BoxedStrategy<Bytes> {
    one_of![vec(any::<u8>(), 0..80), string_bytes()].prop_map(Bytes::from).boxed()
}

pub fn encoding() -> BoxedStrategy<NameEncoding> {
    one_of![Just(NameEncoding::Utf7), Just(NameEncoding::Utf8)]
}

/// Names that decode, and some that do not.
pub fn rights() -> BoxedStrategy<Rights> {
    prop::sample::subsequence(b"lrswipkxtean".to_vec(), 0..=12)
        .prop_map(|letters| Rights::parse(&letters).expect("letters of rights"))
        .boxed()
}

pub fn mailbox(encoding: NameEncoding) -> BoxedStrategy<MailboxArg> {
    one_of![
        8 => text().prop_map(|t| MailboxArg::from_text(&t)),
        1 => vec(1u8..=255, 0..8).prop_map(move |b| MailboxArg::decode(&b, encoding)).prop_filter(
            "a command with it ends in BAD",
            move |name| encoding == NameEncoding::Utf7 || name.text().is_ok()
        ),
    ]
}

pub fn tag() -> BoxedStrategy<Tag> {
    "[a-zA-Z0-9.\\]]{1,8}".prop_map(|t| Tag::new(t).unwrap()).boxed()
}

pub fn capability() -> BoxedStrategy<Capability> {
    "[A-Z][A-Z0-9=+-]{0,10}".prop_map(|t| Capability::new(&t).unwrap()).boxed()
}

pub fn flag() -> BoxedStrategy<Flag> {
    one_of![
        Just(Flag::Answered),
        Just(Flag::Flagged),
        Just(Flag::Deleted),
        Just(Flag::Seen),
        Just(Flag::Draft),
        "[$a-zA-Z][a-z0-9-]{0,8}".prop_map(|k| Flag::Keyword(Keyword::new(&k).unwrap())),
    ]
}

pub fn number() -> BoxedStrategy<u32> {
    one_of![3 => 1u32..200, 1 => 1..=u32::MAX]
}

/// 63 bits.
pub fn number64() -> BoxedStrategy<u64> {
    one_of![3 => 0u64..2000, 1 => 0..=i64::MAX as u64]
}

pub fn uid() -> BoxedStrategy<Uid> {
    number().prop_map(|n| Uid::new(n).unwrap()).boxed()
}
pub fn seq_num() -> BoxedStrategy<SeqNum> {
    number().prop_map(|n| SeqNum::new(n).unwrap()).boxed()
}
pub fn uid_validity() -> BoxedStrategy<UidValidity> {
    number().prop_map(|n| UidValidity::new(n).unwrap()).boxed()
}
pub fn mod_seq() -> BoxedStrategy<ModSeq> {
    number64().prop_map(|n| ModSeq::new(n).unwrap()).boxed()
}

fn ranges() -> BoxedStrategy<Vec<(u32, u32)>> {
    vec(one_of![number().prop_map(|n| (n, n)), (number(), number())], 1..6).boxed()
}
pub fn num_set<N: std::fmt::Debug + 'static>() -> BoxedStrategy<NumSet<N>> {
    ranges().prop_map(NumSet::from_ranges).boxed()
}
pub fn uid_ranges() -> BoxedStrategy<UidRanges> {
    ranges().prop_map(UidRanges).boxed()
}

pub fn known_numbers() -> BoxedStrategy<SequenceSet> {
    num_set::<Uid>().prop_map(|set| SequenceSet::try_from(&set).unwrap()).boxed()
}
pub fn sequence_set() -> BoxedStrategy<SequenceSet> {
    let bound = || one_of![4 => number().prop_map(|n| Bound::number(n).unwrap()), 1 => Just(Bound::Largest)];
    let ranges = vec(
        one_of![bound().prop_map(|b| (b, b)), (bound(), bound())]
            .prop_map(|(from, to)| SetRange { from, to }),
        1..6,
    );
    let beside = one_of![Just(Vec::new()), ranges.clone()];
    one_of![8 => ranges.prop_map(SequenceSet::Ranges), 1 => beside.prop_map(SequenceSet::Saved)]
}

pub fn message_set() -> BoxedStrategy<MessageSet> {
    (numbering(), sequence_set()).prop_map(|(numbering, set)| MessageSet::new(numbering, set)).boxed()
}

pub fn numbering() -> BoxedStrategy<Numbering> {
    one_of![Just(Numbering::Seq), Just(Numbering::Uid)]
}

pub fn date() -> BoxedStrategy<Date> {
    (-719_528i64..2_932_896).prop_map(|d| Date::from_unix_days(d).unwrap()).boxed()
}
pub fn date_time() -> BoxedStrategy<DateTime> {
    (0i64..4_000_000_000, -1440i16..1440).prop_map(|(at, zone)| DateTime::new(at, zone).unwrap()).boxed()
}

pub fn part(min: usize) -> BoxedStrategy<PartPath> {
    vec(number(), min..4).prop_map(PartPath).boxed()
}
pub fn partial() -> BoxedStrategy<Option<Partial>> {
    option::of((number64(), number64()).prop_map(|(offset, count)| Partial { offset, count })).boxed()
}
pub fn section() -> BoxedStrategy<Section> {
    let text = || {
        one_of![
            Just(SectionText::Whole),
            Just(SectionText::Header),
            Just(SectionText::Text),
            vec(text(), 1..4).prop_map(SectionText::HeaderFields),
            vec(text(), 1..4).prop_map(SectionText::HeaderFieldsNot),
        ]
    };
    one_of![
        (part(0), text()).prop_map(|(part, text)| Section { part, text }),
        part(1).prop_map(|part| Section { part, text: SectionText::Mime }),
    ]
}

pub fn object_id() -> BoxedStrategy<String> {
    "[A-Za-z0-9_-]{1,20}".boxed()
}

/// Keys in capitals, as the parser has them. Any atom is one.
pub fn object_ids() -> BoxedStrategy<ObjectIds> {
    let known = prop::sample::select(vec!["MAILBOXID", "ACCOUNTID", "EMAILID", "THREADID"]);
    let key = one_of![3 => known.prop_map(str::to_owned), 1 => "[A-Z0-9!#$&'+,./:;<=>?@^_`|}~-]{1,12}"];
    vec((key, object_id()), 0..4).prop_map(ObjectIds).boxed()
}

type IdPairs = Vec<(String, Option<String>)>;

pub fn id_pairs() -> BoxedStrategy<Option<IdPairs>> {
    option::of(vec((text(), option::of(text())), 0..4)).boxed()
}

/// RFC 9394 §4.
pub fn page_range() -> BoxedStrategy<Option<PageRange>> {
    let place = || (1..=u32::MAX).prop_filter_map("from 1", std::num::NonZeroU32::new);
    let make: Vec<fn(_, _) -> PageRange> = vec![PageRange::First, PageRange::Last];
    proptest::option::of((prop::sample::select(make), place(), place()).prop_map(|(make, a, b)| make(a, b)))
        .boxed()
}

fn name_in_url() -> BoxedStrategy<String> {
    one_of![3 => "[a-zA-Z0-9]{1,8}", 1 => "[^\0-\x1f\x7f]{1,8}"]
}

/// RFC 5092 §11, iserver: a user, a mechanism or both, and every sort of host.
pub fn url_server() -> BoxedStrategy<UrlServer> {
    let mechanism = one_of![3 => "[A-Z0-9-]{1,8}", 1 => Just("*".to_owned())];
    let host = one_of![3 => "[a-z0-9.-]{1,12}", 1 => "\\[[0-9a-f:]{2,8}\\]"];
    (option::of(name_in_url()), option::of(mechanism), host, option::of(any::<u16>()))
        .prop_map(|(user, mechanism, host, port)| UrlServer { user, mechanism, host, port })
        .boxed()
}

/// RFC 5092 §6, as referrals name mailboxes (RFC 2193). A slash at an end of the name would belong
/// to the URL.
pub fn mailbox_url() -> BoxedStrategy<MailboxUrl> {
    let name = name_in_url().prop_filter("a slash at an end", |name| name.trim_matches('/') == name);
    (url_server(), name).prop_map(|(server, mailbox)| MailboxUrl { server, mailbox }).boxed()
}

pub fn imap_url() -> BoxedStrategy<ImapUrl> {
    let (name, server) = (name_in_url, url_server());
    // A name may not end in a slash: it would belong to what follows.
    let name_of_mailbox = one_of![3 => "[a-z]{1,8}(/[a-z]{1,4})?", 1 => "[^\0-\x1f\x7f/]{1,8}"];
    let mailbox = (name_of_mailbox, option::of(uid_validity()))
        .prop_map(|(name, uid_validity)| UrlMailbox { name, uid_validity });
    let names = || vec("[^\0-\x1f\x7f]{1,8}", 1..3);
    let text = one_of![
        3 => Just(SectionText::Text),
        1 => names().prop_map(SectionText::HeaderFields),
        1 => names().prop_map(SectionText::HeaderFieldsNot),
    ];
    let section = one_of![
        part(1).prop_map(|part| Section { part, text: SectionText::Whole }),
        (part(0), text).prop_map(|(part, text)| Section { part, text }),
    ];
    let partial = (number64(), option::of(number64()))
        .prop_map(|(offset, count)| UrlPartial { offset, count: count.and_then(std::num::NonZeroU64::new) });
    let access = one_of![
        name().prop_map(UrlAccess::Submit),
        name().prop_map(UrlAccess::User),
        Just(UrlAccess::AuthUser),
        Just(UrlAccess::Anonymous),
    ];
    let proof =
        ("[A-Z0-9.-]{1,8}", "[0-9a-f]{32,40}").prop_map(|(mechanism, token)| UrlProof { mechanism, token });
    let auth = (option::of(0..4_000_000_000_i64), access, option::of(proof))
        .prop_map(|(expires, access, proof)| UrlAuth { expires, access, proof });
    let of_mailbox = (
        option::of(server),
        mailbox,
        uid(),
        option::of(section.clone()),
        option::of(partial.clone()),
        option::of(auth),
    )
        .prop_map(|(server, mailbox, uid, section, partial, auth)| ImapUrl {
            server,
            mailbox: Some(mailbox),
            uid: Some(uid),
            section,
            partial,
            auth,
        });
    let relative =
        (option::of(uid()), option::of(section), option::of(partial)).prop_map(|(uid, section, partial)| {
            ImapUrl { server: None, mailbox: None, uid, section, partial, auth: None }
        });
    let names_something = |url: &ImapUrl| url.uid.is_some() || url.section.is_some() || url.partial.is_some();
    let relative = relative.prop_filter("it names something", names_something);
    one_of![3 => of_mailbox, 1 => relative]
}
