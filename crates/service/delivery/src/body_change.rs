//! How a stored body changes when it is converted to a format: see [`crate::convert`].

use bytes::Bytes;
use posthaste_directory::{Format, FormatSettings};
use posthaste_store::Recodes;
use posthaste_store::compressed::Compression;
use posthaste_store::form::{Form, FormHeader};
use posthaste_tnef::might_be_rich;

use crate::conversions::{
    Unserved, as_converted, as_plain, enriched, has_other_number, header_of, is_marked, original_of,
    recompressed, served, with_original,
};
use crate::rich::{Rich, Shape, as_mime_blocking};

/// What happens to a message whose rich original the new form cannot hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LossPolicy {
    /// The message stays as it is.
    Refuse,
    /// The message is converted, and its original is discarded.
    Allow,
}

/// The change of a stored body.
pub(crate) enum BodyChange {
    Stays,
    /// The rich original would be lost.
    WouldLose,
    /// The conversion may take more memory than there ever is.
    TooLarge,
    /// Clients see the same.
    Recode(Bytes),
    /// Clients see the same, but the rich original is lost.
    DropOriginal(Replacement),
    /// Clients see other bytes.
    Renumber(Replacement),
}

/// The message that replaces another one.
pub(crate) struct Replacement {
    pub(crate) shape: Shape,
    pub(crate) stored: Bytes,
    /// The bytes that clients see.
    pub(crate) served: Bytes,
}

impl BodyChange {
    /// Compresses the new bodies or not, as the server stores new ones.
    pub(crate) fn compressed(self, stored: &Bytes, compress: Compression) -> Self {
        let with = |stored: Bytes| recompressed(&stored, compress).unwrap_or(stored);
        let with_body = |new: Replacement| Replacement { stored: with(new.stored), ..new };
        match self {
            Self::Stays => recompressed(stored, compress).map_or(Self::Stays, Self::Recode),
            Self::WouldLose => Self::WouldLose,
            Self::TooLarge => Self::TooLarge,
            Self::Recode(new) => Self::Recode(with(new)),
            Self::DropOriginal(new) => Self::DropOriginal(with_body(new)),
            Self::Renumber(new) => Self::Renumber(with_body(new)),
        }
    }

    /// The change, or a new message where the engine does not store this body in another form. The
    /// compression alone is not worth a new UID.
    pub(crate) fn or_new_message(self, stored: &[u8], recodes: Recodes) -> Self {
        if recodes == Recodes::Everything {
            return self;
        }
        match self {
            Self::DropOriginal(replacement) => Self::Renumber(replacement),
            Self::Recode(new) if recodes.fits(stored.len() as u64, new.len() as u64) => Self::Recode(new),
            Self::Recode(new) if is_as_seen(stored) && is_as_seen(&new) => Self::Stays,
            Self::Recode(new) => match served(&new) {
                Ok(served) => Self::Renumber(Replacement { shape: shape_of(&new), stored: new, served }),
                Err(_) => Self::Recode(new),
            },
            change => change,
        }
    }
}

/// The shape of a stored body.
fn shape_of(stored: &[u8]) -> Shape {
    match form_of(stored) {
        Form::Rich | Form::Unconverted => Shape::AsSent,
        Form::WithOriginal => Shape::MimeWithOriginal,
        Form::Enriched => Shape::Enriched,
        Form::Plain | Form::Compressed | Form::Unknown(_) => Shape::Mime,
    }
}

/// The form of a stored body.
fn form_of(stored: &[u8]) -> Form {
    FormHeader::of(stored).map_or(Form::Plain, |header| header.form)
}

/// Whether a body is stored as clients see it, compressed or not.
fn is_as_seen(stored: &[u8]) -> bool {
    matches!(form_of(stored), Form::Plain | Form::Compressed)
}

/// Whether a body is ordinary mail that has no other form in this format. The only memory that this
/// takes is for the bytes that clients see.
pub(crate) fn stays(stored: &Bytes, to: Format) -> bool {
    to != Format::Rich && is_as_seen(stored) && served(stored).is_ok_and(|seen| !might_be_rich(&seen))
}

/// A rich message as MIME with its original, which messages of others need. `None` if the body has
/// this form already, or has no original.
pub(crate) fn beside_original(stored: &Bytes, served: &[u8]) -> Option<Bytes> {
    let form = FormHeader::of(stored)?.form;
    original_of(stored).filter(|_| form != Form::WithOriginal).and_then(|sent| with_original(served, &sent))
}

/// Whether a program before this one may have shown other bytes of a body.
pub(crate) fn may_be_superseded(stored: &[u8]) -> bool {
    FormHeader::of(stored).is_some_and(|header| matches!(header.form, Form::Rich | Form::Unconverted))
}

/// Whether a program before this one showed other bytes of a body, by the number of its conversion.
pub(crate) fn is_superseded(stored: &[u8]) -> bool {
    FormHeader::of(stored).is_some_and(|header| has_other_number(&header))
}

/// Decides the change of a stored body of this account.
pub(crate) fn body_change(
    stored: &Bytes,
    account: &str,
    (to, loss): (FormatSettings, LossPolicy),
    len_max: u64,
) -> Result<BodyChange, String> {
    let form = form_of(stored);
    let seen = match (served(stored), form) {
        (Ok(seen), _) => seen,
        (Err(why), Form::Rich | Form::Unconverted) => {
            tracing::info!(account, %why, "rich mail is converted again and becomes a new message");
            return Ok(BodyChange::Renumber(again(stored, account, to, len_max)));
        }
        (Err(why), _) => return Err(why.to_string()),
    };
    // A message that cannot be converted is served as sent: it has no other form.
    let form = match form {
        Form::Compressed => Form::Plain,
        Form::Unconverted if seen != FormHeader::content(stored) => Form::Rich,
        form => form,
    };
    if form == Form::Plain
        && might_be_rich(&seen)
        && !is_marked(stored)
        && let Some(rich) = as_mime_blocking(account, &seen, len_max)
    {
        let shape = Shape::of_rich(to);
        if shape == Shape::Mime && loss == LossPolicy::Refuse {
            return Ok(BodyChange::WouldLose);
        }
        return Ok(BodyChange::Renumber(Replacement::of(&rich, shape, &seen)));
    }
    let new = match (form, to.format) {
        (Form::Plain, Format::Rich) => enriched(&seen),
        (Form::Rich, Format::Mime) if to.keep_original => {
            original_of(stored).and_then(|original| with_original(&seen, &original))
        }
        (Form::Rich, Format::Mime) if loss == LossPolicy::Refuse => return Ok(BodyChange::WouldLose),
        (Form::Rich, Format::Mime) | (Form::Enriched, Format::Mime | Format::Keep) => {
            Some(as_converted(seen.clone()))
        }
        (Form::WithOriginal, Format::Mime) if !to.keep_original && loss == LossPolicy::Allow => {
            Some(as_converted(seen.clone()))
        }
        (Form::WithOriginal, Format::Keep | Format::Rich) => {
            original_of(stored).and_then(|original| Some(header_of(Form::Rich, &seen)?.before(&original)))
        }
        _ => None,
    };
    match new {
        Some(new) => checked(new, seen, form, (account, len_max)),
        None => Ok(BodyChange::Stays),
    }
}

/// The change to this body, if clients see the same of it as before.
fn checked(
    new: Bytes,
    seen: Bytes,
    form: Form,
    (account, len_max): (&str, u64),
) -> Result<BodyChange, String> {
    match served(&new) {
        Ok(again) if again == seen => {}
        Err(Unserved::Superseded(why)) if form == Form::WithOriginal => {
            return again_by_original(&new, account, len_max).map(BodyChange::Renumber).ok_or(why);
        }
        Ok(_) => return Err("clients would see other bytes after its conversion".to_owned()),
        Err(why) => return Err(why.to_string()),
    }
    Ok(match (form, original_of(&new)) {
        (Form::Rich | Form::WithOriginal, None) => {
            BodyChange::DropOriginal(Replacement { shape: Shape::Mime, stored: new, served: seen })
        }
        _ => BodyChange::Recode(new),
    })
}

/// The replacement of a message with MIME that an earlier program made of this original. This
/// program makes other bytes of it, so the message needs a new UID (RFC 9051 §2.3.1.1). `None` if
/// the original cannot be converted.
fn again_by_original(rich: &Bytes, account: &str, len_max: u64) -> Option<Replacement> {
    let sent = FormHeader::content(rich);
    as_mime_blocking(account, &sent, len_max).map(|rich| Replacement::of(&rich, Shape::AsSent, &sent))
}

/// The replacement of a rich message that an earlier program converted to other bytes, so that this
/// one cannot serve it. It keeps the original: a later run may compare it, and then drop it.
fn again(stored: &Bytes, account: &str, to: FormatSettings, len_max: u64) -> Replacement {
    let sent = FormHeader::content(stored);
    let shape = match Shape::of_rich(to) {
        Shape::MimeWithOriginal => Shape::MimeWithOriginal,
        _ => Shape::AsSent,
    };
    match as_mime_blocking(account, &sent, len_max) {
        Some(rich) => Replacement::of(&rich, shape, &sent),
        None => Replacement { shape: Shape::AsSent, stored: as_plain(sent.clone()), served: sent },
    }
}

impl Replacement {
    fn of(rich: &Rich, shape: Shape, sent: &[u8]) -> Self {
        let stored = rich.stored(shape, sent).unwrap_or_else(|| as_plain(rich.mime.clone()));
        Self { shape, stored, served: rich.mime.clone() }
    }
}
