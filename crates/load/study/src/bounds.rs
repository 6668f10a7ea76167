//! Numbers of a study's file, within their bounds.

use posthaste_load_text::{Mistake, Source};
use toml::Spanned;

/// Most rounds of a study. The median of 99 is no better than that of 51, and a study takes
/// hours.
const ROUNDS_MAX: u32 = 99;

/// The rounds of a study.
pub(crate) fn rounds(source: Source, given: Option<&Spanned<u32>>) -> Result<u32, Mistake> {
    match given {
        None => Ok(1),
        Some(n) if (1..=ROUNDS_MAX).contains(n.get_ref()) => Ok(*n.get_ref()),
        Some(n) => Err(source.at(n.span(), &format!("`rounds` is a number from 1 to {ROUNDS_MAX}"))),
    }
}

/// Most transactions of a point that are measured alone. Each may take seconds.
const ALONE_MAX: u32 = 999;

/// The transactions of a point that are measured alone.
pub(crate) fn alone(source: Source, given: Option<&Spanned<u32>>) -> Result<u32, Mistake> {
    match given {
        None => Ok(1),
        Some(n) if (1..=ALONE_MAX).contains(n.get_ref()) => Ok(*n.get_ref()),
        Some(n) => {
            let what = format!("`transactions_alone` is a number from 1 to {ALONE_MAX}");
            Err(source.at(n.span(), &what))
        }
    }
}
