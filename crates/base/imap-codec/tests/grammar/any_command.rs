//! Strategies for every command there is.

use posthaste_imap_codec::command::*;
use posthaste_imap_codec::{
    AclCommand, AnnotationItem, AnnotationKey, Bound, Depth, ListPattern, MessageSet, NameEncoding,
    Numbering, RightsChange, SeqSet, SequenceSet, SetRange, UidSet, ValueAttribute, ValueKind,
};
use posthaste_mail_model::Secret;
use posthaste_property::{Makes, one_of};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use crate::any_value::*;

pub fn command(names: NameEncoding) -> BoxedStrategy<Command> {
    (tag(), body(names)).prop_map(|(tag, body)| Command { tag, body }).boxed()
}

fn body(names: NameEncoding) -> BoxedStrategy<CommandBody> {
    one_of![3 => session_body(), 5 => mailbox_body(names), 6 => message_body(names)]
}

fn session_body() -> BoxedStrategy<CommandBody> {
    use CommandBody as B;
    let bare = prop::sample::select(vec![
        B::Capability,
        B::Noop,
        B::Logout,
        B::StartTls,
        B::CompressDeflate,
        B::Namespace,
        B::GetJmapAccess,
        B::Idle,
        B::Check,
        B::Close,
        B::Unselect,
        B::Unauthenticate,
    ]);
    let texts = vec(text(), 0..4).boxed();
    one_of![
        bare,
        ("[A-Z][A-Z0-9-]{0,15}", option::of(vec(any::<u8>(), 0..30))).prop_map(|(mechanism, initial)| {
            B::Authenticate { mechanism, initial: initial.map(Secret::new) }
        }),
        (text(), string_bytes()).prop_map(|(user, p)| B::Login { user, password: Secret::new(p) }),
        id_pairs().prop_map(B::Id),
        vec(capability(), 1..4).prop_map(B::Enable),
        texts.clone().makes(B::Language),
        texts.makes(B::Comparator),
    ]
}

fn mailbox_body(names: NameEncoding) -> BoxedStrategy<CommandBody> {
    use CommandBody as B;
    let access = one_of![Just(Access::ReadWrite), Just(Access::ReadOnly)];
    let two_names = || (mailbox(names), mailbox(names)).boxed();
    one_of![
        (mailbox(names), access, select_params()).prop_map(|(mailbox, access, params)| B::Select {
            mailbox,
            access,
            params
        }),
        (mailbox(names), vec(special_use(), 0..3))
            .prop_map(|(mailbox, special_use)| B::Create { mailbox, special_use }),
        mailbox(names).makes(B::Delete),
        two_names().makes(|(from, to)| B::Rename { from, to }),
        mailbox(names).makes(B::Subscribe),
        mailbox(names).makes(B::Unsubscribe),
        list(names).prop_map(B::List),
        two_names().makes(|(reference, p)| B::Lsub { reference, pattern: ListPattern(p) }),
        two_names().makes(|(reference, p)| B::Xlist { reference, pattern: ListPattern(p) }),
        two_names().makes(|(reference, p)| B::Rlist { reference, pattern: ListPattern(p) }),
        two_names().makes(|(reference, p)| B::Rlsub { reference, pattern: ListPattern(p) }),
        (mailbox(names), status_items(1)).prop_map(|(mailbox, items)| B::Status { mailbox, items }),
        text().prop_map(B::GetQuota),
        mailbox(names).makes(B::GetQuotaRoot),
        (text(), vec(("[A-Z][A-Z-]{0,12}", 0..1_u64 << 63), 0..4))
            .prop_map(|(root, limits)| B::SetQuota { root, limits }),
        (
            mailbox(names),
            option::of(number64()),
            prop::sample::select(Depth::ALL.to_vec()),
            vec(entry_name(), 1..4)
        )
            .prop_map(|(mailbox, max_size, depth, entries)| B::GetMetadata {
                mailbox,
                max_size,
                depth,
                entries
            }),
        (mailbox(names), vec(annotation(), 1..4))
            .prop_map(|(mailbox, entries)| B::SetMetadata { mailbox, entries }),
        acl(names).prop_map(B::Acl),
        vec((text(), "[A-Z0-9.-]{1,8}"), 1..4).prop_map(B::GenUrlAuth),
        option::of((mailbox(names), vec("[A-Z0-9.-]{1,8}", 0..3))).prop_map(|reset| {
            let (mailbox, mechanisms) = reset.unzip();
            B::ResetKey { mailbox, mechanisms: mechanisms.unwrap_or_default() }
        }),
        vec(url_fetch_item(), 1..4).prop_map(B::UrlFetch),
        (mailbox(names), vec(append_message(), 1..4))
            .prop_map(|(mailbox, messages)| B::Append { mailbox, messages }),
        notify(names).prop_map(B::Notify),
        (vec(filter(names, false), 0..3), search_return(), option::of(charset()), search_key()).prop_map(
            |(sources, (returns, update_items), charset, key)| {
                B::MultiSearch(MultiSearchArgs { sources, returns, update_items, charset, key })
            }
        ),
    ]
}

fn notify(names: NameEncoding) -> BoxedStrategy<Notify> {
    let event = one_of![
        vec(fetch_item(), 0..3).prop_map(Event::MessageNew),
        prop::sample::select(vec![
            Event::MessageExpunge,
            Event::FlagChange,
            Event::AnnotationChange,
            Event::MailboxName,
            Event::SubscriptionChange,
            Event::MailboxMetadataChange,
            Event::ServerMetadataChange,
        ]),
        "X[A-Za-z]{1,9}".prop_map(Event::Other),
    ];
    let group = (filter(names, true), vec(event, 0..4))
        .prop_map(|(mailboxes, events)| EventGroup { mailboxes, events });
    one_of![
        1 => Just(Notify::None),
        5 => (any::<bool>(), vec(group, 1..4)).prop_map(|(status, groups)| Notify::Set { status, groups }),
    ]
}

fn filter(names: NameEncoding, of_notify: bool) -> BoxedStrategy<MailboxFilter> {
    let some = || vec(mailbox(names), 1..4).boxed();
    let special = if of_notify { MailboxFilter::SelectedDelayed } else { MailboxFilter::Personal };
    one_of![
        prop::sample::select(vec![
            MailboxFilter::Selected,
            special,
            MailboxFilter::Inboxes,
            MailboxFilter::Personal,
            MailboxFilter::Subscribed,
        ]),
        some().makes(MailboxFilter::Subtree),
        some().makes(MailboxFilter::SubtreeOne),
        some().makes(MailboxFilter::Mailboxes),
    ]
}

fn acl(names: NameEncoding) -> BoxedStrategy<AclCommand> {
    let change = prop::sample::select(vec![RightsChange::Replace, RightsChange::Add, RightsChange::Remove]);
    let identifier = text().prop_filter("too long", |text| text.len() <= 400);
    let (mailbox, identifier) = (mailbox(names), identifier.boxed());
    one_of![
        2 => (mailbox.clone(), identifier.clone(), change, rights())
            .prop_map(|(mailbox, identifier, change, rights)| AclCommand::Set { mailbox, identifier, change, rights }),
        1 => (mailbox.clone(), identifier.clone())
            .prop_map(|(mailbox, identifier)| AclCommand::Delete { mailbox, identifier }),
        1 => mailbox.clone().prop_map(AclCommand::Get),
        1 => (mailbox.clone(), identifier)
            .prop_map(|(mailbox, identifier)| AclCommand::ListRights { mailbox, identifier }),
        1 => mailbox.prop_map(AclCommand::MyRights),
    ]
}

fn select_params() -> BoxedStrategy<SelectParams> {
    let qresync = (
        uid_validity(),
        mod_seq(),
        option::of(known_numbers().prop_map(UidSet)),
        option::of(
            (known_numbers(), known_numbers())
                .prop_map(|(seqs, uids)| SeqMatch { seqs: SeqSet(seqs), uids: UidSet(uids) }),
        ),
    )
        .prop_map(|(uid_validity, modseq, known_uids, seq_match)| {
            Box::new(Qresync { uid_validity, modseq, known_uids, seq_match })
        });
    (any::<[bool; 2]>(), option::of(qresync), option::of(object_ids().prop_map(Box::new)))
        .prop_map(|([condstore, annotate], qresync, object_ids)| SelectParams {
            condstore,
            annotate,
            qresync,
            object_ids,
        })
        .boxed()
}

pub fn special_use() -> BoxedStrategy<SpecialUse> {
    one_of![
        prop::sample::select(vec![
            SpecialUse::All,
            SpecialUse::Archive,
            SpecialUse::Drafts,
            SpecialUse::Flagged,
            SpecialUse::Important,
            SpecialUse::Junk,
            SpecialUse::Sent,
            SpecialUse::Trash
        ]),
        "X[a-z]{1,5}".prop_map(SpecialUse::Other),
    ]
}

fn status_items(min: usize) -> BoxedStrategy<Vec<StatusItem>> {
    vec(prop::sample::select(StatusItem::ALL.to_vec()), min..5).boxed()
}

fn list(names: NameEncoding) -> BoxedStrategy<ListArgs> {
    let metadata = vec(entry_name(), 0..3);
    let returns = (any::<[bool; 4]>(), status_items(0), metadata).prop_map(|(b, status, metadata)| {
        ListReturn { subscribed: b[0], children: b[1], special_use: b[2], my_rights: b[3], status, metadata }
    });
    let returns = one_of![Just(ListReturn::default()), returns];
    (any::<bool>(), selection(), mailbox(names), vec(mailbox(names).prop_map(ListPattern), 1..4), returns)
        .prop_map(|(extended, selection, reference, patterns, returns)| {
            let extended = extended
                || patterns.len() > 1
                || selection != ListSelection::default()
                || returns != ListReturn::default();
            let syntax = if extended { ListSyntax::Extended } else { ListSyntax::Basic };
            ListArgs { syntax, selection, reference, patterns, returns }
        })
        .boxed()
}

pub fn selection() -> BoxedStrategy<ListSelection> {
    let any = any::<[bool; 4]>().prop_map(|b| ListSelection {
        subscribed: b[0],
        remote: b[1],
        recursive_match: b[2] && (b[0] || b[3]),
        special_use: b[3],
    });
    one_of![Just(ListSelection::default()), any]
}

fn url_fetch_item() -> BoxedStrategy<UrlFetchItem> {
    use UrlFetchParam as P;
    let params = prop::sample::select(vec![
        None,
        Some(vec![]),
        Some(vec![P::Body]),
        Some(vec![P::Binary]),
        Some(vec![P::Structure, P::Body]),
        Some(vec![P::Binary, P::Structure]),
    ]);
    (text(), params).prop_map(|(url, params)| UrlFetchItem { url, params }).boxed()
}

fn append_message() -> BoxedStrategy<AppendMessage> {
    let form = one_of![Just(AppendForm::Literal), Just(AppendForm::Literal8), Just(AppendForm::Utf8)];
    let text = (form, message_bytes()).prop_map(|(form, data)| AppendText { form, data }).boxed();
    let url = one_of![imap_url().prop_map(|url| url.to_string()), text_of_url()];
    let part = one_of![url.prop_map(CatenatePart::Url), text.clone().prop_map(CatenatePart::Text)];
    let content = one_of![
        3 => text.prop_map(AppendContent::Sent),
        1 => vec(part, 1..4).prop_map(AppendContent::Catenate),
    ];
    (vec(flag(), 0..4), option::of(date_time()), vec(value_change(), 0..3), content)
        .prop_map(|(flags, date, annotations, content)| AppendMessage { flags, date, annotations, content })
        .boxed()
}

/// The text in the place of a URL need not be one.
fn text_of_url() -> BoxedStrategy<String> {
    text()
}

fn message_body(names: NameEncoding) -> BoxedStrategy<CommandBody> {
    use CommandBody as B;
    let action = prop::sample::select(vec![StoreAction::Replace, StoreAction::Add, StoreAction::Remove]);
    let answer = one_of![Just(StoreAnswer::Flags), Just(StoreAnswer::Silent)];
    let set_and_name = || (message_set(), mailbox(names)).boxed();
    one_of![
        option::of(sequence_set().prop_map(UidSet)).prop_map(|uids| B::Expunge { uids }),
        (1_u32.., option::of((1_u32.., 1_u32..))).prop_map(|(size, batches)| B::UidBatches { size, batches }),
        vec(tag(), 1..4).prop_map(B::CancelUpdate),
        search().prop_map(B::Search),
        sort().prop_map(B::Sort),
        thread().prop_map(B::Thread),
        (message_set(), vec(fetch_item(), 1..6), option::of(mod_seq()), any::<bool>(), page_range())
            .prop_map(|(set, items, changed_since, vanished, partial)| {
                let vanished = vanished && changed_since.is_some() && set.numbering() == Numbering::Uid;
                let partial = partial.filter(|_| set.numbering() == Numbering::Uid);
                B::Fetch { set, items, modifiers: FetchModifiers { changed_since, vanished, partial } }
            }),
        (message_set(), option::of(mod_seq()), action.clone(), answer.clone(), vec(flag(), 0..4)).prop_map(
            |(set, unchanged_since, action, answer, flags)| B::Store {
                set,
                unchanged_since,
                action,
                answer,
                flags
            }
        ),
        (message_set(), option::of(mod_seq()), vec(value_change(), 1..4)).prop_map(
            |(set, unchanged_since, changes)| B::StoreAnnotations { set, unchanged_since, changes }
        ),
        (message_set(), option::of(mod_seq()), action, answer, vec(text(), 0..4)).prop_map(
            |(set, unchanged_since, action, answer, labels)| B::StoreLabels {
                set,
                unchanged_since,
                action,
                answer,
                labels
            }
        ),
        set_and_name().makes(|(set, mailbox)| B::Copy { set, mailbox }),
        set_and_name().makes(|(set, mailbox)| B::Move { set, mailbox }),
        (option::of(1_u32..), any::<bool>(), mailbox(names), append_message()).prop_map(
            |(number, is_uid, mailbox, message)| {
                let numbering = if is_uid && number.is_some() { Numbering::Uid } else { Numbering::Seq };
                let bound = number.and_then(Bound::number).unwrap_or(Bound::Largest);
                let one = SequenceSet::Ranges(vec![SetRange { from: bound, to: bound }]);
                B::Replace { set: MessageSet::new(numbering, one), mailbox, message: Box::new(message) }
            }
        ),
    ]
}

fn fetch_item() -> BoxedStrategy<FetchItem> {
    use FetchItem as F;
    let bare = prop::sample::select(vec![
        F::Envelope,
        F::Body,
        F::BodyStructure,
        F::Flags,
        F::InternalDate,
        F::Rfc822,
        F::Rfc822Header,
        F::Rfc822Text,
        F::Rfc822Size,
        F::Uid,
        F::ModSeq,
        F::EmailId,
        F::ThreadId,
        F::ObjectIds,
        F::GmMessageId,
        F::DigestSha1,
        F::Snippet { name: SnippetName::Preview, lazy: false },
        F::Snippet { name: SnippetName::Preview, lazy: true },
        F::Snippet { name: SnippetName::Snippet, lazy: false },
        F::Snippet { name: SnippetName::Snippet, lazy: true },
        F::GmThreadId,
        F::GmLabels,
        F::SaveDate,
        F::CreatedModSeq,
        F::Preview { lazy: false },
        F::Preview { lazy: true },
    ]);
    one_of![
        3 => bare,
        3 => (section(), partial(), any::<bool>())
            .prop_map(|(section, partial, peek)| F::BodySection { section, partial, peek }),
        1 => (part(0), partial(), any::<bool>()).prop_map(|(part, partial, peek)| F::Binary { part, partial, peek }),
        1 => part(0).prop_map(|part| F::BinarySize { part }),
        1 => (vec(entry_pattern(), 1..4), vec(value_attribute(), 1..4))
            .prop_map(|(entries, attributes)| F::Annotation(AnnotationItem { entries, attributes })),
    ]
}

fn value_attribute() -> BoxedStrategy<ValueAttribute> {
    let kind = one_of![Just(ValueKind::Value), Just(ValueKind::Size)];
    (kind, option::of(scope())).prop_map(|(kind, scope)| ValueAttribute { kind, scope }).boxed()
}

pub fn charset() -> BoxedStrategy<Charset> {
    one_of![Just(Charset::UsAscii), Just(Charset::Utf8)]
}

/// The result options, and the items of `UPDATE`.
fn search_return() -> BoxedStrategy<(Option<SearchReturn>, Vec<FetchItem>)> {
    let returns =
        (any::<[bool; 8]>(), page_range(), vec(fetch_item(), 0..3)).prop_map(|(b, partial, items)| {
            let none = b[..5] == [false; 5];
            let all = partial.is_none() && (b[2] || none);
            let [min, max, _, count, save, update, context, relevancy] = b;
            let returns = SearchReturn { min, max, all, count, save, partial, update, context, relevancy };
            (returns, if update { items } else { Vec::new() })
        });
    option::of(returns)
        .prop_map(|of| of.map_or_else(|| (None, Vec::new()), |(returns, items)| (Some(returns), items)))
        .boxed()
}

fn search() -> BoxedStrategy<SearchArgs> {
    (numbering(), option::of(charset()), search_return(), search_key())
        .prop_map(|(numbering, charset, (returns, update_items), key)| SearchArgs {
            numbering,
            charset,
            returns,
            update_items,
            key,
        })
        .boxed()
}

fn sort() -> BoxedStrategy<SortArgs> {
    let plain = prop::sample::select(SortKey::ALL.to_vec()).prop_map(Ok);
    let key = one_of![4 => plain, 1 => (entry_name(), scope()).prop_map(Err)];
    (numbering(), search_return(), vec((key, any::<bool>()), 1..5), charset(), search_key())
        .prop_map(|(numbering, (returns, update_items), keys, charset, key)| {
            let mut annotations = Vec::new();
            let criteria = keys.into_iter().map(|(key, is_reverse)| {
                let key = key.unwrap_or_else(|annotation| {
                    annotations.push(annotation);
                    SortKey::Annotation(annotations.len() as u16 - 1)
                });
                SortCriterion { key, is_reverse }
            });
            let criteria = criteria.collect();
            SortArgs { numbering, returns, update_items, criteria, annotations, charset, key }
        })
        .boxed()
}

fn thread() -> BoxedStrategy<ThreadArgs> {
    (numbering(), prop::sample::select(ThreadAlgorithm::ALL.to_vec()), charset(), search_key())
        .prop_map(|(numbering, algorithm, charset, key)| ThreadArgs { numbering, algorithm, charset, key })
        .boxed()
}

/// Any octets: short ones are text, too.
fn octets() -> BoxedStrategy<Vec<u8>> {
    one_of![text().prop_map(String::into_bytes), vec(any::<u8>(), 0..9)]
}

pub fn search_key() -> BoxedStrategy<SearchKey> {
    use SearchKey as K;
    one_of![bare_key(), text_key(), date_key(), number_key()]
        .prop_recursive(5, 24, 4, |inner| {
            one_of![
                vec(inner.clone(), 2..4).prop_map(K::And),
                (inner.clone(), inner.clone()).prop_map(|(a, b)| K::Or(Box::new(a), Box::new(b))),
                inner.clone().makes(|a| K::Fuzzy(Box::new(a))),
                inner.makes(|a| K::Not(Box::new(a))),
            ]
        })
        .boxed()
}

fn bare_key() -> BoxedStrategy<SearchKey> {
    use SearchKey as K;
    one_of![
        prop::sample::select(vec![K::All, K::New, K::Old, K::Recent, K::SaveDateSupported]),
        flag().makes(K::Has),
        flag().makes(K::Lacks),
        sequence_set().makes(|set| K::Seq(SeqSet(set))),
        sequence_set().makes(|set| K::Uid(UidSet(set))),
    ]
}

fn text_key() -> BoxedStrategy<SearchKey> {
    use SearchKey as K;
    let make: Vec<fn(String) -> K> = vec![K::Bcc, K::Cc, K::From, K::Subject, K::To, K::Body, K::Text];
    one_of![
        (prop::sample::select(make), text()).prop_map(|(make, text)| make(text)),
        (text(), text()).prop_map(|(name, value)| K::Header(name, value)),
        (entry_pattern(), option::of(scope()), octets()).prop_map(|(entries, scope, text)| K::Annotation(
            Box::new(AnnotationKey { entries, scope, text: text.into() })
        )),
        "[a-z][a-z0-9.-]{0,9}".prop_map(K::Filter),
        object_id().makes(K::EmailId),
        object_id().makes(K::ThreadId),
        text().makes(K::GmLabel),
        text().makes(K::GmRaw),
    ]
}

fn date_key() -> BoxedStrategy<SearchKey> {
    use SearchKey as K;
    let make: Vec<fn(posthaste_imap_codec::Date) -> K> = vec![
        K::Before,
        K::On,
        K::Since,
        K::SentBefore,
        K::SentOn,
        K::SentSince,
        K::SavedBefore,
        K::SavedOn,
        K::SavedSince,
    ];
    (prop::sample::select(make), date()).prop_map(|(make, date)| make(date)).boxed()
}

fn number_key() -> BoxedStrategy<SearchKey> {
    use SearchKey as K;
    let scope = prop::sample::select(vec![EntryScope::Private, EntryScope::Shared, EntryScope::All]);
    let entry = option::of((text(), scope).prop_map(|(name, scope)| ModSeqEntry { name, scope }));
    one_of![
        number64().makes(K::Larger),
        number64().makes(K::Smaller),
        number64().makes(K::GmMessageId),
        number64().makes(K::GmThreadId),
        number().makes(K::Older),
        uid().makes(K::UidAfter),
        uid().makes(K::UidBefore),
        number().makes(K::Younger),
        (entry, mod_seq()).prop_map(|(entry, modseq)| K::ModSeq { entry, modseq }),
    ]
}
