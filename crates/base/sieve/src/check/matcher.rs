//! Tags that many tests have: comparators, match types, address parts, `:index`, `:mime`, zones.

use crate::check::arguments::{Arguments, strings_of};
use crate::check::checker::Checker;
use crate::compiled::{AddressPart, Index, Key, Keys, Matcher, Mime, MimeOption, Zone};
use crate::extension::Extension;
use crate::matching::{Comparator, MatchKind, Pattern, Relation};
use crate::syntax::Argument;
use crate::text::Text;

/// COMPARATOR and MATCH-TYPE. RFC 5228 §2.7.
pub(crate) fn matcher(checker: &mut Checker<'_>, arguments: &mut Arguments<'_>) -> Matcher {
    let mut found: Vec<MatchKind> = Vec::new();
    for (name, kind) in
        [("is", MatchKind::Is), ("contains", MatchKind::Contains), ("matches", MatchKind::Matches)]
    {
        found.extend(arguments.flag(checker, name).map(|_| kind));
    }
    if arguments.flag_of(checker, Extension::Regex, "regex") {
        found.push(MatchKind::Regex);
    }
    for name in ["value", "count"] {
        let Some((place, word)) = arguments.constant_value(checker, name) else { continue };
        checker.needs(Extension::Relational, place, &format!("\":{name}\""));
        match Relation::named(&word.to_ascii_lowercase()) {
            Some(relation) if name == "value" => found.push(MatchKind::Value(relation)),
            Some(relation) => found.push(MatchKind::Count(relation)),
            None => checker.error(
                place,
                format!(
                    "\"{word}\" is not a relation: write \"gt\", \"ge\", \"lt\", \"le\", \"eq\" or \"ne\""
                ),
            ),
        }
    }
    if found.len() > 1 {
        checker
            .error(arguments.place, format!("\"{}\" has two match types: keep one of them", arguments.what));
    }
    let kind = found.first().copied().unwrap_or(MatchKind::Is);
    let comparator = comparator(checker, arguments, kind);
    Matcher { kind, comparator }
}

fn comparator(checker: &mut Checker<'_>, arguments: &mut Arguments<'_>, kind: MatchKind) -> Comparator {
    let Some((place, name)) = arguments.constant_value(checker, "comparator") else {
        return Comparator::AsciiCasemap;
    };
    let Some(comparator) = Comparator::named(&name) else {
        let message = format!(
            "there is no comparator \"{name}\": write \"i;ascii-casemap\", \"i;octet\", \"i;ascii-numeric\" or \"i;unicode-casemap\""
        );
        checker.error(place, message);
        return Comparator::AsciiCasemap;
    };
    // RFC 5228 §2.7.3: octet and ascii-casemap need not be requested.
    let extension = match comparator {
        Comparator::AsciiNumeric => Some(Extension::ComparatorAsciiNumeric),
        Comparator::UnicodeCasemap => Some(Extension::ComparatorUnicodeCasemap),
        Comparator::Octet | Comparator::AsciiCasemap => None,
    };
    if let Some(extension) = extension {
        checker.needs(extension, place, &format!("the comparator \"{name}\""));
    }
    if !comparator.has_substrings()
        && matches!(kind, MatchKind::Contains | MatchKind::Matches | MatchKind::Regex)
    {
        checker.error(
            place,
            format!("the comparator \"{name}\" knows no parts of strings: use :is, :value or :count"),
        );
    }
    comparator
}

/// The keys of a test.
pub(crate) fn keys(
    checker: &mut Checker<'_>,
    matcher: Matcher,
    argument: &Argument,
    what: &str,
) -> Option<Keys> {
    let sources = strings_of(checker, argument, what)?;
    let mut keys = Vec::with_capacity(sources.len());
    for (place, source) in sources {
        match checker.text(place, source) {
            Text::Constant(text) => {
                if matcher.kind == MatchKind::Regex && !checker.counts_regex(place) {
                    continue;
                }
                match Pattern::new(matcher.kind, matcher.comparator, &text, checker.limits.regex_bytes_max) {
                    Ok(pattern) => keys.push(Key::Ready(pattern)),
                    Err(error) => checker.error(place, error.0),
                }
            }
            text => keys.push(Key::Later(text)),
        }
    }
    Some(Keys(keys.into()))
}

/// ADDRESS-PART. RFC 5228 §2.7.4, RFC 5233 §4.
pub(crate) fn address_part(checker: &mut Checker<'_>, arguments: &mut Arguments<'_>) -> AddressPart {
    let mut found = Vec::new();
    for (name, part) in
        [("all", AddressPart::All), ("localpart", AddressPart::LocalPart), ("domain", AddressPart::Domain)]
    {
        found.extend(arguments.flag(checker, name).map(|_| part));
    }
    for (name, part) in [("user", AddressPart::User), ("detail", AddressPart::Detail)] {
        if arguments.flag_of(checker, Extension::Subaddress, name) {
            found.push(part);
        }
    }
    if found.len() > 1 {
        checker.error(
            arguments.place,
            format!("\"{}\" has two address parts: keep one of them", arguments.what),
        );
    }
    found.first().copied().unwrap_or(AddressPart::All)
}

/// `:index N [:last]`. RFC 5260 §6.
pub(crate) fn index(checker: &mut Checker<'_>, arguments: &mut Arguments<'_>) -> Option<Index> {
    let number = arguments.number_value(checker, "index");
    if let Some((place, number)) = number {
        checker.needs(Extension::Index, place, "\":index\"");
        if number == 0 {
            checker.error(place, "\":index\" counts from 1");
        }
    }
    let last = arguments.flag(checker, "last");
    match (number, last) {
        (Some((_, number)), last) => Some(Index { number, from_end: last.is_some() }),
        (None, Some(place)) => {
            checker.error(place, "\":last\" needs \":index\" with a number");
            None
        }
        (None, None) => None,
    }
}

/// `:mime` with its options. RFC 5703 §4.
pub(crate) fn mime(checker: &mut Checker<'_>, arguments: &mut Arguments<'_>) -> Option<Mime> {
    let is_mime = arguments.flag_of(checker, Extension::Mime, "mime");
    let any_child = arguments.flag(checker, "anychild");
    let mut options = Vec::new();
    for (name, option) in [
        ("type", MimeOption::Type),
        ("subtype", MimeOption::Subtype),
        ("contenttype", MimeOption::ContentType),
    ] {
        if let Some(place) = arguments.flag(checker, name) {
            options.push((place, option));
        }
    }
    if let Some(names) = arguments.texts_value(checker, "param") {
        options.push((arguments.place, MimeOption::Param(names)));
    }
    if options.len() > 1 {
        checker.error(arguments.place, "only one of :type, :subtype, :contenttype and :param is allowed");
    }
    let option = options.pop();
    if !is_mime {
        if let Some(place) = any_child.or(option.map(|(place, _)| place)) {
            checker.error(place, "this tag needs \":mime\" before it");
        }
        return None;
    }
    let option = option.map_or(MimeOption::Whole, |(_, option)| option);
    Some(Mime { any_child: any_child.is_some(), option })
}

/// The tags that a test takes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ZoneTags {
    /// `:zone`: `currentdate` (RFC 5260 §5).
    Zone,
    /// Also `:originalzone`: `date` (RFC 5260 §4.1).
    ZoneAndOriginal,
}

/// `:zone` and `:originalzone`. RFC 5260 §4.1.
pub(crate) fn zone(checker: &mut Checker<'_>, arguments: &mut Arguments<'_>, tags: ZoneTags) -> Zone {
    let given = arguments.text_value(checker, "zone");
    let original = match tags {
        ZoneTags::Zone => None,
        ZoneTags::ZoneAndOriginal => arguments.flag(checker, "originalzone"),
    };
    match (given, original) {
        (Some(_), Some(place)) => {
            checker.error(place, "\":zone\" and \":originalzone\" exclude each other: keep one of them");
            Zone::Original
        }
        (Some(given), None) => {
            if let Some(text) = given.constant()
                && crate::date::zone_minutes(text).is_none()
            {
                checker.error(
                    arguments.place,
                    format!("\"{text}\" is not a time zone: write it as \"+0100\" or \"-0530\""),
                );
            }
            Zone::Given(given)
        }
        (None, Some(_)) => Zone::Original,
        (None, None) => Zone::Local,
    }
}
