//! LIST in its basic and extended forms: RFC 9051 §6.3.9, RFC 5258, RFC 5819 (STATUS), RFC 6154
//! (SPECIAL-USE), RFC 8440 (MYRIGHTS), RFC 9590 (METADATA).
//!
//! Names come from three sources: mailboxes, levels above mailboxes that are not mailboxes
//! themselves, and subscriptions, whose names need not exist. One sorted pass gathers them. Then
//! each name is checked against the selection options.

use std::collections::BTreeMap;
use std::sync::Arc;

use posthaste_imap_codec::command::{ListArgs, ListReturn, ListSelection, ListSyntax};
use posthaste_imap_codec::response::{Code, ListAttribute, ListData, Untagged};
use posthaste_imap_codec::{AclData, ListMatcher, ListPattern, MailboxArg, Tag};
use posthaste_mail_model::{AccountId, MailboxName, Rights, SEPARATOR};
use posthaste_net::BytePermit;
use posthaste_sharing::Visible;
use posthaste_store::{MailboxEntry, MailboxList, StoreError};

use super::metadata::ListedMetadata;
use super::{DONE, metadata, status};
use crate::freed::free;
use crate::heavy::{Pace, SLICE_STEPS};
use crate::list_memory::{self, Levels, NameBytes};
use crate::listed::{self, NameAttributes, data_of};
use crate::referred;
use crate::reply::{Failure, Reply};
use crate::resolve::{LEVELS_MAX, ShownList};
use crate::rights::Act;
use crate::seen;
use crate::service::ImapService;
use crate::session::Session;

/// Mailboxes whose heads are read at once for RETURN (STATUS), and annotations for METADATA.
const STATUS_BATCH: usize = 64;

/// The arguments of an ordinary LIST.
pub(super) fn basic(reference: MailboxArg, pattern: ListPattern) -> ListArgs {
    ListArgs {
        syntax: ListSyntax::Basic,
        selection: ListSelection::default(),
        reference,
        patterns: vec![pattern],
        returns: ListReturn::default(),
    }
}

pub(super) async fn run(session: &mut Session, tag: &Tag, args: &ListArgs) -> Result<Reply, Failure> {
    if is_separator_query(args) {
        session.wire.out().extend_from_slice(b"* LIST (\\Noselect) \"/\" \"\"\r\n");
        return Ok(DONE);
    }
    run_as(session, tag, args, Untagged::List).await
}

/// Lists with this response for each name.
pub(super) async fn run_as(
    session: &mut Session,
    tag: &Tag,
    args: &ListArgs,
    shown: fn(ListData) -> Untagged,
) -> Result<Reply, Failure> {
    metadata::check_wanted(&args.returns.metadata)?;
    status::activate(session, &args.returns.status);
    let (asker, wire, reports) = session.reporting(tag)?;
    let reading = Box::pin(asker.list_for(args));
    let ShownList { list, visible, paid } = wire.reporting(reports, reading).await?;
    let selector = selected(session, tag, (list, paid), args).await?;
    let mut pace = Pace::default();
    let mut batch = Vec::new();
    for (name, known) in &selector.names {
        pace.worked(listed::line_steps(name)).await;
        let Some(found) = selector.line(name, known, args) else { continue };
        let returns = &args.returns;
        if returns.status.is_empty() && returns.metadata.is_empty() && !returns.my_rights {
            session.wire.say(shown(found.data));
            session.wire.relieve().await?;
            continue;
        }
        batch.push(found);
        if batch.len() >= STATUS_BATCH {
            report_with_more((&mut *session, tag), &visible, &batch, returns, &mut pace).await?;
            batch.clear();
        }
    }
    report_with_more((&mut *session, tag), &visible, &batch, &args.returns, &mut pace).await?;
    Ok(DONE)
}

/// Finds the names of the answer. Little work is done at once. More work runs on another thread, in
/// pieces, for as long as the client stays connected.
async fn selected(
    session: &mut Session,
    tag: &Tag,
    (list, paid): (Arc<MailboxList>, Option<BytePermit>),
    args: &ListArgs,
) -> Result<Selector, Failure> {
    let patterns = Patterns::of(args);
    let want = args.selection;
    let levels = |is_shown| if is_shown && !patterns.has_all { Levels::Shown } else { Levels::LeftOut };
    let (entries, subscribed) = (Some(levels(true)), levels(want.subscribed && want.recursive_match));
    let names = CountedNames { list: &list, entries, subscribed };
    let names_paid = pay(session, tag, paid.as_ref(), names).await?;
    let paid = [paid, names_paid];
    // RFC 5258 §3.1: REMOTE.
    let remote = if args.selection.remote { referred::names(session.login()?) } else { Vec::new() };
    if patterns.steps(&list) <= SLICE_STEPS {
        let mut selector = Selector::new(list, args.selection, patterns, &remote)?;
        while selector.step()?.is_some() {}
        selector.paid = paid;
        return Ok(selector);
    }
    let (service, account) = (Arc::clone(&session.service), session.login()?.id);
    let selection = args.selection;
    let work = async {
        let made = service.heavy.run(account, move || Selector::new(list, selection, patterns, &remote));
        in_pieces(&service, account, made.await??).await
    };
    let reports = service.reports(tag);
    let mut selector = Box::pin(session.wire.while_reporting(reports, work)).await??;
    selector.paid = paid;
    Ok(selector)
}

/// The names that a command collects, and whether it shows the levels above them.
pub(super) struct CountedNames<'l> {
    pub(super) list: &'l MailboxList,
    /// `None`: the mailboxes are not collected.
    pub(super) entries: Option<Levels>,
    pub(super) subscribed: Levels,
}

/// Waits for memory for names, beside what the command holds already.
pub(super) async fn pay(
    session: &mut Session,
    tag: &Tag,
    held: Option<&BytePermit>,
    names: CountedNames<'_>,
) -> Result<Option<BytePermit>, Failure> {
    let CountedNames { list, entries, subscribed } = names;
    let (asker, wire, reports) = session.reporting(tag)?;
    let paying = async {
        let (mut bytes, mut pace) = (NameBytes::default(), Pace::default());
        if let Some(levels) = entries {
            for entry in &list.entries {
                pace.worked(bytes.add(&entry.name, levels)).await;
            }
        }
        for name in &list.subscribed {
            pace.worked(bytes.add(name, subscribed)).await;
        }
        list_memory::reserve(asker.service, asker.login.id, held, bytes.all(DERIVED_MAX)).await
    };
    wire.while_reporting(reports, Box::pin(paying)).await?
}

/// Work that is done in steps.
pub(super) trait Stepwise: Send + 'static {
    /// Does one step of the work and returns its size. `None` once all is done.
    fn step(&mut self) -> Result<Option<u64>, Failure>;
}

/// Does work on another thread, in pieces. Between them, other accounts may use the thread.
pub(super) async fn in_pieces<W: Stepwise>(
    service: &ImapService,
    account: AccountId,
    mut work: W,
) -> Result<W, Failure> {
    loop {
        let piece = move || {
            let mut steps = 0;
            while steps < HEAVY_STEPS {
                match work.step()? {
                    Some(more) => steps += more,
                    None => return Ok((work, true)),
                }
            }
            Ok::<_, Failure>((work, false))
        };
        let is_done;
        (work, is_done) = service.heavy.run(account, piece).await??;
        if is_done {
            return Ok(work);
        }
    }
}

/// `LIST "" ""`: RFC 9051 §6.3.9, basic syntax only.
fn is_separator_query(args: &ListArgs) -> bool {
    args.syntax == ListSyntax::Basic && args.patterns.iter().all(|pattern| pattern.text() == Ok(""))
}

/// RFC 8440, RFC 5819 and RFC 9590: MYRIGHTS, STATUS and METADATA after the LIST of each mailbox
/// that can be selected.
async fn report_with_more(
    (session, tag): (&mut Session, &Tag),
    visible: &Visible,
    batch: &[ListLine<'_>],
    returns: &ListReturn,
    pace: &mut Pace,
) -> Result<(), Failure> {
    let rights = |entry: &MailboxEntry| match visible.owner_of(entry.id) {
        Some(owner) => owner.rights(entry.id),
        None => Rights::ALL,
    };
    let is_readable = |entry: &&MailboxEntry| Act::Read.is_permitted_with(rights(entry));
    let is_annotated = |entry: &&MailboxEntry| Act::ReadAnnotations.is_permitted_with(rights(entry));
    let entries = || batch.iter().filter_map(|one| one.entry);
    let mut heads = Vec::new();
    if !returns.status.is_empty() {
        let ids: Vec<_> = entries().filter(is_readable).map(|entry| entry.id).collect();
        heads = status::heads(session, tag, &ids).await?;
    }
    let mut listed = None;
    if !returns.metadata.is_empty() {
        let entries: Vec<_> = entries().filter(is_annotated).collect();
        listed = Some(ListedMetadata::read((&mut *session, tag), visible, &entries).await?);
    }
    let mut heads = heads.into_iter();
    for one in batch {
        let mut memory = None;
        session.wire.say(Untagged::List(one.data.clone()));
        if let Some(entry) = one.entry.filter(|_| returns.my_rights) {
            let mailbox = MailboxArg::from(&entry.name);
            session.wire.say(Untagged::Acl(AclData::MyRights { mailbox, rights: rights(entry) }));
        }
        if let Some(entry) = one.entry.filter(is_readable)
            && let Some(Some(head)) = heads.next()
        {
            pace.worked(status::steps(&head, &returns.status)).await;
            let owner = visible.owner_of(entry.id).map(|owner| &owner.account);
            let reading = seen::reading(session.login()?, owner, entry.id);
            match status::report(session, tag, (entry, reading), &head, &returns.status).await {
                // RFC 5819 §2: a STATUS response may be left out. The client gets the list. The
                // owner may have deleted the mailbox meanwhile.
                Ok(()) | Err(Failure::Store(StoreError::TooManyOpen | StoreError::NoMailbox(_))) => {}
                Err(error) => return Err(error),
            }
        }
        if let Some(entry) = one.entry.filter(is_annotated)
            && let Some(listed) = &mut listed
        {
            // The parser takes `LIST_ITEMS_MAX` entries: less than a slice.
            pace.worked(returns.metadata.len() as u64 * ANNOTATION_STEPS).await;
            let (annotations, held) = listed.next((&mut *session, tag), visible, entry).await?;
            metadata::report(session, entry, &annotations, &returns.metadata);
            memory = Some(held);
        }
        session.wire.relieve().await?;
        drop(memory);
    }
    Ok(())
}

/// One line of the answer.
struct ListLine<'l> {
    data: ListData,
    /// The mailbox whose STATUS or METADATA the client requested.
    entry: Option<&'l MailboxEntry>,
}

/// The facts about a name.
#[derive(Default)]
struct NameFacts {
    /// The name's place in the list, if it is a mailbox.
    entry: Option<usize>,
    subscribed: bool,
    /// Another server has it: RFC 2193.
    remote: bool,
    /// Below it are mailboxes.
    has_children: bool,
    /// The name is a level above a subscription, and so are all levels above it.
    above_subscription: bool,
    /// The name matches a pattern.
    matches: bool,
    /// The name matches the selection options.
    selected: bool,
    /// A name below it matches the selection options.
    selected_below: bool,
    /// A name below it matches them but matches no pattern. The answer shows that name only by this
    /// level.
    hidden_below: bool,
}

/// The patterns of a LIST, and how many machine words of matching state each character of a name
/// costs.
struct Patterns {
    matchers: Vec<ListMatcher>,
    words: u64,
    /// One of them matches every name.
    has_all: bool,
}

impl Patterns {
    fn of(args: &ListArgs) -> Self {
        // A reference that does not decode is above no name, so nothing matches.
        let Ok(reference) = args.reference.text() else {
            return Self { matchers: Vec::new(), words: 0, has_all: false };
        };
        // RFC 9051 §6.3.9: in the extended syntax empty patterns are ignored, whatever the
        // reference is. In the basic syntax an empty pattern never reaches this line.
        let texts = || {
            let texts = args.patterns.iter().filter_map(|pattern| pattern.text().ok());
            texts.filter(|pattern| !pattern.is_empty())
        };
        Self {
            matchers: texts().map(|pattern| ListMatcher::new(reference, pattern)).collect(),
            words: texts().map(|pattern| ((reference.len() + pattern.len()) / 64 + 1) as u64).sum(),
            has_all: reference.is_empty() && texts().any(|pattern| pattern == "*"),
        }
    }

    /// An upper bound of the steps that all names of a list take. It is close for few names and too
    /// high for many.
    fn steps(&self, list: &MailboxList) -> u64 {
        let count = list.entries.len() + list.subscribed.len();
        if count > INLINE_NAMES_MAX {
            return u64::MAX;
        }
        let names = list.entries.iter().map(|entry| &entry.name).chain(&list.subscribed);
        names.map(|name| self.name_steps(name) * (1 + name.as_str().matches(SEPARATOR).count() as u64)).sum()
    }

    fn name_steps(&self, name: &MailboxName) -> u64 {
        NAME_STEPS + name.as_str().len() as u64 * self.words
    }
}

/// LIST handles up to this many names on its own thread, and more of them on another one.
pub(super) const INLINE_NAMES_MAX: usize = 1000;
/// Steps that a name takes in addition to pattern matching: it is copied and sorted.
pub(super) const NAME_STEPS: u64 = 500;
/// Steps of comparing a requested entry with the annotations of a mailbox, which has 100 at most.
const ANNOTATION_STEPS: u64 = 5000;
/// Steps of heavy work between two pauses: some tens of milliseconds.
pub(super) const HEAVY_STEPS: u64 = 40_000_000;
/// The most levels that LIST adds: levels above mailboxes or subscriptions that are not mailboxes
/// themselves. Ordinary accounts have a few. 10,000 names of 32 levels without a common parent
/// would have 310,000, and each takes up to 1 KiB.
pub(super) const DERIVED_MAX: usize = 50_000;
// Levels of mailboxes of others leave room for those of the user.
const _: () = assert!(LEVELS_MAX < DERIVED_MAX);

/// Bytes of a name at most, as far as it matters for the thread that frees them.
pub(super) const NAME_BYTES: usize = 1024;

/// Finds out which names the answer has, in steps.
struct Selector {
    list: Arc<MailboxList>,
    want: ListSelection,
    patterns: Patterns,
    /// Names with at least one entry in `Known`, in order.
    names: Vec<(MailboxName, NameFacts)>,
    /// The next name to be matched. After the last one: the next name whose parents are marked.
    at: usize,
    /// Memory for the list and for the names.
    paid: [Option<BytePermit>; 2],
}

impl Selector {
    fn new(
        list: Arc<MailboxList>,
        want: ListSelection,
        patterns: Patterns,
        remote: &[MailboxName],
    ) -> Result<Self, Failure> {
        let names = known_names(&list, want, patterns.has_all, remote)?.into_iter().collect();
        Ok(Self { list, want, patterns, names, at: 0, paid: [None, None] })
    }

    fn next_step(&mut self) -> Option<u64> {
        let count = self.names.len();
        let at = self.at;
        self.at += 1;
        if at < count {
            let (name, known) = self.names.get_mut(at)?;
            known.matches = self.patterns.matchers.iter_mut().any(|matcher| matcher.matches(name.as_str()));
            known.selected = is_selected(&self.list, known, self.want);
            return Some(self.patterns.name_steps(name));
        }
        let (name, known) = self.names.get(at - count)?;
        let (selected, matches) = (known.selected, known.matches);
        let mut steps = 1;
        let mut above = if selected { name.parent() } else { None };
        while let Some(parent) = above {
            steps += NAME_STEPS;
            if let Ok(place) = self.names.binary_search_by(|(name, _)| name.cmp(&parent))
                && let Some((_, known)) = self.names.get_mut(place)
            {
                if known.selected_below && (known.hidden_below || matches) {
                    // The levels above this one are marked already.
                    break;
                }
                known.selected_below = true;
                known.hidden_below |= !matches;
            }
            above = parent.parent();
        }
        Some(steps)
    }

    /// The line of a name that matches a pattern, if it is selected or represents names below it:
    /// RFC 5258 §3.3. A level that is not a mailbox is shown only in place of mailboxes that match
    /// no pattern themselves. So `%` shows it and `*` does not, as in the examples of
    /// RFC 3501 §6.3.4.
    fn line(&self, name: &MailboxName, known: &NameFacts, args: &ListArgs) -> Option<ListLine<'_>> {
        if !known.matches {
            return None;
        }
        let want = args.selection;
        let by_option = want.subscribed || want.special_use;
        // RFC 5258 §3.5: with RECURSIVEMATCH, which options select what is below.
        let tells_below = want.recursive_match && known.selected_below;
        let child_info = ListSelection {
            subscribed: tells_below && want.subscribed,
            special_use: tells_below && want.special_use,
            ..ListSelection::default()
        };
        let subscriptions = args.returns.subscribed || want.subscribed;
        // RFC 9051 §9, mbx-list-sflag: only one of the two in a response. Clients of RFC 3501 know
        // only the second.
        let absent = match args.syntax {
            ListSyntax::Extended => ListAttribute::NonExistent,
            ListSyntax::Basic => ListAttribute::NoSelect,
        };
        let stands_for_others = known.hidden_below && (!by_option || want.recursive_match);
        let entry = known.entry.and_then(|place| self.list.entries.get(place));
        (known.selected || stands_for_others).then(|| ListLine {
            data: ListData { child_info, ..described(name, entry, known, subscriptions, absent) },
            // RFC 5819 §2: STATUS is sent for names that match, not for parents that are listed
            // only for their CHILDINFO.
            entry: entry.filter(|_| known.selected),
        })
    }
}

impl Drop for Selector {
    /// Fifty thousand long names take their thread up to 10 ms.
    fn drop(&mut self) {
        let bytes = self.names.len() * NAME_BYTES;
        free((std::mem::take(&mut self.names), std::mem::take(&mut self.paid)), bytes);
    }
}

impl Stepwise for Selector {
    fn step(&mut self) -> Result<Option<u64>, Failure> {
        Ok(self.next_step())
    }
}

/// Whether a name matches the selection options: RFC 5258 §3.1. Without options, every name that
/// exists matches.
fn is_selected(list: &MailboxList, known: &NameFacts, want: ListSelection) -> bool {
    if !want.subscribed && !want.special_use {
        return known.entry.is_some() || known.remote;
    }
    let entry = known.entry.and_then(|place| list.entries.get(place));
    let special = entry.is_some_and(|entry| entry.special_use.is_some());
    // RFC 2193 §5.2: mailboxes that the administrator has set count as subscribed.
    (!want.subscribed || known.subscribed || known.remote) && (!want.special_use || special)
}

/// The names that the answer may contain. Levels that are not mailboxes represent names below
/// them that match no pattern. If one pattern matches every name, such levels are left out.
fn known_names(
    list: &MailboxList,
    want: ListSelection,
    has_all: bool,
    remote: &[MailboxName],
) -> Result<BTreeMap<MailboxName, NameFacts>, Failure> {
    let mut names: BTreeMap<MailboxName, NameFacts> = BTreeMap::new();
    for (place, entry) in list.entries.iter().enumerate() {
        names.entry(entry.name.clone()).or_default().entry = Some(place);
    }
    for name in &list.subscribed {
        names.entry(name.clone()).or_default().subscribed = true;
    }
    for name in remote {
        names.entry(name.clone()).or_default().remote = true;
    }
    let most = names.len() + DERIVED_MAX;
    let missing = if has_all { MissingLevel::LeftOut } else { MissingLevel::Added };
    for name in list.entries.iter().map(|entry| &entry.name).chain(remote) {
        let above = |known: &mut NameFacts| std::mem::replace(&mut known.has_children, true);
        mark_above(&mut names, name, missing, most, above)?;
    }
    // RFC 5258 §3.5: only RECURSIVEMATCH reports levels above subscriptions.
    if want.subscribed && want.recursive_match && !has_all {
        for name in &list.subscribed {
            let above = |known: &mut NameFacts| std::mem::replace(&mut known.above_subscription, true);
            mark_above(&mut names, name, MissingLevel::Added, most, above)?;
        }
    }
    Ok(names)
}

/// The treatment of a level above a name that is not among the names.
#[derive(Clone, Copy, PartialEq, Eq)]
enum MissingLevel {
    Added,
    LeftOut,
}

/// Marks the levels above a name. It stops at the first level that is marked already, because all
/// levels above that one are marked too.
fn mark_above(
    names: &mut BTreeMap<MailboxName, NameFacts>,
    name: &MailboxName,
    missing: MissingLevel,
    most: usize,
    mark: impl Fn(&mut NameFacts) -> bool,
) -> Result<(), Failure> {
    for parent in parents(name) {
        if let Some(known) = names.get_mut(&parent) {
            if mark(known) {
                break;
            }
        } else if missing == MissingLevel::Added {
            if names.len() >= most {
                return Err(too_many_levels());
            }
            mark(names.entry(parent).or_default());
        }
    }
    Ok(())
}

/// The reply when names have more levels above them than LIST shows.
pub(super) fn too_many_levels() -> Failure {
    let text = format!(
        "LIST shows at most {DERIVED_MAX} levels that are not mailboxes; use the pattern \"*\" instead"
    );
    Reply::no(Code::Limit, text).into()
}

pub(super) fn parents(name: &MailboxName) -> impl Iterator<Item = MailboxName> {
    std::iter::successors(name.parent(), MailboxName::parent)
}

/// A name with its attributes: RFC 9051 §7.3.1. `absent` is the attribute of a level that is not a
/// mailbox.
fn described(
    name: &MailboxName,
    entry: Option<&MailboxEntry>,
    known: &NameFacts,
    subscriptions: bool,
    absent: ListAttribute,
) -> ListData {
    let traits =
        NameAttributes { has_children: known.has_children, subscribed: subscriptions && known.subscribed };
    if !known.remote || entry.is_some() {
        return listed::described(name, entry, traits, absent);
    }
    let mut data = listed::described(name, entry, traits, ListAttribute::Remote);
    // RFC 5258 §4: the mailboxes below it there are not known.
    data.attributes.retain(|attribute| *attribute != ListAttribute::HasNoChildren);
    data
}

/// Reports a mailbox under its new name, with the old name, in rev2: RFC 9051 §6.3.4, §6.3.6.
pub(super) async fn report_name(
    session: &mut Session,
    tag: &Tag,
    name: &MailboxName,
    requested: &MailboxArg,
) -> Result<(), Failure> {
    if !session.enabled.rev2 {
        return Ok(());
    }
    let (asker, wire, reports) = session.reporting(tag)?;
    let list = wire.reporting(reports, Box::pin(asker.list_with(name))).await?;
    if let Some(entry) = list.find(name) {
        session.wire.say(Untagged::List(data_of(&list, entry, requested)));
    }
    Ok(())
}
