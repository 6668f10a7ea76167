//! GETMETADATA and SETMETADATA (RFC 5464), and METADATA in LIST (RFC 9590).
//!
//! The directory stores an account's own annotations. Some are computed: `/shared/comment` and
//! `/shared/admin` of the server come from the configuration, and `/private/specialuse` of a
//! mailbox (RFC 6154 §5.4) is its special use. All users see the shared annotations of the server,
//! so only the configuration sets them. In a mailbox of another account, shared annotations belong
//! to the mailbox, and each user has separate private ones.

use std::collections::HashSet;

use bytes::Bytes;
use posthaste_directory::{ANNOTATION_BYTES_MAX, Annotated, AnnotationError, Annotations, Entry};
use posthaste_filter::SCRIPT_ENTRY;
use posthaste_imap_codec::command::SpecialUse as Use;
use posthaste_imap_codec::response::{Code, Untagged};
use posthaste_imap_codec::{Annotation, Depth, EntryName, MailboxArg, MetadataCode, Tag};
use posthaste_mail_model::{AccountId, MailboxId};
use posthaste_sharing::Visible;
use posthaste_store::{MailboxEntry, SpecialUse, StoreError};

use super::DONE;
use super::annotation_memory::AnnotationMemory;
use crate::reply::{Failure, Reply};
use crate::resolve::{Asker, ExistingMailbox};
use crate::rights::Act;
use crate::service::{ImapService, UNRESERVED_READ_BYTES};
use crate::session::Session;
use crate::special_use;

/// RFC 5464 §3.2.1.1
const SERVER_COMMENT: &str = "/shared/comment";
/// RFC 5464 §3.2.1.1
const SERVER_ADMIN: &str = "/shared/admin";

/// Bytes of annotations that a LIST holds while its client reads. An account may have 4 MiB, and
/// sees those of others.
const LISTED_BYTES_MAX: u64 = UNRESERVED_READ_BYTES;

/// Mailboxes whose annotations are read at once: up to 512 KiB of each, of which most are dropped.
const READ_AT_ONCE: usize = 16;

/// The entries that a GETMETADATA requests.
pub(super) struct MetadataRequest<'q> {
    /// Longer values are left out.
    pub(super) max_size: Option<u64>,
    pub(super) depth: Depth,
    pub(super) entries: &'q [EntryName],
}

/// RFC 5464 §4.2.
pub(super) async fn get(
    session: &mut Session,
    tag: &Tag,
    mailbox: &MailboxArg,
    question: &MetadataRequest<'_>,
) -> Result<Reply, Failure> {
    if !question.entries.iter().all(has_scope) {
        return Err(no_scope());
    }
    let (asker, wire, reports) = session.reporting(tag)?;
    let (all, memory) = wire.reporting(reports, Box::pin(read(asker, mailbox))).await?;
    let MetadataAnswer { entries, left_out } = question.answer(&all);
    drop(all);
    if !entries.is_empty() {
        session.wire.say(Untagged::Metadata { mailbox: mailbox.clone(), entries });
    }
    // The client may read a long answer slowly.
    session.wire.relieve().await?;
    drop(memory);
    // RFC 5464 §4.2.1
    Ok(match left_out {
        Some(octets) => DONE.with(Code::Metadata(MetadataCode::LongEntries(octets))),
        None => DONE,
    })
}

/// All annotations of a mailbox or of the server that the user may read.
async fn read(asker: Asker<'_>, mailbox: &MailboxArg) -> Result<(Annotations, AnnotationMemory), Failure> {
    let mut memory = AnnotationMemory::default();
    loop {
        let all = match find(asker, mailbox, Act::ReadAnnotations).await? {
            None => of_server(asker.service, asker.login.id).await?,
            Some(found) => of_mailbox(asker, &found).await?,
        };
        if let Some(all) = memory.hold(asker, all).await? {
            return Ok((all, memory));
        }
    }
}

/// RFC 5464 §4.3: all of it, or nothing.
pub(super) async fn set(
    session: &mut Session,
    tag: &Tag,
    mailbox: &MailboxArg,
    entries: &[Annotation],
) -> Result<Reply, Failure> {
    entries.iter().try_for_each(|entry| check_name(&entry.name))?;
    let (asker, wire, reports) = session.reporting(tag)?;
    let stored = wire.reporting(reports, Box::pin(store(asker, mailbox, entries))).await?;
    let Some(StoredMetadata { of, changes, new_use }) = stored else { return Ok(DONE) };
    let notified = session.notify.as_mut().and_then(|notify| notify.annotations());
    for known in session.annotations.as_deref_mut().into_iter().chain(notified) {
        changes.iter().for_each(|(name, value)| known.note_own_change(of, name, value.as_ref()));
        if let Some(new_use) = new_use {
            known.note_own_change(of, special_use::ENTRY, new_use.map(special_use::value).as_ref());
        }
    }
    Ok(DONE)
}

/// The changes of a SETMETADATA in the user's own account.
struct StoredMetadata<'n> {
    of: Annotated,
    changes: Vec<(&'n str, Option<Bytes>)>,
    new_use: Option<Option<SpecialUse>>,
}

/// Stores annotations of a mailbox or of the server. Returns the changes if they are the user's
/// own.
async fn store<'n>(
    asker: Asker<'_>,
    mailbox: &MailboxArg,
    entries: &'n [Annotation],
) -> Result<Option<StoredMetadata<'n>>, Failure> {
    let (service, account) = (asker.service, asker.login.id);
    let is_shared = |entry: &Annotation| starts_with(&entry.name, "/shared/");
    let act = match entries.iter().any(is_shared) {
        true => Act::WriteAnnotations,
        false => Act::ReadAnnotations,
    };
    let target = find(asker, mailbox, act).await?;
    if let Some(found) = &target
        && found.resolved.others.is_some()
    {
        set_of_others(asker, found, entries).await?;
        return Ok(None);
    }
    let target = target.map(|found| found.entry);
    let is_use = |entry: &&Annotation| target.is_some() && is(&entry.name, special_use::ENTRY);
    let new_use = entries.iter().rfind(is_use);
    let new_use = new_use.map(|entry| parse_use(entry.value.as_ref())).transpose()?;
    if target.is_none() && entries.iter().any(|entry| starts_with(&entry.name, "/shared/")) {
        // RFC 5464 §3.3
        let text = "Only the administrator sets shared annotations of the server";
        return Err(Reply::no(Code::NoPerm, text).into());
    }
    if new_use.flatten().is_some() && target.as_ref().is_some_and(|entry| entry.name.is_inbox()) {
        return Err(Reply::no(Code::UseAttr, "INBOX has no special use").into());
    }
    let changes: Vec<_> = entries.iter().filter(|entry| !is_use(entry)).collect();
    let changes: Vec<(&str, Option<Bytes>)> =
        changes.iter().map(|entry| (entry.name.as_str(), entry.value.clone())).collect();
    let of = target.as_ref().map_or(Annotated::Server, |entry| Annotated::Mailbox(entry.id));
    let change = MetadataChange { account, of, values: changes.clone() };
    let undo = change.make(service).await?;
    if let Some(entry) = &target {
        if let Some(new_use) = new_use {
            let set = set_special_use(service, account, entry.id, new_use).await;
            undo.unless(set, service).await?;
        }
        forget_if_deleted(service, account, entry.id).await?;
    }
    service.annotated.note_change(account);
    Ok(Some(StoredMetadata { of, changes, new_use }))
}

/// Sets annotations of another account's mailbox. `/shared` ones are the mailbox's. `/private` ones
/// are the user's, and are kept in the user's account.
async fn set_of_others(
    asker: Asker<'_>,
    found: &ExistingMailbox,
    entries: &[Annotation],
) -> Result<(), Failure> {
    if entries.iter().any(|entry| is(&entry.name, special_use::ENTRY)) {
        return Err(Reply::no(Code::UseAttr, "Mailboxes of others have no special use").into());
    }
    if entries.iter().any(|entry| is(&entry.name, SCRIPT_ENTRY)) {
        // RFC 6785: the script acts as the owner. It may send mail, and file messages into the
        // owner's other mailboxes. No right that is for this mailbox alone gives that.
        found.permit(Act::Administer)?;
    }
    let (service, account) = (asker.service, asker.login.id);
    let of = Annotated::Mailbox(found.entry.id);
    let changes = |scope| {
        let entries = entries.iter().filter(move |entry| starts_with(&entry.name, scope));
        entries.map(|entry| (entry.name.as_str(), entry.value.clone())).collect::<Vec<_>>()
    };
    let private = MetadataChange { account, of, values: changes("/private/") };
    let shared = MetadataChange { account: found.resolved.owner, of, values: changes("/shared/") };
    // The user's own annotations are written first: no other user has seen them if they must be
    // undone.
    let undo = private.make(service).await?;
    undo.unless(shared.make(service).await.map(drop), service).await?;
    forget_if_deleted(service, found.resolved.owner, found.entry.id).await?;
    service.annotated.note_change(account);
    service.annotated.note_change(found.resolved.owner);
    Ok(())
}

/// A change of the annotations of one mailbox, or of the server, in one account.
struct MetadataChange<'n> {
    account: AccountId,
    of: Annotated,
    values: Vec<(&'n str, Option<Bytes>)>,
}

impl<'n> MetadataChange<'n> {
    /// Makes it, and answers with the change that takes it back. RFC 5464 §4.3: a command sets
    /// all, or nothing, also where it changes more than one record.
    async fn make(self, service: &ImapService) -> Result<Self, Failure> {
        let Self { account, of, values } = self;
        if values.is_empty() {
            return Ok(Self { account, of, values });
        }
        let before = service.directory.metadata().get(account, of).await?;
        service.directory.metadata().set(account, of, &values).await.map_err(refused)?;
        let values = values.into_iter().map(|(name, _)| (name, before.get(name).cloned())).collect();
        Ok(Self { account, of, values })
    }

    /// Takes it back if the rest of its command failed.
    async fn unless(self, rest: Result<(), Failure>, service: &ImapService) -> Result<(), Failure> {
        if rest.is_err() && !self.values.is_empty() {
            let undone = service.directory.metadata().set(self.account, self.of, &self.values).await;
            if let Err(error) = undone {
                tracing::warn!(%error, "a failed SETMETADATA could not be undone completely");
            }
        }
        rest
    }
}

/// The annotations of some mailboxes of a LIST, in their order: RFC 9590 §3.
pub(super) struct ListedMetadata {
    /// `None` if they are long together. Then those of each mailbox are read when they are sent. A
    /// client that reads slowly makes its session hold no more.
    all: Option<std::vec::IntoIter<Annotations>>,
}

impl ListedMetadata {
    pub(super) async fn read(
        (session, tag): (&mut Session, &Tag),
        visible: &Visible,
        entries: &[&MailboxEntry],
    ) -> Result<Self, Failure> {
        let (asker, wire, reports) = session.reporting(tag)?;
        let all = wire.reporting(reports, Box::pin(of_mailboxes(asker, visible, entries))).await?;
        Ok(Self { all: all.map(Vec::into_iter) })
    }

    /// The annotations of the next mailbox, which is this one, and memory for what is sent of them.
    pub(super) async fn next(
        &mut self,
        (session, tag): (&mut Session, &Tag),
        visible: &Visible,
        entry: &MailboxEntry,
    ) -> Result<(Annotations, AnnotationMemory), Failure> {
        if let Some(annotations) = self.all.as_mut().and_then(Iterator::next) {
            return Ok((annotations, AnnotationMemory::default()));
        }
        let (asker, wire, reports) = session.reporting(tag)?;
        wire.reporting(reports, Box::pin(of_listed(asker, visible, entry))).await
    }
}

/// The annotations of mailboxes, in their order; `None` if they are over [`LISTED_BYTES_MAX`].
async fn of_mailboxes(
    asker: Asker<'_>,
    visible: &Visible,
    entries: &[&MailboxEntry],
) -> Result<Option<Vec<Annotations>>, Failure> {
    let (mut all, mut bytes) = (Vec::with_capacity(entries.len()), 0);
    for some in entries.chunks(READ_AT_ONCE) {
        let ids: Vec<MailboxId> = some.iter().map(|entry| entry.id).collect();
        let found = asker.service.directory.metadata().get_many(asker.login.id, &ids).await?;
        for (mut annotations, entry) in found.into_iter().zip(some) {
            complete(asker, visible, &mut annotations, entry).await?;
            bytes += annotations.octets() as u64;
            all.push(annotations);
        }
        if bytes > LISTED_BYTES_MAX {
            return Ok(None);
        }
    }
    Ok(Some(all))
}

/// The annotations of one mailbox of a LIST.
async fn of_listed(
    asker: Asker<'_>,
    visible: &Visible,
    entry: &MailboxEntry,
) -> Result<(Annotations, AnnotationMemory), Failure> {
    let (of, mut memory) = (Annotated::Mailbox(entry.id), AnnotationMemory::default());
    loop {
        let mut annotations = asker.service.directory.metadata().get(asker.login.id, of).await?;
        complete(asker, visible, &mut annotations, entry).await?;
        if let Some(annotations) = memory.hold(asker, annotations).await? {
            return Ok((annotations, memory));
        }
    }
}

/// Adds the entries that the user's own record of a mailbox does not have.
async fn complete(
    asker: Asker<'_>,
    visible: &Visible,
    annotations: &mut Annotations,
    entry: &MailboxEntry,
) -> Result<(), Failure> {
    match visible.owner_of(entry.id) {
        None => compute(annotations, entry),
        Some(owner) => add_shared(asker, annotations, owner.account.id, entry.id).await?,
    }
    Ok(())
}

/// Adds the shared entries of another account's mailbox to the user's own entries.
async fn add_shared(
    asker: Asker<'_>,
    annotations: &mut Annotations,
    owner: AccountId,
    mailbox: MailboxId,
) -> Result<(), Failure> {
    let all = asker.service.directory.metadata().get(owner, Annotated::Mailbox(mailbox)).await?;
    let is_shared = |name: &str| name.get(..8).is_some_and(|start| start.eq_ignore_ascii_case("/shared/"));
    for entry in all.iter().filter(|entry| is_shared(&entry.name)) {
        annotations.set(&entry.name, Some(entry.value.clone()));
    }
    Ok(())
}

/// RFC 9590 §3: the response for a mailbox in a LIST.
pub(super) fn report(session: &mut Session, entry: &MailboxEntry, all: &Annotations, wanted: &[EntryName]) {
    let question = MetadataRequest { max_size: None, depth: Depth::Zero, entries: wanted };
    let entries = question.answer(all).entries;
    session.wire.say(Untagged::Metadata { mailbox: MailboxArg::from(&entry.name), entries });
}

/// Whether LIST may request these entries.
pub(super) fn check_wanted(wanted: &[EntryName]) -> Result<(), Failure> {
    if wanted.iter().all(has_scope) { Ok(()) } else { Err(no_scope()) }
}

/// The mailbox of that name; `None` is the server.
async fn find(asker: Asker<'_>, mailbox: &MailboxArg, act: Act) -> Result<Option<ExistingMailbox>, Failure> {
    if mailbox.text() == Ok("") {
        return Ok(None);
    }
    Ok(Some(asker.find(mailbox, act).await?))
}

async fn of_server(service: &ImapService, account: AccountId) -> Result<Annotations, Failure> {
    let mut all = service.directory.metadata().get(account, Annotated::Server).await?;
    let options = &service.options;
    for (name, text) in [(SERVER_COMMENT, &options.comment), (SERVER_ADMIN, &options.admin)] {
        all.set(name, text.as_ref().map(|text| Bytes::copy_from_slice(text.as_bytes())));
    }
    Ok(all)
}

async fn of_mailbox(asker: Asker<'_>, found: &ExistingMailbox) -> Result<Annotations, Failure> {
    let of = Annotated::Mailbox(found.entry.id);
    let mut all = asker.service.directory.metadata().get(asker.login.id, of).await?;
    match found.resolved.others.is_some() {
        true => add_shared(asker, &mut all, found.resolved.owner, found.entry.id).await?,
        false => compute(&mut all, &found.entry),
    }
    Ok(all)
}

/// Adds the entries that follow from the mailbox itself.
fn compute(annotations: &mut Annotations, entry: &MailboxEntry) {
    annotations.set(special_use::ENTRY, entry.special_use.map(special_use::value));
}

/// The answer to a GETMETADATA.
struct MetadataAnswer {
    entries: Vec<Annotation>,
    /// Octets of the longest value that MAXSIZE left out.
    left_out: Option<u64>,
}

impl MetadataRequest<'_> {
    /// Each entry once. An entry requested by its name that does not exist is NIL, unless DEPTH
    /// requests what exists (RFC 5464 §4.2.2: "if it exists").
    fn answer(&self, all: &Annotations) -> MetadataAnswer {
        let mut answer = MetadataAnswer { entries: Vec::new(), left_out: None };
        let mut reported = HashSet::new();
        let mut report = |name: EntryName, value: Option<&Bytes>| {
            if !reported.insert(name.as_str().to_ascii_lowercase()) {
                return;
            }
            let octets = value.map_or(0, |value| value.len() as u64);
            if self.max_size.is_some_and(|most| octets > most) {
                answer.left_out = answer.left_out.max(Some(octets));
            } else {
                answer.entries.push(Annotation { name, value: value.cloned() });
            }
        };
        // What is below one wanted name may be below 255 others: it is looked at until it is found.
        let is_deep = self.depth != Depth::Zero;
        let mut left: Vec<&Entry> = all.iter().filter(|_| is_deep).collect();
        for wanted in self.entries {
            let value = all.get(wanted.as_str());
            if value.is_some() || self.depth == Depth::Zero {
                report(wanted.clone(), value);
            }
            let below = left.extract_if(.., |entry| self.depth.reaches(wanted.as_str(), &entry.name));
            for entry in below {
                if let Some(name) = EntryName::new(&entry.name) {
                    report(name, Some(&entry.value));
                }
            }
        }
        answer
    }
}

/// The depth to which DEPTH looks below a name.
trait Reach {
    /// Whether an entry below `top` is within reach.
    fn reaches(self, top: &str, entry: &str) -> bool;
}

impl Reach for Depth {
    fn reaches(self, top: &str, entry: &str) -> bool {
        let Some((start, below)) = entry.split_at_checked(top.len()) else { return false };
        let Some(below) = below.strip_prefix('/') else { return false };
        start.eq_ignore_ascii_case(top)
            && match self {
                Self::Zero => false,
                Self::One => !below.contains('/'),
                Self::Infinity => true,
            }
    }
}

fn is(name: &EntryName, other: &str) -> bool {
    name.as_str().eq_ignore_ascii_case(other)
}

fn starts_with(name: &EntryName, start: &str) -> bool {
    name.as_str().get(..start.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(start))
}

/// RFC 5464 §3.2: the first component is the scope. A requested name may
/// be a scope alone, with a DEPTH.
fn has_scope(name: &EntryName) -> bool {
    ["/private", "/shared"].into_iter().any(|scope| is(name, scope))
        || ["/private/", "/shared/"].into_iter().any(|scope| starts_with(name, scope))
}

fn no_scope() -> Failure {
    Reply::bad("The name of an annotation begins with /private/ or /shared/").into()
}

/// RFC 5464 §3.2: two components, and four of a vendor's.
fn check_name(name: &EntryName) -> Result<(), Failure> {
    let mut components = name.as_str().split('/').skip(1);
    let is_vendor = components.clone().nth(1).is_some_and(|second| second.eq_ignore_ascii_case("vendor"));
    if !has_scope(name) || components.nth(1).is_none() {
        return Err(no_scope());
    }
    if is_vendor && components.nth(1).is_none() {
        return Err(Reply::bad("/vendor/ must be followed by a vendor, and then the name of an entry").into());
    }
    Ok(())
}

/// The special use that a value names: RFC 6154 §5.4.
fn parse_use(value: Option<&Bytes>) -> Result<Option<SpecialUse>, Failure> {
    let refused = |text| Failure::from(Reply::no(Code::UseAttr, text));
    let Some(value) = value else { return Ok(None) };
    let text = str::from_utf8(value).map_err(|_| refused("A special use is text"))?;
    let mut uses = text.split_ascii_whitespace();
    let (Some(first), None) = (uses.next(), uses.next()) else {
        return if text.trim_ascii().is_empty() {
            Ok(None)
        } else {
            Err(refused("A mailbox has at most one special use"))
        };
    };
    let known = first.strip_prefix('\\').and_then(Use::known);
    let stored = known.as_ref().and_then(special_use::stored);
    stored.map(Some).ok_or_else(|| refused("This special use is not supported"))
}

async fn set_special_use(
    service: &ImapService,
    account: AccountId,
    mailbox: MailboxId,
    special_use: Option<SpecialUse>,
) -> Result<(), Failure> {
    service
        .store
        .change_list(account, |list, draft| {
            let entry = list.entries.iter().find(|entry| entry.id == mailbox);
            let entry = entry.ok_or(StoreError::NoSuchName)?;
            if entry.special_use != special_use {
                draft.upsert(MailboxEntry { special_use, ..entry.clone() });
            }
            Ok(())
        })
        .await?;
    service.directory.metadata().note_change(account).await?;
    Ok(())
}

/// A mailbox that was deleted meanwhile: its id is never used again, so nobody would remove a
/// record that was written after its deletion.
async fn forget_if_deleted(
    service: &ImapService,
    account: AccountId,
    mailbox: MailboxId,
) -> Result<(), Failure> {
    let list = service.store.list(account).await?;
    if list.entries.iter().any(|entry| entry.id == mailbox) {
        return Ok(());
    }
    service.directory.metadata().remove(account, mailbox).await?;
    Err(StoreError::NoSuchName.into())
}

fn refused(error: AnnotationError) -> Failure {
    match error {
        AnnotationError::TooLong => too_long().into(),
        AnnotationError::TooMany => too_many().into(),
        AnnotationError::Directory(error) => error.into(),
    }
}

/// RFC 5464 §4.3.
pub(crate) fn too_long() -> Reply {
    let code = Code::Metadata(MetadataCode::MaxSize(ANNOTATION_BYTES_MAX as u64));
    Reply::no(code, "The value is too long")
}

/// RFC 5464 §4.3.
pub(crate) fn too_many() -> Reply {
    let text = "There are too many annotations, or they are too long together: remove some first";
    Reply::no(Code::Metadata(MetadataCode::TooMany), text)
}

#[cfg(test)]
mod tests {
    use posthaste_directory::NewAccount;
    use posthaste_mail_model::{MailboxName, Secret};

    use super::*;
    use crate::size_tests::service;

    /// Of twenty mailboxes with the longest annotations, a session held 4 MiB while its client read
    /// nothing.
    #[tokio::test]
    async fn a_list_holds_few_octets_of_annotations() {
        let service = service();
        let password = Secret::new("correct horse".to_owned());
        let login = service.directory.add("ana@example.org", &password, NewAccount::default()).await.unwrap();
        let asker = Asker { service: &service, login: &login };
        let mut made = Vec::new();
        for n in 0..20 {
            let name = MailboxName::new(&format!("m{n}")).unwrap();
            made.push(service.store.create(login.id, &name, None).await.unwrap());
        }
        let (entries, visible): (Vec<&MailboxEntry>, _) = (made.iter().collect(), Visible::default());
        let set = async |entry: &MailboxEntry, octets: usize| {
            let changes = [("/private/comment", Some(Bytes::from(vec![b'x'; octets])))];
            let of = Annotated::Mailbox(entry.id);
            service.directory.metadata().set(login.id, of, &changes).await.unwrap();
        };
        for &entry in &entries {
            set(entry, 1000).await;
        }
        let held = async || of_mailboxes(asker, &visible, &entries).await.unwrap().map(|all| all.len());
        assert_eq!(held().await, Some(20));
        for n in [0, 19] {
            set(entries[n], ANNOTATION_BYTES_MAX).await;
        }
        assert_eq!(held().await, None);
        let (of_one, _) = of_listed(asker, &visible, entries[19]).await.unwrap();
        assert_eq!(of_one.get("/private/comment").unwrap().len(), ANNOTATION_BYTES_MAX);
    }
}
