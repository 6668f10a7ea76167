//! `vacation` and `notify`: the mail that is sent to others, and when none may be sent.

use crate::address;
use crate::compiled::{Fcc, FileOptions, Notify, Vacation};
use crate::effect::{Effect, Notification, Target, VacationReply};
use crate::run::fault::Fault;
use crate::run::machine::Machine;

/// A mailbox and how to store into it.
pub(crate) fn target(machine: &Machine<'_>, mailbox: String, options: &FileOptions) -> Result<Target, Fault> {
    if mailbox.is_empty() {
        return Err(Fault::new("the name of the mailbox is empty"));
    }
    let flags = match &options.flags {
        None => machine.flags.clone(),
        Some(texts) => {
            let mut list = Vec::new();
            for text in texts {
                machine.add_flags(&mut list, &machine.text(text)?)?;
            }
            list
        }
    };
    Ok(Target {
        mailbox,
        flags,
        create: options.create,
        mailbox_id: machine.optional(options.mailbox_id.as_ref())?,
        special_use: machine.optional(options.special_use.as_ref())?,
    })
}

fn copy_to(machine: &Machine<'_>, fcc: Option<&Fcc>) -> Result<Option<Target>, Fault> {
    let Some(fcc) = fcc else { return Ok(None) };
    let mailbox = machine.text(&fcc.mailbox)?.into_owned();
    let mut made = target(machine, mailbox, &fcc.options)?;
    if fcc.options.flags.is_none() {
        // RFC 8580 §3.2: the flags of the message are not those of its answer.
        made.flags.clear();
    }
    Ok(Some(made))
}

/// Characters of the subject of a message that its answer repeats. A field may have 1 MiB.
const SUBJECT_CHARS_MAX: usize = 500;
/// Octets of a Message-ID that an answer repeats: a line has 998 at most (RFC 5322 §2.1.1).
const MESSAGE_ID_LEN_MAX: usize = 900;

/// RFC 5230 §4.
pub(crate) fn vacation(machine: &mut Machine<'_>, vacation: &Vacation) -> Result<(), Fault> {
    let subject = machine.optional(vacation.subject.as_ref())?;
    let from = machine.optional(vacation.from.as_ref())?;
    if let Some(from) = &from
        && address::single(from).is_none()
    {
        return Err(Fault(format!("\"{from}\" is not an address for the reply to be from")));
    }
    let reason = machine.text(&vacation.reason)?.into_owned();
    let handle = machine.optional(vacation.handle.as_ref())?;
    let addresses = machine.texts(&vacation.addresses)?;
    let fcc = copy_to(machine, vacation.fcc.as_ref())?;
    if machine.results.has_vacation {
        // RFC 5230 §4.7.
        return Err(Fault::new(
            "\"vacation\" may run once for a message: make its conditions exclude each other",
        ));
    }
    machine.results.has_vacation = true;
    let key = key(handle, subject.as_deref(), from.as_deref(), vacation.mime, &reason);
    if let Some(why) = silence(machine, &addresses, &key, vacation.seconds) {
        machine.results.note(format!("no vacation reply is sent: {why}"));
        return machine.results.vacation(None);
    }
    let message = &machine.message;
    let original = message.text_of("subject").unwrap_or_default();
    let original: String = original.chars().take(SUBJECT_CHARS_MAX).collect();
    let reply = VacationReply {
        to: machine.context.envelope_from().into(),
        from,
        // RFC 5230 §5.2.
        subject: one_line(&subject.unwrap_or_else(|| format!("Auto: {original}"))),
        reason,
        is_mime: vacation.mime,
        in_reply_to: message
            .text_of("message-id")
            .map(|id| one_line(&id))
            .filter(|id| id.len() <= MESSAGE_ID_LEN_MAX),
        key,
        seconds: vacation.seconds,
        fcc,
    };
    machine.results.vacation(Some(Effect::Vacation(Box::new(reply))))
}

/// No line end, so that it can be in a header.
fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect::<String>().trim().into()
}

/// Under what a reply is remembered: the handle, or else everything that makes it another reply
/// (RFC 5230 §4.3).
fn key(
    handle: Option<String>,
    subject: Option<&str>,
    from: Option<&str>,
    is_mime: bool,
    reason: &str,
) -> String {
    if let Some(handle) = handle {
        return format!("handle:{handle}");
    }
    // FNV-1a over the parts, each with its length before it.
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mime = if is_mime { "mime" } else { "text" };
    for part in [subject.unwrap_or_default(), from.unwrap_or_default(), mime, reason] {
        for byte in (part.len() as u64).to_be_bytes().into_iter().chain(part.bytes()) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    format!("reply:{hash:016x}")
}

/// The reason why no reply may be sent; `None` if one may. RFC 5230 §4.5, §4.6.
fn silence(machine: &Machine<'_>, addresses: &[String], key: &str, seconds: Option<u64>) -> Option<String> {
    let (context, message) = (machine.context, &machine.message);
    let sender = context.envelope_from();
    if sender.is_empty() {
        return Some("the message has no sender to answer".into());
    }
    let local = sender.rsplit_once('@').map_or(sender, |(local, _)| local).to_ascii_lowercase();
    let is_robot = ["mailer-daemon", "listserv", "majordomo", "noreply", "no-reply"]
        .contains(&local.as_str())
        || local.starts_with("owner-")
        || local.ends_with("-request");
    if is_robot {
        return Some(format!("{sender} is not a person"));
    }
    let is_own = |address: &str| {
        address.eq_ignore_ascii_case(context.envelope_to())
            || context.own_addresses().iter().chain(addresses).any(|own| own.eq_ignore_ascii_case(address))
    };
    if is_own(sender) {
        return Some("the message comes from the account itself".into());
    }
    // RFC 3834 §2, RFC 5230 §4.6.
    let automatic = message
        .text_of("auto-submitted")
        .is_some_and(|value| !value.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("no"));
    if automatic {
        return Some("the message was sent by a program (Auto-Submitted)".into());
    }
    const LISTS: [&str; 7] = [
        "list-id",
        "list-help",
        "list-subscribe",
        "list-unsubscribe",
        "list-post",
        "list-owner",
        "list-archive",
    ];
    if let Some(name) = LISTS.iter().find(|name| message.fields(name).next().is_some()) {
        return Some(format!("the message comes from a mailing list ({name})"));
    }
    let precedence = message.text_of("precedence").unwrap_or_default().to_ascii_lowercase();
    if ["bulk", "list", "junk"].contains(&precedence.as_str()) {
        return Some(format!("the message is sent to many (Precedence: {precedence})"));
    }
    const RECIPIENTS: [&str; 6] = ["to", "cc", "bcc", "resent-to", "resent-cc", "resent-bcc"];
    let is_named = RECIPIENTS.iter().flat_map(|name| message.fields(name)).any(|field| {
        address::of_field(field.raw_value())
            .iter()
            .any(|(local, domain)| is_own(&format!("{local}@{domain}")))
    });
    if !is_named {
        return Some("no address of the account is in To, Cc or Bcc: name it with :addresses".into());
    }
    (seconds != Some(0) && context.was_answered(key, sender, seconds))
        .then(|| format!("{sender} had this reply already"))
}

/// RFC 5435 §3.
pub(crate) fn notify(machine: &mut Machine<'_>, notify: &Notify) -> Result<(), Fault> {
    let method = machine.text(&notify.method)?.into_owned();
    let mailto = crate::notify::mailto(&method).map_err(Fault)?;
    let importance = match machine.optional(notify.importance.as_ref())?.as_deref() {
        Some("1") => 1,
        Some("3") => 3,
        None | Some("2") => 2,
        Some(other) => {
            return Err(Fault(format!("\"{other}\" is not an importance: write \"1\", \"2\" or \"3\"")));
        }
    };
    let from = machine.optional(notify.from.as_ref())?;
    if let Some(from) = &from
        && address::single(from).is_none()
    {
        return Err(Fault(format!("\"{from}\" is not an address for the notification to be from")));
    }
    let effect = Notification {
        from,
        importance,
        options: machine.texts(&notify.options)?,
        message: machine.optional(notify.message.as_ref())?,
        fcc: copy_to(machine, notify.fcc.as_ref())?,
        method,
        mailto,
    };
    // RFC 5436 §2.7.1: a notification about an automatic message could go round and round.
    let automatic = machine
        .text_of("auto-submitted")?
        .is_some_and(|value| value.trim().to_ascii_lowercase().starts_with("auto-notified"));
    if automatic {
        machine.results.note("no notification about a notification".into());
        return Ok(());
    }
    machine.results.notify(Effect::Notify(Box::new(effect)))
}
