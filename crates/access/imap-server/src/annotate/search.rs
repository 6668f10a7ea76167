//! The key ANNOTATION of SEARCH (RFC 5257 §4.8), and of SORT (§4.9).
//!
//! A key is replaced by the UIDs of the messages that match, before the search begins.

use std::collections::BTreeMap;

use posthaste_directory::Scope;
use posthaste_imap_codec::command::SearchKey;
use posthaste_imap_codec::response::Code;
use posthaste_imap_codec::{AnnotationKey, EntryName, ValueScope};
use posthaste_mail_model::NumSet;
use posthaste_mime_summary::{casemap_into, casemapped};

use super::reader::{AnnotationReader, ByUid, scope_of};
use crate::contexts::kept::named;
use crate::heavy::Pace;
use crate::reply::{Failure, Reply};

/// Keys of one search at most: each looks at all annotations of the mailbox.
const KEYS_MAX: usize = 16;
/// Steps of folding an octet of a value and looking for the text there.
const OCTET_STEPS: usize = 8;
/// Octets of two texts that are compared in a step.
const COMPARED_OCTETS: u64 = 8;
/// Steps of a place in a sorted map.
const ENTRY_STEPS: u64 = 200;

/// Whether criteria name annotations.
pub(crate) fn names_annotations(key: &SearchKey) -> bool {
    match key {
        SearchKey::Annotation(_) => true,
        SearchKey::And(keys) => keys.iter().any(names_annotations),
        SearchKey::Or(a, b) => names_annotations(a) || names_annotations(b),
        SearchKey::Not(key) | SearchKey::Fuzzy(key) => names_annotations(key),
        _ => false,
    }
}

/// Replaces criteria that name annotations by those that name messages. Returns whether there were
/// any.
pub(crate) async fn replace(reader: AnnotationReader<'_>, key: &mut SearchKey) -> Result<bool, Failure> {
    if !names_annotations(key) {
        return Ok(false);
    }
    let (all, mut wanted) = (reader.read_all().await?, Vec::new());
    collect(key, &mut wanted);
    if wanted.len() > KEYS_MAX {
        let text = format!("A search has at most {KEYS_MAX} keys of annotations");
        return Err(Reply::no(Code::Limit, text).into());
    }
    let mut pace = Pace::default();
    for place in wanted {
        if let SearchKey::Annotation(wanted) = &*place {
            *place = named(&matching(&all.by_uid, wanted, &mut pace).await);
        }
    }
    Ok(true)
}

/// The keys that name annotations.
fn collect<'k>(key: &'k mut SearchKey, into: &mut Vec<&'k mut SearchKey>) {
    match key {
        SearchKey::Annotation(_) => into.push(key),
        SearchKey::And(keys) => keys.iter_mut().for_each(|key| collect(key, into)),
        SearchKey::Or(a, b) => {
            collect(a, into);
            collect(b, into);
        }
        SearchKey::Not(key) | SearchKey::Fuzzy(key) => collect(key, into),
        _ => {}
    }
}

/// The UIDs of the messages that match.
async fn matching(all: &ByUid, key: &AnnotationKey, pace: &mut Pace) -> NumSet {
    let (wanted, mut found) = (SoughtValue::of(&key.text), NumSet::new());
    let scope = key.scope.map(scope_of);
    for (uid, annotations) in all {
        for (of, entry, value) in annotations.iter() {
            // Names have 256 octets at most, and values 64 KiB.
            let steps = key.entries.as_str().len() * entry.len() + value.len() * OCTET_STEPS;
            pace.worked(steps as u64).await;
            let is_meant = scope.is_none_or(|scope| scope == of) && key.entries.matches(entry);
            if is_meant && wanted.is_in(value) {
                found.push(*uid);
                break;
            }
        }
    }
    found
}

/// The text that a value must contain.
enum SoughtValue<'k> {
    /// RFC 5257 §7: as in other texts, without regard to case.
    Text(Vec<u8>),
    /// Octets of a literal8 that are no text.
    Octets(&'k [u8]),
}

impl<'k> SoughtValue<'k> {
    fn of(octets: &'k [u8]) -> Self {
        match std::str::from_utf8(octets) {
            Ok(text) => Self::Text(casemapped(text)),
            Err(_) => Self::Octets(octets),
        }
    }

    fn is_in(&self, value: &[u8]) -> bool {
        match self {
            Self::Text(text) if text.is_empty() => true,
            Self::Text(text) => {
                memchr::memmem::find(&casemapped(&String::from_utf8_lossy(value)), text).is_some()
            }
            Self::Octets(octets) => memchr::memmem::find(value, octets).is_some(),
        }
    }
}

/// The keys of SORT by one annotation: the rank of each message that has a value, from 1 on.
pub(crate) struct Ranks(BTreeMap<u32, u64>);

impl Ranks {
    /// The rank of a message; messages without a value come first.
    pub(crate) fn of(&self, uid: u32) -> u64 {
        self.0.get(&uid).copied().unwrap_or_default()
    }
}

/// The ranks by each of these annotations.
pub(crate) async fn ranks(
    reader: AnnotationReader<'_>,
    wanted: &[(EntryName, ValueScope)],
) -> Result<Vec<Ranks>, Failure> {
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    if wanted.len() > KEYS_MAX {
        let text = format!("A sort has at most {KEYS_MAX} keys of annotations");
        return Err(Reply::no(Code::Limit, text).into());
    }
    let (all, mut pace) = (reader.read_all().await?, Pace::default());
    let mut ranks = Vec::with_capacity(wanted.len());
    for (entry, scope) in wanted {
        ranks.push(ranked(&all.by_uid, entry.as_str(), scope_of(*scope), &mut pace).await);
    }
    Ok(ranks)
}

async fn ranked(all: &ByUid, entry: &str, scope: Scope, pace: &mut Pace) -> Ranks {
    let mut texts = Vec::new();
    for (uid, annotations) in all {
        if let Some(value) = annotations.get(scope, entry) {
            let mut text = Vec::new();
            casemap_into(&String::from_utf8_lossy(value), &mut text);
            pace.worked((value.len() * OCTET_STEPS) as u64).await;
            texts.push((*uid, text));
        }
    }
    // The loop yields to other tasks: an account's texts have some MB, and many may begin alike.
    let mut in_order: BTreeMap<&[u8], Vec<u32>> = BTreeMap::new();
    for (uid, text) in &texts {
        in_order.entry(text).or_default().push(*uid);
        // Folding makes at most eleven octets of one.
        let compared = text.len() as u64 / COMPARED_OCTETS + ENTRY_STEPS;
        pace.worked(compared * u64::from(texts.len().ilog2() + 1)).await;
    }
    let mut ranks = BTreeMap::new();
    for (rank, uids) in (1..).zip(in_order.into_values()) {
        // All messages may have one value.
        for uid in uids {
            ranks.insert(uid, rank);
            pace.worked(ENTRY_STEPS).await;
        }
    }
    Ranks(ranks)
}
