//! Named search criteria: FILTERS (RFC 5466).
//!
//! Filters are annotations of the server (RFC 5464). A search names a filter by `FILTER name`. The
//! criteria replace the name before the search begins. Filters may name other filters.
//!
//! A filter is read and parsed once for a command, however often the command names it. The octets
//! and keys of all criteria that replace names are bounded together.

use std::collections::HashMap;

use bytes::Bytes;
use posthaste_directory::Annotated;
use posthaste_imap_codec::command::SearchKey;
use posthaste_imap_codec::limits::{SEARCH_KEYS_MAX, SEARCH_NESTING_MAX};
use posthaste_imap_codec::parse_criteria;
use posthaste_imap_codec::response::Code;
use posthaste_mail_model::AccountId;

use crate::heavy::Pace;
use crate::reply::{Failure, Reply};
use crate::service::ImapService;
use crate::session::Ctx;
use crate::table::names_numbers;

/// The entries with filters: those of the user come first (RFC 5466 §3.1).
const PLACES: [&str; 2] = ["/private/filters/values/", "/shared/filters/values/"];
/// Levels of filters that name filters. The limit ends a filter that names itself.
const FILTERS_DEEP_MAX: usize = 8;

/// Octets of the criteria that replace the names of filters in one command. A filter counts as
/// often as it is named. Two of the longest filters fit, or hundreds of usual ones. A command
/// itself has at most twice as many octets.
const FILTERS_OCTETS_MAX: usize = 128 * 1024;

/// Steps of parsing an octet of a filter, and of copying one where the filter is named.
const PARSED_STEPS: u64 = 16;
const COPIED_STEPS: u64 = 4;

/// An account, whose filters are put in place of their names.
#[derive(Clone, Copy)]
pub(crate) struct Replacing<'s> {
    pub(crate) service: &'s ImapService,
    pub(crate) account: AccountId,
    /// Whether the client has enabled UIDONLY: then no criteria name sequence numbers.
    pub(crate) uid_only: bool,
}

impl<'s> Replacing<'s> {
    /// The account of a command of the selected state.
    pub(crate) fn of(ctx: &Ctx<'s>) -> Self {
        Self { service: ctx.service, account: ctx.login.id, uid_only: ctx.enabled.uid_only }
    }
}

/// Replaces the names of filters by their criteria.
pub(crate) async fn replace(with: Replacing<'_>, key: &mut SearchKey) -> Result<(), Failure> {
    if !names_filters(key) {
        return Ok(());
    }
    let Replacing { service, account, uid_only } = with;
    let annotations = service.directory.metadata().get(account, Annotated::Server).await?;
    let lookup =
        |name: &str| PLACES.iter().find_map(|place| annotations.get(&format!("{place}{name}"))).cloned();
    Box::pin(put_in_place(lookup, key, &mut Pace::default())).await?;
    if uid_only && names_numbers(key) {
        // RFC 9586 §3.2
        let reply = Reply::bad("A filter uses message sequence numbers: UIDONLY is enabled");
        return Err(reply.with(Code::UidRequired).into());
    }
    Ok(())
}

/// Whether criteria name filters.
pub(crate) fn names_filters(key: &SearchKey) -> bool {
    match key {
        SearchKey::Filter(_) => true,
        SearchKey::And(keys) => keys.iter().any(names_filters),
        SearchKey::Or(a, b) => names_filters(a) || names_filters(b),
        SearchKey::Not(key) | SearchKey::Fuzzy(key) => names_filters(key),
        _ => false,
    }
}

/// Reads the filters, and puts them in place of their names.
async fn put_in_place(
    lookup: impl Fn(&str) -> Option<Bytes>,
    key: &mut SearchKey,
    pace: &mut Pace,
) -> Result<(), Reply> {
    let known = parsed(lookup, key, pace).await?;
    let mut replacer = Replacer { known: &known, keys: SEARCH_KEYS_MAX, octets: FILTERS_OCTETS_MAX };
    let outcome = replacer.replace(key, 0, 0);
    // Each octet is copied once, and freed once.
    let octets = 2 * (FILTERS_OCTETS_MAX - replacer.octets) as u64;
    pace.worked(octets * COPIED_STEPS).await;
    outcome
}

/// A filter, as it was parsed.
struct Parsed {
    criteria: SearchKey,
    octets: usize,
}

/// The filters that a key names, and those that they name, each once.
async fn parsed(
    lookup: impl Fn(&str) -> Option<Bytes>,
    key: &SearchKey,
    pace: &mut Pace,
) -> Result<HashMap<String, Parsed>, Reply> {
    let (mut known, mut wanted) = (HashMap::new(), Vec::new());
    add_names(key, &mut wanted);
    let mut left = FILTERS_OCTETS_MAX;
    while let Some(name) = wanted.pop() {
        if known.contains_key(&name) {
            continue;
        }
        let value = lookup(&name).ok_or_else(|| undefined(&name, "is not defined"))?;
        let octets = value.len();
        left = left.checked_sub(octets).ok_or_else(too_long)?;
        let criteria = parse_criteria(&value);
        let criteria = criteria.map_err(|_| undefined(&name, "is no valid search"))?;
        add_names(&criteria, &mut wanted);
        known.insert(name, Parsed { criteria, octets });
        // About a slice: `FILTERS_OCTETS_MAX` bounds them.
        pace.worked(octets as u64 * PARSED_STEPS).await;
    }
    Ok(known)
}

/// Adds the names of filters in a key.
fn add_names(key: &SearchKey, names: &mut Vec<String>) {
    match key {
        SearchKey::Filter(name) => names.push(name.clone()),
        SearchKey::And(keys) => keys.iter().for_each(|key| add_names(key, names)),
        SearchKey::Or(a, b) => {
            add_names(a, names);
            add_names(b, names);
        }
        SearchKey::Not(key) | SearchKey::Fuzzy(key) => add_names(key, names),
        _ => {}
    }
}

struct Replacer<'k> {
    known: &'k HashMap<String, Parsed>,
    /// The number of keys that may still be added.
    keys: usize,
    /// And how many octets.
    octets: usize,
}

impl Replacer<'_> {
    /// `depth` counts levels of keys, `filters` those of filters.
    fn replace(&mut self, key: &mut SearchKey, depth: usize, filters: usize) -> Result<(), Reply> {
        if depth > SEARCH_NESTING_MAX {
            return Err(too_large());
        }
        self.keys = self.keys.checked_sub(1).ok_or_else(too_large)?;
        match key {
            SearchKey::And(keys) => keys.iter_mut().try_for_each(|key| self.replace(key, depth + 1, filters)),
            SearchKey::Or(a, b) => {
                self.replace(a, depth + 1, filters)?;
                self.replace(b, depth + 1, filters)
            }
            SearchKey::Not(inner) | SearchKey::Fuzzy(inner) => self.replace(inner, depth + 1, filters),
            SearchKey::Filter(name) => {
                if filters == FILTERS_DEEP_MAX {
                    return Err(undefined(name, "nests filters too deeply"));
                }
                let Parsed { criteria, octets } =
                    self.known.get(name).ok_or_else(|| undefined(name, "is not defined"))?;
                self.octets = self.octets.checked_sub(*octets).ok_or_else(too_long)?;
                let mut criteria = criteria.clone();
                self.replace(&mut criteria, depth + 1, filters + 1)?;
                *key = criteria;
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

/// RFC 5466 §3.1.
fn undefined(name: &str, why: &str) -> Reply {
    Reply::no(Code::UndefinedFilter(name.to_owned()), format!("The filter {why}"))
}

fn too_large() -> Reply {
    Reply::no(Code::Limit, "The search and its filters have too many keys together")
}

fn too_long() -> Reply {
    let text = format!("The filters of a search may have {FILTERS_OCTETS_MAX} octets together");
    Reply::no(Code::Limit, text)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::collections::HashMap;

    use super::*;

    /// The criteria, or the error, and how many filters were read.
    fn replaced(key: &str, filters: &[(&str, &str)]) -> (Result<SearchKey, String>, usize) {
        let filters: HashMap<&str, &str> = filters.iter().copied().collect();
        let read = Cell::new(0);
        let lookup = |name: &str| {
            read.set(read.get() + 1);
            filters.get(name).map(|value| Bytes::copy_from_slice(value.as_bytes()))
        };
        let mut key = parse_criteria(&Bytes::copy_from_slice(key.as_bytes())).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let outcome = runtime.block_on(put_in_place(lookup, &mut key, &mut Pace::default()));
        (outcome.map(|()| key).map_err(|reply| reply.text.into_owned()), read.get())
    }

    #[test]
    fn names_become_criteria_and_recursion_ends() {
        let filters =
            [("a", "SEEN"), ("b", "CHARSET UTF-8 OR FILTER a FLAGGED"), ("loop", "NOT FILTER loop")];
        let replaced = |key, filters: &[_]| replaced(key, filters).0;
        let plain = replaced("OR SEEN FLAGGED", &filters);
        assert_eq!(replaced("FILTER b", &filters), plain);
        assert!(replaced("FILTER loop", &filters).unwrap_err().contains("too deep"));
        assert!(replaced("NOT FILTER c", &filters).unwrap_err().contains("not defined"));
        assert!(replaced("FILTER x", &[("x", "SEEN nonsense")]).unwrap_err().contains("no valid search"));
        // Each level names the one below it sixteen times: the number of keys is limited.
        let wide = |name: &str| vec![format!("FILTER {name}"); 16].join(" ");
        let bomb = [("a", &*wide("b")), ("b", &*wide("c")), ("c", &*wide("d")), ("d", "SEEN")];
        assert!(replaced("FILTER a", &bomb).unwrap_err().contains("too many"));
    }

    /// 2,000 times the name of a filter of 64 KiB took 1.5 s in one poll, and 353 MiB.
    #[test]
    fn a_filter_is_read_once_and_its_octets_are_bounded() {
        let (short, long) = ("SEEN", format!("TEXT \"{}\"", "ab".repeat(32_000)));
        let filters = [("short", short), ("long", &long)];
        let times = |name: &str, n: usize| replaced(&vec![format!("FILTER {name}"); n].join(" "), &filters);
        let (outcome, read) = times("short", 1000);
        assert_eq!((outcome.is_ok(), read), (true, 1));
        assert_eq!(times("long", 2).1, 1);
        assert!(times("long", 2).0.is_ok());
        for n in [3, 2000] {
            let (outcome, read) = times("long", n);
            assert!(outcome.unwrap_err().contains("131072 octets together"), "{n}");
            assert_eq!(read, 1);
        }
        // The limit is the same for filters that are named once each.
        let names: Vec<String> = (0..100).map(|n| format!("long{n}")).collect();
        let filters: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), &*long)).collect();
        let all: Vec<String> = names.iter().map(|name| format!("FILTER {name}")).collect();
        let (outcome, read) = replaced(&all.join(" "), &filters);
        assert!(outcome.unwrap_err().contains("131072 octets together"));
        assert_eq!(read, 3);
    }
}
