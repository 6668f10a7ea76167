//! Mail addresses in the one form in which they are compared and stored.
//!
//! Two spellings of one address become one text: the domain as lower-case A-labels
//! (`Bücher.example` is `xn--bcher-kva.example`), the local part composed (NFC) and in lower case.
//! RFC 5321 §2.4 lets a host treat local parts as case-sensitive, and advises against relying on
//! it. Like nearly every server, this one ignores case: `Ana@` and `ana@` are one person. An
//! account may also have a plain name without a domain.

use std::fmt;
use std::sync::Arc;

use unicode_normalization::UnicodeNormalization;

use crate::memory::{ARC_BYTES, allocated};

/// Octets of a local part. RFC 5321 §4.5.3.1.1 requires 64; twice that, because sub-addresses made
/// by programs are often longer. More would not fit the 400 bytes a directory record's name may
/// have.
const LOCAL_LEN_MAX: usize = 128;
/// Octets of a domain in A-labels: RFC 1035 §3.1 less the root.
const DOMAIN_LEN_MAX: usize = 253;
/// Octets of an A-label: RFC 1035 §2.3.4.
const LABEL_LEN_MAX: usize = 63;
/// A text that normalises to one within a limit has at most so many times the limit. Only
/// characters that normalising removes could make it longer.
const GROWTH_MAX: usize = 9;
/// The dots between labels (RFC 3490 §3.1).
const DOTS: [char; 4] = ['.', '\u{3002}', '\u{ff0e}', '\u{ff61}'];
/// The separator of `ana` and `lists` in `ana+lists@example.org` (RFC 5233 §1).
const DETAIL_SEPARATOR: char = '+';

/// A normalised address, or a plain user name. Clones share its text: a message may have a
/// thousand recipients.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    text: Arc<str>,
    /// Bytes of the local part in `text`.
    local_len: usize,
    /// The part after the first `+`, in the sender's own letters.
    detail: Option<Arc<str>>,
}

/// Why a text is no address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// Nothing before the `@`, or nothing at all.
    #[error("it has no local part: write name@domain")]
    NoLocalPart,
    /// A character that no address of ours holds.
    #[error(
        "its local part may hold letters, digits and !#$%&'*+-=?^_`{{|}}~, with single dots between them"
    )]
    LocalPart,
    /// The part after the `@` is no domain name.
    #[error("what follows the '@' is not a domain name")]
    Domain,
    /// Over a limit.
    #[error("it is too long: at most 128 octets before the '@' and 253 after it")]
    TooLong,
}

impl Address {
    /// An address from the text between the angle brackets of `RCPT TO:<…>`, or from what a user
    /// typed.
    pub fn parse(text: &str) -> Result<Self, AddressError> {
        // Refused before anything is allocated for it.
        if text.len() > GROWTH_MAX * (LOCAL_LEN_MAX + DOMAIN_LEN_MAX) {
            return Err(AddressError::TooLong);
        }
        // The last '@': a quoted local part may hold one (RFC 5321 §4.1.2).
        let (local, domain) = match text.rsplit_once('@') {
            Some((local, domain)) => (local, Some(normal_domain(domain)?)),
            None => (text, None),
        };
        let local = composed(unquote(local)?);
        let detail = local.split_once(DETAIL_SEPARATOR).map(|(_, detail)| Arc::from(detail));
        let local = composed(local.to_lowercase());
        check_local(&local)?;
        let local_len = local.len();
        let text = match domain {
            Some(domain) => [&*local, "@", &*domain].concat(),
            None => local,
        };
        Ok(Self { text: text.into(), local_len, detail })
    }

    /// A name that somebody else vouches for: the issuer of a token, or an authority that signs
    /// certificates. Only ASCII letters are folded. Other letters must be in their normal form:
    /// to the issuer, `\u{212a}im` (with KELVIN SIGN) and `kim` may be two people.
    pub fn parse_asserted(text: &str) -> Result<Self, AddressError> {
        let address = Self::parse(text)?;
        let parts = text.rsplit_once('@');
        let (local, domain) = parts.map_or((text, None), |(local, domain)| (local, Some(domain)));
        if local.to_ascii_lowercase() != address.local() {
            return Err(AddressError::LocalPart);
        }
        let is_normal = |(asserted, normal): (&str, &str)| {
            let asserted = asserted.to_ascii_lowercase();
            asserted == normal || asserted == idna::domain_to_unicode(normal).0
        };
        match domain.zip(address.domain()).is_none_or(is_normal) {
            true => Ok(address),
            false => Err(AddressError::Domain),
        }
    }

    /// The whole address in its normal form.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The part before the `@`.
    pub fn local(&self) -> &str {
        &self.text[..self.local_len]
    }

    /// The part after the `@`, if there is one.
    pub fn domain(&self) -> Option<&str> {
        self.text.get(self.local_len + 1..)
    }

    /// Bytes of memory that its texts take, which its clones share.
    pub fn memory_bytes(&self) -> usize {
        let detail = self.detail.as_ref().map_or(0, |detail| allocated(ARC_BYTES + detail.len()));
        allocated(ARC_BYTES + self.text.len()) + detail
    }

    /// The address without its detail, and the detail: `ana@example.org` and `lists` for
    /// `ana+lists@example.org`.
    pub fn split_detail(&self) -> Option<(Self, &Arc<str>)> {
        let detail = self.detail.as_ref()?;
        let (user, _) = self.local().split_once(DETAIL_SEPARATOR)?;
        // RFC 5321 §4.1.2: what is left must be a local part again, without a dot at its end.
        if check_local(user).is_err() {
            return None;
        }
        let text = match self.domain() {
            Some(domain) => format!("{user}@{domain}"),
            None => user.to_owned(),
        };
        Some((Self { text: text.into(), local_len: user.len(), detail: None }, detail))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.text, f)
    }
}

/// Text in normal form C; ASCII is so already.
fn composed(text: String) -> String {
    if text.is_ascii() { text } else { text.nfc().collect() }
}

/// Labels below which countries register domains.
const SHARED: [&str; 11] = ["ac", "co", "com", "edu", "go", "gov", "ne", "net", "nom", "or", "org"];

/// The part of a domain that somebody registered, by its form: the last two labels, or three below
/// `co.uk` and its like. Not for decisions about rights. Names below it can be made at will, so
/// limits on untrusted hosts count them together.
pub fn registered_domain(domain: &str) -> &str {
    let mut dots = domain.rmatch_indices('.').map(|(at, _)| at);
    let (Some(last), Some(second)) = (dots.next(), dots.next()) else { return domain };
    let is_country = domain.len() - last == 3;
    let is_shared = is_country && domain.get(second + 1..last).is_some_and(|l| SHARED.contains(&l));
    let at = if is_shared { dots.next() } else { Some(second) };
    at.and_then(|at| domain.get(at + 1..)).unwrap_or(domain)
}

/// A domain in lower-case A-labels (RFC 5890 §2.3.2.1): `Bücher.Example` is
/// `xn--bcher-kva.example`.
pub fn normal_domain(domain: &str) -> Result<String, AddressError> {
    // Nearly all domains are plain ASCII, and need lower case alone.
    let lower = domain.to_ascii_lowercase();
    let ascii = if lower.is_ascii() && !lower.contains("xn--") {
        lower
    } else {
        check_length(domain)?;
        idna::domain_to_ascii(domain).map_err(|_| AddressError::Domain)?
    };
    if ascii.len() > DOMAIN_LEN_MAX {
        return Err(AddressError::TooLong);
    }
    let label = |l: &str| {
        (1..=LABEL_LEN_MAX).contains(&l.len())
            && l.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
            && !l.starts_with('-')
            && !l.ends_with('-')
    };
    if ascii.split('.').all(label) { Ok(ascii) } else { Err(AddressError::Domain) }
}

/// Refuses a domain that is too long before IDNA reads it. The time for a label is quadratic: some
/// 3 ms for a thousand characters. A login may name several, and a message hundreds.
fn check_length(domain: &str) -> Result<(), AddressError> {
    if domain.len() > GROWTH_MAX * DOMAIN_LEN_MAX {
        return Err(AddressError::TooLong);
    }
    let most = |label: &str| if label.is_ascii() { LABEL_LEN_MAX } else { GROWTH_MAX * LABEL_LEN_MAX };
    let fits = domain.split(DOTS).all(|label| label.len() <= most(label));
    if fits { Ok(()) } else { Err(AddressError::Domain) }
}

/// The content of a Quoted-string (RFC 5321 §4.1.2); anything else as it is.
fn unquote(local: &str) -> Result<String, AddressError> {
    let Some(inner) = local.strip_prefix('"') else { return Ok(local.to_owned()) };
    let inner = inner.strip_suffix('"').ok_or(AddressError::LocalPart)?;
    let mut out = String::with_capacity(inner.len());
    let mut chars = inner.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => out.push(chars.next().ok_or(AddressError::LocalPart)?),
            '"' => return Err(AddressError::LocalPart),
            c => out.push(c),
        }
    }
    Ok(out)
}

/// Dot-string of RFC 5321 §4.1.2, with RFC 6531 §3.3 letters beyond ASCII.
fn check_local(local: &str) -> Result<(), AddressError> {
    if local.is_empty() {
        return Err(AddressError::NoLocalPart);
    }
    if local.len() > LOCAL_LEN_MAX {
        return Err(AddressError::TooLong);
    }
    let atext = |c: char| match c {
        'a'..='z' | '0'..='9' => true,
        // '/' is atext too, but would let two names of records run into each other.
        c if c.is_ascii() => "!#$%&'*+-=?^_`{|}~".contains(c),
        c => {
            !c.is_control()
                && !c.is_whitespace()
                && c != '\u{feff}'
                && !('\u{200b}'..='\u{200f}').contains(&c)
        }
    };
    let ok = local.split('.').all(|atom| !atom.is_empty() && atom.chars().all(atext));
    if ok { Ok(()) } else { Err(AddressError::LocalPart) }
}

/// Whether an authorization identity is nobody else's: empty, or another spelling of the name.
pub(crate) fn same_user(authorization: &str, name: &str) -> bool {
    authorization.is_empty()
        || match (Address::parse(authorization), Address::parse(name)) {
            (Ok(a), Ok(b)) => a == b,
            _ => false,
        }
}

#[cfg(test)]
mod tests {
    use posthaste_property::properties;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_below_a_registered_domain_are_its() {
        for (domain, registered) in [
            ("a.b.example.org", "example.org"),
            ("example.org", "example.org"),
            ("mx.example.co.uk", "example.co.uk"),
            ("example.co.uk", "example.co.uk"),
            ("co.uk", "co.uk"),
            ("a.b.xy.de", "xy.de"),
            ("a.co.example", "co.example"),
            ("localhost", "localhost"),
            ("", ""),
            ("a..b", ".b"),
        ] {
            assert_eq!(registered_domain(domain), registered, "{domain}");
        }
    }

    #[test]
    fn spellings_of_one_address_are_one() {
        for (text, normal) in [
            ("Ana@Example.ORG", "ana@example.org"),
            ("\"ana\"@example.org", "ana@example.org"),
            ("\"a\\na\"@example.org", "ana@example.org"),
            ("J\u{fc}RGEN@B\u{fc}cher.example", "j\u{fc}rgen@xn--bcher-kva.example"),
            ("Ju\u{308}rgen@XN--BCHER-KVA.example", "j\u{fc}rgen@xn--bcher-kva.example"),
            ("Postmaster", "postmaster"),
        ] {
            assert_eq!(Address::parse(text).unwrap().as_str(), normal, "{text}");
        }
    }

    #[test]
    fn no_two_asserted_names_meet() {
        for (text, normal) in [
            ("Kim@Example.ORG", "kim@example.org"),
            ("j\u{fc}rgen@b\u{fc}cher.example", "j\u{fc}rgen@xn--bcher-kva.example"),
            ("j\u{fc}rgen@XN--BCHER-KVA.example", "j\u{fc}rgen@xn--bcher-kva.example"),
            ("Kim+Lists", "kim+lists"),
        ] {
            assert_eq!(Address::parse_asserted(text).unwrap().as_str(), normal, "{text}");
        }
        // Each of them is `kim@example.org` or `jürgen@bücher.example` for people who type it.
        for text in [
            "\u{212a}im@example.org",
            "kim@example.or\u{ff47}",
            "\"kim\"@example.org",
            "J\u{dc}RGEN@b\u{fc}cher.example",
            "ju\u{308}rgen@b\u{fc}cher.example",
            "j\u{fc}rgen@B\u{dc}CHER.example",
        ] {
            assert!(Address::parse(text).is_ok(), "{text}");
            assert!(Address::parse_asserted(text).is_err(), "{text}");
        }
    }

    #[test]
    fn an_invalid_address_is_refused_with_its_reason() {
        for (text, error) in [
            ("", AddressError::NoLocalPart),
            ("@example.org", AddressError::NoLocalPart),
            ("a..b@example.org", AddressError::LocalPart),
            ("a b@example.org", AddressError::LocalPart),
            ("\"a@b\"@example.org", AddressError::LocalPart),
            ("\"a@example.org", AddressError::LocalPart),
            ("a/b@example.org", AddressError::LocalPart),
            ("a\0@example.org", AddressError::LocalPart),
            ("a@", AddressError::Domain),
            ("a@b..c", AddressError::Domain),
            ("a@[127.0.0.1]", AddressError::Domain),
            ("a@exa mple.org", AddressError::Domain),
        ] {
            assert_eq!(Address::parse(text), Err(error), "{text:?}");
        }
        assert_eq!(Address::parse(&format!("{}@example.org", "x".repeat(129))), Err(AddressError::TooLong));
        assert_eq!(Address::parse(&"x".repeat(1_000_000)), Err(AddressError::TooLong));
    }

    /// Normalising removes soft hyphens. So a long label could become a short one, and was read.
    #[test]
    fn long_labels_are_refused_unread() {
        let hyphens = |octets: usize| "\u{ad}".repeat(octets / 2);
        let label = |octets: usize| format!("b{}\u{fc}cher", hyphens(octets - "b\u{fc}cher".len()));
        for dot in DOTS {
            let domain = format!("{}{dot}example", label(GROWTH_MAX * LABEL_LEN_MAX));
            assert_eq!(normal_domain(&domain).as_deref(), Ok("xn--bcher-kva.example"), "{dot}");
            let domain = format!("{}{dot}example", label(GROWTH_MAX * LABEL_LEN_MAX + 2));
            assert_eq!(normal_domain(&domain), Err(AddressError::Domain), "{dot}");
        }
        let labels = format!("{}.", label(501)).repeat(5);
        assert_eq!(normal_domain(&format!("{labels}example")), Err(AddressError::TooLong));
        let long = format!("xn--{}.example", "a".repeat(2_000));
        assert_eq!(normal_domain(&long), Err(AddressError::Domain));
    }

    #[test]
    fn a_detail_keeps_its_letters() {
        let address = Address::parse("Ana+Lists+Rust@Example.org").unwrap();
        let (base, detail) = address.split_detail().unwrap();
        assert_eq!((base.as_str(), &**detail), ("ana@example.org", "Lists+Rust"));
        assert_eq!((base.local(), base.domain()), ("ana", Some("example.org")));
        assert!(Address::parse("ana@example.org").unwrap().split_detail().is_none());
        assert!(Address::parse("+x@example.org").unwrap().split_detail().is_none());
    }

    properties! {
        /// IDNA would not change the domains that skip it.
        #[test]
        fn a_plain_domain_is_what_idna_makes_of_it(domain in "[a-zA-Z0-9.-]{1,20}") {
            if let (Ok(plain), Ok(ascii)) = (normal_domain(&domain), idna::domain_to_ascii(&domain)) {
                prop_assert_eq!(plain, ascii);
            }
        }

        /// Normalising twice is normalising once, whatever a stranger sends.
        #[test]
        fn the_normal_form_is_stable(text in "\\PC{0,40}") {
            if let Ok(address) = Address::parse(&text) {
                let again = Address::parse(address.as_str());
                prop_assert_eq!(again.map(|a| a.text), Ok(address.text.clone()));
                prop_assert!("account/".len() + address.text.len() <= 400);
            }
        }
    }
}
