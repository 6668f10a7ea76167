//! The texts of PLAIN and LOGIN.

use crate::login_error::LoginFailure;

/// `[authzid] UTF8NUL authcid UTF8NUL passwd` (RFC 4616 §2).
pub(super) struct PlainMessage {
    pub authorization: String,
    pub name: String,
    pub password: String,
}

impl PlainMessage {
    pub fn parse(response: &[u8]) -> Result<Self, LoginFailure> {
        let mut fields = response.split(|&b| b == 0);
        let mut field = || fields.next().ok_or(LoginFailure::Malformed("PLAIN has three fields"));
        let (authorization, name, password) = (utf8(field()?)?, text(field()?)?, text(field()?)?);
        if fields.next().is_some() {
            return Err(LoginFailure::Malformed("PLAIN has three fields"));
        }
        Ok(Self { authorization, name, password })
    }
}

/// A name or password: neither can be empty.
pub(super) fn text(octets: &[u8]) -> Result<String, LoginFailure> {
    if octets.is_empty() {
        return Err(LoginFailure::Malformed("name and password cannot be empty"));
    }
    utf8(octets)
}

fn utf8(octets: &[u8]) -> Result<String, LoginFailure> {
    match std::str::from_utf8(octets) {
        Ok(text) if !text.contains('\0') => Ok(text.to_owned()),
        _ => Err(LoginFailure::Malformed("a response must be UTF-8 without NUL")),
    }
}
