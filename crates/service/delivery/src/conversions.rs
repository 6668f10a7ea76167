//! The message that clients see of a body in another form: see [`posthaste_store::form`].
//!
//! A conversion always gives the same bytes, and its header has their hash. A program whose
//! conversion gave others would make summaries false, so it serves an error instead.

use async_trait::async_trait;
use bytes::Bytes;
use posthaste_net::{ByteBudget, Holder};
use posthaste_store::form::{Form, FormHeader};
use posthaste_store::{Serve, StoreError};
use posthaste_tnef::{Outcome, conversion_memory_max, convert, enrich, restore};
use sha2::{Digest, Sha256};

use crate::memory::{SUMMARY_WITHIN, one_share};

/// Converts bodies for the clients of a store. Its memory is that of summaries.
pub struct Conversions {
    budget: ByteBudget,
}

impl Conversions {
    /// Conversions that take their memory from a budget that deliveries may share.
    pub fn new(budget: ByteBudget) -> Self {
        Self { budget: one_share(budget) }
    }
}

#[async_trait]
impl Serve for Conversions {
    async fn serve(&self, stored: Bytes) -> Result<Bytes, StoreError> {
        if is_plain(&stored) {
            return Ok(FormHeader::content(&stored));
        }
        let permit = self.budget.begin(Holder::Account([0; 16]));
        let wanted = conversion_memory_max(stored.len()).min(self.budget.largest());
        permit.grow_to_within(wanted, SUMMARY_WITHIN).await.map_err(|_| StoreError::Busy)?;
        permit.complete();
        posthaste_metrics::count(posthaste_metrics::Counter::Conversions, 1);
        let session = posthaste_metrics::current();
        let work = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            session.run(|| served(&stored))
        });
        let served =
            work.await.map_err(|error| StoreError::Corrupt(format!("a conversion failed: {error}")))?;
        served.map_err(StoreError::Corrupt)
    }
}

fn is_plain(stored: &[u8]) -> bool {
    FormHeader::of(stored).is_none_or(|header| header.form == Form::Plain)
}

/// The message that clients see of a stored body, or why it cannot be shown. Takes as long as a
/// conversion.
pub(crate) fn served(stored: &Bytes) -> Result<Bytes, String> {
    let Some(header) = FormHeader::of(stored) else { return Ok(stored.clone()) };
    let content = FormHeader::content(stored);
    let served = match header.form {
        Form::Plain => return Ok(content),
        Form::Rich => match convert(&content) {
            Ok(Outcome::Converted(mime)) => Bytes::from(mime),
            Ok(_) => return Err("its rich part is not found".to_owned()),
            Err(why) => return Err(format!("its rich part is damaged: {why}")),
        },
        Form::Enriched => match restore(&content, header.served_len as usize) {
            Ok(mime) => Bytes::from(mime),
            Err(why) => return Err(format!("its rich form is damaged: {why}")),
        },
        Form::WithOriginal => content.slice(..content.len().min(header.served_len as usize)),
        Form::Unknown(number) => return Err(format!("form {number} is unknown to this program")),
    };
    match header_of(header.form, &served) {
        Some(again) if again == header => Ok(served),
        _ => Err("its conversion is not the one that was summarised".to_owned()),
    }
}

/// The body of a message with the rich one that it was made of.
pub(crate) fn with_original(served: &[u8], original: &[u8]) -> Option<Bytes> {
    Some(header_of(Form::WithOriginal, served)?.before(&[served, original].concat()))
}

/// The rich message as it was sent, if a stored body has it.
pub(crate) fn original_of(stored: &Bytes) -> Option<Bytes> {
    let header = FormHeader::of(stored)?;
    let content = FormHeader::content(stored);
    match header.form {
        Form::Rich => Some(content),
        Form::WithOriginal => Some(content.slice(content.len().min(header.served_len as usize)..)),
        _ => None,
    }
}

/// The body of a message that came as MIME, in rich form; `None` if it cannot have one.
pub(crate) fn enriched(served: &[u8]) -> Option<Bytes> {
    let rich = enrich(served)?;
    Some(header_of(Form::Enriched, served)?.before(&rich))
}

/// A message as it is stored where it needs no other form. Bytes that look like a header are no
/// header: they get one.
pub(crate) fn as_plain(served: Bytes) -> Bytes {
    match FormHeader::of(&served).and_then(|_| header_of(Form::Plain, &served)) {
        Some(header) => header.before(&served),
        None => served,
    }
}

/// The header for a body in another form, of which clients see these bytes; `None` over 4 GiB.
pub(crate) fn header_of(form: Form, served: &[u8]) -> Option<FormHeader> {
    let mut digest = [0; 8];
    digest.copy_from_slice(Sha256::digest(served).get(..8)?);
    Some(FormHeader { form, served_len: u32::try_from(served.len()).ok()?, digest })
}

/// The summary of a stored body, in whichever form. Engines call it where a summary was lost. A
/// body that cannot be shown has an empty one.
pub fn summarize_stored(stored: &[u8]) -> Vec<u8> {
    if FormHeader::of(stored).is_none() {
        return crate::summarize(stored);
    }
    match served(&Bytes::copy_from_slice(stored)) {
        Ok(served) => crate::summarize(&served),
        Err(why) => {
            tracing::error!(why, "a stored body cannot be converted");
            Vec::new()
        }
    }
}
