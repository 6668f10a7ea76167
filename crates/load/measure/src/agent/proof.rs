//! The proofs of both ends that they know the token.

use std::fs::File;
use std::io::{self, Read as _};

use hmac::{Hmac, Mac};
use sha2::Sha256;

use super::wire::bad;

/// A number that is used once.
pub type Nonce = [u8; 16];

/// The end of a connection.
#[derive(Clone, Copy)]
pub enum End {
    Agent,
    Instrument,
}

/// The nonces of a connection, one of each end. So no end can use a proof of an earlier connection.
pub struct Nonces {
    pub agent: Nonce,
    pub instrument: Nonce,
}

impl Nonces {
    /// The proof of one end, to be sent or to be compared. It is no proof of the other end, so
    /// neither can send back what it got.
    fn mac(&self, end: End, token: &str) -> io::Result<Hmac<Sha256>> {
        let label: &[u8] = match end {
            End::Agent => b"posthaste-load agent",
            End::Instrument => b"posthaste-load instrument",
        };
        let mut mac = Hmac::<Sha256>::new_from_slice(token.as_bytes())
            .map_err(|_| bad("the token is no key for HMAC: pass another --token-file"))?;
        mac.update(label);
        mac.update(&self.agent);
        mac.update(&self.instrument);
        Ok(mac)
    }

    /// The proof of one end, as it is sent.
    pub fn proof(&self, end: End, token: &str) -> io::Result<String> {
        Ok(hex(&self.mac(end, token)?.finalize().into_bytes()))
    }

    /// Whether this is the proof of one end.
    pub fn is_proof(&self, given: &str, end: End, token: &str) -> io::Result<bool> {
        let given = unhex(given).unwrap_or_default();
        // verify_slice compares in constant time.
        Ok(self.mac(end, token)?.verify_slice(&given).is_ok())
    }
}

/// A new nonce.
pub fn nonce() -> io::Result<Nonce> {
    let mut random = Nonce::default();
    File::open("/dev/urandom")?.read_exact(&mut random)?;
    Ok(random)
}

/// The nonce that the other end sent.
pub fn nonce_of(text: &str) -> io::Result<Nonce> {
    let nonce = unhex(text).and_then(|octets| octets.try_into().ok());
    nonce.ok_or_else(|| bad("the other end sent no nonce of 16 octets"))
}

/// Bytes as hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// Hexadecimal digits as bytes.
fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    text.as_bytes().chunks(2).map(digit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_is_of_one_end_and_of_one_connection() {
        let nonces = |agent, instrument| Nonces { agent: [agent; 16], instrument: [instrument; 16] };
        let own = nonces(1, 2);
        let proof = own.proof(End::Agent, "open sesame").unwrap();
        let is_proof = |of: &Nonces, end, token| of.is_proof(&proof, end, token).unwrap();
        assert!(is_proof(&own, End::Agent, "open sesame"));
        assert!(!is_proof(&own, End::Instrument, "open sesame"));
        assert!(!is_proof(&own, End::Agent, "sesame"));
        for other in [nonces(3, 2), nonces(1, 3), nonces(2, 1)] {
            assert!(!is_proof(&other, End::Agent, "open sesame"));
        }
        for none in ["", "0", "zz", &proof[2..]] {
            assert!(!own.is_proof(none, End::Agent, "open sesame").unwrap());
        }
        assert_ne!(nonce().unwrap(), nonce().unwrap());
        assert_eq!(nonce_of(&hex(&[7; 16])).unwrap(), [7; 16]);
        assert!(nonce_of(&hex(&[7; 15])).is_err() && nonce_of("").is_err());
    }
}
