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

/// The treatment of rich originals for which the new form has no place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// Messages with such originals stay as they are.
    Refuse,
    /// The originals are discarded.
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
    GiveUp(Twin),
    /// Clients see other bytes.
    Renumber(Twin),
}

/// The message that replaces another one.
pub(crate) struct Twin {
    pub(crate) shape: Shape,
    pub(crate) stored: Bytes,
    /// The bytes that clients see.
    pub(crate) served: Bytes,
}

impl BodyChange {
    /// Compresses the new bodies or not, as the server stores new ones.
    pub(crate) fn compressed(self, stored: &Bytes, compress: Compression) -> Self {
        let with = |stored: Bytes| recompressed(&stored, compress).unwrap_or(stored);
        let twin = |twin: Twin| Twin { stored: with(twin.stored), ..twin };
        match self {
            Self::Stays => recompressed(stored, compress).map_or(Self::Stays, Self::Recode),
            Self::WouldLose => Self::WouldLose,
            Self::TooLarge => Self::TooLarge,
            Self::Recode(new) => Self::Recode(with(new)),
            Self::GiveUp(new) => Self::GiveUp(twin(new)),
            Self::Renumber(new) => Self::Renumber(twin(new)),
        }
    }

    /// The change, or a new message where the engine does not store this body in another form. The
    /// compression alone is not worth a new UID.
    pub(crate) fn or_new_message(self, stored: &[u8], recodes: Recodes) -> Self {
        if recodes == Recodes::Everything {
            return self;
        }
        match self {
            Self::GiveUp(twin) => Self::Renumber(twin),
            Self::Recode(new) if recodes.fits(stored.len() as u64, new.len() as u64) => Self::Recode(new),
            Self::Recode(new) if is_as_seen(stored) && is_as_seen(&new) => Self::Stays,
            Self::Recode(new) => match served(&new) {
                Ok(served) => Self::Renumber(Twin { shape: shape_of(&new), stored: new, served }),
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

/// Whether a body is ordinary mail that has no other form in this format. Takes no memory but that
/// of what clients see.
pub(crate) fn stays(stored: &Bytes, to: Format) -> bool {
    to != Format::Rich && is_as_seen(stored) && served(stored).is_ok_and(|seen| !might_be_rich(&seen))
}

/// The body of a rich message as MIME that keeps its original, which others need; `None` if it is
/// stored so.
pub(crate) fn beside_original(stored: &Bytes, served: &[u8]) -> Option<Bytes> {
    let form = FormHeader::of(stored)?.form;
    original_of(stored).filter(|_| form != Form::WithOriginal).and_then(|sent| with_original(served, &sent))
}

/// Whether a program before this one may have shown other bytes of a body.
pub(crate) fn may_be_superseded(stored: &[u8]) -> bool {
    FormHeader::of(stored).is_some_and(|header| matches!(header.form, Form::Rich | Form::Unconverted))
}

/// Whether one did, by the number of its conversion.
pub(crate) fn is_superseded(stored: &[u8]) -> bool {
    FormHeader::of(stored).is_some_and(|header| has_other_number(&header))
}

/// Decides the change of a stored body of this account.
pub(crate) fn body_change(
    stored: &Bytes,
    account: &str,
    (to, loss): (FormatSettings, Loss),
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
        if shape == Shape::Mime && loss == Loss::Refuse {
            return Ok(BodyChange::WouldLose);
        }
        return Ok(BodyChange::Renumber(Twin::of(&rich, shape, &seen)));
    }
    let new = match (form, to.format) {
        (Form::Plain, Format::Rich) => enriched(&seen),
        (Form::Rich, Format::Mime) if to.keep_original => {
            original_of(stored).and_then(|original| with_original(&seen, &original))
        }
        (Form::Rich, Format::Mime) if loss == Loss::Refuse => return Ok(BodyChange::WouldLose),
        (Form::Rich, Format::Mime) | (Form::Enriched, Format::Mime | Format::Keep) => {
            Some(as_converted(seen.clone()))
        }
        (Form::WithOriginal, Format::Mime) if !to.keep_original && loss == Loss::Allow => {
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
            BodyChange::GiveUp(Twin { shape: Shape::Mime, stored: new, served: seen })
        }
        _ => BodyChange::Recode(new),
    })
}

/// The message that replaces one whose MIME an earlier program made of this rich body. Its
/// original is wanted in the place of that MIME, and gives other bytes now (RFC 9051 §2.3.1.1).
/// `None` if it gives none.
fn again_by_original(rich: &Bytes, account: &str, len_max: u64) -> Option<Twin> {
    let sent = FormHeader::content(rich);
    as_mime_blocking(account, &sent, len_max).map(|rich| Twin::of(&rich, Shape::AsSent, &sent))
}

/// A rich message that an earlier program converted otherwise, so that nobody can read it. Its
/// original is never given up here: only a later run can compare what it gives up.
fn again(stored: &Bytes, account: &str, to: FormatSettings, len_max: u64) -> Twin {
    let sent = FormHeader::content(stored);
    let shape = match Shape::of_rich(to) {
        Shape::MimeWithOriginal => Shape::MimeWithOriginal,
        _ => Shape::AsSent,
    };
    match as_mime_blocking(account, &sent, len_max) {
        Some(rich) => Twin::of(&rich, shape, &sent),
        None => Twin { shape: Shape::AsSent, stored: as_plain(sent.clone()), served: sent },
    }
}

impl Twin {
    fn of(rich: &Rich, shape: Shape, sent: &[u8]) -> Self {
        let stored = rich.stored(shape, sent).unwrap_or_else(|| as_plain(rich.mime.clone()));
        Self { shape, stored, served: rich.mime.clone() }
    }
}
