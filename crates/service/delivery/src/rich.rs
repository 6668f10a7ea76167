//! Rich mail (TNEF, `winmail.dat`) for accounts that want MIME: converted once, before it is
//! summarised and stored.
//!
//! What cannot be converted is stored as sent, and the log says why. Mail that is signed or
//! encrypted is stored as sent in every format. APPEND is no delivery: RFC 9051 §6.3.12 stores the
//! very bytes that the client sent.

use bytes::Bytes;
use posthaste_directory::{Account, Format, Recipient};
use posthaste_net::Holder;
use posthaste_store::IncomingMessage;
use posthaste_tnef::{Outcome, conversion_memory_max, convert, might_be_rich};

use crate::deliver::{Delivery, SUMMARY_WITHIN};
use crate::error::DeliveryError;

/// A message in the forms in which its recipients keep it. All who keep it in the same form share
/// one body.
#[derive(Debug)]
pub struct Forms {
    /// The form of most.
    main: IncomingMessage,
    /// The form of accounts that want MIME, if it is another.
    mime: Option<IncomingMessage>,
}

impl Forms {
    /// The message as an account keeps it.
    pub fn of(&self, account: &Account) -> &IncomingMessage {
        match (account.format, &self.mime) {
            (Format::Mime, Some(mime)) => mime,
            _ => &self.main,
        }
    }
}

impl Delivery {
    /// A message ready for the mailboxes of these recipients: see [`Delivery::incoming`].
    pub async fn forms(&self, bytes: Bytes, recipients: &[Recipient]) -> Result<Forms, DeliveryError> {
        self.check_size(bytes.len())?;
        let wants_mime = |recipient: &&Recipient| recipient.account.format == Format::Mime;
        let converted = match recipients.iter().find(wants_mime) {
            Some(first) => self.as_mime(&first.account.name, &bytes).await?,
            None => None,
        };
        let Some(converted) = converted else {
            return Ok(Forms { main: self.incoming(bytes, Vec::new(), None).await?, mime: None });
        };
        let mime = self.incoming(converted, Vec::new(), None).await?;
        if recipients.iter().all(|recipient| wants_mime(&recipient)) {
            return Ok(Forms { main: mime, mime: None });
        }
        Ok(Forms { main: self.incoming(bytes, Vec::new(), None).await?, mime: Some(mime) })
    }

    /// A message as MIME, if it is rich and can be converted.
    async fn as_mime(&self, account: &str, bytes: &Bytes) -> Result<Option<Bytes>, DeliveryError> {
        if !might_be_rich(bytes) {
            return Ok(None);
        }
        let wanted = conversion_memory_max(bytes.len());
        let most = self.summaries.largest();
        if wanted > most {
            tracing::warn!(
                account,
                bytes = bytes.len(),
                "rich mail is stored as sent: its conversion may take {wanted} bytes, and `limits.summary_bytes` allows {most}"
            );
            return Ok(None);
        }
        let permit = self.summaries.begin(Holder::Account([0; 16]));
        permit.grow_to_within(wanted, SUMMARY_WITHIN).await.map_err(|_| DeliveryError::Busy)?;
        permit.complete();
        let (limit, name, bytes) = (self.options().message_len_max, account.to_owned(), bytes.clone());
        // Always on another thread: text in a small message may expand to megabytes.
        let work = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            as_mime_blocking(&name, &bytes, limit)
        });
        Ok(work.await.unwrap_or_else(|error| {
            tracing::error!(account, %error, "rich mail is stored as sent: its conversion failed");
            None
        }))
    }

    /// A message in the form in which an account keeps it, on this thread, which may block.
    pub(crate) fn in_format_blocking(&self, format: Format, account: &str, bytes: Bytes) -> Bytes {
        match format {
            Format::Mime => {
                as_mime_blocking(account, &bytes, self.options().message_len_max).unwrap_or(bytes)
            }
            Format::Rich | Format::Keep => bytes,
        }
    }
}

fn as_mime_blocking(account: &str, bytes: &[u8], len_max: u64) -> Option<Bytes> {
    match convert(bytes) {
        Ok(Outcome::Converted(mime)) if mime.len() as u64 <= len_max => Some(Bytes::from(mime)),
        Ok(Outcome::Converted(mime)) => {
            let len = mime.len();
            tracing::warn!(
                account,
                "rich mail is stored as sent: as MIME it has {len} bytes, and `limits.message_size` is {len_max}"
            );
            None
        }
        Ok(Outcome::Sealed) => {
            tracing::debug!(account, "rich mail is stored as sent: it is signed or encrypted");
            None
        }
        Ok(Outcome::Ordinary) => None,
        Err(why) => {
            tracing::warn!(account, %why, "rich mail is stored as sent: it is damaged");
            None
        }
    }
}
