//! Strategies for every response there is.

use std::borrow::Cow;

use bytes::Bytes;
use posthaste_imap_codec::command::SnippetName;
use posthaste_imap_codec::response::*;
use posthaste_imap_codec::{
    AclData, AnnotateCode, AnnotationData, AnnotationSupport, MetadataCode, NameEncoding, Response,
};
use posthaste_property::{Makes, one_of};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use crate::any_command::{selection, special_use};
use crate::any_extension;
use crate::any_value::*;

pub fn response(names: NameEncoding) -> BoxedStrategy<Response> {
    one_of![
        1 => "[^\0\r\n]{0,20}".prop_map(Response::Continue),
        3 => status().prop_map(Response::Status),
        6 => untagged(names).prop_map(Response::Data),
    ]
}

fn status() -> BoxedStrategy<Status> {
    let any = vec![StatusKind::Ok, StatusKind::No, StatusKind::Bad, StatusKind::Bye, StatusKind::PreAuth];
    let tagged = any[..3].to_vec();
    let head = one_of![
        (tag().prop_map(Some), prop::sample::select(tagged)),
        (Just(None), prop::sample::select(any)),
    ];
    (head, option::of(code()), line())
        .prop_map(|((tag, kind), code, text)| Status { tag, kind, code, text: text.into() })
        .boxed()
}

fn code() -> BoxedStrategy<Code> {
    let bare = prop::sample::select(vec![
        Code::Alert,
        Code::AlreadyExists,
        Code::AuthenticationFailed,
        Code::AuthorizationFailed,
        Code::BadComparator,
        Code::NotificationOverflow,
        Code::Cannot,
        Code::ClientBug,
        Code::Closed,
        Code::CompressionActive,
        Code::ContactAdmin,
        Code::Corruption,
        Code::Expired,
        Code::ExpungeIssued,
        Code::TooFew,
        Code::TooMany,
        Code::UidRequired,
        Code::HasChildren,
        Code::InUse,
        Code::Limit,
        Code::NoModSeq,
        Code::NonExistent,
        Code::NoPerm,
        Code::NotSaved,
        Code::OverQuota,
        Code::Parse,
        Code::PrivacyRequired,
        Code::ReadOnly,
        Code::ReadWrite,
        Code::ServerBug,
        Code::TooBig,
        Code::TryCreate,
        Code::UidNotSticky,
        Code::Unavailable,
        Code::UnknownCte,
        Code::UseAttr,
    ]);
    one_of![
        3 => bare,
        3 => one_of![
            (uid_validity(), uid_ranges()).prop_map(|(v, u)| Code::AppendUid(v, u)),
            (uid_validity(), uid_ranges(), uid_ranges()).prop_map(|(v, a, b)| Code::CopyUid(v, a, b)),
            vec("[A-Za-z0-9 \"-]{0,12}", 0..3).prop_map(Code::BadCharset),
            vec("[A-Za-z]{1,12}", 1..4).prop_map(Code::BadEvent),
            "[a-z]{1,8}".prop_map(Code::UndefinedFilter),
            "[!-\\[^-~]{1,40}".prop_map(Code::BadUrl),
            vec("[!-\\[^-~]{1,40}", 1..3).prop_map(Code::Referral),
            vec(capability(), 0..4).prop_map(Code::Capability),
            mod_seq().prop_map(Code::HighestModSeq),
            (option::of(tag()), option::of((0..1_u64 << 63, option::of(1..1_u64 << 63)))).prop_map(
                |(tag, amounts)| Code::InProgress {
                    tag,
                    done: amounts.map(|(done, _)| done),
                    goal: amounts.and_then(|(_, goal)| goal)
                }
            ),
            object_id().prop_map(Code::MailboxId),
            object_ids().prop_map(Code::ObjectIds),
            (1_u32.., option::of(uid())).prop_map(|(n, uid)| Code::MessageLimit(n, uid)),
            metadata_code().prop_map(Code::Metadata),
            prop::sample::select(vec![AnnotateCode::TooBig, AnnotateCode::TooMany]).prop_map(Code::Annotate),
            one_of![
                Just(AnnotationSupport::None),
                Just(AnnotationSupport::ReadOnly),
                (1_u32..).prop_map(AnnotationSupport::Octets),
            ]
            .prop_map(Code::Annotations),
            num_set().prop_map(Code::Modified),
            tag().prop_map(Code::NoUpdate),
            vec(response_flag(), 0..5).prop_map(Code::PermanentFlags),
            uid().prop_map(Code::UidNext),
        ],
        1 => uid_validity().prop_map(Code::UidValidity),
        1 => seq_num().prop_map(Code::Unseen),
        1 => vec(url_mechanism(), 0..3).prop_map(Code::UrlMech),
        1 => ("X[A-Za-z0-9!#$&'+,./:;<=>?@^_`|}~-]{0,30}", option::of("[^\0\r\n\\]]{0,10}"))
            .prop_map(|(name, value)| Code::Other(name, value)),
    ]
}

/// RFC 4467 §9: `mechanism ["=" base64]`.
fn url_mechanism() -> BoxedStrategy<(String, Option<String>)> {
    ("[A-Z0-9.-]{1,8}", option::of("([A-Za-z0-9+/]{4}){0,3}([A-Za-z0-9+/]{2}==)?")).boxed()
}

fn metadata_code() -> BoxedStrategy<MetadataCode> {
    one_of![
        number64().makes(MetadataCode::LongEntries),
        number64().makes(MetadataCode::MaxSize),
        Just(MetadataCode::TooMany),
        Just(MetadataCode::NoPrivate),
    ]
}

fn response_flag() -> BoxedStrategy<ResponseFlag> {
    one_of![
        6 => flag().prop_map(ResponseFlag::Flag),
        1 => Just(ResponseFlag::Recent),
        1 => Just(ResponseFlag::Any),
        1 => "\\\\X[a-z]{1,6}".prop_map(ResponseFlag::Other),
        1 => "[a-z]{1,6}\\][a-z]".prop_map(ResponseFlag::Other),
    ]
}

fn untagged(names: NameEncoding) -> BoxedStrategy<Untagged> {
    let found = || (vec(number(), 0..6), option::of(mod_seq())).boxed();
    one_of![
        vec(capability(), 0..4).boxed().makes(Untagged::Capability),
        vec(capability(), 0..4).boxed().makes(Untagged::Enabled),
        list_data(names).makes(Untagged::List),
        list_data(names).makes(Untagged::Lsub),
        list_data(names).makes(Untagged::Xlist),
        namespaces(names).prop_map(Untagged::Namespace),
        text().prop_map(Untagged::JmapAccess),
        (mailbox(names), vec(status_value(), 0..4))
            .prop_map(|(mailbox, items)| Untagged::Status { mailbox, items }),
        found().makes(|(numbers, modseq)| Untagged::Search { numbers, modseq }),
        found().makes(|(numbers, modseq)| Untagged::Sort { numbers, modseq }),
        (text(), vec(("[A-Z][A-Z-]{0,12}", 0..1_u64 << 63, 0..1_u64 << 63), 0..4)).prop_map(
            |(root, resources)| Untagged::Quota {
                root,
                resources: resources
                    .into_iter()
                    .map(|(name, usage, limit)| QuotaResource { name, usage, limit })
                    .collect()
            }
        ),
        (mailbox(names), vec(text(), 0..3))
            .prop_map(|(mailbox, roots)| Untagged::QuotaRoot { mailbox, roots }),
        (mailbox(names), vec(annotation(), 1..4))
            .prop_map(|(mailbox, entries)| Untagged::Metadata { mailbox, entries }),
        (mailbox(names), vec(entry_name(), 1..4))
            .prop_map(|(mailbox, entries)| Untagged::MetadataChanged { mailbox, entries }),
        acl(names).prop_map(Untagged::Acl),
        threads().prop_map(Untagged::Thread),
        esearch(names).prop_map(Untagged::Esearch),
        vec(text(), 1..4).prop_map(Untagged::GenUrlAuth),
        vec((text(), url_data()), 1..4).prop_map(|all| {
            Untagged::UrlFetch(all.into_iter().map(|(url, data)| UrlFetched { url, data }).collect())
        }),
        vec("[A-Za-z-]{1,9}", 0..3).prop_map(Untagged::Language),
        ("i;[a-z-]{1,9}", vec("[a-z;-]{1,9}", 0..3))
            .prop_map(|(active, others)| Untagged::Comparator { active, others }),
        id_pairs().prop_map(Untagged::Id),
        one_of![
            vec(response_flag(), 0..5).prop_map(Untagged::Flags),
            any::<u32>().boxed().makes(Untagged::Exists),
            any::<u32>().boxed().makes(Untagged::Recent),
            seq_num().prop_map(Untagged::Expunge),
            (any::<bool>(), num_set()).prop_map(|(earlier, uids)| Untagged::Vanished { earlier, uids }),
            "X[a-z ]{0,20}".prop_map(|s| Untagged::Other(s.into())),
            "[1-9] X[a-z ]{0,20}".prop_map(|s| Untagged::Other(s.into())),
        ],
        (seq_num(), vec(fetch_value(), 0..5)).prop_map(|(seq, items)| Untagged::Fetch { seq, items }),
        (uid(), vec(fetch_value(), 1..3)).prop_map(|(uid, items)| Untagged::UidFetch { uid, items }),
        (tag(), vec((uid(), uid()), 0..4)).prop_map(|(tag, batches)| Untagged::UidBatches { tag, batches }),
        (seq_num(), vec(fetch_value(), 1..3)).prop_map(|(seq, items)| Untagged::Fetch { seq, items }),
    ]
}

fn acl(names: NameEncoding) -> BoxedStrategy<AclData> {
    let some = || rights().prop_filter("not empty", |rights| !rights.is_empty());
    one_of![
        (mailbox(names), vec((text(), rights()), 0..4))
            .prop_map(|(mailbox, entries)| AclData::Acl { mailbox, entries }),
        (mailbox(names), text(), rights(), vec(some(), 0..4)).prop_map(
            |(mailbox, identifier, required, optional)| AclData::ListRights {
                mailbox,
                identifier,
                required,
                optional
            }
        ),
        (mailbox(names), rights()).prop_map(|(mailbox, rights)| AclData::MyRights { mailbox, rights }),
    ]
}

fn separator() -> BoxedStrategy<Option<char>> {
    option::of(prop::sample::select(vec!['/', '.', '\\', '"', '^'])).boxed()
}

pub fn list_data(names: NameEncoding) -> BoxedStrategy<ListData> {
    let attribute = one_of![
        prop::sample::select(vec![
            ListAttribute::NonExistent,
            ListAttribute::NoInferiors,
            ListAttribute::NoSelect,
            ListAttribute::HasChildren,
            ListAttribute::HasNoChildren,
            ListAttribute::Marked,
            ListAttribute::Unmarked,
            ListAttribute::Subscribed,
            ListAttribute::Remote,
            ListAttribute::NoAccess,
        ]),
        special_use().prop_map(ListAttribute::Use),
    ];
    (vec(attribute, 0..4), separator(), mailbox(names), selection(), option::of(mailbox(names)))
        .prop_map(|(attributes, separator, mailbox, child_info, old_name)| ListData {
            attributes,
            separator,
            mailbox,
            child_info,
            old_name,
        })
        .boxed()
}

fn namespaces(names: NameEncoding) -> BoxedStrategy<Namespaces> {
    let one = (mailbox(names), separator()).prop_map(|(prefix, separator)| Namespace { prefix, separator });
    let some = vec(one, 0..3);
    (some.clone(), some.clone(), some)
        .prop_map(|(personal, other, shared)| Namespaces { personal, other, shared })
        .boxed()
}

pub fn status_value() -> BoxedStrategy<StatusValue> {
    let numbers = || any::<u32>().boxed();
    one_of![
        numbers().makes(StatusValue::Messages),
        numbers().makes(StatusValue::Recent),
        uid().prop_map(StatusValue::UidNext),
        uid_validity().prop_map(StatusValue::UidValidity),
        numbers().makes(StatusValue::Unseen),
        numbers().makes(StatusValue::Deleted),
        number64().makes(StatusValue::Size),
        number64().makes(StatusValue::DeletedStorage),
        mod_seq().prop_map(StatusValue::HighestModSeq),
        mod_seq().prop_map(StatusValue::CreatedModSeq),
        option::of(number64()).prop_map(StatusValue::AppendLimit),
        object_id().prop_map(StatusValue::MailboxId),
        object_ids().prop_map(StatusValue::ObjectIds),
    ]
}

/// Forests: each node with its children after it.
fn threads() -> BoxedStrategy<Vec<ThreadNode>> {
    let node = |number, children: Vec<Vec<ThreadNode>>| {
        let mut nodes = vec![ThreadNode { number, children: children.len() as u32 }];
        children.into_iter().for_each(|child| nodes.extend(child));
        nodes
    };
    let thread = number().prop_map(|n| vec![ThreadNode { number: Some(n), children: 0 }]).prop_recursive(
        6,
        24,
        4,
        move |inner| {
            let child = inner.clone().prop_filter("an only child is a message", |n| n[0].number.is_some());
            one_of![
                (number(), child).prop_map(move |(n, child)| node(Some(n), vec![child])),
                (option::of(number()), vec(inner, 2..4)).prop_map(move |(n, children)| node(n, children)),
            ]
        },
    );
    vec(thread, 0..3).prop_map(|threads| threads.concat()).boxed()
}

pub fn esearch(names: NameEncoding) -> BoxedStrategy<Esearch> {
    let n = || option::of(number());
    // As SORT orders them: not ascending.
    let ordered = || {
        vec((number(), number()), 1..4)
            .prop_map(|r| r.into_iter().map(|(a, b)| (a.min(b), a.max(b))).collect::<Vec<_>>())
    };
    let page = (page_range(), option::of(ordered()))
        .prop_map(|(range, page)| range.map(|range| (range, page.unwrap_or_default())));
    let kind = one_of![Just(UpdateKind::AddTo), Just(UpdateKind::RemoveFrom)];
    let update = (kind, vec((number(), ordered()), 1..4)).prop_map(|(kind, places)| Update { kind, places });
    let scores = option::of(vec(1_u8..=100, 0..4));
    let more =
        (option::of(mod_seq()), vec(update, 0..3), option::of((mailbox(names), uid_validity())), scores);
    (option::of(tag()), numbering(), n(), n(), n(), option::of(ordered()), page, more)
        .prop_map(|(tag, numbering, min, max, count, all, partial, (modseq, updates, mailbox, relevancy))| {
            Esearch { tag, mailbox, numbering, min, max, count, all, partial, relevancy, modseq, updates }
        })
        .boxed()
}

fn url_data() -> BoxedStrategy<UrlData> {
    let bytes = || option::of(message_bytes()).boxed();
    let item = one_of![
        bytes().makes(UrlDataItem::Body),
        bytes().makes(UrlDataItem::Binary),
        option::of(structure(true)).prop_map(UrlDataItem::Structure),
    ];
    one_of![bytes().prop_map(UrlData::Plain), vec(item, 1..4).prop_map(UrlData::Items)]
}

fn fetch_value() -> BoxedStrategy<FetchValue> {
    use FetchValue as F;
    let data = || option::of(message_bytes()).boxed();
    let origin = || option::of(number64());
    one_of![
        envelope().prop_map(|e| F::Envelope(Box::new(e))),
        structure(false).prop_map(F::Body),
        structure(true).prop_map(F::BodyStructure),
        vec(response_flag(), 0..5).prop_map(F::Flags),
        (section(), origin(), data()).prop_map(|(section, origin, data)| F::BodySection {
            section,
            origin,
            data
        }),
        one_of![
            date_time().prop_map(F::InternalDate),
            data().makes(F::Rfc822),
            data().makes(F::Rfc822Header),
            data().makes(F::Rfc822Text),
            number64().makes(F::Rfc822Size),
            uid().prop_map(F::Uid),
            mod_seq().prop_map(F::ModSeq),
            mod_seq().prop_map(F::CreatedModSeq),
        ],
        one_of![
            object_id().prop_map(F::EmailId),
            option::of(object_id()).prop_map(F::ThreadId),
            object_ids().prop_map(F::ObjectIds),
            option::of(date_time()).prop_map(F::SaveDate),
            data().makes(F::Preview),
            (part(0), origin(), data()).prop_map(|(part, origin, data)| F::Binary { part, origin, data }),
            (part(0), number64()).prop_map(|(part, size)| F::BinarySize { part, size }),
            vec((entry_name(), vec((text(), data()), 0..3)), 0..3).prop_map(|all| F::Annotation(
                all.into_iter().map(|(entry, attributes)| AnnotationData { entry, attributes }).collect()
            )),
            number64().makes(F::GmMessageId),
            (one_of![Just(SnippetName::Preview), Just(SnippetName::Snippet)], data())
                .prop_map(|(name, text)| F::Snippet(name, text)),
            any::<[u8; 20]>().prop_map(F::DigestSha1),
            number64().makes(F::GmThreadId),
            vec(one_of![text(), "\\\\[A-Z][a-z]{0,8}"], 0..4).prop_map(F::GmLabels),
            prop::sample::select(vec!["1278455344230334865", "(a (b \"c)\") {2}\r\n)))", "\"x\"", "NIL"])
                .prop_map(|v| F::Other("X-GM-FROB".into(), Bytes::from_static(v.as_bytes()))),
            (any_extension::label(), any_extension::value())
                .prop_map(|(name, value)| F::Other(name, value.into())),
        ],
    ]
}

fn string() -> BoxedStrategy<Cow<'static, [u8]>> {
    string_bytes().prop_map(Cow::Owned).boxed()
}
fn nstring() -> BoxedStrategy<NString<'static>> {
    option::of(string()).boxed()
}
fn params() -> BoxedStrategy<Vec<Param<'static>>> {
    vec((string(), string()), 0..3).boxed()
}

fn envelope() -> BoxedStrategy<Envelope<'static>> {
    let address = (nstring(), nstring(), nstring(), nstring())
        .prop_map(|(name, route, mailbox, host)| Address { name, route, mailbox, host });
    (prop::array::uniform4(nstring()), prop::array::uniform6(vec(address, 0..3)))
        .prop_map(|([date, subject, in_reply_to, message_id], [from, sender, reply_to, to, cc, bcc])| {
            let (sender, reply_to) = (Some(sender), Some(reply_to));
            Envelope { date, subject, from, sender, reply_to, to, cc, bcc, in_reply_to, message_id }
        })
        .boxed()
}

/// Extension data, or none of it where it is not printed.
fn tail(extended: bool) -> BoxedStrategy<PartTail<'static>> {
    if !extended {
        return Just(PartTail::default()).boxed();
    }
    let disposition =
        option::of((string(), params()).prop_map(|(kind, params)| Disposition { kind, params }));
    (disposition, vec(string(), 0..3), nstring())
        .prop_map(|(disposition, language, location)| PartTail { disposition, language, location })
        .boxed()
}

fn basic(
    media_type: &'static str,
    subtype: BoxedStrategy<Cow<'static, [u8]>>,
) -> BoxedStrategy<BasicPart<'static>> {
    (subtype, params(), nstring(), nstring(), string(), number64())
        .prop_map(move |(media_subtype, params, id, description, encoding, size)| BasicPart {
            media_type: Cow::Borrowed(media_type.as_bytes()),
            media_subtype,
            params,
            id,
            description,
            encoding,
            size,
        })
        .boxed()
}

fn single(
    basic: BoxedStrategy<BasicPart<'static>>,
    kind: BoxedStrategy<PartKind<'static>>,
    extended: bool,
) -> BoxedStrategy<BodyStructure<'static>> {
    let md5 = if extended { nstring() } else { Just(None).boxed() };
    (basic, kind, md5, tail(extended))
        .prop_map(|(basic, kind, md5, tail)| {
            BodyStructure::Single(Box::new(SinglePart { basic, kind, md5, tail }))
        })
        .boxed()
}

pub fn structure(extended: bool) -> BoxedStrategy<BodyStructure<'static>> {
    let image = single(basic("image", string()), Just(PartKind::Basic).boxed(), extended);
    let lines = number64().prop_map(|lines| PartKind::Text { lines }).boxed();
    let text = single(basic("TEXT", string()), lines, extended);
    one_of![image, text]
        .prop_recursive(3, 8, 3, move |inner| {
            let message = (envelope(), inner.clone(), number64())
                .prop_map(|(envelope, body, lines)| PartKind::Message {
                    envelope: Box::new(envelope),
                    body,
                    lines,
                })
                .boxed();
            let rfc822 = Just(Cow::Borrowed(&b"RFC822"[..])).boxed();
            let params = if extended { params() } else { Just(Vec::new()).boxed() };
            let multi = (vec(inner, 1..3), string(), params, tail(extended)).prop_map(
                |(parts, media_subtype, params, tail)| {
                    BodyStructure::Multi(Box::new(MultiPart { parts, media_subtype, params, tail }))
                },
            );
            one_of![single(basic("message", rfc822), message, extended), multi]
        })
        .boxed()
}
