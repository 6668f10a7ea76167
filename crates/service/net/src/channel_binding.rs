//! Channel bindings: they bind SCRAM-…-PLUS to its TLS connection.
//!
//! `tls-server-end-point` (RFC 5929 §4) is a hash of the server's certificate, the same for every
//! connection; `tls-exporter` (RFC 9266) is made of this connection's own keys.

use rustls::{ProtocolVersion, ServerConnection};
use sha2::{Digest, Sha256, Sha384, Sha512};

/// A kind of channel binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChannelBinding {
    /// RFC 5929 §4.
    TlsServerEndPoint,
    /// RFC 9266, in TLS 1.3.
    TlsExporter,
}

impl ChannelBinding {
    /// The name registered with IANA, as in SCRAM's `p=…`.
    pub fn name(self) -> &'static str {
        match self {
            Self::TlsServerEndPoint => "tls-server-end-point",
            Self::TlsExporter => "tls-exporter",
        }
    }

    /// The kind of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::TlsServerEndPoint, Self::TlsExporter].into_iter().find(|kind| kind.name() == name)
    }
}

/// Bytes of `tls-exporter` (RFC 9266 §2).
const EXPORTER_BYTES: usize = 32;

pub(crate) fn exporter(session: &ServerConnection) -> Option<Vec<u8>> {
    // RFC 9266 §4.2: in TLS 1.2 only with the extended master secret, which rustls does not
    // report.
    if session.protocol_version() != Some(ProtocolVersion::TLSv1_3) {
        return None;
    }
    session.export_keying_material(vec![0; EXPORTER_BYTES], b"EXPORTER-Channel-Binding", Some(b"")).ok()
}

/// The hash of a certificate by the hash of its own signature (RFC 5929 §4.1). MD5 and SHA-1 become
/// SHA-256. A signature without one hash of its own (Ed25519) leaves the binding undefined.
pub(crate) fn server_end_point(certificate: &[u8]) -> Option<Vec<u8>> {
    Some(match signature_hash(certificate)? {
        Hash::Sha256 => Sha256::digest(certificate).to_vec(),
        Hash::Sha384 => Sha384::digest(certificate).to_vec(),
        Hash::Sha512 => Sha512::digest(certificate).to_vec(),
    })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hash {
    Sha256,
    Sha384,
    Sha512,
}

pub(crate) const SEQUENCE: u8 = 0x30;
pub(crate) const OID: u8 = 0x06;
/// `hashAlgorithm [0]` of RSASSA-PSS-params (RFC 4055 §3.1).
const PSS_HASH: u8 = 0xa0;

/// RFC 5280 §4.1: `Certificate ::= SEQUENCE { tbsCertificate, signatureAlgorithm, signatureValue
/// }`.
fn signature_hash(certificate: &[u8]) -> Option<Hash> {
    let (certificate, _) = element(certificate, SEQUENCE)?;
    let (_tbs, rest) = element(certificate, SEQUENCE)?;
    let (algorithm, _) = element(rest, SEQUENCE)?;
    let (oid, parameters) = element(algorithm, OID)?;
    match oid {
        // 1.2.840.113549.1.1.{4,5,11,12,13,14}: md5, sha1, sha256, sha384, sha512, sha224
        // WithRSAEncryption
        [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, kind] => match kind {
            4 | 5 | 11 => Some(Hash::Sha256),
            12 => Some(Hash::Sha384),
            13 => Some(Hash::Sha512),
            10 => Some(pss_hash(parameters)),
            _ => None,
        },
        // 1.2.840.10045.4.1: ecdsa-with-SHA1; 1.2.840.10045.4.3.{2,3,4}: ecdsa-with-SHA256 and up
        [0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 1] | [0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 2] => Some(Hash::Sha256),
        [0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 3] => Some(Hash::Sha384),
        [0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 4] => Some(Hash::Sha512),
        _ => None,
    }
}

/// The hash of an RSASSA-PSS signature; SHA-1 if not given, which counts as SHA-256.
fn pss_hash(parameters: &[u8]) -> Hash {
    let oid = element(parameters, SEQUENCE)
        .and_then(|(inside, _)| element(inside, PSS_HASH))
        .and_then(|(tagged, _)| element(tagged, SEQUENCE))
        .and_then(|(algorithm, _)| element(algorithm, OID));
    match oid {
        // 2.16.840.1.101.3.4.2.{2,3}: SHA-384, SHA-512
        Some(([0x60, 0x86, 0x48, 1, 0x65, 3, 4, 2, 2], _)) => Hash::Sha384,
        Some(([0x60, 0x86, 0x48, 1, 0x65, 3, 4, 2, 3], _)) => Hash::Sha512,
        _ => Hash::Sha256,
    }
}

/// The contents of the DER element at the front, if it has this tag, and what follows it
/// (X.690 §8.1).
pub(crate) fn element(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (&[found, first], mut rest) = der.split_first_chunk::<2>()?;
    if found != tag {
        return None;
    }
    let mut length = usize::from(first);
    if first & 0x80 != 0 {
        let digits = usize::from(first & 0x7f);
        if digits == 0 || digits > 4 {
            return None;
        }
        length = rest.get(..digits)?.iter().fold(0, |length, digit| length << 8 | usize::from(*digit));
        rest = rest.get(digits..)?;
    }
    rest.split_at_checked(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn certificate(algorithm: &'static rcgen::SignatureAlgorithm) -> Vec<u8> {
        let key = rcgen::KeyPair::generate_for(algorithm).unwrap();
        let params = rcgen::CertificateParams::new(vec!["mail.example".to_owned()]).unwrap();
        params.self_signed(&key).unwrap().der().to_vec()
    }

    #[test]
    fn follows_the_signature_of_the_certificate() {
        let p256 = certificate(&rcgen::PKCS_ECDSA_P256_SHA256);
        assert_eq!(server_end_point(&p256).unwrap(), Sha256::digest(&p256).to_vec());
        let p384 = certificate(&rcgen::PKCS_ECDSA_P384_SHA384);
        assert_eq!(server_end_point(&p384).unwrap(), Sha384::digest(&p384).to_vec());
        assert_eq!(server_end_point(&certificate(&rcgen::PKCS_ED25519)), None);
    }

    #[test]
    fn broken_certificates_have_none() {
        let good = certificate(&rcgen::PKCS_ECDSA_P256_SHA256);
        for end in 0..good.len() {
            assert_eq!(signature_hash(&good[..end]), None);
        }
        assert_eq!(signature_hash(&[0x30, 0x80]), None);
        assert_eq!(signature_hash(&[0x30, 0x84, 0xff, 0xff, 0xff, 0xff]), None);
    }

    #[test]
    fn pss_names_its_hash() {
        let sha512 = [0x60, 0x86, 0x48, 1, 0x65, 3, 4, 2, 3];
        let mut der = vec![SEQUENCE, 15, PSS_HASH, 13, SEQUENCE, 11, OID, 9];
        der.extend(sha512);
        assert_eq!(pss_hash(&der), Hash::Sha512);
        assert_eq!(pss_hash(&[SEQUENCE, 0]), Hash::Sha256);
    }

    #[test]
    fn names() {
        for kind in [ChannelBinding::TlsExporter, ChannelBinding::TlsServerEndPoint] {
            assert_eq!(ChannelBinding::from_name(kind.name()), Some(kind));
        }
        assert_eq!(ChannelBinding::from_name("tls-unique"), None);
    }
}
