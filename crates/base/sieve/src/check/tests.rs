//! Tests: which arguments each takes.

use crate::check::arguments::{Arguments, constants_of, text_of, texts_of};
use crate::check::checker::Checker;
use crate::check::matcher::{ZoneTags, address_part, index, keys, matcher, mime, zone};
use crate::compiled::{
    Compare, DatePart, Duplicate, DuplicateSource, EnvelopePart, Matcher, Mime, Subject, Test, Texts,
    Transform,
};
use crate::error::Position;
use crate::extension::Extension;
use crate::syntax::{self, Argument, Value};
use crate::text::Text;

/// A test, and what `ihave` makes known of its result before any message comes.
pub(crate) struct Checked {
    pub(crate) test: Test,
    pub(crate) known: Option<bool>,
}

impl Checked {
    fn open(test: Test) -> Self {
        Checked { test, known: None }
    }

    fn known(result: bool) -> Self {
        Checked { test: Test::Constant(result), known: Some(result) }
    }
}

/// Checks one test.
pub(crate) fn test(checker: &mut Checker<'_>, source: &syntax::Test) -> Checked {
    let place = source.place;
    let name = source.name.as_str();
    let tests_wanted = match name {
        "not" => 1..=1,
        "allof" | "anyof" => 1..=usize::MAX,
        _ => 0..=0,
    };
    if !tests_wanted.contains(&source.tests.len()) {
        let message = match name {
            "not" => "\"not\" needs one test after it".into(),
            "allof" | "anyof" => format!("\"{name}\" needs tests in parentheses: {name} (test, test)"),
            _ => format!("\"{name}\" takes no tests"),
        };
        checker.error(place, message);
        return Checked::open(Test::Constant(false));
    }
    let mut arguments = Arguments::new(place, name, &source.arguments);
    match name {
        "not" => {
            arguments.positional(checker, []);
            match source.tests.first().map(|inner| test(checker, inner)) {
                Some(Checked { known: Some(result), .. }) => Checked::known(!result),
                Some(inner) => Checked::open(Test::Not(Box::new(inner.test))),
                None => Checked::open(Test::Constant(false)),
            }
        }
        "allof" | "anyof" => {
            arguments.positional(checker, []);
            if !source.is_list {
                checker.error(
                    place,
                    format!("the tests of \"{name}\" must be in parentheses: {name} (test, test)"),
                );
            }
            several(checker, &source.tests, name == "allof")
        }
        "ihave" => ihave(checker, &mut arguments),
        _ => Checked::open(simple(checker, name, place, &mut arguments).unwrap_or(Test::Constant(false))),
    }
}

/// RFC 5463 §4: what `ihave` decides, the tests after it need not be checked for.
fn several(checker: &mut Checker<'_>, sources: &[syntax::Test], is_all: bool) -> Checked {
    let mut tests = Vec::with_capacity(sources.len());
    let mut all_known = true;
    for source in sources {
        let checked = test(checker, source);
        match checked.known {
            Some(result) if result != is_all => return Checked::known(result),
            Some(_) => {}
            None => {
                all_known = false;
                tests.push(checked.test);
            }
        }
    }
    if all_known {
        return Checked::known(is_all);
    }
    let tests = tests.into();
    Checked::open(if is_all { Test::AllOf(tests) } else { Test::AnyOf(tests) })
}

fn ihave(checker: &mut Checker<'_>, arguments: &mut Arguments<'_>) -> Checked {
    checker.needs(Extension::Ihave, arguments.place, "\"ihave\"");
    let Some([names]) = arguments.positional(checker, ["names of extensions"]) else {
        return Checked::known(false);
    };
    let Some(names) = constants_of(checker, names, "ihave") else { return Checked::known(false) };
    let found: Vec<Option<Extension>> = names
        .iter()
        .map(|(_, name)| Extension::named(name).filter(|extension| checker.allowed.has(*extension)))
        .collect();
    let has_all = found.iter().all(Option::is_some);
    if has_all {
        // RFC 5463 §4: they are in effect from here on.
        found.into_iter().flatten().for_each(|extension| checker.enable(extension));
    }
    Checked::known(has_all)
}

fn simple(
    checker: &mut Checker<'_>,
    name: &str,
    place: Position,
    arguments: &mut Arguments<'_>,
) -> Option<Test> {
    use Extension as E;
    let extension = match name {
        "envelope" => Some(E::Envelope),
        "string" => Some(E::Variables),
        "hasflag" => Some(E::Imap4Flags),
        "body" => Some(E::Body),
        "date" | "currentdate" => Some(E::Date),
        "environment" => Some(E::Environment),
        "duplicate" => Some(E::Duplicate),
        "valid_notify_method" | "notify_method_capability" => Some(E::Enotify),
        "mailboxexists" => Some(E::Mailbox),
        "mailboxidexists" => Some(E::MailboxId),
        "specialuse_exists" => Some(E::SpecialUse),
        "metadata" | "metadataexists" => Some(E::MboxMetadata),
        "servermetadata" | "servermetadataexists" => Some(E::ServerMetadata),
        _ => None,
    };
    if let Some(extension) = extension {
        checker.needs(extension, place, &format!("the test \"{name}\""));
    }
    match name {
        "true" | "false" => {
            arguments.positional(checker, [])?;
            Some(Test::Constant(name == "true"))
        }
        "size" => size(checker, arguments),
        "exists" => {
            let mime = mime(checker, arguments);
            let [names] = arguments.positional(checker, ["names of header fields"])?;
            let names = header_names(checker, names, "exists")?;
            Some(Test::Exists { names, mime })
        }
        "header" => {
            let (matcher, index, mime) = header_tags(checker, arguments);
            let [names, keys] = arguments.positional(checker, ["names of header fields", "keys"])?;
            let names = header_names(checker, names, name)?;
            compare(checker, Subject::Header { names, index, mime }, matcher, keys, name)
        }
        "address" => {
            let (matcher, index, mime) = header_tags(checker, arguments);
            let part = address_part(checker, arguments);
            let [names, keys] = arguments.positional(checker, ["names of header fields", "keys"])?;
            let names = address_names(checker, names)?;
            compare(checker, Subject::Address { names, part, index, mime }, matcher, keys, name)
        }
        "envelope" => {
            let matcher = matcher(checker, arguments);
            let part = address_part(checker, arguments);
            let [parts, keys] = arguments.positional(checker, ["parts of the envelope", "keys"])?;
            let parts = envelope_parts(checker, parts)?;
            compare(checker, Subject::Envelope { parts, part }, matcher, keys, name)
        }
        "string" => {
            let matcher = matcher(checker, arguments);
            let [sources, keys] = arguments.positional(checker, ["strings", "keys"])?;
            let sources = texts_of(checker, sources, name)?;
            compare(checker, Subject::String(sources), matcher, keys, name)
        }
        "hasflag" => hasflag(checker, arguments),
        "body" => {
            let matcher = matcher(checker, arguments);
            let transform = transform(checker, arguments);
            let [keys] = arguments.positional(checker, ["keys"])?;
            compare(checker, Subject::Body(transform), matcher, keys, name)
        }
        "date" => {
            let (matcher, index) = (matcher(checker, arguments), index(checker, arguments));
            let zone = zone(checker, arguments, ZoneTags::ZoneAndOriginal);
            let [header, part, keys] =
                arguments.positional(checker, ["a header field", "a date part", "keys"])?;
            let header = text_of(checker, header, name)?;
            let part = date_part(checker, part)?;
            compare(checker, Subject::Date { header, index, zone, part }, matcher, keys, name)
        }
        "currentdate" => {
            let matcher = matcher(checker, arguments);
            let zone = zone(checker, arguments, ZoneTags::Zone);
            let [part, keys] = arguments.positional(checker, ["a date part", "keys"])?;
            let part = date_part(checker, part)?;
            compare(checker, Subject::CurrentDate { zone, part }, matcher, keys, name)
        }
        "environment" => {
            let matcher = matcher(checker, arguments);
            let [item, keys] = arguments.positional(checker, ["the name of an item", "keys"])?;
            let item = text_of(checker, item, name)?;
            compare(checker, Subject::Environment(item), matcher, keys, name)
        }
        "notify_method_capability" => {
            let matcher = matcher(checker, arguments);
            let [method, capability, keys] =
                arguments.positional(checker, ["a notification URI", "a capability", "keys"])?;
            let method = text_of(checker, method, name)?;
            let capability = text_of(checker, capability, name)?;
            compare(checker, Subject::NotifyCapability { method, capability }, matcher, keys, name)
        }
        "metadata" => {
            let matcher = matcher(checker, arguments);
            let [mailbox, annotation, keys] =
                arguments.positional(checker, ["a mailbox", "the name of an annotation", "keys"])?;
            let mailbox = Some(text_of(checker, mailbox, name)?);
            let annotation = text_of(checker, annotation, name)?;
            compare(checker, Subject::Metadata { mailbox, annotation }, matcher, keys, name)
        }
        "servermetadata" => {
            let matcher = matcher(checker, arguments);
            let [annotation, keys] = arguments.positional(checker, ["the name of an annotation", "keys"])?;
            let annotation = text_of(checker, annotation, name)?;
            compare(checker, Subject::Metadata { mailbox: None, annotation }, matcher, keys, name)
        }
        _ => lookup(checker, name, place, arguments),
    }
}

/// Tests that query the server and compare nothing.
fn lookup(
    checker: &mut Checker<'_>,
    name: &str,
    place: Position,
    arguments: &mut Arguments<'_>,
) -> Option<Test> {
    let left = arguments.left();
    let mut list = |checker: &mut Checker<'_>, wanted: &str| {
        let [texts] = arguments.positional(checker, [wanted])?;
        texts_of(checker, texts, name)
    };
    match name {
        "valid_notify_method" => list(checker, "notification URIs").map(Test::ValidNotifyMethod),
        "mailboxexists" => list(checker, "names of mailboxes").map(Test::MailboxExists),
        "mailboxidexists" => list(checker, "ids of mailboxes").map(Test::MailboxIdExists),
        "servermetadataexists" => {
            let annotations = list(checker, "names of annotations")?;
            Some(Test::MetadataExists { mailbox: None, annotations })
        }
        "metadataexists" => {
            let [mailbox, annotations] =
                arguments.positional(checker, ["a mailbox", "names of annotations"])?;
            let mailbox = Some(text_of(checker, mailbox, name)?);
            let annotations = texts_of(checker, annotations, name)?;
            Some(Test::MetadataExists { mailbox, annotations })
        }
        "specialuse_exists" => {
            // RFC 8579 §4.1: the mailbox may be left out.
            if left < 2 {
                let flags = list(checker, "special-use flags")?;
                return Some(Test::SpecialUseExists { mailbox: None, flags });
            }
            let [mailbox, flags] = arguments.positional(checker, ["a mailbox", "special-use flags"])?;
            let mailbox = Some(text_of(checker, mailbox, name)?);
            let flags = texts_of(checker, flags, name)?;
            Some(Test::SpecialUseExists { mailbox, flags })
        }
        "duplicate" => duplicate(checker, arguments),
        _ => {
            checker.error(place, format!("there is no test \"{name}\": check its spelling"));
            None
        }
    }
}

fn compare(
    checker: &mut Checker<'_>,
    what: Subject,
    matcher: Matcher,
    source: &Argument,
    name: &str,
) -> Option<Test> {
    let keys = keys(checker, matcher, source, name)?;
    Some(Test::Compare(Box::new(Compare { what, matcher, keys })))
}

fn header_tags(
    checker: &mut Checker<'_>,
    arguments: &mut Arguments<'_>,
) -> (Matcher, Option<crate::compiled::Index>, Option<Mime>) {
    let mime = mime(checker, arguments);
    (matcher(checker, arguments), index(checker, arguments), mime)
}

fn size(checker: &mut Checker<'_>, arguments: &mut Arguments<'_>) -> Option<Test> {
    // RFC 5228 §5.9: the tag is no option: one of the two must be there.
    let over = arguments.number_value(checker, "over");
    let under = arguments.number_value(checker, "under");
    match (over, under) {
        (Some((_, limit)), None) => {
            arguments.positional(checker, []).map(|_| Test::Size { over: true, limit })
        }
        (None, Some((_, limit))) => {
            arguments.positional(checker, []).map(|_| Test::Size { over: false, limit })
        }
        _ => {
            checker.error(
                arguments.place,
                "\"size\" needs either \":over\" or \":under\", with a number after it",
            );
            None
        }
    }
}

/// Names of fields. A constant one is verified here: a colon in it can never match.
fn header_names(checker: &mut Checker<'_>, argument: &Argument, what: &str) -> Option<Texts> {
    let names = texts_of(checker, argument, what)?;
    for name in names.iter().filter_map(Text::constant) {
        if name.is_empty() || !name.bytes().all(|b| b.is_ascii_graphic() && b != b':') {
            checker.error(
                argument.place,
                format!("\"{name}\" is not the name of a header field: write it without a colon"),
            );
        }
    }
    Some(names)
}

/// RFC 5228 §5.1: fields that hold addresses, and no others.
fn address_names(checker: &mut Checker<'_>, argument: &Argument) -> Option<Texts> {
    let names = header_names(checker, argument, "address")?;
    let wrong = names.iter().filter_map(Text::constant).find(|name| !is_address_field(name));
    if let Some(name) = wrong {
        checker
            .error(argument.place, format!("the field \"{name}\" holds no addresses: use \"header\" for it"));
    }
    Some(names)
}

/// Fields that hold addresses by their RFCs, and those of common use.
pub(crate) fn is_address_field(name: &str) -> bool {
    const KNOWN: [&str; 25] = [
        "from",
        "to",
        "cc",
        "bcc",
        "sender",
        "reply-to",
        "resent-from",
        "resent-to",
        "resent-cc",
        "resent-bcc",
        "resent-sender",
        "resent-reply-to",
        "return-path",
        "delivered-to",
        "errors-to",
        "return-receipt-to",
        "disposition-notification-to",
        "for-approval",
        "for-handling",
        "mail-reply-to",
        "mail-followup-to",
        "followup-to",
        "approved",
        "for-comment",
        "apparently-to",
    ];
    // RFC 5228 §5.1 leaves further fields to us: those of X- are anybody's.
    KNOWN.iter().any(|known| known.eq_ignore_ascii_case(name))
        || name.get(..2).is_some_and(|prefix| prefix.eq_ignore_ascii_case("x-"))
}

fn envelope_parts(checker: &mut Checker<'_>, argument: &Argument) -> Option<Box<[EnvelopePart]>> {
    let names = constants_of(checker, argument, "envelope")?;
    let mut parts = Vec::with_capacity(names.len());
    for (place, name) in names {
        match name.to_ascii_lowercase().as_str() {
            "from" => parts.push(EnvelopePart::From),
            "to" => parts.push(EnvelopePart::To),
            _ => {
                checker.error(place, format!("the envelope has no part \"{name}\": write \"from\" or \"to\""))
            }
        }
    }
    Some(parts.into())
}

/// RFC 5232 §4.
fn hasflag(checker: &mut Checker<'_>, arguments: &mut Arguments<'_>) -> Option<Test> {
    let matcher = matcher(checker, arguments);
    if arguments.left() < 2 {
        let [keys] = arguments.positional(checker, ["flags"])?;
        return compare(checker, Subject::HasFlag(Box::default()), matcher, keys, "hasflag");
    }
    let [names, keys] = arguments.positional(checker, ["names of variables", "flags"])?;
    checker.needs(Extension::Variables, names.place, "a variable of \"hasflag\"");
    let names = constants_of(checker, names, "hasflag")?;
    let variables = names.into_iter().filter_map(|(place, name)| checker.settable(place, &name)).collect();
    compare(checker, Subject::HasFlag(variables), matcher, keys, "hasflag")
}

/// RFC 5173 §5.
fn transform(checker: &mut Checker<'_>, arguments: &mut Arguments<'_>) -> Transform {
    let mut found = Vec::new();
    found.extend(arguments.flag(checker, "raw").map(|_| Transform::Raw));
    found.extend(arguments.flag(checker, "text").map(|_| Transform::Text));
    found.extend(arguments.texts_value(checker, "content").map(Transform::Content));
    if found.len() > 1 {
        checker.error(arguments.place, "only one of :raw, :text and :content is allowed");
    }
    found.pop().unwrap_or(Transform::Text)
}

/// RFC 5260 §4.2.
fn date_part(checker: &mut Checker<'_>, argument: &Argument) -> Option<DatePart> {
    let Value::String(name) = &argument.value else {
        checker.error(argument.place, "the date part is one string, like \"year\"");
        return None;
    };
    Some(match name.to_ascii_lowercase().as_str() {
        "year" => DatePart::Year,
        "month" => DatePart::Month,
        "day" => DatePart::Day,
        "date" => DatePart::Date,
        "julian" => DatePart::Julian,
        "hour" => DatePart::Hour,
        "minute" => DatePart::Minute,
        "second" => DatePart::Second,
        "time" => DatePart::Time,
        "iso8601" => DatePart::Iso8601,
        "std11" => DatePart::Std11,
        "zone" => DatePart::Zone,
        "weekday" => DatePart::Weekday,
        _ => {
            let message = format!(
                "a date has no part \"{name}\": write year, month, day, date, julian, hour, minute, second, time, iso8601, std11, zone or weekday"
            );
            checker.error(argument.place, message);
            return None;
        }
    })
}

/// RFC 7352 §3.
fn duplicate(checker: &mut Checker<'_>, arguments: &mut Arguments<'_>) -> Option<Test> {
    let handle = arguments.text_value(checker, "handle");
    let header = arguments.text_value(checker, "header");
    let unique = arguments.text_value(checker, "uniqueid");
    let seconds = arguments.number_value(checker, "seconds").map(|(_, seconds)| seconds);
    let last = arguments.flag(checker, "last").is_some();
    arguments.positional(checker, [])?;
    let source = match (header, unique) {
        (Some(_), Some(_)) => {
            checker
                .error(arguments.place, "\":header\" and \":uniqueid\" exclude each other: keep one of them");
            return None;
        }
        (Some(header), None) => DuplicateSource::Header(header),
        (None, Some(unique)) => DuplicateSource::UniqueId(unique),
        (None, None) => DuplicateSource::MessageId,
    };
    Some(Test::Duplicate(Box::new(Duplicate { handle, source, seconds, last })))
}
