//! Named search criteria: FILTERS (RFC 5466).
//!
//! Filters are annotations of the server (RFC 5464). A search names a filter by `FILTER name`. The
//! criteria replace the name before the search begins. Filters may name other filters.

use posthaste_directory::Annotated;
use posthaste_imap_codec::command::SearchKey;
use posthaste_imap_codec::limits::{SEARCH_KEYS_MAX, SEARCH_NESTING_MAX};
use posthaste_imap_codec::parse_criteria;
use posthaste_imap_codec::response::Code;
use posthaste_mail_model::AccountId;

use crate::reply::{Failure, Reply};
use crate::service::ImapService;
use crate::session::Ctx;
use crate::table::names_numbers;

/// Where filters are kept: those of the user come first (RFC 5466 §3.1).
const PLACES: [&str; 2] = ["/private/filters/values/", "/shared/filters/values/"];
/// Levels of filters that name filters. The limit ends a filter that names itself.
const FILTERS_DEEP_MAX: usize = 8;

/// An account, whose filters are put in place of their names.
#[derive(Clone, Copy)]
pub(crate) struct Replacing<'s> {
    pub(crate) service: &'s ImapService,
    pub(crate) account: AccountId,
    /// After ENABLE UIDONLY no criteria name sequence numbers.
    pub(crate) uid_only: bool,
}

impl<'s> Replacing<'s> {
    /// For a command of the selected state.
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
    let annotations = service.directory.annotations(account, Annotated::Server).await?;
    let lookup =
        |name: &str| PLACES.iter().find_map(|place| annotations.get(&format!("{place}{name}"))).cloned();
    let mut replacer = Replacer { lookup, left: SEARCH_KEYS_MAX };
    replacer.replace(key, 0, 0)?;
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

struct Replacer<L> {
    lookup: L,
    /// How many keys may still be added.
    left: usize,
}

impl<L: Fn(&str) -> Option<bytes::Bytes>> Replacer<L> {
    /// `depth` counts levels of keys, `filters` those of filters.
    fn replace(&mut self, key: &mut SearchKey, depth: usize, filters: usize) -> Result<(), Reply> {
        if depth > SEARCH_NESTING_MAX {
            return Err(too_large());
        }
        self.left = self.left.checked_sub(1).ok_or_else(too_large)?;
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
                let value = (self.lookup)(name).ok_or_else(|| undefined(name, "is not defined"))?;
                let criteria = parse_criteria(&value);
                let mut criteria = criteria.map_err(|_| undefined(name, "is no valid search"))?;
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
    Reply::no(Code::Limit, "The search has too many keys, with those of its filters")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replaced(key: &str, filters: &[(&str, &str)]) -> Result<SearchKey, String> {
        let lookup = |name: &str| {
            let found = filters.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| bytes::Bytes::copy_from_slice(value.as_bytes()))
        };
        let mut key = parse_criteria(&bytes::Bytes::copy_from_slice(key.as_bytes())).unwrap();
        let outcome = Replacer { lookup, left: SEARCH_KEYS_MAX }.replace(&mut key, 0, 0);
        outcome.map(|()| key).map_err(|reply| reply.text.into_owned())
    }

    #[test]
    fn names_become_criteria_and_recursion_ends() {
        let filters =
            [("a", "SEEN"), ("b", "CHARSET UTF-8 OR FILTER a FLAGGED"), ("loop", "NOT FILTER loop")];
        let plain = replaced("OR SEEN FLAGGED", &filters);
        assert_eq!(replaced("FILTER b", &filters), plain);
        assert!(replaced("FILTER loop", &filters).unwrap_err().contains("too deep"));
        assert!(replaced("NOT FILTER c", &filters).unwrap_err().contains("not defined"));
        assert!(replaced("FILTER x", &[("x", "SEEN nonsense")]).unwrap_err().contains("no valid search"));
        // Each level has the one below it sixteen times: the keys are counted.
        let wide = |name: &str| vec![format!("FILTER {name}"); 16].join(" ");
        let bomb = [("a", &*wide("b")), ("b", &*wide("c")), ("c", &*wide("d")), ("d", "SEEN")];
        assert!(replaced("FILTER a", &bomb).unwrap_err().contains("too many"));
    }
}
