//! The Sender Rewriting Scheme: a forwarded message gets a sender of our own domain, so that SPF
//! (RFC 7208) passes at the next host. The new sender contains the original one, so that a bounce
//! can be returned to it.
//!
//! ```text
//! SRS0=HASH=TT=domain=local@our.domain     of local@domain
//! SRS1=HASH=first.host=REST@our.domain     of SRS0REST@first.host
//! SRS1=HASH=first.host=REST@our.domain     of SRS1=…=first.host=REST@second.host
//! ```
//!
//! `TT` is the day modulo 1024 in base 32. `HASH` is 30 bits of HMAC-SHA-256 over all the rest in
//! lower case, since hosts may change the case of a local part. So an attacker cannot make an
//! address that sends mail through this server to an arbitrary recipient. The rest of an SRS1
//! begins with the separator that the first host wrote. Its age and hash are verified by that host.
//!
//! The shapes are those of the scheme's paper (Meng Weng Wong and Shevek, 2004).

use std::fmt;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::hmac::{HMAC_SHA256, Key, sign};
use memchr::memmem;

/// How long a bounce is taken, days. The longest queue time in use is 5 days, for each of a few
/// hosts. A year and more would make the day ambiguous.
const AGE_MAX_DAYS: u64 = 21;
/// Days after which `TT` begins again: two digits of base 32.
const DAYS: u64 = 1024;
/// Digits of a hash, 5 bits each.
const HASH_LEN: usize = 6;
/// Octets of a local part (RFC 5321 §4.5.3.1.1). A longer one may be refused at the next host.
const LOCAL_MAX: usize = 64;
/// RFC 4648 §6.
const BASE32: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
/// Octets of a secret: as many as the hash has.
pub(crate) const SECRET_LEN: usize = 32;

/// Makes and reads senders with one secret.
pub struct Srs(Key);

impl fmt::Debug for Srs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Srs([secret])")
    }
}

/// Whether an address has the shape of a sender that some host made by this scheme.
pub fn is_rewritten(address: &str) -> bool {
    rest_of(address, "SRS0").or_else(|| rest_of(address, "SRS1")).is_some()
}

/// Whether the author of a message may be, for DMARC, of the same organization as a domain of
/// ours. A sender of ours would then have a forged author pass: SPF holds for it, and it is
/// aligned (RFC 7489 §3.1.2). Two aligned domains have the last two labels in common. An address
/// that is hard to read counts as aligned: the sender stays then, and only SPF is lost.
pub fn may_align(message: &[u8], ours: &str) -> bool {
    let two = ours.rmatch_indices('.').nth(1).map_or(0, |(dot, _)| dot + 1);
    let shared = ours.get(two..).unwrap_or(ours).to_ascii_lowercase();
    let mut is_from = false;
    let mut authors = Vec::new();
    for line in message.split(|byte| *byte == b'\n') {
        if line.is_empty() || line == b"\r" {
            break;
        }
        if !line.starts_with(b" ") && !line.starts_with(b"\t") {
            let name = line.split(|byte| *byte == b':').next().unwrap_or_default();
            is_from = name.trim_ascii().eq_ignore_ascii_case(b"From");
        }
        if is_from {
            authors
                .extend(line.iter().filter(|byte| !byte.is_ascii_whitespace()).map(u8::to_ascii_lowercase));
        }
    }
    // A domain may contain comments (RFC 5322 §4.4), and a domain may be in U-labels.
    let is_hard = authors.contains(&b'(') || !authors.is_ascii() && shared.contains("xn--");
    is_hard || memmem::find(&authors, shared.as_bytes()).is_some()
}

impl Srs {
    /// With this secret.
    pub fn new(secret: &[u8]) -> Self {
        Self(Key::new(HMAC_SHA256, secret))
    }

    /// The sender under which a domain of ours sends a message on, whose sender is `address`.
    /// `None` if it cannot be rewritten: a quoted local part, an address literal, a name too
    /// long.
    pub fn rewrite(&self, address: &str, ours: &str, now: u64) -> Option<String> {
        let (local, domain) = address.rsplit_once('@')?;
        if !is_plain(local) || !is_plain(domain) || domain.contains('=') {
            return None;
        }
        let (tag, rest) = if let Some(rest) = rest_of(local, "SRS0") {
            ("SRS1", format!("{domain}={rest}"))
        } else if let Some(rest) = rest_of(local, "SRS1") {
            // The hosts between are left out: a bounce goes to the first one at once.
            let (_hash, rest) = rest.get(1..)?.split_once('=')?;
            rest.split_once('=')?;
            ("SRS1", rest.to_owned())
        } else {
            ("SRS0", format!("{}={domain}={local}", day_text(now / 86_400)))
        };
        let rewritten = format!("{tag}={}={rest}", self.hash(tag, &rest, ours));
        (rewritten.len() <= LOCAL_MAX).then(|| format!("{rewritten}@{ours}"))
    }

    /// The original sender of a rewritten one. `None` if we did not make it, or if it has
    /// expired.
    pub fn original(&self, address: &str, now: u64) -> Option<String> {
        let (local, ours) = address.rsplit_once('@')?;
        let (tag, rest) = match rest_of(local, "SRS0") {
            Some(rest) => ("SRS0", rest),
            None => ("SRS1", rest_of(local, "SRS1")?),
        };
        let (hash, rest) = rest.strip_prefix('=')?.split_once('=')?;
        let expected = self.hash(tag, rest, ours);
        verify_slices_are_equal(hash.to_ascii_uppercase().as_bytes(), expected.as_bytes()).ok()?;
        if tag == "SRS1" {
            let (first, rest) = rest.split_once('=')?;
            return Some(format!("SRS0{rest}@{first}"));
        }
        let (day, rest) = rest.split_once('=')?;
        let (domain, local) = rest.split_once('=')?;
        let age = (now / 86_400 % DAYS + DAYS - day_number(day)?) % DAYS;
        (age <= AGE_MAX_DAYS).then(|| format!("{local}@{domain}"))
    }

    fn hash(&self, tag: &str, rest: &str, ours: &str) -> String {
        let text = format!("{tag}={rest}@{ours}").to_lowercase();
        let signed = sign(&self.0, text.as_bytes());
        let bits = signed.as_ref().iter().take(4).fold(0_u64, |bits, octet| bits << 8 | u64::from(*octet));
        digits(bits, HASH_LEN)
    }
}

/// The text after a tag in an address or a local part, with the separator before it: any of the
/// three that the scheme names.
fn rest_of<'a>(address: &'a str, tag: &str) -> Option<&'a str> {
    let (start, rest) = address.split_at_checked(tag.len())?;
    (start.eq_ignore_ascii_case(tag) && rest.starts_with(['=', '-', '+'])).then_some(rest)
}

/// Whether a text can be part of a dot-atom (RFC 5322 §3.2.3, RFC 6531 §3.3).
fn is_plain(text: &str) -> bool {
    let is_atext = |c: char| c.is_ascii_alphanumeric() || !c.is_ascii() || "!#$%&'*+-/=?^_`{|}~.".contains(c);
    !text.is_empty() && text.chars().all(is_atext)
}

fn day_text(day: u64) -> String {
    digits(day % DAYS, 2)
}

fn day_number(text: &str) -> Option<u64> {
    let value = |c: u8| BASE32.iter().position(|digit| digit.eq_ignore_ascii_case(&c));
    match text.as_bytes() {
        [high, low] => u64::try_from(value(*high)? * 32 + value(*low)?).ok(),
        _ => None,
    }
}

/// The lowest bits as this many digits, the highest first.
fn digits(bits: u64, count: usize) -> String {
    let digit = |place: usize| char::from(BASE32[(bits >> (5 * place) & 31) as usize]);
    (0..count).rev().map(digit).collect()
}

#[cfg(test)]
mod tests {
    use posthaste_property::properties;
    use proptest::prelude::*;

    use super::*;

    const NOW: u64 = 1_795_435_200;
    const DAY: u64 = 86_400;

    fn srs() -> Srs {
        Srs::new(&[7; SECRET_LEN])
    }

    /// The fields of the paper, in its order: hash, day, domain, local part.
    #[test]
    fn the_shape_is_that_of_the_scheme() {
        let made = srs().rewrite("Far.Off@C.test", "a.test", NOW).unwrap();
        let parts: Vec<&str> = made.split('=').collect();
        // Day 20780 is 300 modulo 1024: 9 × 32 + 12.
        assert_eq!((parts[0], parts[2], parts[3], parts[4]), ("SRS0", "JM", "C.test", "Far.Off@a.test"));
        assert!(parts[1].len() == HASH_LEN && parts.len() == 5, "{made}");
        assert_eq!(srs().original(&made, NOW).unwrap(), "Far.Off@C.test");
        // A host on the way may have changed the case.
        assert_eq!(srs().original(&made.to_lowercase(), NOW).unwrap(), "far.off@c.test");
    }

    #[test]
    fn a_second_hop_points_to_the_first_host() {
        let far = "SRS0=HHHH=TT=c.test=far@b.test";
        let first = srs().rewrite(far, "a.test", NOW).unwrap();
        assert!(
            first.starts_with("SRS1=") && first.ends_with("=b.test==HHHH=TT=c.test=far@a.test"),
            "{first}"
        );
        assert_eq!(srs().original(&first, NOW).unwrap(), far);
        // A third hop leaves the second one out.
        let third = Srs::new(b"another").rewrite(&first, "d.test", NOW).unwrap();
        assert!(third.ends_with("=b.test==HHHH=TT=c.test=far@d.test"), "{third}");
        assert_eq!(Srs::new(b"another").original(&third, NOW).unwrap(), far);
        // Other hosts may write another separator.
        let plus = srs().rewrite("srs0+HHHH=TT=c.test=far@b.test", "a.test", NOW).unwrap();
        assert_eq!(srs().original(&plus, NOW).unwrap(), "SRS0+HHHH=TT=c.test=far@b.test");
    }

    #[test]
    fn foreign_rewritten_senders_are_refused() {
        let made = srs().rewrite("far@c.test", "a.test", NOW).unwrap();
        assert_eq!(srs().original(&made, NOW + AGE_MAX_DAYS * DAY).unwrap(), "far@c.test");
        assert_eq!(srs().original(&made, NOW + (AGE_MAX_DAYS + 1) * DAY), None);
        // From tomorrow.
        assert_eq!(srs().original(&made, NOW - DAY), None);
        assert_eq!(Srs::new(b"another").original(&made, NOW), None);
        for forged in [
            made.replace("far@", "foe@"),
            made.replace("c.test", "d.test"),
            made.replace("@a.test", "@b.test"),
            made.replace("=JM=", "=JN="),
            made.replace("SRS0", "SRS1"),
            "SRS0=@a.test".into(),
            "SRS0====@a.test".into(),
            "SRS0".into(),
            "SRS1=AAAAAA=c.test==x@a.test".into(),
        ] {
            assert_eq!(srs().original(&forged, NOW), None, "{forged}");
        }
    }

    #[test]
    fn senders_that_cannot_be_rewritten_stay() {
        let long = format!("{}@c.test", "x".repeat(50));
        for address in ["", "ana", "\"a b\"@c.test", "far@[192.0.2.1]", "SRS1=x@c.test", &long] {
            assert_eq!(srs().rewrite(address, "a.test", NOW), None, "{address}");
        }
    }

    #[test]
    fn a_sender_of_ours_does_not_vouch_for_an_author_of_ours() {
        for from in [
            "From: boss@a.test",
            "from : <Boss@\r\n\tA. Test>",
            "From: x@c.test\r\nFrom: boss@sub.a.test",
            "From: x@other.a.test, y@c.test",
            "From: boss@a.(hidden)test",
        ] {
            let message = format!("To: y@d.test\r\n{from}\r\nSubject: s\r\n\r\nwords\r\n");
            assert!(may_align(message.as_bytes(), "mail.a.test"), "{from}");
        }
        for message in ["From: x@c.test\r\nTo: ana@a.test\r\n\r\nFrom: boss@a.test\r\n", "\r\n", "To: a.test"]
        {
            assert!(!may_align(message.as_bytes(), "a.test"), "{message}");
        }
        assert!(may_align("From: x@bücher.example\r\n\r\n".as_bytes(), "xn--bcher-kva.example"));
        assert!(may_align(b"\r\n", ""), "nobody knows whose it is");
    }

    properties! {
        #[test]
        fn rewritten_senders_are_read(
            local in "[a-zA-Z0-9=+._é-]{1,30}", domain in "[a-z0-9.-]{1,20}", age in 0..=AGE_MAX_DAYS
        ) {
            let address = format!("{local}@{domain}");
            prop_assume!(!is_rewritten(&address));
            if let Some(made) = srs().rewrite(&address, "a.test", NOW) {
                prop_assert!(is_rewritten(&made));
                prop_assert_eq!(srs().original(&made, NOW + age * DAY).unwrap(), address);
            }
        }

        #[test]
        fn no_address_makes_it_fail(address in "(SRS[01])?[=+-]?[A-Za-z0-9=@.é]{0,40}", now in any::<u64>()) {
            if let Some(made) = srs().rewrite(&address, "a.test", now) {
                prop_assert!(srs().original(&made, now).is_some());
            }
            prop_assert_eq!(srs().original(&address, now), None);
        }
    }
}
