//! SEARCH X-GM-LABELS and X-GM-RAW, replaced by other keys before the search begins.
//!
//! The result depends on the mailbox and on its keywords. So a search of several mailboxes does
//! this for each.

use posthaste_imap_codec::Tag;
use posthaste_imap_codec::command::SearchKey;
use posthaste_imap_codec::limits::SEARCH_KEYS_MAX;
use posthaste_imap_codec::response::Code;

use super::searched::{Searched, WrittenNames};
use super::{labels, raw};
use crate::heavy::{Pace, part_ended};
use crate::reply::{Failure, Reply};
use crate::session::Ctx;

/// The reason why a result is not kept up to date: a query may name ages, and keywords that do
/// not exist yet.
pub(crate) const NOT_KEPT: &str = "A result by X-GM-RAW is not kept up to date";

/// Steps of a key of a query: it is compared with up to 59 labels.
const KEY_STEPS: u64 = 500;

/// Whether criteria name labels or have a query.
pub(crate) fn names_labels(key: &SearchKey) -> bool {
    match key {
        SearchKey::GmLabel(_) | SearchKey::GmRaw(_) => true,
        SearchKey::And(keys) => keys.iter().any(names_labels),
        SearchKey::Or(a, b) => names_labels(a) || names_labels(b),
        SearchKey::Not(key) | SearchKey::Fuzzy(key) => names_labels(key),
        _ => false,
    }
}

/// [`replace_in`] for a command of the selected state.
pub(crate) async fn replace(ctx: &mut Ctx<'_>, tag: &Tag, key: &mut SearchKey) -> Result<bool, Failure> {
    if !names_labels(key) {
        return Ok(false);
    }
    let reading = ctx.service.store.list(ctx.selected_owner());
    let list = ctx.reporting(tag, reading).await?;
    let selected = &*ctx.selected;
    let mailbox = list.entries.iter().find(|entry| entry.id == selected.mailbox.id());
    let written = WrittenNames::of(mailbox, &selected.announced.head().keywords);
    let searched = Searched {
        mailbox,
        written: &written,
        names: ctx.wire.names,
        me: &ctx.login.name,
        now: (ctx.service.store.unix_ms() / 1000) as i64,
    };
    let has_queries = replace_in(searched, key)?;
    part_ended().await;
    Ok(has_queries)
}

/// Replaces labels and queries. Returns whether there were queries. The caller pauses after it.
pub(crate) fn replace_in(searched: Searched<'_>, key: &mut SearchKey) -> Result<bool, Failure> {
    let mut queries = Queries { count: 0, keys: 0 };
    walk(searched, key, &mut queries)?;
    // `walk` refuses more than `SEARCH_KEYS_MAX` of them: about a slice.
    Pace::default().count(queries.keys as u64 * KEY_STEPS);
    Ok(queries.count > 0)
}

fn walk(searched: Searched<'_>, key: &mut SearchKey, queries: &mut Queries) -> Result<(), Failure> {
    match key {
        SearchKey::And(keys) => keys.iter_mut().try_for_each(|key| walk(searched, key, queries))?,
        SearchKey::Or(a, b) => {
            walk(searched, a, queries)?;
            walk(searched, b, queries)?;
        }
        SearchKey::Not(inner) | SearchKey::Fuzzy(inner) => walk(searched, inner, queries)?,
        SearchKey::GmLabel(sent) => {
            let label = labels::decoded(sent, searched.names);
            let label = label.ok_or_else(|| format!("{sent} is no modified UTF-7"));
            *key = label.and_then(|label| searched.label(&label)).map_err(|why| refused(&why))?;
        }
        SearchKey::GmRaw(query) => {
            let made = raw::parse(query, searched).map_err(|why| refused(&format!("X-GM-RAW: {why}")))?;
            queries.count += 1;
            queries.keys += count(&made);
            if queries.keys > SEARCH_KEYS_MAX {
                return Err(Reply::no(Code::Limit, "The queries have too many words").into());
            }
            *key = made;
        }
        _ => {}
    }
    Ok(())
}

/// Queries that were replaced, and the keys that came in their place.
struct Queries {
    count: usize,
    keys: usize,
}

fn refused(why: &str) -> Failure {
    Reply::no(Code::Cannot, why.to_owned()).into()
}

/// The keys in a key, itself included.
pub(super) fn count(key: &SearchKey) -> usize {
    1 + match key {
        SearchKey::And(keys) => keys.iter().map(count).sum(),
        SearchKey::Or(a, b) => count(a) + count(b),
        SearchKey::Not(key) | SearchKey::Fuzzy(key) => count(key),
        _ => 0,
    }
}
