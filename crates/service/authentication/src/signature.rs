//! The parts that our signatures and seals have in common. These are the choice of covered fields,
//! and the making of a field with a signature.

use aws_lc_rs::digest::{Context, SHA256};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::canonical::{self, Field};
use crate::keys::{Algorithm, KeyError, Pair};

/// Columns of a field's line (RFC 5322 §2.1.1 advises 78).
const LINE_LEN: usize = 76;

/// Fields that are signed (RFC 6376 §5.4.1) and named once more than they are there (§5.4.2): a
/// second `From` or `Subject` that somebody adds breaks the signature (§8.15).
pub(crate) const SEALED: [&str; 13] = [
    "From",
    "To",
    "Cc",
    "Subject",
    "Date",
    "Message-ID",
    "Reply-To",
    "In-Reply-To",
    "References",
    "MIME-Version",
    "Content-Type",
    "Content-Transfer-Encoding",
    "Content-ID",
];
/// The keys of a domain that sign.
pub(crate) struct Ready {
    /// The version of the record that they were read from.
    pub version: u64,
    pub domain: String,
    pub keys: Vec<ReadyKey>,
}

/// One of them.
pub(crate) struct ReadyKey {
    pub selector: String,
    pub algorithm: Algorithm,
    pub pair: Pair,
}

/// The hash of a body (RFC 6376 §3.7).
pub(crate) fn body_hash(body: &[u8]) -> Vec<u8> {
    let mut hash = Context::new(&SHA256);
    canonical::relaxed_body(body, |piece| hash.update(piece));
    hash.finish().as_ref().to_vec()
}

/// The header fields that a signature covers.
pub(crate) struct Covered {
    /// For `h=`.
    pub names: Vec<&'static str>,
    /// The canonical form of the fields.
    pub canonical: Vec<u8>,
}

/// The fields that a signature covers: each name takes the lowest of its fields that is left (RFC
/// 6376 §5.4.2).
pub(crate) fn covered(fields: &[Field<'_>], sealed: &[&'static str], signed: &[&'static str]) -> Covered {
    let (mut names, mut canonical) = (Vec::new(), Vec::new());
    for name in sealed.iter().chain(signed) {
        for field in fields.iter().rev().filter(|field| field.is(name)) {
            names.push(*name);
            canonical::relaxed_field(*field, &mut canonical);
            canonical.extend_from_slice(b"\r\n");
        }
        if sealed.contains(name) {
            names.push(*name);
        }
    }
    Covered { names, canonical }
}

/// A field with a signature over the covered fields and itself, its `b=` empty (RFC 6376 §3.7).
/// `tags` are lines in front of `h=`.
pub(crate) fn sign_field(
    name: &str,
    tags: &[String],
    covered: &Covered,
    body_hash: &str,
    domain: &str,
    pair: &Pair,
) -> Result<String, KeyError> {
    let mut value = tags.join("\r\n\t");
    value += "\r\n\th=";
    let mut column = 2;
    for (at, name) in covered.names.iter().enumerate() {
        if at > 0 {
            value.push(':');
            column += 1;
        }
        if column + name.len() > LINE_LEN {
            value += "\r\n\t ";
            column = 1;
        }
        value += name;
        column += name.len();
    }
    value += &format!(";\r\n\tbh={body_hash};\r\n\tb=");
    let mut text = covered.canonical.clone();
    canonical::relaxed_field(Field { name: name.as_bytes(), value: value.as_bytes() }, &mut text);
    Ok(format!("{name}: {value}{}\r\n", folded(&pair.sign(&text, domain)?)))
}

/// A signature in base64, in lines.
pub(crate) fn folded(signature: &[u8]) -> String {
    let text = STANDARD.encode(signature);
    let mut out = String::new();
    let mut rest = text.as_str();
    while let Some((line, behind)) = rest.split_at_checked(LINE_LEN - 6) {
        out += line;
        out += "\r\n\t ";
        rest = behind;
    }
    out + rest
}
