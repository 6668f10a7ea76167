//! ESEARCH: one search in several mailboxes (RFC 7377).
//!
//! Each mailbox is opened, searched and closed. Its result is sent before the next mailbox is
//! opened. So a search through an account holds one mailbox at a time.

use std::collections::BTreeSet;
use std::sync::Arc;

use posthaste_directory::Reading;
use posthaste_imap_codec::command::{MailboxFilter, MultiSearchArgs, SearchKey};
use posthaste_imap_codec::response::{Code, Status, StatusKind};
use posthaste_imap_codec::{MailboxArg, Numbering, SequenceSet, Tag, UidSet};
use posthaste_mail_model::{MailboxId, MailboxName};
use posthaste_sharing::Namespace;
use posthaste_store::{MailboxEntry, StoreError};

use super::DONE;
use super::gather::Source;
use super::search::criteria::Question;
use super::search::job::Job;
use super::search::limit::{Budget, IsMore};
use super::search::scores::scores_in;
use super::search::weight::compile_steps;
use super::search::{EsearchItems, answered, empty_saved, filters, fuzzy, names_modseq, print_esearch};
use crate::annotate::search::names_annotations;
use crate::annotate::{self, reader_of};
use crate::gmail;
use crate::gmail::searched::{Searched, WrittenNames};
use crate::heavy::{HEAD_STEPS, Pace, SLICE_STEPS, open_steps, part_ended};
use crate::mailbox_filter::{FILTER_STEPS, Filter};
use crate::offload::Threads;
use crate::progress::{Progress, Reports};
use crate::reply::{Failure, Reply};
use crate::resolve::{Asker, ShownList};
use crate::rights::Act;
use crate::saved_search::SavedSearch;
use crate::seen;
use crate::selected::Selected;
use crate::service::ImapService;
use crate::session::{Session, logged_in};
use crate::table::names_numbers;

/// Mailboxes whose heads are read at once.
const HEADS_BATCH: usize = 256;

/// Runs an ESEARCH.
pub(super) async fn run(session: &mut Session, tag: &Tag, args: MultiSearchArgs) -> Result<Reply, Failure> {
    let returns = args.returns;
    let answer = Box::pin(execute(session, tag, args)).await;
    empty_saved(session, returns, answer)
}

async fn execute(session: &mut Session, tag: &Tag, args: MultiSearchArgs) -> Result<Reply, Failure> {
    // UPDATE is refused below, so its items are not needed.
    let MultiSearchArgs { sources, returns, charset, mut key, .. } = args;
    let mut returns = returns.unwrap_or_default();
    if session.enabled.utf8 && charset.is_some() {
        // RFC 6855 §3
        return Err(Reply::bad("After ENABLE UTF8=ACCEPT a search names no charset").into());
    }
    let uid_only = session.enabled.uid_only;
    let (asker, wire, reports) = session.reporting(tag)?;
    let by = filters::Replacing { service: asker.service, account: asker.login.id, uid_only };
    wire.reporting(reports, filters::replace(by, &mut key)).await?;
    // RFC 7377 §2.2: without IN, the selected mailbox.
    let has_selected = sources.is_empty() || sources.contains(&MailboxFilter::Selected);
    let elsewhere: Vec<Filter> = sources.iter().filter_map(Filter::of).collect();
    if has_selected && session.selected.is_none() {
        return Err(Reply::bad("No mailbox is selected").into());
    }
    if !elsewhere.is_empty() && (returns.save || names_selected(&key)) {
        // RFC 7377 §2.2: sequence numbers and `$` belong to the selected mailbox.
        return Err(Reply::bad("Sequence numbers, $ and SAVE are only for the selected mailbox").into());
    }
    if std::mem::take(&mut returns.update) {
        if session.selected.is_none() {
            // RFC 7377 §2.2
            return Err(Reply::bad("UPDATE needs a selected mailbox").into());
        }
        refuse_update(session, tag);
    }
    fuzzy::check_relevancy(returns.relevancy, &key)?;
    if names_modseq(&key) {
        // RFC 7162 §3.1
        session.enable_condstore();
    }
    let page = returns.partial.filter(|_| !(returns.min || returns.max || returns.count));
    let by_modseq = names_modseq(&key);
    let mut search = Search {
        tag,
        key: &key,
        wanted: EsearchItems { numbering: Numbering::Uid, returns, by_modseq, is_page: page.is_some() },
        now: (session.service.store.unix_ms() / 1000) as i64,
        progress: Arc::new(Progress::in_parts()),
        budget: session.message_limit().process().map(Budget::new),
    };
    let mut pace = Pace::default();
    let targets = {
        let Session { wire, service, login, selected, .. } = &mut *session;
        let asker = Asker { service, login: logged_in(login.as_deref())? };
        let from = SearchedNames { asker, selected: selected.as_ref(), elsewhere: &elsewhere, has_selected };
        wire.reporting(search.reports(asker.service), Box::pin(targets(from, &mut pace))).await?
    };
    // A key that takes more than a slice is compiled on another thread. Here it is only copied,
    // which takes a fraction of the steps.
    let each = compile_steps(&key).min(SLICE_STEPS);
    for target in targets {
        if let Some(stopped) = search.stopped(IsMore::Yes) {
            return Ok(stopped);
        }
        pace.worked(each + open_steps(target.messages)).await;
        search.one(session, &target).await?;
        session.wire.relieve().await?;
    }
    Ok(search.stopped(IsMore::No).unwrap_or(DONE))
}

/// RFC 5267 §4.3.1: without the context, the search itself succeeds.
fn refuse_update(session: &mut Session, tag: &Tag) {
    let text = "The results of ESEARCH are not kept up to date".into();
    let code = Some(Code::NoUpdate(tag.clone()));
    session.wire.say_status(Status { tag: None, kind: StatusKind::No, code, text });
}

/// A mailbox to be searched, with the name by which the user knows it.
struct SearchedMailbox {
    entry: MailboxEntry,
    is_of_others: bool,
    messages: u32,
}

/// The user's reading of a mailbox of another account, if it may still be searched: RFC 4314 §4,
/// `r`.
async fn reading(asker: Asker<'_>, mailbox: MailboxId) -> Result<Option<Reading>, Failure> {
    let Asker { service, login } = asker;
    let visible = service.shared.visible_to(login).await?;
    let owner = visible.owner_of(mailbox).filter(|_| visible.rights(mailbox).contains(Act::Read.needs()));
    Ok(seen::reading(login, owner.map(|owner| &owner.account), mailbox))
}

/// What says which mailboxes are searched.
#[derive(Clone, Copy)]
struct SearchedNames<'s> {
    asker: Asker<'s>,
    selected: Option<&'s Selected>,
    elsewhere: &'s [Filter],
    /// Whether the selected mailbox is searched.
    has_selected: bool,
}

/// The mailboxes to be searched that have messages, each once.
async fn targets(from: SearchedNames<'_>, pace: &mut Pace) -> Result<Vec<SearchedMailbox>, Failure> {
    let found = named(from).await?;
    let mut targets = Vec::with_capacity(found.len());
    for batch in found.chunks(HEADS_BATCH) {
        let ids: Vec<_> = batch.iter().map(|target| target.entry.id).collect();
        let heads = from.asker.service.store.status(&ids).await?;
        pace.worked(HEAD_STEPS * ids.len() as u64).await;
        for (target, head) in batch.iter().zip(heads) {
            let known = from.selected.filter(|known| known.mailbox.id() == target.entry.id);
            let count = match known {
                Some(known) => known.announced.exists(),
                // A mailbox that was deleted meanwhile has no messages.
                None => head.map_or(0, |head| head.counts.messages),
            };
            if count > 0 {
                targets.push(SearchedMailbox {
                    entry: target.entry.clone(),
                    is_of_others: target.is_of_others,
                    messages: count,
                });
            }
        }
    }
    Ok(targets)
}

/// The mailboxes that are named and may be searched. RFC 7377 §2.2: of others those with the
/// rights `l` and `r`, and with `r` alone if the client names them; for the rest, nothing shows.
async fn named(from: SearchedNames<'_>) -> Result<Vec<SearchedMailbox>, Failure> {
    let SearchedNames { asker, elsewhere, has_selected, .. } = from;
    let own = asker.service.store.list(asker.login.id).await?;
    let selected = from.selected.filter(|_| has_selected).map(|selected| selected.mailbox.id());
    let listed = match elsewhere.iter().any(|filter| filter.may_reach_others(&own)) {
        true => asker.list_all().await?,
        false => ShownList::of_own(Arc::clone(&own)),
    };
    let mut pace = Pace::default();
    let mut found = Vec::new();
    for entry in &listed.list.entries {
        pace.worked(FILTER_STEPS * (1 + elsewhere.len() as u64)).await;
        let rights = listed.visible.owner_of(entry.id).map(|owner| owner.rights(entry.id));
        let is_named = match rights {
            None => elsewhere.iter().any(|filter| filter.has(&entry.name, &own)),
            Some(rights) => {
                rights.contains(Act::Read.needs())
                    && elsewhere.iter().any(|filter| filter.has(&entry.name, &own))
            }
        };
        if is_named || selected == Some(entry.id) {
            found.push(SearchedMailbox { entry: entry.clone(), is_of_others: rights.is_some(), messages: 0 });
        }
    }
    let unlisted = unlisted(asker, elsewhere, &found).await?;
    found.extend(unlisted);
    if from.selected.is_some_and(|selected| selected.owner.is_some())
        && let Some(selected) = selected
        && !found.iter().any(|target| target.entry.id == selected)
    {
        found.extend(of_others(asker, selected).await?);
    }
    Ok(found)
}

/// The mailboxes of others that the client names and may read, but not list.
async fn unlisted(
    asker: Asker<'_>,
    elsewhere: &[Filter],
    found: &[SearchedMailbox],
) -> Result<Vec<SearchedMailbox>, Failure> {
    let named = elsewhere.iter().filter_map(|filter| match filter {
        Filter::Mailboxes(names) => Some(names),
        _ => None,
    });
    let theirs: Vec<&MailboxName> = named.flatten().filter(|name| Namespace::split(name).is_some()).collect();
    if theirs.is_empty() {
        return Ok(Vec::new());
    }
    let (mut unlisted, mut pace) = (Vec::new(), Pace::default());
    let mut known: BTreeSet<&MailboxName> = BTreeSet::new();
    for target in found {
        known.insert(&target.entry.name);
        pace.worked(FILTER_STEPS).await;
    }
    for name in theirs {
        pace.worked(FILTER_STEPS).await;
        if !known.insert(name) {
            continue;
        }
        let there = match asker.find_unchecked(&MailboxArg::from(name)).await {
            Ok(there) => there,
            // There is none, or another server has it (RFC 2193).
            Err(Failure::Store(StoreError::NoSuchName) | Failure::Reply(_)) => continue,
            Err(error) => return Err(error),
        };
        if there.resolved.others.is_some() && there.rights.contains(Act::Read.needs()) {
            let entry = MailboxEntry { name: name.clone(), special_use: None, ..there.entry };
            unlisted.push(SearchedMailbox { entry, is_of_others: true, messages: 0 });
        }
    }
    Ok(unlisted)
}

/// The selected mailbox, which is another account's.
async fn of_others(asker: Asker<'_>, mailbox: MailboxId) -> Result<Option<SearchedMailbox>, Failure> {
    let visible = asker.service.shared.visible_to(asker.login).await?;
    let Some(owner) = visible.owner_of(mailbox) else { return Ok(None) };
    let list = asker.service.store.list(owner.account.id).await?;
    let entry = list.entries.iter().find(|entry| entry.id == mailbox);
    let shown =
        entry.and_then(|entry| Some(MailboxEntry { name: owner.shown(&entry.name)?, ..entry.clone() }));
    Ok(shown.map(|entry| SearchedMailbox { entry, is_of_others: true, messages: 0 }))
}

/// A search that is run in one mailbox after the other.
struct Search<'s> {
    tag: &'s Tag,
    key: &'s SearchKey,
    wanted: EsearchItems,
    now: i64,
    progress: Arc<Progress>,
    /// RFC 9738: for all mailboxes together.
    budget: Option<Budget>,
}

impl Search<'_> {
    /// The reports of all mailboxes: their count never falls.
    fn reports(&self, service: &ImapService) -> Reports<'_> {
        Reports { tag: self.tag, progress: &self.progress, times: service.options.progress }
    }

    /// The reply if the limit of messages ends the search here.
    fn stopped(&self, is_more: IsMore) -> Option<Reply> {
        let budget = self.budget.as_ref().filter(|budget| is_more == IsMore::No || budget.is_spent())?;
        budget.stopped(is_more)
    }

    async fn one(&mut self, session: &mut Session, target: &SearchedMailbox) -> Result<(), Failure> {
        let entry = &target.entry;
        let reading = match target.is_of_others {
            false => None,
            true => match self.reading(session, entry.id).await? {
                None => return Ok(()),
                reading => reading,
            },
        };
        if session.selected.as_ref().is_some_and(|selected| selected.mailbox.id() == entry.id)
            && let Some(mut selected) = session.selected.take()
        {
            let outcome = self.through(session, &selected, entry).await;
            let (saved, outcome) = match outcome {
                Ok(saved) => (saved, Ok(())),
                Err(error) => (Some(SavedSearch::default()), Err(error)),
            };
            if self.wanted.returns.save
                && let Some(saved) = saved
            {
                // RFC 5182 §2.1: a failed search empties the saved result.
                selected.saved_search = saved;
            }
            session.selected = Some(selected);
            return outcome;
        }
        let Session { wire, service, login, .. } = &mut *session;
        let opening = Box::pin(service.store.open_for(logged_in(login.as_deref())?.id, entry.id));
        let opened = match wire.reporting(self.reports(service), opening).await {
            Ok(opened) => opened,
            // The mailbox was deleted meanwhile.
            Err(StoreError::NoMailbox(_)) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let mut selected = Selected::of(opened);
        if let Some(reading) = reading {
            let laying = Box::pin(seen::lay_over(service, reading, &mut selected));
            wire.reporting(self.reports(service), laying).await?;
        }
        selected.count_for(session.login()?.id, &session.end);
        self.through(session, &selected, entry).await.map(drop)
    }

    /// As [`reading`]. It reports that the command continues.
    async fn reading(&self, session: &mut Session, mailbox: MailboxId) -> Result<Option<Reading>, Failure> {
        let (asker, wire, _) = session.reporting(self.tag)?;
        let finding = Box::pin(reading(asker, mailbox));
        wire.reporting(self.reports(asker.service), finding).await
    }

    /// Searches one mailbox, and prints the result. Nothing is printed without a match (RFC 7377
    /// §2.1). Returns the result that is saved.
    async fn through(
        &mut self,
        session: &mut Session,
        selected: &Selected,
        entry: &MailboxEntry,
    ) -> Result<Option<SavedSearch>, Failure> {
        let account = session.login()?.id;
        let mut key = std::borrow::Cow::Borrowed(self.key);
        if gmail::search::names_labels(&key) {
            let written = WrittenNames::of(Some(entry), &selected.announced.head().keywords);
            {
                let searched = Searched {
                    mailbox: Some(entry),
                    written: &written,
                    names: session.wire.names,
                    me: &session.login()?.name,
                    now: self.now,
                };
                gmail::search::replace_in(searched, key.to_mut())?;
            }
            part_ended().await;
        }
        let Session { wire, service, .. } = session;
        if names_annotations(&key) {
            // Boxed, as few searches need it.
            let reader = reader_of(service, account, selected);
            let reading = Box::pin(annotate::search::replace(reader, key.to_mut()));
            wire.reporting(self.reports(service), reading).await?;
        }
        let source = Source { service, account, selected };
        if let Some(budget) = &mut self.budget {
            Box::pin(budget.take(source, &entry.name, &mut key)).await?;
        }
        let question = Box::pin(Question::compiled(source, &key, self.now)).await?;
        let reports = self.reports(service);
        let mut job = Job::new(source, question, Pace::reporting(Arc::clone(&self.progress)));
        let page = self.wanted.returns.partial.filter(|_| self.wanted.is_page);
        // Boxed, as in SEARCH.
        let found = Box::pin(wire.while_reporting(reports, job.find(page))).await??;
        let (threads, found) = (Threads { service, account }, Arc::new(found.seqs));
        let answer = answered(threads, &selected.announced, (self.tag, self.wanted), &found).await?;
        let saved = answer.saved.map(|uids| SavedSearch::of(service, account, uids)).transpose()?;
        if let Some(mut response) = answer.response
            && !found.is_empty()
        {
            response.mailbox = Some((MailboxArg::from(&entry.name), entry.uid_validity));
            // RFC 6203 §4. A score depends on its message only, so scores of several mailboxes
            // can be compared. Scores may take long and may fail. The response begins after that.
            let scored = match answer.listed.filter(|_| self.wanted.returns.relevancy) {
                Some(listed) => {
                    let scores = Box::pin(scores_in(wire, source, (self.tag, &key), &listed)).await?;
                    Some((scores, listed))
                }
                None => None,
            };
            print_esearch(wire, &response).await?;
            if let Some((scores, listed)) = scored {
                scores.print(wire, listed.iter()).await?;
            }
            wire.out().extend_from_slice(b"\r\n");
        }
        Ok(saved)
    }
}

/// Whether criteria make sense in the selected mailbox alone.
fn names_selected(key: &SearchKey) -> bool {
    match key {
        SearchKey::Seq(_) | SearchKey::Uid(UidSet(SequenceSet::Saved(_))) => true,
        SearchKey::And(keys) => keys.iter().any(names_selected),
        SearchKey::Or(a, b) => names_selected(a) || names_selected(b),
        SearchKey::Not(key) | SearchKey::Fuzzy(key) => names_selected(key),
        key => names_numbers(key),
    }
}
