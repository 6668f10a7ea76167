//! Actions: which arguments each takes.

use crate::check::arguments::{Arguments, text_of, texts_of};
use crate::check::checker::Checker;
use crate::check::matcher::{index, keys, matcher};
use crate::compiled::{
    DeleteHeader, Fcc, FileInto, FileOptions, FlagChange, Include, Matcher, Modifier, Notify, Op, Texts,
    Vacation,
};
use crate::error::Position;
use crate::extension::Extension;
use crate::matching::{Comparator, MatchKind};
use crate::message::is_field_name;
use crate::syntax::Argument;
use crate::text::{Text, Variable};

/// Checks an action; `None` if it is wrong, or not an action.
pub(crate) fn action(
    checker: &mut Checker<'_>,
    name: &str,
    place: Position,
    arguments: &mut Arguments<'_>,
) -> Option<Op> {
    use Extension as E;
    let extension = match name {
        "fileinto" => Some(E::Fileinto),
        "reject" => Some(E::Reject),
        "ereject" => Some(E::Ereject),
        "set" => Some(E::Variables),
        "setflag" | "addflag" | "removeflag" => Some(E::Imap4Flags),
        "vacation" => Some(E::Vacation),
        "notify" => Some(E::Enotify),
        "addheader" | "deleteheader" => Some(E::EditHeader),
        "include" | "return" | "global" => Some(E::Include),
        "break" => Some(E::ForEveryPart),
        "extracttext" => Some(E::ExtractText),
        "error" => Some(E::Ihave),
        _ => None,
    };
    if let Some(extension) = extension {
        checker.needs(extension, place, &format!("the action \"{name}\""));
    }
    match name {
        "stop" | "discard" | "return" => {
            arguments.positional(checker, [])?;
            Some(match name {
                "stop" => Op::Stop,
                "discard" => Op::Discard,
                _ => Op::Return,
            })
        }
        "keep" => {
            let flags = flags_tag(checker, arguments);
            arguments.positional(checker, [])?;
            Some(Op::Keep(flags))
        }
        "fileinto" => {
            let copy = arguments.flag_of(checker, E::Copy, "copy");
            let options = file_options(checker, arguments);
            let [mailbox] = arguments.positional(checker, ["the name of a mailbox"])?;
            let mailbox = text_of(checker, mailbox, name)?;
            mailbox_name(checker, place, &mailbox);
            Some(Op::FileInto(Box::new(FileInto { mailbox, options, copy })))
        }
        "redirect" => {
            let copy = arguments.flag_of(checker, E::Copy, "copy");
            let [address] = arguments.positional(checker, ["an address"])?;
            let text = text_of(checker, address, name)?;
            address_text(checker, address.place, &text);
            Some(Op::Redirect { address: text, copy })
        }
        "reject" | "ereject" => {
            let [reason] = arguments.positional(checker, ["a reason"])?;
            Some(Op::Reject { reason: text_of(checker, reason, name)?, is_strict: name == "ereject" })
        }
        "set" => set(checker, arguments),
        "setflag" | "addflag" | "removeflag" => flags(checker, name, arguments),
        "vacation" => vacation(checker, arguments),
        "notify" => notify(checker, arguments),
        "addheader" => {
            let last = arguments.flag(checker, "last").is_some();
            let [header, value] =
                arguments.positional(checker, ["the name of a header field", "its value"])?;
            let header_text = text_of(checker, header, name)?;
            editable_name(checker, header, &header_text);
            Some(Op::AddHeader { name: header_text, value: text_of(checker, value, name)?, last })
        }
        "deleteheader" => delete_header(checker, arguments),
        "include" => include(checker, arguments),
        "break" => {
            let name = arguments.constant_value(checker, "name").map(|(_, name)| name);
            arguments.positional(checker, [])?;
            let is_open = match &name {
                None => !checker.loops.is_empty(),
                Some(_) => checker.loops.contains(&name),
            };
            if !is_open {
                let wanted = name.map_or(String::new(), |name| format!(" with :name \"{name}\""));
                checker
                    .error(place, format!("\"break\" ends a loop, but no foreverypart{wanted} is open here"));
                return None;
            }
            Some(Op::Break(name.map(Into::into)))
        }
        "extracttext" => extract_text(checker, arguments),
        "error" => {
            let [message] = arguments.positional(checker, ["a message"])?;
            Some(Op::Error(text_of(checker, message, name)?))
        }
        _ => {
            checker.error(place, format!("there is no command \"{name}\": check its spelling"));
            None
        }
    }
}

fn flags_tag(checker: &mut Checker<'_>, arguments: &mut Arguments<'_>) -> Option<Texts> {
    let flags = arguments.texts_value(checker, "flags")?;
    checker.needs(Extension::Imap4Flags, arguments.place, "\":flags\"");
    Some(flags)
}

/// `:flags`, `:create`, `:mailboxid`, `:specialuse`.
fn file_options(checker: &mut Checker<'_>, arguments: &mut Arguments<'_>) -> FileOptions {
    let mailbox_id = arguments.text_value(checker, "mailboxid");
    if mailbox_id.is_some() {
        checker.needs(Extension::MailboxId, arguments.place, "\":mailboxid\"");
    }
    let special_use = arguments.text_value(checker, "specialuse");
    if special_use.is_some() {
        checker.needs(Extension::SpecialUse, arguments.place, "\":specialuse\"");
    }
    if mailbox_id.is_some() && special_use.is_some() {
        // RFC 9042 §4.2.
        checker.error(
            arguments.place,
            "\":mailboxid\" and \":specialuse\" exclude each other: keep one of them",
        );
    }
    FileOptions {
        flags: flags_tag(checker, arguments),
        create: arguments.flag_of(checker, Extension::Mailbox, "create"),
        mailbox_id,
        special_use,
    }
}

/// `:fcc` with the options of `fileinto`. RFC 8580 §3.
fn fcc(checker: &mut Checker<'_>, arguments: &mut Arguments<'_>) -> Option<Fcc> {
    let mailbox = arguments.text_value(checker, "fcc")?;
    checker.needs(Extension::Fcc, arguments.place, "\":fcc\"");
    mailbox_name(checker, arguments.place, &mailbox);
    Some(Fcc { mailbox, options: file_options(checker, arguments) })
}

fn mailbox_name(checker: &mut Checker<'_>, place: Position, mailbox: &Text) {
    if mailbox.constant().is_some_and(str::is_empty) {
        checker.error(place, "the name of a mailbox may not be empty");
    }
}

fn address_text(checker: &mut Checker<'_>, place: Position, address: &Text) {
    if let Some(text) = address.constant()
        && crate::address::single(text).is_none()
    {
        checker.error(place, format!("\"{text}\" is not an address: write it as \"name@example.org\""));
    }
}

fn modifiers(checker: &mut Checker<'_>, arguments: &mut Arguments<'_>) -> Box<[Modifier]> {
    let mut found = Vec::new();
    for (name, modifier) in [
        ("lower", Modifier::Lower),
        ("upper", Modifier::Upper),
        ("lowerfirst", Modifier::LowerFirst),
        ("upperfirst", Modifier::UpperFirst),
        ("quotewildcard", Modifier::QuoteWildcard),
        ("quoteregex", Modifier::QuoteRegex),
        ("encodeurl", Modifier::EncodeUrl),
        ("length", Modifier::Length),
    ] {
        let Some(place) = arguments.flag(checker, name) else { continue };
        match modifier {
            Modifier::EncodeUrl => checker.needs(Extension::Enotify, place, "\":encodeurl\""),
            Modifier::QuoteRegex => checker.needs(Extension::Regex, place, "\":quoteregex\""),
            _ => {}
        }
        if found.iter().any(|other: &Modifier| other.precedence() == modifier.precedence()) {
            checker.error(
                place,
                format!("\":{name}\" and another modifier of its kind exclude each other: keep one of them"),
            );
        }
        found.push(modifier);
    }
    found.sort_unstable();
    found.into()
}

/// RFC 5229 §4.
fn set(checker: &mut Checker<'_>, arguments: &mut Arguments<'_>) -> Option<Op> {
    let modifiers = modifiers(checker, arguments);
    let [name, value] = arguments.positional(checker, ["the name of a variable", "a value"])?;
    let variable = variable_name(checker, name)?;
    Some(Op::Set { variable, modifiers, value: text_of(checker, value, "set")? })
}

/// RFC 5229 §4: the name is constant.
fn variable_name(checker: &mut Checker<'_>, argument: &Argument) -> Option<Variable> {
    match text_of(checker, argument, "the name of a variable")? {
        Text::Constant(name) => checker.settable(argument.place, &name),
        Text::Pieces(_) => {
            checker.error(argument.place, "the name of a variable may have no variables in it");
            None
        }
    }
}

/// RFC 5232 §3.
fn flags(checker: &mut Checker<'_>, name: &str, arguments: &mut Arguments<'_>) -> Option<Op> {
    let change = match name {
        "setflag" => FlagChange::Set,
        "addflag" => FlagChange::Add,
        _ => FlagChange::Remove,
    };
    if arguments.left() < 2 {
        let [flags] = arguments.positional(checker, ["flags"])?;
        return Some(Op::Flags { change, variable: None, flags: texts_of(checker, flags, name)? });
    }
    let [variable, flags] = arguments.positional(checker, ["the name of a variable", "flags"])?;
    checker.needs(Extension::Variables, variable.place, &format!("a variable of \"{name}\""));
    let variable = Some(variable_name(checker, variable)?);
    Some(Op::Flags { change, variable, flags: texts_of(checker, flags, name)? })
}

/// RFC 5230 §4.
fn vacation(checker: &mut Checker<'_>, arguments: &mut Arguments<'_>) -> Option<Op> {
    const DAY_S: u64 = 86_400;
    let days = arguments.number_value(checker, "days");
    let seconds = arguments.number_value(checker, "seconds");
    if let Some((place, _)) = seconds {
        checker.needs(Extension::VacationSeconds, place, "\":seconds\"");
        if days.is_some() {
            checker.error(place, "\":days\" and \":seconds\" exclude each other: keep one of them");
        }
    }
    // RFC 5230 §4.1: a day at least; RFC 6131 §2: `:seconds 0` answers each message.
    let seconds = match (days, seconds) {
        (_, Some((_, seconds))) => Some(seconds),
        (Some((_, days)), None) => Some(days.max(1).saturating_mul(DAY_S)),
        (None, None) => None,
    };
    let (least, most) = checker.limits.vacation_seconds;
    let seconds = seconds.map(|seconds| seconds.clamp(least, most));
    let subject = arguments.text_value(checker, "subject");
    let from = arguments.text_value(checker, "from");
    if let Some(from) = &from {
        address_text(checker, arguments.place, from);
    }
    let addresses = arguments.texts_value(checker, "addresses").unwrap_or_default();
    let mime = arguments.flag(checker, "mime").is_some();
    let handle = arguments.text_value(checker, "handle");
    let fcc = fcc(checker, arguments);
    let [reason] = arguments.positional(checker, ["a reason"])?;
    let reason = text_of(checker, reason, "vacation")?;
    Some(Op::Vacation(Box::new(Vacation { seconds, subject, from, addresses, mime, handle, reason, fcc })))
}

/// RFC 5435 §3.
fn notify(checker: &mut Checker<'_>, arguments: &mut Arguments<'_>) -> Option<Op> {
    let from = arguments.text_value(checker, "from");
    let importance = arguments.text_value(checker, "importance");
    if let Some(level) = importance.as_ref().and_then(Text::constant)
        && !matches!(level, "1" | "2" | "3")
    {
        checker
            .error(arguments.place, format!("\"{level}\" is not an importance: write \"1\", \"2\" or \"3\""));
    }
    let options = arguments.texts_value(checker, "options").unwrap_or_default();
    let message = arguments.text_value(checker, "message");
    let fcc = fcc(checker, arguments);
    let [method] = arguments.positional(checker, ["a notification URI"])?;
    let place = method.place;
    let method = text_of(checker, method, "notify")?;
    if let Some(uri) = method.constant()
        && let Err(reason) = crate::notify::mailto(uri)
    {
        checker.error(place, reason);
    }
    Some(Op::Notify(Box::new(Notify { from, importance, options, message, method, fcc })))
}

/// RFC 5293 §4, §5: a name of RFC 5322.
fn editable_name(checker: &mut Checker<'_>, argument: &Argument, name: &Text) {
    if let Some(name) = name.constant()
        && !is_field_name(name)
    {
        checker.error(
            argument.place,
            format!("\"{name}\" is not the name of a header field: write it without a colon"),
        );
    }
}

/// RFC 5293 §5.
fn delete_header(checker: &mut Checker<'_>, arguments: &mut Arguments<'_>) -> Option<Op> {
    let index = index_of_edit(checker, arguments);
    let matcher = matcher(checker, arguments);
    if arguments.left() < 2 {
        let [name] = arguments.positional(checker, ["the name of a header field"])?;
        let text = text_of(checker, name, "deleteheader")?;
        editable_name(checker, name, &text);
        let matcher = Matcher { kind: MatchKind::Is, comparator: Comparator::AsciiCasemap };
        return Some(Op::DeleteHeader(Box::new(DeleteHeader { index, matcher, name: text, values: None })));
    }
    let [name, values] = arguments.positional(checker, ["the name of a header field", "values"])?;
    let text = text_of(checker, name, "deleteheader")?;
    editable_name(checker, name, &text);
    let values = Some(keys(checker, matcher, values, "deleteheader")?);
    Some(Op::DeleteHeader(Box::new(DeleteHeader { index, matcher, name: text, values })))
}

/// RFC 5293 §5 has `:index` of its own: no `require "index"` is needed for it.
fn index_of_edit(checker: &mut Checker<'_>, arguments: &mut Arguments<'_>) -> Option<crate::compiled::Index> {
    let was = checker.enabled;
    checker.enabled.insert(Extension::Index);
    let found = index(checker, arguments);
    checker.enabled = was;
    found
}

/// RFC 6609 §3.1.
fn include(checker: &mut Checker<'_>, arguments: &mut Arguments<'_>) -> Option<Op> {
    let personal = arguments.flag(checker, "personal");
    let global = arguments.flag(checker, "global");
    if let (Some(_), Some(place)) = (personal, global) {
        checker.error(place, "\":personal\" and \":global\" exclude each other: keep one of them");
    }
    let once = arguments.flag(checker, "once").is_some();
    let optional = arguments.flag(checker, "optional").is_some();
    let [name] = arguments.positional(checker, ["the name of a script"])?;
    let Text::Constant(text) = text_of(checker, name, "include")? else {
        checker.error(name.place, "the name of an included script may have no variables in it");
        return None;
    };
    Some(Op::Include(Box::new(Include { name: text, is_global: global.is_some(), once, optional })))
}

/// RFC 5703 §7.
fn extract_text(checker: &mut Checker<'_>, arguments: &mut Arguments<'_>) -> Option<Op> {
    checker.needs(Extension::Variables, arguments.place, "\"extracttext\"");
    if checker.loops.is_empty() {
        checker.error(arguments.place, "\"extracttext\" reads a part: write it inside of foreverypart");
    }
    let modifiers = modifiers(checker, arguments);
    let first = arguments.number_value(checker, "first").map(|(_, first)| first);
    let [name] = arguments.positional(checker, ["the name of a variable"])?;
    Some(Op::ExtractText { variable: variable_name(checker, name)?, modifiers, first })
}
