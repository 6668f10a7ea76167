//! Header fields known by number, which of them are kept in a summary, and masks that select
//! fields.
//!
//! Numbers are part of the stored form: append to the table, never reorder it. Sixty-three fit
//! besides 0, which means any other name.

/// Number of a well-known header field; 0 is any other field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FieldId(u8);

macro_rules! known_fields {
    ($($constant:ident = $number:literal $name:literal,)*) => {
        #[allow(missing_docs)]
        impl FieldId {
            $(pub const $constant: FieldId = FieldId($number);)*
        }
        /// Names by number; number 0 has none.
        const NAMES: &[&str] = &["", $($name,)*];
        /// The table is dense: each number is the place of its name.
        const _: () = { let mut next = 1; $(assert!($number == next); next += 1;)* assert!(next <= 64); };
    };
}

known_fields! {
    DATE = 1 "date", FROM = 2 "from", SENDER = 3 "sender", REPLY_TO = 4 "reply-to", TO = 5 "to", CC = 6 "cc",
    BCC = 7 "bcc", SUBJECT = 8 "subject", MESSAGE_ID = 9 "message-id", IN_REPLY_TO = 10 "in-reply-to",
    REFERENCES = 11 "references", MIME_VERSION = 12 "mime-version", CONTENT_TYPE = 13 "content-type",
    CONTENT_TRANSFER_ENCODING = 14 "content-transfer-encoding", CONTENT_DISPOSITION = 15 "content-disposition",
    CONTENT_LANGUAGE = 16 "content-language", CONTENT_ID = 17 "content-id",
    CONTENT_DESCRIPTION = 18 "content-description", CONTENT_LOCATION = 19 "content-location",
    CONTENT_MD5 = 20 "content-md5", COMMENTS = 21 "comments", KEYWORDS = 22 "keywords", LIST_ID = 23 "list-id",
    LIST_POST = 24 "list-post", LIST_HELP = 25 "list-help", LIST_ARCHIVE = 26 "list-archive",
    LIST_OWNER = 27 "list-owner", LIST_SUBSCRIBE = 28 "list-subscribe", LIST_UNSUBSCRIBE = 29 "list-unsubscribe",
    LIST_UNSUBSCRIBE_POST = 30 "list-unsubscribe-post", RETURN_PATH = 31 "return-path",
    DELIVERED_TO = 32 "delivered-to", X_PRIORITY = 33 "x-priority", PRIORITY = 34 "priority",
    IMPORTANCE = 35 "importance", X_MSMAIL_PRIORITY = 36 "x-msmail-priority", X_MAILER = 37 "x-mailer",
    USER_AGENT = 38 "user-agent", ORGANIZATION = 39 "organization", AUTO_SUBMITTED = 40 "auto-submitted",
    PRECEDENCE = 41 "precedence", DISPOSITION_NOTIFICATION_TO = 42 "disposition-notification-to",
    RETURN_RECEIPT_TO = 43 "return-receipt-to", ERRORS_TO = 44 "errors-to", RESENT_DATE = 45 "resent-date",
    RESENT_FROM = 46 "resent-from", RESENT_TO = 47 "resent-to", RESENT_CC = 48 "resent-cc",
    RESENT_MESSAGE_ID = 49 "resent-message-id", NEWSGROUPS = 50 "newsgroups", FOLLOWUP_TO = 51 "followup-to",
    THREAD_TOPIC = 52 "thread-topic", THREAD_INDEX = 53 "thread-index", X_SPAM_FLAG = 54 "x-spam-flag",
    X_SPAM_STATUS = 55 "x-spam-status", X_LABEL = 56 "x-label", LINES = 57 "lines",
    MAIL_FOLLOWUP_TO = 58 "mail-followup-to", X_MOZILLA_STATUS = 59 "x-mozilla-status",
    RECEIVED = 60 "received", DKIM_SIGNATURE = 61 "dkim-signature",
    AUTHENTICATION_RESULTS = 62 "authentication-results", X_RECEIVED = 63 "x-received",
}

/// Longest well-known name.
const NAME_LEN_MAX: usize = 27;
/// More names than this of one length there are not; the table below fails to compile otherwise.
const SAME_LEN_MAX: usize = 12;

/// Numbers by length of the name, filled up with 0.
static BY_LEN: [[u8; SAME_LEN_MAX]; NAME_LEN_MAX + 1] = {
    let mut table = [[0; SAME_LEN_MAX]; NAME_LEN_MAX + 1];
    let mut number = 1;
    while number < NAMES.len() {
        let len = NAMES[number].len();
        let mut slot = 0;
        while table[len][slot] != 0 {
            slot += 1;
        }
        table[len][slot] = number as u8;
        number += 1;
    }
    table
};

impl FieldId {
    /// The id of any field without a number.
    pub const OTHER: FieldId = FieldId(0);

    /// The number of the field with this name, in any case.
    pub fn of(name: &[u8]) -> FieldId {
        let Some(numbers) = BY_LEN.get(name.len()) else { return Self::OTHER };
        for &number in numbers {
            if number == 0 {
                break;
            }
            if NAMES.get(number as usize).is_some_and(|known| known.as_bytes().eq_ignore_ascii_case(name)) {
                return FieldId(number);
            }
        }
        Self::OTHER
    }

    /// The number as it is stored.
    pub(crate) const fn number(self) -> u8 {
        self.0
    }

    /// The field's bit in a mask.
    pub(crate) const fn bit(self) -> u64 {
        1 << (self.0 & 63)
    }

    /// Whether the field is a trace that grows with every hop and that listings do not request.
    const fn is_bulky(self) -> bool {
        matches!(
            self,
            Self::RECEIVED | Self::DKIM_SIGNATURE | Self::AUTHENTICATION_RESULTS | Self::X_RECEIVED
        )
    }
}

/// Beginnings of other names that are traces or machine notes: bulky, and requested by no listing.
const BULKY: &[&str] = &[
    "arc-",
    "autocrypt",
    "dkim-",
    "domainkey-",
    "face",
    "received-spf",
    "x-amp-",
    "x-barracuda-",
    "x-cse-",
    "x-csa-",
    "x-exchange-",
    "x-face",
    "x-forefront-",
    "x-gm-",
    "x-google-",
    "x-ironport-",
    "x-mailgun-",
    "x-mc-",
    "x-microsoft-",
    "x-mimecast-",
    "x-ms-",
    "x-originatororg",
    "x-proofpoint-",
    "x-sg-",
    "x-spam-checker-",
    "x-spam-report",
    "x-ses-",
    "x-virus-",
];

/// Largest field that is kept: with its 16 KiB a list of some 400 addresses.
pub(crate) const FIELD_KEPT_MAX: usize = 16 * 1024;

/// Whether a field of this name and length is kept in the summary.
pub(crate) fn is_kept(id: FieldId, name: &[u8], len: usize) -> bool {
    let is_bulky_other = || {
        BULKY.iter().any(|b| name.get(..b.len()).is_some_and(|head| head.eq_ignore_ascii_case(b.as_bytes())))
    };
    len <= FIELD_KEPT_MAX
        && name.len() <= 255
        && !id.is_bulky()
        && (id != FieldId::OTHER || !is_bulky_other())
}

/// One bit out of 64 for a name without a number: shows cheaply that a field is surely not among
/// those left out.
pub(crate) fn other_name_bit(name: &[u8]) -> u64 {
    let hash = name.iter().fold(0x811c_9dc5_u32, |hash, byte| {
        (hash ^ u32::from(byte.to_ascii_lowercase())).wrapping_mul(0x0100_0193)
    });
    1 << ((hash ^ (hash >> 15)) & 63)
}

/// A compiled list of header field names, as in `HEADER.FIELDS (DATE FROM)`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FieldMask {
    /// Bits of wanted numbers; bit 0 if `others` is not empty.
    pub(crate) known: u64,
    /// Wanted names without a number, in lower case and in order.
    pub(crate) others: Vec<Box<[u8]>>,
    /// The [`other_name_bit`]s of the fields without a number.
    pub(crate) other_bits: u64,
    /// Whether the names are those not wanted (`HEADER.FIELDS.NOT`).
    pub(crate) is_negated: bool,
}

impl FieldMask {
    /// The fields of these names. RFC 9051 §6.4.5.1: HEADER.FIELDS.
    pub fn only<N: AsRef<[u8]>>(names: impl IntoIterator<Item = N>) -> Self {
        let mut mask = FieldMask::default();
        for name in names {
            let name = name.as_ref();
            let id = FieldId::of(name);
            mask.known |= id.bit();
            if id == FieldId::OTHER {
                mask.others.push(name.to_ascii_lowercase().into());
                mask.other_bits |= other_name_bit(name);
            }
        }
        // A client may list a thousand names, and a header may have ten thousand fields.
        mask.others.sort_unstable();
        mask.others.dedup();
        mask
    }

    /// The mask of all fields but those of these names. RFC 9051 §6.4.5.1: HEADER.FIELDS.NOT.
    pub fn all_but<N: AsRef<[u8]>>(names: impl IntoIterator<Item = N>) -> Self {
        FieldMask { is_negated: true, ..Self::only(names) }
    }

    /// Comparisons of one look-up of a name: few, however many names are listed.
    pub fn comparisons(&self) -> u64 {
        1 + u64::from(self.others.len().checked_ilog2().unwrap_or(0))
    }

    /// Whether a field of this name is selected.
    pub fn selects_name(&self, name: &[u8]) -> bool {
        let id = FieldId::of(name);
        let is_named = self.known & id.bit() != 0 && (id != FieldId::OTHER || self.names_other(name));
        is_named != self.is_negated
    }

    /// Whether a name without a number is in the list.
    pub(crate) fn names_other(&self, name: &[u8]) -> bool {
        let lower = || name.iter().map(u8::to_ascii_lowercase);
        self.others.binary_search_by(|other| other.iter().copied().cmp(lower())).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_has_its_number_in_any_case() {
        for (number, name) in NAMES.iter().enumerate().skip(1) {
            assert_eq!(FieldId::of(name.as_bytes()).number() as usize, number, "{name}");
            assert_eq!(FieldId::of(name.to_ascii_uppercase().as_bytes()).number() as usize, number);
            assert!(name.len() <= NAME_LEN_MAX);
        }
        assert_eq!(FieldId::of(b""), FieldId::OTHER);
        assert_eq!(FieldId::of(b"x-unheard-of"), FieldId::OTHER);
    }

    #[test]
    fn masks_select_by_name() {
        let mask = FieldMask::only(["Date", "X-Own"]);
        assert!(mask.selects_name(b"DATE") && mask.selects_name(b"x-own"));
        assert!(!mask.selects_name(b"x-other") && !mask.selects_name(b"from"));
        let not = FieldMask::all_but(["Date", "X-Own"]);
        assert!(!not.selects_name(b"date") && !not.selects_name(b"X-OWN"));
        assert!(not.selects_name(b"X-Other") && not.selects_name(b"from"));
    }

    #[test]
    fn traces_are_left_out() {
        assert!(!is_kept(FieldId::of(b"Received"), b"Received", 10));
        assert!(!is_kept(FieldId::OTHER, b"X-MS-Exchange-Whatever", 10));
        assert!(!is_kept(FieldId::OTHER, b"ARC-Seal", 10));
        assert!(is_kept(FieldId::OTHER, b"X-Own", 10));
        assert!(!is_kept(FieldId::OTHER, b"X-Own", FIELD_KEPT_MAX + 1));
    }
}
