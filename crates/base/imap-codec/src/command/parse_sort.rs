//! SORT and THREAD: RFC 5256 §5, RFC 5267 §5.

use super::parse_search::{charset, keys, search_return};
use super::{CommandBody, SortArgs, SortCriterion, SortKey, ThreadAlgorithm, ThreadArgs};
use crate::cursor::{Cursor, Parsed};
use crate::limits::LIST_ITEMS_MAX;
use crate::message_annotation::annotation_sort;
use crate::{EntryName, Numbering, ValueScope};

/// `"SORT" [SP "RETURN" SP "(" … ")"] SP sort-criteria SP search-criteria`
pub(super) fn sort(c: &mut Cursor<'_>, numbering: Numbering) -> Parsed<CommandBody> {
    c.sp()?;
    let (returns, update_items) = search_return(c)?;
    let at = c.clone();
    let mut annotations = Vec::new();
    let criteria = c.list(LIST_ITEMS_MAX, "Too many sort keys", |c| criterion(c, &mut annotations))?;
    if criteria.is_empty() {
        return at.fail("at least one sort key");
    }
    c.sp()?;
    let texts = charset(c, returns)?;
    c.sp()?;
    let (charset, key) = (texts.charset, keys(c, &texts)?);
    Ok(CommandBody::Sort(SortArgs { numbering, returns, update_items, criteria, annotations, charset, key }))
}

/// `["REVERSE" SP] sort-key`
fn criterion(c: &mut Cursor<'_>, annotations: &mut Vec<(EntryName, ValueScope)>) -> Parsed<SortCriterion> {
    let is_reverse = c.eat_word(b"REVERSE");
    if is_reverse {
        c.sp()?;
    }
    let at = c.clone();
    let word = c.word();
    if word.as_bytes() == b"ANNOTATION" {
        c.sp()?;
        // At most LIST_ITEMS_MAX.
        let key = SortKey::Annotation(annotations.len() as u16);
        annotations.push(annotation_sort(c)?);
        return Ok(SortCriterion { key, is_reverse });
    }
    let key = SortKey::ALL.into_iter().find(|key| key.name().as_bytes() == word.as_bytes());
    key.map_or_else(|| at.fail("a sort key"), |key| Ok(SortCriterion { key, is_reverse }))
}

/// `"THREAD" SP thread-alg SP search-criteria`
pub(super) fn thread(c: &mut Cursor<'_>, numbering: Numbering) -> Parsed<CommandBody> {
    c.sp()?;
    let at = c.clone();
    let word = c.word();
    let algorithm = ThreadAlgorithm::ALL.into_iter().find(|a| a.name().as_bytes() == word.as_bytes());
    let algorithm = algorithm.map_or_else(|| at.fail("ORDEREDSUBJECT, REFERENCES or REFS"), Ok)?;
    c.sp()?;
    let texts = charset(c, None)?;
    c.sp()?;
    let (charset, key) = (texts.charset, keys(c, &texts)?);
    Ok(CommandBody::Thread(ThreadArgs { numbering, algorithm, charset, key }))
}
