//! Tests: true or false.

use crate::compiled::{Compare, Duplicate, DuplicateSource, Mime, Subject, Test};
use crate::run::fault::Fault;
use crate::run::machine::Machine;
use crate::run::mime::parts_from;
use crate::run::trial::Trial;
use crate::run::values::values;
use crate::text::Text;

/// Steps of a question to the world around a message that it answers from memory.
const QUESTION_STEPS: u64 = 4;

/// Evaluates a test. Lists of tests stop at the first one that decides (RFC 5228 §5.2, §5.3).
pub(crate) fn test(machine: &mut Machine<'_>, source: &Test) -> Result<bool, Fault> {
    machine.step(1)?;
    match source {
        Test::Constant(result) => Ok(*result),
        Test::Not(inner) => Ok(!test(machine, inner)?),
        Test::AllOf(tests) => {
            for inner in tests {
                if !test(machine, inner)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        Test::AnyOf(tests) => {
            for inner in tests {
                if test(machine, inner)? {
                    return Ok(true);
                }
            }
            Ok(false)
        }
        Test::Compare(compared) => compare(machine, compared),
        Test::Exists { names, mime } => {
            all(machine, names, |machine, name| exists(machine, name, mime.as_ref()))
        }
        Test::Size { over, limit } => {
            // RFC 5228 §5.9: over is more than, under is less than.
            let size = machine.message.bytes.len() as u64;
            Ok(if *over { size > *limit } else { size < *limit })
        }
        Test::Duplicate(duplicate) => is_duplicate(machine, duplicate),
        Test::ValidNotifyMethod(uris) => all(machine, uris, |_, uri| Ok(crate::notify::mailto(uri).is_ok())),
        Test::MailboxExists(names) => all(machine, names, |machine, name| {
            machine.step(QUESTION_STEPS)?;
            Ok(machine.context.mailbox_exists(name))
        }),
        Test::MailboxIdExists(ids) => all(machine, ids, |machine, id| {
            machine.step(QUESTION_STEPS)?;
            Ok(machine.context.mailbox_id_exists(id))
        }),
        Test::SpecialUseExists { mailbox, flags } => {
            let mailbox = machine.optional(mailbox.as_ref())?;
            all(machine, flags, |machine, flag| {
                machine.step(QUESTION_STEPS)?;
                Ok(machine.context.special_use_exists(mailbox.as_deref(), flag))
            })
        }
        Test::MetadataExists { mailbox, annotations } => {
            let mailbox = machine.optional(mailbox.as_ref())?;
            all(machine, annotations, |machine, name| {
                Ok(machine.read_from()?.metadata(mailbox.as_deref(), name).is_some())
            })
        }
    }
}

/// Whether something holds for each string.
fn all<'r>(
    machine: &Machine<'r>,
    texts: &[Text],
    mut holds: impl FnMut(&Machine<'r>, &str) -> Result<bool, Fault>,
) -> Result<bool, Fault> {
    for text in texts {
        machine.step(1)?;
        let text = machine.text(text)?;
        if !holds(machine, &text)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn compare(machine: &mut Machine<'_>, compared: &Compare) -> Result<bool, Fault> {
    let asked = &*machine;
    let mut trial = Trial::new(asked, compared.matcher, &compared.keys)?;
    if matches!(compared.what, Subject::Body(_)) {
        trial = trial.without_variables();
    }
    let found = values(asked, &compared.what, &mut |value| {
        // RFC 5229 §5: `:count` of strings counts those that are not empty.
        if value.is_empty() && matches!(compared.what, Subject::String(_)) && trial.counts() {
            return Ok(false);
        }
        trial.value(asked, value)
    })?;
    let result = trial.finish(asked, found)?;
    if let Some(matched) = trial.matched() {
        machine.matched = matched;
    }
    Ok(result)
}

/// RFC 5228 §5.5, RFC 5703 §4.3.
fn exists(machine: &Machine<'_>, name: &str, mime: Option<&Mime>) -> Result<bool, Fault> {
    let message = &machine.message;
    let root = machine.part.unwrap_or(0);
    let parts = match mime {
        None => vec![0],
        Some(mime) if mime.any_child => parts_from(message, root),
        Some(_) => vec![root],
    };
    for part in parts {
        let is_there = match part {
            0 => {
                machine.step(1 + message.fields_len() as u64 / 16)?;
                message.fields(name).next().is_some()
            }
            _ => {
                machine.step_bytes(message.part_header_len(part))?;
                !message.part_fields(part, name).is_empty()
            }
        };
        if is_there {
            return Ok(true);
        }
    }
    Ok(false)
}

/// RFC 7352 §3. The key is remembered when the run has ended well.
fn is_duplicate(machine: &mut Machine<'_>, duplicate: &Duplicate) -> Result<bool, Fault> {
    let handle = machine.optional(duplicate.handle.as_ref())?.unwrap_or_default();
    let header = |machine: &Machine<'_>, name: &str| -> Result<Option<String>, Fault> {
        Ok(machine.text_of(name)?.map(|value| value.into_owned()))
    };
    let id = match &duplicate.source {
        DuplicateSource::MessageId => header(machine, "message-id")?,
        DuplicateSource::Header(name) => header(machine, &machine.text(name)?)?,
        DuplicateSource::UniqueId(id) => Some(machine.text(id)?.into_owned()),
    };
    // RFC 7352 §3.1: without an id, nothing is a duplicate and nothing is remembered.
    let Some(id) = id.filter(|id| !id.is_empty()) else { return Ok(false) };
    let key = format!("{}:{handle}:{id}", handle.len());
    machine.step_bytes(key.len() as u64)?;
    // RFC 7352 §3: what this run itself has seen makes no duplicate.
    if machine.results.is_remembered(&key) {
        return Ok(false);
    }
    let seconds = duplicate.seconds.map(|seconds| seconds.min(machine.limits.duplicate_seconds_max));
    let is_known = machine.read_from()?.is_duplicate(&key);
    // RFC 7352 §3.3: with `:last`, each duplicate begins the time again.
    if !is_known || duplicate.last {
        machine.results.remember(key, seconds);
    }
    Ok(is_known)
}
