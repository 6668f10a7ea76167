//! The summary of a message of another store, which may be forged.

use bytes::Bytes;
use posthaste_store::form::is_body_of;
use posthaste_store::{Row, StoreError};

use crate::conversions::{Unserved, served};

/// The summary of a stored body, made of it alone, for a [`posthaste_store::Verifier`].
///
/// [`StoreError::Corrupt`] if the row names another size than clients see: FETCH sends the size
/// of the row before it reads the body. A message that an earlier program showed otherwise gets a
/// new UID when somebody reads it ([`crate::Renewals`]). It has no summary until then.
pub fn verified_summary(stored: &Bytes, row: &Row) -> Result<Bytes, StoreError> {
    let wrong = |why: &str| StoreError::Corrupt(format!("the message of UID {}: {why}", row.uid()));
    if !is_body_of(stored, stored.len() as u64, row) {
        return Err(wrong("its row has another size"));
    }
    let seen = match served(stored) {
        Ok(seen) => seen,
        Err(Unserved::Superseded(_)) => return Ok(Bytes::new()),
        Err(Unserved::Damaged(why)) => return Err(wrong(&why)),
    };
    // The RFC822.SIZE of a message without items is in its summary.
    if !row.lacks_items() && seen.len() as u64 != u64::from(row.size()) {
        return Err(wrong("clients see another size than its row has"));
    }
    Ok(crate::summarize(&seen).into())
}

#[cfg(test)]
mod tests {
    use posthaste_mail_model::{FlagSet, ModSeq, Uid};
    use posthaste_store::form::{Form, FormHeader};

    use super::*;
    use crate::summarize;

    const MAIL: &[u8] = b"Subject: x\r\n\r\ntext\r\n";

    fn row(size: u32) -> Row {
        Row::new(Uid::MIN, size, 1, FlagSet::EMPTY, ModSeq::ZERO)
    }

    #[test]
    fn a_summary_is_that_of_the_message_which_clients_see() {
        let mail = Bytes::from_static(MAIL);
        let row = row(MAIL.len() as u32);
        assert_eq!(verified_summary(&mail, &row).unwrap(), summarize(MAIL));
        let plain = FormHeader { form: Form::Plain, served_len: MAIL.len() as u32, digest: [0; 8] };
        assert_eq!(verified_summary(&plain.before(MAIL), &row).unwrap(), summarize(MAIL));
    }

    /// The summary that it has is of other bytes.
    #[test]
    fn a_message_that_an_earlier_program_showed_otherwise_has_no_summary() {
        for (form, without_items) in [(Form::Rich, 0), (Form::Unconverted, Row::WITHOUT_ITEMS)] {
            let stored = FormHeader { form, served_len: MAIL.len() as u32, digest: [0; 8] }.before(MAIL);
            let summary = verified_summary(&stored, &row(MAIL.len() as u32 + without_items)).unwrap();
            assert!(summary.is_empty(), "{form:?}");
        }
    }

    /// A client would take what follows a literal of a forged size for a response.
    #[test]
    fn a_row_or_a_header_with_another_size_is_damage() {
        let mail = Bytes::from_static(MAIL);
        let refused = |stored: &Bytes, size: u32| {
            let outcome = verified_summary(stored, &row(size));
            matches!(outcome, Err(StoreError::Corrupt(_)))
        };
        assert!(refused(&mail, 3));
        let header = |form| FormHeader { form, served_len: 3, digest: [0; 8] }.before(MAIL);
        for form in [Form::Plain, Form::WithOriginal, Form::Enriched, Form::Compressed, Form::Unknown(200)] {
            assert!(refused(&header(form), 3), "{form:?}");
        }
    }
}
