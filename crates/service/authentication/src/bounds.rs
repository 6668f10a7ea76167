//! The parts of a message that are verified. For any header, the work and the text of the results
//! have a bound.
//!
//! A signature names the fields that it covers, and each name is searched among all fields. The
//! header has a separate bound ([`posthaste_mime_summary::is_header_bounded`]). This file has the
//! bounds of signatures, of authors, and of the field with the results.

use hickory_resolver::proto::rr::Name;
use mail_auth::common::crypto::Algorithm;
use mail_auth::{AuthenticatedMessage, Error, dkim};

/// Signatures of a message that are verified; the others are skipped. RFC 6376 §6.1 leaves the
/// number to the verifier. So many malformed ones are named in the results.
const SIGNATURES_MAX: usize = 8;
/// Names that a signature covers, at most. Signers name up to some sixty. With all bounds at their
/// ends, eight signatures take ten million comparisons, about 0.1 s.
const NAMES_MAX: usize = 128;
/// Octets of a domain (RFC 1035 §2.3.4).
pub(crate) const DOMAIN_LEN_MAX: usize = 253;
/// Octets of an agent or user (`i=`): a local part and a domain (RFC 5321 §4.5.3.1).
const IDENTITY_LEN_MAX: usize = 64 + 1 + 255;
/// Octets of the field with the results: eight signatures with long names. A longer result is
/// written without its details.
pub(crate) const FIELD_LEN_MAX: usize = 8 * 1024;

/// The parts that were left out, and how the results report them.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LeftOut {
    /// A signature covers too many fields, or has names that no domain has.
    pub(crate) signatures: bool,
    /// The same of a signature of the ARC chain.
    pub(crate) chain: bool,
}

impl LeftOut {
    /// RFC 8601 §2.7.1: `policy` is a signature that this server does not accept as it is.
    pub(crate) fn results(self) -> &'static str {
        match (self.signatures, self.chain) {
            (false, false) => "",
            (true, false) => ";\r\n\tdkim=policy (a signature is too long)",
            (false, true) => ";\r\n\tarc=fail (a signature is too long)",
            (true, true) => {
                ";\r\n\tdkim=policy (a signature is too long);\r\n\tarc=fail (a signature is too long)"
            }
        }
    }
}

/// Keeps only the parts of a message that are verified.
pub(crate) fn bound(message: &mut AuthenticatedMessage<'_>) -> LeftOut {
    let mut left_out = LeftOut::default();
    message.dkim_headers.retain(|signature| {
        let is_bounded = is_bounded(&signature.header);
        left_out.signatures |= !is_bounded;
        // RFC 8301 §3.1: SHA-1 proves nothing.
        is_bounded && signature.header.a != Algorithm::RsaSha1
    });
    message.dkim_headers.truncate(SIGNATURES_MAX);
    let signatures = message.ams_headers.iter().map(|signature| &signature.header);
    let mut signers = signatures.map(|one| (one.h.len(), &one.d, &one.s));
    let mut seals = message.as_headers.iter().map(|seal| (0, &seal.header.d, &seal.header.s));
    let is_long = |(names, d, s): (usize, &String, &String)| names > NAMES_MAX || !are_names([d, s]);
    left_out.chain = signers.any(is_long) || seals.any(is_long);
    if left_out.chain {
        message.ams_headers.clear();
        message.as_headers.clear();
        message.aar_headers.clear();
    }
    let (mut of_dkim, mut of_arc) = (0, 0);
    message.errors.retain(|error| match &error.header {
        Error::Dkim(_) => count(&mut of_dkim, SIGNATURES_MAX),
        Error::Arc(_) => count(&mut of_arc, 1),
        _ => false,
    });
    left_out
}

fn count(so_far: &mut usize, most: usize) -> bool {
    *so_far += 1;
    *so_far <= most
}

fn is_bounded(signature: &dkim::Signature) -> bool {
    let domains = [&signature.d, &signature.s].into_iter().chain(&signature.atps);
    signature.h.len() <= NAMES_MAX && are_names(domains) && signature.i.len() <= IDENTITY_LEN_MAX
}

fn are_names<'n>(names: impl IntoIterator<Item = &'n String>) -> bool {
    names.into_iter().all(|name| name.len() <= DOMAIN_LEN_MAX)
}

/// Whether DNS can hold the name of a signature's key (RFC 6376 §3.6.2.1, RFC 1035 §2.3.4).
/// Another name cannot be looked up, now or later.
pub(crate) fn has_key_name(signature: &dkim::Signature) -> bool {
    Name::from_str_relaxed(format!("{}._domainkey.{}.", signature.s, signature.d)).is_ok()
}

/// Truncates the authors to one if they share a domain that DNS can hold. Otherwise clears them
/// if they are too many or too long, because converting them would take long. Returns whether the
/// author is clear: see [`is_author_clear`].
pub(crate) fn bound_authors(authors: &mut Vec<String>) -> bool {
    /// Authors of different domains that are looked at.
    const AUTHORS_MAX: usize = 16;
    let is_clear = is_author_clear(authors);
    if is_clear {
        authors.truncate(1);
    } else if authors.len() > AUTHORS_MAX || authors.iter().any(|author| author.len() > IDENTITY_LEN_MAX) {
        authors.clear();
    }
    is_clear
}

/// Whether DMARC can judge the author: all addresses of From have one domain, and DNS can hold it.
/// RFC 7489 §6.6.1 leaves other messages to the receiver. A forger may write a domain with a policy
/// so that no policy is found, and mail programs still show it. Such mail is filed as junk.
pub(crate) fn is_author_clear(authors: &[String]) -> bool {
    let parts = || authors.iter().map(|author| author.rsplit_once('@').unwrap_or((author.as_str(), "")));
    // Without From there is no author to forge.
    let Some((_, first)) = parts().next() else { return true };
    is_domain(first)
        && parts().all(|(local, domain)| is_one_local_part(local) && domain.eq_ignore_ascii_case(first))
}

/// Whether no other address is in front of the domain, as where a `>` is missing in
/// `CEO <ceo@victim.test, x@evil.test>`. Mail programs show the first one. In a quoted string the
/// signs mean nothing (RFC 5322 §3.2.4).
fn is_one_local_part(local: &str) -> bool {
    let quoted = local.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    quoted.is_some_and(|text| !text.contains('"')) || !local.contains(['@', ',', ';', '<', '"'])
}

/// RFC 1035 §2.3.4, with the letters of other scripts (RFC 6531 §3.3).
fn is_domain(text: &str) -> bool {
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.chars().all(|c| c.is_alphanumeric() || matches!(c, '-' | '_'))
    };
    text.len() <= DOMAIN_LEN_MAX && text.split('.').all(is_label)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clear(authors: &[&str]) -> bool {
        is_author_clear(&authors.iter().map(|author| (*author).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn an_author_has_one_domain_that_dns_can_hold() {
        assert!(clear(&[]) && clear(&["ana@example.org"]) && clear(&["ana@b\u{fc}cher.example"]));
        assert!(clear(&["ana@example.org", "bo@EXAMPLE.org"]));
        let long = format!("ceo@{}.victim.test", "a".repeat(64));
        for author in
            ["ceo@victim.test.", "ceo@.victim.test", "ceo@victim..test", "ceo@mail\u{202e}.victim.test"]
                .into_iter()
                .chain(["ceo@[victim.test]", "ceo@\"victim.test\"", "ceo@", "ceo", long.as_str()])
        {
            assert!(!clear(&[author]), "{author}");
        }
        assert!(!clear(&["ceo@victim.test", "x@evil.test"]));
        assert!(!clear(&["ceo@victim.test", "x@"]));
    }

    /// A `>` is missing, and mail programs show the first address.
    #[test]
    fn an_author_behind_another_one_is_not_clear() {
        let clear = |from: &str| {
            let message = format!("From: {from}\r\n\r\n");
            is_author_clear(AuthenticatedMessage::parse(message.as_bytes()).unwrap().froms())
        };
        assert!(clear("Bo <bo@evil.test>") && clear("bo@evil.test") && clear("Bo <\"x@y, z\"@evil.test>"));
        for from in [
            "CEO <ceo@victim.test, x@evil.test>",
            "CEO <ceo@victim.test, x@evil.test",
            "CEO <ceo@victim.test, <x@evil.test>",
            "CEO <ceo@victim.test x@evil.test>",
            "CEO <ceo@victim.test <x@evil.test>",
            "CEO <ceo@victim.test; x@evil.test>",
            "CEO <\"a\"@victim.test, \"b\"@evil.test>",
        ] {
            assert!(!clear(from), "{from}");
        }
    }

    #[test]
    fn one_author_is_left_of_many() {
        let mut many = vec!["a@one.test".to_owned(); 1000];
        assert!(bound_authors(&mut many) && many.len() == 1);
        many.push("b@other.test".to_owned());
        assert!(!bound_authors(&mut many) && many.len() == 2);
        many.push(format!("c@{}", "d".repeat(1000)));
        assert!(!bound_authors(&mut many) && many.is_empty());
    }

    #[test]
    fn signatures_and_complaints_have_bounds() {
        let signature = |names: usize, domain: &str| {
            let names: Vec<String> = (0..names).map(|name| format!("x{name}")).collect();
            format!("v=1; a=rsa-sha256; d={domain}; s=s; h={}; bh=AAAA; b=AAAAAAAAAAAA\r\n", names.join(":"))
        };
        let text = [
            format!("DKIM-Signature: {}", signature(NAMES_MAX + 1, "many.test")),
            format!("DKIM-Signature: {}", signature(1, &"d".repeat(DOMAIN_LEN_MAX + 1))),
            "DKIM-Signature: v=1; a=none\r\n".repeat(100),
            format!("DKIM-Signature: {}", signature(NAMES_MAX, "good.test")).repeat(100),
            format!(
                "ARC-Message-Signature: i=1; {}",
                signature(NAMES_MAX + 1, "arc.test").replace("v=1; ", "")
            ),
            "\r\n".to_owned(),
        ]
        .concat();
        let mut message = AuthenticatedMessage::parse(text.as_bytes()).unwrap();
        assert_eq!((message.errors.len(), message.dkim_headers.len()), (100, 102), "{:?}", message.errors);
        assert_eq!(bound(&mut message), LeftOut { signatures: true, chain: true });
        assert_eq!((message.errors.len(), message.dkim_headers.len()), (SIGNATURES_MAX, SIGNATURES_MAX));
        assert!(message.ams_headers.is_empty());
    }
}
