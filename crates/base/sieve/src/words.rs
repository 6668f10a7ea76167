//! Effects in plain words, for people who try a script out.

use std::fmt;

use crate::effect::{Effect, Outcome, Target};

impl fmt::Display for Outcome {
    /// One line for each effect, then notes and the error.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for effect in &self.effects {
            writeln!(f, "{effect}")?;
        }
        for note in &self.notes {
            writeln!(f, "note: {note}")?;
        }
        match &self.error {
            Some(error) => writeln!(f, "error: {error}; the message is kept"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Effect::Keep { flags, version, is_implicit } => {
                f.write_str("keep the message in the inbox")?;
                write_flags(f, flags)?;
                write_version(f, *version)?;
                f.write_str(if *is_implicit { " (no command decided otherwise)" } else { "" })
            }
            Effect::FileInto { target, version } => {
                f.write_str("store the message in ")?;
                write_target(f, target)?;
                write_version(f, *version)
            }
            Effect::Redirect { address, version } => {
                write!(f, "send the message on to {address}")?;
                write_version(f, *version)
            }
            Effect::Discard => f.write_str("discard the message"),
            Effect::Reject { reason, is_strict } => {
                let how = if *is_strict { "by a protocol error" } else { "" };
                write!(
                    f,
                    "refuse the message {how}{}{}",
                    if how.is_empty() { "with: " } else { " with: " },
                    one_line(reason)
                )
            }
            Effect::Vacation(reply) => {
                write!(
                    f,
                    "answer {} with subject \"{}\": {}",
                    reply.to,
                    one_line(&reply.subject),
                    one_line(&reply.reason)
                )?;
                write_copy(f, reply.fcc.as_ref())
            }
            Effect::Notify(notification) => {
                write!(
                    f,
                    "notify {} (importance {})",
                    notification.mailto.to.join(", "),
                    notification.importance
                )?;
                if let Some(message) = &notification.message {
                    write!(f, ": {}", one_line(message))?;
                }
                write_copy(f, notification.fcc.as_ref())
            }
            Effect::Remember { key, seconds } => {
                write!(f, "remember {}", one_line(key))?;
                match seconds {
                    Some(seconds) => write!(f, " for {seconds} seconds"),
                    None => Ok(()),
                }
            }
        }
    }
}

fn write_target(f: &mut fmt::Formatter<'_>, target: &Target) -> fmt::Result {
    write!(f, "mailbox \"{}\"", target.mailbox)?;
    if let Some(id) = &target.mailbox_id {
        write!(f, ", or rather the one with id {id}")?;
    }
    if let Some(special_use) = &target.special_use {
        write!(f, ", or rather the one for {special_use}")?;
    }
    if target.create {
        f.write_str(", made if it does not exist")?;
    }
    write_flags(f, &target.flags)
}

fn write_flags(f: &mut fmt::Formatter<'_>, flags: &[String]) -> fmt::Result {
    if flags.is_empty() { Ok(()) } else { write!(f, ", with flags {}", flags.join(" ")) }
}

fn write_version(f: &mut fmt::Formatter<'_>, version: usize) -> fmt::Result {
    if version == 0 { Ok(()) } else { f.write_str(", with its edited header") }
}

fn write_copy(f: &mut fmt::Formatter<'_>, copy: Option<&Target>) -> fmt::Result {
    match copy {
        None => Ok(()),
        Some(target) => {
            f.write_str("; a copy goes to ")?;
            write_target(f, target)
        }
    }
}

/// Text without line ends, at most some 200 characters of it.
fn one_line(text: &str) -> String {
    let line: String = text.trim().chars().take(200).map(|c| if c.is_control() { ' ' } else { c }).collect();
    line.replace("  ", " ")
}
