//! Actions: what each puts into the results.

use posthaste_mime_summary::Kind;

use crate::address;
use crate::compiled::{DeleteHeader, FlagChange, Modifier};
use crate::message::is_field_name;
use crate::run::fault::Fault;
use crate::run::flags;
use crate::run::machine::Machine;
use crate::run::mime::text_of;
use crate::run::trial::Trial;
use crate::run::variables::modified;
use crate::text::{Text, Variable};

/// The flags to store with: those of `:flags`, or else of the internal variable (RFC 5232 §5).
pub(crate) fn flags_of(machine: &Machine<'_>, texts: Option<&[Text]>) -> Result<Vec<String>, Fault> {
    let Some(texts) = texts else { return Ok(machine.flags.clone()) };
    let mut list = Vec::new();
    for text in texts {
        machine.add_flags(&mut list, &machine.text(text)?)?;
    }
    Ok(list)
}

pub(crate) fn redirect(machine: &mut Machine<'_>, address: &Text, copy: bool) -> Result<(), Fault> {
    let text = machine.text(address)?;
    match address::single(&text) {
        Some(address) => machine.results.redirect(address, copy),
        None => Err(Fault(format!("\"{text}\" is not an address to redirect to"))),
    }
}

pub(crate) fn set(
    machine: &mut Machine<'_>,
    variable: &Variable,
    modifiers: &[Modifier],
    value: &Text,
) -> Result<(), Fault> {
    let value = machine.text(value)?.into_owned();
    machine.step_bytes(value.len() as u64)?;
    machine.set(variable, modified(value, modifiers))
}

/// RFC 5232 §3.
pub(crate) fn change_flags(
    machine: &mut Machine<'_>,
    change: FlagChange,
    variable: Option<&Variable>,
    texts: &[Text],
) -> Result<(), Fault> {
    let mut list = Vec::new();
    if change != FlagChange::Set {
        match variable {
            None => list.clone_from(&machine.flags),
            Some(variable) => machine.add_flags(&mut list, machine.variable(variable))?,
        }
    }
    for text in texts {
        machine.step(1)?;
        let text = machine.text(text)?;
        match change {
            FlagChange::Remove => {
                machine.work(flags::work(&list, &text))?;
                flags::remove(&mut list, &text);
            }
            FlagChange::Set | FlagChange::Add => machine.add_flags(&mut list, &text)?,
        }
    }
    match variable {
        None => {
            machine.flags = list;
            Ok(())
        }
        Some(variable) => machine.set(variable, list.join(" ")),
    }
}

/// Most versions of a header that a run makes: each is kept whole.
const VERSIONS_MAX: usize = 64;

/// Bytes of all of them together: three versions of the longest header.
const VERSIONS_BYTES_MAX: usize = 4 << 20;

/// Makes the header as it is now what later actions store and send (RFC 5293 §6).
fn edited(machine: &mut Machine<'_>) -> Result<(), Fault> {
    if machine.results.headers.len() >= VERSIONS_MAX {
        return Err(Fault(format!("the script edits the header more than {VERSIONS_MAX} times")));
    }
    let header = machine.message.header();
    machine.step_bytes(header.len() as u64)?;
    let others: usize = machine.results.headers.iter().map(Vec::len).sum();
    if others + header.len() > VERSIONS_BYTES_MAX {
        return Err(Fault(format!(
            "the headers that the script makes are longer than {VERSIONS_BYTES_MAX} bytes together"
        )));
    }
    machine.results.headers.push(header);
    Ok(())
}

/// Fields that a server alone writes (RFC 8601 §5, RFC 5321 §4.4).
const OF_SERVERS: [&str; 2] = ["authentication-results", "return-path"];

/// RFC 5293 §4.
pub(crate) fn add_header(
    machine: &mut Machine<'_>,
    name: &Text,
    value: &Text,
    last: bool,
) -> Result<(), Fault> {
    let name = machine.text(name)?;
    if !is_field_name(&name) {
        return Err(Fault(format!("\"{name}\" is not the name of a header field")));
    }
    // RFC 5293 §4: a server may protect fields. Its own results are believed further on.
    if OF_SERVERS.iter().any(|one| name.eq_ignore_ascii_case(one)) {
        machine.results.note(format!("the field {name} may not be added"));
        return Ok(());
    }
    // Line ends would make further fields of it.
    let value = machine.text(value)?.replace(['\r', '\n'], " ");
    match last {
        true => machine.message.add_last(&name, &value),
        false => machine.message.add_first(&name, &value),
    }
    edited(machine)
}

/// RFC 5293 §5.
pub(crate) fn delete_header(machine: &mut Machine<'_>, delete: &DeleteHeader) -> Result<(), Fault> {
    let name = machine.text(&delete.name)?;
    // RFC 5293 §5: traces stay, and so does what stops loops of replies and of redirects. If one
    // were deleted, the next field of that name would take its place.
    const KEPT: [&str; 4] =
        ["received", "auto-submitted", "x-sieve-redirected-from", "authentication-results"];
    if KEPT.iter().any(|kept| name.eq_ignore_ascii_case(kept)) {
        machine.results.note(format!("the field {name} may not be deleted"));
        return Ok(());
    }
    machine.step(1 + machine.message.fields_len() as u64 / 16)?;
    let octets: usize = machine.message.fields(&name).map(|field| field.raw_value().len()).sum();
    machine.step_bytes(octets as u64)?;
    let mut numbers = Vec::new();
    let fields: Vec<String> = machine.message.fields(&name).map(|field| field.value().into_owned()).collect();
    for (at, value) in fields.iter().enumerate() {
        let number = match delete.index {
            Some(index) if index.from_end => fields.len() - at,
            _ => at + 1,
        } as u64;
        if delete.index.is_some_and(|index| index.number != number) {
            continue;
        }
        let is_meant = match &delete.values {
            None => true,
            Some(keys) => {
                let mut trial = Trial::new(machine, delete.matcher, keys)?;
                let found = trial.value(machine, value)?;
                trial.finish(machine, found)?
            }
        };
        if is_meant {
            numbers.push(at);
        }
    }
    if numbers.is_empty() {
        return Ok(());
    }
    machine.message.remove(&name, &numbers);
    edited(machine)
}

/// RFC 5703 §7.
pub(crate) fn extract_text(
    machine: &mut Machine<'_>,
    variable: &Variable,
    modifiers: &[Modifier],
    first: Option<u64>,
) -> Result<(), Fault> {
    let message = &machine.message;
    let part = machine.part.and_then(|part| message.structure().part(part));
    let text = match part
        .filter(|part| part.kind == Kind::Leaf && part.media(message.bytes).text_kind().is_some())
    {
        Some(part) => {
            machine.step_bytes(u64::from(part.body.len()))?;
            text_of(message, part).unwrap_or_default()
        }
        // RFC 5703 §7: a part that is no text is empty.
        None => String::new(),
    };
    let count = first.map_or(usize::MAX, |first| usize::try_from(first).unwrap_or(usize::MAX));
    let text = text.chars().take(count.min(machine.limits.variable_bytes_max)).collect();
    machine.set(variable, modified(text, modifiers))
}
