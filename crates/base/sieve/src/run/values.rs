//! The values that tests compare: the values of fields, addresses, the envelope, the body, dates
//! and the rest.

use std::borrow::Cow;

use posthaste_mime_summary::{Disposition, InBounds, decode_words};

use crate::address;
use crate::check::is_address_field;
use crate::compiled::{AddressPart, EnvelopePart, Index, Mime, MimeOption, Subject, Transform, Zone};
use crate::date::{self, Moment};
use crate::run::fault::Fault;
use crate::run::machine::Machine;
use crate::run::mime::{content_of, is_content, parts_from, word_of};

/// Takes one value. Returns whether that is enough.
pub(crate) type Sink<'s> = dyn FnMut(&str) -> Result<bool, Fault> + 's;

/// Hands out the values of a subject until one is enough; whether one was.
pub(crate) fn values(machine: &Machine<'_>, subject: &Subject, sink: &mut Sink<'_>) -> Result<bool, Fault> {
    match subject {
        Subject::Header { names, index, mime } => {
            for name in names {
                let name = machine.text(name)?;
                if header(machine, &name, *index, mime.as_ref(), sink)? {
                    return Ok(true);
                }
            }
            Ok(false)
        }
        Subject::Address { names, part, index, mime } => {
            for name in names {
                let name = machine.text(name)?;
                // RFC 5228 §5.1: a name that variables made may be of another kind of field.
                if is_address_field(&name) && addresses(machine, &name, *part, *index, mime.as_ref(), sink)? {
                    return Ok(true);
                }
            }
            Ok(false)
        }
        Subject::Envelope { parts, part } => envelope(machine, parts, *part, sink),
        Subject::String(texts) => {
            for text in texts {
                let text = machine.text(text)?;
                if sink(&text)? {
                    return Ok(true);
                }
            }
            Ok(false)
        }
        Subject::HasFlag(variables) if variables.is_empty() => {
            each(machine.flags.iter().map(String::as_str), sink)
        }
        Subject::HasFlag(variables) => {
            let mut all = Vec::new();
            for variable in variables {
                machine.add_flags(&mut all, machine.variable(variable))?;
            }
            each(all.iter().map(String::as_str), sink)
        }
        Subject::Body(transform) => body(machine, transform, sink),
        Subject::Date { header, index, zone, part } => {
            let name = machine.text(header)?;
            machine.step(1 + machine.message.fields_len() as u64 / 16)?;
            let field = pick(machine.message.fields(&name).collect(), index.or(FIRST)).pop();
            let Some(field) = field else { return Ok(false) };
            machine.step_bytes(field.raw_value().len() as u64)?;
            let Some(moment) = date::of_field(&field.value()) else { return Ok(false) };
            sink(&date::part(in_zone(machine, moment, zone)?, *part))
        }
        Subject::CurrentDate { zone, part } => {
            let now = machine.context.now();
            let now = match zone {
                Zone::Given(_) => in_zone(machine, now, zone)?,
                Zone::Local | Zone::Original => now,
            };
            sink(&date::part(now, *part))
        }
        Subject::Environment(item) => {
            let item = machine.text(item)?.to_ascii_lowercase();
            let context = machine.context;
            match context.environment(&item) {
                Some(value) => sink(&value),
                // RFC 5183 §4: an unknown item never matches.
                None => Ok(false),
            }
        }
        Subject::NotifyCapability { method, capability } => {
            let (method, capability) = (machine.text(method)?, machine.text(capability)?);
            // RFC 5435 §6, RFC 5436 §2.2: nobody knows whether a mailbox is read just now.
            let is_known =
                capability.eq_ignore_ascii_case("online") && crate::notify::mailto(&method).is_ok();
            if is_known { sink("maybe") } else { Ok(false) }
        }
        Subject::Metadata { mailbox, annotation } => {
            let mailbox = machine.optional(mailbox.as_ref())?;
            let annotation = machine.text(annotation)?;
            match machine.read_from()?.metadata(mailbox.as_deref(), &annotation) {
                Some(value) => sink(&value),
                None => Ok(false),
            }
        }
    }
}

/// `date` without `:index` looks at the first field.
const FIRST: Option<Index> = Some(Index { number: 1, from_end: false });

fn each<'v>(values: impl Iterator<Item = &'v str>, sink: &mut Sink<'_>) -> Result<bool, Fault> {
    for value in values {
        if sink(value)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// RFC 5260 §6: the one field that `:index` means, or all.
fn pick<T>(mut all: Vec<T>, index: Option<Index>) -> Vec<T> {
    let Some(index) = index else { return all };
    let Some(at) = usize::try_from(index.number).ok().and_then(|number| number.checked_sub(1)) else {
        return Vec::new();
    };
    if at >= all.len() {
        return Vec::new();
    }
    let at = if index.from_end { all.len() - 1 - at } else { at };
    vec![all.swap_remove(at)]
}

/// The raw values of a field: of the message, or of parts.
fn raw_values<'a>(
    machine: &'a Machine<'_>,
    name: &'a str,
    index: Option<Index>,
    mime: Option<&Mime>,
) -> Result<Vec<&'a [u8]>, Fault> {
    let message = &machine.message;
    let mut found = Vec::new();
    // Parts but the first have a header that is never edited.
    let mut take = |part| -> Result<(), Fault> {
        let all: Vec<&[u8]> = match part {
            0 => {
                machine.step(1 + message.fields_len() as u64 / 16)?;
                message.fields(name).map(|field| field.raw_value()).collect()
            }
            _ => {
                machine.step_bytes(message.part_header_len(part))?;
                message.part_fields(part, name)
            }
        };
        found.append(&mut pick(all, index));
        Ok(())
    };
    match mime {
        None => take(0)?,
        Some(Mime { any_child: false, .. }) => take(machine.part.unwrap_or(0))?,
        Some(_) => parts_from(message, machine.part.unwrap_or(0)).into_iter().try_for_each(take)?,
    }
    machine.step_bytes(found.iter().map(|raw| raw.len() as u64).sum())?;
    Ok(found)
}

/// RFC 5228 §5.7: values as text, encoded words decoded, without white space at both ends.
fn header(
    machine: &Machine<'_>,
    name: &str,
    index: Option<Index>,
    mime: Option<&Mime>,
    sink: &mut Sink<'_>,
) -> Result<bool, Fault> {
    let params = match mime.map(|mime| &mime.option) {
        Some(MimeOption::Param(names)) => machine.texts(names)?,
        _ => Vec::new(),
    };
    for raw in raw_values(machine, name, index, mime)? {
        match mime.map(|mime| &mime.option) {
            None | Some(MimeOption::Whole) => {
                if sink(&decode_words(raw))? {
                    return Ok(true);
                }
            }
            Some(MimeOption::Param(_)) => {
                if parameters(machine, raw, &params, sink)? {
                    return Ok(true);
                }
            }
            Some(option) => {
                if let Some(word) = word_of(raw, option)
                    && sink(&word)?
                {
                    return Ok(true);
                }
            }
        }
    }
    Ok(false)
}

/// Parameters of a field. A list may name one of them again and again, and it may be as long as the
/// header: one is in memory at a time.
fn parameters(
    machine: &Machine<'_>,
    raw: &[u8],
    names: &[String],
    sink: &mut Sink<'_>,
) -> Result<bool, Fault> {
    let Some(parsed) = Disposition::parse(raw) else { return Ok(false) };
    for name in names {
        machine.step_bytes(raw.len() as u64)?;
        if let Some(value) = parsed.params.decoded(name)
            && sink(&value)?
        {
            return Ok(true);
        }
    }
    Ok(false)
}

fn addresses(
    machine: &Machine<'_>,
    name: &str,
    part: AddressPart,
    index: Option<Index>,
    mime: Option<&Mime>,
    sink: &mut Sink<'_>,
) -> Result<bool, Fault> {
    let context = machine.context;
    for raw in raw_values(machine, name, index, mime)? {
        machine.step_bytes(raw.len() as u64)?;
        for (local, domain) in address::of_field(raw) {
            let value = address::part(&local, &domain, part, context.subaddress_separator());
            if let Some(value) = value
                && sink(&value)?
            {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// RFC 5228 §5.4.
fn envelope(
    machine: &Machine<'_>,
    parts: &[EnvelopePart],
    part: AddressPart,
    sink: &mut Sink<'_>,
) -> Result<bool, Fault> {
    let context = machine.context;
    for wanted in parts {
        machine.step(1)?;
        let path = match wanted {
            EnvelopePart::From => context.envelope_from(),
            EnvelopePart::To => context.envelope_to(),
        };
        // The null path is the empty string, whatever part of it is requested.
        let value = match path.rsplit_once('@') {
            _ if path.is_empty() => Some(Cow::Borrowed("")),
            Some((local, domain)) => address::part(local, domain, part, context.subaddress_separator()),
            None => address::part(path, "", part, context.subaddress_separator())
                .map(|value| Cow::Owned(value.trim_end_matches('@').to_string())),
        };
        if let Some(value) = value
            && sink(&value)?
        {
            return Ok(true);
        }
    }
    Ok(false)
}

fn body(machine: &Machine<'_>, transform: &Transform, sink: &mut Sink<'_>) -> Result<bool, Fault> {
    let message = &machine.message;
    let wanted = match transform {
        Transform::Raw => {
            let body = message.bytes.in_bounds(message.body_start()..);
            // That it is UTF-8 is looked at faster than it is compared.
            machine.work(body.len() as u64 / 8)?;
            return sink(&String::from_utf8_lossy(body));
        }
        Transform::Text => vec!["text".to_string()],
        Transform::Content(types) => machine.texts(types)?,
    };
    for part in message.structure().parts() {
        machine.step(1)?;
        let media = part.media(message.bytes);
        if !wanted.iter().any(|wanted| is_content(&media, wanted)) {
            continue;
        }
        machine.step_bytes(u64::from(part.body.len()))?;
        for content in content_of(message, part) {
            if sink(&content)? {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// The moment in the zone that a test names. RFC 5260 §4.1.
fn in_zone(machine: &Machine<'_>, moment: Moment, zone: &Zone) -> Result<Moment, Fault> {
    let zone_minutes = match zone {
        Zone::Original => moment.zone_minutes,
        Zone::Local => machine.context.now().zone_minutes,
        Zone::Given(text) => {
            let text = machine.text(text)?;
            date::zone_minutes(&text).ok_or_else(|| {
                Fault(format!("\"{text}\" is not a time zone: write it as \"+0100\" or \"-0530\""))
            })?
        }
    };
    Ok(Moment { zone_minutes, ..moment })
}
