//! EXTERNAL: RFC 4422 Appendix A.

use crate::login_error::LoginFailure;

/// `authorization-identity = *UTF8-char-no-nul`; empty: the one that the certificate names.
pub(super) fn authorization(response: &[u8]) -> Result<String, LoginFailure> {
    match std::str::from_utf8(response) {
        Ok(text) if !text.contains('\0') => Ok(text.to_owned()),
        _ => Err(LoginFailure::Malformed("an authorization identity is UTF-8 without NUL")),
    }
}
