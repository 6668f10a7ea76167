//! Reads the names and the expiry of a client's certificate.
//!
//! The handshake has verified it, chain and signature, with the authorities of `tls.client_ca`.
//! This file only reads it. A resumed session has the certificate of the first handshake: the
//! ticket, which only we can read, holds it. Tickets of a configuration that was replaced cannot be
//! read.

use std::time::SystemTime;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use sha2::{Digest, Sha256};

use crate::certificates::not_after;
use crate::channel_binding::{OID, SEQUENCE, element};

const SET: u8 = 0x31;
const BOOLEAN: u8 = 0x01;
const OCTETS: u8 = 0x04;
/// `version [0]` of a TBSCertificate.
const VERSION: u8 = 0xa0;
/// `issuerUniqueID [1]`, `subjectUniqueID [2]`, `extensions [3]`: RFC 5280 §4.1.
const ISSUER_UNIQUE: u8 = 0x81;
const SUBJECT_UNIQUE: u8 = 0x82;
const EXTENSIONS: u8 = 0xa3;
/// `rfc822Name [1]` of a GeneralName: RFC 5280 §4.2.1.6.
const RFC822_NAME: u8 = 0x81;
/// UTF8String, PrintableString, IA5String.
const TEXTS: [u8; 3] = [0x0c, 0x13, 0x16];
/// 2.5.29.17
const SUBJECT_ALT_NAME: &[u8] = &[0x55, 0x1d, 0x11];
/// 1.2.840.113549.1.9.1
const EMAIL_ADDRESS: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 9, 1];
/// 2.5.4.3
const COMMON_NAME: &[u8] = &[0x55, 4, 3];
/// Addresses that are read: each may cost a read of an account. A person has one or two.
const EMAILS_MAX: usize = 16;

/// A client's verified certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCertificate {
    /// SHA-256 of all of it.
    pub fingerprint: [u8; 32],
    /// The rfc822Names of its subjectAltName; if it has none, the emailAddress of its subject.
    pub emails: Vec<String>,
    /// The first commonName of its subject.
    pub common_name: Option<String>,
    /// When it ends. A session that is resumed is not verified again.
    pub ends: Option<SystemTime>,
}

impl ClientCertificate {
    /// Reads a certificate. Unreadable parts are left out.
    pub fn parse(der: &[u8]) -> Self {
        let parts = Parts::of(der).unwrap_or_default();
        let mut emails = texts(alternative_names(parts.extensions));
        if emails.is_empty() {
            emails = subject(parts.subject, EMAIL_ADDRESS);
        }
        emails.truncate(EMAILS_MAX);
        Self {
            fingerprint: fingerprint(der),
            emails,
            common_name: subject(parts.subject, COMMON_NAME).into_iter().next(),
            ends: not_after(der).map(SystemTime::from),
        }
    }

    /// Whether it has ended.
    pub fn has_ended(&self, now: SystemTime) -> bool {
        self.ends.is_none_or(|ends| ends < now)
    }
}

/// SHA-256 of the first certificate of a PEM file; `None` if the file has no certificate.
pub fn fingerprint_of_pem(pem: &[u8]) -> Option<[u8; 32]> {
    CertificateDer::from_pem_slice(pem).ok().map(|der| fingerprint(&der))
}

fn fingerprint(der: &[u8]) -> [u8; 32] {
    Sha256::digest(der).into()
}

/// The parts of a certificate that name its owner.
#[derive(Default)]
struct Parts<'c> {
    subject: &'c [u8],
    extensions: &'c [u8],
}

impl<'c> Parts<'c> {
    /// RFC 5280 §4.1.
    fn of(der: &'c [u8]) -> Option<Self> {
        let (certificate, _) = element(der, SEQUENCE)?;
        let (tbs, _) = element(certificate, SEQUENCE)?;
        let rest = element(tbs, VERSION).map_or(tbs, |(_, rest)| rest);
        let (_serial, rest) = element(rest, 0x02)?;
        let (_signature, rest) = element(rest, SEQUENCE)?;
        let (_issuer, rest) = element(rest, SEQUENCE)?;
        let (_validity, rest) = element(rest, SEQUENCE)?;
        let (subject, rest) = element(rest, SEQUENCE)?;
        let (_key, rest) = element(rest, SEQUENCE)?;
        let rest = [ISSUER_UNIQUE, SUBJECT_UNIQUE]
            .into_iter()
            .fold(rest, |rest, tag| element(rest, tag).map_or(rest, |(_, rest)| rest));
        let extensions = element(rest, EXTENSIONS)
            .and_then(|(tagged, _)| element(tagged, SEQUENCE))
            .map_or(&[][..], |(list, _)| list);
        Some(Self { subject, extensions })
    }
}

/// The elements of one tag, one after the other, in what DER they hold. Others are skipped.
fn each(mut der: &[u8], tag: u8) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        loop {
            let &found = der.first()?;
            let (contents, rest) = element(der, found)?;
            der = rest;
            if found == tag {
                return Some(contents);
            }
        }
    })
}

/// The rfc822Names of the extension subjectAltName.
fn alternative_names(extensions: &[u8]) -> impl Iterator<Item = &[u8]> {
    let names = each(extensions, SEQUENCE).find_map(|extension| {
        let (SUBJECT_ALT_NAME, rest) = element(extension, OID)? else { return None };
        let rest = element(rest, BOOLEAN).map_or(rest, |(_, rest)| rest);
        let (value, _) = element(rest, OCTETS)?;
        element(value, SEQUENCE).map(|(names, _)| names)
    });
    each(names.unwrap_or_default(), RFC822_NAME)
}

/// The values of one attribute of a subject: `SEQUENCE OF SET OF SEQUENCE { type, value }`.
fn subject(names: &[u8], attribute: &[u8]) -> Vec<String> {
    let pairs = each(names, SET).flat_map(|set| each(set, SEQUENCE));
    let values = pairs.filter_map(|pair| {
        let (kind, rest) = element(pair, OID)?;
        let tag = *rest.first().filter(|_| kind == attribute)?;
        element(rest, tag).filter(|_| TEXTS.contains(&tag)).map(|(value, _)| value)
    });
    texts(values)
}

/// Texts without control characters: a NUL in a name must not cut it short for anybody.
fn texts<'c>(values: impl Iterator<Item = &'c [u8]>) -> Vec<String> {
    let texts = values.filter_map(|value| std::str::from_utf8(value).ok());
    texts.filter(|text| !text.is_empty() && !text.contains(char::is_control)).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, SanType};

    use super::*;

    fn certificate(emails: &[&str], subject: &[(DnType, &str)]) -> Vec<u8> {
        let mut params = CertificateParams::new(vec!["host.example".to_owned()]).unwrap();
        let name = |email: &&str| SanType::Rfc822Name((*email).try_into().unwrap());
        params.subject_alt_names.extend(emails.iter().map(name));
        params.distinguished_name = DistinguishedName::new();
        for (kind, value) in subject {
            params.distinguished_name.push(kind.clone(), *value);
        }
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec()
    }

    #[test]
    fn names_are_found_where_certificates_have_them() {
        let email = DnType::CustomDnType(vec![1, 2, 840, 113_549, 1, 9, 1]);
        let subject =
            [(DnType::OrganizationName, "O"), (DnType::CommonName, "ana"), (email, "old@example.org")];
        let read = ClientCertificate::parse(&certificate(&["ana@example.org", "a2@example.org"], &subject));
        assert_eq!(read.emails, ["ana@example.org", "a2@example.org"]);
        assert_eq!(read.common_name.as_deref(), Some("ana"));
        assert!(read.ends.is_some() && !read.has_ended(SystemTime::now()));
        let der = certificate(&[], &subject);
        let read = ClientCertificate::parse(&der);
        assert_eq!(read.emails, ["old@example.org"]);
        assert_eq!(read.fingerprint, <[u8; 32]>::from(Sha256::digest(&der)));
        assert_eq!(ClientCertificate::parse(&certificate(&[], &[])).common_name, None);
        // A NUL hides no domain after it.
        let forged = certificate(&["ana@example.org\0.evil.test"], &[]);
        assert!(ClientCertificate::parse(&forged).emails.is_empty());
    }

    #[test]
    fn an_unreadable_certificate_names_nobody_and_has_expired() {
        let good = certificate(&["ana@example.org"], &[]);
        for end in 0..good.len() {
            let read = ClientCertificate::parse(&good[..end]);
            assert!(read.emails.is_empty() && read.common_name.is_none());
        }
        for at in 0..good.len() {
            let mut bent = good.clone();
            bent[at] ^= 0x81;
            ClientCertificate::parse(&bent);
        }
        assert!(ClientCertificate::parse(b"").has_ended(SystemTime::now()));
        assert_eq!(fingerprint_of_pem(b"no certificate"), None);
    }
}
