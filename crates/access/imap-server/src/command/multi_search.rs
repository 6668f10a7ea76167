//! ESEARCH: one search in several mailboxes (RFC 7377).
//!
//! Each mailbox is opened, searched and left. What was found is sent before the next one is opened.
//! So a search through an account holds no more than one mailbox at a time.

use std::sync::Arc;

use posthaste_imap_codec::command::{MailboxFilter, MultiSearchArgs, SearchKey};
use posthaste_imap_codec::response::{Code, Status, StatusKind, Untagged};
use posthaste_imap_codec::{MailboxArg, Numbering, SequenceSet, Tag, UidSet};
use posthaste_mail_model::NumSet;
use posthaste_store::{MailboxEntry, StoreError};

use super::DONE;
use super::gather::Source;
use super::search::criteria::Question;
use super::search::job::Job;
use super::search::{Wanted, answer, filters, names_modseq};
use crate::heavy::Pace;
use crate::mailbox_filter::{FILTER_STEPS, Filter};
use crate::message_limit::MessageLimit;
use crate::progress::{Progress, Reports};
use crate::reply::{Failure, Reply};
use crate::selected::Selected;
use crate::session::Session;
use crate::table::names_numbers;

/// Mailboxes whose heads are read at once.
const HEADS_BATCH: usize = 256;

/// Runs an ESEARCH.
pub(super) async fn run(session: &mut Session, tag: &Tag, args: MultiSearchArgs) -> Result<Reply, Failure> {
    let MultiSearchArgs { sources, mut returns, charset, mut key } = args;
    if session.enabled.utf8 && charset.is_some() {
        // RFC 6855 §3
        return Err(Reply::bad("After ENABLE UTF8=ACCEPT a search names no charset").into());
    }
    let account = session.login()?.id;
    let by = filters::Replacing { service: &session.service, account, uid_only: session.enabled.uid_only };
    filters::replace(by, &mut key).await?;
    // RFC 7377 §2.2: without IN, the selected mailbox.
    let has_selected = sources.is_empty() || sources.contains(&MailboxFilter::Selected);
    let elsewhere: Vec<Filter> = sources.iter().filter_map(Filter::of).collect();
    if has_selected && session.selected.is_none() {
        return Err(Reply::bad("No mailbox is selected").into());
    }
    if has_selected && session.is_in_mailbox_of_others() {
        let text = "ESEARCH is for your own mailboxes: use SEARCH in this one";
        return Err(Reply::no(Code::Cannot, text).into());
    }
    let saving = returns.is_some_and(|returns| returns.save);
    if !elsewhere.is_empty() && (saving || names_selected(&key)) {
        // RFC 7377 §2.2: sequence numbers and `$` belong to the selected mailbox.
        return Err(Reply::bad("Sequence numbers, $ and SAVE are for the selected mailbox alone").into());
    }
    if let Some(returns) = &mut returns
        && std::mem::take(&mut returns.update)
    {
        // RFC 5267 §4.3.1: the search itself ends as without it.
        let text = "The results of ESEARCH are not kept up to date".to_owned();
        let code = Some(Code::NoUpdate(tag.clone()));
        session.wire.say_status(Status { tag: None, kind: StatusKind::No, code, text });
    }
    if returns.is_some_and(|returns| returns.relevancy) {
        let text = "RELEVANCY is for SEARCH in the selected mailbox";
        return Err(Reply::no(Code::Cannot, text).into());
    }
    if names_modseq(&key) {
        // RFC 7162 §3.1
        session.enable_condstore();
    }
    let returns = returns.unwrap_or_default();
    let page = returns.partial.filter(|_| !(returns.min || returns.max || returns.count));
    let by_modseq = names_modseq(&key);
    let numbering = Numbering::Uid;
    let search = Search {
        tag,
        key: &key,
        wanted: Wanted { numbering, returns, by_modseq, is_page: page.is_some() },
        now: (session.service.store.unix_ms() / 1000) as i64,
        progress: Arc::new(Progress::in_parts()),
    };
    let targets = targets(session, &elsewhere, has_selected).await?;
    for entry in targets {
        search.one(session, &entry).await?;
        session.wire.relieve().await?;
    }
    Ok(DONE)
}

/// The mailboxes to be searched that have messages, each once.
async fn targets(
    session: &Session,
    elsewhere: &[Filter],
    has_selected: bool,
) -> Result<Vec<MailboxEntry>, Failure> {
    let list = session.service.store.list(session.login()?.id).await?;
    let selected = session.selected.as_ref().map(|selected| selected.mailbox.id());
    let mut pace = Pace::default();
    let mut found: Vec<&MailboxEntry> = Vec::new();
    for entry in &list.entries {
        pace.worked(FILTER_STEPS * (1 + elsewhere.len() as u64)).await;
        let is_selected = has_selected && selected == Some(entry.id);
        if is_selected || elsewhere.iter().any(|filter| filter.has(&entry.name, &list)) {
            found.push(entry);
        }
    }
    let mut targets = Vec::with_capacity(found.len());
    let mut messages = 0;
    for batch in found.chunks(HEADS_BATCH) {
        let ids: Vec<_> = batch.iter().map(|entry| entry.id).collect();
        let heads = session.service.store.status(&ids).await?;
        for (entry, head) in batch.iter().zip(heads) {
            let known = session.selected.as_ref().filter(|known| known.mailbox.id() == entry.id);
            let count = match known {
                Some(known) => known.announced.exists(),
                // A mailbox that was deleted meanwhile has none.
                None => head.map_or(0, |head| head.counts.messages),
            };
            messages += u64::from(count);
            if count > 0 {
                targets.push((*entry).clone());
            }
        }
    }
    if let Some(limit) = session.message_limit().process() {
        // RFC 9738 §3.1. No one UID says where a search through several mailboxes stopped.
        MessageLimit::refuse(limit, messages, None)?;
    }
    Ok(targets)
}

/// A search that is run in one mailbox after the other.
struct Search<'s> {
    tag: &'s Tag,
    key: &'s SearchKey,
    wanted: Wanted,
    now: i64,
    progress: Arc<Progress>,
}

impl Search<'_> {
    async fn one(&self, session: &mut Session, entry: &MailboxEntry) -> Result<(), Failure> {
        if session.selected.as_ref().is_some_and(|selected| selected.mailbox.id() == entry.id)
            && let Some(mut selected) = session.selected.take()
        {
            let outcome = self.through(session, &selected, entry).await;
            if let Ok(Some(saved)) = &outcome {
                selected.saved_search = saved.clone();
            } else if outcome.is_err() && self.wanted.returns.save {
                // RFC 5182 §2.1
                selected.saved_search = NumSet::new();
            }
            session.selected = Some(selected);
            return outcome.map(drop);
        }
        let opened = match session.service.store.open(entry.id).await {
            Ok(opened) => opened,
            // It was deleted meanwhile.
            Err(StoreError::NoMailbox(_)) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        self.through(session, &Selected::of(opened), entry).await.map(drop)
    }

    /// Searches one mailbox, and prints what was found. Nothing is printed without a match
    /// (RFC 7377 §2.1). Returns the result to save.
    async fn through(
        &self,
        session: &mut Session,
        selected: &Selected,
        entry: &MailboxEntry,
    ) -> Result<Option<NumSet>, Failure> {
        let account = session.login()?.id;
        let Session { wire, service, .. } = session;
        let question = Question::compile(self.key, selected, self.now)?;
        let source = Source { service, account, selected };
        let times = service.options.progress;
        let reports = Reports { tag: self.tag, progress: &self.progress, times };
        let mut job = Job::new(source, question, Pace::reporting(Arc::clone(&self.progress)));
        let page = self.wanted.returns.partial.filter(|_| self.wanted.is_page);
        // Boxed, as in SEARCH.
        let found = Box::pin(wire.while_reporting(reports, job.find(page))).await??;
        let answer = answer(selected, self.tag, self.wanted, &found.seqs);
        if let Some(mut response) = answer.response
            && !found.seqs.is_empty()
        {
            response.mailbox = Some((MailboxArg::from(&entry.name), entry.uid_validity));
            wire.say(Untagged::Esearch(response));
        }
        Ok(answer.saved)
    }
}

/// Whether criteria make sense in the selected mailbox alone.
fn names_selected(key: &SearchKey) -> bool {
    match key {
        SearchKey::Seq(_) | SearchKey::Uid(UidSet(SequenceSet::Saved)) => true,
        SearchKey::And(keys) => keys.iter().any(names_selected),
        SearchKey::Or(a, b) => names_selected(a) || names_selected(b),
        SearchKey::Not(key) | SearchKey::Fuzzy(key) => names_selected(key),
        key => names_numbers(key),
    }
}
